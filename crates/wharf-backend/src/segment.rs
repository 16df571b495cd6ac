//! The unique, writable segment.
//!
//! Invariants of a [`SegmentMut`]:
//! 1. `header` came from the backend behind `backend` and was not reclaimed; its count is one, and
//!    this is the handle that is counted. So nobody else reads or writes the header or the bytes;
//! 2. in states [`Init`] and [`ReadOnly`] every byte has a value; in the latter nobody writes it, and the backend says
//!    [`Caps::READ_ONLY`], which it says of no segment in another state;
//! 3. `backend` is a reference of its own: dropping the handle reclaims first and drops it then.
#![allow(unsafe_code, reason = "owns the raw header; the invariants above")]

use core::fmt;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use crate::{
    AllocError, AllocHint, BackendRef, Caps, Erases, ForeignSegment, Header, HostBackend,
    MemBackend, NotHostAddressable, Place, ReadableBackend, TransferError, VendsUninit, transfer,
};

mod sealed {
    /// Facts of a state, for this crate.
    pub trait Sealed {
        /// The bytes have values, which must not be lost.
        const VALUES: bool;
        /// The bytes may be written.
        const WRITABLE: bool;
    }
    impl Sealed for super::Init {
        const VALUES: bool = true;
        const WRITABLE: bool = true;
    }
    impl Sealed for super::Uninit {
        const VALUES: bool = false;
        const WRITABLE: bool = true;
    }
    impl Sealed for super::ReadOnly {
        const VALUES: bool = true;
        const WRITABLE: bool = false;
    }
}

/// What may be done with the bytes of a [`SegmentMut`]: [`Init`], [`Uninit`] or [`ReadOnly`].
pub trait State: sealed::Sealed + 'static {}

pub(crate) use sealed::Sealed as Facts;

/// Every byte has a value.
#[derive(Clone, Copy, Debug)]
pub enum Init {}

/// The bytes are as the backend found them.
#[derive(Clone, Copy, Debug)]
pub enum Uninit {}

/// Every byte has a value, and nobody may write it, the holder of the segment included: memory that somebody lent by
/// `&[u8]`, or shares. Erasing the backend keeps the state, so it is not lost on the way.
///
/// ```compile_fail,E0599
/// # use wharf_backend::BorrowedShared;
/// # use wharf_sync::Unsync;
/// let table = BorrowedShared::<Unsync>::shared(b"ROM");
/// let mut segment = table.lend().unwrap();
/// segment.write(0, b"RAM"); // error: no method named `write`
/// ```
///
/// ```compile_fail,E0594
/// # use wharf_backend::BorrowedShared;
/// # use wharf_sync::Unsync;
/// let table = BorrowedShared::<Unsync>::shared(b"ROM");
/// let mut segment = table.lend().unwrap();
/// segment[1] = b'A'; // error: cannot assign
/// ```
#[derive(Clone, Copy, Debug)]
pub enum ReadOnly {}

impl State for Init {}
impl State for Uninit {}
impl State for ReadOnly {}

