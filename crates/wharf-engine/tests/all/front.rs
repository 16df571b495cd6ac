//! The safe fronts: segments that ship, bytes that are lent, and waits that end or are given up.
#![cfg(all(feature = "std", feature = "critical-section"))]

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use wharf_backend::{
    AllocError, AllocHint, Caps, Census, Header, Heap, IoDirection, MemBackend, SegmentMut,
    StaticPool,
};
use wharf_engine::{
    Cargo, Command, Completion, CpuEngine, Descriptor, DescriptorError, DescriptorQueue, Engine,
    EngineExt, Fault, Freight, KernelFault, Lent, Limits, Place, Returned, Rules, RunError,
    Sequence, ShipError, SplitError, Stream, StreamId, SubmitError, Unfinished, run_on_host,
};
use wharf_sync::{Blocking, Clock, Critical, NoClock, SyncPolicy, Unsync};

type Memory<P> = Heap<P>;

fn segment<P: SyncPolicy>(bytes: &[u8]) -> SegmentMut<Memory<P>> {
    SegmentMut::alloc(Heap::new(), bytes.len())
        .unwrap()
        .init_from(bytes)
        .unwrap()
}

fn cpu<P: SyncPolicy, C: Cargo, const N: usize>() -> CpuEngine<P, C, N> {
    CpuEngine::new(Stream::claim().unwrap())
}

/// An engine that moves when it is told to.
struct Stepped<P: SyncPolicy, C: Cargo> {
    queue: DescriptorQueue<P, C, 2>,
    stream: Stream,
    limits: Limits,
    /// Called when somebody aborts.
    aborting: Option<Box<dyn Fn() + Send + Sync>>,
}

impl<P: SyncPolicy, C: Cargo> Stepped<P, C> {
    fn new() -> Self {
        Self {
            queue: DescriptorQueue::new(),
            stream: Stream::claim().unwrap(),
            limits: Limits::NONE,
            aborting: None,
        }
    }

    fn step(&self) -> bool {
        let Some(job) = self.queue.next() else {
            return false;
        };
        // SAFETY: whoever submitted promised that the operands are valid and unshared until the job lands.
        let outcome = unsafe { run_on_host(job.descriptor()) };
        job.finish(outcome);
        true
    }
}

// SAFETY: operands are touched while their job exists; the queue keeps the cargo until then and hands out one job at a
// time, in order; the stream is claimed.
unsafe impl<P: SyncPolicy, C: Cargo> Engine for Stepped<P, C> {
    type Policy = P;
    type Cargo = C;
    fn stream(&self) -> StreamId {
        self.stream.id()
    }
    fn limits(&self) -> Limits {
        self.limits
    }
    unsafe fn submit(
        &self,
        descriptor: Descriptor,
        cargo: C,
    ) -> Result<Sequence, Returned<C, SubmitError>> {
        if let Err(error) = descriptor.check(&self.limits) {
            return Err(Returned::new(error, cargo));
        }
        self.queue.push(descriptor, cargo)
    }
    fn poll(&self, sequence: Sequence, waker: Option<&Waker>) -> Poll<Option<Completion<C>>> {
        self.queue.poll(sequence, waker)
    }
    fn detach(&self, sequence: Sequence) {
        self.queue.detach(sequence);
    }
    fn abort(&self, sequence: Sequence) {
        if let Some(aborting) = &self.aborting {
            aborting();
        }
        self.queue.abort(sequence);
    }
    fn outstanding(&self) -> Option<std::ops::RangeInclusive<Sequence>> {
        self.queue.outstanding()
    }
    fn completed(&self) -> &P::Event {
        self.queue.completed()
    }
}

/// A second passes in each idle round; in the given round something is done.
struct Rounds<F: Fn()> {
    now: Cell<u64>,
    at: u64,
    then: F,
}

impl<F: Fn()> Rounds<F> {
    fn new(at: u64, then: F) -> Self {
        Self {
            now: Cell::new(0),
            at,
            then,
        }
    }
}

