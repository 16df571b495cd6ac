//! The bytes that a source carves: the only place where one turns numbers into pointers.
//!
//! Invariant of [`Slab`]: for `'s`, `base` is valid for reads and writes of `len` bytes that only the source
//! and the owners of its live blocks touch. Every pointer is derived from `base`, never from one that
//! a caller gave, so it may reach the whole slab whatever became of the caller's.
#![allow(unsafe_code, reason = "turns offsets in the slab into pointers")]

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// The bytes of a pool that holds them itself. They begin at a multiple of the largest cache line of
/// the Cortex-M.
#[repr(C, align(32))]
pub(crate) struct InlineBytes<const LEN: usize>([MaybeUninit<u8>; LEN]);

impl<const LEN: usize> InlineBytes<LEN> {
    /// Zero, not uninitialised: what an initial value leaves open may cost it its place in `.bss`.
    pub(crate) const ZERO: Self = Self([MaybeUninit::zeroed(); LEN]);
}

/// A source's hold on its bytes.
#[derive(Debug)]
pub(crate) struct Slab<'s> {
    base: NonNull<u8>,
    len: usize,
    lent: PhantomData<&'s mut [MaybeUninit<u8>]>,
}

// SAFETY: it stands for an exclusive borrow of plain bytes, which is `Send`.
unsafe impl Send for Slab<'_> {}

impl<'s> Slab<'s> {
    pub(crate) fn new(bytes: &'s mut [MaybeUninit<u8>]) -> Self {
        Self {
            len: bytes.len(),
            base: NonNull::from(bytes).cast(),
            lent: PhantomData,
        }
    }

    /// The bytes inside a pool that is shared.
    ///
    /// # Safety
    /// For `'s` only the pool and the owners of its live blocks touch what is in the cell.
    #[inline]
    pub(crate) const unsafe fn of_cell<const LEN: usize>(
        bytes: &'s UnsafeCell<InlineBytes<LEN>>,
    ) -> Self {
        // SAFETY: a pointer to a cell that exists.
        let base = unsafe { NonNull::new_unchecked(bytes.get().cast()) };
        Self {
            base,
            len: LEN,
            lent: PhantomData,
        }
    }

    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Where in the slab `address` lies; beyond `len` where it lies elsewhere.
    #[inline]
    pub(crate) fn offset_of(&self, address: NonNull<u8>) -> usize {
        address.addr().get().wrapping_sub(self.base.addr().get())
    }

    #[inline]
    pub(crate) fn is_aligned(&self, offset: usize, align: usize) -> bool {
        self.base.addr().get().wrapping_add(offset) & (align - 1) == 0
    }

    /// First and one-past-last offset of the next block of `size` bytes, aligned to `align`, when
    /// `carved` bytes are gone.
    #[inline]
    pub(crate) fn place(&self, carved: usize, size: usize, align: usize) -> Option<(usize, usize)> {
        let base = self.base.addr().get();
        let mask = align - 1;
        let start = (base.checked_add(carved)?.checked_add(mask)? & !mask).checked_sub(base)?;
        let end = start.checked_add(size)?;
        (end <= self.len).then_some((start, end))
    }

    /// # Safety
    /// `offset` is at most `len`.
    #[inline]
    pub(crate) const unsafe fn at(&self, offset: usize) -> NonNull<u8> {
        // SAFETY: inside the slab, by the caller's promise.
        unsafe { self.base.add(offset) }
    }

    /// The link that a free block holds.
    ///
    /// # Safety
    /// At `offset` is a free block of the pool, into which [`set_link`](Self::set_link) wrote.
    #[inline]
    pub(crate) const unsafe fn link(&self, offset: usize) -> usize {
        // SAFETY: a block is inside the slab, at least a link long and was aligned for one when it was
        // carved. The slab may have moved since, with its pool, but not to a lesser alignment than a
        // word's. A free block belongs to the pool, and the link was written.
        unsafe { self.at(offset).cast().read() }
    }

    /// Writes a link into a free block.
    ///
    /// # Safety
    /// At `offset` is a block that was carved from this slab and that nobody uses.
    #[inline]
    pub(crate) const unsafe fn set_link(&self, offset: usize, link: usize) {
        // SAFETY: a block is inside the slab, at least a link long and aligned for one. The pool may
        // write to it, for nobody uses it.
        unsafe { self.at(offset).cast().write(link) }
    }
}
