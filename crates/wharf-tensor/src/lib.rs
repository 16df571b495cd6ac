//! Tensors: bytes that a host and its devices share without meeting in them.
//!
//! A [`Tensor`] is a window on a shared storage of bytes, in host or device memory. It knows no type and no
//! shape. What it knows is who has access: every read, write, copy and launched command passes the *fence* of the storage, one
//! state word in which host and device exclude each other. A device that is still writing makes [`Tensor::read`]
//! wait and [`Tensor::try_read`] answer [`TensorError::WouldBlock`]; nothing has to be remembered by the caller.
//!
//! Work in flight owns its memory: an engine holds a [`Ticket`] for each operand, so tensors and submissions may be dropped
//! at any time.
//!
//! A program names its [`Target`] once: how storages are shared, which backends there are, where control blocks come from.
//!
//! ```
//! use wharf_backend::Heap;
//! use wharf_source::HeapSource;
//! use wharf_sync::Unsync;
//! use wharf_tensor::{Parts, Tensor, TensorError};
//!
//! let target = Parts::<Heap<Unsync>, HeapSource>::new(HeapSource);
//! let image = Tensor::alloc(&target, Heap::new(), 64)?;
//! image.write(0, &[7; 64])?;
//!
//! // A guard lends the bytes in place, and keeps writers out meanwhile.
//! let pixels = image.lend()?;
//! assert_eq!(pixels[63], 7);
//! assert!(matches!(image.fill(0), Err(TensorError::Guarded { .. })));
//! drop(pixels);
//! image.fill(0)?;
//! # Ok::<(), TensorError>(())
//! ```
//!
//! A tensor that was [named](Tensor::named) is listed in the [`Directory`] of the target, so that an error, which carries a number, can
//! be [explained](Directory::explain); and it counts how often a launch has completed it ([`Completions`]).
//!
//! Features are passed down; `std` adds [`Hosted`], and none is on by default.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]

#[cfg(feature = "std")]
extern crate std;

mod chain;
mod completion;
mod copy;
mod directory;
mod error;
mod explain;
mod fence;
mod guard;
mod hold;
mod holders;
mod identity;
mod io;
mod launch;
mod lifecycle;
mod name;
mod storage;
mod target;
mod tensor;
mod ticket;
mod trace;

pub use completion::{CompletionError, Completions, Reached};
pub use directory::{Directory, DirectoryEntry, DirectoryRef, Entries, NoDirectory};
pub use error::{LaunchError, StorageId, TensorError};
pub use explain::{Explain, Explained};
pub use guard::{ReadGuard, WriteGuard};
pub use launch::{Launch, Submission, Tickets, Use, WaitError};
pub use name::NamedError;
#[cfg(feature = "std")]
pub use target::Hosted;
pub use target::{Firmware, Parts, Target};
pub use tensor::Tensor;
pub use ticket::Ticket;
pub use trace::{NoTrace, TraceEvent, TraceKind, TracePhase, TraceSink};
pub use wharf_engine::Access;