impl<F: Fn()> Clock for Rounds<F> {
    fn now(&self) -> Duration {
        Duration::from_secs(self.now.get())
    }
    fn idle(&self) {
        self.now.set(self.now.get() + 1);
        if self.now.get() == self.at {
            (self.then)();
        }
    }
}

fn seconds(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

// Owned segments.

#[test]
fn a_segment_is_copied_into_another_and_both_come_back() {
    let engine = cpu::<Unsync, (Freight<_>, Freight<_>), 1>();
    let (from, to) = (segment::<Unsync>(b"quay"), segment::<Unsync>(b"...."));
    let transfer = engine.copy(from, to).unwrap();
    assert_eq!(transfer.sequence().get(), 1);
    let (from, to) = transfer.wait(&NoClock, None).unwrap().unwrap();
    assert_eq!(
        (&*from.into_segment(), &*to.into_segment()),
        (&b"quay"[..], &b"quay"[..])
    );
    assert_eq!(engine.in_use(), 0);
}

#[test]
fn a_segment_is_filled() {
    let engine = cpu::<Unsync, Freight<Memory<Unsync>>, 1>();
    let transfer = engine.fill(segment(&[1, 2, 3]), 9).unwrap();
    let filled = transfer.wait(&NoClock, None).unwrap().unwrap();
    assert_eq!(*filled.into_segment(), [9, 9, 9]);
}

#[test]
fn one_engine_takes_any_command_on_optional_segments() {
    let engine = cpu::<Unsync, [Option<Freight<Memory<Unsync>>>; 3], 1>();
    let run = |command, cargo| {
        let transfer = engine.ship(command, cargo).unwrap();
        transfer.wait(&NoClock, None).unwrap().unwrap()
    };
    let [filled, _, _] = run(
        Command::Fill(4),
        [Some(Freight::write(segment(&[0, 0]))), None, None],
    );
    let filled = filled.unwrap().into_segment();
    let [_, copied, _] = run(
        Command::Copy,
        [
            Some(Freight::read(filled)),
            Some(Freight::write(segment(&[1, 1]))),
            None,
        ],
    );
    let copied = copied.unwrap().into_segment();
    assert_eq!(*copied, [4, 4]);
    fn sum(operands: &mut [Lent<'_>]) -> Result<(), KernelFault> {
        let [Lent::Read(from), Lent::Write(to)] = operands else {
            return Err(KernelFault(1));
        };
        to[0] = from.iter().sum();
        Ok(())
    }
    let [_, _, total] = run(
        Command::Kernel(sum),
        [
            Some(Freight::read(copied)),
            None,
            Some(Freight::write(segment(&[0]))),
        ],
    );
    assert_eq!(*total.unwrap().into_segment(), [8]);
}

#[test]
fn what_is_not_taken_comes_back() {
    let engine = Stepped::<Unsync, (Freight<_>, Freight<_>)>::new();
    let short = engine
        .copy(segment::<Unsync>(&[1, 2]), segment::<Unsync>(&[3]))
        .unwrap_err();
    let lengths = DescriptorError::Lengths { from: 2, to: 1 };
    assert_eq!(short.error, ShipError::Descriptor(lengths));
    assert_eq!((&*short.value.0, &*short.value.1), (&[1, 2][..], &[3][..]));

    let _slots = [(); 2].map(|()| engine.copy(segment(&[1]), segment(&[2])).unwrap());
    let full = engine.copy(segment(&[5]), segment(&[6])).unwrap_err();
    let queue_full = SubmitError::QueueFull { slots: 2 };
    assert_eq!(full.error, ShipError::Submit(queue_full));
    assert_eq!(full.to_string(), "all 2 slots of the queue are in use");
    assert_eq!((full.value.0[0], full.value.1[0]), (5, 6));

    // More operands than a descriptor has.
    let engine = cpu::<Unsync, [Freight<Memory<Unsync>>; 9], 1>();
    let nine = [(); 9].map(|()| Freight::read(segment(&[7])));
    let many = engine
        .ship(Command::Kernel(|_| panic!("not taken, so not run")), nine)
        .unwrap_err();
    let too_many = DescriptorError::TooManyOperands { operands: 9 };
    assert_eq!(many.error, ShipError::Descriptor(too_many));
    assert_eq!(many.value.map(|one| one.into_segment()[0]), [7; 9]);
}

#[test]
fn an_engine_with_limits_says_which_operand_it_cannot_cut() {
    static POOL: StaticPool<Critical, 8, 2> = StaticPool::new();
    let mut engine = Stepped::<Critical, (Freight<_>, Freight<_>)>::new();
    engine.limits = Limits::new(Rules {
        max_bytes: 4,
        max_elements: 1,
        ..Rules::NONE
    })
    .unwrap();
    let alloc = |size| SegmentMut::alloc(&POOL, size).unwrap().filled(1).unwrap();
    let refused = engine.copy(alloc(8), alloc(8)).unwrap_err();
    let error = SplitError::TooManyElements { needed: 2, max: 1 };
    assert_eq!(
        refused.error,
        ShipError::Submit(SubmitError::Limits { operand: 0, error })
    );
    assert_eq!(
        refused.to_string(),
        "operand 0: 2 elements needed, a transfer has at most 1"
    );
    drop(refused);
    assert_eq!(Engine::limits(&&engine), engine.limits);
    let taken = engine.copy(alloc(4), alloc(4)).unwrap();
    assert!(engine.step());
    assert!(taken.wait(&NoClock, None).unwrap().is_ok());
}

/// What a cache was told: before or after, how many bytes, which way.
type Calls = Mutex<Vec<(&'static str, usize, IoDirection)>>;

/// Heap memory whose cache hooks write down what they are told.
struct Cached {
    heap: Heap<Blocking>,
    calls: Calls,
}

// SAFETY: the heap's segments; the hooks touch nothing.
unsafe impl MemBackend for Cached {
    type Policy = Blocking;
    fn vend(&self, size: usize, hint: AllocHint) -> Option<NonNull<Header<Blocking>>> {
        self.heap.vend(size, hint)
    }
    fn refusal(&self, size: usize, hint: AllocHint) -> AllocError {
        self.heap.refusal(size, hint)
    }
    unsafe fn reclaim(&self, header: NonNull<Header<Blocking>>) {
        // SAFETY: as the caller promises.
        unsafe { self.heap.reclaim(header) }
    }
    unsafe fn place(&self, header: NonNull<Header<Blocking>>) -> Place {
        // SAFETY: as the caller promises.
        unsafe { self.heap.place(header) }
    }
    fn may_own(&self, _: NonNull<Header<Blocking>>) -> bool {
        true
    }
    fn caps(&self) -> Caps {
        Caps::OWNS_BYTES | Caps::NEEDS_CACHE_OPS
    }
    fn alignment(&self) -> usize {
        self.heap.alignment()
    }
    fn max_segment_size(&self) -> usize {
        self.heap.max_segment_size()
    }
    fn census(&self) -> Census {
        Census::NOTHING
    }
    fn name(&self) -> &'static str {
        "cached"
    }
    unsafe fn before_io(
        &self,
        _: NonNull<Header<Blocking>>,
        offset: usize,
        len: usize,
        way: IoDirection,
    ) {
        assert_eq!(offset, 0);
        self.calls.lock().unwrap().push(("before", len, way));
    }
    unsafe fn after_io(
        &self,
        _: NonNull<Header<Blocking>>,
        offset: usize,
        len: usize,
        way: IoDirection,
    ) {
        assert_eq!(offset, 0);
        self.calls.lock().unwrap().push(("after", len, way));
    }
}

#[test]
fn caches_are_maintained_in_pairs_whatever_happens() {
    use IoDirection::{CpuToDevice, DeviceToCpu};
    static CACHED: LazyLock<Cached> = LazyLock::new(|| Cached {
        heap: Heap::new(),
        calls: Mutex::default(),
    });
    let cached: &'static Cached = &CACHED;
    let take = || std::mem::take(&mut *cached.calls.lock().unwrap());
    let alloc = |size| {
        let segment = SegmentMut::alloc(cached, size).unwrap().filled(1).unwrap();
        take();
        segment
    };
    let engine = Stepped::<Blocking, (Freight<_>, Freight<_>)>::new();
    // The source is told by its three bytes; the destination is cleaned too, for what a device leaves unwritten.
    let departed = [
        ("before", 3, CpuToDevice),
        ("before", 3, CpuToDevice),
        ("before", 3, DeviceToCpu),
    ];
    let landed = [
        ("after", 3, CpuToDevice),
        ("after", 3, DeviceToCpu),
        ("after", 3, CpuToDevice),
    ];
    let (from, to) = (alloc(3), alloc(3));
    let transfer = engine.copy(from, to).unwrap();
    assert_eq!(take(), departed);
    assert!(engine.step());
    assert_eq!(take(), landed, "when it lands, not when somebody asks");
    drop(transfer.wait(&NoClock, None).unwrap().unwrap());
    assert_eq!(take(), []);

    // Aborted.
    let (from, to) = (alloc(3), alloc(3));
    let transfer = engine.copy(from, to).unwrap();
    take();
    transfer.abort();
    assert_eq!(take(), landed);
    drop(transfer);

    // Refused by the engine: paired. Refused before it was asked: neither.
    engine.queue.close();
    let (from, to) = (alloc(3), alloc(3));
    let refused = engine.copy(from, to).unwrap_err();
    assert_eq!(refused.error, ShipError::Submit(SubmitError::Closed));
    assert_eq!(take(), [departed, landed].concat());
    drop(refused);
    let (from, to) = (alloc(3), alloc(2));
    assert!(engine.copy(from, to).is_err());
    assert_eq!(take(), []);
}

#[test]
fn caches_are_maintained_for_each_part_of_a_cargo() {
    use IoDirection::CpuToDevice;
    static CACHED: LazyLock<Cached> = LazyLock::new(|| Cached {
        heap: Heap::new(),
        calls: Mutex::default(),
    });
    let cached: &'static Cached = &CACHED;
    let freight = |size| {
        let segment = SegmentMut::alloc(cached, size).unwrap().filled(1).unwrap();
        Some(Freight::read(segment))
    };
    let engine = Stepped::<Blocking, [Option<Freight<_>>; 3]>::new();
    let cargo = [freight(1), None, freight(2)];
    cached.calls.lock().unwrap().clear();
    let transfer = engine
        .ship(Command::Kernel(|_| Ok(())), cargo)
        .map_err(|refused| refused.error)
        .unwrap();
    assert!(engine.step());
    assert_eq!(
        *cached.calls.lock().unwrap(),
        [
            ("before", 1, CpuToDevice),
            ("before", 2, CpuToDevice),
            ("after", 1, CpuToDevice),
            ("after", 2, CpuToDevice),
        ]
    );
    drop(transfer);
}

// Waiting.

#[test]
fn a_wait_ends_at_its_deadline_and_leaves_the_submission_alone() {
    let engine = Stepped::<Critical, Freight<Memory<Critical>>>::new();
    let mut transfer = engine.fill(segment(&[0]), 1).unwrap();
    let clock = Rounds::new(u64::MAX, || ());
    let sequence = transfer.sequence();
    let early = transfer.wait_until(&clock, seconds(5));
    assert_eq!(early.unwrap_err(), Unfinished::TimedOut { sequence });
    assert_eq!(clock.now.get(), 5);
    // It comes in the third second.
    let clock = Rounds::new(3, || assert!(engine.step()));
    let filled = transfer.wait_until(&clock, seconds(5)).unwrap().unwrap();
    assert_eq!(clock.now.get(), 3);
    assert_eq!(*filled.into_segment(), [1]);
    let again = transfer.wait_until(&clock, None);
    assert_eq!(again.unwrap_err(), Unfinished::Taken { sequence });
    // What is there already needs no time.
    let transfer = engine.fill(segment(&[0]), 2).unwrap();
    engine.step();
    assert!(transfer.wait(&clock, seconds(0)).unwrap().is_ok());
    let sequence = Sequence::new(99);
    let unknown = engine.wait(sequence, &NoClock, None);
    assert_eq!(unknown.unwrap_err(), Unfinished::Taken { sequence });
}

#[test]
fn a_completion_in_the_last_moment_counts() {
    /// A clock that has run out as soon as it is looked at, which takes so long that the engine is done.
    struct Slow<'e>(&'e Stepped<Critical, ()>);
    impl Clock for Slow<'_> {
        fn now(&self) -> Duration {
            self.0.step();
            Duration::from_secs(9)
        }
    }
    let engine = Stepped::<Critical, ()>::new();
    let transfer = engine.ship(Command::Kernel(|_| Ok(())), ()).unwrap();
    assert_eq!(transfer.wait(&Slow(&engine), seconds(1)), Ok(Ok(())));
}

