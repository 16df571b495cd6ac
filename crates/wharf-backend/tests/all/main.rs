//! Every integration test of the crate in one program: one to build and to link, here, under the sanitizer, and for each
//! mutant. The models for loom are programs of their own.

mod auto_traits;
mod borrowed;
mod cache;
mod facts;
mod from_source;
mod owner;
mod pool_model;
mod pool_values;
mod raw_round_trip;
mod registry;
mod set;
mod thread_stress;
mod transfer;
mod usage;
mod wrap_checked;
mod wrap_compose;
mod wrap_fault;
mod wrap_quota;
mod wrap_wait;
mod writer;
