//! Which slot is next: a stack of recycled slots, and a mark below which all were carved.

use core::cell::Cell;

use wharf_sync::ConstInit;

/// The part of a pool that its lock guards. Opaque; public because the bounds of a `const` pool name it.
///
/// All zero bytes when nothing was vended yet.
#[derive(Debug)]
pub struct FreeList {
    /// The most recently recycled slot, plus one; zero: none. The link to the next is in the slot's header.
    top: Cell<u32>,
    /// Slots carved so far; also the most that were ever in use, because a fresh one is taken only
    /// when nothing is left to recycle.
    carved: Cell<u32>,
    in_use: Cell<u32>,
    refused: Cell<usize>,
    largest_refused: Cell<usize>,
}

impl ConstInit for FreeList {
    const INIT: Self = Self {
        top: Cell::new(0),
        carved: Cell::new(0),
        in_use: Cell::new(0),
        refused: Cell::new(0),
        largest_refused: Cell::new(0),
    };
}

impl FreeList {
    /// The next of `slots` slots; `link` reads what [`put`](Self::put) left with a recycled slot.
    #[inline]
    pub(super) fn take(&self, slots: u32, link: impl FnOnce(u32) -> u32) -> Option<u32> {
        let top = self.top.get();
        let slot = if let Some(slot) = top.checked_sub(1) {
            self.top.set(link(slot));
            slot
        } else {
            let slot = self.carved.get();
            if slot >= slots {
                return None;
            }
            self.carved.set(slot + 1);
            slot
        };
        self.in_use.set(self.in_use.get() + 1);
        Some(slot)
    }

    /// Recycles `slot`; the caller leaves the returned link with it.
    #[inline]
    pub(super) fn put(&self, slot: u32) -> u32 {
        let link = self.top.get();
        self.top.set(slot + 1);
        self.in_use.set(self.in_use.get() - 1);
        link
    }

    /// Counts a refusal of `size` bytes.
    #[cold]
    pub(super) fn refuse(&self, size: usize) {
        self.refused.set(self.refused.get().saturating_add(1));
        self.largest_refused
            .set(self.largest_refused.get().max(size));
    }

    pub(super) const fn carved(&self) -> u32 {
        self.carved.get()
    }

    pub(super) const fn in_use(&self) -> u32 {
        self.in_use.get()
    }

    pub(super) const fn refused(&self) -> usize {
        self.refused.get()
    }

    pub(super) const fn largest_refused(&self) -> usize {
        self.largest_refused.get()
    }
}
