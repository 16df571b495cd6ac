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
    /// Bytes of a header: a power of two under every policy shipped, so dividing by it is a shift.
    const HEADER: usize = size_of::<Header<P>>();

    /// # Safety
    /// `offset` is that of a header.
    #[inline]
    unsafe fn header(&self, offset: usize) -> NonNull<Header<P>> {
        // SAFETY: invariant 1.
        unsafe { self.headers.byte_add(offset) }
    }

    /// The offset of a header, or nonsense for a pointer that is none.
    #[inline]
    fn offset(&self, header: NonNull<Header<P>>) -> usize {
        header.addr().get().wrapping_sub(self.headers.addr().get())
    }

    #[inline]
    pub(super) fn vend(&self, size: usize) -> Option<NonNull<Header<P>>> {
        if size > self.payload {
            return self.refuse(size);
        }
        self.free.with(|free| {
            // No wrap: the headers are an array.
            let end = self.count as usize * Self::HEADER;
            let taken = free.take(end, Self::HEADER, |recycled| {
                // SAFETY: a recycled slot was carved, so this is a header, and it is parked: it is the
                // pool's, and we hold the lock.
                unsafe { self.header(recycled).as_ref() }.note()
            });
            let Some(offset) = taken else {
                free.refuse(size);
                return None;
            };
            // SAFETY: `take` returns offsets of headers.
            let header = unsafe { self.header(offset) };
            // SAFETY: the slot was fresh or parked, so the header is ours to write (invariant 3).
            unsafe { header.write(Header::new(size)) };
            Some(header)
        })
    }

    #[cold]
    fn refuse(&self, size: usize) -> Option<NonNull<Header<P>>> {
        self.free.with(|free| free.refuse(size));
        None
    }

    #[cold]
    pub(super) fn refusal(&self, size: usize) -> AllocError {
        if size > self.payload {
            return AllocError::TooLarge {
                requested: size,
                max: self.payload,
            };
        }
        let in_use = self.free.with(FreeList::in_use);
        // No wrap: the slots lie in one slab (invariant 2). So without the saturating products of a
        // census, which cost a small core a multiplication in 64 bits.
        AllocError::Exhausted {
            requested: size,
            in_use: in_use * self.stride,
            capacity: self.count as usize * self.stride,
        }
    }

    /// # Safety
    /// `header` is live, and no handle is left.
    #[inline]
    pub(super) unsafe fn reclaim(&self, header: NonNull<Header<P>>) {
        self.free.with(|free| {
            let link = free.put(self.offset(header), Self::HEADER);
            // SAFETY: live and without handles, so the header is ours (invariant 3).
            unsafe { header.write(Header::parked(link)) };
        });
    }

    /// # Safety
    /// `header` is live.
    #[inline]
    pub(super) unsafe fn payload(&self, header: NonNull<Header<P>>) -> NonNull<u8> {
        let slot = self.offset(header) / Self::HEADER;
        // SAFETY: invariant 2; the header is one of `count`, so the product is within the slab.
        unsafe { self.base.add(slot * self.stride) }
    }

    /// Whether `header` is live: in range, on a header boundary, carved and held.
    pub(super) fn owns(&self, header: NonNull<Header<P>>) -> bool {
        let offset = self.offset(header);
        self.free.with(|free| {
            offset.is_multiple_of(Self::HEADER)
                && offset < free.carved()
                // SAFETY: below the carve mark and on a boundary, hence a header; read under the lock,
                // and the count of a live header is only ever changed by its own atomic operations.
                && unsafe { self.header(offset).as_ref() }.is_live()
        })
    }

    /// Whether `header` points to a header of this pool, live or not.
    pub(super) fn is_header(&self, header: NonNull<Header<P>>) -> bool {
        let offset = self.offset(header);
        offset.is_multiple_of(Self::HEADER) && offset / Self::HEADER < self.count as usize
    }

    /// Every live header. For whoever knows that none comes or goes meanwhile.
    pub(super) fn each_live(&self, mut visit: impl FnMut(NonNull<Header<P>>)) {
        let carved = self.free.with(FreeList::carved);
        for offset in (0..carved).step_by(Self::HEADER) {
            // SAFETY: below the carve mark and on a boundary, hence a header.
            let header = unsafe { self.header(offset) };
            // SAFETY: as above.
            if unsafe { header.as_ref() }.is_live() {
                visit(header);
            }
        }
    }

    /// In slots of `stride` bytes.
    pub(super) fn census(&self) -> Census {
        self.free.with(|free| Census {
            unit: self.stride,
            capacity: self.count as usize,
            in_use: free.in_use(),
            peak: free.carved() / Self::HEADER,
            refused: free.refused(),
            largest_refused: free.largest_refused(),
            ..Census::NOTHING
        })
    }
}
