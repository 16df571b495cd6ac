//! The barrier: what it waits for, how long, and what it leaves to others.
#![cfg(all(feature = "std", feature = "critical-section"))]

use std::cell::Cell;
use std::future::Future;
use std::ops::RangeInclusive;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use wharf_backend::usage::ChannelId;
use wharf_engine::{
    Cargo, Command, Completion, CpuEngine, Descriptor, DescriptorQueue, Engine, EngineExt, Fault,
    KernelFault, Lent, Returned, RunError, Sequence, SequenceTooLarge, StaticCpuEngine, Stream,
    StreamId, SubmissionId, SubmitError, Unfinished,
};
use wharf_sync::{Blocking, Clock, Critical, NoClock, SyncPolicy, Unsync};

/// An engine that ends its work when it is told to.
struct Stepped<P: SyncPolicy>(DescriptorQueue<P, (), 4>, Stream);

impl<P: SyncPolicy> Stepped<P> {
    fn new() -> Self {
        Self(DescriptorQueue::new(), Stream::claim().unwrap())
    }
    fn submit_nothing(&self) -> Sequence {
        nothing(self)
    }
    fn step(&self, outcome: Result<(), Fault>) {
        self.0.next().unwrap().finish(outcome);
    }
}

fn nothing<E: Engine<Cargo = ()>>(engine: &E) -> Sequence {
    let descriptor = Descriptor::new(Command::Kernel(|_| Ok(())), &[]).unwrap();
    // SAFETY: no operands.
    unsafe { engine.submit(descriptor, ()) }.unwrap()
}

// SAFETY: it touches no operand; the queue keeps the rest.
unsafe impl<P: SyncPolicy> Engine for Stepped<P> {
    type Policy = P;
    type Cargo = ();
    fn stream(&self) -> StreamId {
        self.1.id()
    }
    unsafe fn submit(
        &self,
        descriptor: Descriptor,
        cargo: (),
    ) -> Result<Sequence, Returned<(), SubmitError>> {
        self.0.push(descriptor, cargo)
    }
    fn poll(&self, sequence: Sequence, waker: Option<&Waker>) -> Poll<Option<Completion<()>>> {
        self.0.poll(sequence, waker)
    }
    fn detach(&self, sequence: Sequence) {
        self.0.detach(sequence);
    }
    fn abort(&self, sequence: Sequence) {
        self.0.abort(sequence);
    }
    fn completed(&self) -> &P::Event {
        self.0.completed()
    }
    fn outstanding(&self) -> Option<RangeInclusive<Sequence>> {
        self.0.outstanding()
    }
}

fn numbers(engine: &impl Engine) -> Option<(u64, u64)> {
    let outstanding = engine.outstanding()?;
    Some((outstanding.start().get(), outstanding.end().get()))
}

/// A second passes whenever somebody idles, and something is done.
struct Ticks<F: Fn(u64)>(Cell<u64>, F);

impl<F: Fn(u64)> Clock for Ticks<F> {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.get())
    }
    fn idle(&self) {
        self.0.set(self.0.get() + 1);
        (self.1)(self.0.get());
    }
}

#[derive(Default)]
struct Woken(AtomicUsize);
impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn outstanding_is_what_has_not_landed_from_the_oldest_to_the_newest() {
    let engine = Stepped::<Unsync>::new();
    assert_eq!(numbers(&engine), None);
    let [first, second, third] = [0; 3].map(|_| engine.submit_nothing());
    assert_eq!(numbers(&engine), Some((1, 3)));
    let running = engine.0.next().unwrap();
    assert_eq!(numbers(&engine), Some((1, 3)), "what runs has not landed");
    running.finish(Ok(()));
    assert_eq!(numbers(&engine), Some((2, 3)), "what is done has");
    engine.abort(third);
    assert_eq!(numbers(&engine), Some((2, 2)));
    engine.detach(second);
    assert_eq!(
        numbers(&engine),
        Some((2, 2)),
        "nobody asks, and it is there"
    );
    engine.step(Err(Fault::Kernel(KernelFault(1))));
    assert_eq!(numbers(&engine), None);
    // The completions are for those who ask.
    assert_eq!(engine.poll(first, None), Poll::Ready(Some(Ok(()))));
    assert!(matches!(
        engine.poll(third, None),
        Poll::Ready(Some(Err(Returned {
            error: Fault::Aborted,
            ..
        })))
    ));
    // Through references, too.
    engine.submit_nothing();
    assert_eq!(numbers(&&engine), Some((4, 4)));
    engine.0.close();
    assert_eq!(numbers(&engine), None);
}

