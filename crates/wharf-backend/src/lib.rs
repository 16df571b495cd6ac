//! Memory backends: whatever can vend a piece of memory as one *segment*, and take it back.
//!
//! A [`MemBackend`] is a pool over a slab, the heap, the memory of a device, or something of your own.
//! It vends [`SegmentMut`]s: unique, writable, their bytes typed uninitialised until filled. A segment
//! keeps its backend through a reference of your choice ([`BackendRef`]): a borrow, a `&'static`, or a count, and
//! goes back to it when dropped, on whatever thread or interrupt that happens.
//!
//! ```
//! use wharf_backend::{BackendExt, StaticPool};
//! use wharf_sync::Unsync;
//!
//! // Sixteen slots of 64 bytes. As a `static` (over `Critical` or another shared policy) it is `.bss`.
//! let pool = StaticPool::<Unsync, 64, 16>::new();
//!
//! let mut frame = pool.alloc(5)?.init_from(b"hello")?;
//! frame[0] = b'j';
//! assert_eq!(&*frame, b"jello");
//! assert_eq!(pool.census().in_use, 1);
//! drop(frame);
//! assert_eq!(pool.census().in_use, 0);
//!
//! // Exhaustion is a value that names the numbers.
//! let refusal = pool.alloc(65).unwrap_err();
//! assert_eq!(refusal.to_string(), "65 bytes asked, a segment of this backend holds at most 64");
//! # use wharf_backend::MemBackend;
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Which backend
//! | backend | memory | for |
//! |---|---|---|
//! | [`StaticPool`], [`PoolBackend`] | fixed slots of a slab | bounded, constant time |
//! | [`ShardedPool`] | the same, in shards | threads or cores that allocate at the same time |
//! | `Heap` (feature `alloc`) | an allocation per segment | hosts |
//! | [`SourceBackend`] | a block of any block source per segment | segments of mixed sizes without a heap |
//! | [`BorrowedBackend`] | bytes, device addresses or registers that somebody lends | one segment, no allocation |
//! | [`OwnerBackend`] | the bytes of a `Vec`, an `Arc<[u8]>`, a mapping | what exists, without a copy |
//! | [`backend_set!`] | one of several | one type for all of them |
//!
//! Devices with memory channels, usage classes and books: see [`usage`]. Segments that go all at once: [`Group`].
//!
//! [`Maintained`] puts a board's cache maintenance around a pool, [`FaultInject`] makes any of them fail when told to; these and
//! the other wrappers, and how they compose, are in [`wrap`].
//!
//! # Features
//! `alloc` adds `Heap` and counted references (`Arc`); `std` implies it; `critical-section` and
//! `defmt` are passed down. All are additive, and none is on by default.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod align;
mod backend;
mod borrowed;
mod by_address;
mod cache;
mod error;
mod from_source;
mod group;
mod header;
#[cfg(feature = "alloc")]
mod heap;
mod in_flight;
mod owner;
mod place;
mod pool;
mod reference;
mod registry;
mod segment;
mod set;
mod shorten;
mod transfer;
pub mod usage;
mod vends_uninit;
pub mod wrap;
mod writer;

pub use align::{
    Align1, Align2, Align4, Align8, Align16, Align32, Align64, Align128, Align256, Align512,
    Align1024, Align2048, Align4096, Alignment,
};
pub use backend::{
    AllocHint, BackendExt, Caps, ConstOwnLines, HostBackend, MemBackend, OwnLines, ReadableBackend,
};
pub use borrowed::{
    BorrowedBackend, BorrowedDevice, BorrowedExclusive, BorrowedMmio, BorrowedShared, BusWord,
    DeviceRange, DeviceTransfer, ExclusiveBytes, LentMemory, Loan, RangeError, Registers,
    SharedBytes,
};
pub use cache::{CacheOps, LineError, Maintained};
pub use error::{
    AllocError, ForeignSegment, NotHostAddressable, PieceError, Returned, TransferError,
};
pub use from_source::{SourceBackend, SourceLedger};
pub use group::{Group, GroupError, Member};
pub use header::Header;
#[cfg(feature = "alloc")]
pub use heap::{Heap, HeapBackend};
pub use in_flight::InFlight;
pub use owner::OwnerBackend;
pub use place::{DeviceAddress, IoDirection, MemSpace, Piece, Place};
pub use pool::{FreeList, PoolBackend, PoolError, ShardedPool, SlotControl, StaticPool};
pub use reference::{BackendRef, Erases};
pub use registry::{DeviceId, DeviceRegistry, RegistryError, Table};
pub use segment::{Init, ReadOnly, SegmentMut, State, Uninit};
pub use shorten::Shortens;
pub use transfer::read_raw;
pub use vends_uninit::VendsUninit;
pub use wharf_source::Census;
pub use wrap::{Checked, FaultInject, Quota, Scrub, Share, Shared, Traced, Waitable};
pub use writer::{NoRoom, ReadFromError, SegmentWriter};
