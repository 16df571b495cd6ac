//! Bytes of a segment that a wrapper moves itself, while no handle is there: with the cache hooks around what the CPU does not
//! reach itself, and none around what it does, as for handles (see `transfer.rs`).
#![allow(
    unsafe_code,
    reason = "calls the backend's unsafe transfers for wrappers that own the segment meanwhile"
)]

use core::ptr::NonNull;

use crate::transfer::maintained;
use crate::{Caps, Header, IoDirection, MemBackend, TransferError};

/// # Safety
/// As for [`MemBackend::fill`].
pub(super) unsafe fn fill<B: MemBackend>(
    backend: &B,
    header: NonNull<Header<B::Policy>>,
    (offset, len): (usize, usize),
    byte: u8,
) -> Result<(), TransferError> {
    if len == 0 {
        return Ok(());
    }
    // SAFETY: as the caller promises.
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

/// Whether every byte of the range is `byte`.
///
/// # Safety
/// As for [`MemBackend::copy_out`], without a destination.
pub(super) unsafe fn holds<B: MemBackend>(
    backend: &B,
    header: NonNull<Header<B::Policy>>,
    (offset, len): (usize, usize),
    byte: u8,
) -> Result<bool, TransferError> {
    let mut bytes = [0; 32];
    let mut all = true;
    for done in (0..len).step_by(bytes.len()) {
        let piece = bytes.len().min(len - done);
        let at = (offset + done, piece);
        // SAFETY: as the caller promises, for a part of the range; the destination is ours.
        unsafe {
            maintained(backend, header, at, IoDirection::DeviceToCpu, || {
                backend.copy_out(header, at.0, NonNull::from(&mut bytes).cast(), piece)
            })
        }?;
        all &= bytes.iter().take(piece).all(|&found| found == byte);
    }
    Ok(all)
}

/// Has the memory itself hold what the CPU wrote to a range of a segment, as if a device were to read it next.
///
/// # Safety
/// As for [`MemBackend::before_io`].
pub(super) unsafe fn write_back<B: MemBackend>(
    backend: &B,
    header: NonNull<Header<B::Policy>>,
    (offset, len): (usize, usize),
) {
    if backend.caps().contains(Caps::NEEDS_CACHE_OPS) {
        // SAFETY: as the caller promises.
        unsafe {
            backend.before_io(header, offset, len, IoDirection::CpuToDevice);
            backend.after_io(header, offset, len, IoDirection::CpuToDevice);
        }
    }
}
