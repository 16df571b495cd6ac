//! The seam: what a memory must be able to do to vend segments.
//!
//! Invariants that the trait's laws establish and everything above relies on:
//! 1. a header from `vend` stays valid, and the backend leaves it alone, until `reclaim` gets it back;
//! 2. its `place` never changes meanwhile and is the first of `header.len()` bytes that nobody else is given.
#![allow(
    unsafe_code,
    reason = "declares the unsafe traits and their default transfers"
)]

use core::ptr::NonNull;

use bitflags::bitflags;
use wharf_source::Census;
use wharf_sync::SyncPolicy;

use crate::{
    AllocError, DeviceAddress, Header, IoDirection, MemSpace, Piece, PieceError, Place, SegmentMut,
    TransferError, Uninit,
};

bitflags! {
    /// What a backend is, as facts that do not change while it lives.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Caps: u32 {
        /// Its hooks maintain caches and must bracket every access of a device.
        const NEEDS_CACHE_OPS = 1 << 0;
        /// `vend` and `reclaim` may be called from an interrupt handler.
        const ISR_SAFE = 1 << 1;
        /// `vend` and `reclaim` never wait for the operating system.
        const NONBLOCKING = 1 << 2;
        /// It owns the bytes, so a segment may be stored for as long as its backend lives.
        const OWNS_BYTES = 1 << 3;
        /// Vended bytes always have a value (device memory does), so no fill is due before a read.
        const VENDS_INITIALISED = 1 << 4;
        /// Its bytes are never written. It vends nothing; what it lends is typed [`ReadOnly`](crate::ReadOnly).
        const READ_ONLY = 1 << 5;
        /// Its device addresses are those by which engines reach its memory: so an engine may be given them. (An address that
        /// only a [`DeviceTransfer`](crate::DeviceTransfer) understands is a number like any other, and to an engine it may be
        /// the name of somebody else's memory.)
        const ENGINE_ADDRESSED = 1 << 6;
        /// Its transfers of host memory are the CPU's plain copies and nothing beside them: whoever knows the place of a segment
        /// may copy by himself, and nobody misses it. A wrapper that looks at transfers takes this away.
        const PLAIN_COPIES = 1 << 7;
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for Caps {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "Caps({=u32:b})", self.bits());
    }
}

/// A wish of whoever asks for memory. A backend ignores what it does not know.
///
/// The lower half has one meaning on every device that keeps account ([`usage`](crate::usage)): what the memory is for, and
/// how it is to be aligned. The upper half is the backend's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct AllocHint(pub u32);

impl AllocHint {
    /// No wish.
    pub const NONE: Self = Self(0);
}

/// Memory that vends segments and takes them back.
///
/// What is below under *Safety* is what memory safety rests on. Beyond it a backend behaves as `wharf-conformance` checks: a
/// size that can never be served is refused as too large, exhausted or not; a refusal is counted, with the largest in requested
/// bytes; the peak never falls; what comes back can be vended again. A wrapper hands on *every* method, those with
/// defaults too: the defaults are those of plain host memory.
///
/// A backend that cannot allocate (registers, a hardware FIFO) answers `None` to every `vend` and is
/// still bindable. Zero bytes are a valid size everywhere: they take a slot and give an empty segment.
///
/// # Safety
/// * `vend` returns a header with one holder and `len() == size`. Until `reclaim` gets it back the
///   backend neither touches nor vends it, and `place` gives the first of `size` bytes that belong to
///   it alone, aligned to [`alignment`](Self::alignment).
/// * A `Place::Host` is valid for reads of those bytes and has provenance over them; for writes too, unless
///   [`Caps::READ_ONLY`] is set. A backend that sets it answers `None` to every `vend`, and makes segments in state
///   [`ReadOnly`](crate::ReadOnly) and no others; and one that does not set it makes none in that state. So the capability says of
///   every live segment, erased or shared, whether it may ever be written. It never changes.
/// * If [`Caps::ENGINE_ADDRESSED`] is set, every engine of the program that takes a `Place::Device` of a live segment, and every
///   backend that [reaches](Self::reaches) it, finds that segment's bytes there, and nobody else's.
/// * If [`Caps::PLAIN_COPIES`] is set, the bytes at a `Place::Host` may be copied to and from, and (unless
///   [`Caps::READ_ONLY`] is set) be set, by the CPU past [`copy_in`](Self::copy_in), [`copy_out`](Self::copy_out) and
///   [`fill`](Self::fill), under the promises that are asked for there.
/// * If the backend is `Sync`, all of this holds between threads.
/// * If [`Caps::VENDS_INITIALISED`] is set, the vended bytes may be read at once.
/// * If [`reaches`](Self::reaches) is true of bytes of a live segment of such a backend, it is true of any part of them and stays so
///   while that segment lives, and [`copy_on_device`](Self::copy_on_device) and [`transfer_all`](Self::transfer_all) move what
///   engines find there.
/// * `may_own` returns `true` for every live segment of the backend, and is sound for any pointer.
/// * Moving the backend is allowed only while none of its segments is alive; handles prevent it by
///   holding it through a [`BackendRef`](crate::BackendRef).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not memory that vends segments",
    note = "the backends of wharf-backend are `StaticPool`, `PoolBackend`, `ShardedPool`, `SourceBackend`, and `Heap` (feature `alloc`); bytes that exist are lent through `BorrowedBackend` or `OwnerBackend`; for memory of your own implement `MemBackend`",
    note = "a reference to a backend is none itself: a wrapper goes around an `Arc` of one as `Shared::new(reference)`"
)]
pub unsafe trait MemBackend {
    /// How its counters and its lists are protected.
    type Policy: SyncPolicy;

