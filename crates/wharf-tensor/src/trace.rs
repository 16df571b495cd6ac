//! What happened, for whoever wants to know.

#[cfg(feature = "std")]
mod chrome;
mod event;
#[cfg(feature = "std")]
mod json;
#[cfg(feature = "defmt")]
mod log;
mod ring;
mod sink;
mod span;

#[cfg(feature = "std")]
pub use chrome::{ChromeSummary, ChromeTrace};
pub use event::{TraceDetail, TraceEvent, TraceKind, TracePhase};
#[cfg(feature = "defmt")]
pub use log::DefmtTrace;
pub use ring::{TraceDrain, TraceRecord, TraceRing, TraceRingState};
pub(crate) use sink::tell;
pub use sink::{NoTrace, TraceSink};
pub(crate) use span::Span;
