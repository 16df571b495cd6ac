//! Memory that many hold and nobody writes.
//!
//! A [`Segment`] is a frozen [`SegmentMut`](wharf_backend::SegmentMut): shared, read-only, counted. The last holder gives the
//! memory back to its backend, on whatever thread or interrupt that happens; [`Segment::try_mut`]
//! thaws it when nobody else holds it. A [`View`] is a window on one; slicing composes in constant time.
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
//! assert_eq!(&*payload, b"payload");
//! assert_eq!(&*payload.slice(..3)?, b"pay");
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
//! Features are passed down to `wharf-backend`; none is on by default.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]

mod segment;
mod view;

pub use segment::Segment;
pub use view::{OutOfBounds, View};
