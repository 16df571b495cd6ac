//! A start that has a stop.

use super::sink::enabled;
use super::{TraceEvent, TracePhase, TraceSink};

/// A start, and its stop when dropped: they balance on every error path.
pub(crate) struct Span<'t, L: TraceSink> {
    sink: &'t L,
    /// None where nobody was told of the start.
    event: Option<TraceEvent>,
}

impl<'t, L: TraceSink> Span<'t, L> {
    /// What `event` makes need not have the right phase.
    #[inline]
    pub(crate) fn start(sink: &'t L, event: impl FnOnce() -> TraceEvent) -> Self {
        let event = enabled(sink).then(event);
        if let Some(event) = event {
            sink.record(event.at(TracePhase::Start));
        }
        Self { sink, event }
    }

    /// Neither start nor stop.
    #[inline]
    pub(crate) const fn silent(sink: &'t L) -> Self {
        Self { sink, event: None }
    }
}

impl<L: TraceSink> Drop for Span<'_, L> {
    #[inline]
    fn drop(&mut self) {
        if let Some(event) = self.event {
            self.sink.record(event.at(TracePhase::Stop));
        }
    }
}
