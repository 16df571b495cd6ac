//! Every integration test of the crate in one program: one to build and to link, here, under the sanitizer, and for each
//! mutant. The models for loom are programs of their own.
#![cfg(all(feature = "std", feature = "critical-section"))]

#[macro_use]
mod common;

mod attach;
mod auto_traits;
mod batches;
mod batches_model;
mod by_hand;
mod cache;
mod callbacks;
mod completion;
mod copies;
mod deadlines;
mod directory;
mod every_allocation;
mod exhaustion_sweep;
mod few;
mod fronts_model;
mod identity;
mod last_holder;
mod launch;
mod lifecycle;
mod placement;
mod read_only;
mod relay;
mod slices_model;
mod taken_out;
mod tasks;
mod texts;
mod tickets;
mod trace;
mod trace_balance;
mod trace_chrome;
mod trace_ring;
mod trace_sinks;
mod unfenced;
