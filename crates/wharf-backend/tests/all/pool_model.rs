//! The pool against a plain model, step by step: which slot, whose bytes, what census.
#![cfg(feature = "critical-section")]

use core::mem::MaybeUninit;

use proptest::prelude::*;
use wharf_backend::{
    AllocError, BackendRef, Census, MemBackend, PoolBackend, SegmentMut, SlotControl, StaticPool,
};
use wharf_sync::{ConstInit, Critical, SyncPolicy, Unsync};

const PAYLOAD: usize = 20;
const SLOTS: usize = 5;

#[derive(Clone, Debug)]
enum Step {
    Alloc(usize),
    /// Drops the live segment with this index, modulo how many there are.
    Drop(usize),
    /// Takes one apart and puts it together again.
    RoundTrip(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![
        8 => 0..=PAYLOAD,
        1 => PAYLOAD + 1..=PAYLOAD + 40,
        1 => usize::MAX - 20..=usize::MAX,
    ];
    let step = prop_oneof![
        5 => size.prop_map(Step::Alloc),
        4 => any::<usize>().prop_map(Step::Drop),
        1 => any::<usize>().prop_map(Step::RoundTrip),
    ];
    prop::collection::vec(step, 0..120)
}

/// A segment, the slot that the model expects it in, and the owner's mark in every byte.
struct Held<R: BackendRef> {
    segment: SegmentMut<R>,
    slot: usize,
    stamp: Vec<u8>,
}

/// What the pool must do, in the plainest way.
struct Model {
    recycled: Vec<usize>,
    census: Census,
}

impl Model {
    fn take(&mut self, size: usize) -> Result<usize, AllocError> {
        let refusal = if size > PAYLOAD {
            AllocError::TooLarge {
                requested: size,
                max: PAYLOAD,
            }
        } else if let Some(slot) = self.recycled.pop() {
            self.census.in_use += 1;
            return Ok(slot);
        } else if self.census.peak < SLOTS {
            self.census.in_use += 1;
            self.census.peak += 1;
            return Ok(self.census.peak - 1);
        } else {
            AllocError::Exhausted {
                requested: size,
                in_use: SLOTS * self.census.unit,
                capacity: SLOTS * self.census.unit,
            }
        };
        self.census.refused += 1;
        self.census.largest_refused = self.census.largest_refused.max(size);
        Err(refusal)
    }

    fn put(&mut self, slot: usize) {
        self.recycled.push(slot);
        self.census.in_use -= 1;
    }
}

fn run<R: BackendRef + Copy>(backend: R, stride: usize, align: usize, steps: &[Step]) {
    let pool = backend.backend();
    let mut model = Model {
        recycled: Vec::new(),
        census: Census {
            unit: stride,
            capacity: SLOTS,
            ..Census::NOTHING
        },
    };
    let mut held: Vec<Held<R>> = Vec::new();
    let mut base = None;
    for (turn, step) in steps.iter().enumerate() {
        match *step {
            Step::Alloc(size) => match (SegmentMut::alloc(backend, size), model.take(size)) {
                (Ok(segment), Ok(slot)) => {
                    #[expect(clippy::cast_possible_truncation, reason = "a mark, not a number")]
                    let stamp: Vec<u8> = (0..size).map(|at| (turn * 37 + at) as u8).collect();
                    let segment = segment.init_from(&stamp).unwrap();
                    held.push(Held {
                        segment,
                        slot,
                        stamp,
                    });
                }
                (Err(answer), Err(expected)) => assert_eq!(answer, expected),
                (answer, expected) => panic!("{answer:?}, and the model says {expected:?}"),
            },
            Step::Drop(index) if !held.is_empty() => {
                let gone = held.remove(index % held.len());
                model.put(gone.slot);
            }
            Step::RoundTrip(index) if !held.is_empty() => {
                let place = index % held.len();
                let Held {
                    segment,
                    slot,
                    stamp,
                } = held.remove(place);
                let (header, reference) = segment.into_raw();
                // SAFETY: from `into_raw` of an initialised handle just above.
                let segment = unsafe { SegmentMut::from_raw(header, reference) }.unwrap();
                held.push(Held {
                    segment,
                    slot,
                    stamp,
                });
            }
            Step::Drop(_) | Step::RoundTrip(_) => {}
        }
        for Held {
            segment,
            slot,
            stamp,
        } in &held
        {
            let bytes = segment.host().unwrap();
            assert_eq!(bytes, stamp, "bytes of slot {slot} after step {turn}");
            let address = bytes.as_ptr().addr();
            let base = *base.get_or_insert(address - slot * stride);
            assert_eq!(address, base + slot * stride, "the wrong slot");
            assert_eq!(address % align, 0);
        }
        assert_eq!(pool.census(), model.census, "after step {turn}: {step:?}");
    }
    drop(held);
    assert_eq!(pool.census().in_use, 0);
}

/// One sequence of steps on both kinds of pool, each by its type and erased.
fn all_routes<P: SyncPolicy>(steps: &[Step])
where
    P::Lock<wharf_backend::FreeList>: ConstInit,
    P::Count: ConstInit,
{
    // An odd base, and less than one slot too much at the end.
    let lent = |run: &dyn Fn(&PoolBackend<'_, P>)| {
        let mut slab = [MaybeUninit::uninit(); 32 * (SLOTS + 1)];
        let mut control = [const { SlotControl::NEW }; SLOTS];
        run(&PoolBackend::new(&mut slab[1..], &mut control, PAYLOAD, 32).unwrap());
    };
    lent(&|pool| run(pool, 32, 32, steps));
    lent(&|pool| run::<&dyn MemBackend<Policy = P>>(pool, 32, 32, steps));
    let built_in = StaticPool::<P, PAYLOAD, SLOTS>::new();
    run(&built_in, 24, 8, steps);
    let built_in = StaticPool::<P, PAYLOAD, SLOTS>::new();
    run::<&dyn MemBackend<Policy = P>>(&built_in, 24, 8, steps);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pools_do_what_the_model_does(steps in steps()) {
        all_routes::<Unsync>(&steps);
        all_routes::<Critical>(&steps);
        #[cfg(feature = "std")]
        all_routes::<wharf_sync::Blocking>(&steps);
        #[cfg(feature = "spin")]
        all_routes::<wharf_sync::Spin>(&steps);
    }
}
