//! The shared segment.
//!
//! Invariants of a [`Segment`]:
//! 1. `header` is a live segment of the backend, and its count is the number of `Segment`s to it;
//! 2. all its bytes are initialised, and nobody writes them while a `Segment` exists. Where the backend says
//!    [`Caps::READ_ONLY`] it was frozen of a [`ReadOnly`] handle, and thaws into no other; elsewhere of an `Init` one;
//! 3. `backend` is a bit copy of one reference that all of them share; whoever takes the count to
//!    zero drops it.
#![allow(unsafe_code, reason = "owns the raw header; the invariants above")]

use core::fmt;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::Deref;
use core::ptr::NonNull;

use wharf_backend::{
    BackendRef, Caps, Erases, ForeignSegment, Header, MemBackend, NotHostAddressable, Place,
    ReadOnly, ReadableBackend, SegmentMut, State, TransferError, read_raw,
};
use wharf_sync::{Count, SyncPolicy};

/// A piece of memory that many hold and nobody writes.
///
/// Cloning counts, dropping counts down, and the last one gives the memory back to its backend. A
/// clone beyond two thousand million sticks and leaks instead of wrapping.
///
/// Memory that nobody may write (a [`ReadOnly`] handle: a lent `&[u8]`, a table in flash, an adopted `Arc<[u8]>`) can be shared
/// the same way. Nothing that can write ever comes out of it again:
///
/// ```
/// use wharf_backend::BorrowedShared;
/// use wharf_segment::{Segment, View};
/// use wharf_sync::Unsync;
///
/// let table = BorrowedShared::<Unsync>::shared(b"in flash");
/// let segment = Segment::from(table.lend()?);
/// let view = View::from(segment.clone()).slice(3..)?;
/// assert_eq!(&*view, b"flash");
/// drop(view);
/// let segment = segment.try_mut().unwrap_err(); // unique, and still not writable
/// assert!(segment.is_read_only());
/// let lent = segment.try_read_only().unwrap();
/// assert_eq!(&*lent, b"in flash");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// ```compile_fail,E0596
/// # use wharf_backend::BorrowedShared;
/// # use wharf_segment::Segment;
/// # use wharf_sync::Unsync;
/// # let table = BorrowedShared::<Unsync>::shared(b"in flash");
/// let mut lent = Segment::from(table.lend().unwrap()).try_read_only().unwrap();
/// let writable: &mut [u8] = &mut *lent; // error: cannot borrow as mutable
/// ```
///
/// Nor can it be stored where it may outlive what was lent:
///
/// ```compile_fail,E0597
/// # use wharf_backend::BorrowedShared;
/// # use wharf_segment::Segment;
/// # use wharf_sync::Unsync;
/// struct Stored(Segment<&'static BorrowedShared<'static, Unsync>>);
/// let bytes = [1, 2, 3];
/// let memory = BorrowedShared::<Unsync>::shared(&bytes); // error: `bytes` does not live long enough
/// let stored = Stored(Segment::from(memory.lend().unwrap()));
/// ```
///
/// Over an `Unsync` backend it is neither `Send` nor `Sync`, typed or erased:
///
/// ```compile_fail,E0277
/// # use wharf_segment::Segment;
/// # use wharf_backend::{MemBackend, StaticPool};
/// # use wharf_sync::Unsync;
/// fn sent<T: Send>() {}
/// sent::<Segment<&'static dyn MemBackend<Policy = Unsync>>>();
/// ```
#[must_use = "dropping a segment may give its memory back"]
pub struct Segment<R: BackendRef> {
    header: NonNull<Header<R::Policy>>,
    backend: MaybeUninit<R>,
}

// SAFETY: a clone on another thread counts through `Count` (hence `Sync`), uses the backend through
// a bit copy of `R` (hence `Sync`), and may be the last, which drops it there (hence `Send`). Bytes are only read.
unsafe impl<R: BackendRef + Send + Sync> Send for Segment<R> where
    <R::Policy as SyncPolicy>::Count: Send + Sync
{
}
// SAFETY: `&Segment` can be cloned, so as above.
unsafe impl<R: BackendRef + Send + Sync> Sync for Segment<R> where
    <R::Policy as SyncPolicy>::Count: Send + Sync
{
}

