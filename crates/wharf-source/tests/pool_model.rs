//! Pools against a plain model, which predicts every address, every number and every refusal, while
//! stamps in the blocks show that nobody else writes there.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::collections::HashMap;

use proptest::prelude::*;
use wharf_source::{
    Block, BlockSource, Census, PoolSource, SizeClass, SourceError, StaticPoolSource,
};
use wharf_sync::{SyncPolicy, Unsync};

const BYTES: usize = 1024;
const CLASSES: usize = 5;
const WORD: usize = size_of::<usize>();

#[derive(Clone, Debug)]
enum Op {
    Take(usize, u32),
    /// Releases one of the live blocks, picked by a number.
    Give(usize),
    /// Releases what is not a block: so far from the slab's beginning, before it or from it on.
    Stray(isize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let size = prop_oneof![
        6 => prop::sample::select(vec![8usize, 16, 24, 64]),
        3 => 0..200usize,
        1 => 900..1200usize,
        1 => (isize::MAX as usize - 4096)..=(isize::MAX as usize - 4095),
    ];
    let op = prop_oneof![
        5 => (size, prop_oneof![3 => Just(3u32), 2 => 0..8u32]).prop_map(|(s, a)| Op::Take(s, a)),
        4 => any::<usize>().prop_map(Op::Give),
        1 => prop_oneof![-2048..-200isize, 1024..4096isize].prop_map(Op::Stray),
    ];
    prop::collection::vec(op, 1..120)
}

/// What a pool should do.
#[derive(Default)]
struct Model {
    base: usize,
    capacity: usize,
    carved: usize,
    lists: HashMap<(usize, usize), Vec<usize>>,
    refused: usize,
    largest_refused: usize,
    overflowed: usize,
    foreign: usize,
}

impl Model {
    fn shape(layout: Layout) -> (usize, usize) {
        let align = layout.align().max(WORD);
        (layout.size().max(WORD).next_multiple_of(align), align)
    }

    fn fresh(&self, carved: usize, (size, align): (usize, usize)) -> Option<(usize, usize)> {
        let start = (self.base + carved).next_multiple_of(align) - self.base;
        let end = start.checked_add(size)?;
        (end <= self.capacity).then_some((start, end))
    }

    /// The offset of the block, or the error.
    fn take(&mut self, layout: Layout) -> Result<usize, SourceError> {
        let shape = Self::shape(layout);
        if let Some(offset) = self.lists.get_mut(&shape).and_then(Vec::pop) {
            return Ok(offset);
        }
        if let Some((start, end)) = self.fresh(self.carved, shape) {
            self.carved = end;
            return Ok(start);
        }
        self.refused += 1;
        let requested = layout.size();
        self.largest_refused = self.largest_refused.max(requested);
        Err(match self.fresh(0, shape) {
            Some(_) => SourceError::Exhausted {
                requested,
                available: self.capacity - self.carved,
            },
            None => SourceError::TooLarge {
                requested,
                capacity: self.capacity,
            },
        })
    }

    fn give(&mut self, offset: usize, layout: Layout) {
        let shape = Self::shape(layout);
        if !self.lists.contains_key(&shape) && self.lists.len() == CLASSES {
            self.overflowed += 1;
            return;
        }
        self.lists.entry(shape).or_default().push(offset);
    }

