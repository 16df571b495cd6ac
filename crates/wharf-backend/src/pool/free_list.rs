//! Which slot is next: a stack of recycled slots, and a mark below which all were carved.

use core::cell::Cell;

use wharf_sync::ConstInit;

/// The part of a pool that its lock guards. Opaque; public because the bounds of a `const` pool name it.
///
/// A slot is named by the byte offset of its header among the headers, so that neither direction needs a shift.
/// As a constant it is all zero bytes.
#[derive(Debug)]
pub struct FreeList {
    /// The end of the most recently recycled slot's header; less than a header: none. The link to the next is in
    /// that header.
    top: Cell<usize>,
    /// Where the headers end that were carved so far. Also the most that were ever in use, because a
    /// fresh one is taken only when nothing is left to recycle.
    carved: Cell<usize>,
    in_use: Cell<usize>,
    refused: Cell<usize>,
    largest_refused: Cell<usize>,
}

/// A top that stands for nothing, as every number below the size of a header does.
const NOTHING: usize = 1;

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
    /// The same list as [`INIT`](ConstInit::INIT), for writing it at run time. It is not five equal words, for which the compiler
    /// would call the runtime's memory clearing: 158 bytes on a Cortex-M0 that a program may have no other use for.
    #[inline]
    pub(super) const fn fresh() -> Self {
        Self {
            top: Cell::new(NOTHING),
            ..Self::INIT
        }
    }

    /// A fresh list whose first header is at `start`.
    pub(super) const fn starting_at(start: usize) -> Self {
        Self {
            carved: Cell::new(start),
            ..Self::fresh()
        }
    }

    /// The next header, of `end` bytes of headers of `size` bytes each; `link` reads what [`put`](Self::put) left in a recycled one.
    #[inline]
    pub(super) fn take(
        &self,
        end: usize,
        size: usize,
        link: impl FnOnce(usize) -> usize,
    ) -> Option<usize> {
        let header = if let Some(header) = self.top.get().checked_sub(size) {
            self.top.set(link(header));
            header
        } else {
            let header = self.carved.get();
            if header >= end {
                return None;
            }
            self.carved.set(header + size);
            header
        };
        self.in_use.set(self.in_use.get() + 1);
        Some(header)
    }

    /// Recycles `header`; the caller leaves the returned link in it.
    #[inline]
    pub(super) fn put(&self, header: usize, size: usize) -> usize {
        self.in_use.set(self.in_use.get() - 1);
        self.top.replace(header + size)
    }

    /// [`put`](Self::put) into a list that keeps slots for another one: what is counted as in use are the slots in it.
    pub(super) fn give_back(&self, header: usize, size: usize) -> usize {
        self.in_use.set(self.in_use.get() + 1);
        self.top.replace(header + size)
    }

    /// Whether the next header, of `size` bytes, is a recycled one.
    #[inline]
    pub(super) const fn has_recycled(&self, size: usize) -> bool {
        self.top.get() >= size
    }

    /// Recycles all that [`give_back`](Self::give_back) has left in `kept`. For a list that has nothing recycled itself.
    #[inline]
    pub(super) fn adopt(&self, kept: &Self) {
        self.top.set(kept.top.replace(NOTHING));
        self.in_use.set(self.in_use.get() - kept.in_use.replace(0));
    }

    /// Counts a refusal of `size` bytes.
    #[cold]
    pub(super) fn refuse(&self, size: usize) {
        // Stores on a branch instead of `saturating_add` and `max`: the same counts, in fewer instructions.
        if let Some(refused) = self.refused.get().checked_add(1) {
            self.refused.set(refused);
        }
        if size > self.largest_refused.get() {
            self.largest_refused.set(size);
        }
    }

    /// In bytes of headers.
    pub(super) const fn carved(&self) -> usize {
        self.carved.get()
    }

    pub(super) const fn in_use(&self) -> usize {
        self.in_use.get()
    }

    pub(super) const fn refused(&self) -> usize {
        self.refused.get()
    }

    pub(super) const fn largest_refused(&self) -> usize {
        self.largest_refused.get()
    }
}
