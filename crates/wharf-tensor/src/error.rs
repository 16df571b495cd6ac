//! What can go wrong, with the numbers.

use core::fmt;

use wharf_backend::{AllocError, TransferError};
use wharf_engine::{DescriptorError, SubmitError};

/// Names a storage while it lives. The same number may name another one later.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct StorageId(pub(crate) usize);

impl StorageId {
    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0 as u64
    }
}

impl fmt::Debug for StorageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StorageId({:#x})", self.0)
    }
}

impl fmt::Display for StorageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "storage {:#x}", self.0)
    }
}

/// Why an operation on a tensor did not happen. Unless a variant says so, nothing did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum TensorError {
    /// The tensor is empty: it has no storage.
    NoStorage,
    /// The range leaves the tensor (or ends before it starts).
    OutOfBounds {
        /// Where the range starts.
        offset: usize,
        /// How long it is; `usize::MAX` where it ends before it starts.
        len: usize,
        /// How long the tensor is.
        size: usize,
    },
    /// The operands of a copy are not of one length.
    LengthMismatch {
        /// Bytes of the destination.
        destination: usize,
        /// Bytes of the source.
        source: usize,
    },
    /// Somebody has conflicting access right now, and the call was not to wait.
    WouldBlock {
        /// To what.
        storage: StorageId,
    },
    /// Waiting would be for ever: under this policy nobody else exists who could end the conflicting access.
    WouldDeadlock {
        /// To what.
        storage: StorageId,
    },
    /// A host guard is held on the storage, perhaps by the caller itself. Drop it first.
    Guarded {
        /// On what.
        storage: StorageId,
    },
    /// The storage is [split](crate::Tensor::split), and its parts have the access. Drop them, or use them.
    Split {
        /// Which.
        storage: StorageId,
    },
    /// A cut between cache lines only: the backend maintains caches, and maintaining one part would lose what the CPU
    /// wrote to the other.
    Unaligned {
        /// Where the cut would be, in bytes from the start of the segment.
        at: usize,
        /// Bytes between possible cuts.
        alignment: usize,
    },
    /// A device has access right now, and the call replaces what it has access to.
    InFlight {
        /// Of what.
        storage: StorageId,
        /// Device reads.
        reads: u32,
        /// Device writes.
        writes: u32,
    },
    /// The memory is read-only, and the call would write it. Nothing was waited for.
    ReadOnly {
        /// Of what.
        storage: StorageId,
    },
    /// The memory may be written, and so makes no read-only segment.
    NotReadOnly {
        /// Of what.
        storage: StorageId,
    },
    /// Others hold the storage too: clones, slices, and who waits for it.
    Held {
        /// Which.
        storage: StorageId,
        /// How many, beside the tensor that was asked.
        others: u32,
    },
    /// It is a part of a storage that is [split](crate::Tensor::split), and has no segment of its own.
    Part {
        /// Which.
        storage: StorageId,
        /// Of what it is a part.
        whole: StorageId,
        /// Where it begins there, in bytes.
        at: usize,
    },
    /// The tensor is a placeholder: it has a length and no bytes that a device could be given.
    Placeholder {
        /// Which.
        storage: StorageId,
    },
    /// As many accesses are under way as the fence can count: 15 guards that read, 31 calls of the host, 63 device reads and 63 device
    /// writes of one storage, of which an operand of a launch in the queue is one.
    Busy {
        /// To what.
        storage: StorageId,
        /// The most of that kind.
        limit: u32,
    },
    /// The deadline passed first.
    TimedOut {
        /// What was waited for.
        storage: StorageId,
    },
    /// A deadline was set, and the clock of the target [does not tell the time](wharf_sync::Clock::tells_time): it would
    /// never pass.
    NoClock {
        /// Of what.
        storage: StorageId,
    },
    /// The bytes are in device memory: move them with `read` and `write`.
    NotHostAddressable {
        /// Of what.
        storage: StorageId,
    },
    /// A control block or the bytes were refused.
    Alloc(AllocError),
    /// The backend moved no bytes.
    Transfer(TransferError),
    /// The backend gave out in the middle of a copy between two devices, or inside of one.
    Partial {
        /// Bytes that have arrived: the first of the destination; or the last, where it overlaps the source and
        /// lies behind it.
        done: usize,
        /// Bytes of the copy.
        len: usize,
        /// Why no more did.
        error: TransferError,
    },
    /// The bytes are in host memory, which has no device address.
    NotOnDevice {
        /// Of what.
        storage: StorageId,
    },
    /// The backend says where the segment begins, and from there on to the tensor its addresses run out.
    AddressWraps {
        /// Of what.
        storage: StorageId,
        /// Where the segment begins.
        base: u64,
        /// Bytes from there to the tensor.
        offset: usize,
    },
}

