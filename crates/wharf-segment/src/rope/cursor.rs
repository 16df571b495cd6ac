//! Reading a rope from front to back.
//!
//! Invariant of a [`Cursor`]: `position` is the sum of the lengths of the first `link` links, and of `within`, which is less
//! than the next link has; or zero where there is no next link.
#![forbid(unsafe_code)]

use core::fmt;

use wharf_backend::{BackendRef, NotHostAddressable};
use wharf_source::BlockSource;

use crate::bounds::position;
use crate::{OutOfBounds, ReadError, Rope, View};

/// A place in a rope, from which its bytes are read across the links.
///
/// It borrows the rope, so that the links cannot change under it, and every step is checked, in release builds too.
///
/// ```
/// # use wharf_backend::{BackendExt, StaticPool};
/// # use wharf_segment::{ReadError, Rope, View};
/// # use wharf_sync::Unsync;
/// # let pool = StaticPool::<Unsync, 16, 4>::new();
/// # let piece = |bytes: &[u8]| View::from(pool.alloc(bytes.len()).unwrap().init_from(bytes).unwrap());
/// // A length and as many bytes, as they came in: the length lies across two buffers.
/// let mut received = Rope::new();
/// # let _ =
/// received.push(piece(b"\x00"));
/// # let _ =
/// received.push(piece(b"\x05hello..."));
///
/// let mut cursor = received.cursor();
/// let len = u16::from_be_bytes(cursor.read_array()?);
/// let mut message = received.slice(cursor.position()..).unwrap();
/// let behind = message.split_off(len.into()).unwrap();
/// assert_eq!(message, b"hello");
/// assert_eq!(behind, b"...");
/// # Ok::<(), ReadError>(())
/// ```
///
/// A parser has one error, [`ReadError`], which takes that of a step by `?`:
///
/// ```
/// # use wharf_backend::{BackendExt, BackendRef, StaticPool};
/// # use wharf_segment::{Cursor, ReadError, Rope};
/// # use wharf_sync::Unsync;
/// /// The port that a UDP datagram is for, and the cursor on what it carries.
/// fn port<R: BackendRef>(datagram: &mut Cursor<'_, R>) -> Result<u16, ReadError> {
///     datagram.advance(2)?; // where it is from
///     let port = u16::from_be_bytes(datagram.read_array()?);
///     datagram.advance(4)?; // length and checksum
///     Ok(port)
/// }
/// # let pool = StaticPool::<Unsync, 16, 1>::new();
/// # let mut short = Rope::new();
/// # short.push(pool.alloc(6)?.init_from(&[0, 1, 0, 53, 0, 0])?).unwrap();
/// let refused = port(&mut short.cursor()).unwrap_err();
/// assert_eq!(refused.to_string(), "4..8 does not lie within 6 bytes");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[must_use = "a cursor does nothing until it is read from"]
pub struct Cursor<'a, R: BackendRef> {
    links: &'a [View<R>],
    len: usize,
    link: usize,
    within: usize,
    position: usize,
}

impl<R: BackendRef, S: BlockSource, const N: usize> Rope<R, S, N> {
    /// A cursor on the first byte.
    pub fn cursor(&self) -> Cursor<'_, R> {
        Cursor {
            links: self.links(),
            len: self.len(),
            link: 0,
            within: 0,
            position: 0,
        }
    }

    /// Copies bytes at `offset` into `bytes`, from wherever they are.
    ///
    /// # Errors
    /// The range leaves the rope, and `bytes` is untouched; or a device did not give what lies on it.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), ReadError> {
        let mut cursor = self.cursor();
        cursor.range(offset, bytes.len())?;
        cursor.seek(offset)?;
        cursor.read(bytes)
    }
}

impl<'a, R: BackendRef> Cursor<'a, R> {
    /// Bytes before it.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.position
    }

    /// Bytes behind it.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        // No wrap: by the invariant.
        self.len - self.position
    }

    /// Moves it to the byte at `at`, or behind the last one. Time grows with the links in between; backwards, with those
    /// from the first.
    ///
    /// # Errors
    /// The rope is shorter; the cursor is where it was.
    pub fn seek(&mut self, at: usize) -> Result<(), OutOfBounds> {
        position(at, self.len)?;
        if at < self.position {
            (self.link, self.within, self.position) = (0, 0, 0);
        }
        self.step(at - self.position);
        Ok(())
    }

    /// Moves it over `bytes`.
    ///
    /// # Errors
    /// Fewer are left; the cursor is where it was.
    pub fn advance(&mut self, bytes: usize) -> Result<(), OutOfBounds> {
        self.range(self.position, bytes)?;
        self.step(bytes);
        Ok(())
    }

    /// The bytes from here to the end of their link; none at the end of the rope only.
    ///
    /// # Errors
    /// They are in device memory.
    pub fn chunk(&self) -> Result<&'a [u8], NotHostAddressable> {
        match self.links.get(self.link) {
            Some(link) => Ok(link.host()?.get(self.within..).unwrap_or_default()),
            None => Ok(&[]),
        }
    }

    /// Copies the next bytes into `bytes`, all of it, from wherever they are, and moves behind them. (The method of
    /// `std::io::Read` that has this name reads what there is: to call that one, say `Read::read(&mut cursor, bytes)`.)
    ///
    /// # Errors
    /// Fewer are left, and `bytes` is untouched; or a device did not give what lies on it. The cursor is where it was.
    pub fn read(&mut self, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.range(self.position, bytes.len())?;
        let mut ahead = self.clone();
        let mut rest = bytes;
        while let Some(link) = self.links.get(ahead.link)
            && !rest.is_empty()
        {
            let len = rest.len().min(link.len() - ahead.within);
            let (now, later) = rest.split_at_mut(len);
            link.read(ahead.within, now)
                .map_err(|error| ReadError::Transfer {
                    read: ahead.position - self.position,
                    error,
                })?;
            ahead.step(len);
            rest = later;
        }
        *self = ahead;
        Ok(())
    }

    /// The next `N` bytes, for `from_be_bytes` and its kind.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn read_array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let mut bytes = [0; N];
        self.read(&mut bytes)?;
        Ok(bytes)
    }

    /// Bytes from here to the end of their link.
    #[cfg(feature = "std")]
    pub(super) fn left_in_link(&self) -> usize {
        let link = self.links.get(self.link);
        link.map_or(0, |link| link.len() - self.within)
    }

    /// Moves over `bytes`, of which so many are left.
    pub(super) fn step(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.remaining());
        self.position += bytes;
        let mut bytes = bytes;
        while let Some(link) = self.links.get(self.link) {
            // Not empty: a rope has no such links.
            let left = link.len() - self.within;
            if bytes < left {
                self.within += bytes;
                break;
            }
            bytes -= left;
            self.link += 1;
            self.within = 0;
        }
    }

    /// Whether the rope has `len` bytes at `start`.
    fn range(&self, start: usize, len: usize) -> Result<(), OutOfBounds> {
        match start.checked_add(len) {
            Some(end) if end <= self.len => Ok(()),
            end => Err(OutOfBounds {
                start,
                end: end.unwrap_or(usize::MAX),
                len: self.len,
            }),
        }
    }
}

impl<R: BackendRef> Clone for Cursor<'_, R> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<R: BackendRef> fmt::Debug for Cursor<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor")
            .field("position", &self.position)
            .field("len", &self.len)
            .field("link", &self.link)
            .field("links", &self.links.len())
            .finish()
    }
}