/// A piece of memory that one handle owns and may write.
///
/// | from | by | to |
/// |---|---|---|
/// | a backend | [`BackendExt::alloc`](crate::BackendExt::alloc), [`SegmentMut::alloc`] | `SegmentMut<R, Uninit>` |
/// | `SegmentMut<R, Uninit>` | [`init_from`](SegmentMut::init_from), [`filled`](SegmentMut::filled), [`as_uninit_mut`](SegmentMut::as_uninit_mut) and [`assume_init`](SegmentMut::assume_init) or [`assume_init_to`](SegmentMut::assume_init_to) | `SegmentMut<R>` |
/// | `SegmentMut<R, Uninit>` | [`writer`](SegmentMut::writer), as far as it goes, and [`finish`](crate::SegmentWriter::finish) | `SegmentMut<R>`, as long as what was written |
/// | `SegmentMut<R>` | `From` | `Segment`, `View`, or a tensor |
/// | `SegmentMut<R, ReadOnly>` | `From` | `Segment`, `View` |
///
/// Its length is what was asked for. Where a frame turns out shorter, fill it by a [`SegmentWriter`](crate::SegmentWriter), or
/// [truncate](SegmentMut::truncate) it. Both are for memory that can do that ([`Shortens`](crate::Shortens)); of any other, declare what
/// arrived by [`assume_init_to`](SegmentMut::assume_init_to), freeze it, and slice a `View`.
///
/// It is one pointer and one backend reference. Dropping it gives the memory back; forgetting it
/// leaks. It is not `Clone`: to share it, freeze it into a `Segment` (crate `wharf-segment`).
///
/// A typed host backend lends its bytes by `Deref`. Device memory lends none, and that is an error of
/// the compiler:
///
/// ```compile_fail,E0608
/// # use wharf_backend::{BackendRef, Init, MemBackend, SegmentMut};
/// fn peek<B: MemBackend>(segment: &SegmentMut<&B, Init>) -> u8 {
///     segment[0] // error: cannot index
/// }
/// ```
#[must_use = "dropping a segment gives its memory back"]
pub struct SegmentMut<R: BackendRef, S: State = Init> {
    header: NonNull<Header<R::Policy>>,
    backend: ManuallyDrop<R>,
    state: PhantomData<S>,
}

// SAFETY: the handle is the only one, so sending it sends header and bytes; reclaiming from the other
// thread uses the backend through `R`, which must be `Send` (for a borrow: the backend is `Sync`).
unsafe impl<R: BackendRef + Send, S: State> Send for SegmentMut<R, S> {}
// SAFETY: through `&SegmentMut` bytes are only read.
unsafe impl<R: BackendRef + Sync, S: State> Sync for SegmentMut<R, S> {}

impl<R: BackendRef> SegmentMut<R, Uninit> {
    /// A segment of `size` bytes, uninitialised.
    ///
    /// # Errors
    /// Why the backend refused; it counted the refusal.
    #[inline]
    pub fn alloc(backend: R, size: usize) -> Result<Self, AllocError> {
        Self::alloc_with(backend, size, AllocHint::NONE)
    }

    /// [`alloc`](Self::alloc) with a hint.
    ///
    /// # Errors
    /// Why the backend refused; it counted the refusal.
    #[inline]
    pub fn alloc_with(backend: R, size: usize, hint: AllocHint) -> Result<Self, AllocError> {
        match backend.backend().vend(size, hint) {
            Some(header) => Ok(Self {
                header,
                backend: ManuallyDrop::new(backend),
                state: PhantomData,
            }),
            None => Err(backend.backend().refusal(size, hint)),
        }
    }

    /// Sets every byte.
    ///
    /// # Errors
    /// The device is closed. The segment, which held nothing yet, goes back to its backend.
    pub fn filled(self, byte: u8) -> Result<SegmentMut<R>, TransferError> {
        let len = self.len();
        // SAFETY: the handle is ours, and nobody else has the bytes.
        unsafe { transfer::fill(&self, 0, len, byte) }?;
        // SAFETY: every byte was just written.
        Ok(unsafe { self.assume_init() })
    }

    /// Copies `bytes`, exactly as many as the segment has, into it.
    ///
    /// # Errors
    /// The lengths differ, or the device is closed. The segment, which held nothing yet, goes back to its backend.
    pub fn init_from(self, bytes: &[u8]) -> Result<SegmentMut<R>, TransferError> {
        if bytes.len() != self.len() {
            return Err(TransferError::LengthMismatch {
                segment: self.len(),
                host: bytes.len(),
            });
        }
        // SAFETY: the handle is ours, and nobody else has the bytes.
        unsafe { transfer::copy_in(&self, 0, bytes) }?;
        // SAFETY: every byte was just written.
        Ok(unsafe { self.assume_init() })
    }

    /// Gives every byte a value the cheapest way: not at all where the backend vends initialised
    /// bytes ([`Caps::VENDS_INITIALISED`]), with zeros elsewhere.
    ///
    /// # Errors
    /// The device is closed. The segment, which held nothing yet, goes back to its backend.
    pub fn initialised(self) -> Result<SegmentMut<R>, TransferError> {
        if self.backend().caps().contains(Caps::VENDS_INITIALISED) {
            // SAFETY: that is what the capability promises.
            return Ok(unsafe { self.assume_init() });
        }
        self.filled(0)
    }

