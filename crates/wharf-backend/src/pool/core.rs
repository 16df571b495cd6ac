//! The pool's algorithm, once, for slabs that are lent and slabs that are built in.
//!
//! Invariants of [`Headers`] and [`Slots`], which the implementer establishes:
//! 1. `headers` points to `count` headers, which the pool owns;
//! 2. `base` points to `count` payloads `stride` bytes apart, each at least `payload` bytes long, which the pool owns;
//! 3. `free` is the lock of these slots alone. A header below its carve mark is either *live* (count not zero; it
//!    belongs to the handles) or *parked* (count zero; its note is the free list's link). It turns from one to the
//!    other only under the lock. One at or above the mark was never vended by this pool, holds whatever an earlier
//!    pool left in it, and is not read.
#![allow(
    unsafe_code,
    reason = "reads and writes headers through raw pointers; the invariants above"
)]

use core::ptr::NonNull;

use wharf_source::Census;
use wharf_sync::{Lock, SyncPolicy};

use super::FreeList;
use crate::{AllocError, Header};

/// Who has which slot: all that taking one and giving it back need. For a built-in slab all but the pointers are
/// constants; for a lent one each is read where it is used, which a small core with few registers prefers to a copy of
/// them all.
///
/// # Safety
/// Invariants 1 and 3 at the top of this module, for as long as the pool is borrowed.
pub(super) unsafe trait Headers {
    type Policy: SyncPolicy;

    fn free(&self) -> &<Self::Policy as SyncPolicy>::Lock<FreeList>;
    fn headers(&self) -> NonNull<Header<Self::Policy>>;
    fn count(&self) -> usize;

    /// Bytes of a header: a power of two under every policy shipped, so dividing by it is a shift.
    const HEADER: usize = size_of::<Header<Self::Policy>>();

    /// # Safety
    /// `offset` is that of a header.
    #[inline]
    unsafe fn header(&self, offset: usize) -> NonNull<Header<Self::Policy>> {
        // SAFETY: invariant 1.
        unsafe { self.headers().byte_add(offset) }
    }

    /// The offset of a header, or nonsense for a pointer that is none.
    #[inline]
    fn offset(&self, header: NonNull<Header<Self::Policy>>) -> usize {
        header
            .addr()
            .get()
            .wrapping_sub(self.headers().addr().get())
    }

    /// A slot for `size` bytes, which fit, if there is one. Called inside the section that lends `free`.
    #[inline]
    fn take(&self, free: &FreeList, size: usize) -> Option<NonNull<Header<Self::Policy>>> {
        // No wrap: the headers are an array.
        let end = self.count() * Self::HEADER;
        let offset = free.take(end, Self::HEADER, |recycled| {
            // SAFETY: a recycled slot was carved, so this is a header, and it is parked: it is the
            // pool's, and we hold the lock.
            unsafe { self.header(recycled).as_ref() }.note()
        })?;
        // SAFETY: `take` returns offsets of headers.
        let header = unsafe { self.header(offset) };
        // SAFETY: the slot was fresh or parked, so the header is ours to write (invariant 3).
        unsafe { header.write(Header::new(size)) };
        Some(header)
    }

    /// # Safety
    /// `header` is live, and no handle is left.
    #[inline]
    unsafe fn reclaim(&self, header: NonNull<Header<Self::Policy>>) {
        self.free().with(|free| {
            let link = free.put(self.offset(header), Self::HEADER);
            // SAFETY: live and without handles, so the header is ours (invariant 3).
            unsafe { header.write(Header::parked(link)) };
        });
    }

    /// Whether `header` is live: in range, on a header boundary, carved and held.
    fn owns(&self, header: NonNull<Header<Self::Policy>>) -> bool {
        let offset = self.offset(header);
        self.free().with(|free| {
            offset.is_multiple_of(Self::HEADER)
                && offset < free.carved()
                // SAFETY: below the carve mark and on a boundary, hence a header; read under the lock,
                // and the count of a live header is only ever changed by its own atomic operations.
                && unsafe { Header::is_held(self.header(offset)) }
        })
    }