    /// Vends a segment of `size` bytes, or counts a refusal and returns `None`.
    ///
    /// One word on purpose: the cause is asked for on the cold path, with [`refusal`](Self::refusal).
    fn vend(&self, size: usize, hint: AllocHint) -> Option<NonNull<Header<Self::Policy>>>;

    /// Why a `vend` of `size` bytes that was just refused was refused. Counts nothing.
    fn refusal(&self, size: usize, hint: AllocHint) -> AllocError;

    /// Takes a segment back. The header is the backend's again, and is dropped if its type needs that.
    ///
    /// # Safety
    /// `header` came from this backend's `vend` and was not reclaimed since; no handle is left.
    unsafe fn reclaim(&self, header: NonNull<Header<Self::Policy>>);

    /// Where the bytes are.
    ///
    /// # Safety
    /// `header` came from this backend's `vend` and was not reclaimed since.
    unsafe fn place(&self, header: NonNull<Header<Self::Policy>>) -> Place;

    /// `false` where the backend can prove that `header` is no live segment of its own: a pool always can,
    /// the heap never. Does not read through `header` unless it lies in the backend's own memory.
    fn may_own(&self, header: NonNull<Header<Self::Policy>>) -> bool;

    /// What it is.
    fn caps(&self) -> Caps;

    /// The address space of its segments. By default the host's.
    fn space(&self) -> MemSpace {
        MemSpace::Host
    }

    /// The alignment in bytes of every segment: a power of two.
    fn alignment(&self) -> usize;

    /// The largest size that `vend` can ever serve.
    fn max_segment_size(&self) -> usize;

    /// How much is used, was used at most, and was refused.
    fn census(&self) -> Census;

    /// A stable name for reports.
    fn name(&self) -> &'static str;

    /// Cache maintenance before a device gets at bytes `offset..offset + len`. By default none; called only where
    /// [`Caps::NEEDS_CACHE_OPS`] says so.
    ///
    /// The CPU's own copies of host memory go through the cache and need none: see
    /// [`SegmentMut::hand_over`](crate::SegmentMut::hand_over).
    ///
    /// # Safety
    /// As for [`place`](Self::place); the range lies in the segment.
    unsafe fn before_io(
        &self,
        header: NonNull<Header<Self::Policy>>,
        offset: usize,
        len: usize,
        direction: IoDirection,
    ) {
        let _ = (header, offset, len, direction);
    }

    /// Cache maintenance after the device is done with bytes `offset..offset + len`, or has failed. By default none.
    ///
    /// # Safety
    /// As for [`before_io`](Self::before_io).
    unsafe fn after_io(
        &self,
        header: NonNull<Header<Self::Policy>>,
        offset: usize,
        len: usize,
        direction: IoDirection,
    ) {
        let _ = (header, offset, len, direction);
    }

