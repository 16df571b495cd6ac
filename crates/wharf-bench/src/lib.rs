//! Instruction counts and code sizes of wharf, beside floors written in the same harness.
//!
//! `cargo xtask figures` builds the programs, measures them and prints the table; `docs/figures.md` says
//! how. The library is what the programs share, and builds without any of wharf.
#![cfg_attr(target_os = "none", no_std)]

mod floor;
#[cfg(feature = "size")]
pub mod image;
#[cfg(feature = "types")]
pub mod types;

pub use floor::{Handle, Lifo, Run, Window};
