//! A trained 64-32-10 digit classifier, the project's demo.
//!
//! The model travels in two forms. On a host it is a pair of `.safetensors` files, read and checked
//! by the `load` module (feature `std`). A build step packs both into one checksummed [`image`],
//! which firmware reads straight out of flash: no JSON, no heap, no copy. Either form ends as the same
//! borrowed types, [`ModelBytes`] and [`TestSet`], which cannot be made from bytes of a wrong length or
//! with a value that the classifier has no meaning for.
//!
//! The inference itself ([`classify()`]) is generic over the target and the engine: the same code runs
//! on a host over a device with a queue, and in firmware on the CPU, without a heap.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "std")]
extern crate std;

pub mod classify;
pub mod field;
pub mod image;
pub mod kernels;
#[cfg(feature = "std")]
pub mod load;
pub mod model;
pub mod network;
pub mod reference;
pub mod report;
pub mod test_set;

pub use classify::{ClassifyError, classify, run};
pub use field::FieldError;
pub use model::{CLASSES, HIDDEN, INPUTS, ModelBytes};
pub use network::{Batch, Network};
pub use report::{Footprint, Score};
pub use test_set::TestSet;
