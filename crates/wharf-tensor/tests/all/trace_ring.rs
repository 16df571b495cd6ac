//! The ring of the last events, against a queue without bounds.

use std::cell::Cell;
use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;
use wharf_sync::{Blocking, Clock, Critical, Unsync};
use wharf_tensor::{TraceEvent, TraceKind, TraceRecord, TraceRing, TraceSink};

fn event(bytes: u64) -> TraceEvent {
    TraceEvent::instant(TraceKind::Alloc, 0x40, bytes)
}

/// Ticks whenever it is read.
#[derive(Default)]
struct Ticks(Cell<u64>);

impl Clock for Ticks {
    fn now(&self) -> Duration {
        self.0.set(self.0.get() + 1);
        Duration::from_secs(self.0.get())
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Record,
    Pop,
    Drain(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => Just(Step::Record),
        2 => Just(Step::Pop),
        1 => (0..7_usize).prop_map(Step::Drain),
    ];
    proptest::collection::vec(step, 0..60)
}

fn agrees<const N: usize>(steps: &[Step]) -> Result<(), TestCaseError> {
    let ring = TraceRing::<Unsync, N, _>::with_clock(Ticks::default());
    let (mut model, mut recorded, mut dropped) = (VecDeque::new(), 0, 0);
    for &step in steps {
        match step {
            Step::Record => {
                ring.record(event(recorded * 10));
                model.push_back(TraceRecord {
                    number: recorded,
                    at: Duration::from_secs(recorded + 1),
                    event: event(recorded * 10),
                });
                recorded += 1;
                if model.len() > N {
                    model.pop_front();
                    dropped += 1;
                }
            }
            Step::Pop => prop_assert_eq!(ring.pop(), model.pop_front()),
            Step::Drain(most) => {
                let taken: Vec<_> = ring.drain().take(most).collect();
                let expected: Vec<_> = model.drain(..most.min(model.len())).collect();
                prop_assert_eq!(taken, expected);
            }
        }
        prop_assert_eq!(
            (ring.len(), ring.is_empty()),
            (model.len(), model.is_empty())
        );
        prop_assert_eq!((ring.recorded(), ring.dropped()), (recorded, dropped));
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_ring_keeps_the_last_events_and_counts_the_others(steps in steps()) {
        agrees::<0>(&steps)?;
        agrees::<1>(&steps)?;
        agrees::<5>(&steps)?;
    }
}

#[test]
fn a_drain_ends_although_events_keep_coming() {
    let ring = TraceRing::<Unsync, 4>::new();
    (0..3).for_each(|bytes| ring.record(event(bytes)));
    let mut taken = Vec::new();
    assert_eq!(ring.drain().size_hint(), (0, Some(3)));
    for record in ring.drain() {
        taken.push(record.number);
        // Two come for each that is taken: one that was to be drained is overwritten.
        ring.record(event(9));
        ring.record(event(9));
    }
    // The first; then 3 and 4 came, of four; then 1, and 5 and 6 came over 2.
    assert_eq!(taken, [0, 1]);
    assert_eq!((ring.recorded(), ring.dropped(), ring.len()), (7, 1, 4));
    assert_eq!(ring.drain().next().map(|record| record.number), Some(3));
    // What was not asked for stays.
    assert_eq!(ring.len(), 3);
}

#[test]
fn a_static_ring_is_told_by_many_threads_and_loses_count_of_none() {
    static RING: TraceRing<Critical, 16> = TraceRing::empty();
    const EACH: u64 = 500;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || (0..EACH).for_each(|nth| RING.record(event(thread * EACH + nth))));
        }
        scope.spawn(|| {
            let mut last = None;
            for _ in 0..200 {
                for record in RING.drain() {
                    assert!(last < Some(record.number), "numbers go up");
                    last = Some(record.number);
                }
            }
        });
    });
    assert_eq!(RING.recorded(), 4 * EACH);
    assert!(RING.len() <= 16 && RING.dropped() <= 4 * EACH);
    let rest: Vec<_> = RING.drain().map(|record| record.number).collect();
    let expected: Vec<_> = (4 * EACH - rest.len() as u64..4 * EACH).collect();
    assert_eq!(rest, expected, "the last ones, without a gap");
}

#[test]
fn a_slot_is_as_large_as_the_page_says() {
    #[cfg(target_pointer_width = "64")]
    {
        let of = |slots: usize| slots * 64;
        let size = |with: usize, without: usize| with - without;
        let ten = size_of::<TraceRing<Unsync, 10>>();
        assert_eq!(size(ten, size_of::<TraceRing<Unsync, 0>>()), of(10));
    }
}

#[test]
fn it_is_shared_as_its_policy_allows() {
    const fn shared<T: Send + Sync>() {}
    shared::<TraceRing<Critical, 4>>();
    shared::<TraceRing<Blocking, 4>>();
    // And sent, not shared, under `Unsync`: `auto_traits.rs` of `wharf-sync` says so of its lock.
    const fn sent<T: Send>() {}
    sent::<TraceRing<Unsync, 4>>();
}
