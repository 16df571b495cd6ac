//! A backend that tells what it does.
#![allow(
    unsafe_code,
    reason = "implements the unsafe traits by handing everything on"
)]

use core::fmt;
use core::ptr::NonNull;

use super::hand_on::hand_on;
use crate::{AllocError, AllocHint, Caps, Header, MemBackend, TransferError};

/// What a [`BackendEvent`] is about. Numbered as in the trace of `wharf-tensor`, where that knows the same thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
#[non_exhaustive]
pub enum BackendEventKind {
    /// Bytes are copied out of a segment.
    CopyOut = 9,
    /// Bytes are copied into a segment.
    CopyIn = 10,
    /// Bytes of a segment are set.
    Fill = 11,
    /// A segment is asked for.
    Vend = 27,
    /// A segment goes back.
    Reclaim = 28,
}

/// Where in its life an event is, and how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum BackendEventPhase {
    /// It begins.
    Start,
    /// It is done. Every start is followed by its own `Done`, `Refused`, `Failed` or `Unwound`.
    Done,
    /// No segment: the backend refused. Its cause is told by [`Why`](Self::Why), once somebody asks.
    Refused,
    /// The bytes did not move.
    Failed(TransferError),
    /// The backend panicked.
    Unwound,
    /// Why a segment was refused; without a start of its own.
    Why(AllocError),
}

/// Something that a backend does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct BackendEvent {
    /// What.
    pub kind: BackendEventKind,
    /// Start or end.
    pub phase: BackendEventPhase,
    /// Which segment: the address of its control block, which is its own while it lives. Zero where there is none.
    pub segment: usize,
    /// Where in the segment; zero where that says nothing.
    pub offset: usize,
    /// How many bytes.
    pub bytes: usize,
    /// The wish with which a segment was asked for; none elsewhere.
    pub hint: AllocHint,
}

/// Is told of every event of a [`Traced`] backend, on whatever context it happens, outside of any critical section. It must
/// not use the backend that it is told about, or it is told for ever.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be told what a backend does",
    note = "implement `BackendSink`, or pass a `Fn(BackendEvent)`"
)]
pub trait BackendSink {
    /// An event.
    fn record(&self, event: BackendEvent);
}

impl<F: Fn(BackendEvent)> BackendSink for F {
    fn record(&self, event: BackendEvent) {
        self(event);
    }
}

/// A wrapper around a backend that tells a sink of every vend, refusal, reclaim and transfer, when it begins and how it ended.
///
/// ```
/// use core::cell::Cell;
/// use wharf_backend::{BackendExt, StaticPool, Traced};
/// use wharf_backend::wrap::{BackendEvent, BackendEventKind, BackendEventPhase};
/// use wharf_sync::Unsync;
///
/// let refused = Cell::new(0);
/// let sink = |event: BackendEvent| {
///     if event.phase == BackendEventPhase::Refused {
///         refused.set(refused.get() + 1);
///     }
/// };
/// let pool = Traced::new(StaticPool::<Unsync, 64, 4>::new(), sink);
/// assert!(pool.alloc(65).is_err());
/// assert_eq!(refused.get(), 1);
/// ```
///
/// Every transfer is told, so each is one: a batch moves range by range, and a copy inside a device goes through the host.
/// Bytes that a handle lends (`&mut [u8]`) move without being told of, and so do the cache hooks. What an outer wrapper does to
/// a segment (a [`Scrub`](super::Scrub) that fills, say) is told if it lies outside.
pub struct Traced<B, L> {
    inner: B,
    sink: L,
}

impl<B: MemBackend, L: BackendSink> Traced<B, L> {
    /// Around `inner`; `sink` is told.
    pub const fn new(inner: B, sink: L) -> Self {
        Self { inner, sink }
    }

    /// What is inside.
    #[must_use]
    pub const fn inner(&self) -> &B {
        &self.inner
    }

    /// Who is told.
    #[must_use]
    pub const fn sink(&self) -> &L {
        &self.sink
    }

    fn transfer(
        &self,
        kind: BackendEventKind,
        header: NonNull<Header<B::Policy>>,
        (offset, bytes): (usize, usize),
        step: impl FnOnce() -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        let mut span = Span::start(&self.sink, kind, bytes);
        span.event.offset = offset;
        span.event.segment = header.addr().get();
        span.begin();
        let moved = step();
        span.event.phase = match moved {
            Ok(()) => BackendEventPhase::Done,
            Err(error) => BackendEventPhase::Failed(error),
        };
        moved
    }
}

