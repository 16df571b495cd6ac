//! Code that is not ours and may do what safe code may: targets that change their mind, sinks and clocks that
//! panic or call back, kernels and wakers that reach for the tensor they run on.

use std::cell::{Cell, RefCell};
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::common::{Books, Stepped};
use wharf_backend::{Heap, MemBackend, StaticPool};
use wharf_engine::{Access, Command, CpuEngine, KernelFault, Lent, Stream};
use wharf_source::{BlockSource, HeapSource, SourceError};
use wharf_sync::{Clock, Critical, NoClock, Unsync};
use wharf_tensor::{
    Launch, NoDirectory, NoTrace, Parts, Target, Tensor, TensorError, Tickets, TraceEvent,
    TraceKind, TracePhase, TraceSink,
};

type Sketch = Parts<Heap<Unsync>, HeapSource>;

/// Answers for one source and then for the other, as a safe implementation may.
#[derive(Clone)]
struct Fickle {
    sources: [Arc<Books>; 2],
    asked: Cell<usize>,
}

impl Target for Fickle {
    type Policy = Unsync;
    type Memory = Heap<Unsync>;
    type Source = Arc<Books>;
    type Clock = NoClock;
    type Trace = NoTrace;
    type Directory = NoDirectory;
    fn source(&self) -> &Arc<Books> {
        self.asked.set(self.asked.get() + 1);
        &self.sources[self.asked.get() % 2]
    }
    fn clock(&self) -> &NoClock {
        &NoClock
    }
    fn trace(&self) -> &NoTrace {
        &NoTrace
    }
    fn directory(&self) -> &NoDirectory {
        &NoDirectory
    }
}

#[test]
fn a_block_goes_back_to_the_source_it_came_from_whatever_the_target_answers() {
    let sources = [Arc::new(Books::default()), Arc::new(Books::default())];
    let target = Fickle {
        sources: sources.clone(),
        asked: Cell::new(0),
    };
    let first = Tensor::alloc(&target, Heap::new(), 8).unwrap();
    assert_eq!([sources[0].blocks(), sources[1].blocks()], [0, 1]);
    let second = Tensor::alloc(&target, Heap::new(), 8).unwrap();
    assert_eq!([sources[0].blocks(), sources[1].blocks()], [1, 1]);
    drop(first);
    assert_eq!([sources[0].blocks(), sources[1].blocks()], [1, 0]);
    drop(second);
    assert_eq!(
        sources.map(|books| (books.blocks(), books.foreign())),
        [(0, 0); 2]
    );
}

/// A source handle whose clone stands for another source.
struct Swapping(Arc<Books>, Arc<Books>);

impl Clone for Swapping {
    fn clone(&self) -> Self {
        Self(self.1.clone(), self.0.clone())
    }
}

// SAFETY: the first of the two, which does not change while the handle lives.
unsafe impl BlockSource for Swapping {
    fn try_alloc(&self, layout: std::alloc::Layout) -> Option<std::ptr::NonNull<u8>> {
        self.0.try_alloc(layout)
    }
    unsafe fn release(&self, block: std::ptr::NonNull<u8>, layout: std::alloc::Layout) {
        // SAFETY: as the caller promises.
        unsafe { self.0.release(block, layout) }
    }
    fn refusal(&self, layout: std::alloc::Layout) -> SourceError {
        self.0.refusal(layout)
    }
    fn name(&self) -> &'static str {
        "swapping"
    }
}

#[test]
fn a_clone_of_a_handle_may_stand_for_another_source() {
    let (one, two) = (Arc::new(Books::default()), Arc::new(Books::default()));
    let target = Parts::<Heap<Unsync>, _>::new(Swapping(one.clone(), two.clone()));
    let tensor = Tensor::alloc(&target, Heap::new(), 8).unwrap();
    let both = tensor.clone();
    drop((tensor, both));
    assert_eq!((one.blocks(), one.foreign()), (0, 0));
    assert_eq!((two.blocks(), two.foreign()), (0, 0));
    assert_eq!(one.calls() + two.calls(), 1);
}

