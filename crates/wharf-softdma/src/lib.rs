//! A DMA device in software, for hosts: memory of its own, a bounded queue, and a thread that runs kernels on that
//! memory while the host does something else.
//!
//! It behaves like the device that it stands for. The host does not address its memory: bytes get there by
//! transfer. Work is submitted with the cargo that it keeps alive, runs in order, and completes; a full queue, a
//! fault, a closed device are values. Programs and tests that run on it run on hardware that keeps the same laws.
//!
//! ```
//! use wharf_backend::SegmentMut;
//! use wharf_engine::{Command, Descriptor, Engine, EngineExt, KernelFault, Lent, Operand};
//! use wharf_softdma::{Config, SoftDma};
//! use wharf_sync::NoClock;
//!
//! // The cargo of this device's submissions is what they use: one segment each.
//! type Buffer = SegmentMut<std::sync::Arc<wharf_softdma::Channel>>;
//! let device = SoftDma::<Buffer>::open(Config::new(1 << 20).named("npu0"))?;
//!
//! let buffer = SegmentMut::alloc(device.channel(), 4)?.init_from(&[1, 2, 3, 4])?;
//! assert!(buffer.host().is_err(), "the host does not address it");
//!
//! let double = Command::Kernel(|operands| {
//!     let [Lent::Write(bytes)] = operands else { return Err(KernelFault::OPERANDS) };
//!     bytes.iter_mut().for_each(|byte| *byte *= 2);
//!     Ok(())
//! });
//! let descriptor = Descriptor::new(double, &[Operand::write(buffer.place(), buffer.len())])?;
//! // SAFETY: the operand is the cargo: initialised, and out of anybody's reach until it comes back.
//! let sequence = unsafe { device.submit(descriptor, buffer) }?;
//!
//! let buffer = device.wait(sequence, &NoClock, None)??;
//! let mut bytes = [0; 4];
//! buffer.read(0, &mut bytes)?;
//! assert_eq!(bytes, [2, 4, 6, 8]);
//!
//! let ledger = device.channel().ledger();
//! assert_eq!((ledger.bytes_in, ledger.bytes_out, ledger.segments), (4, 4, 1));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! Tensors submit without `unsafe`, through the safe front of `wharf-tensor`.
//!
//! # What its memory is used for
//! A device has up to [`MAX_CHANNELS`] channels ([`Config::with`]), each with books by
//! [`UsageClass`](wharf_backend::usage::UsageClass). [`Channel::tagged`] is a reference to a channel for a class and with a name;
//! [`Channel::allocations`] tells who has what, [`SoftDma::explain`] why somebody was refused.
//!
//! # When it fails
//! [`SoftDma::faults`] makes the device fail, stall, complete twice or late, for tests of what uses it.
//!
//! # What it does not do
//! Transfers do not go through the queue and cost no bus: the calling CPU copies, through a window that only the
//! transfer functions have. Kernels run on one CPU thread per device. There is no cache between host and device,
//! so nothing needs maintenance. Memory is not scrubbed between segments. Where panics abort, a kernel's panic aborts.
//!
//! This crate needs `std`. Its feature `defmt` adds `defmt::Format` to errors and counts.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]

mod activity;
mod addresses;
mod arena;
mod channel;
mod config;
mod device;
mod engine;
mod error;
mod faults;
mod ledger;
mod ranges;

pub use activity::Stats;
pub use channel::Channel;
pub use config::{ChannelConfig, Config, MAX_CHANNELS};
pub use device::SoftDma;
pub use error::OpenError;
pub use faults::{Faults, Stall};
pub use ledger::Ledger;
