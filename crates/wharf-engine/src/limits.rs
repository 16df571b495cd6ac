//! What an engine's hardware can address. Below it, cutting transfers so that it can.
//!
//! All arithmetic is on the *last* byte of a range, never on the one past it: the end of the address space needs
//! no 65th bit, and nothing wraps.

use core::fmt;

use wharf_backend::DeviceAddress;

mod copy;
mod list;
mod split;

pub use copy::{Hop, Hops, SplitCopyError, split_copy};
pub use list::{ListElements, SplitListError};
pub use split::{Elements, SplitError};

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
}

impl Default for Limits {
    fn default() -> Self {
        Self::NONE
    }
}

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
