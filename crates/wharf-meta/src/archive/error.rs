//! What can be wrong with a file, with the numbers.

use core::fmt;
use std::string::String;

use safetensors::Dtype;
use wharf_tensor::TensorError;

use super::HEADER_MAX;
use crate::{DType, RANK_MAX, SetError, ShortName};

/// Why a file is not taken for a `.safetensors` file, or not for that of this model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The file ends before the eight bytes of its header's length do.
    TooShort {
        /// The bytes it has.
        found: usize,
    },
    /// The header would end after the file does.
    HeaderPastEnd {
        /// The bytes that the header would take.
        length: u64,
        /// The bytes there are for it.
        available: u64,
    },
    /// The header is longer than is parsed.
    HeaderTooLong {
        /// The bytes that it takes; at most [`HEADER_MAX`] are parsed.
        length: u64,
    },
    /// The header is no JSON object with one entry a tensor.
    Header {
        /// What the parser says.
        reason: String,
    },
    /// A tensor's entry in the header does not have the form of one.
    Entry {
        /// The tensor's name.
        name: ShortName,
        /// What the parser says.
        reason: String,
    },
    /// Two tensors have one name.
    NameTwice {
        /// The name.
        name: ShortName,
    },
    /// A tensor has more axes than a [`Shape`](crate::Shape).
    Rank {
        /// The tensor's name.
        name: ShortName,
        /// How many; at most [`RANK_MAX`] are kept.
        rank: usize,
    },
    /// A tensor ends before it begins.
    OffsetsReversed {
        /// The tensor's name.
        name: ShortName,
        /// Where it begins.
        begin: usize,
        /// Where it ends.
        end: usize,
    },
    /// A tensor ends after the file does.
    PastEnd {
        /// The tensor's name.
        name: ShortName,
        /// Where it ends.
        end: usize,
        /// The bytes there are after the header.
        available: usize,
    },
    /// A tensor's offsets span another length than its shape takes.
    Extent {
        /// The tensor's name.
        name: ShortName,
        /// The bytes that its shape takes; `u64::MAX` if they are more than that.
        expected: u64,
        /// The bytes that its offsets span.
        found: usize,
    },
    /// A tensor begins within the one before it.
    Overlap {
        /// The tensor's name.
        name: ShortName,
        /// Where it begins.
        begin: usize,
        /// Where the one before it ends.
        previous_end: usize,
    },
    /// There are bytes before a tensor that belong to none, where something could hide.
    Gap {
        /// The tensor's name.
        name: ShortName,
        /// Where it begins.
        begin: usize,
        /// Where the one before it ends.
        previous_end: usize,
    },
    /// There are bytes after the last tensor.
    TrailingBytes {
        /// Where the last tensor ends.
        end: usize,
        /// The bytes there are after the header.
        available: usize,
    },
    /// The crate `safetensors` refused what was accepted up to here.
    Refused {
        /// What it says.
        reason: String,
    },
    /// A tensor that the model wants is not there.
    Missing {
        /// Its name.
        name: ShortName,
    },
    /// A tensor has another type of element than the model says.
    WrongDType {
        /// The tensor's name.
        name: ShortName,
        /// The type it must have.
        expected: DType,
        /// The type it has, as the format spells it.
        found: Dtype,
    },
    /// A tensor has another number of axes than the model says.
    WrongRank {
        /// The tensor's name.
        name: ShortName,
        /// How many it must have.
        expected: usize,
        /// How many it has.
        found: usize,
    },
    /// A tensor has another number of elements along an axis than the model says.
    WrongAxis {
        /// The tensor's name.
        name: ShortName,
        /// The first axis that differs.
        axis: usize,
        /// The elements it must have.
        expected: usize,
        /// The elements it has.
        found: usize,
    },
}

impl ArchiveError {
    /// The name of the tensor that was refused, unless the fault lies with the file as a whole.
    #[must_use]
    pub const fn name(&self) -> Option<&ShortName> {
        match self {
            Self::TooShort { .. }
            | Self::HeaderPastEnd { .. }
            | Self::HeaderTooLong { .. }
            | Self::Header { .. }
            | Self::TrailingBytes { .. }
            | Self::Refused { .. } => None,
            Self::Entry { name, .. }
            | Self::NameTwice { name }
            | Self::Rank { name, .. }
            | Self::OffsetsReversed { name, .. }
            | Self::PastEnd { name, .. }
            | Self::Extent { name, .. }
            | Self::Overlap { name, .. }
            | Self::Gap { name, .. }
            | Self::Missing { name }
            | Self::WrongDType { name, .. }
            | Self::WrongRank { name, .. }
            | Self::WrongAxis { name, .. } => Some(name),
        }
    }
}

impl fmt::Display for ArchiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { found } => {
                write!(f, "{found} bytes, the header's length alone takes 8")
            }
            Self::HeaderPastEnd { length, available } => {
                write!(
                    f,
                    "the header would take {length} bytes, the file has {available} left"
                )
            }
            Self::HeaderTooLong { length } => {
                write!(
                    f,
                    "the header takes {length} bytes, at most {HEADER_MAX} are parsed"
                )
            }
            Self::Header { reason } => write!(f, "the header is not one: {reason}"),
            Self::Entry { name, reason } => write!(f, "{name} is ill described: {reason}"),
            Self::NameTwice { name } => write!(f, "{name} is there twice"),
            Self::Rank { name, rank } => {
                write!(f, "{name} has {rank} axes, at most {RANK_MAX} are kept")
            }
            Self::OffsetsReversed { name, begin, end } => {
                write!(f, "{name} begins at {begin} and ends at {end}, before that")
            }
            Self::PastEnd {
                name,
                end,
                available,
            } => write!(
                f,
                "{name} ends at {end}, the file holds {available} bytes of data"
            ),
            Self::Extent {
                name,
                expected,
                found,
            } => write!(
                f,
                "{name} takes {expected} bytes by its shape, {found} by its offsets"
            ),
            Self::Overlap {
                name,
                begin,
                previous_end,
            } => write!(f, "{name} begins at {begin}, taken up to {previous_end}"),
            Self::Gap {
                name,
                begin,
                previous_end,
            } => write!(f, "{name} begins at {begin}, unused from {previous_end}"),
            Self::TrailingBytes { end, available } => {
                write!(
                    f,
                    "the tensors end at {end}, the file holds {available} bytes of data"
                )
            }
            Self::Refused { reason } => write!(f, "no valid safetensors file: {reason}"),
            Self::Missing { name } => write!(f, "{name} is missing"),
            Self::WrongDType {
                name,
                expected,
                found,
            } => write!(f, "{name} must be of type {expected}, found {found}"),
            Self::WrongRank {
                name,
                expected,
                found,
            } => write!(f, "{name} must have {expected} axes, found {found}"),
            Self::WrongAxis {
                name,
                axis,
                expected,
                found,
            } => write!(
                f,
                "{name} must have {expected} elements along axis {axis}, found {found}"
            ),
        }
    }
}

impl core::error::Error for ArchiveError {}

/// Why a tensor was not loaded. What was loaded before it was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum LoadError {
    /// There was no memory, or it could not be written.
    Tensor {
        /// The tensor's name.
        name: ShortName,
        /// Why.
        error: TensorError,
    },
    /// The set did not take it.
    Set {
        /// The tensor's name.
        name: ShortName,
        /// Why.
        error: SetError,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor { name, error } => write!(f, "{name}: {error}"),
            Self::Set { name, error } => write!(f, "{name}: {error}"),
        }
    }
}

impl core::error::Error for LoadError {}