/// Runs a closure at every event.
#[derive(Clone, Default)]
struct Hook(Rc<RefCell<Option<OnEvent>>>);
type OnEvent = Rc<dyn Fn(TraceEvent)>;

impl Hook {
    fn set(&self, hook: impl Fn(TraceEvent) + 'static) {
        *self.0.borrow_mut() = Some(Rc::new(hook));
    }
    fn clear(&self) {
        // Taken out first: what goes with it may come back here.
        let was = self.0.take();
        drop(was);
    }
}

impl TraceSink for Hook {
    fn record(&self, event: TraceEvent) {
        let hook = self.0.borrow().clone();
        if let Some(hook) = hook {
            hook(event);
        }
    }
}

/// Runs a closure whenever somebody idles.
#[derive(Clone, Default)]
struct Idle(Rc<RefCell<Option<OnIdle>>>);
type OnIdle = Rc<dyn Fn()>;

impl Idle {
    fn set(&self, idle: impl Fn() + 'static) {
        *self.0.borrow_mut() = Some(Rc::new(idle));
    }
}

impl Idle {
    fn clear(&self) {
        let was = self.0.take();
        drop(was);
    }
}

impl Clock for Idle {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn idle(&self) {
        let idle = self.0.borrow().clone();
        idle.expect("somebody waits, and nothing will happen")();
    }
}

type Pool = StaticPool<Critical, 64, 4>;
type Watched = Parts<Arc<Pool>, Arc<Books>, Idle, Hook>;

struct Bench {
    books: Arc<Books>,
    pool: Arc<Pool>,
    idle: Idle,
    hook: Hook,
    target: Watched,
}

fn bench() -> Bench {
    let books = Arc::new(Books::default());
    let (idle, hook) = (Idle::default(), Hook::default());
    let target = Watched::with(books.clone(), idle.clone(), hook.clone());
    let pool = Arc::new(Pool::new());
    Bench {
        books,
        pool,
        idle,
        hook,
        target,
    }
}

impl Drop for Bench {
    /// What the hooks have captured may hold the storages that hold the hooks.
    fn drop(&mut self) {
        self.hook.clear();
        self.idle.clear();
    }
}

impl Bench {
    fn alloc(&self) -> Tensor<Watched> {
        Tensor::alloc(&self.target, self.pool.clone(), 16).unwrap()
    }
    /// A device reads `tensor` until somebody idles.
    fn device_reads_until_idle(&self, tensor: &Tensor<Watched>) {
        let stream = Stream::claim().unwrap();
        let ticket = Cell::new(Some(tensor.begin(Access::Read, stream.id()).unwrap()));
        self.idle.set(move || {
            // The stream lives as long as the ticket may.
            let _ = &stream;
            drop(ticket.take());
        });
    }
    fn assert_empty(&self) {
        assert_eq!(self.pool.census().in_use, 0);
        assert_eq!((self.books.blocks(), self.books.foreign()), (0, 0));
    }
}

#[test]
fn a_sink_that_panics_at_any_event_leaves_nothing_behind() {
    let life = |bench: &Bench, survivor: &RefCell<Option<Tensor<Watched>>>| {
        let tensor = bench.alloc();
        *survivor.borrow_mut() = Some(tensor.clone());
        bench.device_reads_until_idle(&tensor);
        tensor.write(0, &[1; 16]).unwrap();
        tensor.read(0, &mut [0; 16]).unwrap();
        tensor.fill(2).unwrap();
        tensor
            .slice(..4)
            .unwrap()
            .copy_from(&tensor.slice(8..12).unwrap())
            .unwrap();
        drop((survivor.take(), tensor));
    };
    let events = {
        let bench = bench();
        let counted = Rc::new(Cell::new(0));
        let counter = counted.clone();
        bench.hook.set(move |_| counter.set(counter.get() + 1));
        life(&bench, &RefCell::new(None));
        counted.get()
    };
    // Memory, alloc, write with its block, read, fill, copy, free, memory.
    assert_eq!(events, 2 + 1 + 2 + 2 + 2 + 2 + 2 + 1 + 2);
    for nth in 1..=events {
        let bench = bench();
        let count = Cell::new(0);
        bench.hook.set(move |event| {
            count.set(count.get() + 1);
            assert!(count.get() != nth, "the sink is full at {event:?}");
        });
        let survivor = RefCell::new(None);
        let run = catch_unwind(AssertUnwindSafe(|| life(&bench, &survivor)));
        assert!(run.is_err(), "event {nth}");
        if let Some(tensor) = survivor.take() {
            // The device may still have its ticket; nobody else has anything.
            bench.idle.clear();
            assert_eq!(tensor.try_fill(9), Ok(()), "event {nth}");
        }
        bench.assert_empty();
    }
}

