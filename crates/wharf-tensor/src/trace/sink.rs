//! Who is told.

use super::TraceEvent;

/// Is told of every event, on whatever context it happens, an interrupt handler included if tickets end in one. It must not call
/// back into the tensor or the engine that it is told about.
///
/// A sink that panics breaks nothing, and the call it was told of unwinds; but one that panics again while that happens
/// aborts the program, as any destructor would.
///
/// Sinks combine: `(A, B)` tells both, [`Option`] perhaps, a reference and an `Arc` whoever is behind them.
///
/// ```
/// # use wharf_backend::Heap;
/// # use wharf_source::HeapSource;
/// use core::cell::Cell;
/// use wharf_sync::{NoClock, Unsync};
/// use wharf_tensor::{Parts, Tensor, TraceEvent, TraceKind, TracePhase, TraceRing, TraceSink};
///
/// /// Counts the bytes that were written.
/// struct Written(Cell<u64>);
///
/// impl TraceSink for Written {
///     fn record(&self, event: TraceEvent) {
///         if (event.kind, event.phase) == (TraceKind::Write, TracePhase::Stop) {
///             self.0.set(self.0.get() + event.bytes);
///         }
///     }
/// }
///
/// type Sinks = (&'static Written, Option<&'static TraceRing<Unsync, 8>>);
/// type Sketch = Parts<Heap<Unsync>, HeapSource, NoClock, Sinks>;
/// let written: &Written = Box::leak(Box::new(Written(Cell::new(0))));
/// let target = Sketch::with(HeapSource, NoClock, (written, None));
/// Tensor::alloc(&target, Heap::new(), 64)?.write(3, b"twelve bytes")?;
/// assert_eq!(written.0.get(), 12);
/// # Ok::<(), wharf_tensor::TensorError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be told what tensors do",
    note = "implement `TraceSink`; a target keeps it by value, so share a large one behind `&'static` or `Arc`"
)]
pub trait TraceSink {
    /// An event.
    fn record(&self, event: TraceEvent);

    /// Whether anybody would look at an event. Where not, none need be made: [`record`](Self::record) is not called. The answer may
    /// change, but only between a start and a stop if an unpaired event does no harm.
    #[inline]
    fn enabled(&self) -> bool {
        true
    }
}

/// Makes an event and tells it, if anybody looks. Under [`NoTrace`] nothing is left of it; and built with
/// `--cfg wharf_untraced` nothing is left of it under any sink, to show that the two are the same.
#[inline]
pub(crate) fn tell<L: TraceSink + ?Sized>(sink: &L, event: impl FnOnce() -> TraceEvent) {
    if enabled(sink) {
        sink.record(event());
    }
}

#[inline]
pub(super) fn enabled<L: TraceSink + ?Sized>(sink: &L) -> bool {
    cfg!(not(wharf_untraced)) && sink.enabled()
}

/// Nobody is told; compiles to nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NoTrace;

impl TraceSink for NoTrace {
    #[inline]
    fn record(&self, _: TraceEvent) {}
    #[inline]
    fn enabled(&self) -> bool {
        false
    }
}

impl<L: TraceSink + ?Sized> TraceSink for &L {
    fn record(&self, event: TraceEvent) {
        (**self).record(event);
    }
    fn enabled(&self) -> bool {
        (**self).enabled()
    }
}

#[cfg(feature = "std")]
impl<L: TraceSink + ?Sized> TraceSink for std::sync::Arc<L> {
    fn record(&self, event: TraceEvent) {
        (**self).record(event);
    }
    fn enabled(&self) -> bool {
        (**self).enabled()
    }
}

/// Whoever is there is told.
impl<L: TraceSink> TraceSink for Option<L> {
    fn record(&self, event: TraceEvent) {
        if let Some(sink) = self {
            sink.record(event);
        }
    }
    fn enabled(&self) -> bool {
        self.as_ref().is_some_and(L::enabled)
    }
}

/// Both are told, the first one first.
impl<A: TraceSink, B: TraceSink> TraceSink for (A, B) {
    fn record(&self, event: TraceEvent) {
        if self.0.enabled() {
            self.0.record(event);
        }
        if self.1.enabled() {
            self.1.record(event);
        }
    }
    fn enabled(&self) -> bool {
        self.0.enabled() || self.1.enabled()
    }
}
