//! What an engine's hardware can address, and cutting a transfer so that it can.
//!
//! All arithmetic is on the *last* byte of a range, never on the one past it: the end of the address space needs
//! no 65th bit, and nothing wraps.

use core::fmt;
use core::iter::FusedIterator;

use wharf_backend::DeviceAddress;

/// A range of addresses, as the device sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Extent {
    /// The first byte.
    pub start: DeviceAddress,
    /// Bytes. A range may end with the address space, but not go past it: [`Limits::split`] refuses that.
    pub len: u64,
}

impl Extent {
    /// `len` bytes from `start`.
    #[must_use]
    pub const fn new(start: DeviceAddress, len: u64) -> Self {
        Self { start, len }
    }
}

/// What a data sheet says about the transfers of an engine; [`Limits::new`] checks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Rules {
    /// Address lines: an engine with 32 reaches the first 4 GiB.
    pub address_bits: u32,
    /// What every element's start and length are a multiple of; a power of two.
    pub alignment: u64,
    /// No element crosses a multiple of this (a power of two): 4 KiB on AXI, 64 KiB on an ISA-style controller.
    pub boundary: Option<u64>,
    /// The most bytes of one element.
    pub max_bytes: u64,
    /// The most elements of one transfer.
    pub max_elements: usize,
}

impl Rules {
    /// No rule at all: to name those that there are, and take the others from here.
    pub const NONE: Self = Self {
        address_bits: 64,
        alignment: 1,
        boundary: None,
        max_bytes: u64::MAX,
        max_elements: usize::MAX,
    };
}

/// The limits of an engine, consistent with each other.
///
/// ```
/// use wharf_engine::{DeviceAddress, Extent, Limits, Rules};
///
/// // A controller with 32 address lines that moves at most 4095 words at a time.
/// const LIMITS: Limits = match Limits::new(Rules {
///     address_bits: 32,
///     alignment: 4,
///     max_bytes: 4 * 4095,
///     max_elements: 16,
///     ..Rules::NONE
/// }) {
///     Ok(limits) => limits,
///     Err(_) => panic!("the data sheet contradicts itself"),
/// };
///
/// let frame = Extent::new(DeviceAddress::new(0x2000_0000), 20_000);
/// let elements = LIMITS.split(frame)?.map(|element| (element.start.get(), element.len));
/// assert!(elements.eq([(0x2000_0000, 16_380), (0x2000_3ffc, 3_620)]));
/// # Ok::<(), wharf_engine::SplitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Limits {
    address_bits: u32,
    alignment: u64,
    /// The boundary less one; all ones if there is none.
    mask: u64,
    /// A multiple of the alignment.
    max_bytes: u64,
    max_elements: usize,
}

impl Limits {
    /// None: 64 address lines, and one element of any length.
    pub const NONE: Self = Self {
        address_bits: 64,
        alignment: 1,
        mask: u64::MAX,
        max_bytes: u64::MAX,
        max_elements: usize::MAX,
    };

    /// Limits from the rules of a data sheet.
    ///
    /// # Errors
    /// The first rule, in the order of the fields, with which there is no transfer.
    pub const fn new(rules: Rules) -> Result<Self, LimitsError> {
        let Rules {
            address_bits,
            alignment,
            boundary,
            max_bytes,
            max_elements,
        } = rules;
        if address_bits == 0 || address_bits > 64 {
            return Err(LimitsError::AddressBits { address_bits });
        }
        if !alignment.is_power_of_two() {
            return Err(LimitsError::Alignment { alignment });
        }
        let mask = match boundary {
            None => u64::MAX,
            Some(boundary) if boundary.is_power_of_two() && boundary >= alignment => boundary - 1,
            Some(boundary) => {
                return Err(LimitsError::Boundary {
                    boundary,
                    alignment,
                });
            }
        };
        if max_bytes < alignment {
            return Err(LimitsError::MaxBytes {
                max_bytes,
                alignment,
            });
        }
        if max_elements == 0 {
            return Err(LimitsError::NoElements);
        }
        Ok(Self {
            address_bits,
            alignment,
            mask,
            max_bytes: max_bytes & !(alignment - 1),
            max_elements,
        })
    }

    /// The rules, the most bytes of an element rounded down to the alignment.
    #[must_use]
    pub const fn rules(&self) -> Rules {
        Rules {
            address_bits: self.address_bits,
            alignment: self.alignment,
            boundary: self.mask.checked_add(1),
            max_bytes: self.max_bytes,
            max_elements: self.max_elements,
        }
    }

    /// The elements of a transfer of `extent`: in order, one behind the other, each within all limits, and no more of
    /// them than it takes. No bytes, no elements.
    ///
    /// # Errors
    /// There are no such elements. Nothing is found out half way: whoever has the iterator has them all.
    pub const fn split(&self, extent: Extent) -> Result<Elements, SplitError> {
        if let Err(error) = self.reaches(extent) {
            return Err(error);
        }
        let needed = in_blocks(extent.start.get(), self.mask, extent.len, self.max_bytes);
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
    const fn reaches(&self, Extent { start, len }: Extent) -> Result<(), SplitError> {
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

    const fn admits(&self, needed: u64) -> Result<usize, SplitError> {
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
    const fn crosses(&self, Extent { start, len }: Extent) -> bool {
        len > 0 && len - 1 > self.mask & !start.get()
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::NONE
    }
}

/// Bytes from `start` to the next boundary, at most `len` of them, which is not zero.
const fn to_boundary(start: u64, mask: u64, len: u64) -> u64 {
    let before_last = mask & !start;
    if len - 1 < before_last {
        len
    } else {
        before_last + 1
    }
}

/// How many elements of at most `max` bytes `len` bytes from `start` take, where the blocks of `mask` are not crossed.
/// Never more than there are bytes, so no sum wraps.
const fn in_blocks(start: u64, mask: u64, len: u64, max: u64) -> u64 {
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

/// Rules with which there is no transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum LimitsError {
    /// Not between 1 and 64.
    AddressBits {
        /// What was said.
        address_bits: u32,
    },
    /// Not a power of two.
    Alignment {
        /// What was said.
        alignment: u64,
    },
    /// Not a power of two, or less than the alignment: then every element would cross it.
    Boundary {
        /// What was said.
        boundary: u64,
        /// Beside which alignment.
        alignment: u64,
    },
    /// Less than the alignment.
    MaxBytes {
        /// What was said.
        max_bytes: u64,
        /// Beside which alignment.
        alignment: u64,
    },
    /// Not one element is allowed.
    NoElements,
}

impl fmt::Display for LimitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressBits { address_bits } => {
                write!(f, "an engine has 1 to 64 address lines, not {address_bits}")
            }
            Self::Alignment { alignment } => write!(f, "alignment {alignment} is no power of two"),
            Self::Boundary {
                boundary,
                alignment,
            } => write!(
                f,
                "boundary {boundary} is no power of two, or below the alignment {alignment}"
            ),
            Self::MaxBytes {
                max_bytes,
                alignment,
            } => write!(
                f,
                "an element of {max_bytes} bytes is below the alignment {alignment}"
            ),
            Self::NoElements => f.write_str("a transfer needs at least one element"),
        }
    }
}

impl core::error::Error for LimitsError {}

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
