//! Engines that break a law each, over the queue of the CPU engine, and one that breaks none but runs
//! apart.
//!
//! No undefined behaviour arises from any of them: operands are touched only before their cargo has landed.
#![allow(unsafe_code, reason = "implements the unsafe trait, wrongly")]

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use wharf_backend::{Heap, StaticPool};
use wharf_conformance::{EngineClaims, Parcel, Tally, engine, engine_unwinding};
use wharf_engine::{
    Cargo, Command, Completion, Descriptor, DescriptorQueue, Engine, Fault, Returned, Sequence,
    Stream, StreamId, SubmitError, run_on_host,
};
use wharf_sync::{Blocking, Clock, Event, NoClock, StdClock, SyncPolicy, Unsync};

use crate::Failures;

type Queue<P, C = Parcel> = DescriptorQueue<P, C, 4>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    Nothing,
    Backwards,
    LandsTwice,
    LosesCargo,
    HidesFaults,
    Silent,
    FillsOneMore,
    CopiesNothing,
    KeepsDetached,
    OneSlotLess,
    GivesTwice,
    ReachesAll,
    SwapsOperands,
    SkipsEmpty,
    AbortsLanded,
    ForgetsOutstanding,
    Never,
    ForgetsDetached,
    KeepsUnwound,
    RunsUnwound,
    KeepsSlots,
    HidesPanics,
    LandsEarly,
}

/// Runs what was submitted when it is polled.
pub(crate) struct Faulty<C: Cargo = Parcel> {
    wrong: Wrong,
    stream: Stream,
    queue: Queue<Unsync, C>,
    silent: <Unsync as SyncPolicy>::Event,
    submitted: RefCell<Vec<Descriptor>>,
    given: Cell<Option<Sequence>>,
    detached: Cell<Option<Sequence>>,
    unwound: RefCell<Vec<Descriptor>>,
}

impl<C: Cargo> Faulty<C> {
    pub(crate) fn new(wrong: Wrong) -> Self {
        Self {
            wrong,
            stream: Stream::claim().expect("a test has few streams"),
            queue: Queue::new(),
            silent: <Unsync as SyncPolicy>::Event::new(),
            submitted: RefCell::default(),
            given: Cell::new(None),
            detached: Cell::new(None),
            unwound: RefCell::default(),
        }
    }

    fn carry_out(&self, descriptor: &Descriptor) -> Result<(), Fault> {
        match (self.wrong, descriptor.command()) {
            (Wrong::CopiesNothing, Command::Copy) => return Ok(()),
            (Wrong::SkipsEmpty, _) if descriptor.operands().iter().any(|o| o.len == 0) => {
                return Ok(());
            }
            (Wrong::SwapsOperands, Command::Kernel(_)) => {
                let mut swapped = descriptor.operands().to_vec();
                swapped.reverse();
                let swapped = Descriptor::new(descriptor.command(), &swapped);
                // SAFETY: as below.
                return unsafe { run_on_host(&swapped.expect("a kernel takes all")) };
            }
            (Wrong::FillsOneMore, Command::Fill(byte)) => {
                let other = Command::Fill(byte.wrapping_add(1));
                let other = Descriptor::new(other, descriptor.operands()).expect("the same shape");
                // SAFETY: as below.
                return unsafe { run_on_host(&other) };
            }
            _ => {}
        }
        // SAFETY: called before the cargo of the descriptor lands, and the suite's operands are the
        // engine's until then.
        let run = || unsafe { run_on_host(descriptor) };
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(outcome) => outcome,
            Err(_) if self.wrong == Wrong::HidesPanics => Ok(()),
            Err(_) => Err(Fault::Panicked),
        }
    }

    /// Whether a kernel panics is tried out on operands without bytes.
    fn panics(descriptor: &Descriptor) -> bool {
        let Command::Kernel(kernel) = descriptor.command() else {
            return false;
        };
        catch_unwind(|| kernel(&mut [])).is_err()
    }

    /// Takes a descriptor whose kernel panics, wrongly.
    fn unwind(&self, descriptor: Descriptor, cargo: C) -> ! {
        match self.wrong {
            Wrong::KeepsUnwound => {
                let _ = self.queue.push(descriptor.clone(), cargo);
                self.submitted.borrow_mut().push(descriptor);
            }
            Wrong::RunsUnwound => self.unwound.borrow_mut().push(descriptor),
            _ => {
                let _ = self.queue.push(descriptor, cargo);
                if let Some(job) = self.queue.next() {
                    job.finish(Err(Fault::Panicked));
                }
            }
        }
        resume_unwind(Box::new("as the kernel does"))
    }

    fn drive(&self) {
        if self.wrong == Wrong::Never {
            return;
        }
        for unwound in self.unwound.take() {
            let _ = self.carry_out(&unwound);
        }
        let mut submitted = self.submitted.take();
        if self.wrong == Wrong::Backwards {
            submitted.reverse();
        }
        let mut outcomes = submitted
            .iter()
            .map(|descriptor| self.carry_out(descriptor));
        let outcomes: Vec<_> = outcomes.by_ref().collect();
        for outcome in outcomes {
            if let Some(job) = self.queue.next() {
                let hidden = self.wrong == Wrong::HidesFaults;
                job.finish(if hidden { Ok(()) } else { outcome });
            }
        }
    }
}