#[test]
fn who_is_alone_does_not_wait() {
    let engine = Stepped::<Unsync, ()>::new();
    let mut transfer = engine.ship(Command::Kernel(|_| Ok(())), ()).unwrap();
    let waited = transfer.wait_until(&NoClock, None);
    let sequence = transfer.sequence();
    assert_eq!(waited, Err(Unfinished::WouldDeadlock { sequence }));
    assert!(engine.step());
    assert_eq!(transfer.wait(&NoClock, None), Ok(Ok(())));
}

#[derive(Default)]
struct Woken(AtomicUsize);
impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_transfer_is_a_future_and_dropping_it_at_any_point_detaches() {
    for polls in 0..3 {
        for runs_before in [false, true] {
            let engine = Stepped::<Unsync, Freight<Memory<Unsync>>>::new();
            let woken = Arc::new(Woken::default());
            let waker = Waker::from(Arc::clone(&woken));
            let mut context = Context::from_waker(&waker);
            let mut transfer = engine.fill(segment(&[0]), 3).unwrap();
            for _ in 0..polls {
                assert!(pin!(&mut transfer).poll(&mut context).is_pending());
            }
            if runs_before {
                assert!(engine.step());
                assert_eq!(woken.0.load(Ordering::Relaxed), usize::from(polls > 0));
                assert_eq!(engine.queue.in_use(), 1);
            }
            drop(transfer);
            if !runs_before {
                assert_eq!(engine.queue.in_flight(), 1, "the work goes on");
                assert!(engine.step());
            }
            assert_eq!(engine.queue.in_use(), 0);
        }
    }
    // Not dropped: it tells once.
    let engine = Stepped::<Unsync, Freight<Memory<Unsync>>>::new();
    let mut context = Context::from_waker(Waker::noop());
    let mut transfer = engine.fill(segment(&[0]), 3).unwrap();
    assert!(pin!(&mut transfer).poll(&mut context).is_pending());
    engine.step();
    let Poll::Ready(Some(Ok(filled))) = pin!(&mut transfer).poll(&mut context) else {
        panic!("it has run");
    };
    assert_eq!(*filled.into_segment(), [3]);
    assert!(matches!(
        pin!(&mut transfer).poll(&mut context),
        Poll::Ready(None)
    ));
}