    fn census(&self) -> Census {
        Census {
            unit: 1,
            capacity: self.capacity,
            in_use: self.carved,
            peak: self.carved,
            refused: self.refused,
            dropped: 0,
            largest_refused: self.largest_refused,
        }
    }
}

/// Who owns a block: the stamp that all its bytes bear.
fn stamp<S: BlockSource>(block: &mut Block<S>, stamp: u8) {
    block.as_uninit_mut().fill(MaybeUninit::new(stamp));
}

fn bears<S: BlockSource>(block: &mut Block<S>, stamp: u8) -> bool {
    block
        .as_uninit_mut()
        .iter()
        // SAFETY: every live block was stamped.
        .all(|byte| unsafe { byte.assume_init() } == stamp)
}

fn run<S: BlockSource + Copy>(
    source: S,
    base: usize,
    capacity: usize,
    // classes_used, overflowed, foreign
    counts: impl Fn() -> [usize; 3],
    ops: Vec<Op>,
) -> Result<(), TestCaseError> {
    let mut model = Model {
        base,
        capacity,
        ..Model::default()
    };
    let mut live: Vec<(Block<S>, u8)> = Vec::new();
    for (step, op) in ops.into_iter().enumerate() {
        match op {
            Op::Take(size, log) => {
                let Ok(layout) = Layout::from_size_align(size, 1 << log) else {
                    continue;
                };
                let got = Block::new(source, layout);
                if size == 0 {
                    prop_assert_eq!(got.unwrap().as_ptr().addr().get(), layout.align());
                } else {
                    let offset = |block: &Block<S>| block.as_ptr().addr().get() - base;
                    prop_assert_eq!(got.as_ref().map(offset).map_err(|e| *e), model.take(layout));
                    if let Ok(mut block) = got {
                        prop_assert_eq!(block.as_ptr().addr().get() % layout.align(), 0);
                        let start = offset(&block);
                        for (other, _) in &live {
                            let end = offset(other) + other.layout().size();
                            prop_assert!(end <= start || start + size <= offset(other));
                        }
                        let mark = u8::try_from(step % 251).unwrap();
                        stamp(&mut block, mark);
                        live.push((block, mark));
                    }
                }
            }
            Op::Give(pick) if !live.is_empty() => {
                let (mut block, mark) = live.swap_remove(pick % live.len());
                prop_assert!(bears(&mut block, mark), "somebody wrote into a live block");
                model.give(block.as_ptr().addr().get() - base, block.layout());
            }
            Op::Give(_) => {}
            Op::Stray(distance) => {
                let Some(address) = base.checked_add_signed(distance) else {
                    continue;
                };
                let stray = NonNull::without_provenance(address.try_into().unwrap());
                // SAFETY: none: it breaks the promise, in a way that the pool says it recognises.
                unsafe { source.release(stray, Layout::new::<[u8; 64]>()) };
                model.foreign += 1;
            }
        }
        prop_assert_eq!(source.census(), model.census());
        let expected = [model.lists.len(), model.overflowed, model.foreign];
        prop_assert_eq!(counts(), expected);
    }
    for (block, mark) in &mut live {
        prop_assert!(bears(block, *mark), "somebody wrote into a live block");
    }
    Ok(())
}

#[repr(align(128))]
struct Slab([MaybeUninit<u8>; BYTES + 64]);

fn borrowed<P: SyncPolicy>(skip: usize, len: usize, ops: Vec<Op>) -> Result<(), TestCaseError> {
    let mut slab = Box::new(Slab([MaybeUninit::uninit(); BYTES + 64]));
    let mut classes = [SizeClass::EMPTY; CLASSES];
    let base = slab.0.as_ptr().addr() + skip;
    let pool = PoolSource::<P>::new(&mut slab.0[skip..][..len], &mut classes);
    let counts = || [pool.classes_used(), pool.overflowed(), pool.foreign()];
    run(&pool, base, len, counts, ops)
}

macro_rules! against_the_model {
    ($policy:ty, $borrowed:ident, $inline:ident) => {
        proptest! {
            #[test]
            fn $borrowed(skip in 0..64usize, len in 0..=BYTES, ops in ops()) {
                borrowed::<$policy>(skip, len, ops)?;
            }

            #[test]
            fn $inline(ops in ops()) {
                let pool = Box::new(StaticPoolSource::<$policy, BYTES, CLASSES>::new());
                // The slab comes first.
                let base = (&raw const *pool).addr();
                let counts = || [pool.classes_used(), pool.overflowed(), pool.foreign()];
                run(&*pool, base, BYTES, counts, ops)?;
            }
        }
    };
}
against_the_model!(Unsync, unsync_borrowed, unsync_inline);
#[cfg(feature = "critical-section")]
against_the_model!(wharf_sync::Critical, critical_borrowed, critical_inline);
#[cfg(feature = "std")]
against_the_model!(wharf_sync::Blocking, blocking_borrowed, blocking_inline);
#[cfg(feature = "spin")]
against_the_model!(wharf_sync::Spin, spin_borrowed, spin_inline);
