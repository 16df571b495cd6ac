//! Launches on engines that break a law each, and under clocks and policies that do.
//!
//! No undefined behaviour arises from any of them: an engine that lets go too early runs on the context of the test, and on memory of a
//! pool that stays for ever, where it finds a slot that may be another's by then.

use wharf_backend::{Heap, HeapBackend, StaticPool};
use wharf_conformance::{EngineClaims, launch, relay};
use wharf_engine::{CpuEngine, Stream};
use wharf_source::HeapSource;
use wharf_sync::{Blocking, Unsync};
use wharf_tensor::{NoTrace, Parts, Tickets};

use crate::Failures;
use crate::engines::{Faulty, Wrong, served};
use crate::tensors::{Deaf, Fickle};

type Frames = StaticPool<Unsync, 64, 16>;
type Sketch = Parts<&'static Frames, HeapSource>;

fn frames() -> &'static Frames {
    Box::leak(Box::new(Frames::new()))
}

fn claiming(wrong: Wrong, apart: bool) -> Failures {
    // For ever, because a broken one may keep what it was given.
    let faulty: &_ = Box::leak(Box::new(Faulty::<Tickets<Sketch>>::new(wrong)));
    let mut report = Failures::default();
    let target = Sketch::new(HeapSource);
    let claims = EngineClaims {
        apart,
        unreachable: None,
    };
    let tally = launch("faulty", &target, frames(), faulty, claims, &mut report);
    assert_eq!(tally.failed as usize, report.failed.len());
    report
}

fn suite(wrong: Wrong) -> Failures {
    claiming(wrong, false)
}

/// On a thread of its own.
fn apart(never_aborts: bool) -> Failures {
    type Threads = Parts<&'static HeapBackend<Blocking>, HeapSource>;
    let mut report = Failures::default();
    served::<Tickets<Threads>, _>(never_aborts, false, |apart| {
        let claims = EngineClaims {
            apart: true,
            unreachable: None,
        };
        let target = Threads::new(HeapSource);
        let heap: &HeapBackend<Blocking> = Box::leak(Box::default());
        let _ = launch("apart", &target, heap, apart, claims, &mut report);
    });
    report
}

const THROUGH: &str = "a copy goes through other memory";
const THROUGH_AWAITED: &str = "a copy through other memory is awaited";

/// From one engine to another.
fn between(reader: Wrong, writer: Wrong) -> Failures {
    let engine = |wrong| &*Box::leak(Box::new(Faulty::<Tickets<Sketch>>::new(wrong)));
    let mut report = Failures::default();
    let target = Sketch::new(HeapSource);
    let engines = (engine(reader), engine(writer));
    let claims = EngineClaims::default();
    let _ = relay("faulty", &target, frames(), engines, claims, &mut report);
    report
}

#[test]
fn a_broken_end_of_a_relay_is_found() {
    between(Wrong::Nothing, Wrong::Nothing).none();
    for wrong in [Wrong::CopiesNothing, Wrong::Never] {
        for report in [
            between(wrong, Wrong::Nothing),
            between(Wrong::Nothing, wrong),
        ] {
            report.name(THROUGH);
            report.name(THROUGH_AWAITED);
        }
    }
}

#[test]
fn every_broken_law_of_launches_is_found() {
    suite(Wrong::Nothing).none();
    apart(false).none();
    let laws = [
        (Wrong::SwapsOperands, "a command runs on its tensors"),
        (
            Wrong::CopiesNothing,
            "a command touches its windows and nothing else",
        ),
        (
            Wrong::FillsOneMore,
            "a command touches its windows and nothing else",
        ),
        (Wrong::Backwards, "launches run in their order"),
        (
            Wrong::CopiesNothing,
            "operands of other streams are not had",
        ),
        (Wrong::LosesCargo, "how it ended is told once"),
        (
            Wrong::HidesFaults,
            "a fault reaches its submission and no other",
        ),
        (Wrong::HidesFaults, "only what ended well is counted"),
        (Wrong::AbortsLanded, "what has ended is not taken back"),
        (Wrong::Never, "a launch needs its tensors no more"),
        (Wrong::KeepsDetached, "a full queue is a value"),
        (Wrong::OneSlotLess, "a full queue is a value"),
        (
            Wrong::ForgetsDetached,
            "a submission that is dropped is finished",
        ),
        (Wrong::LosesCargo, "a submission is kept by its number"),
        (Wrong::CopiesNothing, THROUGH),
        (Wrong::CopiesNothing, THROUGH_AWAITED),
        (
            Wrong::CopiesNothing,
            "a copy through that is dropped leaves nothing behind",
        ),
    ];
    for (wrong, law) in laws {
        suite(wrong).name(law);
    }
    let early = "operands are the engine's until it lets go";
    claiming(Wrong::LandsEarly, true).name(early);
    let aborts = "what has not started is taken back";
    apart(true).name(aborts);

    let mut report = Failures::default();
    let stream = || Stream::claim().expect("a test has few streams");
    type Silent = Parts<Heap<Deaf>, HeapSource>;
    let target = Silent::new(HeapSource);
    let cpu = CpuEngine::<Deaf, Tickets<Silent>>::new(stream());
    let claims = EngineClaims::default();
    let _ = launch("deaf", &target, Heap::new(), &cpu, claims, &mut report);
    let woken = "a launch waits for its operands in a task";
    report.name(woken);

    let mut report = Failures::default();
    type Odd = Parts<Heap<Unsync>, HeapSource, Fickle>;
    let target = Odd::with(HeapSource, Fickle::new(true, 1), NoTrace);
    let cpu = CpuEngine::<Unsync, Tickets<Odd>>::new(stream());
    let _ = launch("fickle", &target, Heap::new(), &cpu, claims, &mut report);
    let deadline = "a launch has a deadline";
    report.name(deadline);

    let mut seen = laws.map(|(_, law)| law).to_vec();
    seen.extend([early, aborts, woken, deadline]);
    let layer = [
        "what cannot be launched holds nothing",
        "a launch that is dropped leaves nothing behind",
        "what cannot go through is left as it was",
    ];
    suite(Wrong::Nothing).all_covered(&seen, &layer);
}