// SAFETY: it keeps none of the laws but those that memory rests on: operands are touched in `drive`
// alone, before the cargo of any of them has landed.
unsafe impl<C: Cargo> Engine for Faulty<C> {
    type Policy = Unsync;
    type Cargo = C;

    fn stream(&self) -> StreamId {
        self.stream.id()
    }

    unsafe fn submit(
        &self,
        descriptor: Descriptor,
        mut cargo: C,
    ) -> Result<Sequence, Returned<C, SubmitError>> {
        let device = |operand: &wharf_engine::Operand| {
            matches!(operand.place, wharf_engine::Place::Device(_))
        };
        if let Some(operand) = descriptor.operands().iter().position(device) {
            if self.wrong == Wrong::ReachesAll {
                cargo.landed(Ok(()));
            }
            return Err(Returned::new(SubmitError::Unreachable { operand }, cargo));
        }
        let full = SubmitError::QueueFull { slots: 4 };
        if self.wrong == Wrong::OneSlotLess && self.queue.in_use() == 3 {
            return Err(Returned::new(full, cargo));
        }
        let unwinds = [Wrong::KeepsUnwound, Wrong::RunsUnwound, Wrong::KeepsSlots];
        if unwinds.contains(&self.wrong) && Self::panics(&descriptor) {
            self.unwind(descriptor, cargo);
        }
        if self.wrong == Wrong::LandsEarly {
            cargo.landed(Ok(()));
        }
        let sequence = self.queue.push(descriptor.clone(), cargo)?;
        self.submitted.borrow_mut().push(descriptor);
        Ok(sequence)
    }

    fn poll(&self, sequence: Sequence, waker: Option<&Waker>) -> Poll<Option<Completion<C>>> {
        if self.wrong == Wrong::ForgetsDetached && self.detached.get() == Some(sequence) {
            return Poll::Ready(None);
        }
        self.drive();
        let polled = self.queue.poll(sequence, waker);
        match (self.wrong, polled) {
            (Wrong::LandsTwice, Poll::Ready(Some(Ok(mut parcel)))) => {
                parcel.landed(Ok(()));
                Poll::Ready(Some(Ok(parcel)))
            }
            (Wrong::LosesCargo, Poll::Ready(Some(Ok(_)))) => Poll::Ready(None),
            (Wrong::GivesTwice, Poll::Ready(Some(completion))) => {
                self.given.set(Some(sequence));
                Poll::Ready(Some(completion))
            }
            (Wrong::GivesTwice, Poll::Ready(None)) if self.given.get() == Some(sequence) => {
                Poll::Pending
            }
            (_, polled) => polled,
        }
    }

    fn detach(&self, sequence: Sequence) {
        if self.wrong != Wrong::KeepsDetached {
            self.queue.detach(sequence);
        }
        self.detached.set(Some(sequence));
        if self.wrong != Wrong::ForgetsDetached {
            self.drive();
        }
    }