#[test]
fn a_completion_is_asked_for_and_not_owned() {
    let engine = Stepped::<Unsync, Freight<Memory<Unsync>>>::new();
    let mut context = Context::from_waker(Waker::noop());
    let sequence = engine.fill(segment(&[0]), 3).unwrap().into_sequence();
    for polls in 0..3 {
        let mut completion = engine.completion(sequence);
        for _ in 0..polls {
            assert!(pin!(&mut completion).poll(&mut context).is_pending());
        }
        drop(completion);
    }
    engine.step();
    drop(engine.completion(sequence));
    assert_eq!(engine.queue.in_use(), 1, "still to be asked for");
    let mut completion = engine.completion(sequence);
    assert!(matches!(
        pin!(&mut completion).poll(&mut context),
        Poll::Ready(Some(Ok(_)))
    ));
    assert!(matches!(
        pin!(&mut completion).poll(&mut context),
        Poll::Ready(None)
    ));
    assert_eq!(engine.queue.in_use(), 0);
}

// Borrowed bytes.

#[test]
fn borrowed_bytes_are_copied_filled_and_computed_on() {
    let engine = cpu::<Unsync, (), 1>();
    let (from, mut to) = ([1_u8, 2, 3], [0_u8; 3]);
    let run = |command, operands: &mut [Lent<'_>]| {
        engine
            .run_borrowed(command, operands, (), &NoClock, None)
            .map_err(|returned| returned.error)
    };
    let copy = run(
        Command::Copy,
        &mut [Lent::Read(&from), Lent::Write(&mut to)],
    );
    assert_eq!(copy, Ok(()));
    assert_eq!(to, [1, 2, 3]);
    assert_eq!(
        run(Command::Fill(7), &mut [Lent::Write(&mut to[1..])]),
        Ok(())
    );
    assert_eq!(to, [1, 7, 7]);
    let gives_up = Command::Kernel(|_| Err(KernelFault(4)));
    assert_eq!(
        run(gives_up, &mut []),
        Err(RunError::Fault(Fault::Kernel(KernelFault(4))))
    );
    let shape = DescriptorError::Shape { operands: 1 };
    assert_eq!(
        run(Command::Copy, &mut [Lent::Read(&from)]),
        Err(RunError::Descriptor(shape))
    );
    let many = DescriptorError::TooManyOperands { operands: 9 };
    assert_eq!(
        run(
            Command::Kernel(|_| Ok(())),
            &mut [(); 9].map(|()| Lent::Read(&from))
        ),
        Err(RunError::Descriptor(many))
    );
    assert_eq!(engine.in_use(), 0);
}

