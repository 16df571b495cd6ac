//! The array: which elements of its memory are there.
//!
//! Invariant of [`BlockArray`]: `len` is at most the memory's capacity, and the first `len` places hold
//! a `T` each. A place is filled *before* it is counted, and no longer counted *before* its `T` is moved out or dropped, so
//! what unwinds in between leaks at most.
#![allow(unsafe_code, reason = "moves elements into and out of memory")]

use core::alloc::Layout;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::ptr;
use core::slice;

use super::claim::ArraySlot;
use super::into_iter::ArrayIntoIter;
use super::memory::Memory;
use crate::{BlockSource, SourceError};

/// A growable array whose elements lie in a block of a source: a `Vec` that can be refused.
///
/// It is bound to its source when it is made, takes its first block for the first element, of 8, and
/// doubles from there. When growth is refused nothing has changed, and the element comes back:
///
/// ```
/// use core::mem::MaybeUninit;
/// use wharf_source::{BlockArray, PoolSource, SizeClass, SourceError};
/// use wharf_sync::Unsync;
///
/// let mut slab = [MaybeUninit::uninit(); 64];
/// let mut classes = [SizeClass::EMPTY; 4];
/// let pool = PoolSource::<Unsync>::new(&mut slab, &mut classes);
///
/// let mut readings = BlockArray::new(&pool);
/// for reading in 0..8u16 {
///     readings.push(reading).map_err(|(error, _)| error)?;
/// }
/// // The next block, of 32 bytes, is met; the one after it, of 64, is not.
/// assert_eq!(readings.try_extend(8..), Err((SourceError::Exhausted { requested: 64, available: 16 }, 16)));
/// assert_eq!(readings.len(), 16);
/// assert_eq!(readings.pop(), Some(15));
/// assert_eq!(readings.iter().filter(|&&reading| reading < 3).count(), 3);
/// # Ok::<(), SourceError>(())
/// ```
///
/// # Reading and writing
/// It dereferences to a slice, with all that a slice can do: `get`, `iter`, `sort`, ranges. Indexing with `array[at]`
/// panics where `at` is out of bounds, as it does for slices; `get` answers `None`. Nothing else here panics, except what a
/// `Clone` or `Drop` of yours does. If that unwinds out of an array, elements leak at most.
///
/// # What growth costs
/// Growing needs the old and the new block at once, and moves the elements. A [`PoolSource`](crate::PoolSource) keeps the
/// old one for the next array of that size, and a [`BumpSource`](crate::BumpSource) until it is reset. Where the number of elements is
/// known, [`with_capacity`](Self::with_capacity) takes exactly one block. Elements without bytes take none, ever.
pub struct BlockArray<T, S: BlockSource> {
    len: usize,
    // Dropped after the elements, also when one of them panics.
    memory: Memory<T, S>,
}

/// Why [`BlockArray::insert`] did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum InsertError {
    /// The source refused to let the array grow.
    Refused(SourceError),
    /// There is no such place: it is behind the end.
    OutOfBounds {
        /// Where the element was to go.
        index: usize,
        /// The elements that there are.
        len: usize,
    },
}

impl fmt::Display for InsertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::OutOfBounds { index, len } => {
                write!(f, "cannot insert at {index} among {len} elements")
            }
        }
    }
}

impl core::error::Error for InsertError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Refused(error) => Some(error),
            Self::OutOfBounds { .. } => None,
        }
    }
}

impl<T, S: BlockSource> BlockArray<T, S> {
    /// An empty array, which takes nothing from `source` yet.
    #[inline]
    #[must_use]
    pub const fn new(source: S) -> Self {
        Self {
            len: 0,
            memory: Memory::new(source),
        }
    }

    /// An empty array with room for exactly `capacity` elements.
    ///
    /// # Errors
    /// The source's own account of why it refused; [`SourceError::Overflow`] where no block could be so large.
    #[inline]
    pub fn with_capacity(source: S, capacity: usize) -> Result<Self, SourceError> {
        let mut array = Self::new(source);
        array.try_reserve_exact(capacity)?;
        Ok(array)
    }

    /// The block that an empty array asks for when it is told by [`try_reserve`](Self::try_reserve) to make room for `elements`: to
    /// size a pool for it. Nobody told it anything: it asks for that of 8, then for one of 16 while it still has the first,
    /// and so on. (`with_capacity` asks for exactly what it is told.)
    ///
    /// `None` where no block could be so large.
    #[must_use]
    pub const fn first_block(elements: usize) -> Option<Layout> {
        Memory::<T, S>::first(elements)
    }

