//! A reference to a channel that says what for.
//!
//! Invariant: every header of a [`Tagged`] is one of the backend behind its reference, and goes back there.
#![allow(
    unsafe_code,
    reason = "implements the unsafe traits by handing everything on"
)]

use core::fmt;
use core::ptr::NonNull;

use wharf_source::Census;

use super::{
    Accounted, Allocation, BadAlignment, ChannelId, Tag, UsageBooks, UsageClass, UsageEvent,
};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use crate::Erases;
use crate::{
    AllocError, AllocHint, BackendRef, Caps, DeviceAddress, Header, IoDirection, MemBackend,
    MemSpace, Piece, PieceError, Place, TransferError,
};

/// A reference to a channel, and for what and whom memory is asked through it. What a segment was vended with stays in
/// the channel's books for as long as it lives.
///
/// It is a backend and its own reference. So it goes wherever a reference does: to
/// [`SegmentMut::alloc`](crate::SegmentMut::alloc), to a [`Group`](crate::Group), and, where the target holds
/// `Arc<dyn MemBackend>`, to `Tensor::alloc`. Erasing it into such an `Arc` is one `Arc::new`, which like any ends the program
/// if the heap has nothing left; a `&Tagged` erases into `&dyn MemBackend` for nothing.
///
/// A class that comes with the hint of a single request goes before the one given here.
#[derive(Clone, Copy)]
pub struct Tagged<R> {
    channel: R,
    hint: AllocHint,
    tag: Tag,
}

impl<R: BackendRef> Tagged<R>
where
    R::Backend: Accounted,
{
    /// Through `channel`, for `class`, called `tag`.
    pub fn new(channel: R, tag: impl Into<Tag>, class: UsageClass) -> Self {
        Self {
            channel,
            hint: AllocHint::of(class),
            tag: tag.into(),
        }
    }

    /// The same, at multiples of `alignment` bytes.
    ///
    /// # Errors
    /// It is no power of two.
    pub fn aligned(mut self, alignment: u64) -> Result<Self, BadAlignment> {
        self.hint = self.hint.aligned(alignment)?;
        Ok(self)
    }

    /// What for.
    #[must_use]
    pub const fn class(&self) -> UsageClass {
        self.hint.class()
    }

    /// For whom.
    #[must_use]
    pub const fn tag(&self) -> &Tag {
        &self.tag
    }

    /// The reference inside.
    #[must_use]
    pub const fn channel(&self) -> &R {
        &self.channel
    }

    /// The backend. By the law of [`BackendRef`] it is the same each time.
    fn inner(&self) -> &R::Backend {
        self.channel.backend()
    }

    /// The hint of a request, completed by our own where it wishes nothing.
    fn merged(&self, hint: AllocHint) -> AllocHint {
        let class = match hint.class() {
            UsageClass::GENERIC => self.hint.class(),
            class => class,
        };
        let alignment = hint.alignment().max(self.hint.alignment());
        let own = AllocHint(hint.0 & 0xFFFF_0000 | AllocHint::of(class).0);
        // Of two powers of two the larger is one.
        own.aligned(alignment).unwrap_or(own)
    }
}

impl<R: fmt::Debug> fmt::Debug for Tagged<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tagged")
            .field("channel", &self.channel)
            .field("class", &self.hint.class())
            .field("tag", &self.tag)
            .finish()
    }
}

// SAFETY: the inner reference keeps the backend, through which everything goes; the rest is plain values.
unsafe impl<R> BackendRef for Tagged<R>
where
    R: BackendRef,
    R::Backend: Accounted,
{
    type Policy = R::Policy;
    type Backend = Self;
    #[inline]
    fn backend(&self) -> &Self {
        self
    }
}

// SAFETY: the new reference owns the old one.
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
unsafe impl<R> Erases<Tagged<R>>
    for alloc::sync::Arc<dyn MemBackend<Policy = R::Policy> + Send + Sync>
where
    R: BackendRef + Send + Sync + 'static,
    R::Backend: Accounted,
{
    fn erase(reference: Tagged<R>) -> Self {
        alloc::sync::Arc::new(reference)
    }
}

