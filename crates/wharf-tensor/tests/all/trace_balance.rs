//! Whatever is done to tensors, and whatever fails: each start has its stop, on its own context and in its own call; runs have
//! theirs by number; and what comes goes.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use crate::common::{Books, Device, Stepped};
use proptest::prelude::*;
use wharf_backend::{FaultInject, MemBackend, StaticPool};
use wharf_engine::{Command, CpuEngine, Engine, KernelFault, Lent, Sequence, Stream};
use wharf_sync::{Clock, Critical, NoClock};
use wharf_tensor::{
    Launch, Parts, Tensor, Tickets, TraceDetail, TraceEvent, TraceKind, TracePhase, TraceSink, Use,
};

/// Panics at the first event that has no place.
#[derive(Default)]
struct Ledger(Mutex<Book>);

#[derive(Default)]
struct Book {
    calls: BTreeMap<String, Vec<TraceEvent>>,
    runs: BTreeMap<(u8, u64), TraceEvent>,
    ran: BTreeSet<(u8, u64)>,
    launched: BTreeSet<(u8, u64)>,
    /// Storages with a tensor; those whose last tensor went; bytes of those with memory of their own.
    live: BTreeMap<u64, u64>,
    deserted: BTreeMap<u64, u32>,
    memory: BTreeMap<u64, u64>,
    events: usize,
}

impl TraceSink for Ledger {
    fn record(&self, event: TraceEvent) {
        let mut book = self.0.lock().unwrap();
        book.events += 1;
        match event.kind {
            TraceKind::Running => book.run(event),
            _ if event.phase == TracePhase::Instant => book.instant(event),
            _ => book.call(event),
        }
    }
}

impl Book {
    fn call(&mut self, event: TraceEvent) {
        let here: ThreadId = std::thread::current().id();
        let calls = self.calls.entry(format!("{here:?}")).or_default();
        if event.phase == TracePhase::Start {
            // Bytes move inside of a call that asked for it; a wait is inside of one or of a lending.
            let outer = calls.last().map(|outer| outer.kind);
            match event.kind {
                TraceKind::CopyIn => assert_eq!(outer, Some(TraceKind::Write), "{event}"),
                TraceKind::CopyOut => {
                    let inside = matches!(outer, Some(TraceKind::Read | TraceKind::Write));
                    assert!(inside, "{event}");
                }
                TraceKind::CopyInBatch => assert_eq!(outer, Some(TraceKind::WriteBatch)),
                TraceKind::CopyOutBatch => assert_eq!(outer, Some(TraceKind::ReadBatch)),
                TraceKind::Read
                | TraceKind::Write
                | TraceKind::ReadBatch
                | TraceKind::WriteBatch => assert_eq!(outer, None, "{event}"),
                _ => {}
            }
            calls.push(event);
            return;
        }
        let began = calls.pop().expect("a stop has a start");
        assert_eq!(began.at(TracePhase::Stop), event);
        if event.kind == TraceKind::MemoryFree {
            assert_eq!(self.memory.remove(&event.storage), Some(event.bytes));
            assert!(self.deserted.remove(&event.storage).is_some(), "{event}");
        }
    }

    fn run(&mut self, event: TraceEvent) {
        let TraceDetail::Launch { stream, sequence } = event.detail else {
            panic!("a run without a number: {event}");
        };
        let run = (stream, sequence);
        match event.phase {
            TracePhase::Start => {
                assert!(self.ran.insert(run), "once: {event}");
                assert_eq!(self.runs.insert(run, event), None);
            }
            TracePhase::Stop => {
                let began = self.runs.remove(&run).expect("a stop has a start");
                assert_eq!(began.at(TracePhase::Stop), event);
            }
            TracePhase::Instant => panic!("a run takes time: {event}"),
        }
    }

