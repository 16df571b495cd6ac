//! A pool with its slab and its control block inside: one `static`, no start-up code.
//!
//! Invariant: `headers` and `slab` are touched only through the pointers that [`Slots`] hands out.
#![allow(
    unsafe_code,
    reason = "implements the unsafe traits over the pool's core"
)]

use core::cell::UnsafeCell;
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use wharf_source::Census;
use wharf_sync::{ConstInit, Lock, SyncPolicy};

use super::FreeList;
use super::core::{Headers, Slots};
use crate::{
    Align8, Alignment, AllocError, AllocHint, Caps, ConstOwnLines, Header, HostBackend, MemBackend,
    OwnLines, Place, SlotControl,
};

/// One slot: the payload, and the alignment.
#[repr(C)]
struct Slot<A, const PAYLOAD: usize> {
    bytes: MaybeUninit<[u8; PAYLOAD]>,
    align: [A; 0],
}

/// `SLOTS` slots of `PAYLOAD` bytes, aligned to `A`, with everything inside.
///
/// ```
/// use wharf_backend::{Align64, BackendExt, StaticPool};
/// # #[cfg(feature = "critical-section")] {
/// use wharf_sync::Critical;
/// # use critical_section as _;
///
/// // In `.bss`; shared by threads and interrupt handlers.
/// static FRAMES: StaticPool<Critical, 1536, 4, Align64> = StaticPool::new();
///
/// let frame = FRAMES.alloc(60).unwrap();
/// assert_eq!(frame.len(), 60);
/// # }
/// ```
///
/// The census counts slots; refusals are those of too large sizes and of an empty pool.
///
/// A pool over `Unsync` cannot be shared, so it cannot be a `static`:
///
/// ```compile_fail,E0277
/// # use wharf_backend::StaticPool;
/// # use wharf_sync::Unsync;
/// static FRAMES: StaticPool<Unsync, 64, 4> = StaticPool::new();
/// ```
pub struct StaticPool<P: SyncPolicy, const PAYLOAD: usize, const SLOTS: usize, A = Align8> {
    free: P::Lock<FreeList>,
    headers: UnsafeCell<[SlotControl<P>; SLOTS]>,
    slab: UnsafeCell<[Slot<A, PAYLOAD>; SLOTS]>,
}

// SAFETY: through `&self` headers and slots change owner only under the lock.
unsafe impl<P: SyncPolicy, const PAYLOAD: usize, const SLOTS: usize, A> Sync
    for StaticPool<P, PAYLOAD, SLOTS, A>
where
    P::Lock<FreeList>: Sync,
    P::Count: Sync,
{
}

impl<P: SyncPolicy, const PAYLOAD: usize, const SLOTS: usize, A: Alignment>
    StaticPool<P, PAYLOAD, SLOTS, A>
{
    /// Bytes from one payload to the next.
    const STRIDE: usize = size_of::<Slot<A, PAYLOAD>>();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked in the same constant"
    )]
    const COUNT: u32 = {
        assert!(SLOTS > 0, "a pool has at least one slot");
        assert!(
            SLOTS < u32::MAX as usize,
            "a pool counts its slots in 32 bits"
        );
        assert!(PAYLOAD > 0, "a slot holds at least one byte");
        SLOTS as u32
    };

    /// A pool of which nothing was vended yet: all zero bytes.
    #[must_use]
    pub const fn new() -> Self
    where
        P::Lock<FreeList>: ConstInit,
        P::Count: ConstInit,
    {
        const { assert!(Self::COUNT > 0) };
        Self {
            free: ConstInit::INIT,
            headers: UnsafeCell::new([const { SlotControl::NEW }; SLOTS]),
            slab: UnsafeCell::new(
                [const {
                    Slot {
                        bytes: MaybeUninit::uninit(),
                        align: [],
                    }
                }; SLOTS],
            ),
        }
    }

    /// [`new`](Self::new) for policies without constants.
    #[must_use]
    pub fn fresh() -> Self {
        const { assert!(Self::COUNT > 0) };
        Self {
            free: Lock::new(FreeList::fresh()),
            headers: UnsafeCell::new(core::array::from_fn(|_| SlotControl::new())),
            slab: UnsafeCell::new(
                [const {
                    Slot {
                        bytes: MaybeUninit::uninit(),
                        align: [],
                    }
                }; SLOTS],
            ),
        }
    }

    /// Whether `header` is one of its own, live or not.
    pub(crate) fn is_slot(&self, header: NonNull<Header<P>>) -> bool {
        self.is_header(header)
    }

    /// Every live segment. For whoever knows that none comes or goes meanwhile.
    pub(crate) fn each_live(&self, visit: impl FnMut(NonNull<Header<P>>)) {
        Headers::each_live(self, visit);
    }
}

