//! Synchronisation as a type: how memory shared by threads, cores and interrupts is protected is
//! decided when the program is compiled, and paid for only where it is needed.
//!
//! A [`SyncPolicy`] bundles the four things that shared memory needs: a [`Lock`] for a few machine
//! words, a reference [`Count`], a state [`Word`] that moves by compare-and-swap, and an [`Event`]
//! to wait for. Everything in the layers above is generic over it, and the compiler draws the
//! consequences: a pool over [`Unsync`] is not `Sync`, and nothing that it hands out is `Send`.
//!
//! | policy | for | lock | counter |
//! |---|---|---|---|
//! | [`Unsync`] | one owner: a task, a receive loop | nothing | cell |
//! | `Critical` | interrupts and threads of an MCU | `critical-section` | atomic |
//! | `Blocking` | threads of a hosted system | `std::sync::Mutex` | atomic |
//! | `Loom` | model checking | `loom`'s | `loom`'s |
//!
//! ```
//! use core::cell::Cell;
//! use wharf_sync::{ConstInit, Count, Lock, SyncPolicy, Unsync};
//!
//! // Code that is generic over the policy; the target picks one.
//! struct Ledger<P: SyncPolicy> {
//!     spent: P::Lock<Cell<u32>>,
//!     holders: P::Count,
//! }
//!
//! let ledger = Ledger::<Unsync> { spent: ConstInit::INIT, holders: Count::new(1) };
//! ledger.spent.with(|spent| spent.set(spent.get() + 40));
//! ledger.holders.increment();
//! assert_eq!(ledger.spent.with(Cell::get), 40);
//! assert!(!ledger.holders.decrement(), "one holder is left");
//! assert!(ledger.holders.decrement(), "and that was the last");
//! ```
//!
//! # Features
//! `std` adds `Blocking` and `StdClock`; `critical-section` adds `Critical`; `defmt` formats the
//! public types; `loom` is for tests only. All are additive, and none is on by default.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]

#[cfg(feature = "std")]
extern crate std;

#[cfg(any(target_has_atomic = "32", feature = "critical-section"))]
mod atomic;
mod clock;
mod idle;
mod init;
mod policy;
mod turn;
mod unsync;
mod wakers;

#[cfg(feature = "std")]
mod blocking;
#[cfg(feature = "critical-section")]
mod critical;
#[cfg(feature = "loom")]
mod loom;
#[cfg(feature = "std")]
mod who;

#[cfg(feature = "loom")]
pub use crate::loom::{Loom, LoomCount, LoomEvent, LoomLock, LoomWord};
#[cfg(any(target_has_atomic = "32", feature = "critical-section"))]
pub use atomic::{AtomicCount, AtomicWord};
#[cfg(feature = "std")]
pub use blocking::{Blocking, BlockingEvent, BlockingLock, StdClock};
pub use clock::{Clock, NoClock};
#[cfg(feature = "critical-section")]
pub use critical::{Critical, CriticalEvent, CriticalLock};
pub use idle::IdleEvent;
pub use init::ConstInit;
pub use policy::{Count, Epoch, Event, IsrSafe, Lock, SyncPolicy, Wake, Who, Word};
pub use turn::Turn;
pub use unsync::{Unsync, UnsyncCount, UnsyncEvent, UnsyncLock, UnsyncWord};
pub use wakers::{Place, WakerSet};
