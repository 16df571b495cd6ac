//! The seam to whatever moves bytes or computes on them: a DMA controller, an accelerator's queue, or
//! the CPU itself.
//!
//! An [`Engine`] takes a [`Descriptor`] (what to do with which operands) together with a [`Cargo`]
//! (what must stay alive meanwhile), runs descriptors of its [`Stream`] one after the other, and gives
//! the cargo back. What is in flight lives in the descriptor's slot and never in a future, so nothing dangles
//! when whatever waits for it is dropped or forgotten.
//!
//! [`CpuEngine`] runs kernels inline, on the context that submits. [`DescriptorQueue`] is the bounded
//! queue under it, for engines of your own that run on a thread or in an interrupt.
//!
//! Whoever owns segments submits them without `unsafe`, and waits, by [`EngineExt`]: [`ship`](EngineExt::ship) and its kin,
//! [`wait`](EngineExt::wait), and the barrier [`drain`](EngineExt::drain). Tensors have the front of `wharf-tensor`. What is below is for
//! the authors of engines.
//!
//! ```
//! use core::task::Poll;
//! use wharf_backend::{BackendExt, SegmentMut, StaticPool};
//! use wharf_engine::{Command, CpuEngine, Descriptor, Engine, KernelFault, Lent, Operand, Stream};
//! use wharf_sync::Unsync;
//!
//! let pool = StaticPool::<Unsync, 64, 4>::new();
//! let bytes = pool.alloc(4)?.init_from(&[1, 2, 3, 4])?;
//!
//! // The cargo is the segment: the engine owns what it works on, until it gives it back.
//! let engine = CpuEngine::<Unsync, SegmentMut<&StaticPool<Unsync, 64, 4>>>::new(Stream::claim()?);
//! let double = Command::Kernel(|operands| {
//!     let [Lent::Write(bytes)] = operands else { return Err(KernelFault::OPERANDS) };
//!     bytes.iter_mut().for_each(|byte| *byte *= 2);
//!     Ok(())
//! });
//! let descriptor = Descriptor::new(double, &[Operand::write(bytes.place(), bytes.len())])?;
//! // SAFETY: the only operand is the cargo, whole.
//! let sequence = unsafe { engine.submit(descriptor, bytes) }.map_err(|refused| refused.error)?;
//! let Poll::Ready(Some(Ok(bytes))) = engine.poll(sequence, None) else { panic!("it ran inline") };
//! assert_eq!(*bytes, [2, 4, 6, 8]);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;

mod cpu;
mod descriptor;
mod doorbell;
mod engine;
mod freight;
mod front;
mod limits;
mod queue;
mod stream;
mod submission_id;
mod wait;

pub use cpu::{CpuEngine, StaticCpuEngine, run_on_host};
pub use descriptor::{
    Access, Command, Descriptor, DescriptorError, Kernel, KernelFault, Lent, MAX_OPERANDS, Operand,
};
pub use doorbell::{Barrier, DataBarrier, Doorbell};
pub use engine::{Cargo, Completion, Engine, Fault, Sequence, SubmitError};
pub use freight::{Freight, Manifest, Operands};
pub use front::{EngineExt, RunError, ShipError, Shipped, Transfer};
pub use limits::{
    Elements, Extent, Hop, Hops, Limits, LimitsError, ListElements, Rules, SplitCopyError,
    SplitError, SplitListError, split_copy,
};
pub use queue::{DescriptorQueue, Job, QueueState};
pub use stream::{Stream, StreamCell, StreamId, TooManyStreams};
pub use submission_id::{SequenceTooLarge, SubmissionId};
pub use wait::{Completes, Drains, Unfinished};
pub use wharf_backend::{DeviceAddress, Place, Returned};
