//! The seam: a backend that keeps account of who has its memory.
#![allow(
    unsafe_code,
    reason = "declares the unsafe trait, and asks it about the header of a live handle"
)]

use core::ptr::NonNull;

use super::{Allocation, ChannelId, Tag, UsageBooks, UsageEvent};
use crate::{AllocHint, BackendRef, Header, MemBackend, SegmentMut, State};

/// A backend that keeps account: a memory channel of a device.
///
/// Every request counts on the line of its [`class`](AllocHint::class) in the books, with the bytes that it really takes,
/// until its segment is reclaimed; a refusal counts with the bytes that were asked for. Requests, refusals and reclaims are
/// events. A `vend` is a [`vend_tagged`](Self::vend_tagged) without a tag.
///
/// # Safety
/// [`vend_tagged`](Self::vend_tagged) keeps the laws of [`MemBackend::vend`]; and a segment that it vends starts at a multiple of
/// its hint's [`alignment`](AllocHint::alignment), which is then that of a [`Tagged`](super::Tagged) with this hint.
pub unsafe trait Accounted: MemBackend {
    /// Which memory it is.
    fn channel(&self) -> ChannelId;

    /// [`MemBackend::vend`] for an owner who has a name. A refusal is explained by [`MemBackend::refusal`] with the same size
    /// and hint.
    fn vend_tagged(
        &self,
        size: usize,
        hint: AllocHint,
        tag: &Tag,
    ) -> Option<NonNull<Header<Self::Policy>>>;

    /// The largest size that a request with this hint can ever be served; [`MemBackend::max_segment_size`] for one that
    /// wishes nothing. Zero if none can.
    fn max_segment_size_for(&self, hint: AllocHint) -> usize;

    /// What is known of a live segment.
    ///
    /// # Safety
    /// As for [`MemBackend::place`].
    unsafe fn allocation(&self, header: NonNull<Header<Self::Policy>>) -> Allocation;

    /// What is used, and for what.
    fn usage(&self) -> UsageBooks;

    /// Bytes of the largest segment that could be vended now. Well below what is free: the memory is fragmented.
    fn largest_free(&self) -> usize;

    /// How many events there were. The last of them can be read, by their numbers from zero.
    fn recorded(&self) -> u64;

    /// The event with this number, unless it had to make room for a newer one.
    fn event(&self, number: u64) -> Option<UsageEvent>;
}

impl<R: BackendRef, S: State> SegmentMut<R, S>
where
    R::Backend: Accounted,
{
    /// Where it is, what it takes, and what for.
    #[must_use]
    pub fn allocation(&self) -> Allocation {
        // SAFETY: the header of a live handle.
        unsafe { self.backend().allocation(self.header_ptr()) }
    }
}
