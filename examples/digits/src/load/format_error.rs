//! What can be wrong with the contents of a `.safetensors` file.

use std::error::Error;
use std::fmt;
use std::vec::Vec;

use wharf_meta::archive::{ArchiveError, StoredDType};
use wharf_meta::{DType, Shape, ShortName};

use crate::field::FieldError;

/// Why the bytes of a file were refused.
///
/// Text that came from the file is shortened, and its control characters are escaped: an error about
/// a hostile file must be safe to print to a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// The file is no `.safetensors` file, or lies about where its tensors are.
    Archive(ArchiveError),
    /// There is a tensor that does not belong there.
    UnexpectedTensor {
        /// The tensor's name.
        field: ShortName,
        /// The names that belong there.
        expected: Vec<&'static str>,
    },
    /// A tensor is not there.
    MissingTensor {
        /// The tensor's name.
        field: &'static str,
    },
    /// A tensor has the wrong type of element.
    WrongDtype {
        /// The tensor's name.
        field: &'static str,
        /// The type it must have.
        expected: DType,
        /// The type it has, as the format spells it.
        found: StoredDType,
    },
    /// A tensor has the wrong shape.
    WrongShape {
        /// The tensor's name.
        field: &'static str,
        /// The shape it must have; `None` is a dimension that is free.
        expected: &'static [Option<usize>],
        /// The shape it has.
        found: Shape,
    },
    /// The tensors are there, but one does not hold what its name promises.
    Field(FieldError),
}

impl FormatError {
    /// The name of the tensor that was refused, unless the fault lies with the file as a whole.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Archive(error) => error.name().map(ShortName::as_str),
            Self::UnexpectedTensor { field, .. } => Some(field.as_str()),
            Self::MissingTensor { field }
            | Self::WrongDtype { field, .. }
            | Self::WrongShape { field, .. } => Some(field),
            Self::Field(error) => Some(error.field()),
        }
    }
}

impl From<ArchiveError> for FormatError {
    fn from(error: ArchiveError) -> Self {
        Self::Archive(error)
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
            Self::Archive(error) => error.fmt(f),
            Self::UnexpectedTensor { field, expected } => {
                write!(
                    f,
                    "{field} does not belong here, only {} do",
                    expected.join(", ")
                )
            }
            Self::MissingTensor { field } => write!(f, "`{field}` is missing"),
            Self::WrongDtype {
                field,
                expected,
                found,
            } => write!(f, "`{field}` must be of type {expected}, found {found}"),
            Self::WrongShape {
                field,
                expected,
                found,
            } => write!(
                f,
                "`{field}` must have the shape {}, found {found}",
                Wanted(expected)
            ),
            Self::Field(error) => error.fmt(f),
        }
    }
}

impl Error for FormatError {}

/// A required shape, as `[n, 64]`.
struct Wanted(&'static [Option<usize>]);

impl fmt::Display for Wanted {
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