impl<B: MemBackend, L> fmt::Debug for Traced<B, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traced")
            .field("backend", &self.inner.name())
            .finish_non_exhaustive()
    }
}

/// Something that has begun. That it ended is told when this is dropped, whatever the way out: so they balance.
struct Span<'t, L: BackendSink> {
    sink: &'t L,
    event: BackendEvent,
}

impl<'t, L: BackendSink> Span<'t, L> {
    const fn start(sink: &'t L, kind: BackendEventKind, bytes: usize) -> Self {
        let event = BackendEvent {
            kind,
            phase: BackendEventPhase::Unwound,
            segment: 0,
            offset: 0,
            bytes,
            hint: AllocHint::NONE,
        };
        Self { sink, event }
    }

    fn begin(&self) {
        self.sink.record(BackendEvent {
            phase: BackendEventPhase::Start,
            ..self.event
        });
    }
}

impl<L: BackendSink> Drop for Span<'_, L> {
    fn drop(&mut self) {
        self.sink.record(self.event);
    }
}

// SAFETY: every header comes from `inner` and goes back to it, and the wrapper moves only with it.
unsafe impl<B: MemBackend, L: BackendSink> MemBackend for Traced<B, L> {
    type Policy = B::Policy;

    // Nothing is in reach: so no bytes of its segments move but by the transfers below, one by one, each told of.
    hand_on! {
        [inner];
        except vend refusal reclaim caps copy_in copy_out fill reaches copy_on_device transfer_all
    }

    /// Without [`Caps::PLAIN_COPIES`]: the sink is told of every transfer.
    fn caps(&self) -> Caps {
        self.inner.caps().difference(Caps::PLAIN_COPIES)
    }

    fn vend(&self, size: usize, hint: AllocHint) -> Option<NonNull<Header<B::Policy>>> {
        let mut span = Span::start(&self.sink, BackendEventKind::Vend, size);
        span.event.hint = hint;
        span.begin();
        let vended = self.inner.vend(size, hint);
        span.event.phase = match vended {
            Some(header) => {
                span.event.segment = header.addr().get();
                BackendEventPhase::Done
            }
            None => BackendEventPhase::Refused,
        };
        vended
    }

    fn refusal(&self, size: usize, hint: AllocHint) -> AllocError {
        let why = self.inner.refusal(size, hint);
        self.sink.record(BackendEvent {
            kind: BackendEventKind::Vend,
            phase: BackendEventPhase::Why(why),
            segment: 0,
            offset: 0,
            bytes: size,
            hint,
        });
        why
    }

    unsafe fn reclaim(&self, header: NonNull<Header<B::Policy>>) {
        // SAFETY: live until we hand it on.
        let len = unsafe { header.as_ref() }.len();
        let mut span = Span::start(&self.sink, BackendEventKind::Reclaim, len);
        span.event.segment = header.addr().get();
        span.begin();
        // SAFETY: as the caller promises.
        unsafe { self.inner.reclaim(header) };
        span.event.phase = BackendEventPhase::Done;
    }

    unsafe fn copy_in(
        &self,
        header: NonNull<Header<B::Policy>>,
        offset: usize,
        source: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        self.transfer(BackendEventKind::CopyIn, header, (offset, len), || {
            // SAFETY: as the caller promises.
            unsafe { self.inner.copy_in(header, offset, source, len) }
        })
    }

    unsafe fn copy_out(
        &self,
        header: NonNull<Header<B::Policy>>,
        offset: usize,
        destination: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        self.transfer(BackendEventKind::CopyOut, header, (offset, len), || {
            // SAFETY: as the caller promises.
            unsafe { self.inner.copy_out(header, offset, destination, len) }
        })
    }

    unsafe fn fill(
        &self,
        header: NonNull<Header<B::Policy>>,
        offset: usize,
        len: usize,
        byte: u8,
    ) -> Result<(), TransferError> {
        self.transfer(BackendEventKind::Fill, header, (offset, len), || {
            // SAFETY: as the caller promises.
            unsafe { self.inner.fill(header, offset, len, byte) }
        })
    }
}
