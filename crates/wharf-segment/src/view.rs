//! Windows on a segment.

use core::fmt;
use core::ops::{Bound, Deref, RangeBounds};

use wharf_backend::{
    BackendRef, NotHostAddressable, ReadOnly, ReadableBackend, SegmentMut, TransferError,
};

use crate::Segment;

/// A range that leaves what it was taken of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct OutOfBounds {
    /// Where the range starts.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// How long the view is.
    pub len: usize,
}

impl fmt::Display for OutOfBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}..{} leaves a view of {} bytes",
            self.start, self.end, self.len
        )
    }
}

impl core::error::Error for OutOfBounds {}

/// A window on a segment: a handle of its own, an offset and a length.
///
/// However small, it keeps the whole segment alive.
#[must_use = "dropping a view may give its memory back"]
pub struct View<R: BackendRef> {
    segment: Segment<R>,
    start: usize,
    len: usize,
}

impl<R: BackendRef> View<R> {
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

    /// What it is a window on.
    pub const fn segment(&self) -> &Segment<R> {
        &self.segment
    }

    /// Where it starts in the segment.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.start
    }

    /// A window on this window. Constant time, whatever the depth; an empty one is fine.
    ///
    /// # Errors
    /// The range leaves the window, or ends before it starts.
    #[inline]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Self, OutOfBounds> {
        let (start, end) = bounds(range, self.len)?;
        Ok(Self {
            segment: self.segment.clone(),
            // No wrap: `start <= len`, and the window lies in the segment.
            start: self.start + start,
            len: end - start,
        })
    }

    /// The bytes, or the news that they are device memory.
    ///
    /// # Errors
    /// The segment is in device memory.
    pub fn host(&self) -> Result<&[u8], NotHostAddressable> {
        Ok(window(self.segment.host()?, self.start, self.len))
    }

    /// Copies bytes at `offset` into `bytes`, from wherever they are.
    ///
    /// # Errors
    /// The range leaves the window, or the device is closed; `bytes` is untouched.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), TransferError> {
        match offset.checked_add(bytes.len()) {
            // No wrap: the window lies in the segment.
            Some(end) if end <= self.len => self.segment.read(self.start + offset, bytes),
            _ => Err(TransferError::OutOfBounds {
                offset,
                len: bytes.len(),
                size: self.len,
            }),
        }
    }

    /// The whole segment again.
    pub fn into_segment(self) -> Segment<R> {
        self.segment
    }
}

/// The window of a view in its segment's bytes; never out of bounds, so the fallback is never taken.
#[inline]
fn window(bytes: &[u8], start: usize, len: usize) -> &[u8] {
    bytes
        .get(start..)
        .and_then(|tail| tail.get(..len))
        .unwrap_or_default()
}

/// First and one-past-last of a range in `len` bytes.
#[inline]
fn bounds(range: impl RangeBounds<usize>, len: usize) -> Result<(usize, usize), OutOfBounds> {
    let start = match range.start_bound() {
        Bound::Included(&start) => Some(start),
        Bound::Excluded(&before) => before.checked_add(1),
        Bound::Unbounded => Some(0),
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => last.checked_add(1),
        Bound::Excluded(&end) => Some(end),
        Bound::Unbounded => Some(len),
    };
    match (start, end) {
        (Some(start), Some(end)) if start <= end && end <= len => Ok((start, end)),
        _ => Err(OutOfBounds {
            start: start.unwrap_or(usize::MAX),
            end: end.unwrap_or(usize::MAX),
            len,
        }),
    }
}

impl<R: BackendRef> From<Segment<R>> for View<R> {
    fn from(segment: Segment<R>) -> Self {
        let len = segment.len();
        Self {
            segment,
            start: 0,
            len,
        }
    }
}

impl<R: BackendRef> From<SegmentMut<R>> for View<R> {
    /// Freezes.
    fn from(unique: SegmentMut<R>) -> Self {
        Segment::from(unique).into()
    }
}

impl<R: BackendRef> From<SegmentMut<R, ReadOnly>> for View<R> {
    /// Shares what nobody may write.
    fn from(lent: SegmentMut<R, ReadOnly>) -> Self {
        Segment::from(lent).into()
    }
}

impl<R: BackendRef> Clone for View<R> {
    fn clone(&self) -> Self {
        Self {
            segment: self.segment.clone(),
            start: self.start,
            len: self.len,
        }
    }
}

impl<R: BackendRef> Deref for View<R>
where
    R::Backend: ReadableBackend,
{
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        window(&self.segment, self.start, self.len)
    }
}

impl<R: BackendRef> AsRef<[u8]> for View<R>
where
    R::Backend: ReadableBackend,
{
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<R: BackendRef> fmt::Debug for View<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("segment", &self.segment)
            .field("start", &self.start)
            .field("len", &self.len)
            .finish()
    }
}
