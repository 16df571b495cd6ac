//! Sinks that are put together, and who asks whether to make an event at all.

use std::cell::Cell;
use std::sync::Arc;

use wharf_backend::Heap;
use wharf_source::HeapSource;
use wharf_sync::{NoClock, Unsync};
use wharf_tensor::{
    NoTrace, Parts, Tensor, TraceDetail, TraceEvent, TraceKind, TracePhase, TraceSink,
};

const EVENT: TraceEvent = TraceEvent::instant(TraceKind::Read, 0x40, 7);

/// Counts, while it is on.
#[derive(Default)]
struct Counter {
    count: Cell<u32>,
    off: Cell<bool>,
}

impl TraceSink for Counter {
    fn record(&self, _: TraceEvent) {
        assert!(self.enabled(), "whoever is off is not told");
        self.count.set(self.count.get() + 1);
    }
    fn enabled(&self) -> bool {
        !self.off.get()
    }
}

#[test]
fn a_pair_tells_both_as_far_as_they_are_on() {
    let (one, two) = (Counter::default(), Counter::default());
    let both = (&one, &two);
    both.record(EVENT);
    one.off.set(true);
    assert!(both.enabled());
    both.record(EVENT);
    two.off.set(true);
    assert!(!both.enabled());
    both.record(EVENT);
    assert_eq!((one.count.get(), two.count.get()), (1, 2));
    let three = ((&one, &two), NoTrace);
    assert!(!three.enabled());
    one.off.set(false);
    assert!(three.enabled());
    three.record(EVENT);
    assert_eq!((one.count.get(), two.count.get()), (2, 2));
}

#[test]
fn perhaps_somebody_is_told() {
    let counter = Counter::default();
    assert!(!None::<&Counter>.enabled());
    None::<&Counter>.record(EVENT);
    let some = Some(&counter);
    assert!(some.enabled());
    some.record(EVENT);
    assert_eq!(counter.count.get(), 1);
    counter.off.set(true);
    assert!(!some.enabled());
}

#[test]
fn nobody_is_asked_through_references() {
    assert!(!NoTrace.enabled() && !(&&NoTrace).enabled());
    let erased: Arc<dyn TraceSink> = Arc::new(NoTrace);
    assert!(!erased.enabled());
    erased.record(EVENT);
}

#[test]
fn a_sink_that_is_off_is_told_nothing_and_one_that_is_switched_gets_whole_pairs() {
    #[expect(
        clippy::arc_with_non_send_sync,
        reason = "`Arc` is the counted reference of sinks"
    )]
    let counter = Arc::new(Counter::default());
    type Watched = Parts<Heap<Unsync>, HeapSource, NoClock, Arc<Counter>>;
    let target = Watched::with(HeapSource, NoClock, counter.clone());
    counter.off.set(true);
    let tensor = Tensor::alloc(&target, Heap::new(), 8).unwrap();
    tensor.fill(1).unwrap();
    tensor.read(0, &mut [0; 8]).unwrap();
    assert_eq!(counter.count.get(), 0);
    counter.off.set(false);
    tensor.write(0, &[2; 8]).unwrap();
    assert_eq!(counter.count.get(), 2);
    counter.off.set(true);
    drop(tensor);
    assert_eq!(counter.count.get(), 2);
}

#[test]
fn a_person_can_read_an_event() {
    let show = |event: TraceEvent| event.to_string();
    assert_eq!(show(EVENT), "read: 7 bytes of storage 0x40");
    let free = TraceEvent::instant(TraceKind::Free, 0x40, 7);
    let left = TraceDetail::Left { accesses: 2 };
    assert_eq!(
        show(free.with(left)),
        "free: 7 bytes of storage 0x40, kept by 2 device accesses"
    );
    let (reads, writes) = (1, 3);
    let blocked = TraceEvent::instant(TraceKind::Blocked, 0x40, 7)
        .at(TracePhase::Start)
        .with(TraceDetail::Pending { reads, writes });
    assert_eq!(
        show(blocked),
        "blocked starts: 7 bytes of storage 0x40, for 1 device reads and 3 device writes"
    );
    let memory = TraceDetail::Memory(wharf_backend::MemSpace::Device);
    let asked = TraceEvent::instant(TraceKind::MemoryAlloc, 0, 9).at(TracePhase::Stop);
    assert_eq!(
        show(asked.with(memory)),
        "memory alloc stops: 9 bytes, on a device"
    );
    let (stream, sequence) = (4, 12);
    let launched = TraceEvent::instant(TraceKind::Launched, 0, u64::MAX)
        .with(TraceDetail::Launch { stream, sequence });
    assert_eq!(
        show(launched),
        "launched: 18446744073709551615 bytes, #12 on stream 4"
    );
}
