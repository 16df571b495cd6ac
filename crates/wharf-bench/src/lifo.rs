//! The floor of a pool: a bare last-in first-out list of slots by index, with a handle of the same size.
//!
//! It checks nothing, counts nothing, and knows no policy. `cs` puts a critical section around both halves.
#![allow(unsafe_code, reason = "the floor is what unchecked code would cost")]

use core::cell::{Cell, UnsafeCell};
use core::mem::MaybeUninit;

/// `SLOTS` slots of `PAYLOAD` bytes.
#[derive(Debug)]
pub struct Lifo<const PAYLOAD: usize, const SLOTS: usize> {
    top: Cell<u32>,
    links: [Cell<u32>; SLOTS],
    slab: UnsafeCell<[MaybeUninit<[u8; PAYLOAD]>; SLOTS]>,
}

impl<const PAYLOAD: usize, const SLOTS: usize> Default for Lifo<PAYLOAD, SLOTS> {
    fn default() -> Self {
        Self {
            top: Cell::new(0),
            #[expect(clippy::cast_possible_truncation, reason = "a few slots")]
            links: core::array::from_fn(|slot| Cell::new(slot as u32 + 1)),
            slab: UnsafeCell::new([const { MaybeUninit::uninit() }; SLOTS]),
        }
    }
}

/// A slot: its number, and the pool.
#[derive(Debug)]
pub struct Handle<'p, const PAYLOAD: usize, const SLOTS: usize> {
    slot: usize,
    pool: &'p Lifo<PAYLOAD, SLOTS>,
}

impl<const PAYLOAD: usize, const SLOTS: usize> Lifo<PAYLOAD, SLOTS> {
    /// The next slot.
    #[inline]
    pub fn alloc(&self) -> Option<Handle<'_, PAYLOAD, SLOTS>> {
        let slot = self.top.get() as usize;
        let link = self.links.get(slot)?;
        self.top.set(link.get());
        Some(Handle { slot, pool: self })
    }
}

impl<const PAYLOAD: usize, const SLOTS: usize> Handle<'_, PAYLOAD, SLOTS> {
    /// The first byte.
    #[inline]
    #[must_use]
    pub const fn as_ptr(&self) -> *mut u8 {
        self.pool
            .slab
            .get()
            .cast::<u8>()
            .wrapping_add(self.slot * PAYLOAD)
    }
}

impl<const PAYLOAD: usize, const SLOTS: usize> Drop for Handle<'_, PAYLOAD, SLOTS> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: a handle's slot came from `alloc`, which checked it.
        let link = unsafe { self.pool.links.get_unchecked(self.slot) };
        link.set(self.pool.top.get());
        #[expect(clippy::cast_possible_truncation, reason = "a few slots")]
        self.pool.top.set(self.slot as u32);
    }
}
