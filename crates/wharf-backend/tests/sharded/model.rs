//! Against a plain model, step by step: which slot, whose bytes, what census, whoever does it.

use core::mem::MaybeUninit;

use proptest::prelude::*;
use wharf_backend::{
    AllocError, BackendRef, Census, MemBackend, SegmentMut, ShardedPool, SlotControl,
};
use wharf_sync::{Blocking, Critical, SyncPolicy, Unsync};

use crate::posted::{Posted, stand_at};

const PAYLOAD: usize = 20;
const STRIDE: usize = 32;

#[derive(Clone, Debug)]
enum Step {
    Alloc(usize),
    /// Drops the live segment with this index, modulo how many there are.
    Drop(usize),
    /// Takes one apart and puts it together again.
    RoundTrip(usize),
}

/// Each with the context that takes it.
fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let size = prop_oneof![
        8 => 0..=PAYLOAD,
        1 => PAYLOAD + 1..=PAYLOAD + 40,
        1 => usize::MAX - 20..=usize::MAX,
    ];
    let step = prop_oneof![
        6 => size.prop_map(Step::Alloc),
        5 => any::<usize>().prop_map(Step::Drop),
        1 => any::<usize>().prop_map(Step::RoundTrip),
    ];
    prop::collection::vec((0..7usize, step), 0..160)
}

struct Held<R: BackendRef> {
    segment: SegmentMut<R>,
    slot: usize,
    stamp: Vec<u8>,
}

#[derive(Clone, Default)]
struct Shard {
    near: Vec<usize>,
    far: Vec<usize>,
    carved: usize,
}

/// What the pool must do, in the plainest way.
struct Model {
    shards: Vec<Shard>,
    slots: usize,
    per_shard: usize,
    census: Census,
}

impl Model {
    fn new(shards: usize, slots: usize) -> Self {
        Self {
            shards: vec![Shard::default(); shards],
            slots,
            per_shard: slots.div_ceil(shards),
            census: Census {
                unit: STRIDE,
                capacity: slots,
                ..Census::NOTHING
            },
        }
    }

    /// The slot that `who` gets.
    fn take(&mut self, who: usize, size: usize) -> Result<usize, AllocError> {
        let refusal = if size > PAYLOAD {
            AllocError::TooLarge {
                requested: size,
                max: PAYLOAD,
            }
        } else {
            let count = self.shards.len();
            for step in 0..count {
                let index = (who + step) % count;
                if let Some(slot) = self.take_of(index) {
                    self.census.in_use += 1;
                    return Ok(slot);
                }
            }
            let all = self.slots * STRIDE;
            AllocError::Exhausted {
                requested: size,
                in_use: all,
                capacity: all,
            }
        };
        self.census.refused += 1;
        self.census.largest_refused = self.census.largest_refused.max(size);
        Err(refusal)
    }

    fn take_of(&mut self, index: usize) -> Option<usize> {
        let first = index * self.per_shard;
        let shard = &mut self.shards[index];
        if shard.near.is_empty() {
            shard.near = core::mem::take(&mut shard.far);
        }
        if let Some(slot) = shard.near.pop() {
            return Some(slot);
        }
        let fresh = first + shard.carved;
        if shard.carved == self.per_shard || fresh >= self.slots {
            return None;
        }
        shard.carved += 1;
        self.census.peak += 1;
        Some(fresh)
    }

    fn put(&mut self, who: usize, slot: usize) {
        let home = slot / self.per_shard;
        let mine = who % self.shards.len();
        let shard = &mut self.shards[home];
        if home == mine {
            shard.near.push(slot);
        } else {
            shard.far.push(slot);
        }
        self.census.in_use -= 1;
    }
}

fn run<R: BackendRef + Copy>(backend: R, mut model: Model, steps: &[(usize, Step)]) {
    let pool = backend.backend();
    let mut held: Vec<Held<R>> = Vec::new();
    let mut base = None;
    for (turn, (who, step)) in steps.iter().enumerate() {
        stand_at(*who);
        match *step {
            Step::Alloc(size) => match (SegmentMut::alloc(backend, size), model.take(*who, size)) {
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
                let header = gone.segment.header_ptr();
                model.put(*who, gone.slot);
                drop(gone);
                assert!(!pool.may_own(header), "stale after step {turn}");
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
            let base = *base.get_or_insert(address - slot * STRIDE);
            assert_eq!(address, base + slot * STRIDE, "the wrong slot");
            assert_eq!(address % 32, 0);
        }
        assert_eq!(pool.census(), model.census, "after step {turn}: {step:?}");
    }
    drop(held);
    assert_eq!(pool.census().in_use, 0);
}

/// One sequence of steps, by the pool's type and erased.
fn both_routes<P: SyncPolicy, const SHARDS: usize>(slots: usize, steps: &[(usize, Step)]) {
    for erased in [false, true] {
        // An odd base, and a slot too much at the end.
        let mut slab = vec![MaybeUninit::uninit(); STRIDE * (slots + 1) + 31];
        let mut control: Vec<_> = (0..slots)
            .map(|_| SlotControl::<Posted<P>>::new())
            .collect();
        let pool =
            ShardedPool::<_, SHARDS>::new(&mut slab[1..], &mut control, PAYLOAD, 32).unwrap();
        let model = Model::new(SHARDS, slots);
        if erased {
            run::<&dyn MemBackend<Policy = Posted<P>>>(&pool, model, steps);
        } else {
            run(&pool, model, steps);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn shards_do_what_the_model_does(steps in steps()) {
        both_routes::<Unsync, 4>(11, &steps);
        both_routes::<Critical, 3>(6, &steps);
        both_routes::<Blocking, 3>(7, &steps);
        #[cfg(feature = "spin")]
        both_routes::<wharf_sync::Spin, 2>(9, &steps);
        // One list, and more shards than slots.
        both_routes::<Unsync, 1>(5, &steps);
        both_routes::<Unsync, 5>(3, &steps);
    }
}
