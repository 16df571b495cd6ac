//! The completion plane: what counts, who waits how long, and what is told meanwhile.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use crate::common::{Books, Recorder, Stepped, Wakes};
use wharf_backend::{Heap, StaticPool};
use wharf_engine::{Command, CpuEngine, Engine, KernelFault, Lent, Stream};
use wharf_source::HeapSource;
use wharf_sync::{Blocking, Clock, Critical, Unsync};
use wharf_tensor::{
    CompletionError, Completions, Launch, Parts, Target, Tensor, Tickets, TraceKind, TracePhase,
};

type Here = Parts<Heap<Unsync>, HeapSource>;
type Pool = Arc<StaticPool<Critical, 64, 4>>;
type Ticking = Parts<Pool, Arc<Books>, Arc<Ticks>, Arc<Recorder>>;

fn named<T: Target<Memory = Heap<Unsync>>>(target: &T, name: &str) -> Tensor<T> {
    Tensor::alloc_named(target, Heap::new(), 4, name).unwrap()
}

fn done<T: Target>(tensor: &Tensor<T>) -> Completions<'_, T> {
    tensor.completions().unwrap()
}

/// Each turn of a wait is a second; may complete something at one.
#[derive(Default)]
struct Ticks {
    now: AtomicU64,
    at: Mutex<Option<(u64, Tensor<Ticking>)>>,
    /// Completed while somebody asks for the time.
    asked: Mutex<Option<(u64, Tensor<Ticking>)>>,
}

impl Clock for Ticks {
    fn now(&self) -> Duration {
        let now = self.now.load(Ordering::Relaxed);
        let due = self.asked.lock().unwrap().take_if(|(at, _)| *at == now);
        if let Some((_, tensor)) = due {
            done(&tensor).complete();
        }
        Duration::from_secs(now)
    }
    fn idle(&self) {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        let due = self.at.lock().unwrap().take_if(|(at, _)| *at == now);
        if let Some((_, tensor)) = due {
            done(&tensor).complete();
        }
        assert!(now < 10_000, "waits for ever");
    }
}

fn ticking() -> (Ticking, Arc<Ticks>, Arc<Recorder>, Tensor<Ticking>) {
    let (clock, recorder) = (Arc::new(Ticks::default()), Arc::new(Recorder::default()));
    let target = Ticking::with(Arc::default(), clock.clone(), recorder.clone());
    let pool = Arc::new(StaticPool::new());
    let tensor = Tensor::alloc_named(&target, pool, 12, "slow").unwrap();
    recorder.take();
    (target, clock, recorder, tensor)
}

#[test]
fn anonymous_tensors_count_nothing() {
    let target = Here::new(HeapSource);
    assert!(
        Tensor::alloc(&target, Heap::new(), 4)
            .unwrap()
            .completions()
            .is_none()
    );
    assert!(Tensor::<Here>::empty().completions().is_none());
}

#[test]
fn a_count_rises_and_is_reset() {
    let target = Here::new(HeapSource);
    let tensor = named(&target, "t");
    assert_eq!(done(&tensor).count(), 0);
    done(&tensor).wait_for(0).unwrap();
    for expected in 1..=3 {
        done(&tensor).complete();
        assert_eq!(done(&tensor).count(), expected);
    }
    done(&tensor).wait_for(2).unwrap();
    done(&tensor).wait_for_within(3, Duration::ZERO).unwrap();
    done(&tensor).try_wait_for(3).unwrap();
    assert_eq!(done(&tensor).reset(), 3);
    assert_eq!((done(&tensor).count(), done(&tensor).reset()), (0, 0));
    let storage = tensor.storage_id().unwrap();
    let short = CompletionError::WouldBlock {
        storage,
        expected: 1,
        seen: 0,
    };
    assert_eq!(done(&tensor).try_wait_for(1), Err(short));
    assert_eq!(
        short.to_string(),
        format!("0 of 1 completions of {storage} so far")
    );
}

