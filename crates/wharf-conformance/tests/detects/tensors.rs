//! Tensors of targets that are made of something broken: a memory, a block source, a clock, a policy.
#![allow(unsafe_code, reason = "implements the unsafe traits, wrongly")]

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::NonNull;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use wharf_backend::{
    AllocError, AllocHint, Caps, Header, Heap, MemBackend, MemSpace, Place, ReadOnly, SegmentMut,
    StaticPool,
};
use wharf_conformance::{Balance, copies, read_only, tensor};
use wharf_source::{BlockSource, Census, HeapSource, SourceError};
use wharf_sync::{
    Clock, Epoch, Event, NoClock, SyncPolicy, Unsync, UnsyncCount, UnsyncEvent, UnsyncLock,
    UnsyncWord, Wake, Who,
};
use wharf_tensor::{
    Directory, NoTrace, Parts, Tensor, TraceDetail, TraceEvent, TraceKind, TracePhase, TraceSink,
};

use crate::Failures;
use crate::devices::{Faulty, Wrong};

type Device = Parts<&'static Faulty<Unsync>, HeapSource>;

fn on_memory(wrong: Wrong) -> Failures {
    let mut report = Failures::default();
    let target = Device::new(HeapSource);
    let _ = tensor("faulty", &target, Faulty::new(wrong), &mut report);
    report
}

/// Broken is the first memory, or the second.
fn between(first: Wrong, second: Wrong) -> Failures {
    let mut report = Failures::default();
    let target = Device::new(HeapSource);
    let memories = (Faulty::new(first), Faulty::new(second));
    let _ = copies("faulty", &target, memories.0, memories.1, &mut report);
    report
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WrongSource {
    Nothing,
    NeverFalls,
    Spiteful,
    RefusesNames,
}

/// The heap, up to some blocks at a time.
struct Blocks {
    wrong: WrongSource,
    in_use: Cell<usize>,
    most: Cell<usize>,
}

const MOST: usize = 16;

type Names = Directory<Unsync, &'static Blocks>;
type Sourced = Parts<Heap<Unsync>, &'static Blocks, NoClock, NoTrace, &'static Names>;

// SAFETY: blocks are the heap's, and go back there.
unsafe impl BlockSource for Blocks {
    fn try_alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        let name = Tensor::<Sourced>::IDENTITY_BLOCK.size() == layout.size();
        let refused = self.wrong == WrongSource::RefusesNames && name;
        if refused || self.in_use.get() >= self.most.get() {
            // Who asks in vain makes it worse.
            if self.wrong == WrongSource::Spiteful {
                self.most.set(self.most.get() - 1);
            }
            return None;
        }
        let block = HeapSource.try_alloc(layout)?;
        self.in_use.set(self.in_use.get() + 1);
        Some(block)
    }
    unsafe fn release(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { HeapSource.release(block, layout) };
        self.in_use.set(self.in_use.get() - 1);
        if self.wrong == WrongSource::NeverFalls {
            self.in_use.set(self.in_use.get() + 1);
            self.most.set(self.most.get() + 1);
        }
    }
    fn refusal(&self, layout: Layout) -> SourceError {
        HeapSource.refusal(layout)
    }
    fn census(&self) -> Census {
        Census {
            unit: 1,
            in_use: self.in_use.get(),
            ..Census::NOTHING
        }
    }
    fn name(&self) -> &'static str {
        "faulty blocks"
    }
}

fn on_source(wrong: WrongSource) -> Failures {
    let blocks: &_ = Box::leak(Box::new(Blocks {
        wrong,
        in_use: Cell::new(0),
        most: Cell::new(MOST),
    }));
    let names = Box::leak(Box::new(Names::new()));
    let mut report = Failures::default();
    let target = Sourced::with_directory(blocks, NoClock, NoTrace, names);
    let _ = tensor("faulty", &target, Heap::new(), &mut report);
    report
}

/// A clock that answers otherwise from some question on, when it is asked whether it tells the time.
#[derive(Clone)]
pub(crate) struct Fickle {
    first: bool,
    left: Rc<Cell<u32>>,
}

impl Fickle {
    /// What it answers first, and how often.
    pub(crate) fn new(first: bool, times: u32) -> Self {
        let left = Rc::new(Cell::new(times));
        Self { first, left }
    }
}

impl Clock for Fickle {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn tells_time(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        self.first == (left > 0)
    }
}

