//! Tensors written into a directory, to be looked at elsewhere.

mod error;
mod file;
mod file_name;
mod index;
mod npy;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::string::String;
use std::vec::Vec;

use wharf_tensor::{Target, Tensor};

use self::error::Broken;
use self::file::Part;
use self::index::Written;
use crate::stream::stream;
use crate::{Adler32, Checksum, DType, Shape, ShortName, TensorInfo, TensorSet, Typed};

pub use self::error::DumpError;

/// Bytes of the stack that a tensor goes through on its way to a file.
const BOUNCE: usize = 16 << 10;

/// Writes tensors into a directory: `<name>.bin` is the bytes as they are, `<name>.npy` what NumPy's `load` reads, and
/// `index.json` says which file is which tensor.
///
/// Names come from models, and models from anywhere. Whatever a name holds, its file lies in the directory, has a name that any
/// file system takes, and is nobody else's: characters other than letters, digits, `_`, `-` and inner dots become `%XX`; what
/// would be too long is cut; and where two would still meet, also on a file system that takes `A` for `a`, a number is
/// appended. The index has each name in full.
///
/// A file appears under its name when it is whole; one from an earlier dump is replaced. Tensors are streamed through 16 KiB of the
/// stack. Each piece passes the fence on its own, and blocks as [`Tensor::read`] does.
///
/// ```
/// # use wharf_backend::Heap;
/// # use wharf_source::HeapSource;
/// # use wharf_sync::Unsync;
/// # use wharf_tensor::{Parts, Tensor};
/// use wharf_meta::{DType, Shape, Typed, dump::Dump};
///
/// # let target = Parts::<Heap<Unsync>, HeapSource>::new(HeapSource);
/// # let scratch = tempfile::tempdir()?;
/// # let directory = scratch.path().join("dump");
/// let scores = Typed::new(Tensor::alloc(&target, Heap::new(), 8)?, DType::F32, Shape::new(&[2])?)?;
/// scores.write_as(0, &[0.5_f32, 0.25])?;
///
/// let mut dump = Dump::create(&directory)?;
/// dump.raw("layer/7", scores.tensor())?;
/// dump.npy("layer/7", &scores)?;
/// dump.finish()?;
/// assert_eq!(std::fs::read(directory.join("layer%2F7.bin"))?, [0, 0, 0, 63, 0, 0, 128, 62]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the index is written by `finish`"]
pub struct Dump {
    directory: PathBuf,
    model: Option<String>,
    written: Vec<Written>,
    /// Of each file the name as a file system sees it that takes `A` for `a`.
    taken: BTreeSet<String>,
}

