//! Memory that somebody lends: bytes, a range of a device, registers.
//!
//! The control block lies in the backend itself, so nothing is allocated; and there is one, so one segment is out
//! at a time. Invariants of a [`BorrowedBackend`]:
//! 1. `lent` keeps the laws of [`LentMemory`], and is reached by `&` alone while a segment is out;
//! 2. the header of `slot` is the one that every segment of this backend has.
#![allow(unsafe_code, reason = "implements the unsafe traits over what is lent")]

mod bytes;
mod device;
mod mmio;
mod slot;

use core::fmt;
use core::ptr::NonNull;

use wharf_source::Census;
use wharf_sync::{ConstInit, SyncPolicy};

use crate::segment::Facts;
use crate::{
    AllocError, AllocHint, BackendRef, Caps, Header, HostBackend, MemBackend, MemSpace, Place,
    ReadableBackend, SegmentMut, State, TransferError,
};

pub use bytes::{ExclusiveBytes, SharedBytes};
pub use device::{DeviceRange, DeviceTransfer, RangeError};
pub use mmio::{BusWord, Registers};
pub use slot::Loan;
use slot::Slot;

/// What can be lent to a [`BorrowedBackend`].
///
/// # Safety
/// As long as the value lives, wherever it is moved:
/// * `place` and `len` do not change. A `Place::Host` is valid for reads of `len` bytes, all initialised; if `Access` is [`Init`](crate::Init)
///   also for writes, and nobody else touches them; if it is [`ReadOnly`](crate::ReadOnly) nobody writes them, and `copy_in` and `fill` do not
///   either.
/// * `Access` is [`Init`](crate::Init) or [`ReadOnly`](crate::ReadOnly).
/// * `caps` says [`Caps::ENGINE_ADDRESSED`] only if what [`MemBackend`] says of it holds of `place`.
/// * `caps` says [`Caps::PLAIN_COPIES`] only if what [`MemBackend`] says of it holds of `place`.
/// * If the value is `Sync`, its transfers may be called between threads, on ranges of which none that is written overlaps
///   another.
pub unsafe trait LentMemory {
    /// What the borrower may do.
    type Access: State;

    /// Whether [`MemBackend::vend`] serves parts of it; otherwise it is lent whole, by
    /// [`lend`](BorrowedBackend::lend) alone.
    const VENDS: bool;

    /// Bytes.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Where the first one is.
    fn place(&self) -> Place;
    /// What it is, besides what follows from `Access`.
    fn caps(&self) -> Caps {
        Caps::empty()
    }
    /// What it is called in reports.
    fn name(&self) -> &'static str;

