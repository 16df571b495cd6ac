//! What tensors mean. A [`Tensor`](wharf_tensor::Tensor) is bytes; this crate has what must not be known there: element types,
//! shapes, names, sets of tensors, typed access, checksums, dumps.
//!
//! | for | there is |
//! |---|---|
//! | the type of elements | [`DType`], the Rust types that stand for it ([`Element`]), eight-bit floats ([`F8E4M3`] and its kin) |
//! | where elements are | [`Shape`], and [`Strided`] where they lie apart |
//! | what a model takes and gives | [`TensorInfo`], [`ModelTensors`] |
//! | the tensors it is run with | [`TensorSet`], which owns a handle to each |
//! | bytes as elements | [`Typed`] |
//! | whether bytes arrived | [`checksum`] with [`Adler32`] or a [`Checksum`] of yours |
//! | looking at tensors elsewhere | `dump` (feature `std`): raw and `.npy` files |
//! | weights from a file | `archive` (feature `safetensors`) |
//!
//! A model's inputs and outputs described in flash, tensors bound to them, checked, filled and read:
//!
//! ```
//! # use wharf_backend::Heap;
//! # use wharf_source::HeapSource;
//! # use wharf_sync::Unsync;
//! # use wharf_tensor::{Parts, Tensor};
//! use wharf_meta::{Adler32, DType, ModelTensors, TensorInfo, TensorSet, Typed, checksum};
//!
//! static TENSORS: [TensorInfo; 2] = [
//!     TensorInfo::constant(TensorInfo::input("image", DType::U8, &[1, 8, 8])),
//!     TensorInfo::constant(TensorInfo::output("scores", DType::F32, &[1, 10])),
//! ];
//!
//! # let target = Parts::<Heap<Unsync>, HeapSource>::new(HeapSource);
//! # let memory = Heap::new();
//! let model = ModelTensors::new(&TENSORS)?;
//! let mut tensors = TensorSet::new(&target);
//! for info in model {
//!     tensors.insert(info.name(), Tensor::alloc(&target, memory, info.size())?)?;
//! }
//! tensors.check(model)?; // every name there, in its size
//!
//! tensors.get("image")?.fill(7)?;
//! assert_eq!(checksum(tensors.get("image")?, Adler32::new())?, 0x3920_01C1);
//!
//! let scores = Typed::of(tensors.get("scores")?.clone(), model.output("scores")?)?;
//! scores.write_as(3, &[0.75_f32])?; // a device would
//! let mut third = [0.0_f32];
//! scores.read_as(3, &mut third)?;
//! assert_eq!(third, [0.75]);
#![cfg_attr(
    feature = "std",
    doc = "
# let scratch = tempfile::tempdir()?;
# let directory = scratch.path();
// As files that NumPy reads.
let mut dump = wharf_meta::dump::Dump::create(directory)?;
dump.set(&tensors, model)?;
dump.finish()?;
assert!(directory.join(\"scores.npy\").exists());"
)]
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! Everything but files is for firmware too: nothing here has a heap of its own, and a set takes its memory from a block
//! source. What reads or writes a tensor waits as [`Tensor::read`](wharf_tensor::Tensor::read) and
//! [`Tensor::write`](wharf_tensor::Tensor::write) do, so it has no place in an interrupt handler; types, shapes, descriptions and
//! lookups are plain data, and never wait.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `half` | `half::f16` and `half::bf16` are [`Element`]s |
//! | `zerocopy` | elements in place: `Typed::lend`, and in one transfer: `Typed::read_whole` |
//! | `crc` | `Crc32` |
//! | `std` | `dump` |
//! | `safetensors` | `std`; `archive` |
//!
//! The others are passed down.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(feature = "std")]
extern crate std;

#[cfg(feature = "safetensors")]
pub mod archive;
mod checksum;
mod dtype;
#[cfg(feature = "std")]
pub mod dump;
mod element;
mod float8;
mod info;
mod name;
mod set;
mod shape;
mod stream;
mod strided;
mod typed;
#[cfg(all(feature = "zerocopy", target_endian = "little"))]
mod view;

#[cfg(feature = "crc")]
pub use checksum::Crc32;
pub use checksum::{Adler32, Checksum, checksum, checksum_through};
pub use dtype::{DType, ParseDTypeError, UnknownNumber};
pub use element::Element;
pub use float8::{F8E3M4, F8E4M3, F8E4M3Fn, F8E5M2};
pub use info::{BindError, InfoError, InfoIter, ModelError, ModelTensors, TensorInfo, Usage};
pub use name::{NAME_MAX, Name, NameTooLong, ShortName, UnknownName};
pub use set::{SetError, SetIter, TensorSet};
pub use shape::{RANK_MAX, Shape, ShapeError};
pub use strided::Strided;
pub use typed::{Typed, TypedError};
#[cfg(all(feature = "zerocopy", target_endian = "little"))]
pub use view::{TypedReadGuard, TypedWriteGuard, view, view_mut};