#[test]
fn who_would_wait_for_itself_is_told() {
    let target = Here::new(HeapSource);
    let tensor = named(&target, "t");
    done(&tensor).complete();
    let never = CompletionError::WouldDeadlock {
        storage: tensor.storage_id().unwrap(),
        expected: 2,
        seen: 1,
    };
    assert_eq!(done(&tensor).wait_for(2), Err(never));
    // Nor is there a clock to give up by; no time is none to be measured.
    let unclocked = CompletionError::NoClock {
        storage: tensor.storage_id().unwrap(),
        expected: 2,
        seen: 1,
    };
    let patience = Duration::from_nanos(1);
    assert_eq!(done(&tensor).wait_for_within(2, patience), Err(unclocked));
    assert_eq!(done(&tensor).wait_for_within(2, Duration::ZERO), Err(never));
    assert_eq!(done(&tensor).wait_for_within(1, patience), Ok(()));
    assert_eq!(unclocked.storage_id(), tensor.storage_id());
    assert!(
        unclocked
            .to_string()
            .ends_with("and no clock to wait for more by")
    );
    assert!(
        never
            .to_string()
            .ends_with("and nobody is left to complete it")
    );
}

fn fail(_: &mut [Lent<'_>]) -> Result<(), KernelFault> {
    Err(KernelFault(1))
}

#[test]
fn a_launch_that_ends_well_completes_each_named_output_and_nothing_else() {
    let target = Parts::<Heap<Unsync>, HeapSource>::new(HeapSource);
    let engine = Stepped::<Here>::new();
    let [input, output] = ["in", "out"].map(|name| named(&target, name));
    let other = output.clone();
    let counts = || [&input, &output].map(|tensor| done(tensor).count());

    let mut copy = engine
        .launch(Command::Copy, &[input.input(), output.output()])
        .unwrap();
    assert_eq!(counts(), [0, 0]);
    assert!(engine.step());
    assert_eq!(counts(), [0, 1], "before anybody asks");
    assert_eq!(copy.poll(None), Poll::Ready(Ok(())));
    assert_eq!(done(&other).count(), 1);

    // A slice is somebody else.
    drop(
        engine
            .launch(Command::Fill(1), &[output.slice(..).unwrap().output()])
            .unwrap(),
    );
    assert!(engine.step());
    assert_eq!(counts(), [0, 1]);

    // Detached counts; a fault, an abort and a close do not.
    drop(engine.launch(Command::Fill(1), &[output.output()]).unwrap());
    assert!(engine.step());
    assert_eq!(counts(), [0, 2]);
    let failing = engine
        .launch(Command::Kernel(fail), &[output.output()])
        .unwrap();
    assert!(engine.step());
    assert!(failing.wait().is_err());
    let aborted = engine.launch(Command::Fill(1), &[output.output()]).unwrap();
    aborted.abort();
    assert!(aborted.wait().is_err());
    let closed = engine.launch(Command::Fill(1), &[output.output()]).unwrap();
    engine.close();
    assert!(closed.wait().is_err());
    assert!(engine.launch(Command::Fill(1), &[output.output()]).is_err());
    assert_eq!(counts(), [0, 2]);
}

#[test]
fn an_inline_engine_counts_both_of_two_outputs() {
    fn both(operands: &mut [Lent<'_>]) -> Result<(), KernelFault> {
        assert_eq!(operands.len(), 2);
        Ok(())
    }
    let target = Here::new(HeapSource);
    let engine = CpuEngine::<Unsync, Tickets<Here>>::new(Stream::claim().unwrap());
    let [one, two] = ["one", "two"].map(|name| named(&target, name));
    let launched = engine.launch(Command::Kernel(both), &[one.output(), two.output()]);
    launched.unwrap().wait().unwrap();
    assert_eq!([&one, &two].map(|tensor| done(tensor).count()), [1, 1]);
}

#[test]
fn whoever_has_seen_the_count_finds_the_bytes_free() {
    /// Looks at the bytes as soon as it is woken.
    struct Looks(Mutex<Option<Tensor<Ticking>>>, AtomicU64);
    impl std::task::Wake for Looks {
        fn wake(self: Arc<Self>) {
            let tensor = self.0.lock().unwrap().take().unwrap();
            assert_eq!(
                (done(&tensor).count(), tensor.try_lend().unwrap()[0]),
                (1, 5)
            );
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }
    let (_target, _, _, tensor) = ticking();
    let engine = Stepped::<Ticking>::new();
    let looks = Arc::new(Looks(Mutex::new(Some(tensor.clone())), AtomicU64::new(0)));
    let waker = Waker::from(looks.clone());
    let mut reached = pin!(done(&tensor).reached(1));
    assert!(
        reached
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    let submission = engine.launch(Command::Fill(5), &[tensor.output()]).unwrap();
    assert!(engine.step());
    assert_eq!(looks.1.load(Ordering::Relaxed), 1);
    submission.wait().unwrap();
}

#[test]
fn a_waker_that_panics_does_not_keep_the_other_outputs_from_completing() {
    struct Panics;
    impl std::task::Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker");
        }
    }
    let target = Here::new(HeapSource);
    let engine = Stepped::<Here>::new();
    let tensors = ["one", "two", "three"].map(|name| named(&target, name));
    let waker = Waker::from(Arc::new(Panics));
    // In the middle: whichever way they are gone through, one comes after it.
    let waits = pin!(done(&tensors[1]).reached(1)).poll(&mut Context::from_waker(&waker));
    assert!(waits.is_pending());
    let uses = tensors.each_ref().map(Tensor::output);
    fn nothing(_: &mut [Lent<'_>]) -> Result<(), KernelFault> {
        Ok(())
    }
    drop(engine.launch(Command::Kernel(nothing), &uses).unwrap());
    let stepped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| engine.step()));
    assert!(stepped.is_err());
    assert_eq!(
        tensors.each_ref().map(|tensor| done(tensor).count()),
        [1; 3]
    );
}

#[test]
fn time_that_runs_out_is_told_with_the_numbers() {
    let (_target, clock, recorder, tensor) = ticking();
    done(&tensor).complete();
    let timed_out = CompletionError::TimedOut {
        storage: tensor.storage_id().unwrap(),
        expected: 3,
        seen: 1,
    };
    let waited = done(&tensor).wait_for_within(3, Duration::from_secs(7));
    assert_eq!(waited, Err(timed_out));
    assert_eq!(clock.now(), Duration::from_secs(7));
    assert_eq!(recorder.story(), []);
    assert!(
        timed_out
            .to_string()
            .starts_with("1 of 3 completions of storage 0x")
    );
    // It was only looked at: the count goes on.
    *clock.at.lock().unwrap() = Some((9, tensor.clone()));
    done(&tensor)
        .wait_for_within(2, Duration::from_secs(7))
        .unwrap();
    assert_eq!(clock.now(), Duration::from_secs(9));
}

#[test]
fn a_completion_at_the_last_moment_counts() {
    let (_target, clock, _, tensor) = ticking();
    *clock.asked.lock().unwrap() = Some((7, tensor.clone()));
    let patience = Duration::from_secs(7);
    done(&tensor).wait_for_within(1, patience).unwrap();
    assert_eq!(clock.now(), patience);
}

#[test]
fn a_long_wait_warns_first_after_thirty_seconds_and_again() {
    let (_target, clock, recorder, tensor) = ticking();
    *clock.at.lock().unwrap() = Some((29, tensor.clone()));
    done(&tensor).wait_for(1).unwrap();
    assert_eq!(recorder.story(), []);
    *clock.at.lock().unwrap() = Some((29 + 95, tensor.clone()));
    done(&tensor).wait_for(2).unwrap();
    let events = recorder.take();
    assert_eq!(events.len(), 3);
    for event in events {
        assert_eq!(
            (event.kind, event.phase),
            (TraceKind::Overdue, TracePhase::Instant)
        );
        assert_eq!(
            (event.storage, event.bytes),
            (tensor.storage_id().unwrap().get(), 12)
        );
    }
    // As often as is said, also where there is a deadline.
    let soon = done(&tensor).warning_every(Duration::from_secs(2));
    assert!(soon.wait_for_within(9, Duration::from_secs(7)).is_err());
    assert_eq!(recorder.take().len(), 3);
    // A deadline that comes with a warning is a deadline.
    assert!(soon.wait_for_within(9, Duration::from_secs(2)).is_err());
    assert_eq!(recorder.story(), []);
    let silent = done(&tensor).warning_every(Duration::ZERO);
    assert!(silent.wait_for_within(9, Duration::from_secs(100)).is_err());
    assert_eq!(recorder.story(), []);
    assert_eq!(TraceKind::Overdue as u8, 130);
}

#[test]
fn tasks_are_woken_by_every_rise_and_none_is_lost() {
    let target = Here::new(HeapSource);
    let tensor = named(&target, "t");
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let mut context = Context::from_waker(&waker);
    let mut two = pin!(done(&tensor).reached(2));
    assert!(two.as_mut().poll(&mut context).is_pending());
    done(&tensor).complete();
    assert_eq!(wakes.count(), 1);
    assert!(two.as_mut().poll(&mut context).is_pending());
    done(&tensor).complete();
    assert_eq!(wakes.count(), 2);
    assert_eq!(two.as_mut().poll(&mut context), Poll::Ready(2));
    // One may be dropped while it waits, and one that comes late is ready at once.
    let _ = pin!(done(&tensor).reached(9)).poll(&mut context);
    assert_eq!(
        pin!(done(&tensor).reached(1)).poll(&mut context),
        Poll::Ready(2)
    );
}

#[test]
fn a_task_waits_for_one_of_several() {
    let target = Here::new(HeapSource);
    let tensors = ["a", "b"].map(|name| named(&target, name));
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let mut any = pin!(std::future::poll_fn(|context| {
        let each = tensors.each_ref();
        let ready = each.map(|tensor| pin!(done(tensor).reached(1)).poll(context).is_ready());
        match ready.iter().position(|&ready| ready) {
            Some(first) => Poll::Ready(first),
            None => Poll::Pending,
        }
    }));
    assert!(
        any.as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    done(&tensors[1]).complete();
    assert_eq!(wakes.count(), 1);
    assert_eq!(
        any.as_mut().poll(&mut Context::from_waker(&waker)),
        Poll::Ready(1)
    );
}

#[test]
fn threads_wait_for_what_an_engine_of_another_thread_completes() {
    type Shared = Parts<Heap<Blocking>, HeapSource>;
    let target = Shared::new(HeapSource);
    let engine = Stepped::<Shared>::new();
    let tensor = Tensor::alloc_named(&target, Heap::new(), 4, "t").unwrap();
    thread::scope(|scope| {
        for expected in [1, 2, 3, 3] {
            let tensor = &tensor;
            scope.spawn(move || {
                done(tensor).wait_for(expected).unwrap();
                assert!(done(tensor).count() >= expected);
            });
        }
        for byte in 0..3 {
            let launched = engine.launch(Command::Fill(byte), &[tensor.output()]);
            engine.detach(launched.unwrap().into_sequence());
            assert!(engine.step());
        }
    });
    assert_eq!(done(&tensor).count(), 3);
}

#[test]
fn waiting_keeps_nobody_from_the_bytes_and_needs_none() {
    let (_target, clock, _, tensor) = ticking();
    // The waiter holds a guard to write itself, and a completion comes all the same.
    let guard = tensor.lend_mut().unwrap();
    *clock.at.lock().unwrap() = Some((3, tensor.clone()));
    done(&tensor).wait_for(1).unwrap();
    drop(guard);
}