/// A cargo with a number.
#[derive(Debug, PartialEq, Eq)]
struct Tag(u8);
impl Cargo for Tag {}

#[test]
fn borrowed_bytes_that_were_not_started_in_time_come_back() {
    let engine = Stepped::<Critical, Tag>::new();
    let mut to = [0_u8; 4];
    let clock = Rounds::new(u64::MAX, || ());
    let late = engine
        .run_borrowed(
            Command::Fill(1),
            &mut [Lent::Write(&mut to)],
            Tag(5),
            &clock,
            seconds(3),
        )
        .unwrap_err();
    assert_eq!(late.error, RunError::TimedOut);
    assert_eq!(late.value, Some(Tag(5)));
    assert_eq!(engine.queue.in_use(), 0);
    assert!(!engine.step(), "nothing is left to write there");
    assert_eq!(to, [0; 4]);

    // In time.
    let clock = Rounds::new(2, || assert!(engine.step()));
    let done = engine.run_borrowed(
        Command::Fill(1),
        &mut [Lent::Write(&mut to)],
        Tag(6),
        &clock,
        seconds(3),
    );
    assert_eq!(done.unwrap(), Tag(6));
    assert_eq!(to, [1; 4]);

    // Full, closed, taken by somebody else.
    let clock = Rounds::new(1, || {
        engine.step();
        drop(engine.poll(Sequence::new(3), None));
    });
    let run = |clock: &dyn Clock| {
        let returned = engine
            .run_borrowed(Command::Kernel(|_| Ok(())), &mut [], Tag(7), clock, None)
            .unwrap_err();
        (returned.error, returned.value)
    };
    assert_eq!(run(&clock), (RunError::Taken, None));
    engine.queue.close();
    assert_eq!(
        run(&NoClock),
        (RunError::Submit(SubmitError::Closed), Some(Tag(7)))
    );
}