    /// Whether `header` points to a header of this pool, live or not.
    fn is_header(&self, header: NonNull<Header<Self::Policy>>) -> bool {
        let offset = self.offset(header);
        offset.is_multiple_of(Self::HEADER) && offset / Self::HEADER < self.count()
    }

    /// Every live header. For whoever knows that none comes or goes meanwhile.
    fn each_live(&self, mut visit: impl FnMut(NonNull<Header<Self::Policy>>)) {
        let carved = self.free().with(FreeList::carved);
        for offset in (0..carved).step_by(Self::HEADER) {
            // SAFETY: below the carve mark and on a boundary, hence a header.
            let header = unsafe { self.header(offset) };
            // SAFETY: as above.
            if unsafe { Header::is_held(header) } {
                visit(header);
            }
        }
    }
}

/// A whole pool: slots, and the memory behind them.
///
/// # Safety
/// The invariants at the top of this module, for as long as the pool is borrowed.
pub(super) unsafe trait Slots: Headers {
    fn base(&self) -> NonNull<u8>;
    fn payload(&self) -> usize;
    fn stride(&self) -> usize;

    #[inline]
    fn vend(&self, size: usize) -> Option<NonNull<Header<Self::Policy>>> {
        // One section for all three outcomes: entering it is most of what it costs.
        self.free().with(|free| {
            if size <= self.payload()
                && let Some(header) = self.take(free, size)
            {
                return Some(header);
            }
            free.refuse(size);
            None
        })
    }

    #[cold]
    fn refusal(&self, size: usize) -> AllocError {
        refusal(size, self.payload(), || self.count() * self.stride())
    }

    /// # Safety
    /// `header` is live.
    #[inline]
    unsafe fn bytes(&self, header: NonNull<Header<Self::Policy>>) -> NonNull<u8> {
        let slot = self.offset(header) / Self::HEADER;
        // SAFETY: invariant 2; the header is one of `count`, so the product is within the slab.
        unsafe { self.base().add(slot * self.stride()) }
    }

    /// In slots of `stride` bytes.
    fn census(&self) -> Census {
        self.free().with(|free| Census {
            unit: self.stride(),
            capacity: self.count(),
            in_use: free.in_use(),
            peak: free.carved() / Self::HEADER,
            refused: free.refused(),
            largest_refused: free.largest_refused(),
            ..Census::NOTHING
        })
    }
}

/// Why a pool just refused `size`. It takes no lock: a pool is exhausted when all of it is in use, and what has come back
/// since is no part of the answer.
///
/// `capacity` is the product of slots and stride, which does not wrap: the slots lie in one slab (invariant 2). So without the
/// saturating products of a census, which cost a small core a multiplication in 64 bits.
#[inline]
pub(super) fn refusal(size: usize, payload: usize, capacity: impl FnOnce() -> usize) -> AllocError {
    if size > payload {
        return AllocError::TooLarge {
            requested: size,
            max: payload,
        };
    }
    let capacity = capacity();
    AllocError::Exhausted {
        requested: size,
        in_use: capacity,
        capacity,
    }
}

#[cfg(test)]
mod tests {
    use core::mem::MaybeUninit;

    use wharf_sync::Unsync;

    use crate::{AllocError, AllocHint, BackendExt, MemBackend, PoolBackend, SlotControl};

    #[test]
    fn a_refusal_tells_of_the_moment_at_which_it_was_counted() {
        let mut slab = [MaybeUninit::uninit(); 32];
        let mut control = [const { SlotControl::<Unsync>::NEW }; 2];
        let pool = PoolBackend::new(&mut slab, &mut control, 16, 1).unwrap();
        let held = (pool.alloc(0).unwrap(), pool.alloc(16).unwrap());
        assert!(pool.vend(5, AllocHint::NONE).is_none());
        drop(held);
        let full = AllocError::Exhausted {
            requested: 5,
            in_use: 32,
            capacity: 32,
        };
        assert_eq!(pool.refusal(5, AllocHint::NONE), full);
        assert_eq!(pool.census().in_use, 0);
        assert_eq!(pool.census().refused, 1);
    }
}
