//! Every integration test of the crate in one program: one to build and to link, here, under the sanitizer, and for each
//! mutant. The models for loom are programs of their own.

mod auto_traits;
#[cfg(feature = "std")]
mod every_allocation;
mod handles;
mod last_drop_elsewhere;
mod read;
mod read_only;
mod rope;
mod segment_graph;
