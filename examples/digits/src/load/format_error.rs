//! What can be wrong with the contents of a `.safetensors` file.

use std::error::Error;
use std::fmt;
use std::string::String;
use std::vec::Vec;

use crate::field::FieldError;

/// Why the bytes of a file were refused.
///
/// Text that came from the file is shortened, and its control characters are escaped: an error about
/// a hostile file must be safe to print to a terminal. Numbers are bytes; offsets count from the end
/// of the header, as they do in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// There is not even room for the header's length.
    TooShort {
        /// The bytes that the header's length takes.
        expected: usize,
        /// The bytes there are.
        found: usize,
    },
    /// The header would end after the file does.
    HeaderPastEnd {
        /// The header's length, as stated.
        length: u64,
        /// The bytes there are after that number.
        available: u64,
    },
    /// The header is longer than any sensible one.
    HeaderTooLong {
        /// The header's length, as stated.
        length: u64,
        /// The longest that is parsed.
        limit: u64,
    },
    /// The header is not a JSON object.
    HeaderNotJson {
        /// What the parser says, with line and column.
        reason: String,
    },
    /// Two tensors have one name, so that readers would disagree on which is meant.
    DuplicateTensor {
        /// The name.
        field: String,
    },
    /// The file holds a tensor that does not belong there.
    UnexpectedTensor {
        /// The tensor's name.
        field: String,
        /// The names that belong there.
        expected: Vec<&'static str>,
    },
    /// A tensor is not there.
    MissingTensor {
        /// The tensor's name.
        field: &'static str,
    },
    /// A tensor's entry in the header does not have the form of one.
    BadEntry {
        /// The tensor's name.
        field: &'static str,
        /// What the parser says.
        reason: String,
    },
    /// A tensor has the wrong type of element.
    WrongDtype {
        /// The tensor's name.
        field: &'static str,
        /// The type it must have, as the format spells it.
        expected: &'static str,
        /// The type it has.
        found: String,
    },
    /// A tensor has the wrong shape.
    WrongShape {
        /// The tensor's name.
        field: &'static str,
        /// The shape it must have; `None` is a dimension that is free.
        expected: &'static [Option<usize>],
        /// The shape it has, its first [`SHAPE_SHOWN`](Self::SHAPE_SHOWN) dimensions at most.
        found: Vec<usize>,
    },
    /// A tensor ends before it begins.
    OffsetsReversed {
        /// The tensor's name.
        field: &'static str,
        /// Where it begins.
        begin: usize,
        /// Where it ends.
        end: usize,
    },
    /// A tensor ends after the file does.
    OffsetsPastEnd {
        /// The tensor's name.
        field: &'static str,
        /// Where it ends.
        end: usize,
        /// The bytes there are after the header.
        available: usize,
    },
    /// A tensor's offsets span another length than its shape takes.
    WrongExtent {
        /// The tensor's name.
        field: &'static str,
        /// The bytes that its shape takes.
        expected: usize,
        /// The bytes that its offsets span.
        found: usize,
    },
    /// A tensor begins within the one before it.
    Overlap {
        /// The tensor's name.
        field: &'static str,
        /// Where it begins.
        begin: usize,
        /// Where the one before it ends.
        previous_end: usize,
    },
    /// There are bytes before a tensor that belong to none, where something could hide.
    Gap {
        /// The tensor's name.
        field: &'static str,
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
    /// The `safetensors` crate refused what was accepted up to here.
    Refused {
        /// What it says.
        reason: String,
    },
    /// The tensors are there, but one does not hold what its name promises.
    Field(FieldError),
}

impl FormatError {
    /// The most dimensions of a wrong shape that an error keeps.
    pub const SHAPE_SHOWN: usize = 8;

