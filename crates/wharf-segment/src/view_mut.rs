//! A window that may be written.
//!
//! Invariant of a [`ViewMut`]: `start + len` does not wrap, and is at most the length of the segment.
#![forbid(unsafe_code)]

use core::fmt;
use core::ops::{Deref, DerefMut};

use wharf_backend::{BackendRef, HostBackend, NotHostAddressable, SegmentMut, TransferError};

use crate::view::window;
use crate::{Segment, View};

/// A window on a segment that nobody else holds: [`View::try_mut`], the other way round of freezing.
///
/// ```
/// # use wharf_backend::{BackendExt, StaticPool};
/// # use wharf_segment::View;
/// # use wharf_sync::Unsync;
/// # let pool = StaticPool::<Unsync, 64, 4>::new();
/// let frame = View::from(pool.alloc(7)?.init_from(b"headXYZ")?);
/// let tail = frame.slice(4..)?;
/// let tail = tail.try_mut().unwrap_err(); // the frame holds it too
/// drop(frame);
/// let mut tail = tail.try_mut().expect("now it is the only one");
/// tail.make_ascii_lowercase();
/// assert_eq!(&*tail.freeze().into_segment(), b"headxyz");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[must_use = "dropping a view gives its memory back"]
pub struct ViewMut<R: BackendRef> {
    segment: SegmentMut<R>,
    start: usize,
    len: usize,
}

impl<R: BackendRef> ViewMut<R> {
    /// A window that the caller knows to lie in `segment`.
    pub(crate) fn new(segment: SegmentMut<R>, start: usize, len: usize) -> Self {
        debug_assert!(len <= segment.len() && start <= segment.len() - len);
        Self {
            segment,
            start,
            len,
        }
    }

    /// Bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it starts in the segment.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.start
    }

    /// The bytes, or the news that they are device memory.
    ///
    /// # Errors
    /// The segment is in device memory.
    pub fn host(&self) -> Result<&[u8], NotHostAddressable> {
        Ok(window(self.segment.host()?, self.start, self.len))
    }

    /// The bytes, writable, or the news that they are device memory.
    ///
    /// # Errors
    /// The segment is in device memory.
    pub fn host_mut(&mut self) -> Result<&mut [u8], NotHostAddressable> {
        Ok(window_mut(self.segment.host_mut()?, self.start, self.len))
    }

    /// Copies `bytes` to `offset`, wherever that is.
    ///
    /// # Errors
    /// The range leaves the window, or the device is closed; nothing moved.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), TransferError> {
        let at = self.place_of(offset, bytes.len())?;
        self.segment.write(at, bytes)
    }

    /// Copies bytes at `offset` into `bytes`.
    ///
    /// # Errors
    /// The range leaves the window, or the device is closed; nothing moved.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), TransferError> {
        let at = self.place_of(offset, bytes.len())?;
        self.segment.read(at, bytes)
    }

    /// Sets `len` bytes at `offset`.
    ///
    /// # Errors
    /// The range leaves the window, or the device is closed; nothing moved.
    pub fn fill(&mut self, offset: usize, len: usize, byte: u8) -> Result<(), TransferError> {
        let at = self.place_of(offset, len)?;
        self.segment.fill(at, len, byte)
    }

    /// The view again, to be shared. Costs nothing.
    pub fn freeze(self) -> View<R> {
        View::new(Segment::from(self.segment), self.start, self.len)
    }

    /// The whole segment.
    pub fn into_segment(self) -> SegmentMut<R> {
        self.segment
    }

    /// Where a range of the window starts in the segment.
    fn place_of(&self, offset: usize, len: usize) -> Result<usize, TransferError> {
        match offset.checked_add(len) {
            // No wrap: the window lies in the segment.
            Some(end) if end <= self.len => Ok(self.start + offset),
            _ => Err(TransferError::OutOfBounds {
                offset,
                len,
                size: self.len,
            }),
        }
    }
}

/// As [`window`].
#[inline]
fn window_mut(bytes: &mut [u8], start: usize, len: usize) -> &mut [u8] {
    bytes
        .get_mut(start..)
        .and_then(|tail| tail.get_mut(..len))
        .unwrap_or_default()
}

impl<R: BackendRef> From<ViewMut<R>> for View<R> {
    /// Freezes.
    fn from(unique: ViewMut<R>) -> Self {
        unique.freeze()
    }
}

impl<R: BackendRef> Deref for ViewMut<R>
where
    R::Backend: HostBackend,
{
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        window(&self.segment, self.start, self.len)
    }
}

impl<R: BackendRef> DerefMut for ViewMut<R>
where
    R::Backend: HostBackend,
{
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        window_mut(&mut self.segment, self.start, self.len)
    }
}

impl<R: BackendRef> AsRef<[u8]> for ViewMut<R>
where
    R::Backend: HostBackend,
{
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<R: BackendRef> AsMut<[u8]> for ViewMut<R>
where
    R::Backend: HostBackend,
{
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl<R: BackendRef> fmt::Debug for ViewMut<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ViewMut")
            .field("segment", &self.segment)
            .field("start", &self.start)
            .field("len", &self.len)
            .finish()
    }
}
