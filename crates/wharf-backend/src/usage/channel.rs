//! Which memory of which device.

use core::fmt;

/// Names a memory channel in errors and reports.
///
/// It is a number for people and tables, nothing rests on it: a device may number its channels as it likes, and the numbers
/// of a device that is gone may come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ChannelId {
    device: u16,
    index: u8,
}

impl ChannelId {
    /// Channel `index` of device `device`.
    #[must_use]
    pub const fn new(device: u16, index: u8) -> Self {
        Self { device, index }
    }

    /// The number of the device.
    #[must_use]
    pub const fn device(self) -> u16 {
        self.device
    }

    /// The number of the channel on its device, from zero.
    #[must_use]
    pub const fn index(self) -> u8 {
        self.index
    }
}

impl fmt::Display for ChannelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "channel {}.{}", self.device, self.index)
    }
}
