//! A pool over memory that the caller lends.
#![allow(unsafe_code, reason = "implements the unsafe trait")]

use core::fmt;
use core::mem::MaybeUninit;

use wharf_sync::{ConstInit, Lock, SyncPolicy};

use super::classes::SizeClass;
use super::front::{counts, vends};
use super::state::PoolState;
use crate::BlockSource;
use crate::slab::Slab;

/// Blocks from a slab of bytes, recycled by shape.
///
/// A request is met with the block of its shape that came back last, or else with fresh bytes, in
/// ascending order. A shape is a size and an alignment, exact after rounding: the size to at least a
/// pointer's and to a multiple of the alignment, the alignment to at least a pointer's. Blocks are
/// never split, merged or given to another shape, so nothing fragments, and a
/// program that keeps to few shapes runs for ever.
///
/// A shape takes a [`SizeClass`] of the table when its first block comes back. When the table is full, a block of
/// a further shape stays carved and is not used again; [`overflowed`](Self::overflowed) counts those. Finding a
/// class takes as long in a full table of a thousand as in one of a dozen.
///
/// The policy `P` says who may use it: the pool is `Sync` where the lock of `P` is.
///
/// # Census
/// In bytes. What was carved once stays with its shape, so `in_use` and `peak` are both the carve mark, which
/// includes the bytes skipped to align a block, and `capacity` is the length of the slab.
///
/// # Wrong releases
/// Releasing what is not a block of this pool breaks the promise of [`BlockSource::release`]. What can be
/// recognised without searching, in debug and release builds alike, is not linked in, but
/// counted by [`foreign`](Self::foreign): a pointer outside of what was carved, one that is
/// misaligned for its layout, and the same block twice in a row.
///
/// # Moving and dropping
/// Blocks of `&pool` hold the pool in place until they are dropped:
///
/// ```compile_fail,E0505
/// use core::{alloc::Layout, mem::MaybeUninit};
/// use wharf_source::{Block, PoolSource, SizeClass};
/// use wharf_sync::Unsync;
///
/// let mut slab = [MaybeUninit::uninit(); 64];
/// let mut classes = [SizeClass::EMPTY; 1];
/// let pool = PoolSource::<Unsync>::new(&mut slab, &mut classes);
/// let block = Block::new(&pool, Layout::new::<u64>());
/// drop(pool);
/// drop(block);
/// ```
pub struct PoolSource<'s, P: SyncPolicy> {
    state: P::Lock<State<'s>>,
    capacity: usize,
}

struct State<'s> {
    pool: PoolState,
    slab: Slab<'s>,
    table: &'s mut [SizeClass],
}

impl<'s, P: SyncPolicy> PoolSource<'s, P> {
    /// A pool over `slab`, for as many shapes as `classes` has slots. What the slots held before is
    /// forgotten.
    #[must_use]
    pub fn new(slab: &'s mut [MaybeUninit<u8>], classes: &'s mut [SizeClass]) -> Self {
        // Stale lists would lead into whatever slab they were made for.
        classes.fill_with(|| SizeClass::EMPTY);
        Self {
            capacity: slab.len(),
            state: Lock::new(State {
                pool: PoolState::INIT,
                slab: Slab::new(slab),
                table: classes,
            }),
        }
    }

    #[inline]
    fn section<T>(&self, step: impl FnOnce(&PoolState, &[SizeClass], &Slab<'_>) -> T) -> T {
        self.state
            .with(|state| step(&state.pool, state.table, &state.slab))
    }

    counts!();
}

// SAFETY: blocks come from an exclusively borrowed slab that does not move with the pool; by the
// invariants of `PoolState`, which is only reached under the lock, no two live ones overlap.
unsafe impl<P: SyncPolicy> BlockSource for PoolSource<'_, P> {
    vends!("pool");
}

impl<P: SyncPolicy> fmt::Debug for PoolSource<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the numbers: printing must not enter a section.
        f.debug_struct("PoolSource")
            .field("policy", &P::NAME)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}
