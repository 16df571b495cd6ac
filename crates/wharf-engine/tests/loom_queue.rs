//! The descriptor queue under the model checker: every cargo lands once, no completion is slept through, and
//! every slot comes back. A thread that waits for ever is a deadlock, which loom reports.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Poll, Wake, Waker};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use wharf_engine::{
    Cargo, Command, Completion, CpuEngine, Descriptor, DescriptorQueue, Engine, EngineExt, Fault,
    Returned, Sequence, Stream, SubmitError,
};
use wharf_sync::{Event, Loom, NoClock};

fn model(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

/// What happened to the cargoes of a run. Nothing that loom sees.
#[derive(Default)]
struct Log {
    landed: AtomicUsize,
    dropped: AtomicUsize,
}

/// A cargo whose bytes the engine writes while it lands, and whoever gets it afterwards. The model checker
/// fails a run in which the two are not ordered.
struct Crate {
    bytes: UnsafeCell<u32>,
    log: std::sync::Arc<Log>,
    /// Counts the drop, as something that loom sees: others may run just before it.
    gone: Option<Arc<loom::sync::atomic::AtomicUsize>>,
}

// SAFETY: the cell is what is under test; loom checks every access to it.
unsafe impl Send for Crate {}

impl Crate {
    fn write(&self) {
        // SAFETY: whoever has the cargo may write; loom checks.
        self.bytes.with_mut(|bytes| unsafe { *bytes += 1 });
    }
}

impl Cargo for Crate {
    fn landed(&mut self, _: Result<(), Fault>) {
        self.write();
        self.log.landed.fetch_add(1, Relaxed);
    }
}

impl Drop for Crate {
    fn drop(&mut self) {
        if let Some(gone) = &self.gone {
            gone.fetch_add(1, Relaxed);
        }
        self.write();
        self.log.dropped.fetch_add(1, Relaxed);
    }
}

/// A queue, and the log of everything pushed to it.
struct Dock<const SLOTS: usize> {
    queue: DescriptorQueue<Loom, Crate, SLOTS>,
    log: std::sync::Arc<Log>,
}

fn nothing() -> Descriptor {
    Descriptor::new(Command::Kernel(|_| Ok(())), &[]).unwrap()
}

impl<const SLOTS: usize> Dock<SLOTS> {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            queue: DescriptorQueue::new(),
            log: std::sync::Arc::default(),
        })
    }

    fn push(&self) -> Result<Sequence, Returned<Crate, SubmitError>> {
        self.push_watched(None)
    }

    fn push_watched(
        &self,
        gone: Option<Arc<loom::sync::atomic::AtomicUsize>>,
    ) -> Result<Sequence, Returned<Crate, SubmitError>> {
        let cargo = Crate {
            bytes: UnsafeCell::new(0),
            log: std::sync::Arc::clone(&self.log),
            gone,
        };
        cargo.write();
        self.queue.push(nothing(), cargo)
    }

    /// Runs what comes until the queue is closed and empty.
    fn serve(&self) {
        loop {
            let seen = self.queue.submitted().epoch();
            if let Some(job) = self.queue.next() {
                job.finish(Ok(()));
            } else if self.queue.is_closed() {
                return;
            } else {
                self.queue.submitted().wait(seen, &NoClock, None);
            }
        }
    }

    fn wait(&self, sequence: Sequence) -> Completion<Crate> {
        loop {
            let seen = self.queue.completed().epoch();
            match self.queue.poll(sequence, None) {
                Poll::Ready(completion) => return completion.unwrap(),
                Poll::Pending => self.queue.completed().wait(seen, &NoClock, None),
            };
        }
    }

    /// Each of `pushed` cargoes landed once and was dropped once, and no slot is in use.
    fn check(&self, pushed: usize) {
        assert_eq!(self.log.landed.load(Relaxed), pushed, "landed");
        assert_eq!(self.log.dropped.load(Relaxed), pushed, "dropped");
        assert_eq!(self.queue.in_use(), 0);
    }
}

