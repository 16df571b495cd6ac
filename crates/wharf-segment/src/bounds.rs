//! Ranges, checked before anything is added up.
#![forbid(unsafe_code)]

use core::fmt;
use core::ops::{Bound, RangeBounds};

/// A range that leaves what it was taken of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct OutOfBounds {
    /// Where the range starts.
    pub start: usize,
    /// Where it ends; `usize::MAX` if it ends behind that.
    pub end: usize,
    /// How many bytes there are.
    pub len: usize,
}

impl fmt::Display for OutOfBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}..{} does not lie within {} bytes",
            self.start, self.end, self.len
        )
    }
}

impl core::error::Error for OutOfBounds {}

/// First and one-past-last of a range in `len` bytes.
#[inline]
pub(crate) fn bounds(
    range: impl RangeBounds<usize>,
    len: usize,
) -> Result<(usize, usize), OutOfBounds> {
    let start = match range.start_bound() {
        Bound::Included(&start) => Some(start),
        Bound::Excluded(&before) => before.checked_add(1),
        Bound::Unbounded => Some(0),
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => last.checked_add(1),
        Bound::Excluded(&end) => Some(end),
        Bound::Unbounded => Some(len),
    };
    match (start, end) {
        (Some(start), Some(end)) if start <= end && end <= len => Ok((start, end)),
        _ => Err(OutOfBounds {
            start: start.unwrap_or(usize::MAX),
            end: end.unwrap_or(usize::MAX),
            len,
        }),
    }
}

/// Whether `at` is a place in `len` bytes, or right behind them.
#[inline]
pub(crate) const fn position(at: usize, len: usize) -> Result<(), OutOfBounds> {
    if at <= len {
        Ok(())
    } else {
        Err(OutOfBounds {
            start: at,
            end: at,
            len,
        })
    }
}
