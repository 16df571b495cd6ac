//! What is known of a live segment.

use core::fmt;

use super::{ChannelId, Tag, UsageClass};
use crate::DeviceAddress;

/// Where a live segment is, what it takes, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Allocation {
    /// The channel that it is on.
    pub channel: ChannelId,
    /// The address of its first byte: aligned as asked.
    pub address: DeviceAddress,
    /// Bytes asked for.
    pub asked: usize,
    /// Bytes taken: those asked for, rounded up, and those before [`address`](Self::address) that its alignment costs.
    pub allocated: usize,
    /// Bytes taken that lie before [`address`](Self::address). Zero where the allocator gives them to others.
    pub align_offset: usize,
    /// What it is used for.
    pub class: UsageClass,
    /// What its owner calls it.
    pub tag: Tag,
}

impl fmt::Display for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            channel,
            address,
            asked,
            allocated,
            class,
            tag,
            ..
        } = self;
        write!(
            f,
            "{address} on {channel}: {asked} bytes of {allocated}, {class}"
        )?;
        if tag.is_none() {
            return Ok(());
        }
        write!(f, " '{tag}'")
    }
}
