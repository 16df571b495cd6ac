//! Memory where bytes change hands between a CPU and a device: buffers that are allocated without
//! surprises, shared without copies, and moved by DMA without races, from a microcontroller with
//! 16 KiB of RAM to a host with an accelerator. What C can only warn of, the compiler refuses: bytes
//! read while a device writes them, memory given back twice, a buffer that a transfer outlives.
//!
//! This crate holds no code. It names the crates of the workspace as modules, and [`prelude`] names what
//! nearly every program needs. A library may as well depend on the one crate that it uses.
//!
//! | layer | module | holds | reach for it when you |
//! |---|---|---|---|
//! | L0 | [`sync`] | policies: [`Unsync`](sync::Unsync), `Critical`, `Blocking` | say who may use a pool: one task, interrupts, threads |
//! | L0 | [`source`] | blocks with one owner: [`StaticPoolSource`](source::StaticPoolSource), [`Owned`](source::Owned) | want a `Box` whose allocation can fail |
//! | L0 | [`backend`] | [`MemBackend`](backend::MemBackend), pools, the heap, [`SegmentMut`](backend::SegmentMut) | want a buffer to fill, or make memory of your own usable |
//! | L0 | [`engine`] | [`Engine`](engine::Engine), descriptors, [`CpuEngine`](engine::CpuEngine) | drive something that moves or computes |
//! | L1 | [`segment`] | [`Segment`](segment::Segment), [`View`](segment::View), [`Rope`](segment::Rope) | share a filled buffer, or parts of it, with many readers; send or parse what lies in several buffers |
//! | L1 | [`tensor`] | [`Tensor`](tensor::Tensor), fences, launches | share bytes between a host and a device that works meanwhile |
//! | L1 | `meta` | element types, shapes, descriptions, sets of tensors, checksums, dumps | know what the bytes of a tensor mean |
//! | device | `softdma` | a DMA device in software | have no device yet, or test without one |
//!
//! # On a microcontroller
//! Without a heap: the memory is in statics, and running out of it is a value.
//!
#![cfg_attr(feature = "critical-section", doc = "```")]
#![cfg_attr(not(feature = "critical-section"), doc = "```ignore")]
//! use wharf::prelude::*;
//!
//! // Four Ethernet frames in `.bss`, for threads and interrupt handlers.
//! static FRAMES: StaticPool<Critical, 1536, 4> = StaticPool::new();
//! type Frame = View<&'static StaticPool<Critical, 1536, 4>>;
//!
//! /// A frame from the wire: the header and the payload, which share one buffer.
//! fn receive(wire: &[u8]) -> Option<(Frame, Frame)> {
//!     // Unique and writable while it is filled, then shared and read-only.
//!     let frame = FRAMES.alloc(wire.len()).ok()?.init_from(wire).ok()?;
//!     let frame = View::from(Segment::from(frame));
//!     Some((frame.slice(..14).ok()?, frame.slice(14..).ok()?))
//! }
//!
//! let (header, payload) = receive(b"6 bytes6 bytes..payload").unwrap();
//! assert_eq!(&payload[2..], b"payload");
//! drop(header);
//! assert_eq!(FRAMES.census().in_use, 1, "the payload keeps its frame");
//! drop(payload);
//! assert_eq!(FRAMES.census().in_use, 0);
//!
//! // What does not fit is refused with the numbers, and counted.
//! let refusal = FRAMES.alloc(1537).unwrap_err();
//! assert_eq!(refusal.to_string(), "1537 bytes asked, a segment of this backend holds at most 1536");
//! assert_eq!(FRAMES.census().refused, 1);
//! ```
//!
//! # On a host
//! A tensor in device memory, and work on it that the device does while the program goes on. A read waits for
//! the device by itself; `try_read` says [`WouldBlock`](tensor::TensorError::WouldBlock) instead.
//!
#![cfg_attr(feature = "softdma", doc = "```")]
#![cfg_attr(not(feature = "softdma"), doc = "```ignore")]
//! use wharf::prelude::*;
//!
//! /// Runs on the device, on its own memory.
//! fn double(operands: &mut [Lent<'_>]) -> Result<(), KernelFault> {
//!     let [Lent::Read(from), Lent::Write(to)] = operands else { return Err(KernelFault::OPERANDS) };
//!     to.iter_mut().zip(from.iter()).for_each(|(to, from)| *to = from * 2);
//!     Ok(())
//! }
//!
//! let device = SoftDma::<Tickets<Hosted>>::open(Config::new(1 << 20))?;
//! let target = Hosted::default();
//! let input = Tensor::alloc(&target, device.channel(), 4)?;
//! let output = Tensor::alloc(&target, device.channel(), 4)?;
//!
//! input.write(0, &[1, 2, 3, 4])?;
//! let submission = device.launch(Command::Kernel(double), &[input.input(), output.output()])?;
//! drop(input); // The device keeps what it uses.
//! submission.wait()?;
//!
//! let mut bytes = [0; 2];
//! output.slice(2..)?.read(0, &mut bytes)?;
//! assert_eq!(bytes, [6, 8]);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # What it will not do
//! * Know a type or a shape below `meta`: a tensor is bytes and a fence.
//! * Fall back to another allocator, or panic, when memory runs out.
//! * Compute: kernels are yours, and run where the engine runs.
//! * Guess who shares your memory: the policy is a type that you name, and the compiler holds you to it.
//! * Compact, grow or page memory. A segment stays where it is.
//!
//! The programs that the compiler refuses, with what to do instead, are listed in `docs/refusals.md`.
//!
//! # Features
//! None is on by default, and all are additive. They do the same in every crate of the workspace that has them.
//!
//! | feature | adds |
//! |---|---|
//! | `alloc` | [`Heap`](backend#features), `HeapSource`, backends behind `Arc` |
//! | `std` | `alloc`; `Blocking`, `StdClock`, `Hosted` |
//! | `critical-section` | `Critical`; the program links an implementation of the crate `critical-section` |
//! | `spin` | `Spin`, or on bare metal `SpinMulticore` |
//! | `defmt` | `defmt::Format` on errors, counts and events |
//! | `meta` | the module `meta` |
//! | `half`, `zerocopy`, `crc` | `meta`; 16-bit floats as elements, elements in place, CRC-32 |
//! | `safetensors` | `std`, `meta`; `meta::archive` |
//! | `softdma` | `std`; the module `softdma` |
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[doc(inline)]
pub use wharf_backend as backend;
#[doc(inline)]
pub use wharf_engine as engine;
#[cfg(feature = "meta")]
#[doc(inline)]
pub use wharf_meta as meta;
#[doc(inline)]
pub use wharf_segment as segment;
#[cfg(feature = "softdma")]
#[doc(inline)]
pub use wharf_softdma as softdma;
#[doc(inline)]
pub use wharf_source as source;
#[doc(inline)]
pub use wharf_sync as sync;
#[doc(inline)]
pub use wharf_tensor as tensor;

pub mod prelude;

/// The example in the README, as a test.
#[cfg(all(doctest, feature = "critical-section"))]
#[doc = include_str!("../../../README.md")]
mod readme {}

/// The examples of the page on traces, as tests.
#[cfg(all(doctest, feature = "std", feature = "critical-section"))]
#[doc = include_str!("../../../docs/tracing.md")]
mod tracing {}