    fn abort(&self, sequence: Sequence) {
        // Nothing is at a gate but under this fault.
        if self.wrong != Wrong::LandsEarly {
            self.drive();
        }
        if self.wrong == Wrong::AbortsLanded {
            self.queue.detach(sequence);
        }
        self.queue.abort(sequence);
    }

    fn outstanding(&self) -> Option<std::ops::RangeInclusive<Sequence>> {
        if self.wrong == Wrong::ForgetsOutstanding {
            return None;
        }
        self.drive();
        self.queue.outstanding()
    }

    fn completed(&self) -> &<Unsync as SyncPolicy>::Event {
        match self.wrong {
            Wrong::Silent => &self.silent,
            _ => self.queue.completed(),
        }
    }
}

/// Drives an engine while somebody waits.
struct Driving<'e>(&'e Faulty);

impl Clock for Driving<'_> {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn idle(&self) {
        self.0.drive();
    }
}

const CLAIMS: EngineClaims = EngineClaims {
    apart: false,
    unreachable: Some(wharf_backend::MemSpace::Device),
};

fn suite(wrong: Wrong) -> Failures {
    let faulty = Faulty::new(wrong);
    let mut report = Failures::default();
    let (memory, clock) = (Heap::<Unsync>::new(), Driving(&faulty));
    let tally = engine("faulty", &faulty, memory, clock, CLAIMS, &mut report);
    assert_eq!(tally.failed as usize, report.failed.len());
    report
}

fn unwinding(wrong: Wrong) -> Failures {
    let faulty = Faulty::new(wrong);
    let mut report = Failures::default();
    // Slots that stay where they are: one of the subjects touches memory that was let go.
    #[allow(
        clippy::arc_with_non_send_sync,
        reason = "counted, not shared between threads"
    )]
    let pool = Arc::new(StaticPool::<Unsync, 16, 4>::new());
    let clock = Driving(&faulty);
    let _ = engine_unwinding("faulty", &faulty, pool, clock, CLAIMS, &mut report);
    report
}

#[test]
fn an_engine_that_does_not_let_go_when_a_kernel_panics_is_found() {
    unwinding(Wrong::Nothing).none();
    let lets_go = "a kernel that panics lets go of its operands";
    let gives_back = "a kernel that panics gives its slot back";
    for wrong in [Wrong::KeepsUnwound, Wrong::RunsUnwound, Wrong::HidesPanics] {
        unwinding(wrong).name(lets_go);
    }
    let kept = unwinding(Wrong::KeepsSlots);
    kept.name(gives_back);
    kept.all_covered(&[lets_go, gives_back], &[]);
}

#[test]
fn an_engine_that_is_polled_passes() {
    suite(Wrong::Nothing).none();
}

#[test]
fn every_broken_law_of_an_engine_is_found() {
    let laws = [
        (
            Wrong::Backwards,
            "descriptors run in the order of submission",
        ),
        (Wrong::LandsTwice, "a fill fills"),
        (Wrong::LosesCargo, "a copy copies"),
        (Wrong::HidesFaults, "a kernel's fault is told"),
        (Wrong::Silent, "a completion is an event"),
        (Wrong::FillsOneMore, "a fill fills"),
        (Wrong::CopiesNothing, "a copy copies"),
        (Wrong::KeepsDetached, "a detached submission frees its slot"),
        (
            Wrong::ForgetsDetached,
            "a submission is over only when its cargo has landed",
        ),
        (Wrong::OneSlotLess, "a full queue is a value"),
        (Wrong::GivesTwice, "a completion is taken once"),
        (Wrong::ReachesAll, "an operand out of reach is refused"),
        (
            Wrong::SwapsOperands,
            "a kernel is lent its operands in order",
        ),
        (Wrong::SkipsEmpty, "an operand may have no bytes"),
        (Wrong::AbortsLanded, "what has landed is not aborted"),
        (
            Wrong::ForgetsOutstanding,
            "what has not landed is outstanding",
        ),
        (Wrong::Never, "a fill fills"),
    ];
    for (wrong, law) in laws {
        suite(wrong).name(law);
    }

    let early = "what has not started is aborted";
    apart(true, false).0.name(early);
    let woken = "a completion wakes who polled";
    apart(false, true).0.name(woken);

    let mut seen = laws.map(|(_, law)| law).to_vec();
    seen.extend([early, woken]);
    let layer = [
        "its stream has a number",
        "submissions are numbered upwards",
        "what is written overlaps nothing",
    ];
    suite(Wrong::Nothing).all_covered(&seen, &layer);
}