#[test]
fn alone_borrowed_bytes_come_back_at_once() {
    let engine = Stepped::<Unsync, ()>::new();
    let mut to = [0_u8; 4];
    let alone = engine
        .run_borrowed(
            Command::Fill(1),
            &mut [Lent::Write(&mut to)],
            (),
            &NoClock,
            None,
        )
        .unwrap_err();
    assert_eq!(alone.error, RunError::WouldDeadlock);
    assert!(!engine.step());
    assert_eq!(to, [0; 4]);
}

/// Runs `during` while a device is in the middle of filling four borrowed bytes, which it goes on with when it is told to
/// abort. Then it still writes, and only then says that it is done.
fn while_it_runs(
    during: impl FnOnce(&Stepped<Blocking, ()>, &mut [u8; 4], &(dyn Fn() + Sync), &AtomicBool),
) {
    let (abort, aborted) = mpsc::sync_channel(9);
    let (started, start) = mpsc::sync_channel(9);
    let start = Mutex::new(start);
    let mut engine = Stepped::new();
    engine.aborting = Some(Box::new(move || abort.send(()).unwrap()));
    let engine = &engine;
    let let_go = &AtomicBool::new(false);
    let has_started = || start.lock().unwrap().recv().unwrap();
    let mut bytes = [0; 4];
    thread::scope(|scope| {
        scope.spawn(move || {
            let job = loop {
                let seen = wharf_sync::Event::epoch(engine.queue.submitted());
                if let Some(job) = engine.queue.next() {
                    break job;
                }
                wharf_sync::Event::wait(engine.queue.submitted(), seen, &NoClock, None);
            };
            started.send(()).unwrap();
            aborted.recv().unwrap();
            // SAFETY: the submitter does not leave before this has landed: that is the test.
            let outcome = unsafe { run_on_host(job.descriptor()) };
            let_go.store(true, Ordering::SeqCst);
            job.finish(outcome);
        });
        during(engine, &mut bytes, &has_started, let_go);
    });
    assert_eq!(bytes, [8; 4], "written while they were lent");
    assert_eq!(engine.queue.in_use(), 0);
}