fn on_clock(clock: Fickle) -> Failures {
    type Odd = Parts<Heap<Unsync>, HeapSource, Fickle>;
    let mut report = Failures::default();
    let target = Odd::with(HeapSource, clock, NoTrace);
    let _ = tensor("fickle", &target, Heap::new(), &mut report);
    report
}

/// An event of which nobody hears.
pub(crate) struct Unheard(UnsyncEvent);

// SAFETY: not `Sync`.
unsafe impl Event for Unheard {
    fn new() -> Self {
        Self(UnsyncEvent::new())
    }
    fn epoch(&self) -> Epoch {
        self.0.epoch()
    }
    fn wait<C: Clock + ?Sized>(&self, seen: Epoch, clock: &C, deadline: Option<Duration>) -> Wake {
        self.0.wait(seen, clock, deadline)
    }
    fn notify(&self) {}
    fn register(&self, waker: &Waker) {
        self.0.register(waker);
    }
}

/// `Unsync`, but for that event.
#[derive(Debug)]
pub(crate) enum Deaf {}

// SAFETY: nothing here is `Sync`.
unsafe impl SyncPolicy for Deaf {
    type Lock<T> = UnsyncLock<T>;
    type Count = UnsyncCount;
    type Word = UnsyncWord;
    type Event = Unheard;
    const NAME: &'static str = "Deaf";
    fn who() -> Who {
        Who::SOLE
    }
}

