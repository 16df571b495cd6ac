//! Memory that many hold and nobody writes.
//!
//! | | is | made by |
//! |---|---|---|
//! | [`Segment`] | a frozen [`SegmentMut`](wharf_backend::SegmentMut): shared, read-only, counted | `From<SegmentMut>` |
//! | [`View`] | a window on one | `From<Segment>`; slicing, which composes in constant time |
//! | [`Rope`] | a chain of views, of one segment or of many, on the host and on devices | pushing views |
//!
//! The last holder gives the memory back to its backend, on whatever thread or interrupt that happens; `try_mut` thaws
//! it when nobody else holds it.
//!
//! ```
//! use wharf_backend::{BackendExt, MemBackend, StaticPool};
//! use wharf_segment::{Segment, View};
//! use wharf_sync::Unsync;
//!
//! let pool = StaticPool::<Unsync, 64, 4>::new();
//! let frame = Segment::from(pool.alloc(12)?.init_from(b"head|payload")?);
//!
//! let payload = View::from(frame.clone()).slice(5..)?;
//! assert_eq!(payload, b"payload");
//! assert_eq!(payload.slice(..3)?, b"pay");
//!
//! // Two hold it, so nobody may write.
//! let frame = frame.try_mut().unwrap_err();
//! drop(payload);
//! let mut frame = frame.try_mut().expect("now it is unique");
//! frame[0] = b'H';
//! drop(frame);
//! assert_eq!(pool.census().in_use, 0);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # A frame of parts
//! A payload stays where it is, a header of its own goes in front of it, and both are sent in one vectored write. The two are in
//! different memories here, so their common type is what both erase to. (Who knows all memories of a program names them in a
//! [`backend_set!`](wharf_backend::backend_set) instead: one type as well, whose bytes are slices and whose calls are direct.)
//!
#![cfg_attr(all(feature = "std", feature = "critical-section"), doc = "```")]
#![cfg_attr(
    not(all(feature = "std", feature = "critical-section")),
    doc = "```ignore"
)]
//! use std::{error::Error, io::Write};
//! use wharf_backend::{BackendExt, MemBackend, StaticPool};
//! use wharf_segment::{Rope, View};
//! use wharf_sync::Critical;
//!
//! static HEADERS: StaticPool<Critical, 4, 8> = StaticPool::new();
//! static BODIES: StaticPool<Critical, 1500, 4> = StaticPool::new();
//! type Memory = &'static (dyn MemBackend<Policy = Critical> + Sync);
//!
//! /// Sends what was received on, under a header of its own.
//! fn forward(received: &View<Memory>, socket: &mut impl Write) -> Result<(), Box<dyn Error>> {
//!     let mut frame = Rope::new(); // two links inline, and no memory for more
//!     frame.push(received.slice(4..)?)?;
//!     frame.push_front(HEADERS.alloc(4)?.init_from(b"new:")?.erase::<Memory>())?;
//!     // Eleven bytes show, of fifteen that the frame keeps.
//!     assert_eq!((frame.pinned().shown, frame.pinned().kept), (11, 15));
//!     Ok(frame.cursor().write_to(socket)?)
//! }
//!
//! let received = View::from(BODIES.alloc(11)?.init_from(b"old:payload")?.erase::<Memory>());
//! let mut wire = Vec::new(); // or a socket
//! forward(&received, &mut wire)?;
//! assert_eq!(wire, b"new:payload");
//!
//! drop(received);
//! assert_eq!((HEADERS.census().in_use, BODIES.census().in_use), (0, 0));
//! # Ok::<(), Box<dyn Error>>(())
//! ```
//!
//! What arrives in pieces is parsed across them by a [`Cursor`], and what a small part of it keeps alive is let go by
//! [`View::compact_into`] and [`Rope::gather`].
//!
//! # Features
//! All are passed down to `wharf-backend`, and none is on by default. `std` adds vectored writes and `std::io::Read` to the
//! cursor; `defmt` formats errors and counts.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]

#[cfg(feature = "std")]
extern crate std;

mod bounds;
mod chunks;
mod compare;
mod filling;
mod gather;
mod pinned;
mod rope;
mod segment;
mod view;
mod view_mut;

pub use bounds::OutOfBounds;
pub use chunks::{Chunks, JoinError};
pub use gather::GatherError;
pub use pinned::Pinned;
pub use rope::{Cursor, PushError, ReadError, Rope, RopeInFlight, RopeIntoIter, SliceError};
pub use segment::Segment;
pub use view::View;
pub use view_mut::ViewMut;
