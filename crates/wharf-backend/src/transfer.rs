//! Moving bytes between host memory and a segment: bounds, and then the backend.
//!
//! The CPU's copies of host memory go through its cache, so no maintenance is due: the hooks bracket what a *device*
//! does (`in_flight.rs`). Memory that the CPU does not address is moved by its backend, in ways that only that one
//! knows; there the hooks bracket the move.
//!
//! Invariant: the hooks are always paired, also when the move between them fails.
#![allow(
    unsafe_code,
    reason = "calls the backend's unsafe transfers with ranges it has checked"
)]

use core::ptr::NonNull;

use crate::{
    BackendRef, Caps, Header, IoDirection, MemBackend, Place, SegmentMut, State, TransferError,
};

pub(crate) fn check(offset: usize, len: usize, size: usize) -> Result<(), TransferError> {
    match offset.checked_add(len) {
        Some(end) if end <= size => Ok(()),
        _ => Err(TransferError::OutOfBounds { offset, len, size }),
    }
}

/// Runs `step`, between the hooks of the backend where it has any and the bytes are not the CPU's own.
///
/// # Safety
/// As for [`MemBackend::before_io`].
pub(crate) unsafe fn maintained<B: MemBackend + ?Sized>(
    backend: &B,
    header: NonNull<Header<B::Policy>>,
    (offset, len): (usize, usize),
    direction: IoDirection,
    step: impl FnOnce() -> Result<(), TransferError>,
) -> Result<(), TransferError> {
    // In this order: a backend whose type is unknown and that has no hooks is asked one thing and not two.
    if !backend.caps().contains(Caps::NEEDS_CACHE_OPS)
        // SAFETY: as the caller promises.
        || matches!(unsafe { backend.place(header) }, Place::Host(_))
    {
        return step();
    }
    // SAFETY: as the caller promises.
    unsafe { backend.before_io(header, offset, len, direction) };
    let moved = step();
    // SAFETY: as the caller promises.
    unsafe { backend.after_io(header, offset, len, direction) };
    moved
}

/// # Safety
/// Until the return nobody else reads or writes the range, and no reference to its bytes is in use.
pub(crate) unsafe fn copy_in<R: BackendRef, S: State>(
    segment: &SegmentMut<R, S>,
    offset: usize,
    bytes: &[u8],
) -> Result<(), TransferError> {
    let len = bytes.len();
    check(offset, len, segment.len())?;
    let (backend, header) = (segment.backend(), segment.header_ptr());
    let source = NonNull::from(bytes).cast();
    // SAFETY: a live handle, a checked range that is our caller's alone, and a source that is a live slice; no reference to
    // the range is in use, so the two do not overlap.
    unsafe {
        maintained(
            backend,
            header,
            (offset, len),
            IoDirection::CpuToDevice,
            || backend.copy_in(header, offset, source, len),
        )
    }
}

pub(crate) fn copy_out<R: BackendRef, S: State>(
    segment: &SegmentMut<R, S>,
    offset: usize,
    bytes: &mut [u8],
) -> Result<(), TransferError> {
    // SAFETY: a live handle borrowed by our caller, who sees to it that it is initialised.
    unsafe { read_raw(segment.backend(), segment.header_ptr(), offset, bytes) }
}

/// What [`SegmentMut::read`] does, for a layer above that shares the header: bounds, the backend's hooks where it has any and
/// the bytes are not the CPU's own, and the copy.
///
/// # Safety
/// `header` is a live segment of `backend`, initialised, and nobody writes its bytes until the return.
///
/// # Errors
/// The range leaves the segment, or the device is closed; nothing moved.
pub unsafe fn read_raw<B: MemBackend + ?Sized>(
    backend: &B,
    header: NonNull<Header<B::Policy>>,
    offset: usize,
    bytes: &mut [u8],
) -> Result<(), TransferError> {
    let len = bytes.len();
    // SAFETY: live, and not written while it is, but for its count.
    check(offset, len, unsafe { header.as_ref() }.len())?;
    let destination = NonNull::from(bytes).cast();
    // SAFETY: as the caller promises; a checked range, and a destination that is a live exclusive slice elsewhere.
    unsafe {
        maintained(
            backend,
            header,
            (offset, len),
            IoDirection::DeviceToCpu,
            || backend.copy_out(header, offset, destination, len),
        )
    }
}

/// # Safety
/// As for [`copy_in`].
pub(crate) unsafe fn fill<R: BackendRef, S: State>(
    segment: &SegmentMut<R, S>,
    offset: usize,
    len: usize,
    byte: u8,
) -> Result<(), TransferError> {
    check(offset, len, segment.len())?;
    let (backend, header) = (segment.backend(), segment.header_ptr());
    // SAFETY: a live handle, and a checked range that is our caller's alone.
    unsafe {
        maintained(
            backend,
            header,
            (offset, len),
            IoDirection::CpuToDevice,
            || backend.fill(header, offset, len, byte),
        )
    }
}
