//! Which fresh segments may stay without values, or lose those that they have.
#![allow(
    unsafe_code,
    reason = "declares and implements the unsafe marker; no unsafe operation"
)]

use wharf_source::BlockSource;
use wharf_sync::SyncPolicy;

use crate::wrap::{
    BackendSink, FindingSink, OwnsBytes, QuotaRef, QuotaShare, SelfContained, Slotted,
};
use crate::{
    Alignment, BackendRef, CacheOps, Checked, FaultInject, HostBackend, Maintained, MemBackend,
    OwnLines, PoolBackend, Scrub, ShardedPool, Shared, SourceBackend, StaticPool, Traced, Waitable,
};

/// A host backend whose fresh segments lend their bytes as [`MaybeUninit`](core::mem::MaybeUninit), by which safe code may also take values *away*:
/// see [`SegmentMut::as_uninit_mut`](crate::SegmentMut::as_uninit_mut).
///
/// Pools and heaps are such. What somebody lent as `&mut [u8]` is not: he gets his bytes back, and reads them.
///
/// ```compile_fail,E0277
/// # use wharf_backend::{BackendExt, BorrowedExclusive};
/// # use wharf_sync::Unsync;
/// let mut bytes = [1, 2, 3];
/// let memory = BorrowedExclusive::<Unsync>::exclusive(&mut bytes);
/// let mut segment = memory.alloc(3).unwrap();
/// segment.as_uninit_mut()[0] = core::mem::MaybeUninit::uninit(); // error: `bytes[0]` would have no value
/// ```
///
/// # Safety
/// Nobody relies on a byte of a fresh segment having a value, when it is vended or when it goes back:
/// [`Caps::VENDS_INITIALISED`](crate::Caps::VENDS_INITIALISED) is never set.
#[diagnostic::on_unimplemented(
    message = "the bytes of `{Self}` may be somebody's who relies on their values",
    note = "fill the segment by `init_from` or `filled`, or give it the values that it has by `initialised`, and write it then; memory of your own in which nobody relies on values says so by `unsafe impl VendsUninit`"
)]
pub unsafe trait VendsUninit: HostBackend {}

// SAFETY: a slab is `MaybeUninit` bytes.
unsafe impl<P: SyncPolicy, const PAYLOAD: usize, const SLOTS: usize, A: Alignment> VendsUninit
    for StaticPool<P, PAYLOAD, SLOTS, A>
{
}
// SAFETY: as above.
unsafe impl<P: SyncPolicy> VendsUninit for PoolBackend<'_, P> {}
// SAFETY: as above.
unsafe impl<P: SyncPolicy, const SHARDS: usize> VendsUninit for ShardedPool<'_, P, SHARDS> {}
// SAFETY: blocks have no values, and nobody reads them after their release.
unsafe impl<S: BlockSource, P: SyncPolicy, A: Alignment> VendsUninit for SourceBackend<S, P, A> {}
// SAFETY: as above.
#[cfg(feature = "alloc")]
unsafe impl<P: SyncPolicy> VendsUninit for crate::HeapBackend<P> {}

/// Wrappers that hand out inner segments, or parts of them, and say of them what the inner backend says.
macro_rules! as_the_inner_one {
    ($([$($parameter:tt)*] $wrapper:ty, $inner:ty;)*) => {$(
        // SAFETY: the bytes are those of the inner backend, and the wrapper reads none but its own canaries.
        unsafe impl<$($parameter)*> VendsUninit for $wrapper where $inner: VendsUninit {}
    )*};
}

as_the_inner_one! {
    [B: MemBackend] FaultInject<B>, B;
    [B: MemBackend, L: BackendSink] Traced<B, L>, B;
    [B: SelfContained] Waitable<B>, B;
    [B: OwnsBytes, F: FindingSink, const N: usize] Checked<B, F, N>, B;
    [B: OwnsBytes] Scrub<B>, B;
    [B: OwnLines, H: CacheOps] Maintained<B, H>, B;
    [Q: QuotaRef<B, N>, B: Slotted, const N: usize] QuotaShare<Q, B, N>, B;
    [R: BackendRef] Shared<R>, R::Backend;
}