    /// Elements for which there is room without growing; `usize::MAX` where they have no bytes.
    #[inline]
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.memory.capacity()
    }

    /// The source that the elements' block comes from.
    #[inline]
    #[must_use]
    pub const fn source(&self) -> &S {
        self.memory.source()
    }

    /// The elements.
    #[inline]
    #[must_use]
    pub const fn as_slice(&self) -> &[T] {
        // SAFETY: by the invariant they are there, in memory that nobody else touches, and what
        // lends them is borrowed.
        unsafe { slice::from_raw_parts(self.memory.ptr().as_ptr(), self.len) }
    }

    /// The elements, to be changed.
    #[inline]
    #[must_use]
    pub const fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as for `as_slice`; `&mut self` excludes other references.
        unsafe { slice::from_raw_parts_mut(self.memory.ptr().as_ptr(), self.len) }
    }

    /// Makes room for `additional` more elements, at least doubling the array where it must move.
    ///
    /// # Errors
    /// The source's own account of why it refused; [`SourceError::Overflow`] where no block could be so large. The
    /// array is as it was.
    #[inline]
    pub fn try_reserve(&mut self, additional: usize) -> Result<(), SourceError> {
        self.memory.reserve(self.len, additional)
    }

    /// Makes room for `additional` more elements, and for no others.
    ///
    /// # Errors
    /// As for [`try_reserve`](Self::try_reserve).
    #[inline]
    pub fn try_reserve_exact(&mut self, additional: usize) -> Result<(), SourceError> {
        self.memory.reserve_exact(self.len, additional)
    }

    /// Appends `value`.
    ///
    /// # Errors
    /// As for [`try_reserve`](Self::try_reserve), with the value.
    #[inline]
    pub fn push(&mut self, value: T) -> Result<(), (SourceError, T)> {
        match self.push_slot() {
            Ok(slot) => {
                slot.write(value);
                Ok(())
            }
            Err(error) => Err((error, value)),
        }
    }

    /// Claims the place behind the last element, to be filled there. It counts once it was filled; a slot that is
    /// dropped or forgotten leaves the array as it was.
    ///
    /// # Errors
    /// As for [`try_reserve`](Self::try_reserve).
    #[inline]
    pub fn push_slot(&mut self) -> Result<ArraySlot<'_, T>, SourceError> {
        self.memory.reserve(self.len, 1)?;
        // SAFETY: there is room for one more, so the place is inside the memory; it holds no counted
        // element; and the slot keeps the array borrowed.
        Ok(unsafe { ArraySlot::new(self.memory.ptr().add(self.len).cast(), &mut self.len) })
    }

    /// Takes the last element away.
    #[inline]
    pub const fn pop(&mut self) -> Option<T> {
        let Some(last) = self.len.checked_sub(1) else {
            return None;
        };
        self.len = last;
        // SAFETY: it was counted, so it is there, and is counted no more.
        Some(unsafe { self.memory.ptr().add(last).read() })
    }

    /// Appends what `items` yields, until a refusal. Of an iterator that knows how many are left, all are refused or
    /// none: room is made for them together.
    ///
    /// # Errors
    /// As for [`try_reserve`](Self::try_reserve), with the item that found no room. The items before it were appended; those
    /// behind it are still to be had from the iterator, if it was lent.
    pub fn try_extend(
        &mut self,
        items: impl IntoIterator<Item = T>,
    ) -> Result<(), (SourceError, T)> {
        let mut items = items.into_iter();
        while let Some(item) = items.next() {
            if let (left, Some(most)) = items.size_hint()
                && left == most
                && let Err(error) = self.try_reserve(left.saturating_add(1))
            {
                return Err((error, item));
            }
            self.push(item)?;
        }
        Ok(())
    }

    /// Appends clones of all `items`, or none of them.
    ///
    /// # Errors
    /// As for [`try_reserve`](Self::try_reserve).
    pub fn extend_from_slice(&mut self, items: &[T]) -> Result<(), SourceError>
    where
        T: Clone,
    {
        self.try_reserve(items.len())?;
        for item in items {
            self.push_slot()?.write(item.clone());
        }
        Ok(())
    }

    /// Inserts `value` before the element at `index`, or behind the last one.
    ///
    /// # Errors
    /// As for [`try_reserve`](Self::try_reserve), or that `index` is greater than the number of elements; with the value.
    pub fn insert(&mut self, index: usize, value: T) -> Result<(), (InsertError, T)> {
        let len = self.len;
        if index > len {
            return Err((InsertError::OutOfBounds { index, len }, value));
        }
        if let Err((error, value)) = self.push(value) {
            return Err((InsertError::Refused(error), value));
        }
        if let Some(behind) = self.get_mut(index..) {
            behind.rotate_right(1);
        }
        Ok(())
    }

    /// Takes the element at `index` away, and closes the gap.
    pub fn remove(&mut self, index: usize) -> Option<T> {
        self.get_mut(index..)
            .filter(|behind| !behind.is_empty())?
            .rotate_left(1);
        self.pop()
    }

    /// Takes the element at `index` away, and moves the last one there.
    pub fn swap_remove(&mut self, index: usize) -> Option<T> {
        let last = self.len.checked_sub(1)?;
        if index > last {
            return None;
        }
        self.swap(index, last);
        self.pop()
    }

    /// Drops all elements but the first `len`, last ones included; the room stays.
    pub fn truncate(&mut self, len: usize) {
        let Some(excess) = self.len.checked_sub(len) else {
            return;
        };
        self.len = len;
        // SAFETY: these elements were counted, so they are there, and are counted no more.
        unsafe {
            let first = self.memory.ptr().add(len);
            ptr::slice_from_raw_parts_mut(first.as_ptr(), excess).drop_in_place();
        }
    }

    /// Drops all elements; the room stays.
    #[inline]
    pub fn clear(&mut self) {
        self.truncate(0);
    }
}

impl<T, S: BlockSource> Drop for BlockArray<T, S> {
    #[inline]
    fn drop(&mut self) {
        // Should an element unwind, the memory is released all the same.
        self.clear();
    }
}

impl<T, S: BlockSource> IntoIterator for BlockArray<T, S> {
    type Item = T;
    type IntoIter = ArrayIntoIter<T, S>;

    #[inline]
    fn into_iter(self) -> ArrayIntoIter<T, S> {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used or dropped after its memory was moved out; its first `len` places
        // hold elements, which go along.
        unsafe { ArrayIntoIter::new(ptr::read(&this.memory), this.len) }
    }
}

impl<T, S: BlockSource> Deref for BlockArray<T, S> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        self.as_slice()
    }
}

impl<T, S: BlockSource> DerefMut for BlockArray<T, S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        self.as_mut_slice()
    }
}
