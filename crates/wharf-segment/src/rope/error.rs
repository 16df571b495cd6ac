//! What a rope refuses, with the numbers.
#![forbid(unsafe_code)]

use core::fmt;

use wharf_backend::{Returned, TransferError};
use wharf_source::SourceError;

use crate::OutOfBounds;

/// Why a rope did not become longer. It is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum PushError {
    /// There is no place for the links.
    NoRoom {
        /// Links that there would have been.
        links: usize,
        /// Why the rope's source had no block for them; of a rope that never spills, that it has no source.
        refusal: SourceError,
    },
    /// The bytes could not be counted: there would be more than `usize::MAX`.
    TooLong {
        /// Bytes of the rope.
        len: usize,
        /// Bytes that were to be added; `usize::MAX` if they were more than that.
        added: usize,
    },
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoom { links, refusal } => no_room(f, *links, *refusal),
            Self::TooLong { len, added } => {
                write!(f, "{added} bytes more than {len} are too many for one rope")
            }
        }
    }
}

impl core::error::Error for PushError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::NoRoom { refusal, .. } => Some(refusal),
            Self::TooLong { .. } => None,
        }
    }
}

/// For `?`, where the view that was not pushed is not wanted back.
impl<T> From<Returned<T, Self>> for PushError {
    fn from(refused: Returned<T, Self>) -> Self {
        refused.error
    }
}

/// Why a rope was not cut. It is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SliceError {
    /// There are no such bytes.
    OutOfBounds(OutOfBounds),
    /// There is no place for the links of the part.
    NoRoom {
        /// Links of the part.
        links: usize,
        /// Why the rope's source had no block for them.
        refusal: SourceError,
    },
}

impl fmt::Display for SliceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfBounds(error) => error.fmt(f),
            Self::NoRoom { links, refusal } => no_room(f, *links, *refusal),
        }
    }
}

impl core::error::Error for SliceError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::OutOfBounds(error) => Some(error),
            Self::NoRoom { refusal, .. } => Some(refusal),
        }
    }
}

impl From<OutOfBounds> for SliceError {
    fn from(error: OutOfBounds) -> Self {
        Self::OutOfBounds(error)
    }
}

fn no_room(f: &mut fmt::Formatter<'_>, links: usize, refusal: SourceError) -> fmt::Result {
    write!(f, "no room for a rope of {links} links: {refusal}")
}

/// Why bytes of a rope were not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ReadError {
    /// There are no such bytes. None was read.
    OutOfBounds(OutOfBounds),
    /// Device memory was not read.
    Transfer {
        /// Bytes before it, which have arrived. What the buffer holds behind them does not matter.
        read: usize,
        /// Why not.
        error: TransferError,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfBounds(error) => error.fmt(f),
            Self::Transfer { read, error } => {
                write!(f, "read failed after {read} bytes: {error}")
            }
        }
    }
}

impl core::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::OutOfBounds(error) => Some(error),
            Self::Transfer { error, .. } => Some(error),
        }
    }
}

impl From<OutOfBounds> for ReadError {
    fn from(error: OutOfBounds) -> Self {
        Self::OutOfBounds(error)
    }
}
