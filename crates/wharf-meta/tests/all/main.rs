//! Every integration test of the crate in one program: one to build and to link, here, under the sanitizer, and for each
//! mutant. The models for loom are programs of their own.

#[cfg(feature = "std")]
mod common;

#[cfg(feature = "safetensors")]
mod archives;
#[cfg(feature = "std")]
mod auto_traits;
#[cfg(feature = "std")]
mod checksums;
mod dtypes;
#[cfg(feature = "std")]
mod dumps;
#[cfg(all(feature = "safetensors", feature = "zerocopy", feature = "crc"))]
mod every_allocation;
mod float8;
mod infos;
#[cfg(feature = "std")]
mod sets;
mod shapes;
#[cfg(feature = "std")]
mod typed;
