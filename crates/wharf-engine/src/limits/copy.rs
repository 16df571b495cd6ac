//! Cutting a copy, whose two ends have limits of their own.

use core::fmt;
use core::iter::FusedIterator;

use wharf_backend::DeviceAddress;

use super::split::{in_blocks, to_boundary};
use super::{Extent, Limits, SplitError};

/// One element of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Hop {
    /// The first byte to read.
    pub source: DeviceAddress,
    /// The first byte to write.
    pub destination: DeviceAddress,
    /// Bytes.
    pub len: u64,
}

/// The elements of a copy: in order, one behind the other, each within all limits of its two ends, and no more of them
/// than it takes. The stricter of the two `max_elements` holds.
///
/// Elements start and end at multiples of the stricter alignment, counted from the start of the copy.
///
/// ```
/// use wharf_engine::{DeviceAddress, Extent, Limits, Rules, split_copy};
///
/// let axi = Limits::new(Rules { boundary: Some(4096), ..Rules::NONE })?;
/// let words = Limits::new(Rules { alignment: 4, max_bytes: 1024, ..Rules::NONE })?;
/// let from = Extent::new(DeviceAddress::new(4000), 1200);
/// let to = Extent::new(DeviceAddress::new(0x800), 1200);
/// let lengths = split_copy(from, &axi, to, &words)?.map(|hop| hop.len);
/// assert!(lengths.eq([96, 1024, 80])); // up to 4096; a full element; the rest
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// # Errors
/// There are no such elements.
pub fn split_copy(
    source: Extent,
    source_limits: &Limits,
    destination: Extent,
    destination_limits: &Limits,
) -> Result<Hops, SplitCopyError> {
    if source.len != destination.len {
        return Err(SplitCopyError::Lengths {
            source: source.len,
            destination: destination.len,
        });
    }
    source_limits
        .reaches(source)
        .map_err(SplitCopyError::Source)?;
    destination_limits
        .reaches(destination)
        .map_err(SplitCopyError::Destination)?;
    // The length is a multiple of it: the end that it belongs to has looked.
    let alignment = source_limits.alignment.max(destination_limits.alignment);
    let max_bytes = source_limits.max_bytes.min(destination_limits.max_bytes);
    let ends = [(source, source_limits), (destination, destination_limits)];
    if source.len > 0 {
        if max_bytes < alignment {
            return Err(SplitCopyError::MaxBytes {
                max_bytes,
                alignment,
            });
        }
        for (extent, limits) in ends {
            let start = extent.start.get();
            // The start is as far from a cut as every other place at which an element could end.
            let meets = start & (alignment - 1) == 0 && limits.mask >= alignment - 1;
            if limits.crosses(extent) && !meets {
                return Err(SplitCopyError::Boundary {
                    start,
                    boundary: limits.mask + 1,
                    alignment,
                });
            }
        }
    }
    let mut hops = Hops {
        source: source.start.get(),
        source_mask: source_limits.mask,
        destination: destination.start.get(),
        destination_mask: destination_limits.mask,
        bytes: source.len,
        max_bytes: max_bytes & !(alignment - 1),
        left: 0,
    };
    let needed = hops.needed();
    // The end with fewer elements is the one to name.
    let strict = if source_limits.max_elements <= destination_limits.max_elements {
        source_limits.admits(needed).map_err(SplitCopyError::Source)
    } else {
        destination_limits
            .admits(needed)
            .map_err(SplitCopyError::Destination)
    };
    hops.left = strict?;
    Ok(hops)
}

/// The elements of a copy: see [`split_copy`].
#[derive(Clone, Debug)]
pub struct Hops {
    source: u64,
    source_mask: u64,
    destination: u64,
    destination_mask: u64,
    bytes: u64,
    max_bytes: u64,
    left: usize,
}

impl Hops {
    /// How many, without going through them. Of two boundaries the smaller divides the larger, so every block of the larger is
    /// cut by the smaller in the same way.
    fn needed(&self) -> u64 {
        let ends = [
            (self.source, self.source_mask),
            (self.destination, self.destination_mask),
        ];
        let [(outer, large), (inner, small)] = if self.source_mask >= self.destination_mask {
            ends
        } else {
            [ends[1], ends[0]]
        };
        if self.bytes == 0 {
            return 0;
        }
        let head = to_boundary(outer, large, self.bytes);
        let rest = self.bytes - head;
        let within = |offset, len| {
            // Only its distance from the smaller boundary matters, which survives a wrap.
            in_blocks(
                inner.wrapping_add(offset) & small,
                small,
                len,
                self.max_bytes,
            )
        };
        let mut needed = within(0, head);
        if rest > 0 {
            // Not all ones: then the address space would end with the head.
            let whole = rest >> large.count_ones();
            if whole > 0 {
                needed += whole * within(head, large + 1);
            }
            needed += within(head, rest & large);
        }
        needed
    }
}

impl Iterator for Hops {
    type Item = Hop;

    fn next(&mut self) -> Option<Hop> {
        if self.bytes == 0 {
            return None;
        }
        let len = to_boundary(
            self.source,
            self.source_mask,
            self.bytes.min(self.max_bytes),
        );
        let len = to_boundary(self.destination, self.destination_mask, len);
        let hop = Hop {
            source: DeviceAddress::new(self.source),
            destination: DeviceAddress::new(self.destination),
            len,
        };
        // Either wraps only behind the last byte of the address space, when nothing is left.
        self.source = self.source.wrapping_add(len);
        self.destination = self.destination.wrapping_add(len);
        self.bytes -= len;
        self.left -= 1;
        Some(hop)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Hops {}
impl FusedIterator for Hops {}

/// Why a copy cannot be cut into elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SplitCopyError {
    /// The ends differ in length.
    Lengths {
        /// Bytes to read.
        source: u64,
        /// Bytes to write.
        destination: u64,
    },
    /// The limits of the source do not admit it.
    Source(SplitError),
    /// The limits of the destination do not admit it.
    Destination(SplitError),
    /// The one end's longest element is below the other end's alignment.
    MaxBytes {
        /// The longest element.
        max_bytes: u64,
        /// The stricter alignment.
        alignment: u64,
    },
    /// The one end crosses its boundary where, by the other end's alignment, no element can end.
    Boundary {
        /// The first byte of the one.
        start: u64,
        /// Its boundary.
        boundary: u64,
        /// The alignment of the other.
        alignment: u64,
    },
}

impl fmt::Display for SplitCopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lengths {
                source,
                destination,
            } => write!(f, "{source} bytes do not go into {destination}"),
            Self::Source(error) => write!(f, "source: {error}"),
            Self::Destination(error) => write!(f, "destination: {error}"),
            Self::MaxBytes {
                max_bytes,
                alignment,
            } => write!(
                f,
                "elements of one end have at most {max_bytes} bytes, those of the other at least {alignment}"
            ),
            Self::Boundary {
                start,
                boundary,
                alignment,
            } => write!(
                f,
                "from {start:#x}, steps of {alignment} do not meet the boundary of {boundary} that is crossed"
            ),
        }
    }
}

impl core::error::Error for SplitCopyError {}