    /// The bytes, to be filled in place; then call [`assume_init`](Self::assume_init). Not of what was lent by `&mut [u8]`: safe code could
    /// take values away there ([`VendsUninit`]).
    #[inline]
    pub fn as_uninit_mut(&mut self) -> &mut [MaybeUninit<u8>]
    where
        R::Backend: VendsUninit,
    {
        self.fresh_bytes()
    }

    /// [`as_uninit_mut`](Self::as_uninit_mut) for whoever puts values there and takes none away.
    pub(crate) fn fresh_bytes(&mut self) -> &mut [MaybeUninit<u8>]
    where
        R::Backend: HostBackend,
    {
        let (base, len) = (host_base(self), self.len());
        // SAFETY: invariant 1: the bytes are ours alone for as long as `self` is borrowed.
        unsafe { core::slice::from_raw_parts_mut(base.as_ptr().cast(), len) }
    }

    /// Declares every byte written.
    ///
    /// # Safety
    /// Every byte is.
    #[inline]
    pub unsafe fn assume_init(self) -> SegmentMut<R> {
        let (header, backend) = self.into_raw();
        SegmentMut {
            header,
            backend: ManuallyDrop::new(backend),
            state: PhantomData,
        }
    }

    /// Declares the first `written` bytes written, and sets those behind them to zero: for what turned out shorter than
    /// the segment, such as a frame that a DMA controller put there.
    ///
    /// It costs a fill of what is missing, so nothing for a full frame. A receiver for which that is too much keeps its segments
    /// instead of allocating new ones: whatever was initialised once stays so, also for the next frame.
    ///
    /// ```
    /// use wharf_backend::{BackendExt, StaticPool};
    /// use wharf_sync::Unsync;
    ///
    /// let frames = StaticPool::<Unsync, 1536, 4>::new();
    /// let mut frame = frames.alloc(1536)?;
    /// // The controller writes to `frame.place()`, and then tells how much it was.
    /// # let arrived = b"a short frame";
    /// # frame.as_uninit_mut()[..arrived.len()].write_copy_of_slice(arrived);
    /// # let len = arrived.len();
    /// // SAFETY: it has written so many bytes.
    /// let frame = unsafe { frame.assume_init_to(len) }?;
    /// assert_eq!(frame[..len], *b"a short frame");
    /// assert_eq!(frame[len..], [0; 1536 - 13]);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Safety
    /// The first `written` bytes are written.
    ///
    /// # Errors
    /// The segment has fewer, or the device is closed. The segment goes back to its backend.
    pub unsafe fn assume_init_to(self, written: usize) -> Result<SegmentMut<R>, TransferError> {
        let size = self.len();
        let Some(missing) = size.checked_sub(written) else {
            return Err(TransferError::OutOfBounds {
                offset: 0,
                len: written,
                size,
            });
        };
        if missing > 0 {
            // SAFETY: the handle is ours, and nobody else has the bytes.
            unsafe { transfer::fill(&self, written, missing, 0) }?;
        }
        // SAFETY: the caller has written those before `written`, and the others were just written.
        Ok(unsafe { self.assume_init() })
    }
}

impl<R: BackendRef> SegmentMut<R> {
    /// The bytes, or the news that they are device memory.
    ///
    /// # Errors
    /// The segment is in device memory.
    pub fn host(&self) -> Result<&[u8], NotHostAddressable> {
        match self.place() {
            Place::Host(base) => {
                // SAFETY: invariants 1 and 2.
                Ok(unsafe { core::slice::from_raw_parts(base.as_ptr(), self.len()) })
            }
            Place::Device(_) => Err(NotHostAddressable),
        }
    }

    /// The bytes, writable, or the news that they are device memory.
    ///
    /// # Errors
    /// The segment is in device memory.
    pub fn host_mut(&mut self) -> Result<&mut [u8], NotHostAddressable> {
        match self.place() {
            Place::Host(base) => {
                // SAFETY: invariants 1 and 2; `&mut self` makes the borrow the only one.
                Ok(unsafe { core::slice::from_raw_parts_mut(base.as_ptr(), self.len()) })
            }
            Place::Device(_) => Err(NotHostAddressable),
        }
    }

