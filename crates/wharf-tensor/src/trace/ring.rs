//! The last events, in memory that was there before.

use core::cell::Cell;
use core::fmt;
use core::time::Duration;

use wharf_sync::{Clock, ConstInit, Lock, NoClock, SyncPolicy};

use super::{TraceEvent, TraceSink};

/// An event with the time, as a [`TraceRing`] keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TraceRecord {
    /// The number of the event, counted from zero. A gap to the one before says how many were lost between them.
    pub number: u64,
    /// By the ring's clock. Read before the event got its number, so where contexts interrupt each other a later number may
    /// have an earlier time.
    pub at: Duration,
    /// What happened.
    pub event: TraceEvent,
}

/// The last `N` events, until somebody drains them.
///
/// It allocates nothing. Where it is full the oldest event makes room, because what came before a fault is what one looks
/// for after it; how many were lost is [counted](Self::dropped), and shows as a gap in the numbers. So a stop may be left
/// whose start was lost, never the other way round.
///
/// Under `Critical` it may be told and drained in interrupt handlers. An event costs a reading of the clock and
/// one short section; a slot is 64 bytes.
///
/// As a `static` it lies in `.bss` and costs no start-up code (without a clock of its own that needs some):
///
/// ```
/// # #[cfg(feature = "critical-section")] {
/// use wharf_sync::Critical;
/// use wharf_tensor::{TraceEvent, TraceKind, TraceRing, TraceSink};
///
/// static TRACE: TraceRing<Critical, 2> = TraceRing::empty();
///
/// // What tensors do whose target has `&TRACE` as its sink.
/// for bytes in [10, 20, 30] {
///     TRACE.record(TraceEvent::instant(TraceKind::Alloc, 0x40, bytes));
/// }
/// let kept: Vec<_> = TRACE.drain().map(|record| (record.number, record.event.bytes)).collect();
/// assert_eq!(kept, [(1, 20), (2, 30)]);
/// assert_eq!((TRACE.recorded(), TRACE.dropped(), TRACE.len()), (3, 1, 0));
/// # }
/// ```
pub struct TraceRing<P: SyncPolicy, const N: usize, C = NoClock> {
    state: P::Lock<TraceRingState<N>>,
    clock: C,
}

/// The part of a ring that its lock guards. Opaque; public because the bounds of a `const` ring name it.
// Cells, because sections may nest. All zero bytes while it is empty, but for those without a meaning.
pub struct TraceRingState<const N: usize> {
    slots: [Cell<Slot>; N],
    /// The slot that the next event goes to, below `N`.
    at: Cell<usize>,
    /// Events that are there: at most `N`.
    len: Cell<usize>,
    /// The number of the next event.
    next: Cell<u64>,
    dropped: Cell<u64>,
}

/// An option that is zero bytes when it is empty; a niche would not see to that.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Slot {
    Empty = 0,
    Full(Duration, TraceEvent) = 1,
}

impl<const N: usize> ConstInit for TraceRingState<N> {
    const INIT: Self = Self {
        slots: [const { Cell::new(Slot::Empty) }; N],
        at: Cell::new(0),
        len: Cell::new(0),
        next: Cell::new(0),
        dropped: Cell::new(0),
    };
}

impl<const N: usize> TraceRingState<N> {
    fn push(&self, at: Duration, event: TraceEvent) {
        self.next.set(self.next.get() + 1);
        if self.len.get() == N {
            self.dropped.set(self.dropped.get() + 1);
        } else {
            self.len.set(self.len.get() + 1);
        }
        let index = self.at.get();
        if let Some(slot) = self.slots.get(index) {
            slot.set(Slot::Full(at, event));
            self.at.set(if index + 1 == N { 0 } else { index + 1 });
        }
    }

