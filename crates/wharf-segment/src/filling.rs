//! A new segment, filled with what lies in several places, without writing zeros first.
//!
//! Invariant: the first `filled` bytes of the segment have values, and `filled` is at most its length.
#![allow(
    unsafe_code,
    reason = "writes uninitialised bytes in order; the invariant above"
)]

use core::ptr::NonNull;

use wharf_backend::{BackendRef, Place, SegmentMut, Uninit};

/// Copies `parts`, one behind the other, into `segment`, which comes back as it was if it is not host memory, or if they are
/// not exactly as many bytes as it has.
pub(crate) fn fill_from<'a, R: BackendRef>(
    segment: SegmentMut<R, Uninit>,
    parts: impl IntoIterator<Item = &'a [u8]>,
) -> Result<SegmentMut<R>, SegmentMut<R, Uninit>> {
    let Place::Host(base) = segment.place() else {
        return Err(segment);
    };
    let mut filled: usize = 0;
    for part in parts {
        let end = match filled.checked_add(part.len()) {
            Some(end) if end <= segment.len() => end,
            _ => return Err(segment),
        };
        // SAFETY: bytes `filled..end` lie in the segment, a unique one which may be written, at a place in host
        // memory. `part` is a live slice, which therefore is not memory that `segment` owns alone.
        unsafe {
            base.add(filled)
                .copy_from_nonoverlapping(NonNull::from(part).cast(), part.len());
        }
        filled = end;
    }
    if filled != segment.len() {
        return Err(segment);
    }
    // SAFETY: by the invariant every byte has a value.
    Ok(unsafe { segment.assume_init() })
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;
    use wharf_backend::{BackendExt, Checked, MemBackend, StaticPool};
    use wharf_sync::Unsync;

    #[test]
    fn exactly_as_many_bytes_or_none() {
        let pool = StaticPool::<Unsync, 8, 1>::new();
        let mut segment = pool.alloc(5).unwrap();
        for parts in [&[b"abc".as_slice(), b"d"][..], &[b"abc", b"def"], &[]] {
            segment = fill_from(segment, parts.iter().copied()).unwrap_err();
        }
        let parts = [b"ab".as_slice(), b"", b"cde"];
        assert_eq!(&*fill_from(segment, parts).unwrap(), b"abcde");
        assert_eq!(pool.census().in_use, 0);
    }

    #[test]
    fn parts_that_are_too_many_are_not_written_behind_the_segment() {
        let written = Cell::new(false);
        let pool = StaticPool::<Unsync, 64, 1>::new();
        let pool = Checked::<_, _, 1>::new(pool, |_| written.set(true));
        let segment = pool.alloc(5).unwrap();
        let segment = fill_from(segment, [b"abc".as_slice(), b"def"]).unwrap_err();
        drop(segment);
        assert!(!written.get(), "the canary behind the segment lives");
        assert_eq!(pool.census().in_use, 0);
    }
}