    /// Copies `bytes` into the segment at `offset`, wherever it is.
    ///
    /// # Errors
    /// The range leaves the segment, or the device is closed; nothing moved.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), TransferError> {
        // SAFETY: the handle is borrowed exclusively, and nobody else has the bytes.
        unsafe { transfer::copy_in(self, offset, bytes) }
    }

    /// Copies bytes of the segment at `offset` into `bytes`.
    ///
    /// # Errors
    /// The range leaves the segment, or the device is closed; nothing moved.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), TransferError> {
        transfer::copy_out(self, offset, bytes)
    }

    /// Sets `len` bytes at `offset`.
    ///
    /// # Errors
    /// The range leaves the segment, or the device is closed; nothing moved.
    pub fn fill(&mut self, offset: usize, len: usize, byte: u8) -> Result<(), TransferError> {
        // SAFETY: the handle is borrowed exclusively, and nobody else has the bytes.
        unsafe { transfer::fill(self, offset, len, byte) }
    }

    /// [`write`](Self::write) for an owner that shares the handle and keeps accesses apart by other means, such as a fence.
    ///
    /// # Safety
    /// Until the return nobody else reads or writes the range, and no reference to its bytes is in use.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub unsafe fn write_shared(&self, offset: usize, bytes: &[u8]) -> Result<(), TransferError> {
        // SAFETY: the caller promises it.
        unsafe { transfer::copy_in(self, offset, bytes) }
    }

    /// [`fill`](Self::fill) for an owner that shares the handle.
    ///
    /// # Safety
    /// As for [`write_shared`](Self::write_shared).
    ///
    /// # Errors
    /// As for [`fill`](Self::fill).
    pub unsafe fn fill_shared(
        &self,
        offset: usize,
        len: usize,
        byte: u8,
    ) -> Result<(), TransferError> {
        // SAFETY: the caller promises it.
        unsafe { transfer::fill(self, offset, len, byte) }
    }
}

impl<R: BackendRef> SegmentMut<R, ReadOnly> {
    /// The bytes, or the news that they are device memory.
    ///
    /// # Errors
    /// The segment is in device memory.
    pub fn host(&self) -> Result<&[u8], NotHostAddressable> {
        match self.place() {
            Place::Host(base) => {
                // SAFETY: invariants 1 and 2.
                Ok(unsafe { core::slice::from_raw_parts(base.as_ptr(), self.len()) })
            }
            Place::Device(_) => Err(NotHostAddressable),
        }
    }

    /// Copies bytes of the segment at `offset` into `bytes`.
    ///
    /// # Errors
    /// The range leaves the segment, or the device is closed; nothing moved.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), TransferError> {
        transfer::copy_out(self, offset, bytes)
    }
}

impl<R: BackendRef, S: State> SegmentMut<R, S> {
    /// Bytes asked for.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.header().len()
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where it goes back to.
    #[must_use]
    #[inline]
    pub fn backend(&self) -> &R::Backend {
        self.backend.backend()
    }

    /// Where its first byte is. A number or a raw pointer: using it is `unsafe` and up to you.
    #[must_use]
    #[inline]
    pub fn place(&self) -> Place {
        // SAFETY: invariant 1.
        unsafe { self.backend().place(self.header) }
    }

