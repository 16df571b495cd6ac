//! The algorithm of every pool, over a slab and a table that the caller holds.
//!
//! Invariants, with "block" for a range of the slab that was carved in one piece:
//!
//! 1. Everything that was handed out lies below `carved`, which never falls and never passes the
//!    slab's length. Blocks do not overlap.
//! 2. The list of a class holds offsets of blocks of its shape. None of them is live, each holds the link to the
//!    next, and none is in two lists or twice in one.
//! 3. A block leaves its list before it is handed out and enters one only when it is released. Release
//!    is `unsafe`: the caller promises that the block is live and of that shape.
//!
//! Links are offsets plus one, not pointers, because a pool that holds its own slab may move while no
//! block is live. All zero is the state of a fresh pool.
#![allow(unsafe_code, reason = "follows and writes the links in free blocks")]

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::NonNull;

use wharf_sync::ConstInit;

use super::classes::{self, SizeClass};
use super::shape::Shape;
use crate::slab::Slab;
use crate::{Census, SourceError};

/// The numbers of a pool.
#[derive(Debug)]
pub(super) struct PoolState {
    carved: Cell<usize>,
    classes_used: Cell<usize>,
    overflowed: Cell<usize>,
    foreign: Cell<usize>,
    refused: Cell<usize>,
    largest_refused: Cell<usize>,
}

impl ConstInit for PoolState {
    const INIT: Self = Self {
        carved: Cell::new(0),
        classes_used: Cell::new(0),
        overflowed: Cell::new(0),
        foreign: Cell::new(0),
        refused: Cell::new(0),
        largest_refused: Cell::new(0),
    };
}

#[inline]
fn count(counter: &Cell<usize>) {
    counter.set(counter.get().saturating_add(1));
}

impl PoolState {
    /// A block for `layout`, which has bytes: the last one of its shape that came back, or a fresh one.
    #[inline]
    pub(super) fn take(
        &self,
        table: &[SizeClass],
        slab: &Slab<'_>,
        layout: Layout,
    ) -> Option<NonNull<u8>> {
        let shape = Shape::of(layout);
        if let Some(class) = classes::find(table, shape)
            && let Some(offset) = class.head().checked_sub(1)
            // It was when it was carved. But a slab may have moved with its pool, to an address that
            // is less aligned.
            && slab.is_aligned(offset, shape.align)
        {
            // SAFETY: invariant 2: a free block, with its link; and it leaves the list here.
            unsafe {
                class.set_head(slab.link(offset));
                return Some(slab.at(offset));
            }
        }
        self.carve(slab, layout, shape)
    }

    #[inline]
    fn carve(&self, slab: &Slab<'_>, layout: Layout, shape: Shape) -> Option<NonNull<u8>> {
        let Some((start, end)) = slab.place(self.carved.get(), shape.size, shape.align) else {
            self.refuse(layout);
            return None;
        };
        self.carved.set(end);
        // SAFETY: `place` answers with offsets inside the slab, `start` below `end`.
        Some(unsafe { slab.at(start) })
    }

    #[cold]
    fn refuse(&self, layout: Layout) {
        count(&self.refused);
        self.largest_refused
            .set(self.largest_refused.get().max(layout.size()));
    }

    /// Takes back a block for `layout`, which has bytes. What cannot be one is counted and left alone.
    ///
    /// # Safety
    /// If `block` lies in the part of the slab that was carved, it is a live block of the shape of
    /// `layout`, and nobody uses it any more.
    #[inline]
    pub(super) unsafe fn give(
        &self,
        table: &[SizeClass],
        slab: &Slab<'_>,
        block: NonNull<u8>,
        layout: Layout,
    ) {
        let shape = Shape::of(layout);
        let offset = slab.offset_of(block);
        let carved = self.carved.get();
        // No wrap: the sum is only made where `offset` is below the slab's length.
        let inside = offset < carved && shape.size <= carved - offset;
        if !inside || !slab.is_aligned(offset, shape.align) {
            return self.refuse_foreign();
        }
        let Some(class) = classes::find(table, shape).or_else(|| self.claim(table, shape)) else {
            return count(&self.overflowed);
        };
        // An offset of a block is below `isize::MAX`.
        let link = offset + 1;
        if class.head() == link {
            // Released twice in a row. Other double releases cannot be seen from here.
            return self.refuse_foreign();
        }
        // SAFETY: a carved block that nobody uses, by the caller's promise.
        unsafe { slab.set_link(offset, class.head()) }
        class.set_head(link);
    }

    #[cold]
    fn refuse_foreign(&self) {
        count(&self.foreign);
    }

    #[cold]
    fn claim<'t>(&self, table: &'t [SizeClass], shape: Shape) -> Option<&'t SizeClass> {
        // Saves a search that cannot succeed, each time a block overflows.
        if self.classes_used.get() == table.len() {
            return None;
        }
        let class = classes::claim(table, shape)?;
        count(&self.classes_used);
        Some(class)
    }

    #[cold]
    pub(super) fn refusal(&self, slab: &Slab<'_>, layout: Layout) -> SourceError {
        let requested = layout.size();
        let shape = Shape::of(layout);
        if slab.place(0, shape.size, shape.align).is_none() {
            return SourceError::TooLarge {
                requested,
                capacity: slab.len(),
            };
        }
        SourceError::Exhausted {
            requested,
            available: slab.len().saturating_sub(self.carved.get()),
        }
    }

    pub(super) fn census(&self, slab: &Slab<'_>) -> Census {
        let carved = self.carved.get();
        Census {
            unit: 1,
            capacity: slab.len(),
            in_use: carved,
            peak: carved,
            refused: self.refused.get(),
            dropped: 0,
            largest_refused: self.largest_refused.get(),
        }
    }

    pub(super) fn used(&self) -> usize {
        self.carved.get()
    }

    pub(super) fn classes_used(&self) -> usize {
        self.classes_used.get()
    }

    pub(super) fn overflowed(&self) -> usize {
        self.overflowed.get()
    }

    pub(super) fn foreign(&self) -> usize {
        self.foreign.get()
    }
}