// SAFETY: `SLOTS` headers, and `SLOTS` payloads `STRIDE` apart, in cells of the pool's own. Handles borrow the pool, so
// it does not move under them.
unsafe impl<P: SyncPolicy, const PAYLOAD: usize, const SLOTS: usize, A: Alignment> Headers
    for StaticPool<P, PAYLOAD, SLOTS, A>
{
    type Policy = P;

    #[inline]
    fn free(&self) -> &P::Lock<FreeList> {
        &self.free
    }
    #[inline]
    fn headers(&self) -> NonNull<Header<P>> {
        // SAFETY: the pointer of a cell is never null. (`SlotControl` is a header.)
        unsafe { NonNull::new_unchecked(self.headers.get()) }.cast()
    }
    #[inline]
    fn count(&self) -> usize {
        Self::COUNT as usize
    }
}

// SAFETY: as above.
unsafe impl<P: SyncPolicy, const PAYLOAD: usize, const SLOTS: usize, A: Alignment> Slots
    for StaticPool<P, PAYLOAD, SLOTS, A>
{
    #[inline]
    fn base(&self) -> NonNull<u8> {
        // SAFETY: the pointer of a cell is never null.
        unsafe { NonNull::new_unchecked(self.slab.get()) }.cast()
    }
    #[inline]
    fn payload(&self) -> usize {
        PAYLOAD
    }
    #[inline]
    fn stride(&self) -> usize {
        Self::STRIDE
    }
}

impl<P: SyncPolicy, const PAYLOAD: usize, const SLOTS: usize, A: Alignment> Default
    for StaticPool<P, PAYLOAD, SLOTS, A>
{
    fn default() -> Self {
        Self::fresh()
    }
}

impl<P: SyncPolicy, const PAYLOAD: usize, const SLOTS: usize, A: Alignment> fmt::Debug
    for StaticPool<P, PAYLOAD, SLOTS, A>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticPool")
            .field("policy", &P::NAME)
            .field("payload", &PAYLOAD)
            .field("align", &A::BYTES)
            .field("census", &MemBackend::census(self))
            .finish()
    }
}

// SAFETY: the invariants of `Slots`.
unsafe impl<P: SyncPolicy, const PAYLOAD: usize, const SLOTS: usize, A: Alignment> MemBackend
    for StaticPool<P, PAYLOAD, SLOTS, A>
{
    type Policy = P;

    #[inline]
    fn vend(&self, size: usize, _: AllocHint) -> Option<NonNull<Header<P>>> {
        Slots::vend(self, size)
    }
    fn refusal(&self, size: usize, _: AllocHint) -> AllocError {
        Slots::refusal(self, size)
    }
    #[inline]
    unsafe fn reclaim(&self, header: NonNull<Header<P>>) {
        // SAFETY: as the caller promises.
        unsafe { Headers::reclaim(self, header) }
    }
    #[inline]
    unsafe fn place(&self, header: NonNull<Header<P>>) -> Place {
        // SAFETY: as the caller promises.
        Place::Host(unsafe { self.bytes(header) })
    }
    fn may_own(&self, header: NonNull<Header<P>>) -> bool {
        self.owns(header)
    }
    fn caps(&self) -> Caps {
        super::caps::<P>()
    }
    fn alignment(&self) -> usize {
        A::BYTES
    }
    fn max_segment_size(&self) -> usize {
        PAYLOAD
    }
    fn census(&self) -> Census {
        Slots::census(self)
    }
    fn name(&self) -> &'static str {
        "pool"
    }
}

// SAFETY: the slab is host memory.
unsafe impl<P: SyncPolicy, const PAYLOAD: usize, const SLOTS: usize, A: Alignment> HostBackend
    for StaticPool<P, PAYLOAD, SLOTS, A>
{
}

// SAFETY: a slot is a whole number of alignments long and starts at one; headers and lock are no part of any slot.
unsafe impl<P: SyncPolicy, const PAYLOAD: usize, const SLOTS: usize, A: Alignment> OwnLines
    for StaticPool<P, PAYLOAD, SLOTS, A>
{
    fn granule(&self) -> usize {
        A::BYTES
    }
}

// SAFETY: the same number.
unsafe impl<P: SyncPolicy, const PAYLOAD: usize, const SLOTS: usize, A: Alignment> ConstOwnLines
    for StaticPool<P, PAYLOAD, SLOTS, A>
{
    const GRANULE: usize = A::BYTES;
}
