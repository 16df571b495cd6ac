//! The suites of tensors on what only a host has, and as a firmware has it: in statics.

use std::sync::Arc;

use wharf_backend::{Align32, BorrowedBackend, Heap, SharedBytes, StaticPool};
use wharf_conformance::{
    Balance, EngineClaims, Printer, Tally, copies, launch, read_only, relay, rope, tensor, view,
};
use wharf_engine::{CpuEngine, StaticCpuEngine, Stream};
use wharf_source::{HeapSource, StaticPoolSource};
use wharf_sync::{Blocking, Critical, NoClock, StdClock, Unsync};
use wharf_tensor::{Directory, Hosted, NoTrace, Parts, Tickets};

/// Prints what `suite` reports in one piece, and judges it.
fn conforms(suite: impl FnOnce(&mut Printer<String>) -> Tally) {
    let mut report = Printer::new(String::new());
    let tally = suite(&mut report);
    let report = report.finish().expect("a string takes every line");
    println!("\n{report}");
    assert!(tally.is_clean(), "{tally}");
}

const INLINE: EngineClaims = EngineClaims {
    apart: false,
    unreachable: None,
};

/// A memory whose type is known, and everything in statics: nothing of the target is behind `dyn`.
#[test]
fn statics() {
    type Names = Directory<Critical, &'static Blocks>;
    type Blocks = StaticPoolSource<Critical, 4096, 16>;
    type Frames = StaticPool<Critical, 64, 4, Align32>;
    type Typed = Parts<&'static Frames, &'static Blocks, NoClock, &'static Balance, &'static Names>;

    static FRAMES: Frames = StaticPool::new();
    static BLOCKS: Blocks = StaticPoolSource::new();
    // `tensor` leaves no room in its source for blocks of other suites.
    static MORE: Blocks = StaticPoolSource::new();
    static NAMES: Names = Directory::new();
    static TRACE: Balance = Balance::new();
    static CPU: StaticCpuEngine<Critical, Tickets<Typed>, 4> = StaticCpuEngine::new();

    conforms(|report| {
        let target = Typed::with_directory(&BLOCKS, NoClock, &TRACE, &NAMES);
        let mut tally = tensor("static StaticPool", &target, &FRAMES, report);
        let cpu = CPU.get().expect("a test has few streams");
        let target = Typed::with_directory(&MORE, NoClock, &TRACE, &NAMES);
        let name = "static CpuEngine";
        tally.add(launch(name, &target, &FRAMES, cpu, INLINE, report));
        tally.add(view("View<&'static StaticPool>", &FRAMES, report));
        tally.add(rope("Rope<&'static StaticPool>", &FRAMES, report));
        tally
    });
    assert!(TRACE.is_even());
}

/// The target of a hosted program: counted memory, the system's clock.
#[test]
fn hosted() {
    conforms(|report| {
        let target = Hosted::default();
        let heap = Arc::new(Heap::<Blocking>::new());
        let mut tally = tensor("HeapBackend", &target, heap.clone(), report);
        let stream = Stream::claim().expect("a test has few streams");
        let cpu = CpuEngine::<Blocking, Tickets<Hosted>>::new(stream);
        let name = "CpuEngine on the heap";
        tally.add(launch(name, &target, heap.clone(), &cpu, INLINE, report));
        let stream = Stream::claim().expect("a test has few streams");
        let second = CpuEngine::<Blocking, Tickets<Hosted>>::new(stream);
        let (name, engines) = ("CpuEngines on the heap", (&cpu, &second));
        tally.add(relay(name, &target, heap.clone(), engines, INLINE, report));
        let flash = Arc::new(BorrowedBackend::<_, Blocking>::fresh(SharedBytes::new(
            b"weights",
        )));
        let lend = || BorrowedBackend::lend_by(flash.clone());
        let name = "Arc<BorrowedShared>";
        tally.add(read_only(
            name,
            &target,
            heap.clone(),
            lend,
            b"weights",
            report,
        ));
        let pool = Arc::new(StaticPool::<Blocking, 300, 2>::new());
        let name = "HeapBackend, StaticPool";
        tally.add(copies(name, &target, heap.clone(), pool, report));
        tally.add(view("View<Heap>", Heap::<Blocking>::new(), report));
        tally.add(rope("Rope<Heap>", Heap::<Blocking>::new(), report));
        tally
    });
}

/// No directory, no clock, no trace.
#[test]
fn bare() {
    type Bare = Parts<Heap<Unsync>, HeapSource>;
    type Timed = Parts<Heap<Unsync>, HeapSource, StdClock>;

    conforms(|report| {
        let bare = Bare::new(HeapSource);
        let mut tally = tensor("HeapBackend", &bare, Heap::new(), report);
        let timed = Timed::with(HeapSource, StdClock::new(), NoTrace);
        let name = "HeapBackend, timed";
        tally.add(tensor(name, &timed, Heap::new(), report));
        tally
    });
}