#[test]
fn a_clock_that_panics_leaves_nobody_waiting() {
    let bench = bench();
    let tensor = bench.alloc();
    let stream = Stream::claim().unwrap();
    let ticket = tensor.begin(Access::Read, stream.id()).unwrap();
    bench.idle.set(|| panic!("the clock has stopped"));
    let write = || tensor.write(0, &[1]);
    assert!(catch_unwind(AssertUnwindSafe(write)).is_err());
    // A reader may join the device again: no writer is in the queue.
    assert_eq!(tensor.try_read(0, &mut [0]), Ok(()));
    drop(ticket);
    assert_eq!(tensor.try_write(0, &[2]), Ok(()));
    drop((tensor, bench.target.clone()));
    bench.assert_empty();
}

#[test]
fn a_sink_that_calls_back_sees_each_operation_before_and_after_it_holds_the_fence() {
    let bench = bench();
    let tensor = bench.alloc();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (again, log) = (tensor.clone(), seen.clone());
    let busy = Cell::new(false);
    bench.hook.set(move |event| {
        if !busy.replace(true) {
            let mut byte = [0];
            again.try_read(0, &mut byte).unwrap();
            again.try_lend_mut().unwrap()[1] += 1;
            log.borrow_mut().push((event.phase, byte[0]));
            busy.set(false);
        }
    });
    tensor.write(0, &[7]).unwrap();
    bench.hook.clear();
    assert_eq!(
        *seen.borrow(),
        [(TracePhase::Start, 0), (TracePhase::Stop, 7)]
    );
    assert_eq!(tensor.lend().unwrap()[..2], [7, 2]);
}

#[test]
fn a_sink_may_allocate_while_the_last_handle_goes() {
    let bench = bench();
    let tensor = bench.alloc();
    let (target, pool) = (bench.target.clone(), bench.pool.clone());
    let made = Rc::new(Cell::new(None));
    let keep = made.clone();
    bench.hook.set(move |event| {
        if event.kind == TraceKind::Free && event.bytes == 16 {
            keep.set(Some(Tensor::alloc(&target, pool.clone(), 3).unwrap()));
        }
    });
    drop(tensor);
    let heir = made.take().unwrap();
    heir.write(0, b"abc").unwrap();
    assert_eq!(&*heir.lend().unwrap(), b"abc");
    drop(heir);
    bench.hook.clear();
    bench.assert_empty();
}

#[test]
fn an_idle_hook_may_use_the_tensor_that_is_waited_for() {
    let bench = bench();
    let tensor = bench.alloc();
    let stream = Stream::claim().unwrap();
    let ticket = Cell::new(Some(tensor.begin(Access::Write, stream.id()).unwrap()));
    let again = tensor.clone();
    let turns = Rc::new(Cell::new(0));
    let count = turns.clone();
    bench.idle.set(move || {
        count.set(count.get() + 1);
        match count.get() {
            1 => {
                let storage = again.storage_id().unwrap();
                let busy = TensorError::WouldBlock { storage };
                assert_eq!(again.try_write(0, &[1]), Err(busy));
                assert_eq!(again.try_read(0, &mut [1]), Err(busy));
                drop(ticket.take());
            }
            turn => panic!("idled {turn} times"),
        }
    });
    tensor.write(0, &[5]).unwrap();
    assert_eq!(turns.get(), 1);
    assert_eq!(tensor.lend().unwrap()[0], 5);
}

