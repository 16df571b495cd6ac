//! Tensors: bytes that a host and its devices share without meeting in them.
//!
//! A [`Tensor`] is a window on a shared storage of bytes, in host or device memory. It knows no type and no
//! shape. What it knows is who has access: every read, write, copy and launched command passes the *fence* of the storage, one
//! state word in which host and device exclude each other. A device that is still writing makes [`Tensor::read`]
//! wait and [`Tensor::try_read`] answer [`TensorError::WouldBlock`]; nothing has to be remembered by the caller.
//!
//! # Waiting
//! All forms wait for the same marks in the same word, and a writer that waits keeps newcomers behind it, so that none starves. In which
//! order those go that wait is open:
//!
//! | | a tensor | an engine | a submission |
//! |---|---|---|---|
//! | blocks | [`tensor.read(…)`](Tensor::read) | [`engine.launch(…)`](Launch::launch) | [`wait()`](Submission::wait) |
//! | does not wait | [`tensor.try_read(…)`](Tensor::try_read) | [`try_launch(…)`](Launch::try_launch) | [`poll(None)`](Submission::poll) |
//! | until a deadline | [`tensor.within(limit).read(…)`](Tensor::within) | [`launch_within(limit, …)`](Launch::launch_within) | [`wait_within(limit)`](Submission::wait_within) |
//! | in a task | [`tensor.when_ready().read(…).await`](Tensor::when_ready) | [`launch_when_ready(…).await`](Launch::launch_when_ready) | [`submission.await`](Submission) |
//!
//! What takes an access has all four forms, under these names: `read`, `write`, `fill`, `copy_from`, `lend`, `lend_mut`, and `begin`, by which a
//! driver takes one for its device. What changes a storage's place in the world ([`split`](Tensor::split), [`attach`](Tensor::attach),
//! [`into_segment`](Tensor::into_segment)) never waits, and says who is in the way.
//!
//! What can never come is an error in each of them: a guard ([`Guarded`](TensorError::Guarded)), and, for those that block, a
//! wait for oneself ([`WouldDeadlock`](TensorError::WouldDeadlock)). An engine is drained by
//! [`EngineExt::drain`](wharf_engine::EngineExt::drain) and [`drained`](wharf_engine::EngineExt::drained).
//!
//! Work in flight owns its memory: an engine holds a [`Ticket`] for each operand, so tensors and submissions may be dropped
//! at any time.
//!
//! # Tracing
//! A target's [`TraceSink`] is told what happens: reads, writes, waits, memory, copies to and from devices, launches and when
//! they run ([`TraceKind`]). [`NoTrace`], where nobody is, compiles to nothing; [`TraceRing`] keeps the last events in a static; on
//! hosts `ChromeTrace` writes a timeline for Perfetto; with `defmt`, `DefmtTrace` makes log lines.
//!
//! # Targets
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
//! Features are passed down; `std` adds `Hosted` and `ChromeTrace`, `defmt` adds `DefmtTrace`, and none is on by default.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]

#[cfg(feature = "std")]
extern crate std;

mod batch;
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
mod placement;
mod ready;
mod relay;
mod storage;
mod target;
mod tensor;
mod ticket;
mod tickets;
mod trace;
mod unfenced;
mod valued;
mod within;

pub use batch::{BatchOp, ReadOp, WriteOp};
pub use completion::{CompletionError, Completions, Reached};
pub use directory::{Directory, DirectoryEntry, DirectoryRef, Entries, NoDirectory};
pub use error::{BatchError, LaunchError, StorageId, TensorError};
pub use explain::{Explain, Explained};
pub use guard::{ReadGuard, WriteGuard};
pub use launch::{Launch, Launching, Submission, WaitError};
pub use name::NamedError;
pub use placement::Placement;
pub use ready::WhenReady;
pub use relay::{CopyError, CopyFault};
#[cfg(feature = "std")]
pub use target::Hosted;
pub use target::{Firmware, Parts, Target};
pub use tensor::Tensor;
pub use ticket::Ticket;
pub use tickets::{Tickets, Use};
#[cfg(feature = "defmt")]
pub use trace::DefmtTrace;
#[cfg(feature = "std")]
pub use trace::{ChromeSummary, ChromeTrace};
pub use trace::{
    NoTrace, TraceDetail, TraceDrain, TraceEvent, TraceKind, TracePhase, TraceRecord, TraceRing,
    TraceRingState, TraceSink,
};
pub use valued::Valued;
pub use wharf_engine::Access;
pub use within::Within;
