//! Work for engines, and the counts of what they completed: nothing of it allocates. What is under way lies in the slots of the engine.

use std::time::Duration;

use super::bench::{FIRST, ready};
use super::{Row, nothing};
use wharf_engine::Command;
use wharf_tensor::{Launch, Tickets};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(3600);

pub(super) const ROWS: &[Row] = &[
    nothing(
        "launches and their submissions",
        &[
            "launch::submission::poll",
            "launch::submission::wait",
            "launch::submission::wait_within",
            "launch::submission::wait_until",
            "launch::submission::into_sequence",
            "launch::submission::abort",
        ],
        |bench| {
            let (engine, tensor) = (&bench.engines[0], &bench.first);
            let fill = |byte| {
                engine
                    .launch(Command::Fill(byte), &[tensor.output()])
                    .unwrap()
            };
            fill(1).wait().unwrap();
            fill(2).wait_within(LONG).unwrap();
            fill(3).wait_until(Duration::MAX).unwrap();
            ready(fill(4)).unwrap();
            while fill(5).poll(None).is_pending() {}
            fill(6).abort();
            fill(7).into_sequence();
            // What nobody keeps is done all the same.
            drop(fill(8));
            let uses = [tensor.output()];
            engine
                .try_launch(Command::Fill(9), &uses)
                .unwrap()
                .wait()
                .unwrap();
            let within = engine.launch_within(LONG, Command::Fill(10), &uses);
            within.unwrap().wait().unwrap();
            let launching = engine.launch_when_ready(Command::Fill(11), &uses);
            ready(ready(launching).unwrap()).unwrap();
            assert_eq!(*tensor.lend()?, [11; 8]);
            // A copy of what is read-only, by the engine.
            let operands = [bench.rom.input(), tensor.output()];
            engine
                .launch(Command::Copy, &operands)
                .unwrap()
                .wait()
                .unwrap();
            assert_eq!(*tensor.lend()?, *b"in flash");
            // And one that no engine takes: all that was taken for it goes back.
            let refused = engine.launch(Command::Copy, &[tensor.output()]);
            assert!(refused.is_err());
            assert_eq!(tensor.in_flight(), (0, 0));
            Ok(())
        },
    ),
    nothing(
        "several tickets at once",
        &[
            "tickets::begin",
            "tickets::try_begin",
            "tickets::begin_within",
            "tickets::begin_when_ready",
            "tickets::land",
            "tickets::iter",
        ],
        |bench| {
            let (stream, count) = (bench.stream.id(), bench.second.completions().unwrap());
            let uses = [
                bench.first.input(),
                bench.second.output(),
                bench.rom.input(),
            ];
            let tickets = [
                Tickets::begin(stream, &uses).unwrap(),
                Tickets::try_begin(stream, &uses).unwrap(),
                Tickets::begin_within(LONG, stream, &uses).unwrap(),
                ready(Tickets::begin_when_ready(stream, &uses)).unwrap(),
            ];
            assert_eq!(
                (bench.first.in_flight(), bench.second.in_flight()),
                ((4, 0), (0, 4))
            );
            for tickets in tickets {
                assert_eq!(tickets.iter().count(), 3);
                tickets.land(Ok(()));
            }
            assert_eq!(count.reset(), 4);
            Ok(())
        },
    ),
    nothing(
        "completion counts",
        &[
            "completion::completions",
            "completion::complete",
            "completion::count",
            "completion::reset",
            "completion::try_wait_for",
            "completion::wait_for",
            "completion::wait_for_within",
        ],
        |bench| {
            let count = || bench.first.completions().unwrap();
            count().complete();
            assert_eq!((count().count(), ready(count().reached(2))), (2, 2));
            count().try_wait_for(2).unwrap();
            count().wait_for(1).unwrap();
            count().wait_for_within(2, LONG).unwrap();
            assert!(count().wait_for_within(3, Duration::ZERO).is_err());
            assert_eq!(count().reset(), 2);
            assert!(bench.rom.completions().is_none());
            assert_eq!(*bench.first.lend()?, FIRST);
            Ok(())
        },
    ),
];
