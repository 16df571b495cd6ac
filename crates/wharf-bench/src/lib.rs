//! Instruction counts, code sizes and times of wharf, beside floors and peers in the same harness.
//!
//! `cargo xtask figures` and `cargo xtask bench` build the programs, measure and print; `docs/figures.md` says
//! how. The library is what the programs share, and builds without any of wharf.
#![cfg_attr(target_os = "none", no_std)]

mod floor;
#[cfg(any(feature = "count", feature = "time"))]
mod floor_spin;
#[cfg(feature = "size")]
pub mod image;
#[cfg(feature = "types")]
pub mod types;

pub use floor::{AnyHandle, AnyLifo, Handle, Lifo, Run, Window};
#[cfg(any(feature = "count", feature = "time"))]
pub use floor_spin::{SpinHandle, SpinLifo};
