//! What can go wrong with a dump.

use std::io;
use std::path::{Path, PathBuf};

use core::fmt;

use wharf_tensor::TensorError;

use crate::{BindError, ShortName};

/// Why a tensor was not dumped. There is no file of it.
#[derive(Debug)]
#[non_exhaustive]
pub enum DumpError {
    /// The tensor refused to be read.
    Tensor {
        /// Its name.
        name: ShortName,
        /// Why.
        error: TensorError,
    },
    /// The set does not have what the model says.
    Bind(BindError),
    /// Elements of an unknown type have no form in a `.npy` file.
    Unsized {
        /// The name of the tensor.
        name: ShortName,
    },
    /// A file or directory could not be made or written.
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl DumpError {
    pub(super) fn io(path: &Path, error: io::Error) -> Self {
        Self::Io {
            path: path.into(),
            error,
        }
    }
}

impl fmt::Display for DumpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor { name, error } => write!(f, "{name}: {error}"),
            Self::Bind(error) => error.fmt(f),
            Self::Unsized { name } => write!(f, "{name} is of unknown type"),
            Self::Io { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl core::error::Error for DumpError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Tensor { error, .. } => Some(error),
            Self::Bind(error) => Some(error),
            Self::Io { error, .. } => Some(error),
            Self::Unsized { .. } => None,
        }
    }
}

impl From<BindError> for DumpError {
    fn from(error: BindError) -> Self {
        Self::Bind(error)
    }
}

/// Why streaming a tensor into a file ended.
pub(super) enum Broken {
    /// The tensor refused to be read.
    Tensor(TensorError),
    /// The file could not be written.
    Io(io::Error),
}

impl Broken {
    /// What that is for the tensor `name` and the file at `path`.
    pub(super) fn of(self, name: &str, path: &Path) -> DumpError {
        match self {
            Self::Tensor(error) => DumpError::Tensor {
                name: ShortName::new(name),
                error,
            },
            Self::Io(error) => DumpError::io(path, error),
        }
    }
}

impl From<TensorError> for Broken {
    fn from(error: TensorError) -> Self {
        Self::Tensor(error)
    }
}
