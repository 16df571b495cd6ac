//! Tensors out of `.safetensors` files.
//!
//! A file comes from anywhere. [`Archive::parse`] believes none of its numbers, says which one of which tensor is wrong, and
//! takes nothing that the crate `safetensors` would not take. Nothing is copied until a tensor is loaded.
//!
//! ```
//! # use wharf_backend::Heap;
//! # use wharf_source::HeapSource;
//! # use wharf_sync::Unsync;
//! # use wharf_tensor::Parts;
//! # let target = Parts::<Heap<Unsync>, HeapSource>::new(HeapSource);
//! use wharf_meta::{DType, Typed, archive::Archive};
//!
//! # let json = br#"{"bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
//! # let file = [&(json.len() as u64).to_le_bytes()[..], json, &[0, 0, 0, 63, 0, 0, 128, 62]].concat();
//! let archive = Archive::parse(&file)?;
//! let bias = archive.get("bias")?;
//! assert_eq!((bias.dtype(), bias.shape().axes()), (DType::F32, &[2][..]));
//!
//! let bias = Typed::new(bias.load(&target, Heap::new())?, bias.dtype(), *bias.shape())?;
//! let mut values = [0.0_f32; 2];
//! bias.read_as(0, &mut values)?;
//! assert_eq!(values, [0.5, 0.25]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod header;

use std::collections::BTreeMap;
use std::string::String;
use std::vec::Vec;

use safetensors::{Dtype, SafeTensors};
use wharf_backend::{BackendRef, Erases};
use wharf_tensor::{Target, Tensor, TensorError};

use crate::{DType, InfoError, Shape, ShortName, TensorInfo, TensorSet, UnknownName, Usage};

use self::header::Entries;

pub use self::error::{ArchiveError, LoadError};
/// The types of elements that the format has.
pub use safetensors::Dtype as StoredDType;

/// The longest header that is parsed, in bytes: what the crate `safetensors` takes. Of a file from elsewhere look at the length
/// first, if time matters: a header this long describes more than a million tensors, and takes seconds.
pub const HEADER_MAX: u64 = 100_000_000;

/// The tensors of a `.safetensors` file, which it borrows.
#[derive(Clone, Debug)]
pub struct Archive<'f> {
    /// In the order of their bytes in the file.
    tensors: Vec<Stored<'f>>,
    /// Where in `tensors` each name is.
    names: BTreeMap<String, usize>,
}

/// One tensor of an [`Archive`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored<'f> {
    name: String,
    stored: Dtype,
    shape: Shape,
    bytes: &'f [u8],
}

impl<'f> Archive<'f> {
    /// Reads the header of `file` and holds it against what there is.
    ///
    /// # Errors
    /// The header is no header; two tensors have one name; one has more than [`RANK_MAX`](crate::RANK_MAX) axes, or other bytes
    /// than its shape takes; or the tensors do not fill the file, each byte in one of them.
    pub fn parse(file: &'f [u8]) -> Result<Self, ArchiveError> {
        let (Entries(entries), data) = header::split(file)?;
        let mut tensors = Vec::with_capacity(entries.len());
        for (name, entry) in entries {
            let span = header::check(&name, &entry, data.len())?;
            let shape = Shape::new(&entry.shape).map_err(|_| ArchiveError::Rank {
                name: ShortName::new(&name),
                rank: entry.shape.len(),
            })?;
            let stored = Stored {
                name,
                stored: entry.dtype,
                shape,
                bytes: data.get(span.0..span.1).unwrap_or_default(),
            };
            tensors.push((span, stored));
        }
        tensors.sort_by_key(|(span, _)| *span);

        let mut names = BTreeMap::new();
        for (index, (_, tensor)) in tensors.iter().enumerate() {
            if names.insert(tensor.name.clone(), index).is_some() {
                let name = ShortName::new(&tensor.name);
                return Err(ArchiveError::NameTwice { name });
            }
        }
        let spans = tensors.iter().map(|(span, tensor)| (*span, tensor.name()));
        header::check_cover(spans, data.len())?;
        // The format's own reader has the last word. It comes last because it adds up offsets without looking, and keeps the last of
        // two tensors with one name.
        SafeTensors::read_metadata(file).map_err(|error| ArchiveError::Refused {
            reason: header::shown(&error),
        })?;
        let tensors = tensors.into_iter().map(|(_, tensor)| tensor).collect();
        Ok(Self { tensors, names })
    }

