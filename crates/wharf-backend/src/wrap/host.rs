//! What a wrapper says of its bytes because the inner backend says so of the same ones.
//!
//! 1. A wrapper hands out the inner segments where they are, or ([`Checked`]) a part of each. So host memory stays host memory.
//!    [`ReadableBackend`](crate::ReadableBackend) alone is not handed on: such a backend vends nothing, so no segment ever goes
//!    through a wrapper around it.
//! 2. Lines ([`OwnLines`]) are handed on by whoever leaves the bytes from a segment's end to the next multiple of the granule
//!    alone while the segment lives. All do: they add no bytes, except for [`Checked`].
//! 3. [`Checked`] puts its canaries there. They are of the same inner segment, so of no other; they are written before the segment is
//!    handed out, and from then on only read, after it is gone. A segment starts where the inner one does, or as many bytes
//!    later as the alignment has or more, both powers of two: at a multiple of the granule, which is no larger (the law of
//!    [`OwnLines`]).
//! 4. [`Scrub`] would be sound, and is left out: a `Maintained` around it would maintain first, and the bytes that are written
//!    then would stay in the cache while the memory still has the old ones. It goes around the `Maintained`.
#![allow(
    unsafe_code,
    reason = "implements the unsafe markers; no unsafe operation"
)]

use super::{
    BackendSink, Checked, FaultInject, FindingSink, OwnsBytes, QuotaRef, QuotaShare, Scrub,
    SelfContained, Shared, Slotted, Traced, Waitable,
};
use crate::{BackendRef, ConstOwnLines, HostBackend, MemBackend, OwnLines};

macro_rules! host {
    ($([$($parameter:tt)*] $wrapper:ty, $inner:ty;)*) => {$(
        // SAFETY: point 1 above.
        unsafe impl<$($parameter)*> HostBackend for $wrapper where $inner: HostBackend {}
    )*};
}

macro_rules! lines {
    ($([$($parameter:tt)*] $wrapper:ty, $inner:ty;)*) => {$(
        // SAFETY: points 2 and 3 above.
        unsafe impl<$($parameter)*> OwnLines for $wrapper
        where
            $inner: OwnLines,
        {
            fn granule(&self) -> usize {
                self.inner().granule()
            }
        }
        // SAFETY: the same number.
        unsafe impl<$($parameter)*> ConstOwnLines for $wrapper
        where
            $inner: ConstOwnLines,
        {
            const GRANULE: usize = <$inner as ConstOwnLines>::GRANULE;
        }
    )*};
}

macro_rules! both {
    ($($wrapper:tt)*) => {
        host! { $($wrapper)* }
        lines! { $($wrapper)* }
    };
}

both! {
    [B: MemBackend] FaultInject<B>, B;
    [B: MemBackend, L: BackendSink] Traced<B, L>, B;
    [B: SelfContained] Waitable<B>, B;
    [B: OwnsBytes, F: FindingSink, const N: usize] Checked<B, F, N>, B;
    [Q: QuotaRef<B, N>, B: Slotted, const N: usize] QuotaShare<Q, B, N>, B;
    [R: BackendRef] Shared<R>, R::Backend;
}
host! {
    [B: OwnsBytes] Scrub<B>, B;
}