    /// Takes the handle apart, for a descriptor ring or a foreign function. Until [`from_raw`](Self::from_raw) puts it
    /// together again the memory is leaked.
    #[inline]
    pub fn into_raw(self) -> (NonNull<Header<R::Policy>>, R) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used again, so the reference is moved out once.
        let backend = unsafe { ManuallyDrop::take(&mut this.backend) };
        (this.header, backend)
    }

    /// Puts a handle together again.
    ///
    /// The pointer is checked as far as the backend can ([`MemBackend::may_own`]): a pool refuses one that is foreign,
    /// interior, past the last or already reclaimed, and never links it into its free list.
    ///
    /// # Safety
    /// `header` came from [`into_raw`](Self::into_raw) of a handle in state `S` on this backend, no other handle to it
    /// exists, and meanwhile the backend was neither moved nor borrowed exclusively (nothing borrows it for a raw handle). (A pointer that the backend refuses is harmless.)
    ///
    /// # Errors
    /// The pointer is provably no live segment of the backend.
    pub unsafe fn from_raw(
        header: NonNull<Header<R::Policy>>,
        backend: R,
    ) -> Result<Self, ForeignSegment> {
        if !backend.backend().may_own(header) {
            return Err(ForeignSegment {
                address: header.addr().get(),
            });
        }
        Ok(Self {
            header,
            backend: ManuallyDrop::new(backend),
            state: PhantomData,
        })
    }

    /// [`from_raw`](Self::from_raw) without the check, for the layer above, which owns the header throughout.
    ///
    /// # Safety
    /// `header` is a live segment of the backend with a count of one, in state `S`, and no other handle to it exists. `S` is
    /// [`ReadOnly`] if and only if the backend says [`Caps::READ_ONLY`].
    #[inline]
    pub unsafe fn from_raw_unchecked(header: NonNull<Header<R::Policy>>, backend: R) -> Self {
        Self {
            header,
            backend: ManuallyDrop::new(backend),
            state: PhantomData,
        }
    }

    /// Forgets the type of the backend, so that segments of several kinds fit one variable.
    pub fn erase<E>(self) -> SegmentMut<E, S>
    where
        E: Erases<R> + BackendRef<Policy = R::Policy>,
    {
        let (header, backend) = self.into_raw();
        SegmentMut {
            header,
            backend: ManuallyDrop::new(E::erase(backend)),
            state: PhantomData,
        }
    }

    #[inline]
    pub(crate) fn header(&self) -> &Header<R::Policy> {
        // SAFETY: invariant 1: live, and written by nobody.
        unsafe { self.header.as_ref() }
    }

    /// The control block, for calling the backend. Reading it through the pointer is sound while the handle lives.
    #[must_use]
    #[inline]
    pub const fn header_ptr(&self) -> NonNull<Header<R::Policy>> {
        self.header
    }
}

/// The first byte of a segment of host memory.
#[inline]
fn host_base<R: BackendRef, S: State>(segment: &SegmentMut<R, S>) -> NonNull<u8>
where
    R::Backend: HostBackend,
{
    match segment.place() {
        Place::Host(base) => base,
        // SAFETY: the law of `HostBackend`.
        Place::Device(_) => unsafe { core::hint::unreachable_unchecked() },
    }
}

impl<R: BackendRef> Deref for SegmentMut<R>
where
    R::Backend: HostBackend,
{
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: invariants 1 and 2.
        unsafe { core::slice::from_raw_parts(host_base(self).as_ptr(), self.len()) }
    }
}

impl<R: BackendRef> Deref for SegmentMut<R, ReadOnly>
where
    R::Backend: ReadableBackend,
{
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match self.place() {
            // SAFETY: invariants 1 and 2.
            Place::Host(base) => unsafe { core::slice::from_raw_parts(base.as_ptr(), self.len()) },
            // SAFETY: the law of `ReadableBackend`.
            Place::Device(_) => unsafe { core::hint::unreachable_unchecked() },
        }
    }
}

impl<R: BackendRef> DerefMut for SegmentMut<R>
where
    R::Backend: HostBackend,
{
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: invariants 1 and 2; `&mut self` makes the borrow the only one.
        unsafe { core::slice::from_raw_parts_mut(host_base(self).as_ptr(), self.len()) }
    }
}

impl<R: BackendRef, S: State> Drop for SegmentMut<R, S> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: invariant 1: live, and this was the only handle.
        unsafe { self.backend.backend().reclaim(self.header) };
        // SAFETY: invariant 3; the handle is gone after this.
        unsafe { ManuallyDrop::drop(&mut self.backend) };
    }
}

impl<R: BackendRef, S: State> fmt::Debug for SegmentMut<R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SegmentMut")
            .field("backend", &self.backend().name())
            .field("len", &self.len())
            .field("space", &self.backend().space())
            .finish()
    }
}
