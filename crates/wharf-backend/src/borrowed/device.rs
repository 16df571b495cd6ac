//! A range of a device's addresses, with the user's way to move bytes there.
//!
//! Invariant of a [`DeviceRange`]: no address in the range wraps.
#![allow(unsafe_code, reason = "makes slices of the core's pointers")]

use core::fmt;
use core::ptr::NonNull;

use super::LentMemory;
use crate::{DeviceAddress, Init, Place, TransferError};

/// How bytes get to a device and back: what a user writes to make its memory usable.
///
/// Synchronous: when a call returns, the device has let go of the host bytes. The core has checked the range, so `at` and
/// what follows lie in the range that was lent.
pub trait DeviceTransfer {
    /// Host to device.
    ///
    /// # Errors
    /// Why nothing arrived.
    fn write(&self, at: DeviceAddress, from: &[u8]) -> Result<(), TransferError>;

    /// Device to host. What `to` holds after an error does not matter.
    ///
    /// # Errors
    /// Why nothing came.
    fn read(&self, at: DeviceAddress, to: &mut [u8]) -> Result<(), TransferError>;

    /// Sets `len` bytes; by default through [`write`](Self::write), in pieces.
    ///
    /// # Errors
    /// As for [`write`](Self::write); the pieces before the one that failed have arrived.
    fn fill(&self, at: DeviceAddress, len: usize, byte: u8) -> Result<(), TransferError> {
        let piece = [byte; 32];
        let mut done = 0;
        while done < len {
            let piece = piece.get(..len - done).unwrap_or(&piece);
            // No wrap: in the range.
            self.write(DeviceAddress::new(at.get() + done as u64), piece)?;
            done += piece.len();
        }
        Ok(())
    }
}

impl<H: DeviceTransfer + ?Sized> DeviceTransfer for &H {
    fn write(&self, at: DeviceAddress, from: &[u8]) -> Result<(), TransferError> {
        (**self).write(at, from)
    }
    fn read(&self, at: DeviceAddress, to: &mut [u8]) -> Result<(), TransferError> {
        (**self).read(at, to)
    }
    fn fill(&self, at: DeviceAddress, len: usize, byte: u8) -> Result<(), TransferError> {
        (**self).fill(at, len, byte)
    }
}

/// A range that leaves the addresses there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RangeError {
    /// Its first address.
    pub base: DeviceAddress,
    /// Its bytes.
    pub len: usize,
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {} wrap", self.len, self.base)
    }
}

impl core::error::Error for RangeError {}

/// Addresses `base..base + len` of a device, lent to a [`BorrowedBackend`](super::BorrowedBackend).
///
/// They mean something to the hook, and to nobody else: anybody may write down any. So engines are not given them
/// ([`Caps::ENGINE_ADDRESSED`](crate::Caps::ENGINE_ADDRESSED)); memory that a device works on is a [`LentMemory`] or a
/// [`MemBackend`](crate::MemBackend) of your own.
#[derive(Debug)]
pub struct DeviceRange<H> {
    base: DeviceAddress,
    len: usize,
    hook: H,
}

impl<H> DeviceRange<H> {
    /// `len` bytes at `base`, reached through `hook`.
    ///
    /// # Errors
    /// The last address would wrap.
    pub fn new(base: DeviceAddress, len: usize, hook: H) -> Result<Self, RangeError> {
        match base.checked_add(len as u64) {
            Some(_) => Ok(Self { base, len, hook }),
            None => Err(RangeError { base, len }),
        }
    }

    /// The hook.
    pub const fn hook(&self) -> &H {
        &self.hook
    }

    fn at(&self, offset: usize) -> DeviceAddress {
        // No wrap: the caller's offset lies in the range.
        DeviceAddress::new(self.base.get() + offset as u64)
    }
}

// SAFETY: a device address is a number; the CPU reaches nothing by it, and an engine is not given it.
unsafe impl<H: DeviceTransfer> LentMemory for DeviceRange<H> {
    type Access = Init;
    const VENDS: bool = true;

    fn len(&self) -> usize {
        self.len
    }
    fn place(&self) -> Place {
        Place::Device(self.base)
    }
    fn name(&self) -> &'static str {
        "borrowed, device"
    }
    unsafe fn copy_in(
        &self,
        offset: usize,
        source: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        // SAFETY: the caller promises so many initialised bytes.
        let from = unsafe { core::slice::from_raw_parts(source.as_ptr(), len) };
        self.hook.write(self.at(offset), from)
    }
    unsafe fn copy_out(
        &self,
        offset: usize,
        destination: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        // SAFETY: the caller promises so many initialised bytes, which nobody else touches.
        let to = unsafe { core::slice::from_raw_parts_mut(destination.as_ptr(), len) };
        self.hook.read(self.at(offset), to)
    }
    unsafe fn fill(&self, offset: usize, len: usize, byte: u8) -> Result<(), TransferError> {
        self.hook.fill(self.at(offset), len, byte)
    }
}