    fn instant(&mut self, event: TraceEvent) {
        let TraceEvent { storage, bytes, .. } = event;
        match (event.kind, event.detail) {
            (TraceKind::Alloc, detail) => {
                assert_eq!(self.live.insert(storage, bytes), None, "{event}");
                if matches!(detail, TraceDetail::Memory(_)) {
                    assert_eq!(self.memory.insert(storage, bytes), None);
                }
            }
            (TraceKind::Free, TraceDetail::Left { accesses }) => {
                assert_eq!(self.live.remove(&storage), Some(bytes), "{event}");
                if self.memory.contains_key(&storage) {
                    self.deserted.insert(storage, accesses);
                }
            }
            // Taken out.
            (TraceKind::MemoryFree, TraceDetail::Memory(_)) => {
                assert_eq!(self.memory.remove(&storage), Some(bytes), "{event}");
                assert_eq!(self.deserted.remove(&storage), Some(0));
            }
            (TraceKind::Launched, TraceDetail::Launch { stream, sequence }) => {
                assert!(self.launched.insert((stream, sequence)), "{event}");
            }
            _ => panic!("no such instant: {event}"),
        }
    }

    fn assert_nothing_left(&self) {
        assert!(self.calls.values().all(Vec::is_empty), "{:?}", self.calls);
        assert_eq!(self.runs, BTreeMap::new());
        assert_eq!(self.ran, self.launched, "what was launched was taken up");
        assert_eq!(self.live, BTreeMap::new());
        assert_eq!(self.deserted, BTreeMap::new());
        assert_eq!(self.memory, BTreeMap::new());
    }
}

type Any = Arc<dyn MemBackend<Policy = Critical> + Send + Sync>;
type Watched = Parts<Any, Arc<Books>, Drives, Arc<Ledger>>;

/// Runs the queue of this thread's world while somebody waits.
#[derive(Clone)]
struct Drives;
thread_local!(static QUEUE: RefCell<Option<Rc<Stepped<Watched>>>> = const { RefCell::new(None) });

impl Clock for Drives {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn idle(&self) {
        let queue = QUEUE.with_borrow(Clone::clone).unwrap();
        assert!(queue.step(), "somebody waits, and nothing is in flight");
    }
}
type Pool = FaultInject<StaticPool<Critical, 600, 4>>;

const LEN: usize = 600;

/// Two indices of tensors, a range, and which of the world's parts fail.
#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc(bool),
    FailMemory(u8),
    FailBlock(usize),
    FailTransfer(usize),
    CloseDevice,
    Slice(usize, usize, usize),
    Placeholder,
    Split(usize, usize),
    Drop(usize),
    Read(usize, usize, usize),
    Write(usize, usize, usize),
    /// Of two tensors, at an offset of the second.
    ReadBatch(usize, usize, usize),
    WriteBatch(usize, usize, usize),
    TryFill(usize),
    Fill(usize),
    Copy(usize, usize),
    IntoSegment(usize),
    /// While a guard of the first is held.
    CopyGuarded(usize, usize),
    Launch(usize, usize),
    LaunchInline(usize, u8),
    Run,
    Abort,
    Detach,
    CloseEngine,
}

fn step() -> impl Strategy<Value = Step> {
    let index = || 0..8_usize;
    let at = || prop_oneof![0..LEN + 9, Just(usize::MAX)];
    let nth = || 1..4_usize;
    prop_oneof![
        4 => any::<bool>().prop_map(Step::Alloc),
        1 => (1..3_u8).prop_map(Step::FailMemory),
        1 => nth().prop_map(Step::FailBlock),
        2 => nth().prop_map(Step::FailTransfer),
        1 => Just(Step::CloseDevice),
        2 => (index(), at(), at()).prop_map(|(of, from, to)| Step::Slice(of, from, to)),
        1 => Just(Step::Placeholder),
        1 => (index(), at()).prop_map(|(of, at)| Step::Split(of, at)),
        2 => index().prop_map(Step::Drop),
        3 => (index(), at(), at()).prop_map(|(of, from, len)| Step::Read(of, from, len)),
        3 => (index(), at(), at()).prop_map(|(of, from, len)| Step::Write(of, from, len)),
        2 => (index(), index(), at()).prop_map(|(a, b, at)| Step::ReadBatch(a, b, at)),
        2 => (index(), index(), at()).prop_map(|(a, b, at)| Step::WriteBatch(a, b, at)),
        1 => index().prop_map(Step::TryFill),
        2 => index().prop_map(Step::Fill),
        4 => (index(), index()).prop_map(|(to, from)| Step::Copy(to, from)),
        1 => index().prop_map(Step::IntoSegment),
        1 => (index(), index()).prop_map(|(to, from)| Step::CopyGuarded(to, from)),
        3 => (index(), index()).prop_map(|(to, from)| Step::Launch(to, from)),
        2 => (index(), 0..3_u8).prop_map(|(to, how)| Step::LaunchInline(to, how)),
        3 => Just(Step::Run),
        1 => Just(Step::Abort),
        1 => Just(Step::Detach),
        1 => Just(Step::CloseEngine),
    ]
}