// SAFETY: without operands there is nothing to touch; the queue keeps the cargo.
unsafe impl<const SLOTS: usize> Engine for Dock<SLOTS> {
    type Policy = Loom;
    type Cargo = Crate;
    fn stream(&self) -> wharf_engine::StreamId {
        unreachable!("no tensors here")
    }
    unsafe fn submit(
        &self,
        descriptor: Descriptor,
        cargo: Crate,
    ) -> Result<Sequence, Returned<Crate, SubmitError>> {
        self.queue.push(descriptor, cargo)
    }
    fn poll(&self, sequence: Sequence, waker: Option<&Waker>) -> Poll<Option<Completion<Crate>>> {
        self.queue.poll(sequence, waker)
    }
    fn detach(&self, sequence: Sequence) {
        self.queue.detach(sequence);
    }
    fn abort(&self, sequence: Sequence) {
        self.queue.abort(sequence);
    }
    fn completed(&self) -> &<Loom as wharf_sync::SyncPolicy>::Event {
        self.queue.completed()
    }
    fn outstanding(&self) -> Option<std::ops::RangeInclusive<Sequence>> {
        self.queue.outstanding()
    }
    fn is_inside(&self) -> bool {
        self.queue.is_inside()
    }
}

fn outcome(completion: Completion<Crate>) -> Result<(), Fault> {
    completion.map(drop).map_err(|Returned { error, .. }| error)
}

#[test]
fn what_is_submitted_is_run_and_what_is_run_is_seen() {
    model(|| {
        let dock = Dock::<2>::new();
        let there = Arc::clone(&dock);
        let runner = thread::spawn(move || there.serve());
        let sequences = [(); 2].map(|()| dock.push().ok().unwrap());
        for sequence in sequences {
            assert_eq!(outcome(dock.wait(sequence)), Ok(()));
        }
        dock.queue.close();
        runner.join().unwrap();
        dock.check(2);
    });
}

#[test]
fn submitter_poller_and_runner_are_three() {
    model(|| {
        let dock = Dock::<1>::new();
        let sequence = dock.push().ok().unwrap();
        let there = Arc::clone(&dock);
        let runner = thread::spawn(move || there.serve());
        let there = Arc::clone(&dock);
        let poller = thread::spawn(move || assert_eq!(outcome(there.wait(sequence)), Ok(())));
        // The only slot is taken until the other one has polled.
        let second = loop {
            let seen = dock.queue.completed().epoch();
            match dock.push() {
                Ok(sequence) => break sequence,
                Err(refused) => {
                    // It never was in the queue, so it did not land there.
                    dock.log.landed.fetch_add(1, Relaxed);
                    assert_eq!(refused.error, SubmitError::QueueFull { slots: 1 });
                    drop(refused);
                }
            }
            dock.queue.completed().wait(seen, &NoClock, None);
        };
        dock.queue.detach(second);
        poller.join().unwrap();
        dock.queue.close();
        runner.join().unwrap();
        dock.check(dock.log.dropped.load(Relaxed));
    });
}

#[test]
fn two_runners_run_one_at_a_time() {
    /// What the descriptors work on: one at a time, so they need no lock.
    struct Bench(UnsafeCell<u32>);
    // SAFETY: the cell is what is under test; loom checks every access to it.
    unsafe impl Sync for Bench {}
    // SAFETY: as above.
    unsafe impl Send for Bench {}

    model(|| {
        let shared = Arc::new((Dock::<2>::new(), Bench(UnsafeCell::new(0))));
        let (dock, bench) = &*shared;
        for _ in 0..2 {
            dock.queue.detach(dock.push().ok().unwrap());
        }
        let run = |(dock, bench): &(Arc<Dock<2>>, Bench)| {
            while let Some(job) = dock.queue.next() {
                // SAFETY: one job exists at a time; loom checks.
                bench.0.with_mut(|bench| unsafe { *bench += 1 });
                job.finish(Ok(()));
            }
        };
        let there = Arc::clone(&shared);
        let other = thread::spawn(move || run(&there));
        run(&shared);
        other.join().unwrap();
        // SAFETY: the other runner has ended; loom checks.
        assert_eq!(bench.0.with(|bench| unsafe { *bench }), 2);
        dock.check(2);
    });
}

