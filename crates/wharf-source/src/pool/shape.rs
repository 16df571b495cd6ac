//! The shape of a block: what a layout becomes inside a pool.

use core::alloc::Layout;

/// A size and an alignment such that a free block can hold a link, and that equal shapes are exact:
/// a block of one serves every request of the same one, and of no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// At least a link, and a multiple of `align`.
    pub(super) size: usize,
    /// A power of two, at least that of a link.
    pub(super) align: usize,
}

impl Shape {
    #[inline]
    pub(super) const fn of(layout: Layout) -> Self {
        const LINK: Layout = Layout::new::<usize>();
        let align = if layout.align() < LINK.align() {
            LINK.align()
        } else {
            layout.align()
        };
        let size = if layout.size() < LINK.size() {
            LINK.size()
        } else {
            layout.size()
        };
        // No wrap: a `Layout` rounded up to its own alignment is at most `isize::MAX`, and rounding
        // to a link's instead, or from a link's size, adds less than that again.
        let size = (size + (align - 1)) & !(align - 1);
        Self { size, align }
    }

    /// Both numbers in one word, never zero. The size is a multiple of the alignment, so the lowest bit set is
    /// half the alignment and what lies above is the size.
    #[inline]
    pub(super) const fn key(self) -> usize {
        self.size | (self.align >> 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORD: usize = size_of::<usize>();

    fn shape(size: usize, align: usize) -> (usize, usize) {
        let Shape { size, align } = Shape::of(Layout::from_size_align(size, align).unwrap());
        (size, align)
    }

    #[test]
    fn small_layouts_grow_to_a_link() {
        assert_eq!(shape(1, 1), (WORD, WORD));
        assert_eq!(shape(WORD, 1), (WORD, WORD));
        assert_eq!(shape(WORD + 1, 1), (2 * WORD, WORD));
        assert_eq!(shape(1, 64), (64, 64));
        assert_eq!(shape(65, 64), (128, 64));
        assert_eq!(shape(100, 4), (104, WORD));
    }

    #[test]
    fn the_largest_layouts_do_not_wrap() {
        const MAX: usize = isize::MAX as usize;
        assert_eq!(shape(MAX, 1), (MAX + 1, WORD));
        assert_eq!(shape(0, MAX + 1), (MAX + 1, MAX + 1));
        assert_eq!(shape(MAX / 2 + 1, MAX / 2 + 1), (MAX / 2 + 1, MAX / 2 + 1));
    }

    #[test]
    fn keys_tell_shapes_apart() {
        let mut seen = std::collections::BTreeSet::new();
        for align in [8, 16, 32, 64, 128, 4096] {
            for count in 1..50 {
                let size = count * align;
                assert!(seen.insert(Shape { size, align }.key()), "{size} {align}");
            }
        }
        assert!(!seen.contains(&0));
    }
}
