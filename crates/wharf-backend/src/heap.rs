//! The platform's heap: one allocation per segment, header and payload together.
//!
//! Invariant: a header is the start of an allocation with [`layout`]`(header.len())`, whose payload
//! starts at [`PAYLOAD`].
#![allow(unsafe_code, reason = "allocates, and computes the payload's address")]

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::NonNull;

use wharf_source::Census;
use wharf_sync::SyncPolicy;

use crate::{AllocError, AllocHint, BackendRef, Caps, Header, HostBackend, MemBackend, Place};

/// What every payload is aligned to.
const ALIGN: usize = 16;

/// The heap as a backend, and as a reference to itself: it has no state, so a handle to one of its segments
/// is a single pointer. Where handles are erased behind an `Arc`, make one `Arc<HeapBackend>` and clone it.
///
/// ```
/// use wharf_backend::{Heap, SegmentMut};
/// use wharf_sync::Unsync;
///
/// let bytes = SegmentMut::alloc(Heap::<Unsync>::new(), 3)?.init_from(b"abc")?;
/// assert_eq!(&*bytes, b"abc");
/// assert_eq!(size_of_val(&bytes), size_of::<usize>());
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct HeapBackend<P: SyncPolicy> {
    // The heap is for every thread, but what it vends is counted by `P`: `Send` and `Sync` as a
    // reference to one of `P`'s locks is.
    policy: PhantomData<&'static P::Lock<()>>,
}

/// The short name.
pub type Heap<P> = HeapBackend<P>;

impl<P: SyncPolicy> HeapBackend<P> {
    /// The heap.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            policy: PhantomData,
        }
    }
}

impl<P: SyncPolicy> Default for HeapBackend<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: SyncPolicy> Clone for HeapBackend<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: SyncPolicy> Copy for HeapBackend<P> {}

impl<P: SyncPolicy> core::fmt::Debug for HeapBackend<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("HeapBackend")
    }
}

/// Offset of the payload.
const fn payload<P: SyncPolicy>() -> usize {
    size_of::<Header<P>>().next_multiple_of(ALIGN)
}

/// The allocation of a segment of `size` bytes, unless it is larger than any allocation can be.
fn layout<P: SyncPolicy>(size: usize) -> Option<Layout> {
    let align = if align_of::<Header<P>>() > ALIGN {
        align_of::<Header<P>>()
    } else {
        ALIGN
    };
    Layout::from_size_align(payload::<P>().checked_add(size)?, align).ok()
}

// SAFETY: every segment is an allocation of its own, laid out by `layout`; the global allocator keeps
// them apart and is thread-safe.
unsafe impl<P: SyncPolicy> MemBackend for HeapBackend<P> {
    type Policy = P;

    fn vend(&self, size: usize, _: AllocHint) -> Option<NonNull<Header<P>>> {
        let layout = layout::<P>(size)?;
        // SAFETY: the layout holds a header, so it is not of zero size.
        let start = NonNull::new(unsafe { alloc::alloc::alloc(layout) })?;
        let header = start.cast::<Header<P>>();
        // SAFETY: fresh, large enough and aligned for a header.
        unsafe { header.write(Header::new(size)) };
        Some(header)
    }

    fn refusal(&self, size: usize, _: AllocHint) -> AllocError {
        match layout::<P>(size) {
            Some(_) => AllocError::Heap { requested: size },
            None => AllocError::TooLarge {
                requested: size,
                max: self.max_segment_size(),
            },
        }
    }

    unsafe fn reclaim(&self, header: NonNull<Header<P>>) {
        // SAFETY: a live header, which nobody else holds.
        let len = unsafe { header.as_ref() }.len();
        if let Some(layout) = layout::<P>(len) {
            // SAFETY: the header is dropped once, and the allocation was made with this very layout.
            unsafe {
                header.drop_in_place();
                alloc::alloc::dealloc(header.as_ptr().cast(), layout);
            }
        }
    }

    #[inline]
    unsafe fn place(&self, header: NonNull<Header<P>>) -> Place {
        // SAFETY: the payload starts there, in the same allocation.
        Place::Host(unsafe { header.cast::<u8>().add(payload::<P>()) })
    }

    /// The heap keeps no record of what it vended, so it can refute nothing.
    fn may_own(&self, _: NonNull<Header<P>>) -> bool {
        true
    }

    fn caps(&self) -> Caps {
        Caps::OWNS_BYTES | Caps::PLAIN_COPIES
    }

    fn alignment(&self) -> usize {
        ALIGN
    }

    fn max_segment_size(&self) -> usize {
        isize::MAX.unsigned_abs() - (ALIGN - 1) - payload::<P>()
    }

    /// All zero: the ceiling and the use of the platform's heap are not ours to report.
    fn census(&self) -> Census {
        Census::default()
    }

    fn name(&self) -> &'static str {
        "heap"
    }
}

// SAFETY: the heap is host memory.
unsafe impl<P: SyncPolicy> HostBackend for HeapBackend<P> {}

// SAFETY: there is one heap, for ever, and the value has no state.
unsafe impl<P: SyncPolicy> BackendRef for HeapBackend<P> {
    type Policy = P;
    type Backend = Self;
    fn backend(&self) -> &Self {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SegmentMut;
    use wharf_sync::Unsync;

    #[test]
    fn sizes_near_the_end_of_the_address_space_are_errors() {
        let heap = Heap::<Unsync>::new();
        for size in [usize::MAX, usize::MAX - 15, isize::MAX.unsigned_abs()] {
            let error = SegmentMut::alloc(heap, size).unwrap_err();
            let max = heap.max_segment_size();
            assert_eq!(
                error,
                AllocError::TooLarge {
                    requested: size,
                    max
                }
            );
        }
        let size = heap.max_segment_size();
        let error = SegmentMut::alloc(heap, size).unwrap_err();
        assert_eq!(error, AllocError::Heap { requested: size });
    }

    #[test]
    fn an_allocation_asks_for_the_alignment_of_its_payload() {
        // Most heaps give it unasked.
        let header = (2 * size_of::<usize>()).next_multiple_of(16);
        let expected = Layout::from_size_align(header + 5, 16).unwrap();
        assert_eq!(layout::<Unsync>(5), Some(expected));
    }

    #[test]
    fn payloads_are_aligned_and_empty_ones_exist() {
        let heap = Heap::<Unsync>::new();
        for size in [0, 1, 15, 16, 17, 4096] {
            let segment = SegmentMut::alloc(heap, size).unwrap().filled(0xA5).unwrap();
            assert_eq!(segment.as_ptr().addr() % ALIGN, 0);
            assert_eq!(segment.len(), size);
            assert!(segment.iter().all(|&byte| byte == 0xA5));
        }
    }
}
