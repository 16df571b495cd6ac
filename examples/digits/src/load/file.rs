//! From a path to a checked model, with the path in every error.

use std::boxed::Box;
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::vec::Vec;

use super::{FormatError, OwnedModel, OwnedTestSet};

/// The largest file that is read, in bytes. The real ones take 10 and 24 KB; without a limit, a wrong
/// path could fill the memory before anything looks at the first byte.
pub const FILE_LIMIT: u64 = 16 << 20;

/// Which file was refused, and why.
#[derive(Debug)]
pub struct LoadError {
    /// The file, as it was given.
    pub path: PathBuf,
    /// What was wrong with it.
    pub cause: LoadCause,
}

/// Why a file was refused.
#[derive(Debug)]
pub enum LoadCause {
    /// The system could not read it.
    Read(io::Error),
    /// It is larger than [`FILE_LIMIT`]; it was not read into memory.
    TooLarge {
        /// The most that is read.
        limit: u64,
        /// The bytes the file has; for what has no length beforehand, such as a pipe, the bytes it
        /// gave before reading stopped.
        found: u64,
    },
    /// It was read, and does not hold what it should.
    Format(Box<FormatError>),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.cause)
    }
}

impl fmt::Display for LoadCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::TooLarge { limit, found } => {
                write!(
                    f,
                    "the file has {found} bytes or more, at most {limit} are read"
                )
            }
            Self::Format(error) => error.fmt(f),
        }
    }
}

// Their text includes the cause's, so `source` stays empty: a printed chain would say it twice.
impl Error for LoadError {}
impl Error for LoadCause {}

/// Reads the trained weights from a `.safetensors` file.
///
/// # Errors
///
/// The file cannot be read, is too large, or does not hold exactly the model's four tensors.
pub fn load_model(path: impl AsRef<Path>) -> Result<OwnedModel, LoadError> {
    load(path.as_ref(), OwnedModel::from_safetensors)
}

/// Reads the test set from a `.safetensors` file.
///
/// # Errors
///
/// The file cannot be read, is too large, or does not hold exactly the test set's three tensors.
pub fn load_test_set(path: impl AsRef<Path>) -> Result<OwnedTestSet, LoadError> {
    load(path.as_ref(), OwnedTestSet::from_safetensors)
}

fn load<T>(path: &Path, from: fn(&[u8]) -> Result<T, FormatError>) -> Result<T, LoadError> {
    read(path)
        .and_then(|bytes| from(&bytes).map_err(|error| LoadCause::Format(error.into())))
        .map_err(|cause| LoadError {
            path: path.to_path_buf(),
            cause,
        })
}

fn read(path: &Path) -> Result<Vec<u8>, LoadCause> {
    let file = File::open(path).map_err(LoadCause::Read)?;
    let found = file.metadata().map_err(LoadCause::Read)?.len();
    if found > FILE_LIMIT {
        return Err(LoadCause::TooLarge {
            limit: FILE_LIMIT,
            found,
        });
    }
    // A pipe or a device states no length, and a file may grow meanwhile: the limit holds for what
    // really comes, too.
    let mut bytes = Vec::new();
    file.take(FILE_LIMIT + 1)
        .read_to_end(&mut bytes)
        .map_err(LoadCause::Read)?;
    match bytes.len() as u64 {
        found if found > FILE_LIMIT => Err(LoadCause::TooLarge {
            limit: FILE_LIMIT,
            found,
        }),
        _ => Ok(bytes),
    }
}