#[test]
fn a_launch_that_waits_for_one_operand_holds_none_of_the_others() {
    let bench = bench();
    let (free, busy) = (bench.alloc(), bench.alloc());
    let stream = Stream::claim().unwrap();
    let ticket = Cell::new(Some(busy.begin(Access::Write, stream.id()).unwrap()));
    let watched = free.clone();
    bench.idle.set(move || {
        assert_eq!(watched.in_flight(), (0, 0));
        watched.try_fill(4).unwrap();
        drop(ticket.take());
    });
    let engine = CpuEngine::<Critical, Tickets<Watched>>::new(Stream::claim().unwrap());
    let submission = engine
        .launch(Command::Copy, &[free.input(), busy.output()])
        .unwrap();
    submission.wait().unwrap();
    assert_eq!(
        *busy.lend().unwrap(),
        [4; 16],
        "what came in between was seen"
    );
}

// A kernel is a plain function: what it reaches for is in statics.
thread_local! {
    static INSIDE: RefCell<Option<Inside>> = const { RefCell::new(None) };
}

struct Inside {
    tensor: Tensor<Sketch>,
    own: Rc<CpuEngine<Unsync, Tickets<Sketch>>>,
    other: CpuEngine<Unsync, Tickets<Sketch>>,
}

fn increment(operands: &mut [Lent<'_>]) -> Result<(), KernelFault> {
    let [Lent::Write(bytes)] = operands else {
        return Err(KernelFault(1));
    };
    bytes.iter_mut().for_each(|byte| *byte += 1);
    Ok(())
}

fn reach_around(operands: &mut [Lent<'_>]) -> Result<(), KernelFault> {
    let [Lent::Write(bytes)] = operands else {
        return Err(KernelFault(1));
    };
    bytes[0] = 1;
    INSIDE.with_borrow(|inside| {
        let Inside { tensor, own, other } = inside.as_ref().unwrap();
        let storage = tensor.storage_id().unwrap();
        let busy = TensorError::WouldBlock { storage };
        let never = TensorError::WouldDeadlock { storage };
        // The bytes are lent to this very kernel: nobody else gets at them, waiting or not.
        assert_eq!(tensor.try_read(0, bytes), Err(busy));
        assert_eq!(tensor.read(0, bytes), Err(never));
        assert_eq!(tensor.write(0, &[9; 4]), Err(never));
        assert_eq!(tensor.try_lend().map(drop), Err(busy));
        assert_eq!(tensor.try_copy_from(tensor), Err(busy));
        let add = Command::Kernel(increment);
        let elsewhere = other.try_launch(add, &[tensor.output()]).map(drop);
        assert_eq!(
            elsewhere.unwrap_err().to_string(),
            format!("operand 0: {storage} is in use")
        );
        // The engine that runs this kernel queues behind it what is launched here.
        let mut behind = own.launch(add, &[tensor.output()]).unwrap();
        assert_eq!(behind.poll(None), Poll::Pending);
        assert_eq!(tensor.in_flight(), (0, 2));
        assert!(behind.wait().is_err(), "nobody but us could run it");
        Ok(())
    })
}

#[test]
fn a_kernel_gets_at_its_operands_through_its_arguments_alone() {
    let target = Sketch::new(HeapSource);
    let tensor = Tensor::alloc(&target, Heap::new(), 4).unwrap();
    let engine = || CpuEngine::new(Stream::claim().unwrap());
    let own = Rc::new(engine());
    INSIDE.set(Some(Inside {
        tensor: tensor.clone(),
        own: own.clone(),
        other: engine(),
    }));
    let submission = own
        .launch(Command::Kernel(reach_around), &[tensor.output()])
        .unwrap();
    submission.wait().unwrap();
    assert_eq!(
        *tensor.lend().unwrap(),
        [2, 1, 1, 1],
        "the one behind ran next"
    );
    assert_eq!((tensor.in_flight(), own.in_use()), ((0, 0), 0));
    INSIDE.set(None);
}

struct Calls<F>(F);
impl<F: Fn() + Send + Sync> std::task::Wake for Calls<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

#[test]
fn a_waker_finds_the_tensor_free() {
    thread_local!(static SEEN: RefCell<Option<(Tensor<Sketch>, [u8; 2])>> = const { RefCell::new(None) });
    let target = Sketch::new(HeapSource);
    let tensor = Tensor::alloc(&target, Heap::new(), 2).unwrap();
    SEEN.set(Some((tensor.clone(), [0; 2])));
    let look = || {
        SEEN.with_borrow_mut(|seen| {
            let (tensor, bytes) = seen.as_mut().unwrap();
            tensor.try_read(0, bytes).unwrap();
            tensor.try_fill(8).unwrap();
        });
    };
    let engine = Stepped::<Sketch>::new();
    let mut submission = engine.launch(Command::Fill(6), &[tensor.output()]).unwrap();
    let waker = Waker::from(Arc::new(Calls(look)));
    assert_eq!(submission.poll(Some(&waker)), Poll::Pending);
    assert!(engine.step());
    assert_eq!(SEEN.take().unwrap().1, [6, 6]);
    assert_eq!(*tensor.lend().unwrap(), [8, 8]);
    assert_eq!(submission.poll(None), Poll::Ready(Ok(())));
}

#[test]
fn what_is_never_dropped_leaks_and_never_dangles() {
    let bench = bench();
    let stream = Stream::claim().unwrap();

    // A forgotten guard keeps the storage guarded, and goes with it.
    let guarded = bench.alloc();
    let storage = guarded.storage_id().unwrap();
    forget(guarded.lend().unwrap());
    assert_eq!(guarded.fill(1), Err(TensorError::Guarded { storage }));
    assert_eq!(guarded.read(0, &mut [0]), Ok(()));
    drop(guarded);
    bench.assert_empty();

    // A ticket that nobody drops keeps the storage: a device may still be at it.
    let lost = bench.alloc();
    let ticket = lost.begin(Access::Write, stream.id()).unwrap();
    assert_eq!(lost.in_flight(), (0, 1));
    drop(lost);
    assert_eq!((bench.pool.census().in_use, bench.books.blocks()), (1, 1));

    // A submission that nobody drops nor asks lets go when it is done.
    let tensor = bench.alloc();
    let engine = Stepped::<Watched>::new();
    let submission = engine.launch(Command::Fill(1), &[tensor.output()]);
    drop(tensor);
    assert_eq!(bench.books.blocks(), 2);
    assert!(engine.step());
    assert_eq!((bench.pool.census().in_use, bench.books.blocks()), (1, 1));
    assert_eq!(engine.in_use(), 1, "nobody asked for the completion");
    drop(submission);
    drop(ticket);
    bench.assert_empty();
}

#[test]
fn tensors_of_two_target_values_meet_in_one_launch_and_go_home_apart() {
    let books = [Arc::new(Books::default()), Arc::new(Books::default())];
    let [one, two] = books.clone().map(Parts::<Heap<Unsync>, Arc<Books>>::new);
    let a = Tensor::alloc(&one, Heap::new(), 2).unwrap();
    let b = Tensor::alloc(&two, Heap::new(), 2).unwrap();
    a.write(0, &[3, 4]).unwrap();
    let engine = CpuEngine::<_, Tickets<_>>::new(Stream::claim().unwrap());
    engine
        .launch(Command::Copy, &[a.input(), b.output()])
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(*b.lend().unwrap(), [3, 4]);
    drop((a, b));
    assert_eq!(
        books.map(|books| (books.blocks(), books.foreign())),
        [(0, 0); 2]
    );
}
