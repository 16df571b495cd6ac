//! The sink of wharf that needs no heap.

use wharf_sync::SyncPolicy;
use wharf_tensor::{TraceEvent, TraceKind, TraceRing, TraceSink};

use crate::check::{Demand, ensure, equal};
use crate::{Check, Failure, Outcome, Report, Subject, Tally, run as run_checks};

/// Room for three events.
type Ring<P> = TraceRing<P, 3>;

/// Makes a ring, for each check one of its own.
type Make<P> = fn() -> Ring<P>;

#[inline(never)]
pub(super) fn run<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    let subject = Subject {
        policy: P::NAME,
        suite: "trace",
        name: "TraceRing",
    };
    let checks: [Check<Make<P>>; 3] = [
        Check {
            name: "events come out in their order",
            run: |make| in_order(&make()),
        },
        Check {
            name: "a full ring loses the oldest, and counts it",
            run: |make| full(&make()),
        },
        Check {
            name: "a drain ends with what was there when it began",
            run: |make| drained(&make()),
        },
    ];
    let make: Make<P> = Ring::new;
    run_checks(subject, &make, &checks, report)
}

fn tell<P: SyncPolicy>(ring: &Ring<P>, bytes: core::ops::RangeInclusive<u64>) {
    bytes.for_each(|bytes| ring.record(TraceEvent::instant(TraceKind::Alloc, 0x40, bytes)));
}

/// The next event is this one.
fn next<P: SyncPolicy>(ring: &Ring<P>, number: u64, bytes: u64) -> Result<(), Failure> {
    let record = ring.pop().demand("an event")?;
    equal("its number", record.number, number)?;
    equal("its bytes", record.event.bytes, bytes)
}

fn in_order<P: SyncPolicy>(ring: &Ring<P>) -> Outcome {
    ensure(
        ring.is_empty() && ring.pop().is_none(),
        "it is empty at first",
    )?;
    // Around its end more than once.
    for round in 0..4 {
        tell(ring, 2 * round..=2 * round + 1);
        equal("events that are there", ring.len(), 2)?;
        next(ring, 2 * round, 2 * round)?;
        next(ring, 2 * round + 1, 2 * round + 1)?;
    }
    equal("events that were told", ring.recorded(), 8)?;
    equal("events that were lost", ring.dropped(), 0)?;
    Ok(())
}

fn full<P: SyncPolicy>(ring: &Ring<P>) -> Outcome {
    tell(ring, 1..=5);
    equal("events that are there", ring.len(), 3)?;
    equal("events that were lost", ring.dropped(), 2)?;
    // The gap in the numbers says how many.
    next(ring, 2, 3)?;
    tell(ring, 6..=7);
    equal("events that were lost", ring.dropped(), 3)?;
    next(ring, 4, 5)?;
    next(ring, 5, 6)?;
    next(ring, 6, 7)?;
    ensure(ring.pop().is_none(), "nothing is left")?;
    Ok(())
}

fn drained<P: SyncPolicy>(ring: &Ring<P>) -> Outcome {
    tell(ring, 1..=2);
    let mut drain = ring.drain();
    tell(ring, 3..=3);
    let mut bytes = || drain.next().map(|record| record.event.bytes);
    ensure(
        bytes() == Some(1) && bytes() == Some(2),
        "it gives what was there",
    )?;
    ensure(bytes().is_none(), "it does not give what came later")?;
    equal("events that are there still", ring.len(), 1)?;
    Ok(())
}
