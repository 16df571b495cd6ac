//! What can go wrong, with the numbers.

use core::fmt;

use crate::MemSpace;
use crate::usage::{ChannelId, UsageClass};

/// Why a backend vended nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum AllocError {
    /// Everything is in use. Free something, or make the backend larger.
    Exhausted {
        /// Bytes asked.
        requested: usize,
        /// Bytes in use when asked, as the census counts them.
        in_use: usize,
        /// Bytes there are, as the census counts them.
        capacity: usize,
    },
    /// A device's memory channel has no such range now. Who has its memory tells
    /// [`Breakdown`](crate::usage::Breakdown).
    OutOfMemory {
        /// Bytes asked.
        requested: usize,
        /// Bytes that were free, in pieces.
        available: usize,
        /// Bytes of the largest piece. If it would do for what was asked, it was not aligned as asked.
        largest_free: usize,
        /// Which memory.
        channel: ChannelId,
        /// What for.
        class: UsageClass,
    },
    /// No address of this backend's memory is aligned so, taken or free.
    TooAligned {
        /// Bytes asked.
        requested: usize,
        /// The alignment asked, in bytes.
        alignment: u64,
    },
    /// This class is not for the host's memory, and that is where this channel is.
    NotOnHost {
        /// What it was asked for.
        class: UsageClass,
        /// Which memory.
        channel: ChannelId,
    },
    /// No segment of this backend is ever that large.
    TooLarge {
        /// Bytes asked.
        requested: usize,
        /// Bytes that a segment holds at most.
        max: usize,
    },
    /// The platform's heap refused.
    Heap {
        /// Bytes asked.
        requested: usize,
    },
    /// This backend binds memory that exists, and allocates none.
    Unsupported,
    /// The device behind the backend was closed.
    Closed,
    /// It was made to fail: by a [`FaultInject`](crate::FaultInject), or a device with faults on order.
    Injected {
        /// The number of the refused call, from one.
        call: u64,
    },
    /// The block source of the object around the segment refused.
    Source(wharf_source::SourceError),
}

impl AllocError {
    /// The same cause, for whoever asked the outer backend for `asked` bytes, of which this one was asked for more.
    pub(crate) fn of_a_request_for(mut self, asked: usize) -> Self {
        use wharf_source::SourceError as Source;
        match &mut self {
            Self::Exhausted { requested, .. }
            | Self::OutOfMemory { requested, .. }
            | Self::TooAligned { requested, .. }
            | Self::TooLarge { requested, .. }
            | Self::Heap { requested }
            | Self::Source(
                Source::Exhausted { requested, .. }
                | Source::TooLarge { requested, .. }
                | Source::HeapExhausted { requested }
                | Source::Null { requested }
                | Source::Injected { requested, .. },
            ) => *requested = asked,
            _ => {}
        }
        self
    }
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exhausted {
                requested,
                in_use,
                capacity,
            } => write!(f, "{requested} bytes asked, {in_use} of {capacity} in use"),
            Self::OutOfMemory {
                requested,
                available,
                largest_free,
                channel,
                class,
            } => write!(
                f,
                "{requested} bytes of class {class} asked, {available} free on {channel}, \
                 the largest range has {largest_free}"
            ),
            Self::TooAligned {
                requested,
                alignment,
            } => write!(
                f,
                "{requested} bytes aligned to {alignment} asked, this backend has no such address"
            ),
            Self::NotOnHost { class, channel } => write!(
                f,
                "class {class} is not for the host's memory, where {channel} is"
            ),
            Self::TooLarge { requested, max } => write!(
                f,
                "{requested} bytes asked, a segment of this backend holds at most {max}"
            ),
            Self::Heap { requested } => write!(f, "the heap refused {requested} bytes"),
            Self::Unsupported => f.write_str("this backend allocates nothing"),
            Self::Closed => f.write_str("the device is closed"),
            Self::Injected { call } => write!(f, "call {call} was made to fail"),
            Self::Source(refusal) => refusal.fmt(f),
        }
    }
}

impl AllocError {
    /// Whether the same request may be served once something was freed.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        matches!(self, Self::Exhausted { .. } | Self::OutOfMemory { .. })
    }
}

