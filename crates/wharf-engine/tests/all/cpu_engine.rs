//! The engine that runs inline: what it reaches, kernels that submit, kernels that panic.
#![cfg(all(feature = "std", feature = "critical-section"))]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock, Mutex, mpsc};
use std::task::{Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::thread;

use wharf_backend::{BackendExt, StaticPool};
use wharf_engine::{
    Cargo, Command, CpuEngine, Descriptor, DescriptorQueue, DeviceAddress, Engine, Fault, Kernel,
    KernelFault, Lent, Operand, Place, Returned, Sequence, Stream, SubmitError,
};
use wharf_sync::{Blocking, Critical, SyncPolicy, Unsync};

/// A descriptor without operands.
fn kernel(kernel: Kernel) -> Descriptor {
    Descriptor::new(Command::Kernel(kernel), &[]).unwrap()
}

fn submit<P: SyncPolicy, C: Cargo, const N: usize>(
    engine: &CpuEngine<P, C, N>,
    descriptor: Descriptor,
    cargo: C,
) -> Result<Sequence, Returned<C, SubmitError>> {
    assert_eq!(descriptor.operands(), []);
    // SAFETY: without operands there is nothing to keep.
    unsafe { engine.submit(descriptor, cargo) }
}

fn engine<P: SyncPolicy, C: Cargo, const N: usize>() -> CpuEngine<P, C, N> {
    CpuEngine::new(Stream::claim().unwrap())
}

/// A cargo with a number.
#[derive(Debug, PartialEq, Eq)]
struct Tag(u8);
impl Cargo for Tag {}

/// Every landing, by the number of the cargo.
type Landings = Arc<Mutex<Vec<(u32, Result<(), Fault>)>>>;

/// A cargo that writes down how it lands.
#[derive(Clone, Debug)]
struct Noted(u32, Landings);
impl Cargo for Noted {
    fn landed(&mut self, outcome: Result<(), Fault>) {
        self.1.lock().unwrap().push((self.0, outcome));
    }
}

#[test]
fn copies_fills_and_kernels_do_what_they_say() {
    let pool = StaticPool::<Unsync, 8, 2>::new();
    let from = pool.alloc(4).unwrap().init_from(&[1, 2, 3, 4]).unwrap();
    let to = pool.alloc(4).unwrap().filled(0).unwrap();
    let read = Operand::read(from.place(), 4);
    let write = Operand::write(to.place(), 4);
    let engine = engine::<Unsync, (), 2>();
    let run = |command, operands: &[Operand]| {
        let descriptor = Descriptor::new(command, operands).unwrap();
        // SAFETY: both segments stay where they are, untouched, until the poll.
        let sequence = unsafe { engine.submit(descriptor, ()) }.unwrap();
        assert!(engine.poll(sequence, None).is_ready());
    };
    run(Command::Copy, &[read, write]);
    assert_eq!(*to, [1, 2, 3, 4]);
    run(Command::Fill(9), &[Operand::write(to.place(), 2)]);
    assert_eq!(*to, [9, 9, 3, 4]);
    run(
        Command::Kernel(|operands| {
            let [Lent::Write(to), Lent::Read(from)] = operands else {
                return Err(KernelFault(1));
            };
            to.iter_mut()
                .zip(from.iter())
                .for_each(|(to, from)| *to += from);
            Ok(())
        }),
        &[write, read],
    );
    assert_eq!(*to, [10, 11, 6, 8]);
}

#[test]
fn device_memory_is_out_of_reach() {
    let engine = engine::<Unsync, Tag, 2>();
    let host = Operand::read(Place::Host(std::ptr::NonNull::dangling()), 0);
    let device = Operand::write(Place::Device(DeviceAddress::new(64)), 4);
    let descriptor = Descriptor::new(Command::Kernel(|_| Ok(())), &[host, device]).unwrap();
    // SAFETY: the one operand that could be reached has no bytes.
    let refused = unsafe { engine.submit(descriptor, Tag(77)) }.unwrap_err();
    assert_eq!(refused.error, SubmitError::Unreachable { operand: 1 });
    assert_eq!(refused.value, Tag(77), "the cargo comes back");
    assert_eq!(
        refused.error.to_string(),
        "operand 1 is in memory that the engine does not reach"
    );
    assert_eq!(engine.in_use(), 0);
}

#[test]
fn a_full_engine_gives_the_cargo_back() {
    let engine = engine::<Unsync, Tag, 2>();
    let first = submit(&engine, kernel(|_| Ok(())), Tag(1)).unwrap();
    let second = submit(&engine, kernel(|_| Err(KernelFault(5))), Tag(2)).unwrap();
    let refused = submit(&engine, kernel(|_| panic!("not taken, so not run")), Tag(3)).unwrap_err();
    assert_eq!(refused.error, SubmitError::QueueFull { slots: 2 });
    assert_eq!(refused.value, Tag(3));
    assert_eq!(engine.poll(first, None), Poll::Ready(Some(Ok(Tag(1)))));
    let fault = Returned::new(Fault::Kernel(KernelFault(5)), Tag(2));
    assert_eq!(engine.poll(second, None), Poll::Ready(Some(Err(fault))));
    assert_eq!(engine.poll(second, None), Poll::Ready(None));
}

#[test]
fn a_kernel_that_submits_is_finished_first() {
    static ENGINE: LazyLock<CpuEngine<Critical, (), 4>> = LazyLock::new(engine);
    static TRACE: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    static INNER: Mutex<Option<Sequence>> = Mutex::new(None);
    fn note(what: &'static str) {
        TRACE.lock().unwrap().push(what);
    }
    let outer = submit(
        &*ENGINE,
        kernel(|_| {
            note("outer starts");
            let inner = submit(
                &*ENGINE,
                kernel(|_| {
                    note("inner");
                    Ok(())
                }),
                (),
            );
            let inner = inner.map_err(|_| KernelFault(1))?;
            assert!(ENGINE.poll(inner, None).is_pending(), "queued behind us");
            *INNER.lock().unwrap() = Some(inner);
            note("outer ends");
            Ok(())
        }),
        (),
    )
    .unwrap();
    // Both have run when the outer submit returns.
    assert_eq!(
        *TRACE.lock().unwrap(),
        ["outer starts", "outer ends", "inner"]
    );
    let inner = INNER.lock().unwrap().unwrap();
    assert_eq!([outer, inner].map(Sequence::get), [1, 2]);
    for sequence in [inner, outer] {
        assert_eq!(ENGINE.poll(sequence, None), Poll::Ready(Some(Ok(()))));
    }
}

#[test]
fn a_kernel_that_panics_takes_no_slot_with_it() {
    let engine = engine::<Blocking, Noted, 2>();
    let log = Landings::default();
    let noted = |id| Noted(id, Arc::clone(&log));
    // More often than there are slots: the caller never learns the number, so nobody could free them.
    for id in 0..3 {
        let submitted = catch_unwind(AssertUnwindSafe(|| {
            submit(&engine, kernel(|_| panic!("on purpose")), noted(id))
        }));
        assert!(submitted.is_err(), "the panic is the submitter's");
        assert_eq!(engine.in_use(), 0);
    }
    let panicked = Err(Fault::Panicked);
    assert_eq!(
        *log.lock().unwrap(),
        [(0, panicked), (1, panicked), (2, panicked)]
    );
    assert_eq!(Arc::strong_count(&log), 1, "every cargo was dropped");
    let sequence = submit(&engine, kernel(|_| Ok(())), noted(3)).unwrap();
    assert!(matches!(
        engine.poll(sequence, None),
        Poll::Ready(Some(Ok(Noted(3, _))))
    ));
}

#[test]
fn a_panic_belongs_to_its_own_submission() {
    static ENGINE: LazyLock<CpuEngine<Critical, Tag, 4>> = LazyLock::new(engine);
    static INNER: Mutex<Vec<Sequence>> = Mutex::new(Vec::new());
    let outer = catch_unwind(|| {
        submit(
            &*ENGINE,
            kernel(|_| {
                let panics = submit(&*ENGINE, kernel(|_| panic!("on purpose")), Tag(2));
                let behind = submit(&*ENGINE, kernel(|_| Ok(())), Tag(3));
                INNER
                    .lock()
                    .unwrap()
                    .extend([panics, behind].map(Result::unwrap));
                Ok(())
            }),
            Tag(1),
        )
    });
    assert!(outer.is_err());
    let inner = INNER.lock().unwrap().clone();
    // Whoever ran has left, so asking for the one behind runs it.
    assert_eq!(ENGINE.poll(inner[1], None), Poll::Ready(Some(Ok(Tag(3)))));
    let panicked = Returned::new(Fault::Panicked, Tag(2));
    assert_eq!(
        ENGINE.poll(inner[0], None),
        Poll::Ready(Some(Err(panicked)))
    );
    assert_eq!(ENGINE.in_use(), 0, "nobody knows the number of the outer");
}

#[test]
fn whoever_a_completion_wakes_can_run_the_next() {
    /// Runs the next job as soon as it is woken.
    struct Runner(DescriptorQueue<Blocking, (), 4>);
    impl Wake for Runner {
        fn wake(self: Arc<Self>) {
            self.0.next().expect("nobody is running").finish(Ok(()));
        }
    }
    for panics in [false, true] {
        let runner = Arc::new(Runner(DescriptorQueue::new()));
        let nothing = || kernel(|_| Ok(()));
        let first = runner.0.push(nothing(), ()).unwrap();
        let second = runner.0.push(nothing(), ()).unwrap();
        let waker = Waker::from(Arc::clone(&runner));
        assert!(runner.0.poll(second, Some(&waker)).is_pending());
        let job = runner.0.next().unwrap();
        if panics {
            drop(job);
        } else {
            job.finish(Ok(()));
        }
        assert!(matches!(runner.0.poll(first, None), Poll::Ready(Some(_))));
        assert_eq!(runner.0.poll(second, None), Poll::Ready(Some(Ok(()))));
    }
}

/// Two ends of a conversation: say that something happened, or wait until it has.
type Signal = (mpsc::SyncSender<()>, Mutex<mpsc::Receiver<()>>);
fn signal() -> Signal {
    let (tell, heard) = mpsc::sync_channel(1);
    (tell, Mutex::new(heard))
}
fn tell(signal: &Signal) {
    signal.0.send(()).unwrap();
}
fn wait(signal: &Signal) {
    signal.1.lock().unwrap().recv().unwrap();
}

#[test]
fn a_panic_while_a_poller_registers_strands_nobody() {
    static ENGINE: LazyLock<CpuEngine<Blocking, (), 4>> = LazyLock::new(engine);
    static STARTED: LazyLock<Signal> = LazyLock::new(signal);
    static GIVE_UP: LazyLock<Signal> = LazyLock::new(signal);
    static GONE: LazyLock<Signal> = LazyLock::new(signal);

    /// A waker that, while it is cloned to be registered, lets the running kernel panic and waits until its
    /// thread has left the engine.
    static SLOW: RawWakerVTable = RawWakerVTable::new(
        |_| {
            tell(&GIVE_UP);
            wait(&GONE);
            RawWaker::new(std::ptr::null(), Waker::noop().vtable())
        },
        |_| (),
        |_| (),
        |_| (),
    );
    // SAFETY: no function of either table follows the pointer, and all may be called from any thread.
    let waker = unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &SLOW)) };

    thread::scope(|scope| {
        scope.spawn(|| {
            let submitted = catch_unwind(|| {
                submit(
                    &*ENGINE,
                    kernel(|_| {
                        tell(&STARTED);
                        wait(&GIVE_UP);
                        panic!("on purpose")
                    }),
                    (),
                )
            });
            assert!(submitted.is_err());
            tell(&GONE);
        });
        wait(&STARTED);
        let behind = submit(&*ENGINE, kernel(|_| Ok(())), ()).unwrap();
        // Whoever was running has left, so this poll must run it: nobody would ever wake us.
        let polled = ENGINE.poll(behind, Some(&waker));
        assert_eq!(polled, Poll::Ready(Some(Ok(()))));
    });
    assert_eq!(ENGINE.in_use(), 0);
}

