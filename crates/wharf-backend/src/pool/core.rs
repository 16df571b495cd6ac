//! The pool's algorithm, once, for slabs that are lent and slabs that are built in.
//!
//! Invariants of a [`Slots`]:
//! 1. `headers` points to `count` headers, which the pool owns;
//! 2. `base` points to `count` payloads `stride` bytes apart, each at least `payload` bytes long, which the pool owns;
//! 3. `free` is the lock of this pool alone. A header below its carve mark is either *live* (count not zero; it
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

/// A pool taken apart into what the algorithm needs. Built per call; for a built-in slab all but the
/// pointers are constants.
pub(super) struct Slots<'p, P: SyncPolicy> {
    pub(super) free: &'p P::Lock<FreeList>,
    pub(super) headers: NonNull<Header<P>>,
    pub(super) base: NonNull<u8>,
    pub(super) count: u32,
    pub(super) payload: usize,
    pub(super) stride: usize,
}

impl<P: SyncPolicy> Slots<'_, P> {
    /// # Safety
    /// `slot` is below `count`.
    #[inline]
    unsafe fn header(&self, slot: u32) -> NonNull<Header<P>> {
        // SAFETY: invariant 1.
        unsafe { self.headers.add(slot as usize) }
    }

    #[inline]
    pub(super) fn vend(&self, size: usize) -> Option<NonNull<Header<P>>> {
        if size > self.payload {
            self.free.with(|free| free.refuse(size));
            return None;
        }
        self.free.with(|free| {
            let taken = free.take(self.count, |recycled| {
                // SAFETY: a recycled slot was carved, so it is below `count`, and it is parked: its
                // header is the pool's, and we hold the lock.
                let note = unsafe { self.header(recycled).as_ref() }.note();
                #[expect(clippy::cast_possible_truncation, reason = "`reclaim` put a u32 there")]
                let link = note as u32;
                link
            });
            let Some(slot) = taken else {
                free.refuse(size);
                return None;
            };
            // SAFETY: `take` returns slots below `count`.
            let header = unsafe { self.header(slot) };
            // SAFETY: the slot was fresh or parked, so the header is ours to write (invariant 3).
            unsafe { header.write(Header::new(size)) };
            Some(header)
        })
    }

    #[cold]
    pub(super) fn refusal(&self, size: usize) -> AllocError {
        if size > self.payload {
            return AllocError::TooLarge {
                requested: size,
                max: self.payload,
            };
        }
        let census = self.census();
        AllocError::Exhausted {
            requested: size,
            in_use: census.bytes_in_use(),
            capacity: census.bytes_capacity(),
        }
    }

    /// Which slot a header is, without division: the size of a header is a constant.
    #[inline]
    fn index(&self, header: NonNull<Header<P>>) -> usize {
        let offset = header.addr().get().wrapping_sub(self.headers.addr().get());
        offset / size_of::<Header<P>>()
    }

    /// # Safety
    /// `header` is live, and no handle is left.
    #[inline]
    pub(super) unsafe fn reclaim(&self, header: NonNull<Header<P>>) {
        #[expect(clippy::cast_possible_truncation, reason = "below `count`, a u32")]
        let slot = self.index(header) as u32;
        self.free.with(|free| {
            let link = free.put(slot) as usize;
            // SAFETY: live and without handles, so the header is ours (invariant 3).
            unsafe { header.write(Header::parked(link)) };
        });
    }

    /// # Safety
    /// `header` is live.
    #[inline]
    pub(super) unsafe fn payload(&self, header: NonNull<Header<P>>) -> NonNull<u8> {
        // SAFETY: invariant 2; the header is one of `count`, so the product is within the slab.
        unsafe { self.base.add(self.index(header) * self.stride) }
    }

    /// Whether `header` is live: in range, on a header boundary, carved and held.
    pub(super) fn owns(&self, header: NonNull<Header<P>>) -> bool {
        let offset = header.addr().get().wrapping_sub(self.headers.addr().get());
        if !offset.is_multiple_of(size_of::<Header<P>>()) {
            return false;
        }
        let slot = offset / size_of::<Header<P>>();
        self.free.with(|free| {
            // SAFETY: below the carve mark, hence below `count`; read under the lock, and the count
            // of a live header is only ever changed by its own atomic operations.
            slot < free.carved() as usize && unsafe { self.headers.add(slot).as_ref() }.is_live()
        })
    }

    /// In slots of `stride` bytes.
    pub(super) fn census(&self) -> Census {
        self.free.with(|free| Census {
            unit: self.stride,
            capacity: self.count as usize,
            in_use: free.in_use() as usize,
            peak: free.carved() as usize,
            refused: free.refused(),
            largest_refused: free.largest_refused(),
            ..Census::NOTHING
        })
    }
}
