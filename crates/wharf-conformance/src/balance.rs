//! A sink for traces that knows whether they add up.

use wharf_sync::{AtomicWord, ConstInit, Word};
use wharf_tensor::{TraceEvent, TraceKind, TracePhase, TraceSink};

use crate::lease::{add, subtract};

/// More than the numbers of kinds, modulo 64.
const KINDS: usize = 36;

/// Counts what begins and what ends: a [`TraceSink`] for a target that is under test, as `&'static` or, on hosts, in an `Arc`.
///
/// ```
/// use std::sync::Arc;
/// use wharf_backend::Heap;
/// use wharf_conformance::{Balance, tensor};
/// use wharf_source::HeapSource;
/// use wharf_sync::{NoClock, Unsync};
/// use wharf_tensor::Parts;
///
/// let trace = Arc::new(Balance::new());
/// let target = Parts::<Heap<Unsync>, _, _, _>::with(HeapSource, NoClock, trace.clone());
/// assert!(tensor("mine", &target, Heap::new(), &mut ()).is_clean());
/// assert!(trace.is_even());
/// ```
#[derive(Debug)]
pub struct Balance {
    /// Starts without a stop so far, by kind.
    open: [AtomicWord; KINDS],
    /// Stops without a start.
    stray: AtomicWord,
    /// Storages that came to be, and have not gone.
    storages: AtomicWord,
    seen: AtomicWord,
}

impl Balance {
    /// Nothing has happened.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            open: [const { AtomicWord::INIT }; KINDS],
            stray: AtomicWord::INIT,
            storages: AtomicWord::INIT,
            seen: AtomicWord::INIT,
        }
    }

    /// Whether every start had a stop of its kind behind it, every storage that came to be has gone, and there was something at
    /// all.
    #[must_use]
    pub fn is_even(&self) -> bool {
        let ended = self.open.iter().all(|open| open.load() == 0);
        let paired = self.stray.load() == 0 && self.storages.load() == 0;
        ended && paired && self.seen.load() > 0
    }
}

impl Default for Balance {
    fn default() -> Self {
        Self::new()
    }
}

impl TraceSink for Balance {
    fn record(&self, event: TraceEvent) {
        add(&self.seen, 1);
        let open = self.open.get(usize::from(event.kind as u8 % 64));
        match (event.phase, event.kind, open) {
            (TracePhase::Start, _, Some(open)) => add(open, 1),
            (TracePhase::Stop, _, Some(open)) => {
                if open.update(|count| count.checked_sub(1)).is_err() {
                    add(&self.stray, 1);
                }
            }
            (TracePhase::Instant, TraceKind::Alloc, _) => add(&self.storages, 1),
            (TracePhase::Instant, TraceKind::Free, _) => subtract(&self.storages, 1),
            (TracePhase::Instant, _, Some(_)) => {}
            // A kind that is not known here.
            (_, _, None) => add(&self.stray, 1),
        }
    }
}