/// A clock that starts to matter when the device runs.
struct Late<'s, F: Fn() -> Duration>(&'s (dyn Fn() + Sync), F);
impl<F: Fn() -> Duration> Clock for Late<'_, F> {
    fn now(&self) -> Duration {
        (self.0)();
        (self.1)()
    }
}

#[test]
fn a_deadline_waits_for_the_device_to_let_go() {
    while_it_runs(|engine, bytes, has_started, let_go| {
        let clock = Late(has_started, || Duration::from_secs(9));
        let done = engine.run_borrowed(
            Command::Fill(8),
            &mut [Lent::Write(bytes)],
            (),
            &clock,
            seconds(1),
        );
        assert!(let_go.load(Ordering::SeqCst));
        assert!(done.is_ok(), "it was late, but it was done");
    });
}

#[test]
fn a_panic_waits_for_the_device_to_let_go() {
    while_it_runs(|engine, bytes, has_started, let_go| {
        let clock = Late(has_started, || panic!("out of time, for a test"));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            engine.run_borrowed(
                Command::Fill(8),
                &mut [Lent::Write(bytes)],
                (),
                &clock,
                seconds(1),
            )
        }));
        assert!(panicked.is_err());
        assert!(let_go.load(Ordering::SeqCst));
    });
}

#[test]
fn a_panic_takes_back_what_has_not_started() {
    let engine = Stepped::<Critical, ()>::new();
    let mut to = [0_u8; 4];
    let clock = Rounds::new(2, || panic!("in the idle hook, for a test"));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        engine.run_borrowed(
            Command::Fill(1),
            &mut [Lent::Write(&mut to)],
            (),
            &clock,
            None,
        )
    }));
    assert!(panicked.is_err());
    assert!(!engine.step(), "nothing is left to write there");
    assert_eq!(engine.queue.in_use(), 0);
    assert_eq!(to, [0; 4]);
}

