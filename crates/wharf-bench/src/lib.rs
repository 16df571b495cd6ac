//! Instruction counts and code sizes of wharf, beside floors written in the same harness.
//!
//! `cargo xtask figures` runs it and prints the table. The counts come from callgrind, so they repeat on any machine of the
//! same architecture.

mod lifo;

pub use lifo::{Handle, Lifo};
