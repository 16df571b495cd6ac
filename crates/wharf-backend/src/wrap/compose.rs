//! What a wrapper asks of what it is wrapped around.
//!
//! A backend that does not say so by one of these markers cannot be wrapped so, and that is an error of the compiler.
//! No memory safety rests on them.

use wharf_source::BlockSource;
use wharf_sync::SyncPolicy;

use super::{Checked, FaultInject, FindingSink, Scrub, Traced};
use crate::{
    Alignment, CacheOps, Maintained, MemBackend, OwnLines, PoolBackend, ShardedPool, SourceBackend,
    StaticPool, wrap,
};

/// The bytes of a segment are the backend's own: what is in them when the segment goes back is nobody's any more.
/// [`Scrub`] and [`Checked`] write to them then.
///
/// Not so with bytes that somebody has lent and will look at afterwards, and with registers.
#[diagnostic::on_unimplemented(
    message = "what `{Self}` takes back may still be somebody's",
    note = "`Scrub` and `Checked` write to a segment that is freed; memory of your own says that this is right by `impl OwnsBytes`"
)]
pub trait OwnsBytes: MemBackend {}

/// A backend that can vend again what it refused as exhausted once a segment *of this very backend* has gone back to it, and
/// not before. So whoever waits for such a drop waits for the right thing: see [`Waitable`](super::Waitable).
///
/// Not so with the heap (it is everybody's), with a [`SourceBackend`] (others may use the source; and a block that comes back
/// serves another shape in none of our sources), with a [`Share`](super::Share) (another share may hold what it lacks; it has
/// [its own way to wait](super::Waits)), with a [`Shared`](super::Shared) (who else uses it gives back past the wrapper), and with
/// what can be waited for already.
#[diagnostic::on_unimplemented(
    message = "`{Self}` may have memory again without a segment of its own going back",
    note = "`Waitable` wakes a waiter when a segment goes back to it: put it around a pool that nobody else uses (other wrappers may lie between), and share the `Waitable`; a `Share` of a `Quota` can be waited for as it is; the heap, or a block source, cannot"
)]
pub trait SelfContained: OwnsBytes {}

/// A backend of equal slots: each of its segments, whatever its size, takes one unit of the
/// [`capacity`](crate::Census::capacity) of its census, which never changes. So so many segments can be promised: see
/// [`Quota`](super::Quota).
///
/// Not so with the heap (it has no capacity), with memory cut to measure (the free bytes may lie in pieces), and with a share
/// of another quota (it may have less than its limit), and with what others use, too.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no memory of so many equal slots",
    note = "`Quota` promises so many segments, and can do that only over a pool of its own (other wrappers may lie between), and not over the heap, another quota's share, a `Shared`, or a `Waitable` (its shares can be waited for as they are)"
)]
pub trait Slotted: SelfContained {}

/// The markers of a wrapper are those of what is inside. A pool has them all.
macro_rules! as_the_inner_one {
    ($($marker:ident),*) => {$(
        impl<B: $marker> $marker for FaultInject<B> {}
        impl<B: $marker, L: wrap::BackendSink> $marker for Traced<B, L> {}
        impl<B: $marker> $marker for Scrub<B> {}
        impl<B: $marker, F: FindingSink, const N: usize> $marker for Checked<B, F, N> {}
        impl<B: $marker + OwnLines, H: CacheOps> $marker for Maintained<B, H> {}
        impl<P: SyncPolicy> $marker for PoolBackend<'_, P> {}
        // It refuses only while no shard has a slot, and a slot that goes home is found by whoever asks next.
        impl<P: SyncPolicy, const SHARDS: usize> $marker for ShardedPool<'_, P, SHARDS> {}
        impl<P: SyncPolicy, const PAYLOAD: usize, const SLOTS: usize, A: Alignment> $marker
            for StaticPool<P, PAYLOAD, SLOTS, A>
        {
        }
    )*};
}
as_the_inner_one!(OwnsBytes, SelfContained, Slotted);

#[cfg(feature = "alloc")]
impl<P: SyncPolicy> OwnsBytes for crate::HeapBackend<P> {}
impl<B: SelfContained> OwnsBytes for wrap::Waitable<B> {}
impl<Q: wrap::QuotaRef<B, N>, B: Slotted, const N: usize> OwnsBytes for wrap::QuotaShare<Q, B, N> {}
// No more than that: others may use the source, and a block that comes back serves requests of its own shape alone, or none.
impl<S: BlockSource, P: SyncPolicy, A: Alignment> OwnsBytes for SourceBackend<S, P, A> {}

// What can be waited for stays so: a wrapper around it gives back through it, and so wakes.
macro_rules! waits_as_the_inner_one {
    ($([$($parameter:tt)*] $wrapper:ty),* $(,)?) => {$(
        impl<$($parameter)*> wrap::Waits for $wrapper {
            fn waiters(&self) -> &wrap::WaitQueue<Self::Policy> {
                self.inner().waiters()
            }
        }
    )*};
}
waits_as_the_inner_one!(
    [B: wrap::Waits] FaultInject<B>,
    [B: wrap::Waits, L: wrap::BackendSink] Traced<B, L>,
    [B: wrap::Waits + OwnLines, H: CacheOps] Maintained<B, H>,
    [B: wrap::Waits + OwnsBytes] Scrub<B>,
    [B: wrap::Waits + OwnsBytes, F: FindingSink, const N: usize] Checked<B, F, N>,
);