#[test]
fn every_broken_part_of_a_target_is_found() {
    on_memory(Wrong::Nothing).none();
    on_source(WrongSource::Nothing).none();
    let memories = [
        (
            Wrong::WritesOneFurther,
            "a tensor has the bytes that were written",
        ),
        (Wrong::FillsAll, "a fill fills its window"),
        (Wrong::FillsLess, "a fill fills its window"),
        (
            Wrong::WritesInPlaceOfTheFirst,
            "a slice is a window on the same bytes",
        ),
        (
            Wrong::ReadsNothing,
            "a range is checked before it is added up",
        ),
        (Wrong::WritesNothing, "a copy takes the whole length"),
        (Wrong::WritesInPlaceOfTheFirst, "a copy may overlap itself"),
        (Wrong::Wanders, "a tensor says where it is"),
        (Wrong::OtherSpace, "a tensor says where it is"),
        (
            Wrong::Wanders,
            "a segment becomes a tensor and comes out again",
        ),
        (
            Wrong::ReadHooksSpoil,
            "only the only holder takes the segment out",
        ),
        (
            Wrong::WritesNothing,
            "an attached segment takes the place of the old one",
        ),
        (Wrong::WriteHooksSpoil, "nothing is attached under a device"),
        (
            Wrong::FillsAll,
            "a tensor is whole again when its parts are gone",
        ),
        (
            Wrong::WritesInPlaceOfTheFirst,
            "a batch does what its operations say",
        ),
        (
            Wrong::WritesOneFurther,
            "a batch with one bad operation does nothing",
        ),
        (Wrong::ReadsNothing, "a batch has access to all or to none"),
        (
            Wrong::ReadHooksSpoil,
            "a device that reads keeps writers out",
        ),
        (
            Wrong::WriteHooksSpoil,
            "a device that writes keeps everybody out",
        ),
        (Wrong::ReadHooksSpoil, "devices read together"),
        (Wrong::WriteHooksSpoil, "a stream does not wait for itself"),
        (Wrong::NeverAgain, "a ticket outlives its tensors"),
        (Wrong::OtherSpace, "a guard lends the bytes in place"),
        (Wrong::OtherSpace, "a guard is not waited for"),
        (Wrong::Lends, "device memory is not lent"),
        (
            Wrong::FillsAll,
            "a future that is dropped leaves nothing behind",
        ),
        (
            Wrong::ReadsOneFurther,
            "what needs no wait is ready at once",
        ),
        (Wrong::NeverFalls, "memory that runs out is a value"),
        (
            Wrong::WritesOneFurther,
            "past the fence the same bytes are moved",
        ),
        (Wrong::FillsAll, "past the fence the same bytes are moved"),
        (Wrong::ReadsNothing, "past the fence nobody is met"),
        (
            Wrong::ReadsNothing,
            "past the fence a range is checked, too",
        ),
        (
            Wrong::WriteHooksSpoil,
            "tickets are for all uses or for none",
        ),
        (
            Wrong::WriteHooksSpoil,
            "tickets are in the order of their uses",
        ),
        (
            Wrong::WriteHooksSpoil,
            "tickets that are not waited for any more leave nothing behind",
        ),
    ];
    for (wrong, law) in memories {
        on_memory(wrong).name(law);
    }
    let sources = [
        (
            WrongSource::NeverFalls,
            "a placeholder has a length and no bytes",
        ),
        (WrongSource::Spiteful, "names that run out are a value"),
        (
            WrongSource::Spiteful,
            "control blocks that run out are a value",
        ),
        (WrongSource::NeverFalls, "clones share a name"),
        (
            WrongSource::RefusesNames,
            "a directory lists what has a name",
        ),
        (
            WrongSource::RefusesNames,
            "completions are counted and waited for",
        ),
        (
            WrongSource::RefusesNames,
            "tickets that land well are counted",
        ),
    ];
    for (wrong, law) in sources {
        on_source(wrong).name(law);
    }
    let passed = "a deadline that has passed ends a wait";
    let no_clock = "a deadline takes a clock";
    // It changes its mind in the check, after as many questions as were asked before.
    let tickets = "tickets have a deadline";
    for (first, law) in [(true, passed), (false, no_clock), (true, tickets)] {
        let mut times = 0..64;
        assert!(
            times.any(|times| on_clock(Fickle::new(first, times)).fails(law)),
            "{law}"
        );
    }

    let mut report = Failures::default();
    let target = Parts::<Heap<Deaf>, HeapSource>::new(HeapSource);
    let _ = tensor("deaf", &target, Heap::new(), &mut report);
    let woken = [
        "a task is woken when the access ends",
        "who waits for completions is woken",
        "tickets are waited for in a task",
    ];
    woken.into_iter().for_each(|law| report.name(law));

    let mut seen = memories.map(|(_, law)| law).to_vec();
    seen.extend(sources.map(|(_, law)| law));
    seen.extend([passed, no_clock, tickets]);
    seen.extend(woken);
    // What parts lose is found here, too; but what they are about is the fence alone.
    let layer = [
        "an empty tensor has no bytes",
        "parts have fences of their own",
        "a wait that cannot end is an error",
    ];
    on_memory(Wrong::Nothing).all_covered(&seen, &layer);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WrongFlash {
    Nothing,
    /// It does not say that it is read-only.
    Silent,
    NeverAgain,
}

/// What is lent to be read.
fn flash(wrong: WrongFlash) -> Failures {
    type Mixed = Parts<&'static dyn MemBackend<Policy = Unsync>, HeapSource>;
    static BYTES: [u8; 8] = *b"in flash";
    let mut report = Failures::default();
    let target = Mixed::new(HeapSource);
    let (memory, scratch) = (Flash::new(wrong), Faulty::<Unsync>::new(Wrong::Nothing));
    let lend = || {
        let segment = SegmentMut::alloc(memory, BYTES.len())?;
        let segment = segment.init_from(&BYTES).expect("as many bytes");
        let (header, backend) = segment.into_raw();
        memory.lent.set(true);
        // SAFETY: the parts of the segment that was just taken apart; whoever may write it by mistake finds memory that can be.
        Ok(unsafe { SegmentMut::<_, ReadOnly>::from_raw(header, backend) }.unwrap())
    };
    let _ = read_only("flash", &target, scratch, lend, &BYTES, &mut report);
    report
}

/// Memory that may be read and no more once it is lent.
struct Flash {
    wrong: WrongFlash,
    pool: StaticPool<Unsync, 8, 1>,
    lent: Cell<bool>,
}

impl Flash {
    fn new(wrong: WrongFlash) -> &'static Self {
        Box::leak(Box::new(Self {
            wrong,
            pool: StaticPool::new(),
            lent: Cell::new(false),
        }))
    }
}

