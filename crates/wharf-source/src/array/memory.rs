//! Memory for some `T`s, which it does not look at.
//!
//! Invariant of [`Memory`]: `capacity * size_of::<T>()` is at most `isize::MAX`, or `T` has no bytes and
//! `capacity` is `usize::MAX`. Where the product has bytes, `ptr` came from `source` with the layout of that many `T`s, was
//! not released, and nobody else owns it. In every case `ptr` is aligned for `T`.
#![allow(unsafe_code, reason = "takes and releases a block")]

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::{BlockSource, SourceError};

/// Elements in the first block of an array that was not told how many to expect.
const FIRST: usize = 8;

pub(super) struct Memory<T, S: BlockSource> {
    ptr: NonNull<T>,
    capacity: usize,
    source: S,
}

// SAFETY: it is memory that nobody else touches, for `T`s that go along, and a handle. The law of
// `BlockSource` lets the block be released where the handle goes.
unsafe impl<T: Send, S: BlockSource + Send> Send for Memory<T, S> {}
// SAFETY: shared, it gives out an address, and the handle, shared; what is at the address is shared as `T`s are.
unsafe impl<T: Sync, S: BlockSource + Sync> Sync for Memory<T, S> {}

impl<T, S: BlockSource> Memory<T, S> {
    /// None yet: no source is asked.
    pub(super) const fn new(source: S) -> Self {
        Self {
            ptr: NonNull::dangling(),
            capacity: if size_of::<T>() == 0 { usize::MAX } else { 0 },
            source,
        }
    }

    /// What is asked for when there is nothing yet, and `additional` elements are to have room.
    pub(super) const fn first(additional: usize) -> Option<Layout> {
        let capacity = if additional > FIRST {
            additional
        } else {
            FIRST
        };
        match Layout::array::<T>(capacity) {
            Ok(layout) => Some(layout),
            Err(_) => None,
        }
    }

    pub(super) const fn ptr(&self) -> NonNull<T> {
        self.ptr
    }

    pub(super) const fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) const fn source(&self) -> &S {
        &self.source
    }

    /// Makes room for `additional` elements behind the first `len`, at least doubling where it must move.
    #[inline]
    pub(super) fn reserve(&mut self, len: usize, additional: usize) -> Result<(), SourceError> {
        if additional <= self.capacity.saturating_sub(len) {
            return Ok(());
        }
        self.grow(len, additional, self.capacity.saturating_mul(2).max(FIRST))
    }

    /// As [`reserve`](Self::reserve), and not more than that.
    pub(super) fn reserve_exact(
        &mut self,
        len: usize,
        additional: usize,
    ) -> Result<(), SourceError> {
        if additional <= self.capacity.saturating_sub(len) {
            return Ok(());
        }
        self.grow(len, additional, 0)
    }

    /// Moves the first `len` elements, bit by bit, into a block for `len + additional`, or for `wish`
    /// if that is more. On a refusal nothing has changed.
    #[cold]
    fn grow(&mut self, len: usize, additional: usize, wish: usize) -> Result<(), SourceError> {
        debug_assert!(len <= self.capacity, "those are the elements that it has");
        // Of elements without bytes there is no more room than `usize::MAX`, which the layout of an
        // array of them would not tell.
        let overflow = SourceError::Overflow {
            count: len.saturating_add(additional),
            size: size_of::<T>(),
        };
        let needed = len.checked_add(additional).ok_or(overflow)?;
        let capacity = needed.max(wish);
        let layout = Layout::array::<T>(capacity).map_err(|_| overflow)?;
        let Some(block) = self.source.try_alloc(layout) else {
            return Err(self.source.refusal(layout));
        };
        let block = block.cast::<T>();
        // SAFETY: the old memory holds at least `len` elements' bytes and the new one more; the law keeps
        // them apart. The bytes are moved: nobody uses the old ones again.
        unsafe { block.copy_from_nonoverlapping(self.ptr, len) };
        self.release();
        self.ptr = block;
        self.capacity = capacity;
        Ok(())
    }

    /// Gives the block back, if there is one. The caller forgets `ptr`.
    fn release(&self) {
        let size = self.capacity.wrapping_mul(size_of::<T>());
        if size == 0 {
            return;
        }
        // SAFETY: by the invariant this is the layout that the block was taken with, and it is valid;
        // the product has not wrapped. The block is live, and nobody uses it any more.
        unsafe {
            let layout = Layout::from_size_align_unchecked(size, align_of::<T>());
            self.source.release(self.ptr.cast(), layout);
        }
    }
}

impl<T, S: BlockSource> Drop for Memory<T, S> {
    #[inline]
    fn drop(&mut self) {
        self.release();
    }
}