#[test]
fn draining_waits_for_what_came_before_and_not_for_what_comes_meanwhile() {
    let engine = Stepped::<Critical>::new();
    engine.drain(&NoClock, None).unwrap();
    let sequences = [0; 2].map(|_| engine.submit_nothing());
    engine.detach(sequences[1]);
    // Before it ends anything, each second brings something new.
    let clock = Ticks(Cell::new(0), |second| {
        assert!(second <= 2, "it waits for more than it must");
        engine.submit_nothing();
        engine.step(if second == 1 {
            Ok(())
        } else {
            Err(Fault::Panicked)
        });
    });
    assert_eq!(engine.drain(&clock, None), Ok(()));
    assert_eq!(clock.0.get(), 2);
    assert_eq!(numbers(&engine), Some((3, 4)));
    assert_eq!(engine.poll(sequences[0], None), Poll::Ready(Some(Ok(()))));
}

#[test]
fn draining_ends_at_its_deadline_and_may_be_repeated() {
    let engine = Stepped::<Critical>::new();
    let sequence = engine.submit_nothing();
    let clock = Ticks(Cell::new(0), |second| {
        if second == 7 {
            engine.step(Ok(()));
        }
    });
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    for (limit, now) in [(0, 0), (5, 5)] {
        let drained = engine.drain(&clock, seconds(limit));
        let timed_out = Err(Unfinished::TimedOut { sequence });
        assert_eq!((drained, clock.0.get()), (timed_out, now));
    }
    assert_eq!(engine.drain(&clock, Some(Duration::MAX)), Ok(()));
    assert_eq!(clock.0.get(), 7);
    // What is there already needs no time.
    assert_eq!(engine.drain(&clock, seconds(0)), Ok(()));

    // Alone, nobody else would end it.
    let engine = Stepped::<Unsync>::new();
    let sequence = engine.submit_nothing();
    let drained = engine.drain(&NoClock, seconds(5));
    assert_eq!(drained, Err(Unfinished::WouldDeadlock { sequence }));
    engine.step(Ok(()));
    assert_eq!(engine.drain(&NoClock, None), Ok(()));
}

#[test]
fn a_landing_in_the_last_moment_counts() {
    struct Slow<'e>(&'e Stepped<Critical>);
    impl Clock for Slow<'_> {
        fn now(&self) -> Duration {
            self.0.step(Ok(()));
            Duration::from_secs(9)
        }
    }
    let engine = Stepped::new();
    engine.submit_nothing();
    let drained = engine.drain(&Slow(&engine), Some(Duration::from_secs(1)));
    assert_eq!(drained, Ok(()));
}

#[test]
fn draining_is_awaited_and_may_be_dropped_at_any_poll() {
    fn check<P: SyncPolicy>() {
        for polls in 0..3 {
            let engine = Stepped::<P>::new();
            let woken = Arc::new(Woken::default());
            let waker = Waker::from(woken.clone());
            let mut context = Context::from_waker(&waker);
            let sequence = engine.submit_nothing();
            let mut dropped = Box::pin(engine.drained());
            for _ in 0..polls {
                assert!(dropped.as_mut().poll(&mut context).is_pending());
            }
            drop(dropped);
            let mut drained = pin!(engine.drained());
            // Comes after the call, before the first poll.
            let later = engine.submit_nothing();
            let mut poll = || Pin::new(&mut drained).poll(&mut context);
            assert!(poll().is_pending());
            assert_eq!(woken.0.load(Ordering::Relaxed), 0);
            engine.step(Ok(()));
            assert!(woken.0.load(Ordering::Relaxed) > 0);
            assert!(poll().is_ready());
            assert_eq!(engine.poll(sequence, None), Poll::Ready(Some(Ok(()))));
            assert!(engine.poll(later, None).is_pending());
        }
    }
    check::<Unsync>();
    check::<Critical>();
    check::<Blocking>();
}

