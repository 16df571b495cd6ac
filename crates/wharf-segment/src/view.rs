//! Windows on a segment.
//!
//! Invariant of a [`View`]: `start + len` does not wrap, and is at most the length of the segment.
#![forbid(unsafe_code)]

use core::fmt;
use core::num::NonZeroUsize;
use core::ops::{Deref, RangeBounds};
use core::ptr::NonNull;

use wharf_backend::{
    BackendRef, DeviceAddress, NotHostAddressable, Place, ReadOnly, ReadableBackend, Returned,
    SegmentMut, TransferError,
};

use crate::bounds::{bounds, position};
use crate::{Chunks, JoinError, OutOfBounds, Pinned, Segment, ViewMut};

/// A window on a segment: a handle of its own, an offset and a length.
///
/// However small, it keeps the whole segment alive: [`pinned`](Self::pinned) says how much that is, and
/// [`compact_into`](Self::compact_into) moves the bytes that show into a segment of their own.
///
/// # Cutting
/// | | leaves | gives | counts |
/// |---|---|---|---|
/// | [`slice`](Self::slice) | all | a part | one up |
/// | [`split_to`](Self::split_to), [`split_off`](Self::split_off) | one side | the other | one up |
/// | [`advance`](Self::advance), [`truncate`](Self::truncate) | one side | | |
/// | [`join`](Self::join) | | two neighbours as one | one down |
///
/// All take constant time, whatever the depth.
///
/// ```
/// # use wharf_backend::{BackendExt, StaticPool};
/// # use wharf_segment::View;
/// # use wharf_sync::Unsync;
/// # let pool = StaticPool::<Unsync, 64, 4>::new();
/// let mut rest = View::from(pool.alloc(13)?.init_from(b"\x05hello\x06 world")?);
/// let mut words = Vec::new();
/// while let Some(&len) = rest.first() {
///     rest.advance(1)?;
///     words.push(rest.split_to(len.into())?);
/// }
/// assert_eq!(words, [b"hello".as_slice(), b" world"]);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// A shared view cannot be written:
///
/// ```compile_fail,E0594
/// # use wharf_backend::{BackendExt, StaticPool};
/// # use wharf_segment::View;
/// # use wharf_sync::Unsync;
/// # let pool = StaticPool::<Unsync, 64, 4>::new();
/// let mut view = View::from(pool.alloc(1).unwrap().init_from(b"a").unwrap());
/// view[0] = b'b'; // error: cannot assign; `try_mut` asks whether it is the only handle
/// ```
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

    /// The window that shows exactly `part`, if `part` is a piece of this view's own bytes: what a parser that works on
    /// `&[u8]` has found, as something to keep. `None` for any other bytes, equal ones included, and on device memory.
    ///
    /// ```
    /// # use wharf_backend::{BackendExt, StaticPool};
    /// # use wharf_segment::View;
    /// # use wharf_sync::Unsync;
    /// # let pool = StaticPool::<Unsync, 64, 4>::new();
    /// let line = View::from(pool.alloc(9)?.init_from(b"name=wire")?);
    /// let found = line.rsplit(|&byte| byte == b'=').next().unwrap();
    /// let value = line.slice_ref(found).unwrap();
    /// assert_eq!((value.offset(), &*value), (5, &b"wire"[..]));
    /// assert!(line.slice_ref(b"wire").is_none());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn slice_ref(&self, part: &[u8]) -> Option<Self> {
        let base = self.host().ok()?.as_ptr().addr();
        let start = part.as_ptr().addr().checked_sub(base)?;
        self.slice(start..start.checked_add(part.len())?).ok()
    }

    /// Takes the first `at` bytes away, as a view of their own. What is left starts behind them.
    ///
    /// # Errors
    /// There are fewer; nothing has changed.
    #[inline]
    pub fn split_to(&mut self, at: usize) -> Result<Self, OutOfBounds> {
        let head = self.slice(..at)?;
        self.start += at;
        self.len -= at;
        Ok(head)
    }

    /// Takes everything behind the first `at` bytes away, as a view of its own.
    ///
    /// # Errors
    /// There are fewer; nothing has changed.
    #[inline]
    pub fn split_off(&mut self, at: usize) -> Result<Self, OutOfBounds> {
        let tail = self.slice(at..)?;
        self.len = at;
        Ok(tail)
    }

    /// Leaves out the first `bytes`. Counts nothing.
    ///
    /// # Errors
    /// There are fewer; nothing has changed.
    #[inline]
    pub const fn advance(&mut self, bytes: usize) -> Result<(), OutOfBounds> {
        if let Err(error) = position(bytes, self.len) {
            return Err(error);
        }
        self.start += bytes;
        self.len -= bytes;
        Ok(())
    }

    /// Leaves out all but the first `len` bytes. Counts nothing.
    ///
    /// # Errors
    /// There are fewer; nothing has changed.
    #[inline]
    pub const fn truncate(&mut self, len: usize) -> Result<(), OutOfBounds> {
        if let Err(error) = position(len, self.len) {
            return Err(error);
        }
        self.len = len;
        Ok(())
    }

    /// Both windows as one, where `next` starts where this one ends.
    ///
    /// # Errors
    /// They are no neighbours, and come back.
    pub fn join(mut self, next: Self) -> Result<Self, Returned<(Self, Self), JoinError>> {
        match self.borders(&next) {
            Ok(()) => {
                self.absorb(next);
                Ok(self)
            }
            Err(error) => Err(Returned::new(error, (self, next))),
        }
    }

    /// Whether `next` starts where this one ends.
    #[inline]
    pub(crate) fn borders(&self, next: &Self) -> Result<(), JoinError> {
        // No wrap: the window lies in the segment.
        let end = self.start + self.len;
        if !self.segment.ptr_eq(&next.segment) {
            Err(JoinError::OtherSegment)
        } else if end != next.start {
            Err(JoinError::Apart {
                end,
                start: next.start,
            })
        } else {
            Ok(())
        }
    }

    /// Takes over a neighbour, which the caller has made sure `next` is.
    #[inline]
    pub(crate) fn absorb(&mut self, next: Self) {
        debug_assert!(self.borders(&next).is_ok());
        // No wrap: both together lie in the segment.
        self.len += next.len;
    }

    /// The window in pieces of `size` bytes, the last one shorter where it does not come out even.
    pub const fn chunks(&self, size: NonZeroUsize) -> Chunks<'_, R> {
        Chunks::new(self, size)
    }

    /// The bytes, or the news that they are device memory.
    ///
    /// # Errors
    /// The segment is in device memory.
    pub fn host(&self) -> Result<&[u8], NotHostAddressable> {
        Ok(window(self.segment.host()?, self.start, self.len))
    }

    /// Where its first byte is. A number or a raw pointer, good for reading: using it is `unsafe` and up to you.
    #[must_use]
    pub fn place(&self) -> Place {
        match self.segment.place() {
            // Wraps at most behind the last byte of the address space, when no byte is left.
            Place::Device(base) => Place::Device(DeviceAddress::new(
                base.get().wrapping_add(self.start as u64),
            )),
            // From a slice, not the backend's own pointer: nobody may write through this one.
            Place::Host(base) => Place::Host(
                self.host()
                    .map_or(base, |bytes| NonNull::from(bytes).cast()),
            ),
        }
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

    /// The bytes that it shows, and those that it keeps.
    #[must_use]
    pub fn pinned(&self) -> Pinned {
        Pinned::of([self])
    }

    /// The window to write in, if this is the only handle to the segment.
    ///
    /// # Errors
    /// Somebody else holds the segment too; the view comes back.
    #[inline]
    pub fn try_mut(self) -> Result<ViewMut<R>, Self> {
        let Self {
            segment,
            start,
            len,
        } = self;
        match segment.try_mut() {
            Ok(unique) => Ok(ViewMut::new(unique, start, len)),
            Err(segment) => Err(Self {
                segment,
                start,
                len,
            }),
        }
    }

    /// The whole segment again.
    pub fn into_segment(self) -> Segment<R> {
        self.segment
    }

    /// A window that the caller knows to lie in `segment`.
    pub(crate) fn new(segment: Segment<R>, start: usize, len: usize) -> Self {
        debug_assert!(len <= segment.len() && start <= segment.len() - len);
        Self {
            segment,
            start,
            len,
        }
    }
}

/// The window of a view in its segment's bytes; never out of bounds, so the fallback is never taken.
#[inline]
pub(crate) fn window(bytes: &[u8], start: usize, len: usize) -> &[u8] {
    bytes
        .get(start..)
        .and_then(|tail| tail.get(..len))
        .unwrap_or_default()
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

impl<'a, R: BackendRef> IntoIterator for &'a View<R>
where
    R::Backend: ReadableBackend,
{
    type Item = &'a u8;
    type IntoIter = core::slice::Iter<'a, u8>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
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
