//! Events as log lines of a firmware.

use super::{TraceEvent, TraceSink};

/// Every event becomes a [`defmt`] line at level `trace`. For a few events a second; where there are more, a
/// [`TraceRing`](super::TraceRing) costs less.
///
/// ISR-safe if the program's logger is, which `defmt` demands of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, defmt::Format)]
pub struct DefmtTrace;

impl TraceSink for DefmtTrace {
    #[inline]
    fn record(&self, event: TraceEvent) {
        defmt::trace!("{}", event);
    }
}