fn fails(_: &mut [Lent<'_>]) -> Result<(), KernelFault> {
    Err(KernelFault(3))
}
fn panics(_: &mut [Lent<'_>]) -> Result<(), KernelFault> {
    panic!("a kernel gave up")
}

struct World {
    target: Watched,
    ledger: Arc<Ledger>,
    books: Arc<Books>,
    pool: Arc<Pool>,
    device: Arc<Device<Critical>>,
    queue: Rc<Stepped<Watched>>,
    cpu: CpuEngine<Critical, Tickets<Watched>>,
    tensors: Vec<Tensor<Watched>>,
    open: Vec<Sequence>,
}

impl World {
    fn new() -> Self {
        let (books, ledger) = (Arc::new(Books::default()), Arc::new(Ledger::default()));
        let queue = Rc::new(Stepped::new());
        QUEUE.set(Some(queue.clone()));
        Self {
            target: Watched::with(books.clone(), Drives, ledger.clone()),
            ledger,
            books,
            pool: Arc::new(FaultInject::new(StaticPool::new())),
            device: Arc::new(Device::new()),
            queue,
            cpu: CpuEngine::new(Stream::claim().unwrap()),
            tensors: Vec::new(),
            open: Vec::new(),
        }
    }

    fn keep(&mut self, tensor: Tensor<Watched>) {
        if self.tensors.len() < 8 {
            self.tensors.push(tensor);
        }
    }

    fn get(&self, index: usize) -> Tensor<Watched> {
        let none = Tensor::empty();
        self.tensors.get(index).unwrap_or(&none).clone()
    }

    /// What comes of it is checked elsewhere: here only that it is told right.
    fn step(&mut self, step: Step) {
        match step {
            Step::Alloc(device) => {
                let memory: Any = if device {
                    self.device.clone()
                } else {
                    self.pool.clone()
                };
                if let Ok(tensor) = Tensor::alloc(&self.target, memory, LEN) {
                    self.keep(tensor);
                }
            }
            Step::FailMemory(nth) => self.pool.fail_nth(nth.into()),
            Step::FailBlock(nth) => self.books.refuse_nth(nth),
            Step::FailTransfer(nth) => self.device.fail_nth(nth),
            Step::CloseDevice => self.device.close(),
            Step::Slice(of, from, to) => {
                if let Ok(slice) = self.get(of).slice(from..to) {
                    self.keep(slice);
                }
            }
            Step::Placeholder => {
                if let Ok(tensor) = Tensor::placeholder(&self.target, LEN) {
                    self.keep(tensor);
                }
            }
            Step::Split(of, at) => {
                if let Ok((one, two)) = self.get(of).split(at) {
                    self.keep(one);
                    self.keep(two);
                }
            }
            Step::Drop(of) => {
                if of < self.tensors.len() {
                    self.tensors.swap_remove(of);
                }
            }
            Step::Read(of, from, len) => {
                let _ = self.get(of).read(from, &mut vec![0; len.min(2 * LEN)]);
            }
            Step::Write(of, from, len) => {
                let _ = self.get(of).write(from, &vec![0; len.min(2 * LEN)]);
            }
            Step::ReadBatch(a, b, at) => {
                let (a, b, mut bytes) = (self.get(a), self.get(b), [[0; 9]; 3]);
                let [one, two, three] = &mut bytes;
                let ops = [a.read_op(0, one), b.read_op(at, two), a.read_op(0, three)];
                let _ = Tensor::read_batch(&mut { ops });
            }
            Step::WriteBatch(a, b, at) => {
                let (a, b) = (self.get(a), self.get(b));
                let ops = [
                    a.write_op(0, &[1; 9]),
                    b.write_op(at, &[2; 9]),
                    a.write_op(0, &[3]),
                ];
                let _ = Tensor::write_batch(&ops);
            }
            Step::TryFill(of) => drop(self.get(of).try_fill(7)),
            Step::Fill(of) => drop(self.get(of).fill(7)),
            Step::Copy(to, from) => drop(self.get(to).copy_from(&self.get(from))),
            Step::IntoSegment(of) => {
                if of < self.tensors.len() {
                    drop(self.tensors.swap_remove(of).into_segment());
                }
            }
            Step::CopyGuarded(to, from) => {
                let (to, from) = (self.get(to), self.get(from));
                let guard = to.try_lend();
                let _ = to.copy_from(&from);
                let _ = from.copy_from(&to);
                drop(guard);
            }
            Step::Launch(to, from) => {
                let (to, from) = (self.get(to), self.get(from));
                let operands: &[Use<'_, _>] = &[from.input(), to.output()];
                let launched = self.queue.try_launch(Command::Kernel(|_| Ok(())), operands);
                if let Ok(submission) = launched {
                    self.open.push(submission.into_sequence());
                }
            }
            Step::LaunchInline(to, how) => {
                let to = self.get(to);
                let command = match how {
                    0 => Command::Fill(9),
                    1 => Command::Kernel(fails),
                    _ => Command::Kernel(panics),
                };
                let launch = || drop(self.cpu.try_launch(command, &[to.output()]));
                // A kernel that panicked has nobody to tell its number to.
                if catch_unwind(AssertUnwindSafe(launch)).is_err() {
                    let mut book = self.ledger.0.lock().unwrap();
                    let unsaid: Vec<_> = book.ran.difference(&book.launched).copied().collect();
                    let inline = self.cpu.stream().get();
                    book.launched
                        .extend(unsaid.iter().filter(|(stream, _)| *stream == inline));
                }
            }
            Step::Run => drop(self.queue.step()),
            Step::Abort => {
                if let Some(sequence) = self.open.last() {
                    self.queue.abort(*sequence);
                }
            }
            Step::Detach => {
                if let Some(sequence) = self.open.pop() {
                    self.queue.detach(sequence);
                }
            }
            Step::CloseEngine => self.queue.close(),
        }
    }

    fn end(self) {
        let Self {
            ledger,
            books,
            pool,
            device,
            ..
        } = self;
        // In this order tensors may go while the device has access.
        drop(self.tensors);
        QUEUE.set(None);
        drop((self.queue, self.cpu));
        ledger.0.lock().unwrap().assert_nothing_left();
        assert_eq!((books.blocks(), device.segments()), (0, 0));
        assert_eq!(pool.census().in_use, 0);
    }
}

proptest! {
    #[test]
    fn each_start_has_its_stop(steps in proptest::collection::vec(step(), 0..60)) {
        // The panics are wanted, their messages are not.
        let mut world = World::new();
        for step in steps {
            world.step(step);
            let book = world.ledger.0.lock().unwrap();
            // Between two calls nothing is going on but runs.
            prop_assert!(book.calls.values().all(Vec::is_empty));
        }
        world.end();
    }
}

#[test]
fn threads_that_wait_for_each_other_balance_each_on_its_own() {
    use wharf_sync::Blocking;
    type Shared = Parts<Arc<StaticPool<Blocking, 600, 4>>, Arc<Books>, NoClock, Arc<Ledger>>;
    let ledger = Arc::new(Ledger::default());
    let target = Shared::with(Arc::default(), NoClock, ledger.clone());
    let tensor = Tensor::alloc(&target, Arc::new(StaticPool::new()), LEN).unwrap();
    let engine = CpuEngine::<Blocking, Tickets<Shared>, 8>::new(Stream::claim().unwrap());
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let (tensor, engine) = (tensor.clone(), &engine);
            scope.spawn(move || {
                for _ in 0..40 {
                    tensor.fill(thread).unwrap();
                    tensor.read(3, &mut [0; 9]).unwrap();
                    if let Ok(one) = engine.launch(Command::Fill(7), &[tensor.output()]) {
                        let _ = one.wait();
                    }
                }
            });
        }
    });
    drop((tensor, engine));
    let book = ledger.0.lock().unwrap();
    book.assert_nothing_left();
    // Of each thread: fill and read, start and stop, 40 times; and the storage.
    assert!(book.events >= 4 * 40 * 4 + 6);
}
