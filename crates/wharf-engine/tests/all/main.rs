//! Every integration test of the crate in one program: one to build and to link, here, under the sanitizer, and for each
//! mutant. The models for loom are programs of their own.

mod cpu_engine;
mod doorbell;
mod front;
mod limits;
mod queue;
mod statics;
mod taken_up;
