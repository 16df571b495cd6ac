//! The global allocator as a source.
//!
//! Invariant: only layouts with bytes reach the allocator, in both directions.
#![allow(unsafe_code, reason = "calls the global allocator")]

use alloc::alloc::{alloc, dealloc};
use core::alloc::Layout;
use core::ptr::NonNull;

use crate::{BlockSource, SourceError, empty_block};

/// The global allocator. A request that it cannot meet is refused like any other; nothing aborts.
///
/// It counts nothing: a value of this type has no place to count in, and the allocator has its own
/// reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct HeapSource;

// SAFETY: the global allocator's law is the same one, and its state is not in the handle.
unsafe impl BlockSource for HeapSource {
    #[inline]
    fn try_alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        if let Some(empty) = empty_block(layout) {
            return Some(empty);
        }
        // SAFETY: `layout` has bytes, or it would have been answered above.
        NonNull::new(unsafe { alloc(layout) })
    }
    #[inline]
    unsafe fn release(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() != 0 {
            // SAFETY: the caller got `block` above with this layout, and `layout` has bytes.
            unsafe { dealloc(block.as_ptr(), layout) }
        }
    }
    fn refusal(&self, layout: Layout) -> SourceError {
        SourceError::HeapExhausted {
            requested: layout.size(),
        }
    }
    fn name(&self) -> &'static str {
        "heap"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Block;

    #[test]
    fn a_request_too_large_for_the_allocator_is_an_error() {
        const HUGE: usize = isize::MAX as usize;
        let layout = Layout::from_size_align(HUGE, 1).unwrap();
        let refused = Block::new(HeapSource, layout);
        assert_eq!(
            refused.err(),
            Some(SourceError::HeapExhausted { requested: HUGE })
        );
    }

    #[test]
    fn blocks_are_aligned_and_apart() {
        let layout = Layout::from_size_align(40, 256).unwrap();
        let mut blocks = [(); 4].map(|()| Block::new(HeapSource, layout).unwrap());
        for (stamp, block) in (0..).zip(&mut blocks) {
            assert_eq!(block.as_ptr().addr().get() % 256, 0);
            for byte in block.as_uninit_mut() {
                byte.write(stamp);
            }
        }
        for (stamp, block) in (0u8..).zip(&mut blocks) {
            for byte in block.as_uninit_mut() {
                // SAFETY: written above.
                assert_eq!(unsafe { byte.assume_init() }, stamp);
            }
        }
    }

    #[test]
    fn no_bytes_do_not_reach_the_allocator() {
        let block = Block::new(HeapSource, Layout::from_size_align(0, 1 << 20).unwrap()).unwrap();
        assert_eq!(block.as_ptr().addr().get(), 1 << 20);
    }
}