#[test]
fn an_inline_engine_has_nothing_outstanding_but_what_called() {
    let engine = CpuEngine::<Unsync, ()>::new(Stream::claim().unwrap());
    let sequence = nothing(&engine);
    assert_eq!(engine.outstanding(), None);
    engine.drain(&NoClock, None).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    assert!(pin!(engine.drained()).poll(&mut context).is_ready());
    assert_eq!(engine.poll(sequence, None), Poll::Ready(Some(Ok(()))));
}

#[test]
fn a_kernel_sees_itself_outstanding() {
    static ENGINE: StaticCpuEngine<Critical, (), 2> = StaticCpuEngine::new();
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    fn looks(_: &mut [Lent<'_>]) -> Result<(), KernelFault> {
        if numbers(ENGINE.get().unwrap()) == Some((1, 1)) {
            SEEN.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
    let engine = ENGINE.get().unwrap();
    let descriptor = Descriptor::new(Command::Kernel(looks), &[]).unwrap();
    // SAFETY: no operands.
    let sequence = unsafe { engine.submit(descriptor, ()) }.unwrap();
    assert_eq!((sequence.get(), SEEN.load(Ordering::Relaxed)), (1, 1));
    assert_eq!(engine.outstanding(), None);
}

#[test]
fn a_timeout_names_the_oldest_that_is_in_the_way() {
    let engine = Stepped::<Critical>::new();
    let [first, second, third] = [0; 3].map(|_| engine.submit_nothing());
    let barrier = engine.drained();
    assert_eq!(barrier.sequence(), Some(third));
    let clock = Ticks(Cell::new(0), |_| ());
    let wait = || barrier.wait(&clock, Some(Duration::ZERO));
    let late = |sequence| Err(Unfinished::TimedOut { sequence });
    assert_eq!(wait(), late(first));
    engine.step(Ok(()));
    assert_eq!(wait(), late(second));
    engine.abort(second);
    engine.submit_nothing();
    assert_eq!(wait(), late(third));
    assert!(barrier.poll(None).is_pending());
    engine.step(Ok(()));
    // And stays passed, whatever comes later.
    engine.step(Ok(()));
    engine.detach(first);
    engine.submit_nothing();
    assert_eq!((barrier.poll(None), wait()), (Poll::Ready(()), Ok(())));
}

#[test]
fn a_barrier_of_a_closed_engine_is_passed() {
    let engine = Stepped::<Blocking>::new();
    engine.submit_nothing();
    engine.submit_nothing();
    let barrier = engine.drained();
    engine.0.close();
    assert_eq!(barrier.wait(&NoClock, None), Ok(()));
    assert_eq!(engine.drain(&NoClock, Some(Duration::ZERO)), Ok(()));
}

/// Waits for the engine that it lands on, when it lands and when it is dropped.
#[derive(Default)]
struct Impatient {
    engine: Option<Arc<CpuEngine<Blocking, Self, 2>>>,
    tell: Option<std::sync::mpsc::Sender<Result<(), Unfinished>>>,
}

impl Impatient {
    fn wait(&self) {
        if let (Some(engine), Some(tell)) = (&self.engine, &self.tell) {
            tell.send(engine.drain(&NoClock, None)).unwrap();
        }
    }
}

impl Cargo for Impatient {
    fn landed(&mut self, _: Result<(), Fault>) {
        self.wait();
    }
}

impl Drop for Impatient {
    fn drop(&mut self) {
        self.wait();
    }
}

#[test]
fn a_wait_for_oneself_is_an_error_and_no_hang() {
    type Inline = CpuEngine<Blocking, Impatient, 2>;
    std::thread_local! {
        static ENGINE: std::cell::RefCell<Option<Arc<Inline>>> = const { std::cell::RefCell::new(None) };
        static SAID: Cell<Option<Result<(), Unfinished>>> = const { Cell::new(None) };
        static INSIDE: Cell<bool> = const { Cell::new(false) };
    }
    fn waits(_: &mut [Lent<'_>]) -> Result<(), KernelFault> {
        let engine = ENGINE.take().unwrap();
        SAID.set(Some(engine.drain(&NoClock, None)));
        INSIDE.set(engine.is_inside());
        Ok(())
    }
    fn panics(_: &mut [Lent<'_>]) -> Result<(), KernelFault> {
        panic!("a kernel's")
    }
    let engine = Arc::new(Inline::new(Stream::claim().unwrap()));
    let submit = |kernel, cargo| {
        let descriptor = Descriptor::new(Command::Kernel(kernel), &[]).unwrap();
        // SAFETY: no operands.
        unsafe { engine.submit(descriptor, cargo) }.ok().unwrap()
    };
    let itself = |sequence| Err(Unfinished::WouldDeadlock { sequence });

    ENGINE.set(Some(Arc::clone(&engine)));
    let first = submit(waits, Impatient::default());
    assert_eq!((SAID.take(), INSIDE.get()), (Some(itself(first)), true));
    assert!(!engine.is_inside(), "the kernel has returned");
    assert!(engine.poll(first, None).is_ready());

    // Lands, and is dropped by whoever took the completion, who is not inside.
    let (tell, told) = std::sync::mpsc::channel();
    let cargo = Impatient {
        engine: Some(Arc::clone(&engine)),
        tell: Some(tell),
    };
    let second = submit(|_| Ok(()), cargo);
    assert_eq!(told.recv(), Ok(itself(second)));
    drop(engine.poll(second, None));
    assert_eq!(told.recv(), Ok(Ok(())));

    // Whoever leaves by a panic is inside no more.
    let leaves = || submit(panics, Impatient::default());
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(leaves)).is_err());
    assert!(!engine.is_inside());
    assert_eq!(engine.drain(&NoClock, None), Ok(()));
}

#[test]
fn borrowed_bytes_come_back_from_inside() {
    static ENGINE: StaticCpuEngine<Blocking, (), 2> = StaticCpuEngine::new();
    static SAID: std::sync::Mutex<Option<RunError>> = std::sync::Mutex::new(None);
    fn runs(_: &mut [Lent<'_>]) -> Result<(), KernelFault> {
        let ran = ENGINE.get().unwrap().run_borrowed(
            Command::Kernel(|_| Ok(())),
            &mut [],
            (),
            &NoClock,
            None,
        );
        *SAID.lock().unwrap() = ran.err().map(|returned| returned.error);
        Ok(())
    }
    let engine = ENGINE.get().unwrap();
    let ran = engine.run_borrowed(Command::Kernel(runs), &mut [], (), &NoClock, None);
    assert_eq!(ran, Ok(()));
    assert_eq!(*SAID.lock().unwrap(), Some(RunError::WouldDeadlock));
    assert_eq!(engine.in_use(), 0);
}

#[test]
fn who_holds_a_job_of_a_device_is_not_inside() {
    let engine = Stepped::<Blocking>::new();
    engine.submit_nothing();
    let job = engine.0.next().unwrap();
    assert!(!engine.0.is_inside(), "the hardware runs it");
    let looks = |_: &Descriptor| {
        let there =
            std::thread::scope(|scope| scope.spawn(|| engine.0.is_inside()).join().unwrap());
        (engine.0.is_inside(), there)
    };
    assert_eq!(job.run(looks), (true, false));
    assert!(!engine.0.is_inside());
    job.finish(Ok(()));
    // Where nobody can tell contexts apart, nobody is inside.
    let engine = Stepped::<Critical>::new();
    engine.submit_nothing();
    let job = engine.0.next().unwrap();
    assert!(!job.run(|_| engine.0.is_inside()));
}

#[test]
fn an_operand_on_a_wrong_channel_is_named_with_a_right_one() {
    let wrong = |reached| SubmitError::WrongChannel {
        operand: 1,
        channel: ChannelId::new(2, 0),
        reached,
    };
    assert_eq!(
        wrong(Some(ChannelId::new(1, 3))).to_string(),
        "operand 1 is on channel 2.0, the engine reaches channel 1.3"
    );
    assert_eq!(
        wrong(None).to_string(),
        "operand 1 is on channel 2.0, the engine reaches none"
    );
}

#[test]
fn a_person_reads_queue_and_number() {
    let id = SubmissionId::from(0x0003_0000_0000_0011);
    assert_eq!(id.to_string(), "3#17");
    let sequence = Sequence::new(1 << 48);
    assert_eq!(
        SequenceTooLarge { sequence }.to_string(),
        "submission #281474976710656 has a number of more than 48 bits"
    );
}