impl TensorError {
    /// The storage that it is about, if it is about one.
    #[must_use]
    pub const fn storage_id(&self) -> Option<StorageId> {
        match *self {
            Self::WouldBlock { storage }
            | Self::WouldDeadlock { storage }
            | Self::Guarded { storage }
            | Self::Split { storage }
            | Self::InFlight { storage, .. }
            | Self::ReadOnly { storage }
            | Self::NotReadOnly { storage }
            | Self::Held { storage, .. }
            | Self::Part { storage, .. }
            | Self::Placeholder { storage }
            | Self::Busy { storage, .. }
            | Self::TimedOut { storage }
            | Self::NoClock { storage }
            | Self::NotOnDevice { storage }
            | Self::AddressWraps { storage, .. }
            | Self::NotHostAddressable { storage } => Some(storage),
            Self::NoStorage
            | Self::OutOfBounds { .. }
            | Self::LengthMismatch { .. }
            | Self::Unaligned { .. }
            | Self::Alloc(_)
            | Self::Transfer(_)
            | Self::Partial { .. } => None,
        }
    }

    /// The message, with `storage` in place of [`storage_id`](Self::storage_id).
    pub(crate) fn about(
        &self,
        f: &mut fmt::Formatter<'_>,
        storage: &dyn fmt::Display,
    ) -> fmt::Result {
        match self {
            Self::NoStorage => f.write_str("the tensor is empty"),
            Self::OutOfBounds { offset, len, size } => {
                write!(f, "{len} bytes at {offset} leave a tensor of {size}")
            }
            Self::LengthMismatch {
                destination,
                source,
            } => write!(f, "{source} bytes do not fill {destination}"),
            Self::WouldBlock { .. } => write!(f, "{storage} is in use"),
            Self::WouldDeadlock { .. } => {
                write!(f, "{storage} is in use, and nobody is left to end it")
            }
            Self::Guarded { .. } => write!(f, "a host guard is held on {storage}"),
            Self::Split { .. } => write!(f, "{storage} is split into parts"),
            Self::Unaligned { at, alignment } => {
                write!(f, "a cut at {at} is not at a multiple of {alignment}")
            }
            Self::InFlight { reads, writes, .. } => write!(
                f,
                "{storage} is in use by {reads} device reads and {writes} device writes"
            ),
            Self::ReadOnly { .. } => write!(f, "{storage} is read-only memory"),
            Self::NotReadOnly { .. } => write!(f, "{storage} is not read-only memory"),
            Self::Held { others: 1, .. } => write!(f, "somebody else holds {storage}, too"),
            Self::Held { others, .. } => write!(f, "{others} others hold {storage}, too"),
            Self::Part { whole, at, .. } => {
                write!(f, "{storage} is a part of {whole}, from {at} on")
            }
            Self::Placeholder { .. } => write!(f, "{storage} is a placeholder without bytes"),
            Self::Busy { limit, .. } => {
                write!(
                    f,
                    "{limit} accesses of this kind are under way on {storage}, no more fit"
                )
            }
            Self::TimedOut { .. } => write!(f, "{storage} was in use until the deadline"),
            Self::NoClock { .. } => {
                write!(
                    f,
                    "no deadline for {storage}: its clock does not tell the time"
                )
            }
            Self::NotHostAddressable { .. } => {
                write!(
                    f,
                    "{storage} is in device memory, which the CPU does not address"
                )
            }
            Self::Alloc(error) => fmt::Display::fmt(error, f),
            Self::Transfer(error) => fmt::Display::fmt(error, f),
            Self::Partial { done, len, error } => {
                write!(f, "{done} of {len} bytes were copied: {error}")
            }
            Self::NotOnDevice { .. } => {
                write!(
                    f,
                    "{storage} is in host memory, which has no device address"
                )
            }
            Self::AddressWraps { base, offset, .. } => write!(
                f,
                "no address is {offset} bytes behind {base:#x}, where {storage} begins"
            ),
        }
    }
}

