//! Memory in blocks with one owner each, from sources that may say no.
//!
//! A [`BlockSource`] vends blocks: so many bytes, so aligned. Where it has none left it says so, and
//! afterwards it can tell why ([`SourceError`], with the numbers) and how often ([`Census`]). Nothing
//! here panics, aborts, or turns to another allocator behind the caller's back. A [`Block`], an
//! [`Owned`] value or a [`BlockArray`] goes back to its source when it is dropped.
//!
//! | source | memory | to be had |
//! |---|---|---|
//! | [`NullSource`] | none: refuses everything | always |
//! | `HeapSource` | the global allocator | feature `alloc` |
//! | [`BumpSource`] | a slab that the caller lends, given back all at once | always |
//! | [`PoolSource`] | a slab that the caller lends | always |
//! | [`StaticPoolSource`] | a slab of its own, in a `static` | always |
//!
//! [`FaultSource`] wraps one of them and refuses what it is told to.
//!
//! ```
//! use core::alloc::Layout;
//! use core::mem::MaybeUninit;
//! use wharf_source::{Block, Owned, PoolSource, SizeClass, SourceError};
//! use wharf_sync::Unsync;
//!
//! let mut slab = [MaybeUninit::uninit(); 256];
//! let mut classes = [SizeClass::EMPTY; 4];
//! let pool = PoolSource::<Unsync>::new(&mut slab, &mut classes);
//!
//! let frame = Layout::from_size_align(64, 8).unwrap();
//! let mut block = Block::new(&pool, frame)?;
//! block.as_uninit_mut()[0].write(0x7E);
//! let point = Owned::new(&pool, (3, 4)).map_err(|(error, _)| error)?;
//! assert_eq!(*point, (3, 4));
//!
//! // Exhaustion is a value.
//! let refused = Block::new(&pool, Layout::from_size_align(200, 1).unwrap());
//! assert!(matches!(refused, Err(SourceError::Exhausted { requested: 200, .. })));
//! assert_eq!(pool.census().refused, 1);
//!
//! // What is given back serves the next request of the same shape.
//! let before = pool.used();
//! drop(block);
//! let _again = Block::new(&pool, frame)?;
//! assert_eq!(pool.used(), before);
//! # Ok::<(), SourceError>(())
//! ```
//!
//! # A request for no bytes
//! It is met by every source with a well-aligned pointer to nothing, takes no memory, and its release
//! does nothing. [`empty_block`] is that decision in one place, for sources of your own too.
//!
//! # Features
//! `alloc` adds `HeapSource` and the sources behind `Rc` and `Arc`; `allocator-api2` adds `AsAllocator`, by
//! which containers of that ecosystem live in a source; `std` and `critical-section` pass on to `wharf-sync`; `defmt`
//! formats the public values. All are additive, and none is on by default.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg(feature = "allocator-api2")]
mod adapter;
mod array;
mod block;
mod bump;
mod census;
mod error;
mod fault;
#[cfg(feature = "alloc")]
mod heap;
mod null;
mod owned;
mod pool;
mod slab;
mod source;

#[cfg(feature = "allocator-api2")]
pub use adapter::AsAllocator;
pub use array::{ArrayIntoIter, ArraySlot, BlockArray, InsertError};
pub use block::Block;
pub use bump::BumpSource;
pub use census::Census;
pub use error::SourceError;
pub use fault::FaultSource;
#[cfg(feature = "alloc")]
pub use heap::HeapSource;
pub use null::NullSource;
pub use owned::Owned;
pub use pool::{PoolSource, SizeClass, StaticPoolSource, StaticPoolState};
pub use source::{BlockSource, empty_block};
