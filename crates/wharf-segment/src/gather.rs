//! Copying what views show into one segment.
#![forbid(unsafe_code)]

use core::fmt;

use wharf_backend::{AllocError, BackendRef, Returned, SegmentMut, TransferError, Uninit};

use crate::View;
use crate::filling::fill_from;

/// Bytes that go from one device to another at a time, by way of the stack.
const BOUNCE: usize = 256;

/// Why bytes were not gathered. Nothing was lost: what they come from is as it was, and a segment that was taken for them
/// has gone back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum GatherError {
    /// There are no bytes. Nothing was asked of the backend.
    Empty,
    /// The backend has no memory for them, and counted that.
    Refused(AllocError),
    /// Device memory that they come from was not read.
    Read {
        /// Bytes that had been gathered before.
        at: usize,
        /// Why not.
        error: TransferError,
    },
    /// Device memory that they go to was not written.
    Write {
        /// Bytes that had been gathered before.
        at: usize,
        /// Why not.
        error: TransferError,
    },
}

impl fmt::Display for GatherError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("there are no bytes to gather"),
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Read { at, error } => write!(f, "read failed after {at} bytes: {error}"),
            Self::Write { at, error } => write!(f, "write failed after {at} bytes: {error}"),
        }
    }
}

impl core::error::Error for GatherError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Empty => None,
            Self::Refused(refusal) => Some(refusal),
            Self::Read { error, .. } | Self::Write { error, .. } => Some(error),
        }
    }
}

/// Copies `links`, which show `len` bytes together, into a segment of `backend`.
pub(crate) fn gather<R: BackendRef, Q: BackendRef>(
    links: &[View<R>],
    len: usize,
    backend: Q,
) -> Result<SegmentMut<Q>, GatherError> {
    if len == 0 {
        return Err(GatherError::Empty);
    }
    let segment = SegmentMut::alloc(backend, len).map_err(GatherError::Refused)?;
    // Up to the first link that is not the host's: then they are too few.
    let parts = links.iter().map_while(|link| link.host().ok());
    match fill_from(segment, parts) {
        Ok(segment) => Ok(segment),
        Err(segment) => piecewise(links, segment),
    }
}

/// Where one end at least is a device, which moves bytes by transfers.
fn piecewise<R: BackendRef, Q: BackendRef>(
    links: &[View<R>],
    segment: SegmentMut<Q, Uninit>,
) -> Result<SegmentMut<Q>, GatherError> {
    let written = |at| move |error| GatherError::Write { at, error };
    let mut segment = segment.initialised().map_err(written(0))?;
    let mut at = 0;
    for link in links {
        if let Ok(bytes) = link.host() {
            segment.write(at, bytes).map_err(written(at))?;
        } else {
            let read = |error| GatherError::Read { at, error };
            match segment.host_mut() {
                Ok(bytes) => {
                    let room = bytes
                        .get_mut(at..)
                        .and_then(|room| room.get_mut(..link.len()));
                    link.read(0, room.unwrap_or_default()).map_err(read)?;
                }
                Err(_) => bounce(link, &mut segment, at)?,
            }
        }
        // No wrap: the links' sum is the segment's length.
        at += link.len();
    }
    Ok(segment)
}

/// From a device to a device.
fn bounce<R: BackendRef, Q: BackendRef>(
    link: &View<R>,
    segment: &mut SegmentMut<Q>,
    at: usize,
) -> Result<(), GatherError> {
    let mut buffer = [0; BOUNCE];
    let mut done = 0;
    while done < link.len() {
        let piece = buffer.len().min(link.len() - done);
        let piece = buffer.get_mut(..piece).unwrap_or_default();
        // No wrap: at most the segment's length.
        let at = at + done;
        link.read(done, piece)
            .map_err(|error| GatherError::Read { at, error })?;
        segment
            .write(at, piece)
            .map_err(|error| GatherError::Write { at, error })?;
        done += piece.len();
    }
    Ok(())
}

impl<R: BackendRef> View<R> {
    /// Copies the bytes that show into a segment of `backend` that has no others, and lets go of the one that they lay in.
    ///
    /// ```
    /// # use wharf_backend::{BackendExt, MemBackend, StaticPool};
    /// # use wharf_segment::View;
    /// # use wharf_sync::Unsync;
    /// let frames = StaticPool::<Unsync, 1500, 8>::new();
    /// let names = StaticPool::<Unsync, 16, 64>::new();
    ///
    /// let mut name = View::from(frames.alloc(1500)?.filled(b'n')?).slice(40..48)?;
    /// assert_eq!(name.pinned().hidden(), 1492);
    /// let name = View::from(name.compact_into(&names).map_err(|refused| refused.error)?);
    /// assert_eq!(name.pinned().hidden(), 0);
    /// assert_eq!(frames.census().in_use, 0);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// Bytes on a device are read, and those of another device are reached in pieces of 256 bytes by way of the stack.
    ///
    /// # Errors
    /// Why there is no such segment, with the view.
    pub fn compact_into<Q: BackendRef>(
        self,
        backend: Q,
    ) -> Result<SegmentMut<Q>, Returned<Self, GatherError>> {
        gather(core::slice::from_ref(&self), self.len(), backend)
            .map_err(|error| Returned::new(error, self))
    }
}
