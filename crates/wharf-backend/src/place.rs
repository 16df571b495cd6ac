//! Where bytes are, and which way they move.
#![allow(
    unsafe_code,
    reason = "an inert address is declared `Send`; no unsafe operation"
)]

use core::fmt;
use core::ptr::NonNull;

/// The address space of a segment's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum MemSpace {
    /// The CPU reads and writes them like any memory.
    Host,
    /// Only a device, or a transfer, reaches them.
    Device,
}

/// An address as a device sees it: 64 bits on every host.
///
/// It is a number, not a pointer: holding one proves nothing and reaches nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct DeviceAddress(u64);

impl DeviceAddress {
    /// The address with this number.
    #[must_use]
    pub const fn new(address: u64) -> Self {
        Self(address)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The address `bytes` further on, unless that wraps.
    #[must_use]
    pub const fn checked_add(self, bytes: u64) -> Option<Self> {
        match self.0.checked_add(bytes) {
            Some(address) => Some(Self(address)),
            None => None,
        }
    }
}

impl fmt::Debug for DeviceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceAddress({:#x})", self.0)
    }
}

impl fmt::Display for DeviceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Where the first byte of a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In memory that the CPU addresses.
    Host(NonNull<u8>),
    /// In memory that only the device addresses.
    Device(DeviceAddress),
}

// SAFETY: a place is an address. Following it is `unsafe`, and whoever does answers for the thread.
unsafe impl Send for Place {}
// SAFETY: as above; it has no interior mutability.
unsafe impl Sync for Place {}

#[cfg(feature = "defmt")]
impl defmt::Format for Place {
    fn format(&self, f: defmt::Formatter<'_>) {
        match self {
            Self::Host(base) => defmt::write!(f, "Host({=usize:#x})", base.addr().get()),
            Self::Device(base) => defmt::write!(f, "Device({=u64:#x})", base.get()),
        }
    }
}

impl Place {
    /// The space of this place.
    #[must_use]
    pub const fn space(&self) -> MemSpace {
        match self {
            Self::Host(_) => MemSpace::Host,
            Self::Device(_) => MemSpace::Device,
        }
    }
}

/// Bytes of device memory and the host memory that they go to or come from: one of the ranges of a
/// [`MemBackend::transfer_all`](crate::MemBackend::transfer_all). Like the addresses in it, holding one proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where they are on the device.
    pub address: DeviceAddress,
    /// Where they are on the host. Only read, where they go to the device.
    pub host: NonNull<u8>,
    /// How many.
    pub len: usize,
}

/// Which way a transfer moves bytes; together with its timing (before or after) it decides which
/// cache maintenance is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum IoDirection {
    /// The CPU wrote, the device will read: clean before the device looks.
    CpuToDevice,
    /// The device writes, the CPU will read: invalidate before *and* after, because a speculative
    /// read in between may have filled the line again.
    DeviceToCpu,
}
