//! What L0 and L1 both know of a segment: how many hold it, and how long it is.
#![allow(
    unsafe_code,
    reason = "reads the one field of a header while the other may change"
)]

use core::fmt;
use core::ptr::NonNull;

use wharf_sync::{ConstInit, Count, SyncPolicy};

/// The control block of a segment: 8 bytes on 32-bit targets, 16 on 64-bit ones.
///
/// It lies where the backend wants it: in front of the payload on the heap, in an array of its own
/// (never on a payload's cache line) in a pool. Between `vend` and `reclaim` it belongs to the handles;
/// before and after, to the backend.
#[repr(C)]
pub struct Header<P: SyncPolicy> {
    count: P::Count,
    len: usize,
}

impl<P: SyncPolicy> Header<P> {
    /// For a segment of `len` bytes with one holder.
    #[must_use]
    #[inline]
    pub fn new(len: usize) -> Self {
        Self {
            count: P::Count::new(1),
            len,
        }
    }

    /// Bytes of the segment: what was asked for, not what the slot could hold.
    #[must_use]
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether the segment has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The holders.
    #[must_use]
    #[inline]
    pub const fn count(&self) -> &P::Count {
        &self.count
    }

    /// A header that no handle holds, with room for one number of the backend.
    #[inline]
    pub(crate) fn parked(note: usize) -> Self {
        Self {
            count: P::Count::new(0),
            len: note,
        }
    }

    /// The number that [`parked`](Self::parked) left here.
    #[inline]
    pub(crate) const fn note(&self) -> usize {
        self.len
    }

    /// Whether a handle holds it. Reads the count and nothing else: who holds it may be at the length ([`set_len`](Self::set_len)).
    ///
    /// # Safety
    /// `header` points to a header, which is not written as a whole meanwhile.
    pub(crate) unsafe fn is_held(header: NonNull<Self>) -> bool {
        // SAFETY: as the caller promises; a reference to the count alone.
        let count = unsafe { &(*header.as_ptr()).count };
        count.get() != 0
    }

    /// # Safety
    /// The header is live, the caller its only holder, and no reference to it is in use.
    #[inline]
    pub(crate) unsafe fn set_len(header: NonNull<Self>, len: usize) {
        // SAFETY: as the caller promises: nobody else reads or writes the length (see `is_held`).
        unsafe { (&raw mut (*header.as_ptr()).len).write(len) }
    }
}

impl<P: SyncPolicy> ConstInit for Header<P>
where
    P::Count: ConstInit,
{
    const INIT: Self = Self {
        count: ConstInit::INIT,
        len: 0,
    };
}

impl<P: SyncPolicy> fmt::Debug for Header<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Header")
            .field("holders", &self.count.get())
            .field("len", &self.len)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wharf_sync::Unsync;

    #[test]
    fn a_header_is_two_words() {
        assert_eq!(size_of::<Header<Unsync>>(), 2 * size_of::<usize>());
        #[cfg(feature = "std")]
        assert_eq!(
            size_of::<Header<wharf_sync::Blocking>>(),
            2 * size_of::<usize>()
        );
    }
}
