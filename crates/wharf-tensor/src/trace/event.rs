//! The events.

use core::fmt;

use wharf_backend::MemSpace;

/// What an event is about. Numbers below 128 are those of the AWS Neuron runtime's trace (libnrt 2.31.24), whose tensor
/// layer this one descends from, so that its readers can be taught ours; from 128 on they are this library's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
#[non_exhaustive]
pub enum TraceKind {
    /// Bytes are read from a tensor: start and stop, around the wait for the fence and the bytes' way. (An awaited operation
    /// starts when its wait is over, because a task that is suspended does nothing.)
    Read = 9,
    /// Bytes are written to a tensor, by a write, a fill or a copy: start and stop, as for [`Read`](Self::Read). The storage is the one
    /// that is written.
    Write = 10,
    /// A batch of reads: start and stop.
    ReadBatch = 11,
    /// A batch of writes: start and stop.
    WriteBatch = 12,
    /// A storage came to be: an instant. Its detail says where its memory is, if it has some of its own; a part of a split storage
    /// and a placeholder have none.
    Alloc = 27,
    /// The last tensor of a storage went: an instant. Its detail says how many device accesses still keep the bytes.
    Free = 28,
    /// A call waits for the fence of a storage: start and stop. Its detail says for what. The bytes are those of the storage.
    Blocked = 29,
    /// Bytes go to device memory: start and stop, inside of the write that asked for it.
    CopyIn = 30,
    /// Bytes come from device memory: start and stop, inside of the read or copy that asked for it.
    CopyOut = 31,
    /// Bytes of a batch go to device memory: start and stop.
    CopyInBatch = 32,
    /// Bytes of a batch come from device memory: start and stop.
    CopyOutBatch = 33,
    /// Memory is asked for, of a host or a device (the original tells of devices only): start and stop, inside of which it may
    /// be refused. There is no storage yet; if it was not refused, an [`Alloc`](Self::Alloc) follows.
    MemoryAlloc = 34,
    /// The memory of a storage goes back to where it came from: start and stop; or to somebody who
    /// [took it out](crate::Tensor::into_segment): an instant. Its detail says where it is.
    MemoryFree = 35,
    /// An engine has accepted a command: an instant, on the context that launched. An engine that is quick may tell of
    /// [`Running`](Self::Running) first. Storage: that of the first operand; bytes: of all operands.
    Launched = 128,
    /// An engine works on a command: start and stop, on the contexts where it took it from the queue and where it let go of the
    /// operands. An aborted one starts and stops at once. Told by engines that tell their cargo
    /// [when they take it up](wharf_engine::Cargo::taken_up), as those with a
    /// [`DescriptorQueue`](wharf_engine::DescriptorQueue) do; a command without operands belongs to no target, and nobody is told.
    Running = 129,
    /// A wait for a completion count goes on for long: an instant, see
    /// [`Completions::warning_every`](crate::Completions::warning_every). The original writes a line to its log.
    Overdue = 130,
}

impl TraceKind {
    /// What to call it in a report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::ReadBatch => "read batch",
            Self::WriteBatch => "write batch",
            Self::Alloc => "alloc",
            Self::Free => "free",
            Self::Blocked => "blocked",
            Self::CopyIn => "copy in",
            Self::CopyOut => "copy out",
            Self::CopyInBatch => "batch copy in",
            Self::CopyOutBatch => "batch copy out",
            Self::MemoryAlloc => "memory alloc",
            Self::MemoryFree => "memory free",
            Self::Launched => "launched",
            Self::Running => "running",
            Self::Overdue => "overdue",
        }
    }
}

/// Where in its life an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum TracePhase {
    /// It begins.
    Start = 0,
    /// It ends, well or badly; every start has one, with everything else as it was at the start.
    Stop = 1,
    /// It has no duration.
    Instant = 2,
}

/// What an event says beside the storage and the bytes; its [kind](TraceKind) says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum TraceDetail {
    /// Nothing.
    None,
    /// Of [`TraceKind::Blocked`]: the device accesses under way when the wait began. Both may be zero: then it is for another call.
    Pending {
        /// That read.
        reads: u32,
        /// That write.
        writes: u32,
    },
    /// Of [`TraceKind::Alloc`], [`TraceKind::MemoryAlloc`] and [`TraceKind::MemoryFree`]: where the memory is.
    Memory(MemSpace),
    /// Of [`TraceKind::Free`]: the device accesses that still keep the bytes. The last of them frees the memory.
    Left {
        /// How many.
        accesses: u32,
    },
    /// Of [`TraceKind::Launched`] and [`TraceKind::Running`].
    Launch {
        /// The engine's [stream](wharf_engine::StreamId).
        stream: u8,
        /// The number on the engine; see [`Submission::sequence`](crate::Submission::sequence).
        sequence: u64,
    },
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TraceEvent {
    /// What.
    pub kind: TraceKind,
    /// Start, stop or instant.
    pub phase: TracePhase,
    /// Which storage: its [`StorageId`](crate::StorageId), which may come again once it is freed. Zero where there is none.
    pub storage: u64,
    /// How many bytes. 64 bits: the original's 32 could not say 4 GiB.
    pub bytes: u64,
    /// The rest.
    pub detail: TraceDetail,
}

impl TraceEvent {
    /// Something without a duration, and without a detail.
    #[must_use]
    pub const fn instant(kind: TraceKind, storage: u64, bytes: u64) -> Self {
        Self {
            kind,
            phase: TracePhase::Instant,
            storage,
            bytes,
            detail: TraceDetail::None,
        }
    }

    /// The same with a detail.
    #[must_use]
    pub const fn with(self, detail: TraceDetail) -> Self {
        Self { detail, ..self }
    }

    /// The same in another phase.
    #[must_use]
    pub const fn at(self, phase: TracePhase) -> Self {
        Self { phase, ..self }
    }
}

impl fmt::Display for TraceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        f.write_str(match self.phase {
            TracePhase::Start => " starts",
            TracePhase::Stop => " stops",
            TracePhase::Instant => "",
        })?;
        write!(f, ": {} bytes", self.bytes)?;
        if self.storage != 0 {
            write!(f, " of storage {:#x}", self.storage)?;
        }
        match self.detail {
            TraceDetail::None => Ok(()),
            TraceDetail::Pending { reads, writes } => {
                write!(f, ", for {reads} device reads and {writes} device writes")
            }
            TraceDetail::Memory(MemSpace::Host) => f.write_str(", on the host"),
            TraceDetail::Memory(MemSpace::Device) => f.write_str(", on a device"),
            TraceDetail::Left { accesses } => write!(f, ", kept by {accesses} device accesses"),
            TraceDetail::Launch { stream, sequence } => {
                write!(f, ", #{sequence} on stream {stream}")
            }
        }
    }
}