#[test]
fn a_detached_one_frees_its_slot_whenever_it_is_detached() {
    model(|| {
        let dock = Dock::<1>::new();
        let sequence = dock.push().ok().unwrap();
        let there = Arc::clone(&dock);
        let runner = thread::spawn(move || there.queue.next().unwrap().finish(Ok(())));
        dock.queue.detach(sequence);
        runner.join().unwrap();
        dock.check(1);
    });
}

#[test]
fn an_abort_wins_or_the_runner_does() {
    model(|| {
        let dock = Dock::<1>::new();
        let sequence = dock.push().ok().unwrap();
        let there = Arc::clone(&dock);
        let runner = thread::spawn(move || {
            let job = there.queue.next();
            let ran = job.is_some();
            if let Some(job) = job {
                job.finish(Ok(()));
            }
            ran
        });
        dock.queue.abort(sequence);
        let outcome = outcome(dock.wait(sequence));
        let ran = runner.join().unwrap();
        assert_eq!(outcome, if ran { Ok(()) } else { Err(Fault::Aborted) });
        dock.check(1);
    });
}

#[test]
fn an_abort_and_a_detach_meet() {
    model(|| {
        let dock = Dock::<1>::new();
        let sequence = dock.push().ok().unwrap();
        let there = Arc::clone(&dock);
        let other = thread::spawn(move || there.queue.abort(sequence));
        dock.queue.detach(sequence);
        other.join().unwrap();
        dock.check(1);
    });
}

#[test]
fn closing_lands_what_the_runner_does_not() {
    model(|| {
        let dock = Dock::<2>::new();
        let sequences = [(); 2].map(|()| dock.push().ok().unwrap());
        let there = Arc::clone(&dock);
        let runner = thread::spawn(move || there.serve());
        dock.queue.close();
        for sequence in sequences {
            let outcome = outcome(dock.wait(sequence));
            assert!(matches!(outcome, Ok(()) | Err(Fault::Closed)));
        }
        runner.join().unwrap();
        dock.check(2);
    });
}

#[derive(Default)]
struct Task(AtomicUsize);

