//! What a channel holds and what moved, for people.

use core::fmt;

use wharf_backend::Census;
use wharf_backend::usage::{ChannelId, UsageBooks};

/// A snapshot of a [`Channel`](crate::Channel)'s books. Shown, it is a line and a table by class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Ledger {
    /// Which channel.
    pub channel: ChannelId,
    /// What it is called.
    pub name: &'static str,
    /// Bytes, in whole granules of 64: what is really taken.
    pub census: Census,
    /// The same by class.
    pub usage: UsageBooks,
    /// Live segments.
    pub segments: usize,
    /// Most that were ever alive at once.
    pub segments_peak: usize,
    /// Bytes of the largest segment that could be vended now. Well below what is free: the memory is fragmented.
    pub largest_free: usize,
    /// Segments vended.
    pub allocations: u64,
    /// Segments given back.
    pub frees: u64,
    /// Bytes that transfers moved to the device.
    pub bytes_in: u64,
    /// Bytes that transfers moved from the device.
    pub bytes_out: u64,
    /// Bytes that were set without being moved there.
    pub bytes_filled: u64,
    /// Bytes that were copied from segment to segment, without the host.
    pub bytes_copied: u64,
    /// Transfers that the host asked for, whether they failed or not: each of one range, or of all ranges of a batch that follow each
    /// other on this channel.
    pub submissions: u64,
    /// Allocations, frees and refusals that can no longer be read as events, because newer ones took their place.
    pub events_dropped: u64,
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} '{}': {}; {} segments live, peak {}, {} allocated, {} freed, largest free {} bytes; \
             {} bytes moved in, {} out, {} filled, {} copied, by {} submissions\n{}",
            self.channel,
            self.name,
            self.census,
            self.segments,
            self.segments_peak,
            self.allocations,
            self.frees,
            self.largest_free,
            self.bytes_in,
            self.bytes_out,
            self.bytes_filled,
            self.bytes_copied,
            self.submissions,
            self.usage,
        )
    }
}