#[test]
fn a_kernel_that_panics_leaves_no_borrow_behind() {
    let engine = cpu::<Blocking, (), 2>();
    let mut to = [0_u8; 4];
    let kernel: wharf_engine::Kernel = |operands| {
        if let [Lent::Write(to)] = operands {
            to[0] = 1;
        }
        panic!("on purpose")
    };
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let operands = &mut [Lent::Write(&mut to)];
        engine.run_borrowed(Command::Kernel(kernel), operands, (), &NoClock, None)
    }));
    assert!(panicked.is_err());
    assert_eq!(to, [1, 0, 0, 0]);
    assert_eq!(engine.in_use(), 0);
}

#[test]
fn the_panic_of_another_kernel_takes_back_what_is_queued_behind_it() {
    static ENGINE: LazyLock<CpuEngine<Critical, (), 4>> = LazyLock::new(cpu);
    static SECOND: Mutex<Option<Sequence>> = Mutex::new(None);
    let submit = |kernel| {
        let descriptor = Descriptor::new(Command::Kernel(kernel), &[]).unwrap();
        // SAFETY: without operands there is nothing to keep.
        unsafe { ENGINE.submit(descriptor, ()) }.unwrap()
    };
    // Two that panic, queued while a third one runs. The first takes the runner with it; the second, which somebody
    // will ask for, stays.
    let outer = catch_unwind(|| {
        submit(|_| {
            for second in [false, true] {
                let panics: wharf_engine::Kernel = |_| panic!("on purpose");
                let descriptor = Descriptor::new(Command::Kernel(panics), &[]).unwrap();
                // SAFETY: as above.
                let sequence = unsafe { ENGINE.submit(descriptor, ()) }.unwrap();
                if second {
                    *SECOND.lock().unwrap() = Some(sequence);
                } else {
                    ENGINE.detach(sequence);
                }
            }
            Ok(())
        })
    });
    assert!(outer.is_err());
    assert_eq!(ENGINE.in_use(), 1, "the second one waits");
    let mut to = [0_u8; 4];
    let behind = catch_unwind(AssertUnwindSafe(|| {
        let operands = &mut [Lent::Write(&mut to)];
        ENGINE.run_borrowed(Command::Fill(1), operands, (), &NoClock, None)
    }));
    assert!(behind.is_err(), "the panic of the second one");
    assert_eq!(
        (ENGINE.in_flight(), ENGINE.in_use()),
        (0, 1),
        "ours is not queued any more"
    );
    let second = SECOND.lock().unwrap().unwrap();
    assert!(ENGINE.poll(second, None).is_ready());
    // Whoever comes next runs what is queued: nothing that writes there.
    let next = submit(|_| Ok(()));
    assert!(ENGINE.poll(next, None).is_ready());
    assert_eq!(to, [0; 4]);
}

#[test]
fn errors_say_what_happened() {
    let texts = RefCell::new(Vec::new());
    let say = |error: &dyn std::error::Error| texts.borrow_mut().push(error.to_string());
    let sequence = Sequence::new(7);
    say(&Unfinished::TimedOut { sequence });
    say(&Unfinished::WouldDeadlock { sequence });
    say(&Unfinished::Taken { sequence });
    say(&RunError::TimedOut);
    say(&RunError::from(DescriptorError::Shape { operands: 3 }));
    say(&DescriptorError::Lengths { from: 8, to: 7 });
    say(&RunError::Fault(Fault::Closed));
    say(&ShipError::from(SubmitError::Closed));
    assert_eq!(
        texts.into_inner(),
        [
            "submission #7 had not landed at the deadline",
            "nobody but the caller could finish submission #7",
            "how submission #7 ended was told already, if it ever was one",
            "not started in time, and taken back",
            "3 such operands do not fit the command",
            "8 bytes cannot be copied to 7",
            "the engine was closed before it started",
            "the engine is closed",
        ]
    );
}