impl core::error::Error for AllocError {}

impl From<wharf_source::SourceError> for AllocError {
    fn from(refusal: wharf_source::SourceError) -> Self {
        Self::Source(refusal)
    }
}

/// Why bytes did not move. Unless a variant says so, none did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum TransferError {
    /// The range leaves the segment.
    OutOfBounds {
        /// Where the range starts.
        offset: usize,
        /// How long it is.
        len: usize,
        /// How long the segment is.
        size: usize,
    },
    /// A whole segment is filled from exactly as many bytes as it has.
    LengthMismatch {
        /// Bytes of the segment.
        segment: usize,
        /// Bytes of the host buffer.
        host: usize,
    },
    /// The backend has no way to move bytes to or from this space.
    Unsupported {
        /// Where the segment is.
        space: MemSpace,
    },
    /// The bytes are only ever read.
    ReadOnly,
    /// The memory moves whole words, and the range cuts one.
    Unaligned {
        /// Where the range starts.
        offset: usize,
        /// How long it is.
        len: usize,
        /// Bytes of a word.
        word: usize,
    },
    /// The device was closed.
    Closed,
    /// The device was made to fail.
    Injected {
        /// The number of the failed transfer, from one.
        call: u64,
    },
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfBounds { offset, len, size } => {
                write!(f, "{len} bytes at {offset} leave a segment of {size}")
            }
            Self::LengthMismatch { segment, host } => {
                write!(
                    f,
                    "a segment of {segment} bytes cannot be filled from {host}"
                )
            }
            Self::Unsupported { space } => {
                write!(f, "this backend moves no bytes to or from {space:?} memory")
            }
            Self::ReadOnly => f.write_str("the memory is read-only"),
            Self::Unaligned { offset, len, word } => write!(
                f,
                "{len} bytes at {offset} are no whole words of {word} bytes"
            ),
            Self::Closed => f.write_str("the device is closed"),
            Self::Injected { call } => write!(f, "transfer {call} was made to fail"),
        }
    }
}

impl core::error::Error for TransferError {}

/// Why a submission of many ranges ended early: those before this one moved, it and those behind it did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PieceError {
    /// The number of the range, from zero.
    pub piece: usize,
    /// Why it did not move.
    pub error: TransferError,
}

impl fmt::Display for PieceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "range {} did not move: {}", self.piece, self.error)
    }
}

impl core::error::Error for PieceError {}

/// The bytes are in device memory: move them with a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NotHostAddressable;

impl fmt::Display for NotHostAddressable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes are in device memory, which the CPU does not address")
    }
}

impl core::error::Error for NotHostAddressable {}

/// A raw pointer that is not a live segment of the backend that it was given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ForeignSegment {
    /// The address that was refused.
    pub address: usize,
}

impl fmt::Display for ForeignSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x} is no live segment of this backend", self.address)
    }
}

impl core::error::Error for ForeignSegment {}

/// An error that gives back what the call had taken: nothing is lost.
///
/// Who does not want it back passes on the error alone, by `map_err(Returned::into_error)?`; an error of your own takes it by
/// `?` with an `impl<T> From<Returned<T, E>>`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Returned<T, E> {
    /// What went wrong.
    pub error: E,
    /// What the call had taken.
    pub value: T,
}

impl<T, E> Returned<T, E> {
    /// Gives `value` back because of `error`.
    pub const fn new(error: E, value: T) -> Self {
        Self { error, value }
    }

    /// What went wrong. What comes back is dropped.
    #[must_use]
    pub fn into_error(self) -> E {
        self.error
    }
}

impl<T, E: fmt::Debug> fmt::Debug for Returned<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Returned")
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "defmt")]
impl<T, E: defmt::Format> defmt::Format for Returned<T, E> {
    fn format(&self, f: defmt::Formatter<'_>) {
        // What comes back need not be printable.
        defmt::write!(f, "Returned({})", self.error);
    }
}

impl<T, E: fmt::Display> fmt::Display for Returned<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T, E: core::error::Error> core::error::Error for Returned<T, E> {}