    /// The name of the tensor that was refused, unless the fault lies with the file as a whole.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::TooShort { .. }
            | Self::HeaderPastEnd { .. }
            | Self::HeaderTooLong { .. }
            | Self::HeaderNotJson { .. }
            | Self::TrailingBytes { .. }
            | Self::Refused { .. } => None,
            Self::DuplicateTensor { field } | Self::UnexpectedTensor { field, .. } => Some(field),
            Self::MissingTensor { field }
            | Self::BadEntry { field, .. }
            | Self::WrongDtype { field, .. }
            | Self::WrongShape { field, .. }
            | Self::OffsetsReversed { field, .. }
            | Self::OffsetsPastEnd { field, .. }
            | Self::WrongExtent { field, .. }
            | Self::Overlap { field, .. }
            | Self::Gap { field, .. } => Some(field),
            Self::Field(error) => Some(error.field()),
        }
    }
}

impl From<FieldError> for FormatError {
    fn from(error: FieldError) -> Self {
        Self::Field(error)
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { expected, found } => {
                write!(
                    f,
                    "{found} bytes, the header's length alone takes {expected}"
                )
            }
            Self::HeaderPastEnd { length, available } => {
                write!(
                    f,
                    "the header would take {length} bytes, the file has {available} left"
                )
            }
            Self::HeaderTooLong { length, limit } => {
                write!(
                    f,
                    "the header takes {length} bytes, at most {limit} are parsed"
                )
            }
            Self::HeaderNotJson { reason } => write!(f, "the header is no JSON object: {reason}"),
            Self::DuplicateTensor { field } => write!(f, "`{field}` is there twice"),
            Self::UnexpectedTensor { field, expected } => {
                write!(
                    f,
                    "`{field}` does not belong here, only {} do",
                    expected.join(", ")
                )
            }
            Self::MissingTensor { field } => write!(f, "`{field}` is missing"),
            Self::BadEntry { field, reason } => write!(f, "`{field}` is ill described: {reason}"),
            Self::WrongDtype {
                field,
                expected,
                found,
            } => {
                write!(f, "`{field}` must be of type {expected}, found {found}")
            }
            Self::WrongShape {
                field,
                expected,
                found,
            } => {
                write!(
                    f,
                    "`{field}` must have the shape {}, found {found:?}",
                    Shape(expected)
                )?;
                // A longer shape was cut at this length.
                if found.len() == Self::SHAPE_SHOWN {
                    f.write_str(" or longer")
                } else {
                    Ok(())
                }
            }
            Self::OffsetsReversed { field, begin, end } => {
                write!(
                    f,
                    "`{field}` begins at {begin} and ends at {end}, before that"
                )
            }
            Self::OffsetsPastEnd {
                field,
                end,
                available,
            } => {
                write!(
                    f,
                    "`{field}` ends at {end}, the file holds {available} bytes of data"
                )
            }
            Self::WrongExtent {
                field,
                expected,
                found,
            } => {
                write!(
                    f,
                    "`{field}` takes {expected} bytes by its shape, {found} by its offsets"
                )
            }
            Self::Overlap {
                field,
                begin,
                previous_end,
            } => {
                write!(f, "`{field}` begins at {begin}, taken up to {previous_end}")
            }
            Self::Gap {
                field,
                begin,
                previous_end,
            } => {
                write!(f, "`{field}` begins at {begin}, unused from {previous_end}")
            }
            Self::TrailingBytes { end, available } => {
                write!(
                    f,
                    "the tensors end at {end}, the file holds {available} bytes of data"
                )
            }
            Self::Refused { reason } => write!(f, "no valid safetensors file: {reason}"),
            Self::Field(error) => error.fmt(f),
        }
    }
}

impl Error for FormatError {}

/// A required shape, as `[n, 64]`.
struct Shape(&'static [Option<usize>]);

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, dimension) in self.0.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { ", " })?;
            match dimension {
                Some(size) => write!(f, "{size}")?,
                None => f.write_str("n")?,
            }
        }
        f.write_str("]")
    }
}
