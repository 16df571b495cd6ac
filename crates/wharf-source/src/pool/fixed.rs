//! A pool that holds its own memory, for a `static`.
//!
//! Invariant of [`StaticPoolSource`]: its bytes are only touched by their blocks' owners and, inside a section of
//! its lock, by the pool. The bytes lie beside the lock, not inside, because a lock need not keep its
//! value at one address.
#![allow(
    unsafe_code,
    reason = "implements the unsafe trait, and shares bytes that a lock guards"
)]

use core::cell::UnsafeCell;
use core::fmt;

use wharf_sync::{ConstInit, Lock, SyncPolicy};

use super::classes::SizeClass;
use super::front::{counts, vends};
use super::state::PoolState;
use crate::BlockSource;
use crate::slab::{InlineBytes, Slab};

/// A [`PoolSource`](crate::PoolSource) with `BYTES` bytes and room for `CLASSES` shapes inside: for a `static`.
///
/// It is made by a constant, costs no start-up code, and is all zero bytes, so it lies in `.bss`. The
/// slab begins at a multiple of 32, the largest cache line of the Cortex-M.
///
/// Blocks come from a *reference* to it, since its memory moves with it:
///
/// ```
/// # #[cfg(feature = "critical-section")] {
/// use core::alloc::Layout;
/// use wharf_source::{Block, StaticPoolSource};
/// use wharf_sync::Critical;
///
/// static POOL: StaticPoolSource<Critical, 4096, 8> = StaticPoolSource::new();
///
/// struct Frame {
///     bytes: Block<&'static StaticPoolSource<Critical, 4096, 8>>,
/// }
/// let frame = Frame { bytes: Block::new(&POOL, Layout::new::<[u8; 1500]>()).unwrap() };
/// assert_eq!(frame.bytes.layout().size(), 1500);
/// # }
/// ```
///
/// Whether it can be a `static` at all is for the policy to say. One owner's policy does not share:
///
/// ```compile_fail,E0277
/// use wharf_source::StaticPoolSource;
/// use wharf_sync::Unsync;
///
/// static POOL: StaticPoolSource<Unsync, 4096, 8> = StaticPoolSource::new();
/// ```
///
/// It cannot be the handle itself, or a block could carry its own slab away:
///
/// ```compile_fail,E0277
/// use core::alloc::Layout;
/// use wharf_source::{Block, StaticPoolSource};
/// use wharf_sync::Unsync;
///
/// let pool = StaticPoolSource::<Unsync, 4096, 8>::new();
/// let block = Block::new(pool, Layout::new::<u64>());
/// ```
#[repr(C)]
pub struct StaticPoolSource<P: SyncPolicy, const BYTES: usize, const CLASSES: usize> {
    slab: UnsafeCell<InlineBytes<BYTES>>,
    state: P::Lock<StaticPoolState<CLASSES>>,
}

/// What the lock of a [`StaticPoolSource`] guards. Public so that code generic over the policy can
/// write the bound of its constructor, `P::Lock<StaticPoolState<CLASSES>>: ConstInit`.
#[derive(Debug)]
pub struct StaticPoolState<const CLASSES: usize> {
    pool: PoolState,
    table: [SizeClass; CLASSES],
}

impl<const CLASSES: usize> ConstInit for StaticPoolState<CLASSES> {
    const INIT: Self = Self {
        pool: PoolState::INIT,
        table: [SizeClass::EMPTY; CLASSES],
    };
}

// SAFETY: a shared pool reaches its state and the links in free blocks only inside sections of the
// lock, which work between threads where the lock is `Sync`. A live block's bytes are its owner's
// alone, and plain bytes may be used on any thread.
unsafe impl<P: SyncPolicy, const BYTES: usize, const CLASSES: usize> Sync
    for StaticPoolSource<P, BYTES, CLASSES>
where
    P::Lock<StaticPoolState<CLASSES>>: Sync,
{
}

impl<P: SyncPolicy, const BYTES: usize, const CLASSES: usize> StaticPoolSource<P, BYTES, CLASSES> {
    /// An empty pool.
    #[must_use]
    pub const fn new() -> Self
    where
        P::Lock<StaticPoolState<CLASSES>>: ConstInit,
    {
        Self {
            slab: UnsafeCell::new(InlineBytes::ZERO),
            state: ConstInit::INIT,
        }
    }

    #[inline]
    fn section<T>(&self, step: impl FnOnce(&PoolState, &[SizeClass], &Slab<'_>) -> T) -> T {
        // SAFETY: the invariant.
        let slab = unsafe { Slab::of_cell(&self.slab) };
        self.state
            .with(|state| step(&state.pool, &state.table, &slab))
    }

    counts!();
}

impl<P: SyncPolicy, const BYTES: usize, const CLASSES: usize> Default
    for StaticPoolSource<P, BYTES, CLASSES>
where
    P::Lock<StaticPoolState<CLASSES>>: ConstInit,
{
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: the handle is a reference, which holds the slab in place; by the invariants of `PoolState`,
// which is only reached under the lock, no two live blocks overlap.
unsafe impl<P: SyncPolicy, const BYTES: usize, const CLASSES: usize> BlockSource
    for &StaticPoolSource<P, BYTES, CLASSES>
{
    vends!("static pool");
}

impl<P: SyncPolicy, const BYTES: usize, const CLASSES: usize> fmt::Debug
    for StaticPoolSource<P, BYTES, CLASSES>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the numbers: printing must not enter a section.
        f.debug_struct("StaticPoolSource")
            .field("policy", &P::NAME)
            .field("capacity", &BYTES)
            .field("classes", &CLASSES)
            .finish_non_exhaustive()
    }
}
