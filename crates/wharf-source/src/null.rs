//! The source that has nothing.
#![allow(
    unsafe_code,
    reason = "implements the unsafe trait; contains no unsafe operation"
)]

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::{BlockSource, SourceError, empty_block};

/// Refuses everything and counts nothing: refusing is what it is for, and who turned to it counts.
///
/// It stands where a source is demanded and none is wanted, such as upstream of a buffer that is a
/// hard limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NullSource;

// SAFETY: it vends no block that has bytes.
unsafe impl BlockSource for NullSource {
    #[inline]
    fn try_alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        empty_block(layout)
    }
    #[inline]
    unsafe fn release(&self, _: NonNull<u8>, _: Layout) {}
    fn refusal(&self, layout: Layout) -> SourceError {
        SourceError::Null {
            requested: layout.size(),
        }
    }
    fn name(&self) -> &'static str {
        "null"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Block, Census};

    #[test]
    fn it_refuses_all_but_nothing() {
        let refused = Block::new(NullSource, Layout::new::<u8>());
        assert_eq!(refused.err(), Some(SourceError::Null { requested: 1 }));
        let empty = Block::new(NullSource, Layout::new::<[u64; 0]>()).unwrap();
        assert_eq!(empty.as_ptr().addr().get(), align_of::<u64>());
        assert_eq!(NullSource.census(), Census::NOTHING);
    }
}