impl fmt::Display for TensorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.storage_id() {
            Some(storage) => self.about(f, &storage),
            None => self.about(f, &""),
        }
    }
}

impl core::error::Error for TensorError {}

impl From<AllocError> for TensorError {
    fn from(error: AllocError) -> Self {
        Self::Alloc(error)
    }
}

impl From<TransferError> for TensorError {
    fn from(error: TransferError) -> Self {
        Self::Transfer(error)
    }
}

/// Why a batch did not move all of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum BatchError {
    /// One of the operations cannot be, and nothing was moved, by none of them.
    Refused {
        /// Its index.
        op: usize,
        /// Why.
        error: TensorError,
    },
    /// A backend gave out in the middle. The operations before this one have moved all of their bytes, this one and
    /// those behind it none.
    Partial {
        /// Its index.
        op: usize,
        /// Bytes that those before it have moved.
        bytes: u64,
        /// Why it moved none.
        error: TransferError,
    },
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { op, error } => write!(f, "operation {op}: {error}"),
            Self::Partial { op, bytes, error } => {
                write!(f, "operation {op}, after {bytes} bytes had moved: {error}")
            }
        }
    }
}

impl core::error::Error for BatchError {}

/// Why a command was not launched. No operand is held, and nothing ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum LaunchError {
    /// An operand could not be had.
    Operand {
        /// Its index.
        operand: usize,
        /// Why.
        error: TensorError,
    },
    /// The operands make no descriptor.
    Descriptor(DescriptorError),
    /// The engine took none.
    Submit(SubmitError),
}

impl LaunchError {
    /// The storage that it is about, if it is about one.
    #[must_use]
    pub const fn storage_id(&self) -> Option<StorageId> {
        match self {
            Self::Operand { error, .. } => error.storage_id(),
            Self::Descriptor(_) | Self::Submit(_) => None,
        }
    }

    /// The message, with `storage` in place of [`storage_id`](Self::storage_id).
    pub(crate) fn about(
        &self,
        f: &mut fmt::Formatter<'_>,
        storage: &dyn fmt::Display,
    ) -> fmt::Result {
        match self {
            Self::Operand { operand, error } => {
                write!(f, "operand {operand}: ")?;
                error.about(f, storage)
            }
            Self::Descriptor(error) => fmt::Display::fmt(error, f),
            Self::Submit(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.storage_id() {
            Some(storage) => self.about(f, &storage),
            None => self.about(f, &""),
        }
    }
}

impl core::error::Error for LaunchError {}

impl From<DescriptorError> for LaunchError {
    fn from(error: DescriptorError) -> Self {
        Self::Descriptor(error)
    }
}

impl From<SubmitError> for LaunchError {
    fn from(error: SubmitError) -> Self {
        Self::Submit(error)
    }
}

impl TensorError {
    /// The refusal of memory that it is, if it is one: for who explains it, as a device does.
    #[must_use]
    pub const fn alloc_error(&self) -> Option<AllocError> {
        match *self {
            Self::Alloc(refusal) => Some(refusal),
            _ => None,
        }
    }
}
