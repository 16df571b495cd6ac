//! Why a source refused.

use core::fmt;

/// The cause of a refusal, with its numbers. `requested` is what the caller asked for, in bytes,
/// before any rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SourceError {
    /// There is too little left now. Waiting for a release, or a larger slab, may help.
    Exhausted {
        /// Bytes asked for.
        requested: usize,
        /// Bytes that were never handed out. The request may exceed them only once it is rounded up
        /// and aligned, and blocks that came back in other shapes are not among them.
        available: usize,
    },
    /// The source could not meet the request even when it is fresh: too many bytes, or too large an
    /// alignment. Waiting does not help.
    TooLarge {
        /// Bytes asked for.
        requested: usize,
        /// All bytes that the source has.
        capacity: usize,
    },
    /// The global allocator refused.
    HeapExhausted {
        /// Bytes asked for.
        requested: usize,
    },
    /// The source is a [`NullSource`](crate::NullSource): it refuses everything.
    Null {
        /// Bytes asked for.
        requested: usize,
    },
    /// More elements than any block could hold, wherever it came from. No source was asked.
    Overflow {
        /// Elements that there would have been; `usize::MAX` if they were more than that.
        count: usize,
        /// Bytes of each.
        size: usize,
    },
    /// A [`FaultSource`](crate::FaultSource) was told to refuse this request.
    Injected {
        /// Bytes asked for.
        requested: usize,
        /// The number of the request, counted from one.
        call: u64,
    },
}

impl SourceError {
    /// Bytes that the refused caller asked for; `usize::MAX` if they were more than that.
    #[must_use]
    pub const fn requested(&self) -> usize {
        match *self {
            Self::Exhausted { requested, .. }
            | Self::TooLarge { requested, .. }
            | Self::HeapExhausted { requested }
            | Self::Null { requested }
            | Self::Injected { requested, .. } => requested,
            Self::Overflow { count, size } => count.saturating_mul(size),
        }
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exhausted {
                requested,
                available,
            } => write!(
                f,
                "source exhausted: {requested} bytes requested, {available} never handed out"
            ),
            Self::TooLarge {
                requested,
                capacity,
            } => write!(
                f,
                "request of {requested} bytes can never be met by a source of {capacity}"
            ),
            Self::HeapExhausted { requested } => {
                write!(f, "global allocator refused {requested} bytes")
            }
            Self::Null { requested } => {
                write!(
                    f,
                    "null source refuses everything ({requested} bytes requested)"
                )
            }
            Self::Overflow { count, size } => {
                write!(f, "no block can hold {count} elements of {size} bytes")
            }
            Self::Injected { requested, call } => {
                write!(f, "request {call}, of {requested} bytes, refused on demand")
            }
        }
    }
}

impl core::error::Error for SourceError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn the_text_carries_the_numbers() {
        let exhausted = SourceError::Exhausted {
            requested: 96,
            available: 40,
        };
        assert_eq!(
            exhausted.to_string(),
            "source exhausted: 96 bytes requested, 40 never handed out"
        );
        let large = SourceError::TooLarge {
            requested: 96,
            capacity: 64,
        };
        assert_eq!(
            large.to_string(),
            "request of 96 bytes can never be met by a source of 64"
        );
        let null = SourceError::Null { requested: 96 };
        let heap = SourceError::HeapExhausted { requested: 96 };
        assert_eq!(
            null.to_string(),
            "null source refuses everything (96 bytes requested)"
        );
        assert_eq!(heap.to_string(), "global allocator refused 96 bytes");
        let injected = SourceError::Injected {
            requested: 96,
            call: 3,
        };
        assert_eq!(
            injected.to_string(),
            "request 3, of 96 bytes, refused on demand"
        );
        let overflow = SourceError::Overflow { count: 12, size: 8 };
        assert_eq!(
            overflow.to_string(),
            "no block can hold 12 elements of 8 bytes"
        );
        for error in [exhausted, large, null, heap, injected, overflow] {
            assert_eq!(error.requested(), 96);
        }
        let overflow = SourceError::Overflow {
            count: usize::MAX / 8 + 2,
            size: 8,
        };
        assert_eq!(overflow.requested(), usize::MAX, "not what it wraps to");
    }
}
