//! How a device is opened.

use wharf_backend::DeviceAddress;

/// The most memory channels of a device.
pub const MAX_CHANNELS: usize = 4;

/// One memory channel of a device.
///
/// ```
/// use wharf_backend::DeviceAddress;
/// use wharf_softdma::ChannelConfig;
///
/// // 64 KiB above 4 GiB.
/// let hbm = ChannelConfig::new(64 << 10).named("hbm1").at(DeviceAddress::new(0x2_0000_0000));
/// assert_eq!((hbm.name, hbm.memory), ("hbm1", 65_536));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChannelConfig {
    /// The name in reports.
    pub name: &'static str,
    /// Bytes, rounded up to whole granules of 64.
    pub memory: usize,
    /// The address of the first byte, a multiple of 64. By default one that is given out; those are not used twice.
    pub base: Option<DeviceAddress>,
    /// Whether the device's queue reaches it. By default it does.
    pub reached: bool,
    /// Whether it lies in the host's DRAM, where some classes are refused. By default it does not. (The host reaches it by
    /// transfer all the same.)
    pub on_host: bool,
    /// Whether there are bytes behind the addresses. By default there are.
    pub bytes: bool,
}

impl ChannelConfig {
    /// A channel of `memory` bytes. The host provides pages as they are first used.
    #[must_use]
    pub const fn new(memory: usize) -> Self {
        Self {
            name: "softdma",
            memory,
            base: None,
            reached: true,
            on_host: false,
            bytes: true,
        }
    }

    /// Called `name`.
    #[must_use]
    pub const fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// From the address `base` on.
    #[must_use]
    pub const fn at(self, base: DeviceAddress) -> Self {
        Self {
            base: Some(base),
            ..self
        }
    }

    /// Out of the queue's reach: transfers get there, descriptors do not.
    #[must_use]
    pub const fn unreached(self) -> Self {
        Self {
            reached: false,
            ..self
        }
    }

    /// In the host's DRAM.
    #[must_use]
    pub const fn on_host(self) -> Self {
        Self {
            on_host: true,
            ..self
        }
    }

    /// Addresses and books only, for planning: memory may be larger than any host's. Nothing moves there
    /// ([`TransferError::Unsupported`](wharf_backend::TransferError::Unsupported)), and the queue does not reach it.
    #[must_use]
    pub const fn without_bytes(self) -> Self {
        Self {
            bytes: false,
            reached: false,
            ..self
        }
    }
}

/// How a device is opened.
///
/// ```
/// use wharf_softdma::{ChannelConfig, Config};
///
/// let config = Config::new(1 << 20).named("npu0").with(ChannelConfig::new(4 << 20).named("spill"));
/// assert_eq!(config.name, "npu0");
/// let sizes: Vec<_> = config.channels().map(|channel| (channel.name, channel.memory)).collect();
/// assert_eq!(sizes, [("npu0", 1 << 20), ("spill", 4 << 20)]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The name of the device, of its thread, and of its first channel.
    pub name: &'static str,
    first: ChannelConfig,
    others: [Option<ChannelConfig>; MAX_CHANNELS - 1],
    /// Channels that were asked for, the first one counted.
    asked: usize,
}

impl Config {
    /// A device with one channel of `memory` bytes.
    #[must_use]
    pub const fn new(memory: usize) -> Self {
        Self::of(ChannelConfig::new(memory))
    }

    /// A device whose first channel is this one.
    #[must_use]
    pub const fn of(first: ChannelConfig) -> Self {
        Self {
            name: first.name,
            first,
            others: [None; MAX_CHANNELS - 1],
            asked: 1,
        }
    }

    /// Called `name`, and its first channel too.
    #[must_use]
    pub const fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self.first.name = name;
        self
    }

    /// And another channel. More than [`MAX_CHANNELS`] are refused when the device is opened.
    #[must_use]
    pub const fn with(mut self, channel: ChannelConfig) -> Self {
        if self.asked < MAX_CHANNELS {
            self.others[self.asked - 1] = Some(channel);
        }
        self.asked = self.asked.saturating_add(1);
        self
    }

    /// The channels, in order; at most [`MAX_CHANNELS`].
    pub fn channels(&self) -> impl Iterator<Item = &ChannelConfig> {
        core::iter::once(&self.first).chain(self.others.iter().flatten())
    }

    /// Channels that were asked for.
    pub(crate) const fn asked(&self) -> usize {
        self.asked
    }
}

impl Default for Config {
    /// One channel of 16 MiB.
    fn default() -> Self {
        Self::new(16 << 20)
    }
}
