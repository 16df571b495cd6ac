//! Cutting one transfer into elements.

use core::fmt;
use core::iter::FusedIterator;

use wharf_backend::DeviceAddress;

use super::{Extent, Limits};

impl Limits {
    /// How many elements a transfer of `extent` takes, whether or not the engine has as many. They are counted and not walked.
    ///
    /// # Errors
    /// However many there were, the extent would not be covered.
    pub const fn needed(&self, extent: Extent) -> Result<u64, SplitError> {
        match self.reaches(extent) {
            Ok(()) => {
                let start = extent.start.get();
                Ok(in_blocks(start, self.mask, extent.len, self.max_bytes))
            }
            Err(error) => Err(error),
        }
    }

    /// The elements of a transfer of `extent`: in order, one behind the other, each within all limits, and no more of
    /// them than it takes. No bytes, no elements. Of a whole list of extents: [`split_list`](Self::split_list).
    ///
    /// # Errors
    /// There are no such elements. Nothing is found out half way: whoever has the iterator has them all.
    pub const fn split(&self, extent: Extent) -> Result<Elements, SplitError> {
        let needed = match self.needed(extent) {
            Ok(needed) => needed,
            Err(error) => return Err(error),
        };
        match self.admits(needed) {
            Ok(left) => Ok(Elements {
                start: extent.start.get(),
                bytes: extent.len,
                mask: self.mask,
                max_bytes: self.max_bytes,
                left,
            }),
            Err(error) => Err(error),
        }
    }

    /// The width and the alignment, which do not depend on where one cuts.
    pub(super) const fn reaches(&self, Extent { start, len }: Extent) -> Result<(), SplitError> {
        let start = start.get();
        let Some(before_last) = len.checked_sub(1) else {
            return Ok(());
        };
        let highest = u64::MAX >> (64 - self.address_bits);
        match start.checked_add(before_last) {
            Some(last) if last <= highest => {}
            _ => {
                return Err(SplitError::BeyondWidth {
                    start,
                    len,
                    address_bits: self.address_bits,
                });
            }
        }
        let alignment = self.alignment;
        if start & (alignment - 1) != 0 {
            return Err(SplitError::MisalignedStart { start, alignment });
        }
        if len & (alignment - 1) != 0 {
            return Err(SplitError::MisalignedLen { len, alignment });
        }
        Ok(())
    }

    pub(super) const fn admits(&self, needed: u64) -> Result<usize, SplitError> {
        // Compared in 64 bits, which every `usize` fits.
        if needed > self.max_elements as u64 {
            return Err(SplitError::TooManyElements {
                needed,
                max: self.max_elements,
            });
        }
        #[expect(clippy::cast_possible_truncation, reason = "not above a `usize`")]
        Ok(needed as usize)
    }

    /// Whether `extent` crosses a boundary of this engine.
    pub(super) const fn crosses(&self, Extent { start, len }: Extent) -> bool {
        len > 0 && len - 1 > self.mask & !start.get()
    }
}

/// Bytes from `start` to the next boundary, at most `len` of them, which is not zero.
pub(super) const fn to_boundary(start: u64, mask: u64, len: u64) -> u64 {
    let before_last = mask & !start;
    if len - 1 < before_last {
        len
    } else {
        before_last + 1
    }
}

/// How many elements of at most `max` bytes `len` bytes from `start` take, where the blocks of `mask` are not crossed.
/// Never more than there are bytes, so no sum wraps.
pub(super) const fn in_blocks(start: u64, mask: u64, len: u64, max: u64) -> u64 {
    if len == 0 {
        return 0;
    }
    let head = to_boundary(start, mask, len);
    let rest = len - head;
    let mut needed = head.div_ceil(max);
    if rest > 0 {
        // Not all ones: then the address space would end with the head.
        let block = mask + 1;
        needed += (rest >> mask.count_ones()) * block.div_ceil(max) + (rest & mask).div_ceil(max);
    }
    needed
}

/// The elements of one transfer: see [`Limits::split`].
#[derive(Clone, Debug)]
pub struct Elements {
    start: u64,
    bytes: u64,
    mask: u64,
    max_bytes: u64,
    left: usize,
}

impl Iterator for Elements {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        if self.bytes == 0 {
            return None;
        }
        let len = to_boundary(self.start, self.mask, self.bytes.min(self.max_bytes));
        let start = DeviceAddress::new(self.start);
        // Wraps only behind the last byte of the address space, when nothing is left.
        self.start = self.start.wrapping_add(len);
        self.bytes -= len;
        self.left -= 1;
        Some(Extent { start, len })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Elements {}
impl FusedIterator for Elements {}

/// Why an engine cannot transfer a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SplitError {
    /// The last byte is above the highest address.
    BeyondWidth {
        /// The first byte.
        start: u64,
        /// Bytes.
        len: u64,
        /// Address lines there are.
        address_bits: u32,
    },
    /// The start is no multiple of the alignment.
    MisalignedStart {
        /// The first byte.
        start: u64,
        /// What it must be a multiple of.
        alignment: u64,
    },
    /// The length is no multiple of the alignment.
    MisalignedLen {
        /// Bytes.
        len: u64,
        /// What it must be a multiple of.
        alignment: u64,
    },
    /// It takes more elements than the engine has.
    TooManyElements {
        /// How many it takes.
        needed: u64,
        /// How many there are.
        max: usize,
    },
}

impl fmt::Display for SplitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeyondWidth {
                start,
                len,
                address_bits,
            } => write!(
                f,
                "{len} bytes at {start:#x} leave what {address_bits} address lines reach"
            ),
            Self::MisalignedStart { start, alignment } => {
                write!(f, "address {start:#x} is no multiple of {alignment}")
            }
            Self::MisalignedLen { len, alignment } => {
                write!(f, "{len} bytes are no multiple of {alignment}")
            }
            Self::TooManyElements { needed, max } => {
                write!(f, "{needed} elements needed, a transfer has at most {max}")
            }
        }
    }
}

impl core::error::Error for SplitError {}
