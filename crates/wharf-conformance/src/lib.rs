//! The behaviours that every policy, source, backend and engine must have, and what views, ropes and tensors make of them.
//!
//! The traits of wharf are `unsafe`: the layers above rest on their laws. Whoever implements one runs
//! this suite on it, on the host and unchanged in firmware: it needs no heap, no test harness and no
//! unwinding. A check answers with a value, and a [`Report`] hears every one of them.
//!
//! ```
//! use wharf_conformance::{Printer, backend};
//! # use core::ptr::NonNull;
//! # use wharf_backend::{AllocError, AllocHint, Caps, Census, Header, MemBackend, Place, StaticPool};
//! # use wharf_sync::Unsync;
//! # struct BatteryRam(StaticPool<Unsync, 64, 8>);
//! # impl BatteryRam { const fn new() -> Self { Self(StaticPool::new()) } }
//!
//! // A backend of your own.
//! // SAFETY: (why it keeps the laws of the trait)
//! unsafe impl MemBackend for BatteryRam {
//!     // ...
//! #   type Policy = Unsync;
//! #   fn vend(&self, size: usize, hint: AllocHint) -> Option<NonNull<Header<Unsync>>> { self.0.vend(size, hint) }
//! #   fn refusal(&self, size: usize, hint: AllocHint) -> AllocError { self.0.refusal(size, hint) }
//! #   unsafe fn reclaim(&self, header: NonNull<Header<Unsync>>) { unsafe { self.0.reclaim(header) } }
//! #   unsafe fn place(&self, header: NonNull<Header<Unsync>>) -> Place { unsafe { self.0.place(header) } }
//! #   fn may_own(&self, header: NonNull<Header<Unsync>>) -> bool { self.0.may_own(header) }
//! #   fn caps(&self) -> Caps { self.0.caps() }
//! #   fn alignment(&self) -> usize { self.0.alignment() }
//! #   fn max_segment_size(&self) -> usize { self.0.max_segment_size() }
//! #   fn census(&self) -> Census { self.0.census() }
//! #   fn name(&self) -> &'static str { "battery-backed RAM" }
//! }
//!
//! // And its test.
//! let mine = BatteryRam::new();
//! let mut report = Printer::new(String::new()); // or a serial port
//! let tally = backend("BatteryRam", &mine, &mut report);
//!
//! assert!(tally.is_clean(), "{}", report.finish()?);
//! # Ok::<(), core::fmt::Error>(())
//! ```
//!
//! | to hold to its laws | call | and say |
//! |---|---|---|
//! | a `SyncPolicy` | [`policy`], [`constants`] | whether its sections nest |
//! | a `BlockSource` | [`source`], or [`source_with_reset`] | what it [claims](SourceClaims) |
//! | a `MemBackend` | [`backend`], then [`segment`] over it | nothing: it says itself what it is |
//! | one that lends or adopts what exists | [`lent`] | what is there, what it [claims](LentClaims) |
//! | one whose segments may become shorter (`Shortens`) | [`shortens`] | nothing |
//! | one whose fresh segments are raw memory (`VendsUninit`) | [`vends_uninit`] | nothing |
//! | one that can be waited for (`Waits`) | [`waits`] | nothing |
//! | an `Engine` | [`engine`], on hosts `engine_unwinding` | the memory it reaches, how to wait, what it [claims](EngineClaims) |
//!
//! And what stands on them, whatever your part of it is: a device of your own needs one call for each of these.
//!
//! | to see that these behave on it | call | and say |
//! |---|---|---|
//! | views, ropes, writers of host memory | [`view`], [`rope`], [`writer`] | which memory |
//! | ropes on a device that fails | [`gather_failures`] | which device, and how it is made to fail |
//! | tensors: their bytes, fences, guards, batches, tasks, names, and what runs out | [`tensor`] | the target, and which memory of it |
//! | copies and batches between two memories | [`copies`] | the target, and which two |
//! | tensors over read-only memory | [`read_only`] | the target, how it is lent, and what is in it |
//! | launches on tensors | [`launch`] | the target, a memory, the engine, whether it [runs apart](EngineClaims) |
//! | copies through memory between two engines | [`relay`] | the target, that memory, the engines |
//! | the trace of all that | a [`Balance`] as the target's sink | nothing: it [is even](Balance::is_even) afterwards, or not |
//!
//! How to write a backend, step by step: `docs/backends.md` in the repository.
//!
//! [`run_all`] does all of the first table to the types of wharf themselves, under a policy of your choice, and [`run_tensors`]
//! and [`run_launches`] all of the second.
//!
//! What a subject does not claim is *inapplicable* and counts neither as passed nor as failed. The suite sees
//! what one context can see; what several do to each other at once is for model checkers.
//!
//! # Features
//! `alloc` adds `run_heap`; `std` implies it and adds `engine_unwinding`; `critical-section` is passed down, and on cores
//! without compare-and-swap all but the suites of sources, backends, segments, views, ropes and lent memory need it. None is on by default.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]
#![allow(
    clippy::result_large_err,
    reason = "a failure holds two errors of any layer, and there is no heap to put them on"
)]

#[cfg(feature = "std")]
extern crate std;

mod backend;
mod check;
mod gather;
mod lent;
mod report;
mod rope;
mod segment;
mod shorter;
mod source;
mod view;
mod writer;

// What counts in statics needs atomics.
#[cfg(any(target_has_atomic = "32", feature = "critical-section"))]
mod all;
#[cfg(any(target_has_atomic = "32", feature = "critical-section"))]
mod balance;
#[cfg(any(target_has_atomic = "32", feature = "critical-section"))]
mod engine;
#[cfg(any(target_has_atomic = "32", feature = "critical-section"))]
mod launch;
#[cfg(any(target_has_atomic = "32", feature = "critical-section"))]
mod lease;
#[cfg(any(target_has_atomic = "32", feature = "critical-section"))]
mod parcel;
#[cfg(any(target_has_atomic = "32", feature = "critical-section"))]
mod patience;
#[cfg(any(target_has_atomic = "32", feature = "critical-section"))]
mod policy;
#[cfg(any(target_has_atomic = "32", feature = "critical-section"))]
mod tensor;
#[cfg(any(target_has_atomic = "32", feature = "critical-section"))]
mod waits;
#[cfg(any(target_has_atomic = "32", feature = "critical-section"))]
mod waker;

#[cfg(all(
    feature = "alloc",
    any(target_has_atomic = "32", feature = "critical-section")
))]
pub use all::run_heap;
#[cfg(feature = "std")]
pub use {all::run_unwinding, engine::engine_unwinding};
#[cfg(any(target_has_atomic = "32", feature = "critical-section"))]
pub use {
    all::{CLASSES, run_all, run_launches, run_tensors},
    balance::Balance,
    engine::{EngineClaims, engine, engine_on_borrowed},
    launch::{launch, relay},
    parcel::Parcel,
    policy::{Nesting, constants, policy},
    tensor::{copies, read_only, tensor},
    waits::waits,
};

pub use backend::backend;
pub use check::{Cause, Check, Failure, Outcome, Stop, run};
pub use gather::gather_failures;
pub use lent::{LentClaims, lent};
pub use report::{Printer, Report, Subject, Tally};
pub use rope::rope;
pub use segment::segment;
pub use shorter::shortens;
pub use source::{SourceClaims, source, source_with_reset};
pub use view::view;
pub use writer::{vends_uninit, writer};

/// The examples of the page, run as tests of this crate.
#[cfg(all(doctest, feature = "std", feature = "critical-section"))]
#[doc = include_str!("../../../docs/backends.md")]
mod page {}