    /// Copies `len` bytes from host memory into the segment at `offset`. Synchronous: the host bytes
    /// are not touched after the return. By default a copy by the CPU, [`TransferError::ReadOnly`] where
    /// [`Caps::READ_ONLY`] is set, and [`TransferError::Unsupported`] on a device.
    ///
    /// # Safety
    /// As for [`place`](Self::place); the range lies in the segment, `source` is valid for reads of `len` bytes, all
    /// initialised, and does not overlap it, and nobody else reads or writes the range meanwhile.
    ///
    /// # Errors
    /// The device is closed, or no way leads there.
    unsafe fn copy_in(
        &self,
        header: NonNull<Header<Self::Policy>>,
        offset: usize,
        source: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        // A place that is valid for reads alone: nothing else would keep the CPU from writing there.
        if self.caps().contains(Caps::READ_ONLY) {
            return Err(TransferError::ReadOnly);
        }
        // SAFETY: as the caller promises: both sides are valid for `len` bytes, and do not overlap.
        unsafe { host_byte(self, header, offset)?.copy_from_nonoverlapping(source, len) };
        Ok(())
    }

    /// Copies `len` bytes of the segment at `offset` into host memory. Synchronous. By default as [`copy_in`](Self::copy_in).
    ///
    /// # Safety
    /// As for [`copy_in`](Self::copy_in), with `destination` valid for writes and initialised, the range initialised, and
    /// nobody else writing it meanwhile.
    ///
    /// # Errors
    /// The device is closed, or no way leads there.
    unsafe fn copy_out(
        &self,
        header: NonNull<Header<Self::Policy>>,
        offset: usize,
        destination: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        // SAFETY: as in `copy_in`, the other way round.
        unsafe { host_byte(self, header, offset)?.copy_to_nonoverlapping(destination, len) };
        Ok(())
    }

    /// Sets `len` bytes of the segment at `offset` to `byte`. By default as [`copy_in`](Self::copy_in).
    ///
    /// # Safety
    /// As for [`copy_in`](Self::copy_in), without a source.
    ///
    /// # Errors
    /// The device is closed, or no way leads there.
    unsafe fn fill(
        &self,
        header: NonNull<Header<Self::Policy>>,
        offset: usize,
        len: usize,
        byte: u8,
    ) -> Result<(), TransferError> {
        // A place that is valid for reads alone: nothing else would keep the CPU from writing there.
        if self.caps().contains(Caps::READ_ONLY) {
            return Err(TransferError::ReadOnly);
        }
        // SAFETY: as the caller promises: valid for writes of `len` bytes.
        unsafe { host_byte(self, header, offset)?.write_bytes(byte, len) };
        Ok(())
    }

    /// Whether [`copy_on_device`](Self::copy_on_device) and [`transfer_all`](Self::transfer_all) find the `len` bytes at
    /// `address`. By default not, as on every host memory, which is moved without asking its backend.
    ///
    /// Saying so of its own segments, a backend also lets others move their bytes that reach them: a batch over segments which
    /// were vended through several references to one channel is one submission to the first. A wrapper that must see every transfer of
    /// its segments (as [`Traced`](crate::Traced) does) answers `false`, and gets them one by one.
    fn reaches(&self, address: DeviceAddress, len: usize) -> bool {
        let _ = (address, len);
        false
    }

    /// Copies `len` bytes of device memory, as `memmove` does, in one transfer and without the host. Synchronous. By default
    /// [`TransferError::Unsupported`].
    ///
    /// # Safety
    /// Both ranges lie in live segments of backends that set [`Caps::ENGINE_ADDRESSED`], and this one [reaches](Self::reaches) both.
    /// Nobody else writes the one or reads or writes the other meanwhile.
    ///
    /// # Errors
    /// The device is closed. Nothing moved.
    unsafe fn copy_on_device(
        &self,
        from: DeviceAddress,
        to: DeviceAddress,
        len: usize,
    ) -> Result<(), TransferError> {
        let _ = (from, to, len);
        Err(TransferError::Unsupported {
            space: MemSpace::Device,
        })
    }

