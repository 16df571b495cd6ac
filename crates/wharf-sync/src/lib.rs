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
//! | `Spin` | threads of a hosted system that share for a few instructions | spin lock | atomic |
//! | `SpinMulticore` | cores of an MCU, without interrupts; its name on bare metal | spin lock | atomic |
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
//! Which policy when, and how to write one of your own: `docs/sync-policies.md` in the repository.
//!
//! # Features
//! `std` adds `Blocking` and `StdClock`; `critical-section` adds `Critical`; `spin` adds `Spin`, or on bare metal
//! `SpinMulticore` (which cores without compare-and-swap do not have); `defmt` formats the
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
#[cfg(all(feature = "spin", target_has_atomic = "32"))]
mod spin;
#[cfg(feature = "std")]
mod who;

#[cfg(feature = "loom")]
pub use crate::loom::{Loom, LoomCount, LoomEvent, LoomLock, LoomWord};
#[cfg(all(feature = "spin", target_has_atomic = "32", not(target_os = "none")))]
pub use crate::spin::Spin;
#[cfg(all(feature = "spin", target_has_atomic = "32", target_os = "none"))]
pub use crate::spin::SpinMulticore;
#[cfg(all(feature = "spin", target_has_atomic = "32"))]
pub use crate::spin::{SpinEvent, SpinLock};
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
pub use wakers::{WakerPlace, WakerSet};

/// The examples of the page, run as tests of this crate.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/sync-policies.md")]
mod page {}