    /// As [`MemBackend::copy_in`], on the lent bytes.
    ///
    /// # Safety
    /// The range lies in `len`, `source` is valid for reads of `len` initialised bytes elsewhere, and nobody else reads or
    /// writes the range meanwhile.
    ///
    /// # Errors
    /// It cannot be written, or not so.
    unsafe fn copy_in(
        &self,
        offset: usize,
        source: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError>;

    /// As [`MemBackend::copy_out`], on the lent bytes.
    ///
    /// # Safety
    /// The range lies in `len`, `destination` is valid for writes of `len` initialised bytes elsewhere, and nobody else
    /// writes the range meanwhile.
    ///
    /// # Errors
    /// It cannot be read so.
    unsafe fn copy_out(
        &self,
        offset: usize,
        destination: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError>;

    /// As [`MemBackend::fill`], on the lent bytes.
    ///
    /// # Safety
    /// As for [`copy_in`](Self::copy_in).
    ///
    /// # Errors
    /// It cannot be written, or not so.
    unsafe fn fill(&self, offset: usize, len: usize, byte: u8) -> Result<(), TransferError>;
}

/// Memory that somebody lends, as a backend. One segment is out at a time.
///
/// | alias | lends | may be |
/// |---|---|---|
/// | [`BorrowedShared`] | `&'b [u8]` | read: the segment is [`ReadOnly`](crate::ReadOnly), and writing it does not compile |
/// | [`BorrowedExclusive`] | `&'b mut [u8]` | written; also vended in part |
/// | [`BorrowedDevice`] | addresses of a device | moved by your [`DeviceTransfer`]; also vended in part |
/// | [`BorrowedMmio`] | registers | moved word by word, volatile; never a slice |
///
/// ```
/// use wharf_backend::BorrowedExclusive;
/// use wharf_sync::Unsync;
///
/// let mut frame = *b"....payload";
/// let memory = BorrowedExclusive::<Unsync>::exclusive(&mut frame);
/// let mut segment = memory.lend()?;
/// segment[..4].copy_from_slice(b"head");
/// assert!(memory.lend().is_err(), "it is out once");
/// drop(segment);
/// drop(memory);
/// assert_eq!(&frame, b"headpayload");
/// # Ok::<(), wharf_backend::AllocError>(())
/// ```
///
/// A borrow cannot be stored where it may outlive what was lent:
///
/// ```compile_fail,E0597
/// # use wharf_backend::{BorrowedShared, ReadOnly, SegmentMut};
/// # use wharf_sync::Unsync;
/// struct Stored(SegmentMut<&'static BorrowedShared<'static, Unsync>, ReadOnly>);
/// let bytes = [1, 2, 3];
/// let memory = BorrowedShared::<Unsync>::shared(&bytes); // error: `bytes` does not live long enough
/// let stored = Stored(memory.lend().unwrap());
/// ```
///
/// ```compile_fail,E0505
/// # use wharf_backend::BorrowedExclusive;
/// # use wharf_sync::Unsync;
/// let mut bytes = vec![1, 2, 3];
/// let memory = BorrowedExclusive::<Unsync>::exclusive(&mut bytes);
/// let segment = memory.lend().unwrap();
/// drop(bytes); // error: cannot move out of `bytes` because it is borrowed
/// drop(segment);
/// ```
pub struct BorrowedBackend<L, P: SyncPolicy> {
    lent: L,
    slot: Slot<P>,
}

/// `&[u8]` as memory: read-only.
///
/// ```
/// use wharf_backend::{BorrowedShared, SegmentMut};
/// # #[cfg(feature = "critical-section")] {
/// use wharf_sync::Critical;
///
/// static TABLE: BorrowedShared<'static, Critical> = BorrowedShared::shared(b"in flash");
/// let segment = TABLE.lend().unwrap();
/// assert_eq!(&*segment, b"in flash");
/// # }
/// ```
pub type BorrowedShared<'b, P> = BorrowedBackend<SharedBytes<'b>, P>;
/// `&mut [u8]` as memory.
pub type BorrowedExclusive<'b, P> = BorrowedBackend<ExclusiveBytes<'b>, P>;
/// A range of a device's addresses as memory.
pub type BorrowedDevice<H, P> = BorrowedBackend<DeviceRange<H>, P>;
/// Registers as memory, `W` a word.
pub type BorrowedMmio<'b, W, P> = BorrowedBackend<Registers<'b, W>, P>;

impl<L, P: SyncPolicy> BorrowedBackend<L, P> {
    /// Over `lent`.
    pub const fn new(lent: L) -> Self
    where
        P::Lock<Loan>: ConstInit,
        P::Count: ConstInit,
    {
        Self {
            lent,
            slot: Slot::INIT,
        }
    }

    /// [`new`](Self::new) for policies without constants.
    pub fn fresh(lent: L) -> Self {
        Self {
            lent,
            slot: Slot::fresh(),
        }
    }

    /// What was lent. No segment is out, or it was forgotten.
    pub fn into_lent(self) -> L {
        self.lent
    }

    /// What was lent.
    pub const fn lent(&self) -> &L {
        &self.lent
    }
}

impl<'b, P: SyncPolicy> BorrowedBackend<SharedBytes<'b>, P> {
    /// Over `bytes`, which nobody writes meanwhile.
    #[must_use]
    pub const fn shared(bytes: &'b [u8]) -> Self
    where
        P::Lock<Loan>: ConstInit,
        P::Count: ConstInit,
    {
        Self::new(SharedBytes::new(bytes))
    }
}

impl<'b, P: SyncPolicy> BorrowedBackend<ExclusiveBytes<'b>, P> {
    /// Over `bytes`, which nobody else touches meanwhile.
    #[must_use]
    pub const fn exclusive(bytes: &'b mut [u8]) -> Self
    where
        P::Lock<Loan>: ConstInit,
        P::Count: ConstInit,
    {
        Self::new(ExclusiveBytes::new(bytes))
    }
}

impl<L: LentMemory, P: SyncPolicy> BorrowedBackend<L, P> {
    /// All of it, as one segment, which keeps the backend by a borrow.
    ///
    /// # Errors
    /// A segment is out; it is counted as a refusal.
    pub fn lend(&self) -> Result<SegmentMut<&Self, L::Access>, AllocError> {
        Self::lend_by(self)
    }

    /// [`lend`](Self::lend), keeping the backend by a reference of another kind: `&'static`, or `Arc`.
    ///
    /// # Errors
    /// A segment is out; it is counted as a refusal.
    pub fn lend_by<R>(reference: R) -> Result<SegmentMut<R, L::Access>, AllocError>
    where
        R: BackendRef<Policy = P, Backend = Self>,
    {
        let this = reference.backend();
        let len = this.lent.len();
        match this.slot.take(len) {
            // SAFETY: a fresh header of this backend with a count of one, and nobody else has it; every byte that was lent
            // has a value, and may be used as `Access` says (the laws of `LentMemory`).
            Some(header) => Ok(unsafe { SegmentMut::from_raw_unchecked(header, reference) }),
            None => Err(this.slot.exhausted(len, len)),
        }
    }

    /// Bytes that a `vend` can ask for; `None` where it cannot ask.
    fn vendable(&self) -> Option<usize> {
        L::VENDS.then(|| self.lent.len())
    }
}

impl<L: LentMemory, P: SyncPolicy> fmt::Debug for BorrowedBackend<L, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BorrowedBackend")
            .field("policy", &P::NAME)
            .field("lent", &self.lent.name())
            .field("len", &self.lent.len())
            .field("census", &self.slot.census(self.lent.len()))
            .finish()
    }
}

/// The largest power of two that divides `address`, up to a page.
const fn natural_alignment(address: u64) -> usize {
    const PAGE: u32 = 12;
    let zeros = address.trailing_zeros();
    1 << if zeros < PAGE { zeros } else { PAGE }
}

// SAFETY: the slot gives its header out once until it is back (and no longer than the lent memory is); the memory keeps the
// laws of `LentMemory`, which are those of a segment: valid for `len` bytes, of which a vended one has the first `size`. A
// `ReadOnly` one vends nothing, or it would be given out as `Uninit`. Nothing moves while a handle refers to the backend.
unsafe impl<L: LentMemory, P: SyncPolicy> MemBackend for BorrowedBackend<L, P> {
    type Policy = P;

    fn vend(&self, size: usize, _: AllocHint) -> Option<NonNull<Header<P>>> {
        match self.vendable() {
            Some(most) if size <= most && <L::Access as Facts>::WRITABLE => self.slot.take(size),
            _ => self.slot.refuse(size),
        }
    }
    fn refusal(&self, size: usize, _: AllocHint) -> AllocError {
        match self.vendable() {
            None => AllocError::Unsupported,
            Some(max) if size > max => AllocError::TooLarge {
                requested: size,
                max,
            },
            Some(max) => self.slot.exhausted(size, max),
        }
    }
    unsafe fn reclaim(&self, header: NonNull<Header<P>>) {
        debug_assert!(self.slot.owns(header), "a foreign segment");
        // SAFETY: as the caller promises: it is the slot's header (invariant 2), and no handle is left.
        unsafe { self.slot.give() }
    }
    #[inline]
    unsafe fn place(&self, _: NonNull<Header<P>>) -> Place {
        self.lent.place()
    }
    fn may_own(&self, header: NonNull<Header<P>>) -> bool {
        self.slot.owns(header)
    }
    fn caps(&self) -> Caps {
        let access = if <L::Access as Facts>::WRITABLE {
            Caps::empty()
        } else {
            Caps::READ_ONLY
        };
        // The type decides what may be written, not the value.
        let said = self.lent.caps().difference(Caps::READ_ONLY);
        said | access | Caps::NONBLOCKING | Caps::VENDS_INITIALISED
    }
    fn space(&self) -> MemSpace {
        self.lent.place().space()
    }
    fn alignment(&self) -> usize {
        natural_alignment(match self.lent.place() {
            Place::Host(base) => base.addr().get() as u64,
            Place::Device(base) => base.get(),
        })
    }
    fn max_segment_size(&self) -> usize {
        self.vendable().unwrap_or(0)
    }
    /// One unit: all that was lent.
    fn census(&self) -> Census {
        self.slot.census(self.lent.len())
    }
    fn name(&self) -> &'static str {
        self.lent.name()
    }
    unsafe fn copy_in(
        &self,
        _: NonNull<Header<P>>,
        offset: usize,
        source: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        // SAFETY: as the caller promises; the segment is a prefix of what was lent.
        unsafe { self.lent.copy_in(offset, source, len) }
    }
    unsafe fn copy_out(
        &self,
        _: NonNull<Header<P>>,
        offset: usize,
        destination: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        // SAFETY: as the caller promises; the segment is a prefix of what was lent.
        unsafe { self.lent.copy_out(offset, destination, len) }
    }
    unsafe fn fill(
        &self,
        _: NonNull<Header<P>>,
        offset: usize,
        len: usize,
        byte: u8,
    ) -> Result<(), TransferError> {
        // SAFETY: as the caller promises; the segment is a prefix of what was lent.
        unsafe { self.lent.fill(offset, len, byte) }
    }
}

// SAFETY: exclusively borrowed host memory.
unsafe impl<P: SyncPolicy> HostBackend for BorrowedBackend<ExclusiveBytes<'_>, P> {}

// SAFETY: borrowed host memory.
unsafe impl<P: SyncPolicy> ReadableBackend for BorrowedBackend<SharedBytes<'_>, P> {}
