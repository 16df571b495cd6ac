//! Segments that become shorter than they were asked for.
//!
//! Invariants:
//! 1. the length of a header changes only while one handle holds the segment, and only downwards;
//! 2. who does not hold it reads nothing of a live header but its count ([`Header::is_held`]): so nobody looks at the length
//!    while it changes.
#![allow(
    unsafe_code,
    reason = "declares the unsafe trait, and lowers a length; the invariants above"
)]

use core::ptr::NonNull;

use wharf_sync::SyncPolicy;

use crate::wrap::{BackendSink, QuotaRef, QuotaShare, SelfContained, Slotted};
use crate::{
    Alignment, BackendRef, BorrowedBackend, FaultInject, Header, LentMemory, MemBackend,
    PoolBackend, SegmentMut, ShardedPool, Shared, State, StaticPool, Traced, TransferError,
    Waitable,
};

/// A backend whose segments may become shorter while they are held: it takes one back whatever its length is by then.
///
/// Pools do, because a slot is a slot; and lent memory. Not so the heap and block sources, which find the layout of a block by
/// the length of its segment, and [`Checked`](crate::Checked), whose canaries lie behind the last byte. Where the backend is erased,
/// nobody knows.
///
/// ```compile_fail,E0277
/// # #[cfg(feature = "alloc")] {
/// # use wharf_backend::{Heap, SegmentMut};
/// # use wharf_sync::Unsync;
/// let mut writer = SegmentMut::alloc(Heap::<Unsync>::new(), 8).unwrap().writer();
/// writer.append(b"short").unwrap();
/// let segment = writer.finish(); // error: a segment of the heap keeps the length that it was asked for
/// # }
/// # #[cfg(not(feature = "alloc"))] { let _: u8 = core::iter::once(()).sum(); }
/// ```
///
/// ```compile_fail,E0277
/// # use wharf_backend::{BackendExt, MemBackend, StaticPool};
/// # use wharf_sync::Unsync;
/// let pool = StaticPool::<Unsync, 64, 1>::new();
/// let erased: &dyn MemBackend<Policy = Unsync> = &pool;
/// let mut segment = erased.alloc(8).unwrap();
/// segment.truncate(4); // error: so does one whose backend is erased
/// ```
///
/// # Safety
/// * Nothing that the backend does with a live header, taking it back included, rests on its length being the one that was
///   vended; and outside of calls that are given the header by its only holder it reads nothing of it but the count.
/// * [`shorten`](Self::shorten) sets the length, and keeps every other law of [`MemBackend`].
#[diagnostic::on_unimplemented(
    message = "a segment of `{Self}` keeps the length that it was asked for",
    note = "slots of a pool may become shorter, also through most wrappers; blocks of the heap or a source may not, nor segments of a `Checked` or of an erased backend: there `SegmentWriter::finish_padded` gives what was not written a value"
)]
pub unsafe trait Shortens: MemBackend {
    /// Makes a segment `len` bytes long. The bytes behind stay part of its memory, go back with it, and are nobody's until then.
    ///
    /// # Safety
    /// `header` is live and its length is `len` or more; the caller is its only holder, and nothing else refers to the header or
    /// to bytes behind `len`.
    unsafe fn shorten(&self, header: NonNull<Header<Self::Policy>>, len: usize) {
        // SAFETY: as the caller promises.
        unsafe { Header::set_len(header, len) }
    }
}

// SAFETY: a slot goes back by its number, and `may_own` reads counts alone.
unsafe impl<P: SyncPolicy, const PAYLOAD: usize, const SLOTS: usize, A: Alignment> Shortens
    for StaticPool<P, PAYLOAD, SLOTS, A>
{
}
// SAFETY: as above.
unsafe impl<P: SyncPolicy> Shortens for PoolBackend<'_, P> {}
// SAFETY: as above.
unsafe impl<P: SyncPolicy, const SHARDS: usize> Shortens for ShardedPool<'_, P, SHARDS> {}
// SAFETY: there is one header, and it is not looked at while it is out.
unsafe impl<L: LentMemory, P: SyncPolicy> Shortens for BorrowedBackend<L, P> {}

/// Wrappers that hand the inner headers out as they are, and read lengths only in calls of the holder.
macro_rules! as_the_inner_one {
    ($([$($parameter:tt)*] $wrapper:ty, $inner:ty;)*) => {$(
        // SAFETY: the laws of the inner backend, whose header it is.
        unsafe impl<$($parameter)*> Shortens for $wrapper
        where
            $inner: Shortens,
        {
            unsafe fn shorten(&self, header: NonNull<Header<Self::Policy>>, len: usize) {
                // SAFETY: as the caller promises.
                unsafe { self.inner().shorten(header, len) }
            }
        }
    )*};
}

as_the_inner_one! {
    [B: MemBackend] FaultInject<B>, B;
    [B: MemBackend, L: BackendSink] Traced<B, L>, B;
    [B: SelfContained] Waitable<B>, B;
    [Q: QuotaRef<B, N>, B: Slotted, const N: usize] QuotaShare<Q, B, N>, B;
    [R: BackendRef] Shared<R>, R::Backend;
}

impl<R: BackendRef, S: State> SegmentMut<R, S> {
    /// Gives up the bytes from `len` on. They go back with the rest, when the segment does.
    ///
    /// ```
    /// use wharf_backend::{BackendExt, MemBackend, StaticPool};
    /// use wharf_sync::Unsync;
    ///
    /// let frames = StaticPool::<Unsync, 1536, 4>::new();
    /// let mut frame = frames.alloc(11)?.init_from(b"payload+crc")?;
    /// frame.truncate(7)?;
    /// assert_eq!(*frame, *b"payload");
    /// drop(frame);
    /// assert_eq!(frames.census().in_use, 0);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The segment has fewer. It stays as it is.
    pub fn truncate(&mut self, len: usize) -> Result<(), TransferError>
    where
        R::Backend: Shortens,
    {
        let size = self.len();
        if len > size {
            return Err(TransferError::OutOfBounds {
                offset: 0,
                len,
                size,
            });
        }
        // SAFETY: the handle is the only one and borrowed exclusively, so nothing refers to header or bytes.
        unsafe { self.backend().shorten(self.header_ptr(), len) };
        Ok(())
    }
}
