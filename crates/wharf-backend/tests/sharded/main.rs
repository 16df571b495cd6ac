//! The pool in shards: values, a model, and threads.
#![cfg(all(feature = "std", feature = "critical-section"))]

mod meanwhile;
mod model;
mod posted;
mod threads;
mod values;
