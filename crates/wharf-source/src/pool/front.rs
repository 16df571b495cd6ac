//! What both pools are outside of their sections. Each has one method of its own, `section`, which enters its lock and hands out
//! the numbers, the class table and the slab; the rest is here.

/// Inside an inherent `impl`: the counts of a pool.
macro_rules! counts {
    () => {
        /// What the pool counts, in bytes. `in_use` and `peak` are both the carve mark: what was carved once stays with its
        /// shape.
        #[must_use]
        pub fn census(&self) -> $crate::Census {
            self.section(|pool, _, slab| pool.census(slab))
        }

        /// Bytes that were carved, including those skipped to align a block.
        #[must_use]
        pub fn used(&self) -> usize {
            self.section(|pool, _, _| pool.used())
        }

        /// Shapes that have claimed a class.
        #[must_use]
        pub fn classes_used(&self) -> usize {
            self.section(|pool, _, _| pool.classes_used())
        }

        /// Releases that found the class table full: as many blocks are out of use for good.
        #[must_use]
        pub fn overflowed(&self) -> usize {
            self.section(|pool, _, _| pool.overflowed())
        }

        /// Releases that were refused, because no block of this pool can be there.
        #[must_use]
        pub fn foreign(&self) -> usize {
            self.section(|pool, _, _| pool.foreign())
        }
    };
}

/// Inside an `unsafe impl BlockSource`: all of it, for a pool that is called `$name` in reports.
macro_rules! vends {
    ($name:literal) => {
        #[inline]
        fn try_alloc(&self, layout: ::core::alloc::Layout) -> Option<::core::ptr::NonNull<u8>> {
            if let Some(empty) = $crate::empty_block(layout) {
                return Some(empty);
            }
            self.section(|pool, table, slab| pool.take(table, slab, layout))
        }
        #[inline]
        unsafe fn release(&self, block: ::core::ptr::NonNull<u8>, layout: ::core::alloc::Layout) {
            if layout.size() != 0 {
                // SAFETY: the caller's promise.
                self.section(|pool, table, slab| unsafe { pool.give(table, slab, block, layout) });
            }
        }
        fn refusal(&self, layout: ::core::alloc::Layout) -> $crate::SourceError {
            self.section(|pool, _, slab| pool.refusal(slab, layout))
        }
        fn census(&self) -> $crate::Census {
            self.section(|pool, _, slab| pool.census(slab))
        }
        fn name(&self) -> &'static str {
            $name
        }
    };
}

pub(super) use {counts, vends};
