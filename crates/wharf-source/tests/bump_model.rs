//! Bump sources against a plain model, which predicts every address, every number and every refusal,
//! while stamps in the blocks show that nobody else writes there.

mod common;

use common::{Ledger, Slab};
use core::alloc::Layout;
use core::mem::MaybeUninit;

use proptest::prelude::*;
use wharf_source::{Block, BlockSource, BumpSource, Census, FaultSource, SourceError};

const BYTES: usize = 512;

#[derive(Clone, Debug)]
enum Op {
    Take(usize, u32),
    /// Drops one of the live blocks, picked by a number.
    Give(usize),
}

/// What happens between two resets.
fn rounds() -> impl Strategy<Value = Vec<Vec<Op>>> {
    let size = prop_oneof![
        6 => 0..100usize,
        1 => 400..600usize,
        1 => (isize::MAX as usize - 4096)..=(isize::MAX as usize - 4095),
    ];
    let op = prop_oneof![
        3 => (size, 0..8u32).prop_map(|(size, log)| Op::Take(size, log)),
        1 => any::<usize>().prop_map(Op::Give),
    ];
    prop::collection::vec(prop::collection::vec(op, 1..20), 1..5)
}

#[derive(Default)]
struct Model {
    base: usize,
    capacity: usize,
    carved: usize,
    peak: usize,
    refused: usize,
    largest_refused: usize,
    spilled: usize,
}

impl Model {
    fn fits(&self, carved: usize, layout: Layout) -> Option<(usize, usize)> {
        let start = (self.base + carved).next_multiple_of(layout.align()) - self.base;
        let end = start.checked_add(layout.size())?;
        (end <= self.capacity).then_some((start, end))
    }

    /// Where the block is in the buffer, if it has room.
    fn take(&mut self, layout: Layout) -> Option<usize> {
        let (start, end) = self.fits(self.carved, layout)?;
        self.carved = end;
        self.peak = self.peak.max(end);
        Some(start)
    }

    fn cause(&self, layout: Layout) -> SourceError {
        let requested = layout.size();
        match self.fits(0, layout) {
            Some(_) => SourceError::Exhausted {
                requested,
                available: self.capacity - self.carved,
            },
            None => SourceError::TooLarge {
                requested,
                capacity: self.capacity,
            },
        }
    }

    fn census(&self) -> Census {
        Census {
            unit: 1,
            capacity: self.capacity,
            in_use: self.carved,
            peak: self.peak,
            refused: self.refused,
            dropped: 0,
            largest_refused: self.largest_refused,
        }
    }
}

fn bears<S: BlockSource>(block: &mut Block<S>, stamp: u8) -> bool {
    block
        .as_uninit_mut()
        .iter()
        // SAFETY: every live block was stamped.
        .all(|byte| unsafe { byte.assume_init() } == stamp)
}

/// `upstream_meets` says what the upstream will do with the next request of these bytes.
fn run<U: BlockSource>(
    mut source: BumpSource<'_, U>,
    (base, capacity): (usize, usize),
    rounds: Vec<Vec<Op>>,
    mut upstream_meets: impl FnMut(usize) -> bool,
) -> Result<(), TestCaseError> {
    let mut model = Model {
        base,
        capacity,
        ..Model::default()
    };
    let mut stamp = 0u8;
    for round in rounds {
        let mut live = Vec::new();
        for op in round {
            match op {
                Op::Take(size, log) => {
                    let Ok(layout) = Layout::from_size_align(size, 1 << log) else {
                        continue;
                    };
                    let got = Block::new(&source, layout);
                    let inside = |block: &Block<_>| {
                        let offset = block.as_ptr().addr().get().wrapping_sub(base);
                        (offset < capacity).then_some(offset)
                    };
                    if size == 0 {
                        prop_assert_eq!(got.unwrap().as_ptr().addr().get(), layout.align());
                    } else if let Some(offset) = model.take(layout) {
                        let mut block = got.unwrap();
                        prop_assert_eq!(inside(&block), Some(offset));
                        stamp = stamp.wrapping_add(1);
                        block.as_uninit_mut().fill(MaybeUninit::new(stamp));
                        live.push((block, stamp));
                    } else if upstream_meets(size) {
                        model.spilled += 1;
                        let mut block = got.unwrap();
                        prop_assert_eq!(inside(&block), None);
                        stamp = stamp.wrapping_add(1);
                        block.as_uninit_mut().fill(MaybeUninit::new(stamp));
                        live.push((block, stamp));
                    } else {
                        model.refused += 1;
                        model.largest_refused = model.largest_refused.max(size);
                        let error = got.err().unwrap();
                        if !matches!(error, SourceError::Injected { .. }) {
                            prop_assert_eq!(error, model.cause(layout));
                        }
                    }
                }
                Op::Give(pick) if !live.is_empty() => {
                    let (mut block, mark) = live.swap_remove(pick % live.len());
                    prop_assert!(bears(&mut block, mark), "somebody wrote into a live block");
                }
                Op::Give(_) => {}
            }
            prop_assert_eq!(source.census(), model.census());
            prop_assert_eq!(source.remaining(), model.capacity - model.carved);
            prop_assert_eq!(source.spilled(), model.spilled);
        }
        for (block, mark) in &mut live {
            prop_assert!(bears(block, *mark), "somebody wrote into a live block");
        }
        drop(live);
        source.reset();
        model.carved = 0;
        prop_assert_eq!(source.census(), model.census());
    }
    Ok(())
}

proptest! {
    #[test]
    fn alone(skip in 0..64usize, len in 0..=BYTES, rounds in rounds()) {
        let mut slab = Slab::<{ BYTES + 64 }>::new();
        let place = (slab.base() + skip, len);
        run(BumpSource::new(&mut slab.0[skip..][..len]), place, rounds, |_| false)?;
    }

    #[test]
    fn with_an_upstream_that_fails_now_and_then(
        skip in 0..64usize,
        len in 0..=BYTES,
        every in 0..4u64,
        rounds in rounds(),
    ) {
        let ledger = Ledger::default();
        let upstream = FaultSource::<_>::new(&ledger);
        upstream.fail_every(every);
        let mut calls = 0;
        let mut slab = Slab::<{ BYTES + 64 }>::new();
        let place = (slab.base() + skip, len);
        let source = BumpSource::with_upstream(&mut slab.0[skip..][..len], &upstream);
        run(source, place, rounds.into_iter().map(|round| {
            // What no allocator has is left to the test without an upstream.
            round.into_iter().filter(|op| !matches!(op, Op::Take(size, _) if *size > 1 << 20)).collect()
        }).collect(), |_| {
            calls += 1;
            every == 0 || calls % every != 0
        })?;
        prop_assert!(ledger.is_balanced(), "every spill went back");
        prop_assert_eq!(upstream.calls(), calls);
    }
}
