//! What several tests need: a source that keeps books, and values that count their drops.
#![allow(dead_code, reason = "no test uses all of it")]

use core::alloc::Layout;
use core::cell::{Cell, RefCell};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::collections::BTreeMap;

use wharf_source::{BlockSource, SourceError, empty_block};

pub(crate) fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

/// Memory for slabs that begins at a multiple of 128.
#[repr(C, align(128))]
pub(crate) struct Slab<const LEN: usize>(pub(crate) [MaybeUninit<u8>; LEN]);

impl<const LEN: usize> Slab<LEN> {
    pub(crate) fn new() -> Self {
        Self([MaybeUninit::uninit(); LEN])
    }
    pub(crate) fn base(&self) -> usize {
        self.0.as_ptr().addr()
    }
}

/// The heap, with a book of every live block: what goes back must be in it, with that layout.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    live: RefCell<BTreeMap<usize, Layout>>,
    wrong: Cell<usize>,
    vended: Cell<usize>,
}

impl Ledger {
    /// Whether everything went back, once, with the layout it was taken with.
    pub(crate) fn is_balanced(&self) -> bool {
        self.live.borrow().is_empty() && self.wrong.get() == 0
    }
    /// The layouts of the live blocks.
    pub(crate) fn live(&self) -> Vec<Layout> {
        self.live.borrow().values().copied().collect()
    }
    pub(crate) fn vended(&self) -> usize {
        self.vended.get()
    }
}

// SAFETY: the blocks are the allocator's, and what is not in the book does not reach it.
unsafe impl BlockSource for &Ledger {
    fn try_alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        if let Some(empty) = empty_block(layout) {
            return Some(empty);
        }
        // SAFETY: it has bytes.
        let block = NonNull::new(unsafe { std::alloc::alloc(layout) })?;
        self.vended.set(self.vended.get() + 1);
        self.live.borrow_mut().insert(block.addr().get(), layout);
        Some(block)
    }
    unsafe fn release(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() == 0 {
            return;
        }
        if self.live.borrow_mut().remove(&block.addr().get()) == Some(layout) {
            // SAFETY: it was live, with this layout.
            unsafe { std::alloc::dealloc(block.as_ptr(), layout) }
        } else {
            self.wrong.set(self.wrong.get() + 1);
        }
    }
    fn refusal(&self, layout: Layout) -> SourceError {
        SourceError::HeapExhausted {
            requested: layout.size(),
        }
    }
    fn name(&self) -> &'static str {
        "ledger"
    }
}

/// How many values there are.
#[derive(Debug, Default)]
pub(crate) struct Population(Cell<isize>);

impl Population {
    pub(crate) fn count(&self) -> isize {
        self.0.get()
    }
    /// One more value, which owns memory of its own, so that a second drop does not go unnoticed.
    pub(crate) fn born(&self, id: u32) -> Citizen<'_> {
        self.0.set(self.0.get() + 1);
        Citizen {
            id: Box::new(id),
            population: self,
        }
    }
}

/// A value that counts.
#[derive(Debug)]
pub(crate) struct Citizen<'p> {
    id: Box<u32>,
    population: &'p Population,
}

impl Citizen<'_> {
    pub(crate) fn id(&self) -> u32 {
        *self.id
    }
}

impl Clone for Citizen<'_> {
    fn clone(&self) -> Self {
        self.population.born(self.id())
    }
}

impl PartialEq<u32> for Citizen<'_> {
    fn eq(&self, other: &u32) -> bool {
        self.id() == *other
    }
}

impl Drop for Citizen<'_> {
    fn drop(&mut self) {
        self.population.0.set(self.population.0.get() - 1);
    }
}