    /// The tensor of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn get(&self, name: &str) -> Result<&Stored<'f>, UnknownName> {
        self.names
            .get(name)
            .and_then(|&index| self.tensors.get(index))
            .ok_or_else(|| UnknownName::new(name))
    }

    /// All tensors, in the order of their bytes in the file.
    pub fn iter(&self) -> core::slice::Iter<'_, Stored<'f>> {
        self.tensors.iter()
    }

    /// How many tensors there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// Whether the file has what a model wants: for each of `infos` a tensor of its name, type and shape. Others may be there
    /// too.
    ///
    /// # Errors
    /// The first that is missing, or of another type or shape.
    pub fn check<'i>(
        &self,
        infos: impl IntoIterator<Item = &'i TensorInfo>,
    ) -> Result<(), ArchiveError> {
        for info in infos {
            let name = ShortName::new(info.name());
            let Ok(stored) = self.get(info.name()) else {
                return Err(ArchiveError::Missing { name });
            };
            if stored.dtype() != info.dtype() {
                return Err(ArchiveError::WrongDType {
                    name,
                    expected: info.dtype(),
                    found: stored.stored,
                });
            }
            check_shape(name, info.shape(), &stored.shape)?;
        }
        Ok(())
    }

    /// Loads every tensor into `memory` of its own, as a set under the names of the file.
    ///
    /// # Errors
    /// The first tensor for which there was no memory, that could not be written, or whose name is too long for a set. Whatever was
    /// loaded before is given back.
    pub fn load<T: Target, R: BackendRef + Clone>(
        &self,
        target: &T,
        memory: R,
    ) -> Result<TensorSet<T>, LoadError>
    where
        T::Memory: Erases<R>,
    {
        let mut set = TensorSet::new(target);
        for stored in &self.tensors {
            let name = ShortName::new(&stored.name);
            let tensor = stored
                .load(target, memory.clone())
                .map_err(|error| LoadError::Tensor { name, error })?;
            set.insert(&stored.name, tensor)
                .map_err(|refused| LoadError::Set {
                    name,
                    error: refused.error,
                })?;
        }
        Ok(set)
    }
}

fn check_shape(name: ShortName, expected: &Shape, found: &Shape) -> Result<(), ArchiveError> {
    if found.rank() != expected.rank() {
        return Err(ArchiveError::WrongRank {
            name,
            expected: expected.rank(),
            found: found.rank(),
        });
    }
    for (axis, (&expected, &found)) in expected.iter().zip(found).enumerate() {
        if found != expected {
            return Err(ArchiveError::WrongAxis {
                name,
                axis,
                expected,
                found,
            });
        }
    }
    Ok(())
}

impl<'a, 'f> IntoIterator for &'a Archive<'f> {
    type Item = &'a Stored<'f>;
    type IntoIter = core::slice::Iter<'a, Stored<'f>>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'f> Stored<'f> {
    /// What it is called, in full.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type of its elements; [`DType::Unknown`] if there is none for it here (`BOOL`, `F64` and others).
    ///
    /// By `F8_E4M3` the format means the one without infinities, [`F8E4M3Fn`](crate::F8E4M3Fn).
    #[must_use]
    pub const fn dtype(&self) -> DType {
        match self.stored {
            Dtype::U8 => DType::U8,
            Dtype::I8 => DType::I8,
            Dtype::U16 => DType::U16,
            Dtype::I16 => DType::I16,
            Dtype::F16 => DType::F16,
            Dtype::BF16 => DType::Bf16,
            Dtype::U32 => DType::U32,
            Dtype::I32 => DType::I32,
            Dtype::F32 => DType::F32,
            Dtype::U64 => DType::U64,
            Dtype::I64 => DType::I64,
            Dtype::F8_E4M3 => DType::Fp8E4,
            Dtype::F8_E5M2 => DType::Fp8E5,
            _ => DType::Unknown,
        }
    }

    /// The type of its elements as the file has it.
    #[must_use]
    pub const fn stored_dtype(&self) -> Dtype {
        self.stored
    }

    /// Its shape.
    #[must_use]
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Its bytes, in the file.
    #[must_use]
    pub const fn bytes(&self) -> &'f [u8] {
        self.bytes
    }

    /// Its description.
    ///
    /// # Errors
    /// The name is too long.
    pub fn info(&self, usage: Usage) -> Result<TensorInfo, InfoError> {
        match self.dtype() {
            DType::Unknown => TensorInfo::opaque(&self.name, usage, self.bytes.len()),
            dtype => TensorInfo::new(&self.name, usage, dtype, &self.shape),
        }
    }

    /// A tensor with its bytes, in `memory` on the host or on a device.
    ///
    /// # Errors
    /// There was no memory, or it could not be written.
    pub fn load<T: Target, R: BackendRef>(
        &self,
        target: &T,
        memory: R,
    ) -> Result<Tensor<T>, TensorError>
    where
        T::Memory: Erases<R>,
    {
        let tensor = Tensor::alloc(target, memory, self.bytes.len())?;
        tensor.write(0, self.bytes)?;
        Ok(tensor)
    }
}