// SAFETY: it is a pool; what it says changes, but not while a segment of it is lent.
unsafe impl MemBackend for Flash {
    type Policy = Unsync;
    fn vend(&self, size: usize, hint: AllocHint) -> Option<NonNull<Header<Unsync>>> {
        self.lent.set(false);
        self.pool.vend(size, hint)
    }
    fn refusal(&self, size: usize, hint: AllocHint) -> AllocError {
        self.pool.refusal(size, hint)
    }
    unsafe fn reclaim(&self, header: NonNull<Header<Unsync>>) {
        if self.wrong == WrongFlash::NeverAgain {
            return;
        }
        // SAFETY: as the caller promises.
        unsafe { self.pool.reclaim(header) }
    }
    unsafe fn place(&self, header: NonNull<Header<Unsync>>) -> Place {
        // SAFETY: as the caller promises.
        unsafe { self.pool.place(header) }
    }
    fn may_own(&self, header: NonNull<Header<Unsync>>) -> bool {
        self.pool.may_own(header)
    }
    fn caps(&self) -> Caps {
        let caps = self.pool.caps();
        if self.wrong != WrongFlash::Silent && self.lent.get() {
            return caps | Caps::READ_ONLY;
        }
        caps
    }
    fn alignment(&self) -> usize {
        self.pool.alignment()
    }
    fn max_segment_size(&self) -> usize {
        self.pool.max_segment_size()
    }
    fn census(&self) -> Census {
        self.pool.census()
    }
    fn name(&self) -> &'static str {
        "flash"
    }
}

#[test]
fn broken_read_only_memory_is_found() {
    flash(WrongFlash::Nothing).none();
    let silent = flash(WrongFlash::Silent);
    let laws = [
        "what is read-only is read in every way",
        "what is read-only is not written",
        "what is read-only is refused before anybody is waited for",
        "a device reads what is read-only, and does not write it",
    ];
    laws.into_iter().for_each(|law| silent.name(law));
    let comes_out = "read-only memory comes out again as that";
    flash(WrongFlash::NeverAgain).name(comes_out);
    let mut seen = laws.to_vec();
    seen.push(comes_out);
    flash(WrongFlash::Nothing).all_covered(&seen, &[]);
}

#[test]
fn broken_copies_are_found() {
    between(Wrong::Nothing, Wrong::Nothing).none();
    let laws = [
        (
            Wrong::WritesInPlaceOfTheFirst,
            Wrong::Nothing,
            "the first memory copies to itself",
        ),
        (
            Wrong::Nothing,
            Wrong::LosesTheEnd,
            "the first memory copies to the second",
        ),
        (
            Wrong::ReadsOneFurther,
            Wrong::Nothing,
            "the first memory copies to the second",
        ),
        (
            Wrong::LosesTheEnd,
            Wrong::Nothing,
            "the second memory copies to the first",
        ),
        (
            Wrong::Nothing,
            Wrong::WritesOneFurther,
            "the second memory copies to itself",
        ),
        (
            Wrong::Nothing,
            Wrong::LosesTheEnd,
            "a copy inside of one storage moves as if at once",
        ),
        (Wrong::ReadsNothing, Wrong::Nothing, "a batch reaches both"),
        (
            Wrong::NeverAgain,
            Wrong::Nothing,
            "each end of a copy is fenced",
        ),
    ];
    for (first, second, law) in laws {
        between(first, second).name(law);
    }
    between(Wrong::Nothing, Wrong::Nothing).all_covered(&laws.map(|(_, _, law)| law), &[]);
}

#[test]
fn a_trace_that_is_not_even_is_found() {
    let event = |kind| TraceEvent::instant(kind, 1, 64);
    let told = |events: &[TraceEvent]| {
        let trace = Balance::new();
        events.iter().for_each(|&event| trace.record(event));
        trace.is_even()
    };
    let read = event(TraceKind::Read).at(TracePhase::Start);
    let write = event(TraceKind::Write).at(TracePhase::Start);
    let ended = |event: TraceEvent| event.at(TracePhase::Stop);
    let memory = TraceDetail::Memory(MemSpace::Host);
    let (came, went) = (event(TraceKind::Alloc), event(TraceKind::Free));

    assert!(told(&[
        came.with(memory),
        read,
        write,
        ended(write),
        ended(read),
        went
    ]));
    assert!(!told(&[]), "nothing was told");
    assert!(!told(&[read]), "a start without a stop");
    assert!(!told(&[ended(read)]), "a stop without a start");
    assert!(!told(&[ended(read), read]), "a stop before its start");
    assert!(!told(&[read, ended(write)]), "a stop of another kind");
    assert!(!told(&[came]), "a storage that is never freed");
    assert!(!told(&[went]), "a storage that never was");
    for kind in [TraceKind::Launched, TraceKind::Running, TraceKind::Overdue] {
        assert!(told(&[event(kind)]));
    }
}
