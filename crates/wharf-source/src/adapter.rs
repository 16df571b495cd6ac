//! Sources as allocators of the `allocator-api2` ecosystem.
#![allow(
    unsafe_code,
    reason = "implements an unsafe trait, and hands its promises on"
)]

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use crate::{BlockSource, empty_block};

/// A source in the shape of an `allocator_api2::alloc::Allocator`, so that containers that are generic over
/// one live in it: `allocator_api2`'s `Vec` and `Box`, and those of `hashbrown`.
///
/// ```
/// use allocator_api2::vec::Vec;
/// use wharf_source::{AsAllocator, StaticPoolSource};
/// use wharf_sync::Unsync;
///
/// let pool = StaticPoolSource::<Unsync, 256, 4>::new();
/// let mut numbers = Vec::new_in(AsAllocator::new(&pool));
/// numbers.try_reserve(16)?;
/// numbers.extend([1, 2, 3]);
/// // Refused by value; the source knows why.
/// assert!(numbers.try_reserve(1000).is_err());
/// assert_eq!(pool.census().refused, 1);
/// assert_eq!(numbers, [1, 2, 3]);
/// # Ok::<(), allocator_api2::collections::TryReserveError>(())
/// ```
///
/// # Only ask what may fail
/// These containers also have methods that cannot say no: `push`, `insert`, `shrink_to_fit`, `into_boxed_slice`, `clone`. Met
/// with a refusal, those abort the program or panic. Reserve first (`try_reserve`), make boxes with `try_new_in`, and stay
/// within what was reserved. [`BlockArray`](crate::BlockArray) and [`Owned`](crate::Owned) have no such methods.
///
/// Shrinking, too, takes a new block before it gives the old one back, and can be refused: a block must go back with the
/// layout that it was taken with.
///
/// # Not the other way round
/// There is no adapter that makes an allocator a source, and there will be none. A source promises that
/// exhaustion is a value; an allocator of that trait may abort instead, and its containers' habit is to do so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AsAllocator<S>(S);

impl<S: BlockSource> AsAllocator<S> {
    /// `source` as an allocator.
    #[must_use]
    pub const fn new(source: S) -> Self {
        Self(source)
    }

    /// The source.
    #[must_use]
    pub const fn source(&self) -> &S {
        &self.0
    }

    /// The source, back again.
    #[must_use]
    pub fn into_source(self) -> S {
        self.0
    }

    /// Moves a block into one of another layout.
    ///
    /// # Safety
    /// `ptr` is a live block that was taken with `old`, and nobody else uses it.
    unsafe fn relocate(
        &self,
        ptr: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if old == new {
            return Ok(NonNull::slice_from_raw_parts(ptr, old.size()));
        }
        let block = self.allocate(new)?;
        // SAFETY: both are valid for the lesser of their sizes, and live, so the law keeps them
        // apart. `ptr` goes back as it was taken; nobody uses it again.
        unsafe {
            block
                .cast()
                .copy_from_nonoverlapping(ptr, old.size().min(new.size()));
            self.0.release(ptr, old);
        }
        Ok(block)
    }
}

// SAFETY: the law of `BlockSource` says that a block stays valid until it is released or its source
// ends, wherever the handle goes, and that a clone of a handle names the same source, which does not
// end before its last handle does. Every block has exactly the size of its layout, so the only layout
// that fits it is the one that it was taken with, as `release` demands.
unsafe impl<S: BlockSource> Allocator for AsAllocator<S> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = empty_block(layout).or_else(|| self.0.try_alloc(layout));
        let block = block.ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    #[inline]
    unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
        if layout.size() != 0 {
            // SAFETY: the caller's promise: it was taken with this very layout.
            unsafe { self.0.release(ptr, layout) }
        }
    }

    unsafe fn grow(
        &self,
        ptr: NonNull<u8>,
        old_layout: Layout,
        new_layout: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise.
        unsafe { self.relocate(ptr, old_layout, new_layout) }
    }

    unsafe fn shrink(
        &self,
        ptr: NonNull<u8>,
        old_layout: Layout,
        new_layout: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's promise.
        unsafe { self.relocate(ptr, old_layout, new_layout) }
    }
}