// SAFETY: every header comes from the backend behind the reference and goes back to it, and that one does not move with
// this one. The alignment is that of every hint that goes in, which is met (the law of `Accounted`).
unsafe impl<R> MemBackend for Tagged<R>
where
    R: BackendRef,
    R::Backend: Accounted,
{
    type Policy = R::Policy;

    fn vend(&self, size: usize, hint: AllocHint) -> Option<NonNull<Header<R::Policy>>> {
        self.vend_tagged(size, hint, &self.tag)
    }

    fn refusal(&self, size: usize, hint: AllocHint) -> AllocError {
        self.inner().refusal(size, self.merged(hint))
    }

    unsafe fn reclaim(&self, header: NonNull<Header<R::Policy>>) {
        // SAFETY: as the caller promises.
        unsafe { self.inner().reclaim(header) }
    }

    unsafe fn place(&self, header: NonNull<Header<R::Policy>>) -> Place {
        // SAFETY: as the caller promises.
        unsafe { self.inner().place(header) }
    }

    fn may_own(&self, header: NonNull<Header<R::Policy>>) -> bool {
        self.inner().may_own(header)
    }

    fn caps(&self) -> Caps {
        self.inner().caps()
    }

    fn space(&self) -> MemSpace {
        self.inner().space()
    }

    fn alignment(&self) -> usize {
        let asked = usize::try_from(self.hint.alignment()).unwrap_or(1);
        self.inner().alignment().max(asked)
    }

    fn max_segment_size(&self) -> usize {
        self.inner().max_segment_size_for(self.hint)
    }

    fn census(&self) -> Census {
        self.inner().census()
    }

    fn name(&self) -> &'static str {
        self.inner().name()
    }

    unsafe fn before_io(
        &self,
        header: NonNull<Header<R::Policy>>,
        offset: usize,
        len: usize,
        direction: IoDirection,
    ) {
        // SAFETY: as the caller promises.
        unsafe { self.inner().before_io(header, offset, len, direction) }
    }

    unsafe fn after_io(
        &self,
        header: NonNull<Header<R::Policy>>,
        offset: usize,
        len: usize,
        direction: IoDirection,
    ) {
        // SAFETY: as the caller promises.
        unsafe { self.inner().after_io(header, offset, len, direction) }
    }

    unsafe fn copy_in(
        &self,
        header: NonNull<Header<R::Policy>>,
        offset: usize,
        source: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        // SAFETY: as the caller promises.
        unsafe { self.inner().copy_in(header, offset, source, len) }
    }

    unsafe fn copy_out(
        &self,
        header: NonNull<Header<R::Policy>>,
        offset: usize,
        destination: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        // SAFETY: as the caller promises.
        unsafe { self.inner().copy_out(header, offset, destination, len) }
    }

    unsafe fn fill(
        &self,
        header: NonNull<Header<R::Policy>>,
        offset: usize,
        len: usize,
        byte: u8,
    ) -> Result<(), TransferError> {
        // SAFETY: as the caller promises.
        unsafe { self.inner().fill(header, offset, len, byte) }
    }

    fn reaches(&self, address: DeviceAddress, len: usize) -> bool {
        self.inner().reaches(address, len)
    }

    unsafe fn copy_on_device(
        &self,
        from: DeviceAddress,
        to: DeviceAddress,
        len: usize,
    ) -> Result<(), TransferError> {
        // SAFETY: as the caller promises.
        unsafe { self.inner().copy_on_device(from, to, len) }
    }

    unsafe fn transfer_all(
        &self,
        direction: IoDirection,
        pieces: &mut dyn Iterator<Item = Piece>,
    ) -> Result<(), PieceError> {
        // SAFETY: as the caller promises.
        unsafe { self.inner().transfer_all(direction, pieces) }
    }
}

// SAFETY: the inner backend keeps the laws of `vend`.
unsafe impl<R> Accounted for Tagged<R>
where
    R: BackendRef,
    R::Backend: Accounted,
{
    fn channel(&self) -> ChannelId {
        self.inner().channel()
    }

    fn vend_tagged(
        &self,
        size: usize,
        hint: AllocHint,
        tag: &Tag,
    ) -> Option<NonNull<Header<R::Policy>>> {
        self.inner().vend_tagged(size, self.merged(hint), tag)
    }

    fn max_segment_size_for(&self, hint: AllocHint) -> usize {
        self.inner().max_segment_size_for(self.merged(hint))
    }

    unsafe fn allocation(&self, header: NonNull<Header<R::Policy>>) -> Allocation {
        // SAFETY: as the caller promises.
        unsafe { self.inner().allocation(header) }
    }

    fn usage(&self) -> UsageBooks {
        self.inner().usage()
    }

    fn largest_free(&self) -> usize {
        self.inner().largest_free()
    }

    fn recorded(&self) -> u64 {
        self.inner().recorded()
    }

    fn event(&self, number: u64) -> Option<UsageEvent> {
        self.inner().event(number)
    }
}
