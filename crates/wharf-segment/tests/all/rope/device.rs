//! A device of bytes that the CPU does not address, and that fails when told to.

use std::cell::{Cell, RefCell};

use wharf_backend::{BorrowedDevice, DeviceAddress, DeviceRange, DeviceTransfer, TransferError};
use wharf_segment::{Segment, View};
use wharf_sync::Unsync;

use super::Erased;

/// Where the device's memory starts.
pub(crate) const BASE: u64 = 0x10_0000_0000;

pub(crate) struct Bytes {
    bytes: RefCell<Vec<u8>>,
    /// Transfers until it is closed.
    left: Cell<usize>,
}

impl Bytes {
    fn range(
        &self,
        at: DeviceAddress,
        len: usize,
    ) -> Result<std::ops::Range<usize>, TransferError> {
        let left = self
            .left
            .get()
            .checked_sub(1)
            .ok_or(TransferError::Closed)?;
        self.left.set(left);
        let start = usize::try_from(at.get() - BASE).unwrap();
        Ok(start..start + len)
    }
}

impl DeviceTransfer for Bytes {
    fn write(&self, at: DeviceAddress, from: &[u8]) -> Result<(), TransferError> {
        let range = self.range(at, from.len())?;
        self.bytes.borrow_mut()[range].copy_from_slice(from);
        Ok(())
    }
    fn read(&self, at: DeviceAddress, to: &mut [u8]) -> Result<(), TransferError> {
        let range = self.range(at, to.len())?;
        to.copy_from_slice(&self.bytes.borrow()[range]);
        Ok(())
    }
}

pub(crate) type Device = BorrowedDevice<Bytes, Unsync>;

/// A device that holds these bytes.
pub(crate) fn device(bytes: &[u8]) -> Device {
    let hook = Bytes {
        bytes: RefCell::new(bytes.to_vec()),
        left: Cell::new(usize::MAX),
    };
    Device::new(DeviceRange::new(DeviceAddress::new(BASE), bytes.len(), hook).unwrap())
}

/// Closes the device after so many transfers more.
pub(crate) fn close_after(device: &Device, transfers: usize) {
    device.lent().hook().left.set(transfers);
}

pub(crate) fn contents(device: &Device) -> Vec<u8> {
    device.lent().hook().bytes.borrow().clone()
}

/// All bytes of the device.
pub(crate) fn whole(device: &Device) -> View<&Device> {
    View::from(Segment::from(device.lend().unwrap()))
}

pub(crate) fn whole_erased(device: &Device) -> View<Erased<'_>> {
    View::from(Segment::from(device.lend().unwrap().erase::<Erased<'_>>()))
}

/// Nothing can be read from it or written to it.
pub(crate) struct Nowhere;

impl DeviceTransfer for Nowhere {
    fn write(&self, _: DeviceAddress, _: &[u8]) -> Result<(), TransferError> {
        Err(TransferError::Closed)
    }
    fn read(&self, _: DeviceAddress, _: &mut [u8]) -> Result<(), TransferError> {
        Err(TransferError::Closed)
    }
}

pub(crate) type Huge = BorrowedDevice<Nowhere, Unsync>;

/// So many bytes that a few of them cannot be counted.
pub(crate) fn huge(base: u64, len: usize) -> Huge {
    Huge::new(DeviceRange::new(DeviceAddress::new(base), len, Nowhere).unwrap())
}