/// A handle taken apart, with the reference that it owned.
type Parts<R> = (NonNull<Header<<R as BackendRef>::Policy>>, R);

impl<R: BackendRef> Segment<R> {
    /// Bytes.
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

    /// Holders at this moment; for reports, because another context may change it at once.
    #[must_use]
    pub fn holders(&self) -> u32 {
        self.header().count().get()
    }

    /// Whether both are handles to one segment.
    #[must_use]
    #[inline]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        // Headers have bytes, so that no two live ones are in one place.
        self.header == other.header
    }

    /// Where it goes back to.
    #[must_use]
    #[inline]
    pub fn backend(&self) -> &R::Backend {
        // SAFETY: invariant 3: a bit copy of a live reference.
        unsafe { self.backend.assume_init_ref() }.backend()
    }

    /// Where its first byte is.
    #[must_use]
    #[inline]
    pub fn place(&self) -> Place {
        // SAFETY: invariant 1.
        unsafe { self.backend().place(self.header) }
    }

    /// The bytes, or the news that they are device memory.
    ///
    /// # Errors
    /// The segment is in device memory.
    #[inline]
    pub fn host(&self) -> Result<&[u8], NotHostAddressable> {
        match self.place() {
            Place::Host(base) => {
                // SAFETY: invariants 1 and 2.
                Ok(unsafe { core::slice::from_raw_parts(base.as_ptr(), self.len()) })
            }
            Place::Device(_) => Err(NotHostAddressable),
        }
    }

    /// Copies bytes at `offset` into `bytes`, from wherever they are.
    ///
    /// # Errors
    /// The range leaves the segment, or the device is closed; `bytes` is untouched.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), TransferError> {
        // SAFETY: invariants 1 and 2: live, initialised, and written by nobody.
        unsafe { read_raw(self.backend(), self.header, offset, bytes) }
    }

    /// Whether it is memory that nobody may write, however few hold it: [`try_mut`](Self::try_mut) always refuses, and
    /// [`try_read_only`](Self::try_read_only) does not.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.backend().caps().contains(Caps::READ_ONLY)
    }

    /// Thaws the segment if this is the only handle. Costs a look at the count and at the backend's capabilities.
    ///
    /// # Errors
    /// Somebody else holds it too, or it [is read-only](Self::is_read_only); the handle comes back.
    #[inline]
    pub fn try_mut(self) -> Result<SegmentMut<R>, Self> {
        if self.is_read_only() {
            return Err(self);
        }
        let (header, backend) = self.try_parts()?;
        // SAFETY: live, a count of one, and that one was ours; not of a read-only backend, so frozen of an `Init` handle
        // (invariant 2).
        Ok(unsafe { SegmentMut::from_raw_unchecked(header, backend) })
    }

    /// The unique handle of read-only memory again, if this is the only one: to take an owner out of its backend, say.
    ///
    /// # Errors
    /// Somebody else holds it too, or it is not [read-only](Self::is_read_only); the handle comes back.
    pub fn try_read_only(self) -> Result<SegmentMut<R, ReadOnly>, Self> {
        if !self.is_read_only() {
            return Err(self);
        }
        let (header, backend) = self.try_parts()?;
        // SAFETY: live, a count of one, and that one was ours; of a read-only backend, so frozen of such a handle
        // (invariant 2).
        Ok(unsafe { SegmentMut::from_raw_unchecked(header, backend) })
    }

    /// Takes the handle apart, for a descriptor ring or a foreign function; it still counts.
    pub fn into_raw(self) -> (NonNull<Header<R::Policy>>, MaybeUninit<R>) {
        self.into_parts()
    }

    /// Puts a handle together again.
    ///
    /// # Safety
    /// `header` and `backend` came from one call of [`into_raw`](Self::into_raw), are put together once, and meanwhile the
    /// backend was neither moved nor borrowed exclusively. (A pointer
    /// that the backend refuses is harmless.)
    ///
    /// # Errors
    /// The pointer is provably no live segment of the backend.
    pub unsafe fn from_raw(
        header: NonNull<Header<R::Policy>>,
        backend: MaybeUninit<R>,
    ) -> Result<Self, ForeignSegment> {
        // SAFETY: came from `into_raw`, so it is a bit copy of a live reference.
        let live = unsafe { backend.assume_init_ref() };
        if live.backend().may_own(header) {
            Ok(Self { header, backend })
        } else {
            Err(ForeignSegment {
                address: header.addr().get(),
            })
        }
    }

    /// Forgets the type of the backend. Only while this is the only handle: the others would keep the old reference.
    ///
    /// # Errors
    /// Somebody else holds it too; the handle comes back.
    pub fn erase<E>(self) -> Result<Segment<E>, Self>
    where
        E: Erases<R> + BackendRef<Policy = R::Policy>,
    {
        let (header, backend) = self.try_parts()?;
        // The same backend, so the same capabilities: the state of the handle is not lost.
        Ok(Segment {
            header,
            backend: MaybeUninit::new(E::erase(backend)),
        })
    }

    /// Header and reference of the only handle.
    #[inline]
    fn try_parts(self) -> Result<Parts<R>, Self> {
        if !self.header().count().is_unique() {
            return Err(self);
        }
        let (header, backend) = self.into_parts();
        // SAFETY: invariant 3: the bit copy is the only one left, so it may be owned.
        Ok((header, unsafe { backend.assume_init() }))
    }

    /// Freezes. Costs nothing: a unique segment already counts one.
    #[inline]
    fn freeze<S: State>(unique: SegmentMut<R, S>) -> Self {
        let (header, backend) = unique.into_raw();
        Self {
            header,
            backend: MaybeUninit::new(backend),
        }
    }

    fn into_parts(self) -> (NonNull<Header<R::Policy>>, MaybeUninit<R>) {
        let this = ManuallyDrop::new(self);
        // SAFETY: a bit copy; `this` is never used again.
        (this.header, unsafe {
            core::ptr::read(&raw const this.backend)
        })
    }

    /// The control block, for calling the backend.
    pub(crate) const fn header_ptr(&self) -> NonNull<Header<R::Policy>> {
        self.header
    }

    #[inline]
    fn header(&self) -> &Header<R::Policy> {
        // SAFETY: invariant 1.
        unsafe { self.header.as_ref() }
    }
}

