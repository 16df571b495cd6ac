//! The elements of an array, one by one, by value.
//!
//! Invariant of [`ArrayIntoIter`]: the places from `front` up to `back` of the memory hold a `T` each, and
//! `front <= back`, which is at most the capacity. The others hold nothing that anybody will look at.
#![allow(unsafe_code, reason = "moves elements out of memory")]

use core::fmt;
use core::iter::FusedIterator;
use core::ptr;
use core::slice;

use super::memory::Memory;
use crate::BlockSource;

/// Yields the elements of a [`BlockArray`](crate::BlockArray). What is not taken is dropped with it, and the block goes back.
pub struct ArrayIntoIter<T, S: BlockSource> {
    front: usize,
    back: usize,
    // Dropped after the elements, also when one of them panics.
    memory: Memory<T, S>,
}

impl<T, S: BlockSource> ArrayIntoIter<T, S> {
    /// # Safety
    /// The first `len` places hold a `T` each, which nobody else owns.
    pub(super) const unsafe fn new(memory: Memory<T, S>, len: usize) -> Self {
        Self {
            front: 0,
            back: len,
            memory,
        }
    }

    /// The elements that are left.
    #[must_use]
    pub const fn as_slice(&self) -> &[T] {
        // SAFETY: by the invariant they are there, in memory that nobody else touches.
        unsafe {
            slice::from_raw_parts(self.memory.ptr().as_ptr().add(self.front), self.len_left())
        }
    }

    const fn len_left(&self) -> usize {
        self.back - self.front
    }
}

impl<T, S: BlockSource> Iterator for ArrayIntoIter<T, S> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        if self.front == self.back {
            return None;
        }
        let at = self.front;
        self.front += 1;
        // SAFETY: it was among those left, so it is there, and is so no more.
        Some(unsafe { self.memory.ptr().add(at).read() })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len_left(), Some(self.len_left()))
    }
}

impl<T, S: BlockSource> DoubleEndedIterator for ArrayIntoIter<T, S> {
    #[inline]
    fn next_back(&mut self) -> Option<T> {
        if self.front == self.back {
            return None;
        }
        self.back -= 1;
        // SAFETY: it was among those left, so it is there, and is so no more.
        Some(unsafe { self.memory.ptr().add(self.back).read() })
    }
}

impl<T, S: BlockSource> ExactSizeIterator for ArrayIntoIter<T, S> {}
impl<T, S: BlockSource> FusedIterator for ArrayIntoIter<T, S> {}

impl<T, S: BlockSource> Drop for ArrayIntoIter<T, S> {
    fn drop(&mut self) {
        let (front, left) = (self.front, self.len_left());
        // SAFETY: those left are there, and nobody looks at them again. Should one unwind, the memory
        // is released all the same.
        unsafe {
            let first = self.memory.ptr().add(front);
            ptr::slice_from_raw_parts_mut(first.as_ptr(), left).drop_in_place();
        }
    }
}

impl<T: fmt::Debug, S: BlockSource> fmt::Debug for ArrayIntoIter<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ArrayIntoIter")
            .field(&self.as_slice())
            .finish()
    }
}