/// A queue that a thread of its own serves.
pub(crate) struct Apart<C: Cargo = Parcel> {
    stream: Stream,
    queue: Queue<Blocking, C>,
    never_aborts: bool,
    never_wakes: bool,
}

// SAFETY: operands are touched only by `run_on_host`, while their job exists.
unsafe impl<C: Cargo> Engine for Apart<C> {
    type Policy = Blocking;
    type Cargo = C;

    fn stream(&self) -> StreamId {
        self.stream.id()
    }
    unsafe fn submit(
        &self,
        descriptor: Descriptor,
        cargo: C,
    ) -> Result<Sequence, Returned<C, SubmitError>> {
        self.queue.push(descriptor, cargo)
    }
    fn poll(&self, sequence: Sequence, waker: Option<&Waker>) -> Poll<Option<Completion<C>>> {
        let waker = waker.filter(|_| !self.never_wakes);
        self.queue.poll(sequence, waker)
    }
    fn detach(&self, sequence: Sequence) {
        self.queue.detach(sequence);
    }
    fn abort(&self, sequence: Sequence) {
        if !self.never_aborts {
            self.queue.abort(sequence);
        }
    }
    fn outstanding(&self) -> Option<std::ops::RangeInclusive<Sequence>> {
        self.queue.outstanding()
    }
    fn completed(&self) -> &<Blocking as SyncPolicy>::Event {
        self.queue.completed()
    }
}

/// Stands for a clock while nothing is to be waited for in vain: ten seconds pass in a thousand looks.
struct Hasty(Cell<u32>);

impl Clock for Hasty {
    fn now(&self) -> Duration {
        self.0.set(self.0.get() + 10);
        Duration::from_millis(self.0.get().into())
    }
    fn idle(&self) {
        thread::yield_now();
    }
}

/// Runs `body` with an engine that a thread serves meanwhile.
pub(crate) fn served<C: Cargo + Send + 'static, R>(
    never_aborts: bool,
    never_wakes: bool,
    body: impl FnOnce(&Apart<C>) -> R,
) -> R {
    let apart = Arc::new(Apart {
        stream: Stream::claim().expect("a test has few streams"),
        queue: Queue::new(),
        never_aborts,
        never_wakes,
    });
    let served = Arc::clone(&apart);
    let server = thread::spawn(move || {
        loop {
            let seen = served.queue.submitted().epoch();
            while let Some(job) = served.queue.next() {
                // SAFETY: the job exists, so its operands are the engine's.
                let outcome = unsafe { run_on_host(job.descriptor()) };
                job.finish(outcome);
            }
            if served.queue.is_closed() {
                return;
            }
            served.queue.submitted().wait(seen, &NoClock, None);
        }
    });
    let answer = body(&apart);
    apart.queue.close();
    server.join().expect("the server ends");
    answer
}

fn apart(never_aborts: bool, never_wakes: bool) -> (Failures, Tally) {
    let memory: Arc<StaticPool<Blocking, 16, 2>> = Arc::default();
    let claims = EngineClaims {
        apart: true,
        unreachable: None,
    };
    let mut report = Failures::default();
    let tally = served(never_aborts, never_wakes, |apart| {
        if never_aborts || never_wakes {
            let clock = Hasty(Cell::new(0));
            engine("apart", apart, memory, clock, claims, &mut report)
        } else {
            let clock = StdClock::new();
            engine("apart", apart, memory, clock, claims, &mut report)
        }
    });
    (report, tally)
}

#[test]
fn an_engine_on_a_thread_of_its_own_passes() {
    let (report, tally) = apart(false, false);
    report.none();
    assert_eq!((tally.passed, tally.failed, tally.inapplicable), (18, 0, 1));
}