impl Wake for Task {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn a_pending_poll_is_woken() {
    model(|| {
        let dock = Dock::<1>::new();
        let sequence = dock.push().ok().unwrap();
        let there = Arc::clone(&dock);
        let runner = thread::spawn(move || there.queue.next().unwrap().finish(Ok(())));
        let task = std::sync::Arc::new(Task::default());
        let waker = Waker::from(std::sync::Arc::clone(&task));
        let pending = dock.queue.poll(sequence, Some(&waker)).is_pending();
        runner.join().unwrap();
        assert!(!pending || task.0.load(Relaxed) > 0, "asleep for ever");
        assert!(dock.queue.poll(sequence, None).is_ready());
        dock.check(1);
    });
}

#[test]
fn whoever_waits_behind_a_panic_can_go_on() {
    model(|| {
        let dock = Dock::<2>::new();
        let [first, second] = [(); 2].map(|()| dock.push().ok().unwrap());
        dock.queue.detach(first);
        let there = Arc::clone(&dock);
        // A runner whose kernel panics leaves without looking at what is next.
        let runner = thread::spawn(move || drop(there.queue.next()));
        loop {
            let seen = dock.queue.completed().epoch();
            if let Some(job) = dock.queue.next() {
                job.finish(Ok(()));
            }
            if let Poll::Ready(completion) = dock.queue.poll(second, None) {
                drop(completion.unwrap());
                break;
            }
            dock.queue.completed().wait(seen, &NoClock, None);
        }
        runner.join().unwrap();
        dock.check(2);
    });
}

#[test]
fn two_threads_share_one_cpu_engine() {
    model(|| {
        let engine = CpuEngine::<Loom, Crate, 2>::new(Stream::claim().unwrap());
        let log = std::sync::Arc::new(Log::default());
        let shared = Arc::new((engine, log));
        let visit = |(engine, log): &(CpuEngine<Loom, Crate, 2>, std::sync::Arc<Log>)| {
            let cargo = Crate {
                bytes: UnsafeCell::new(0),
                log: std::sync::Arc::clone(log),
                gone: None,
            };
            // SAFETY: without operands there is nothing to keep.
            let sequence = unsafe { engine.submit(nothing(), cargo) }.ok().unwrap();
            loop {
                let seen = engine.completed().epoch();
                if let Poll::Ready(completion) = engine.poll(sequence, None) {
                    assert_eq!(outcome(completion.unwrap()), Ok(()));
                    return;
                }
                engine.completed().wait(seen, &NoClock, None);
            }
        };
        let there = Arc::clone(&shared);
        let other = thread::spawn(move || visit(&there));
        visit(&shared);
        other.join().unwrap();
        let (engine, log) = &*shared;
        assert_eq!(engine.in_use(), 0);
        assert_eq!(log.landed.load(Relaxed), 2);
        assert_eq!(log.dropped.load(Relaxed), 2);
    });
}

/// A drain is over when the cargo of what is detached is gone: the runner's last access to it comes before the return.
#[test]
fn a_drain_ends_after_what_was_submitted_before_it() {
    model(|| {
        let dock = Dock::<2>::new();
        let gone = Arc::new(loom::sync::atomic::AtomicUsize::new(0));
        let watched = dock.push_watched(Some(Arc::clone(&gone)));
        dock.queue.detach(watched.ok().unwrap());
        let there = Arc::clone(&dock);
        let runner = thread::spawn(move || there.queue.next().unwrap().finish(Ok(())));
        assert_eq!(dock.drain(&NoClock, None), Ok(()));
        assert_eq!(dock.log.landed.load(Relaxed), 1, "it has landed");
        assert_eq!(gone.load(Relaxed), 1, "nobody has it any more");
        runner.join().unwrap();
        dock.check(1);
    });
}

#[test]
fn a_drain_does_not_wait_for_what_is_submitted_meanwhile() {
    model(|| {
        let dock = Dock::<2>::new();
        let first = dock.push().ok().unwrap();
        let there = Arc::clone(&dock);
        // Submits another one, which nobody runs before the drain is over.
        let other = thread::spawn(move || {
            let job = there.queue.next().unwrap();
            there.queue.detach(there.push().ok().unwrap());
            job.finish(Ok(()));
        });
        let barrier = dock.drained();
        let through = barrier.sequence();
        if through == Some(first) {
            assert_eq!(barrier.wait(&NoClock, None), Ok(()));
        }
        other.join().unwrap();
        drop(dock.wait(first));
        dock.queue.next().unwrap().finish(Ok(()));
        dock.check(2);
    });
}

#[test]
fn a_drain_a_runner_and_an_abort_meet() {
    model(|| {
        let dock = Dock::<2>::new();
        let sequences = [(); 2].map(|()| dock.push().ok().unwrap());
        let there = Arc::clone(&dock);
        let runner = thread::spawn(move || {
            while let Some(job) = there.queue.next() {
                job.finish(Ok(()));
            }
        });
        let there = Arc::clone(&dock);
        let aborter = thread::spawn(move || there.queue.abort(sequences[1]));
        assert_eq!(dock.drain(&NoClock, None), Ok(()));
        assert_eq!(dock.log.landed.load(Relaxed), 2);
        // What has landed can be polled, and its completion is all that is left of it.
        for sequence in sequences {
            assert!(matches!(
                dock.queue.poll(sequence, None),
                Poll::Ready(Some(_))
            ));
        }
        runner.join().unwrap();
        aborter.join().unwrap();
        dock.check(2);
    });
}

#[test]
fn a_drain_and_a_close_meet() {
    model(|| {
        let dock = Dock::<2>::new();
        for _ in 0..2 {
            dock.queue.detach(dock.push().ok().unwrap());
        }
        let there = Arc::clone(&dock);
        let runner = thread::spawn(move || there.serve());
        let there = Arc::clone(&dock);
        let closer = thread::spawn(move || there.queue.close());
        assert_eq!(dock.drain(&NoClock, None), Ok(()));
        assert_eq!(dock.log.dropped.load(Relaxed), 2);
        closer.join().unwrap();
        runner.join().unwrap();
        dock.check(2);
    });
}

#[test]
fn an_awaited_drain_is_woken() {
    model(|| {
        let dock = Dock::<1>::new();
        dock.queue.detach(dock.push().ok().unwrap());
        let there = Arc::clone(&dock);
        let runner = thread::spawn(move || there.queue.next().unwrap().finish(Ok(())));
        let task = std::sync::Arc::new(Task::default());
        let waker = Waker::from(std::sync::Arc::clone(&task));
        let barrier = dock.drained();
        let pending = barrier.poll(Some(&waker)).is_pending();
        if !pending {
            assert_eq!(dock.log.dropped.load(Relaxed), 1);
        }
        runner.join().unwrap();
        assert!(!pending || task.0.load(Relaxed) > 0, "asleep for ever");
        assert!(barrier.poll(None).is_ready());
        dock.check(1);
    });
}

/// A device on another thread writes borrowed memory, while a third one aborts.
#[test]
fn borrowed_memory_is_not_touched_after_the_call() {
    /// What is lent: loom fails a run in which the lender reads while the device may write.
    struct Lender(UnsafeCell<u32>);
    // SAFETY: the cell is what is under test; loom checks every access to it.
    unsafe impl Sync for Lender {}
    // SAFETY: as above.
    unsafe impl Send for Lender {}

    struct Served(DescriptorQueue<Loom, (), 1>);
    // SAFETY: the model touches the memory between `next` and `finish` alone.
    unsafe impl Engine for Served {
        type Policy = Loom;
        type Cargo = ();
        fn stream(&self) -> wharf_engine::StreamId {
            unreachable!("no tensors here")
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
        fn outstanding(&self) -> Option<std::ops::RangeInclusive<Sequence>> {
            self.0.outstanding()
        }
        fn completed(&self) -> &<Loom as wharf_sync::SyncPolicy>::Event {
            self.0.completed()
        }
    }

    model(|| {
        let shared = Arc::new((Served(DescriptorQueue::new()), Lender(UnsafeCell::new(0))));
        let there = Arc::clone(&shared);
        let device = thread::spawn(move || {
            let (Served(queue), lender) = &*there;
            loop {
                let seen = queue.submitted().epoch();
                if let Some(job) = queue.next() {
                    // SAFETY: the job exists; loom checks.
                    lender.0.with_mut(|word| unsafe { *word = 7 });
                    job.finish(Ok(()));
                } else if queue.is_closed() {
                    return;
                } else {
                    queue.submitted().wait(seen, &NoClock, None);
                }
            }
        });
        let there = Arc::clone(&shared);
        let aborter = thread::spawn(move || there.0.abort(Sequence::new(1)));
        let (served, lender) = &*shared;
        let nothing = Command::Kernel(|_| Ok(()));
        let ran = served.run_borrowed(nothing, &mut [], (), &NoClock, None);
        // SAFETY: whatever happened, the device has let go; loom checks.
        let word = lender.0.with(|word| unsafe { *word });
        match ran {
            Ok(()) => assert_eq!(word, 7),
            Err(returned) => {
                let aborted = wharf_engine::RunError::Fault(Fault::Aborted);
                assert_eq!((returned.error, word), (aborted, 0));
            }
        }
        served.0.close();
        device.join().unwrap();
        aborter.join().unwrap();
        assert_eq!(served.0.in_use(), 0);
    });
}