    /// Moves many ranges as one submission, in their order: to the device ([`IoDirection::CpuToDevice`]) or from it.
    /// Synchronous. It asks for a piece after the other until there are no more, and may ask for all before it moves the first. By default
    /// [`TransferError::Unsupported`].
    ///
    /// # Safety
    /// As for [`copy_on_device`](Self::copy_on_device), for the range of every piece until the return; and `host` is valid for `len`
    /// bytes so long, initialised, to be read or to be written, of which nobody else is in the way and none is in the device's memory.
    ///
    /// # Errors
    /// Which piece could not be moved: those before it were, none from it on.
    unsafe fn transfer_all(
        &self,
        direction: IoDirection,
        pieces: &mut dyn Iterator<Item = Piece>,
    ) -> Result<(), PieceError> {
        let _ = (direction, pieces);
        Err(PieceError {
            piece: 0,
            error: TransferError::Unsupported {
                space: MemSpace::Device,
            },
        })
    }
}

/// Byte `offset` of a segment, for the copies that the CPU makes itself.
///
/// # Safety
/// As for [`MemBackend::place`]; `offset` is not behind the segment's end.
unsafe fn host_byte<B: MemBackend + ?Sized>(
    backend: &B,
    header: NonNull<Header<B::Policy>>,
    offset: usize,
) -> Result<NonNull<u8>, TransferError> {
    // SAFETY: as the caller promises.
    match unsafe { backend.place(header) } {
        // SAFETY: the sum stays in the segment, or is its end.
        Place::Host(base) => Ok(unsafe { base.add(offset) }),
        Place::Device(_) => Err(TransferError::Unsupported {
            space: MemSpace::Device,
        }),
    }
}

/// A backend whose every segment is memory that the CPU addresses: its segments lend `&[u8]`.
///
/// # Safety
/// [`MemBackend::place`] is always `Place::Host`, and [`Caps::READ_ONLY`] is never set.
#[diagnostic::on_unimplemented(
    message = "the bytes of `{Self}` are not known to be host memory",
    note = "move device bytes with `read` and `write`; on an erased backend ask with `host()`, which answers an error for device memory"
)]
pub unsafe trait HostBackend: MemBackend {}

/// A backend whose every segment is memory that the CPU may at least read: every [`HostBackend`], and borrowed
/// memory that nobody may write.
///
/// # Safety
/// [`MemBackend::place`] is always `Place::Host`.
#[diagnostic::on_unimplemented(
    message = "the bytes of `{Self}` are not known to be host memory",
    note = "move device bytes with `read` and `write`; on an erased backend ask with `host()`, which answers an error for device memory"
)]
pub unsafe trait ReadableBackend: MemBackend {}

// SAFETY: the stronger law.
unsafe impl<B: HostBackend> ReadableBackend for B {}

/// A host backend whose segments have their cache lines to themselves, so that a line may be invalidated without
/// looking at what else is in it.
///
/// # Safety
/// * Every segment starts at a multiple of [`granule`](Self::granule), which is at most
///   [`alignment`](MemBackend::alignment).
/// * The bytes from its end to the next multiple are no other segment's, and the CPU writes none of them while the segment
///   lives, from the return of `vend` to the call of `reclaim`.
#[diagnostic::on_unimplemented(
    message = "segments of `{Self}` may share cache lines with other memory",
    note = "maintain a pool aligned to a line (`StaticPool<_, _, _, Align32>`, `PoolBackend`) or a `SourceBackend`, also through other wrappers; a `Scrub` goes around the `Maintained`"
)]
pub unsafe trait OwnLines: HostBackend {
    /// Bytes; a power of two.
    fn granule(&self) -> usize;
}

/// [`OwnLines`], known to the compiler.
///
/// # Safety
/// `GRANULE` is what [`granule`](OwnLines::granule) answers.
pub unsafe trait ConstOwnLines: OwnLines {
    /// Bytes; a power of two.
    const GRANULE: usize;
}

/// Allocation as a method of every backend, by borrowing it. For a counted or another reference see
/// [`SegmentMut::alloc`].
pub trait BackendExt: MemBackend {
    /// A segment of `size` bytes, uninitialised. Never blocks longer than the policy's section.
    ///
    /// # Errors
    /// Why the backend refused.
    fn alloc(&self, size: usize) -> Result<SegmentMut<&Self, Uninit>, AllocError> {
        SegmentMut::alloc(self, size)
    }
}

impl<B: MemBackend + ?Sized> BackendExt for B {}