/// One engine for the two tests below that panic through `submit`; each has its own.
macro_rules! shared_engine {
    ($name:ident) => {
        static $name: LazyLock<CpuEngine<Blocking, Noted, 4>> = LazyLock::new(engine);
    };
}

static LANDINGS: LazyLock<Landings> = LazyLock::new(Landings::default);

fn outcome_of(id: u32) -> Option<Result<(), Fault>> {
    let landings = LANDINGS.lock().unwrap();
    landings
        .iter()
        .find(|(who, _)| *who == id)
        .map(|&(_, outcome)| outcome)
}

#[test]
fn detached_work_behind_a_kernel_that_panics_lands_all_the_same() {
    shared_engine!(ENGINE);
    fn leaves_work_behind(_: &mut [Lent<'_>]) -> Result<(), KernelFault> {
        let behind = submit(&*ENGINE, kernel(|_| Ok(())), Noted(1, LANDINGS.clone()));
        ENGINE.detach(behind.map_err(|refused| refused.error).unwrap());
        panic!("a kernel that panics, for a test")
    }
    let run = || {
        submit(
            &*ENGINE,
            kernel(leaves_work_behind),
            Noted(2, LANDINGS.clone()),
        )
    };
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    assert_eq!(outcome_of(1), Some(Err(Fault::Aborted)));
    assert_eq!(outcome_of(2), Some(Err(Fault::Panicked)));
    assert_eq!(ENGINE.in_use(), 0);
}

#[test]
fn a_submit_that_unwinds_has_taken_its_own_descriptor_back() {
    shared_engine!(ENGINE);
    fn panics(_: &mut [Lent<'_>]) -> Result<(), KernelFault> {
        panic!("somebody else's kernel that panics, for a test")
    }
    fn queues_another(_: &mut [Lent<'_>]) -> Result<(), KernelFault> {
        let queued = submit(&*ENGINE, kernel(panics), Noted(11, LANDINGS.clone()));
        queued.map(drop).map_err(|refused| refused.error).unwrap();
        panic!("and leaves it to the next")
    }
    let first = || {
        submit(
            &*ENGINE,
            kernel(queues_another),
            Noted(10, LANDINGS.clone()),
        )
    };
    assert!(catch_unwind(AssertUnwindSafe(first)).is_err());
    assert_eq!(outcome_of(11), None, "queued, and not detached");

    // Runs that one first, which panics through here: what this submits may lie on a stack that unwinds now.
    let victim = || submit(&*ENGINE, kernel(|_| Ok(())), Noted(12, LANDINGS.clone()));
    assert!(catch_unwind(AssertUnwindSafe(victim)).is_err());
    assert_eq!(outcome_of(11), Some(Err(Fault::Panicked)));
    assert_eq!(outcome_of(12), Some(Err(Fault::Aborted)));
}

#[test]
fn a_kernel_that_runs_is_in_flight_and_one_that_has_run_is_not() {
    static ENGINE: LazyLock<CpuEngine<Critical, (), 4>> = LazyLock::new(engine);
    let outer = submit(
        &*ENGINE,
        kernel(|_| {
            assert_eq!((ENGINE.in_flight(), ENGINE.in_use()), (1, 1));
            let inner = submit(&*ENGINE, kernel(|_| Ok(())), ());
            assert_eq!((ENGINE.in_flight(), ENGINE.in_use()), (2, 2));
            ENGINE.detach(inner.map_err(|_| KernelFault(1))?);
            Ok(())
        }),
        (),
    )
    .unwrap();
    assert_eq!((ENGINE.in_flight(), ENGINE.in_use()), (0, 1));
    assert_eq!(ENGINE.poll(outer, None), Poll::Ready(Some(Ok(()))));
    assert_eq!(ENGINE.in_use(), 0);
}

#[test]
fn what_is_queued_behind_a_kernel_can_be_taken_back() {
    static ENGINE: LazyLock<CpuEngine<Critical, Tag, 4>> = LazyLock::new(engine);
    static INNER: Mutex<Option<Sequence>> = Mutex::new(None);
    let takes_back = kernel(|_| {
        let never = kernel(|_| panic!("taken back, so not run"));
        let inner = submit(&*ENGINE, never, Tag(2)).map_err(|_| KernelFault(1))?;
        ENGINE.abort(inner);
        *INNER.lock().unwrap() = Some(inner);
        Ok(())
    });
    let outer = submit(&*ENGINE, takes_back, Tag(1)).unwrap();
    assert_eq!(ENGINE.poll(outer, None), Poll::Ready(Some(Ok(Tag(1)))));
    let inner = INNER.lock().unwrap().unwrap();
    let aborted = Returned::new(Fault::Aborted, Tag(2));
    assert_eq!(ENGINE.poll(inner, None), Poll::Ready(Some(Err(aborted))));
}

#[test]
fn who_asks_with_a_waker_for_what_has_ended_is_given_it() {
    let engine = engine::<Unsync, Tag, 2>();
    let sequence = submit(&engine, kernel(|_| Ok(())), Tag(8)).unwrap();
    let polled = engine.poll(sequence, Some(Waker::noop()));
    assert_eq!(polled, Poll::Ready(Some(Ok(Tag(8)))));
    assert_eq!(
        engine.poll(sequence, Some(Waker::noop())),
        Poll::Ready(None)
    );
}

#[test]
fn faults_say_what_happened() {
    let texts = [
        (
            Fault::Kernel(KernelFault(5)),
            "the kernel gave up with code 5",
        ),
        (Fault::Panicked, "the kernel panicked"),
        (
            Fault::Unreachable { operand: 3 },
            "operand 3 is in memory that the engine does not reach",
        ),
        (Fault::Aborted, "aborted before it started"),
        (Fault::Closed, "the engine was closed before it started"),
    ];
    for (fault, text) in texts {
        assert_eq!(fault.to_string(), text);
    }
}
