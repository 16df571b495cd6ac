//! What moves by its device address: copies inside a device, and many ranges as one submission.
//!
//! Invariant: an address from [`SegmentMut::by_address`] is that of a checked range of a live segment whose backend sets
//! [`Caps::ENGINE_ADDRESSED`] and reaches it, so the same bytes are there for every backend that reaches it.
#![allow(
    unsafe_code,
    reason = "calls the backend's unsafe transfers with ranges it has checked"
)]

use core::ptr::NonNull;

use crate::transfer::check;
use crate::{
    BackendRef, Caps, DeviceAddress, IoDirection, MemBackend, MemSpace, Piece, PieceError, Place,
    SegmentMut, State, TransferError,
};

const UNSUPPORTED: TransferError = TransferError::Unsupported {
    space: MemSpace::Device,
};

/// The address `offset` bytes into a segment that starts at `base`, all of which was found to be there.
const fn inside(base: DeviceAddress, offset: usize) -> DeviceAddress {
    DeviceAddress::new(base.get().wrapping_add(offset as u64))
}

impl<R: BackendRef, S: State> SegmentMut<R, S> {
    /// Where `len` bytes at `offset` are, if every backend that [reaches](MemBackend::reaches) them may move them by this
    /// address: see [`MemBackend::copy_on_device`] and [`MemBackend::transfer_all`]. The segment's own backend does then.
    ///
    /// `None`: they are host memory, leave the segment, are behind a cache, or their backend wants to be asked for every transfer.
    #[must_use]
    #[inline]
    pub fn by_address(&self, offset: usize, len: usize) -> Option<DeviceAddress> {
        let backend = self.backend();
        let caps = backend.caps();
        if !caps.contains(Caps::ENGINE_ADDRESSED) || caps.contains(Caps::NEEDS_CACHE_OPS) {
            return None;
        }
        check(offset, len, self.len()).ok()?;
        let Place::Device(base) = self.place() else {
            return None;
        };
        let address = base.checked_add(offset as u64)?;
        backend.reaches(address, len).then_some(address)
    }
}

impl<R: BackendRef> SegmentMut<R> {
    /// Copies `len` bytes at `source_offset` of `source` to `offset`, in one transfer: from the host or to it, or inside a device.
    ///
    /// # Errors
    /// A range leaves its segment; both are device memory, and no backend is known to reach both
    /// ([`TransferError::Unsupported`]: go through a buffer); or the device is closed. Nothing moved.
    pub fn copy_from_segment<Q: BackendRef>(
        &mut self,
        offset: usize,
        source: &SegmentMut<Q>,
        source_offset: usize,
        len: usize,
    ) -> Result<(), TransferError> {
        check(source_offset, len, source.len())?;
        check(offset, len, self.len())?;
        let range = |from: usize| from..from.saturating_add(len);
        if let Ok(bytes) = source.host() {
            return self.write(offset, bytes.get(range(source_offset)).unwrap_or_default());
        }
        if let Ok(bytes) = self.host_mut() {
            let bytes = bytes.get_mut(range(offset)).unwrap_or_default();
            return source.read(source_offset, bytes);
        }
        let from = source.by_address(source_offset, len).ok_or(UNSUPPORTED)?;
        let to = self.by_address(offset, len).ok_or(UNSUPPORTED)?;
        if !self.backend().reaches(from, len) {
            return Err(UNSUPPORTED);
        }
        // SAFETY: the invariant; the destination is borrowed exclusively, and nobody writes a source that is borrowed.
        unsafe { self.backend().copy_on_device(from, to, len) }
    }

    /// Copies `len` bytes at `from` to `to`, as `memmove` does, in one transfer.
    ///
    /// # Errors
    /// A range leaves the segment; its backend cannot ([`TransferError::Unsupported`]: go through a buffer); or the device is closed.
    /// Nothing moved.
    pub fn move_within(&mut self, from: usize, to: usize, len: usize) -> Result<(), TransferError> {
        let size = self.len();
        check(from, len, size)?;
        check(to, len, size)?;
        if let Ok(bytes) = self.host_mut() {
            // No wrap: checked.
            bytes.copy_within(from..from.saturating_add(len), to);
            return Ok(());
        }
        let from = self.by_address(from, len).ok_or(UNSUPPORTED)?;
        let to = self.by_address(to, len).ok_or(UNSUPPORTED)?;
        // SAFETY: the invariant; the segment is borrowed exclusively.
        unsafe { self.backend().copy_on_device(from, to, len) }
    }

    /// Many writes, in their order: each is an offset and bytes. All are checked first; then they are one submission where the backend
    /// [takes them so](MemBackend::transfer_all), and one [`write`](Self::write) after the other elsewhere.
    ///
    /// # Errors
    /// One leaves the segment, and nothing moved; or the device was closed in the middle. It is told which.
    pub fn write_all(&mut self, pieces: &[(usize, &[u8])]) -> Result<(), PieceError> {
        let size = self.len();
        for (piece, (offset, bytes)) in pieces.iter().enumerate() {
            let checked = check(*offset, bytes.len(), size);
            checked.map_err(|error| PieceError { piece, error })?;
        }
        let Some(base) = self.by_address(0, size) else {
            for (piece, (offset, bytes)) in pieces.iter().enumerate() {
                let moved = self.write(*offset, bytes);
                moved.map_err(|error| PieceError { piece, error })?;
            }
            return Ok(());
        };
        let mut pieces = pieces.iter().map(|(offset, bytes)| Piece {
            address: inside(base, *offset),
            host: NonNull::from(*bytes).cast(),
            len: bytes.len(),
        });
        // SAFETY: the invariant; the segment is borrowed exclusively, and the bytes are borrowed, so they are elsewhere.
        unsafe {
            self.backend()
                .transfer_all(IoDirection::CpuToDevice, &mut pieces)
        }
    }

    /// Many reads: each is an offset and where the bytes go. As [`write_all`](Self::write_all).
    ///
    /// # Errors
    /// As there.
    pub fn read_all(&self, pieces: &mut [(usize, &mut [u8])]) -> Result<(), PieceError> {
        let size = self.len();
        for (piece, (offset, bytes)) in pieces.iter().enumerate() {
            let checked = check(*offset, bytes.len(), size);
            checked.map_err(|error| PieceError { piece, error })?;
        }
        let Some(base) = self.by_address(0, size) else {
            for (piece, (offset, bytes)) in pieces.iter_mut().enumerate() {
                let moved = self.read(*offset, bytes);
                moved.map_err(|error| PieceError { piece, error })?;
            }
            return Ok(());
        };
        let mut pieces = pieces.iter_mut().map(|(offset, bytes)| Piece {
            address: inside(base, *offset),
            len: bytes.len(),
            host: NonNull::from(&mut **bytes).cast(),
        });
        // SAFETY: the invariant; nobody writes a segment that is borrowed, and the buffers are borrowed exclusively.
        unsafe {
            self.backend()
                .transfer_all(IoDirection::DeviceToCpu, &mut pieces)
        }
    }
}