impl Dump {
    /// Writes into `directory`, which is made, with what is above it, if it is not there.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(directory: impl Into<PathBuf>) -> Result<Self, DumpError> {
        let directory = directory.into();
        fs::create_dir_all(&directory).map_err(|error| DumpError::io(&directory, error))?;
        Ok(Self {
            directory,
            model: None,
            written: Vec::new(),
            taken: BTreeSet::new(),
        })
    }

    /// Writes into a new directory of its own below the system's one for temporary files.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create_temporary() -> Result<Self, DumpError> {
        Self::create_below(&std::env::temp_dir())
    }

    fn create_below(parent: &Path) -> Result<Self, DumpError> {
        let process = std::process::id();
        for attempt in 0_u64.. {
            let directory = parent.join(std::format!("wharf-dump-{process}-{attempt}"));
            // Not `create_dir_all`, which takes a directory that somebody else has put there.
            match fs::create_dir(&directory) {
                Ok(()) => return Self::create(directory),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(DumpError::io(&directory, error)),
            }
        }
        Err(DumpError::io(
            parent,
            std::io::ErrorKind::AlreadyExists.into(),
        ))
    }

    /// Where it writes.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Notes the name of the model in the index.
    pub fn set_model(&mut self, name: &str) {
        self.model = Some(name.into());
    }

    /// Writes the bytes of a tensor as `<name>.bin`, and returns where.
    ///
    /// # Errors
    /// The tensor refused to be read, or the file could not be written. There is no file then.
    pub fn raw<T: Target>(&mut self, name: &str, tensor: &Tensor<T>) -> Result<PathBuf, DumpError> {
        self.write(name, tensor, "bin", &[], DType::Unknown, None)
    }

    /// Writes a tensor as `<name>.npy` in version 1.0 of NumPy's format, and returns where.
    ///
    /// Types that NumPy does not have, `bf16` and those of eight bits, become opaque items of two bytes or one (`|V2`, `|V1`),
    /// of which the index tells the type: with Python's `ml_dtypes`, `numpy.load(path).view(ml_dtypes.bfloat16)`.
    ///
    /// # Errors
    /// As for [`raw`](Self::raw).
    pub fn npy<T: Target>(&mut self, name: &str, tensor: &Typed<T>) -> Result<PathBuf, DumpError> {
        let (dtype, shape) = (tensor.dtype(), *tensor.shape());
        let header = npy::header(dtype, &shape).ok_or_else(|| DumpError::Unsized {
            name: ShortName::new(name),
        })?;
        self.write(name, tensor.tensor(), "npy", &header, dtype, Some(shape))
    }

    /// Writes all of `infos` that are in `set`: each as `.bin`, and where its type is known as `.npy` too. The index has
    /// type and shape of both.
    ///
    /// # Errors
    /// The set does not have them, or not in their sizes: nothing is written then. Or as for [`raw`](Self::raw); what was written
    /// before stays.
    pub fn set<'i, T, I>(&mut self, set: &TensorSet<T>, infos: I) -> Result<(), DumpError>
    where
        T: Target,
        I: IntoIterator<Item = &'i TensorInfo> + Clone,
    {
        set.check(infos.clone())?;
        for info in infos {
            let Ok(tensor) = set.get(info.name()) else {
                continue; // `check` has seen it.
            };
            let dtype = info.dtype();
            // Where only the bytes are known, there is no shape to tell.
            let shape = (dtype != DType::Unknown).then_some(*info.shape());
            self.write(info.name(), tensor, "bin", &[], dtype, shape)?;
            if let Ok(typed) = Typed::of(tensor.clone(), info) {
                self.npy(info.name(), &typed)?;
            }
        }
        Ok(())
    }

    /// Writes the index, and returns where. Without this there is none.
    ///
    /// # Errors
    /// It could not be written. There is no index then, or the one of an earlier dump.
    pub fn finish(self) -> Result<PathBuf, DumpError> {
        let text = index::text(self.model.as_deref(), &self.written);
        let path = self.directory.join("index.json");
        let failed = |error| DumpError::io(&path, error);
        let mut part = Part::create(&self.directory, "index.json").map_err(failed)?;
        part.write_all(text.as_bytes()).map_err(failed)?;
        part.appear().map_err(failed)?;
        Ok(path)
    }

    fn write<T: Target>(
        &mut self,
        name: &str,
        tensor: &Tensor<T>,
        extension: &'static str,
        header: &[u8],
        dtype: DType,
        shape: Option<Shape>,
    ) -> Result<PathBuf, DumpError> {
        let (file, key) = file_name::free(name, extension, &self.taken);
        let path = self.directory.join(&file);
        let failed = |error| DumpError::io(&path, error);
        let mut part = Part::create(&self.directory, &file).map_err(failed)?;
        part.write_all(header).map_err(failed)?;
        let mut sum = Adler32::new();
        stream(tensor, &mut [0; BOUNCE], |bytes| {
            sum.update(bytes);
            part.write_all(bytes).map_err(Broken::Io)
        })
        .map_err(|broken| broken.of(name, &path))?;
        part.appear().map_err(failed)?;
        self.taken.insert(key);
        self.written.push(Written {
            name: name.into(),
            file,
            size: tensor.len(),
            dtype,
            shape,
            adler32: sum.finish(),
        });
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_no_directory_can_be_made_is_told_at_once() {
        let parent = std::env::temp_dir().join("wharf-dump-nobody-made-this");
        let refused = Dump::create_below(&parent).unwrap_err();
        let DumpError::Io { path, error } = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(path.parent(), Some(parent.as_path()));
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    }
}