impl<R: BackendRef> From<SegmentMut<R>> for Segment<R> {
    /// Freezes. Costs nothing: a unique segment already counts one.
    #[inline]
    fn from(unique: SegmentMut<R>) -> Self {
        Self::freeze(unique)
    }
}

impl<R: BackendRef> From<SegmentMut<R, ReadOnly>> for Segment<R> {
    /// Shares what nobody may write. Costs nothing.
    #[inline]
    fn from(lent: SegmentMut<R, ReadOnly>) -> Self {
        Self::freeze(lent)
    }
}

impl<R: BackendRef> Clone for Segment<R> {
    #[inline]
    fn clone(&self) -> Self {
        self.header().count().increment();
        Self {
            header: self.header,
            // SAFETY: a bit copy of the reference that all holders share (invariant 3).
            backend: unsafe { core::ptr::read(&raw const self.backend) },
        }
    }
}

impl<R: BackendRef> Drop for Segment<R> {
    #[inline]
    fn drop(&mut self) {
        if self.header().count().decrement() {
            // SAFETY: the last handle: nobody reads the header or the bytes any more.
            unsafe { self.backend().reclaim(self.header) };
            // SAFETY: the last handle drops the shared reference, after its last use (invariant 3).
            unsafe { self.backend.assume_init_drop() };
        }
    }
}

impl<R: BackendRef> Deref for Segment<R>
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

impl<R: BackendRef> AsRef<[u8]> for Segment<R>
where
    R::Backend: ReadableBackend,
{
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<R: BackendRef> fmt::Debug for Segment<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment")
            .field("backend", &self.backend().name())
            .field("len", &self.len())
            .field("holders", &self.holders())
            .finish()
    }
}
