//! Floors: what the same would cost without any check, with handles of the same size.
#![allow(unsafe_code, reason = "a floor is what unchecked code would cost")]

use core::cell::{Cell, UnsafeCell};
use core::mem::MaybeUninit;

/// A pool's floor: a bare last-in first-out list of slots by index. It counts nothing and knows no policy.
///
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
        let slot = self.take()?;
        Some(Handle { slot, pool: self })
    }

    #[inline]
    pub(crate) fn take(&self) -> Option<usize> {
        let slot = self.top.get() as usize;
        let link = self.links.get(slot)?;
        self.top.set(link.get());
        Some(slot)
    }

    /// # Safety
    /// `slot` came from `take`, and was not put back since.
    #[inline]
    pub(crate) unsafe fn put(&self, slot: usize) {
        // SAFETY: `take` has checked it.
        let link = unsafe { self.links.get_unchecked(slot) };
        link.set(self.top.get());
        #[expect(clippy::cast_possible_truncation, reason = "a few slots")]
        self.top.set(slot as u32);
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
        // SAFETY: from `alloc`, and put back here alone.
        unsafe { self.pool.put(self.slot) };
    }
}

/// A [`Lifo`] whose type is forgotten.
pub trait AnyLifo {
    /// The next slot.
    fn take_any(&self) -> Option<usize>;
    /// Puts a slot back.
    ///
    /// # Safety
    /// `slot` came from `take_any`, and was not put back since.
    unsafe fn put_any(&self, slot: usize);
}

impl<const PAYLOAD: usize, const SLOTS: usize> AnyLifo for Lifo<PAYLOAD, SLOTS> {
    fn take_any(&self) -> Option<usize> {
        self.take()
    }
    unsafe fn put_any(&self, slot: usize) {
        // SAFETY: as the caller promises.
        unsafe { self.put(slot) };
    }
}

/// A slot: its number, and the pool, whose type is forgotten.
pub struct AnyHandle<'p> {
    slot: usize,
    pool: &'p dyn AnyLifo,
}

impl<'p> AnyHandle<'p> {
    /// The next slot.
    #[inline]
    #[must_use]
    pub fn alloc(pool: &'p dyn AnyLifo) -> Option<Self> {
        let slot = pool.take_any()?;
        Some(Self { slot, pool })
    }
}

impl core::fmt::Debug for AnyHandle<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("AnyHandle").field(&self.slot).finish()
    }
}

impl Drop for AnyHandle<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: from `alloc`, and put back here alone.
        unsafe { self.pool.put_any(self.slot) };
    }
}

/// A run of bytes that is counted, without a limit.
#[derive(Debug)]
pub struct Run {
    holders: Cell<u32>,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            holders: Cell::new(1),
        }
    }
}

/// The floor of a view: a counted pointer, whom it goes back to, an offset and a length.
#[derive(Debug)]
pub struct Window<'r> {
    run: &'r Run,
    owner: &'r Cell<u32>,
    start: usize,
    len: usize,
}

impl<'r> Window<'r> {
    /// A window of `len` bytes; the last one to go tells `owner`.
    #[must_use]
    pub const fn new(run: &'r Run, owner: &'r Cell<u32>, len: usize) -> Self {
        Self {
            run,
            owner,
            start: 0,
            len,
        }
    }

    /// Where it starts, and how long it is.
    #[must_use]
    pub const fn extent(&self) -> (usize, usize) {
        (self.start, self.len)
    }

    /// A window on this window, in bounds or not.
    #[inline]
    #[must_use]
    pub fn slice(&self, range: core::ops::Range<usize>) -> Self {
        self.run.holders.set(self.run.holders.get() + 1);
        Self {
            run: self.run,
            owner: self.owner,
            start: self.start + range.start,
            len: range.end - range.start,
        }
    }
}

impl Drop for Window<'_> {
    #[inline]
    fn drop(&mut self) {
        let holders = self.run.holders.get() - 1;
        self.run.holders.set(holders);
        if holders == 0 {
            self.owner.set(self.owner.get() + 1);
        }
    }
}