    /// The oldest, if its number is below `end`.
    fn pop(&self, end: u64) -> Option<TraceRecord> {
        let len = self.len.get();
        let number = self.next.get() - len as u64;
        if len == 0 || number >= end {
            return None;
        }
        let newest = self.at.get();
        let index = if len <= newest {
            newest - len
        } else {
            newest + N - len
        };
        self.len.set(len - 1);
        match self.slots.get(index)?.replace(Slot::Empty) {
            Slot::Full(at, event) => Some(TraceRecord { number, at, event }),
            Slot::Empty => None,
        }
    }
}

impl<const N: usize> fmt::Debug for TraceRingState<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceRingState")
            .field("len", &self.len.get())
            .field("recorded", &self.next.get())
            .field("dropped", &self.dropped.get())
            .finish_non_exhaustive()
    }
}

impl<P: SyncPolicy, const N: usize> TraceRing<P, N> {
    /// Without events and without times. Where a `const` is needed, see [`empty`](Self::empty).
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(NoClock)
    }

    /// Without events and without times, for a `static`.
    #[must_use]
    pub const fn empty() -> Self
    where
        P::Lock<TraceRingState<N>>: ConstInit,
    {
        Self::empty_with_clock(NoClock)
    }
}

impl<P: SyncPolicy, const N: usize, C> TraceRing<P, N, C> {
    /// Without events. `clock` tells their times.
    #[must_use]
    pub fn with_clock(clock: C) -> Self {
        Self {
            state: Lock::new(ConstInit::INIT),
            clock,
        }
    }

    /// Without events, for a `static`. `clock` tells their times.
    #[must_use]
    pub const fn empty_with_clock(clock: C) -> Self
    where
        P::Lock<TraceRingState<N>>: ConstInit,
    {
        Self {
            state: ConstInit::INIT,
            clock,
        }
    }

    /// Events that are there.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.with(|state| state.len.get())
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Events that it was told of: the number of the next one.
    #[must_use]
    pub fn recorded(&self) -> u64 {
        self.state.with(|state| state.next.get())
    }

    /// Events that made room before anybody drained them.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.state.with(|state| state.dropped.get())
    }

    /// Takes the oldest event out. One short section.
    pub fn pop(&self) -> Option<TraceRecord> {
        self.state.with(|state| state.pop(u64::MAX))
    }

    /// Takes the events out that are there now, oldest first. One short section each, so others may go on meanwhile: what they
    /// record is for the next drain, and what they overwrite is missing from this one. What it is not asked for stays.
    pub fn drain(&self) -> TraceDrain<'_, P, N, C> {
        TraceDrain {
            ring: self,
            end: self.recorded(),
        }
    }
}

impl<P: SyncPolicy, const N: usize> Default for TraceRing<P, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: SyncPolicy, const N: usize, C: Clock> TraceSink for TraceRing<P, N, C> {
    fn record(&self, event: TraceEvent) {
        // Outside of the section: a clock is code of others.
        let at = self.clock.now();
        self.state.with(|state| state.push(at, event));
    }
}

impl<P: SyncPolicy, const N: usize, C> fmt::Debug for TraceRing<P, N, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceRing")
            .field("policy", &P::NAME)
            .field("slots", &N)
            .field("len", &self.len())
            .field("recorded", &self.recorded())
            .field("dropped", &self.dropped())
            .finish_non_exhaustive()
    }
}

/// Takes events out of a ring: see [`TraceRing::drain`].
#[must_use = "a drain takes nothing out until it is iterated"]
pub struct TraceDrain<'r, P: SyncPolicy, const N: usize, C> {
    ring: &'r TraceRing<P, N, C>,
    end: u64,
}

impl<P: SyncPolicy, const N: usize, C> Iterator for TraceDrain<'_, P, N, C> {
    type Item = TraceRecord;

    fn next(&mut self) -> Option<TraceRecord> {
        self.ring.state.with(|state| state.pop(self.end))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.ring.len()))
    }
}

impl<P: SyncPolicy, const N: usize, C> fmt::Debug for TraceDrain<'_, P, N, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceDrain")
            .field("ring", &self.ring)
            .field("end", &self.end)
            .finish()
    }
}
