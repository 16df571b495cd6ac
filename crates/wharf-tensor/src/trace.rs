//! What happened, for whoever wants to know.

/// What an event is about. The numbers are those of the AWS Neuron runtime's trace (libnrt 2.31.24), whose tensor
/// layer this one descends from, so that its readers can be taught ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
#[non_exhaustive]
pub enum TraceKind {
    /// Bytes are read from a tensor.
    Read = 9,
    /// Bytes are written to a tensor.
    Write = 10,
    /// Bytes are read from many tensors at once.
    ReadBatch = 11,
    /// Bytes are written to many tensors at once.
    WriteBatch = 12,
    /// A storage is allocated.
    Alloc = 27,
    /// A storage is freed.
    Free = 28,
    /// A call waits for the fence of a storage.
    Blocked = 29,
    /// A wait for a completion count goes on for long: see [`Completions::warning_every`](crate::Completions::warning_every).
    /// Not one of that runtime's, which writes a line to its log.
    Overdue = 128,
}

/// Where in its life an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum TracePhase {
    /// It begins.
    Start = 0,
    /// It ends, well or badly; every start has one.
    Stop = 1,
    /// It has no duration.
    Instant = 2,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TraceEvent {
    /// What.
    pub kind: TraceKind,
    /// Start, stop or instant.
    pub phase: TracePhase,
    /// Which storage; zero where there is none yet.
    pub storage: u64,
    /// How many bytes. 64 bits: the original's 32 could not say 4 GiB.
    pub bytes: u64,
}

/// Is told of every event, on whatever context it happens. It must not call back into the tensor.
pub trait TraceSink {
    /// An event.
    fn record(&self, event: TraceEvent);
}

/// Nobody is told; compiles to nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NoTrace;

impl TraceSink for NoTrace {
    #[inline]
    fn record(&self, _: TraceEvent) {}
}

impl<L: TraceSink + ?Sized> TraceSink for &L {
    fn record(&self, event: TraceEvent) {
        (**self).record(event);
    }
}

#[cfg(feature = "std")]
impl<L: TraceSink + ?Sized> TraceSink for std::sync::Arc<L> {
    fn record(&self, event: TraceEvent) {
        (**self).record(event);
    }
}

/// A start, and its stop when dropped: they balance on every error path.
pub(crate) struct Span<'t, L: TraceSink> {
    sink: &'t L,
    event: TraceEvent,
}

impl<'t, L: TraceSink> Span<'t, L> {
    #[inline]
    pub(crate) fn start(sink: &'t L, kind: TraceKind, storage: u64, bytes: usize) -> Self {
        let event = TraceEvent {
            kind,
            phase: TracePhase::Start,
            storage,
            bytes: bytes as u64,
        };
        sink.record(event);
        Self { sink, event }
    }
}

impl<L: TraceSink> Drop for Span<'_, L> {
    #[inline]
    fn drop(&mut self) {
        self.sink.record(TraceEvent {
            phase: TracePhase::Stop,
            ..self.event
        });
    }
}
