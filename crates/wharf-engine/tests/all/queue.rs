//! The descriptor queue, stage by stage: order, room, detaching, aborting, closing, landing.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};

use wharf_engine::{
    Cargo, Command, Descriptor, DescriptorQueue, Fault, KernelFault, Returned, Sequence,
    SubmitError,
};
use wharf_sync::{Event, Unsync};

/// What happened to a cargo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Landed(u32, Result<(), Fault>),
    Dropped(u32),
}
use Fate::{Dropped, Landed};

type Log = Rc<RefCell<Vec<Fate>>>;

/// Writes down what happens to it.
struct Noted {
    id: u32,
    log: Log,
}

impl Cargo for Noted {
    fn landed(&mut self, outcome: Result<(), Fault>) {
        self.log.borrow_mut().push(Landed(self.id, outcome));
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.log.borrow_mut().push(Dropped(self.id));
    }
}

const SLOTS: usize = 3;

/// A queue of three slots and the log of its cargoes.
#[derive(Default)]
struct Dock {
    queue: DescriptorQueue<Unsync, Noted, SLOTS>,
    log: Log,
}

impl Dock {
    fn push(&self, id: u32) -> Result<Sequence, Returned<Noted, SubmitError>> {
        let cargo = Noted {
            id,
            log: Rc::clone(&self.log),
        };
        self.queue.push(nothing(), cargo)
    }

    /// The id of the cargo and the outcome, where there is a completion.
    fn poll(&self, sequence: Sequence) -> Poll<Option<(u32, Result<(), Fault>)>> {
        self.queue.poll(sequence, None).map(|completion| {
            completion.map(|completion| match completion {
                Ok(cargo) => (cargo.id, Ok(())),
                Err(Returned { error, value, .. }) => (value.id, Err(error)),
            })
        })
    }

    fn run(&self, outcome: Result<(), Fault>) {
        self.queue.next().unwrap().finish(outcome);
    }

    fn take_log(&self) -> Vec<Fate> {
        self.log.take()
    }
}

/// A descriptor that does nothing.
fn nothing() -> Descriptor {
    Descriptor::new(Command::Kernel(|_| Ok(())), &[]).unwrap()
}

/// The number of a submission that the queue has not seen yet.
fn unknown() -> Sequence {
    let other = Dock::default();
    (0..99)
        .map(|id| {
            let sequence = other.push(id).unwrap();
            other.run(Ok(()));
            other.queue.detach(sequence);
            sequence
        })
        .last()
        .unwrap()
}

#[test]
fn descriptors_run_one_at_a_time_in_the_order_of_submission() {
    let dock = Dock::default();
    let sequences = [dock.push(10).unwrap(), dock.push(11).unwrap()];
    assert_eq!(sequences.map(Sequence::get), [1, 2]);
    assert_eq!(sequences[1].to_string(), "#2");
    let job = dock.queue.next().unwrap();
    assert!(dock.queue.next().is_none(), "one is running");
    job.finish(Ok(()));
    // A slot that is used again does not overtake.
    assert_eq!(dock.poll(sequences[0]), Poll::Ready(Some((10, Ok(())))));
    let third = dock.push(12).unwrap();
    assert_eq!(third.get(), 3);
    dock.run(Ok(()));
    assert_eq!(dock.poll(sequences[1]), Poll::Ready(Some((11, Ok(())))));
    assert_eq!(dock.poll(third), Poll::Pending);
    dock.run(Ok(()));
    assert_eq!(dock.poll(third), Poll::Ready(Some((12, Ok(())))));
    assert!(dock.queue.next().is_none(), "and nothing is left");
}

#[test]
fn a_full_queue_gives_the_cargo_back_until_somebody_polls() {
    let dock = Dock::default();
    let first = dock.push(0).unwrap();
    let _others = [dock.push(1).unwrap(), dock.push(2).unwrap()];
    let full = |id| {
        let refused = dock.push(id).unwrap_err();
        assert_eq!(refused.error, SubmitError::QueueFull { slots: 3 });
        assert_eq!(refused.to_string(), "all 3 slots of the queue are in use");
        assert_eq!(refused.value.id, id, "the very cargo");
    };
    full(3);
    // Running, and finished but not asked for, still take their slots.
    let job = dock.queue.next().unwrap();
    full(4);
    job.finish(Ok(()));
    full(5);
    assert_eq!(dock.queue.in_use(), 3);
    assert!(dock.poll(first).is_ready());
    assert_eq!(dock.queue.in_use(), 2);
    assert_eq!(dock.push(6).unwrap().get(), 4, "refusals take no number");
}

#[test]
fn whoever_waits_for_room_is_told_when_a_poll_makes_it() {
    let dock = Dock::default();
    let all = [0, 1, 2].map(|id| dock.push(id).unwrap());
    dock.run(Ok(()));
    let seen = dock.queue.completed().epoch();
    assert!(dock.push(3).is_err());
    assert!(dock.poll(all[0]).is_ready());
    assert_ne!(dock.queue.completed().epoch(), seen, "a slot became free");
    assert!(dock.push(3).is_ok());
    // So does detaching a finished one.
    dock.run(Ok(()));
    let seen = dock.queue.completed().epoch();
    dock.queue.detach(all[1]);
    assert_ne!(dock.queue.completed().epoch(), seen);
}

#[test]
fn a_completion_is_taken_once() {
    let dock = Dock::default();
    let sequence = dock.push(0).unwrap();
    assert_eq!(dock.poll(sequence), Poll::Pending);
    dock.run(Err(Fault::Kernel(KernelFault(7))));
    let fault = Err(Fault::Kernel(KernelFault(7)));
    assert_eq!(dock.poll(sequence), Poll::Ready(Some((0, fault))));
    assert_eq!(dock.poll(sequence), Poll::Ready(None), "taken");
    assert_eq!(dock.poll(unknown()), Poll::Ready(None), "never existed");
    assert_eq!(dock.take_log(), [Landed(0, fault), Dropped(0)]);
}

#[test]
fn what_is_detached_runs_and_frees_its_slot_by_itself() {
    // While it is queued.
    let dock = Dock::default();
    let sequence = dock.push(0).unwrap();
    dock.queue.detach(sequence);
    assert_eq!(dock.queue.in_use(), 1, "it is still to run");
    assert_eq!(dock.take_log(), []);
    dock.run(Ok(()));
    assert_eq!(dock.take_log(), [Landed(0, Ok(())), Dropped(0)]);
    assert_eq!(dock.queue.in_use(), 0);
    assert_eq!(dock.poll(sequence), Poll::Ready(None));

    // While it runs.
    let sequence = dock.push(1).unwrap();
    let job = dock.queue.next().unwrap();
    dock.queue.detach(sequence);
    assert_eq!(dock.take_log(), [], "the engine still holds the cargo");
    job.finish(Ok(()));
    assert_eq!(dock.take_log(), [Landed(1, Ok(())), Dropped(1)]);
    assert_eq!(dock.queue.in_use(), 0);

    // When it has finished.
    let sequence = dock.push(2).unwrap();
    dock.run(Ok(()));
    assert_eq!(dock.take_log(), [Landed(2, Ok(()))]);
    dock.queue.detach(sequence);
    assert_eq!(dock.take_log(), [Dropped(2)]);
    assert_eq!(dock.queue.in_use(), 0);

    // Twice, and what never existed.
    dock.queue.detach(sequence);
    dock.queue.detach(unknown());
    assert_eq!(dock.take_log(), []);
}

#[test]
fn only_what_has_not_started_is_aborted() {
    let aborted = Err(Fault::Aborted);
    let dock = Dock::default();
    let first = dock.push(0).unwrap();
    let second = dock.push(1).unwrap();

    dock.queue.abort(second);
    assert_eq!(dock.take_log(), [Landed(1, aborted)]);
    let job = dock.queue.next().unwrap();
    dock.queue.abort(first);
    assert_eq!(dock.take_log(), [], "it runs");
    assert_eq!(dock.poll(first), Poll::Pending);
    job.finish(Ok(()));
    dock.queue.abort(first);
    assert_eq!(
        dock.poll(first),
        Poll::Ready(Some((0, Ok(())))),
        "it had run"
    );
    assert_eq!(dock.poll(second), Poll::Ready(Some((1, aborted))));
    assert!(dock.queue.next().is_none(), "an aborted one never runs");
    assert_eq!(dock.take_log(), [Landed(0, Ok(())), Dropped(0), Dropped(1)]);

    // Twice; taken; never existed.
    dock.queue.abort(second);
    dock.queue.abort(unknown());
    assert_eq!(dock.queue.in_use(), 0);

    // One that nobody asks for any more.
    let third = dock.push(2).unwrap();
    dock.queue.detach(third);
    dock.queue.abort(third);
    assert_eq!(dock.take_log(), [Landed(2, aborted), Dropped(2)]);
    assert_eq!(dock.queue.in_use(), 0);
}

#[test]
fn closing_completes_what_waits_and_lets_finish_what_runs() {
    let closed = Err(Fault::Closed);
    let dock = Dock::default();
    let [first, second, third] = [0, 1, 2].map(|id| dock.push(id).unwrap());
    dock.queue.detach(third);
    let job = dock.queue.next().unwrap();
    let submitted = dock.queue.submitted().epoch();
    assert!(!dock.queue.is_closed());
    dock.queue.close();
    assert!(dock.queue.is_closed());
    assert_ne!(
        dock.queue.submitted().epoch(),
        submitted,
        "runners are told"
    );
    assert_eq!(
        dock.take_log(),
        [Landed(1, closed), Landed(2, closed), Dropped(2)]
    );
    let refused = dock.push(3).unwrap_err();
    assert_eq!(refused.error, SubmitError::Closed, "closed, although full");
    assert_eq!(refused.value.id, 3);
    job.finish(Ok(()));
    assert_eq!(dock.poll(first), Poll::Ready(Some((0, Ok(())))));
    assert_eq!(dock.poll(second), Poll::Ready(Some((1, closed))));
    assert_eq!(dock.push(4).unwrap_err().error, SubmitError::Closed);
    assert!(dock.queue.next().is_none());
    dock.queue.close();
    assert_eq!(dock.queue.in_use(), 0);
}

#[test]
fn a_queue_that_goes_away_lands_what_never_ran() {
    let Dock { queue, log } = Dock::default();
    let dock = Dock { queue, log };
    let finished = dock.push(0).unwrap();
    dock.run(Ok(()));
    dock.push(1).unwrap();
    let log = Rc::clone(&dock.log);
    assert_eq!(dock.poll(finished), Poll::Ready(Some((0, Ok(())))));
    log.take();
    drop(dock);
    assert_eq!(log.take(), [Landed(1, Err(Fault::Closed)), Dropped(1)]);
}

#[test]
fn a_job_that_is_dropped_was_a_kernel_that_panicked() {
    let dock = Dock::default();
    let first = dock.push(0).unwrap();
    let second = dock.push(1).unwrap();
    drop(dock.queue.next().unwrap());
    let panicked = Err(Fault::Panicked);
    assert_eq!(dock.poll(first), Poll::Ready(Some((0, panicked))));
    dock.run(Ok(()));
    assert_eq!(dock.poll(second), Poll::Ready(Some((1, Ok(())))));
}

/// A cargo that looks at its own completion while it lands.
struct Spy {
    queue: Weak<DescriptorQueue<Unsync, Self, 2>>,
    sequence: Rc<Cell<Option<Sequence>>>,
    seen: Rc<RefCell<Vec<bool>>>,
}

impl Cargo for Spy {
    fn landed(&mut self, _: Result<(), Fault>) {
        let queue = self.queue.upgrade().unwrap();
        let polled = queue.poll(self.sequence.get().unwrap(), None);
        self.seen.borrow_mut().push(polled.is_pending());
    }
}

#[test]
fn cargo_lands_once_and_before_anybody_sees_its_completion() {
    let queue = Rc::new(DescriptorQueue::new());
    let seen = Rc::new(RefCell::new(Vec::new()));
    let push = || {
        let sequence = Rc::new(Cell::new(None));
        let spy = Spy {
            queue: Rc::downgrade(&queue),
            sequence: Rc::clone(&sequence),
            seen: Rc::clone(&seen),
        };
        let number = queue.push(nothing(), spy).ok();
        sequence.set(number);
        number.unwrap()
    };
    let run = push();
    let aborted = push();
    queue.next().unwrap().finish(Ok(()));
    queue.abort(aborted);
    assert_eq!(*seen.borrow(), [true, true], "each once, and pending then");
    for sequence in [run, aborted] {
        assert!(matches!(queue.poll(sequence, None), Poll::Ready(Some(_))));
    }
    let closed = push();
    queue.close();
    assert_eq!(*seen.borrow(), [true, true, true]);
    assert!(matches!(queue.poll(closed, None), Poll::Ready(Some(_))));
}

#[test]
fn pairs_of_cargo_land_together() {
    let log = Log::default();
    let noted = |id| Noted {
        id,
        log: Rc::clone(&log),
    };
    let queue = DescriptorQueue::<Unsync, (Noted, Noted), 1>::new();
    let sequence = queue.push(nothing(), (noted(1), noted(2))).ok().unwrap();
    queue.next().unwrap().finish(Ok(()));
    assert_eq!(*log.borrow(), [Landed(1, Ok(())), Landed(2, Ok(()))]);
    assert!(queue.poll(sequence, None).is_ready());
}

#[test]
fn a_completion_wakes_and_a_taken_one_leaves_no_waker_behind() {
    struct Flag(std::sync::atomic::AtomicUsize);
    impl std::task::Wake for Flag {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
    let flag = std::sync::Arc::new(Flag(0.into()));
    let waker = Waker::from(std::sync::Arc::clone(&flag));
    let woken = || flag.0.load(std::sync::atomic::Ordering::Relaxed);
    let dock = Dock::default();
    let sequence = dock.push(0).unwrap();
    assert!(dock.queue.poll(sequence, Some(&waker)).is_pending());
    assert_eq!(woken(), 0);
    dock.run(Ok(()));
    assert_eq!(woken(), 1);
    assert!(dock.queue.poll(sequence, Some(&waker)).is_ready());
    let other = dock.push(1).unwrap();
    dock.run(Ok(()));
    assert_eq!(woken(), 1, "ready at once: it did not ask to be woken");
    assert!(dock.poll(other).is_ready());
}

/// Panics when it lands.
struct Rocky;

impl Cargo for Rocky {
    fn landed(&mut self, _: Result<(), Fault>) {
        panic!("on the rocks, for a test");
    }
}

#[test]
fn cargo_that_panics_while_it_lands_takes_neither_slot_nor_runner_with_it() {
    let queue = DescriptorQueue::<Unsync, Rocky, 1>::new();
    for ran in [true, false] {
        let sequence = queue.push(nothing(), Rocky).map_err(|r| r.error).unwrap();
        let rocks = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            if ran {
                queue.next().unwrap().finish(Ok(()));
            } else {
                queue.abort(sequence);
            }
        }));
        assert!(rocks.is_err());
        assert_eq!(queue.in_use(), 0);
        assert!(matches!(queue.poll(sequence, None), Poll::Ready(None)));
    }
    // The runner is free: the next one can be taken.
    queue.push(nothing(), Rocky).map_err(|r| r.error).unwrap();
    let job = queue.next().expect("nobody runs");
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(job))).is_err());
}

#[test]
fn in_flight_is_what_is_not_over() {
    let dock = Dock::default();
    let count = || (dock.queue.in_flight(), dock.queue.in_use());
    let first = dock.push(0).unwrap();
    let _second = dock.push(1).unwrap();
    assert_eq!(count(), (2, 2), "queued");
    let job = dock.queue.next().unwrap();
    assert_eq!(count(), (2, 2), "running");
    job.finish(Ok(()));
    assert_eq!(count(), (1, 2), "finished, and not asked for");
    assert!(dock.poll(first).is_ready());
    assert_eq!(count(), (1, 1));
    dock.queue.close();
    assert_eq!(count(), (0, 1));
}

/// A waker that panics when it is woken.
struct Grumpy;

impl std::task::Wake for Grumpy {
    fn wake(self: std::sync::Arc<Self>) {
        panic!("woken, for a test");
    }
}

#[test]
fn a_push_through_which_a_panic_goes_takes_its_descriptor_back() {
    let dock = Dock::default();
    let grumpy = Waker::from(std::sync::Arc::new(Grumpy));
    dock.queue.submitted().register(&grumpy);
    let pushed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| dock.push(7)));
    assert!(pushed.is_err());
    assert_eq!(
        dock.take_log(),
        [Landed(7, Err(Fault::Aborted)), Dropped(7)]
    );
    assert_eq!(dock.queue.in_use(), 0);
    assert!(dock.queue.next().is_none());
}

#[test]
fn the_cargoes_of_options_and_arrays_land_each_once() {
    let log = Log::default();
    let noted = |id| Noted {
        id,
        log: Rc::clone(&log),
    };
    let queue = DescriptorQueue::<Unsync, [Option<Noted>; 3], 1>::new();
    let cargo = [Some(noted(1)), None, Some(noted(3))];
    let sequence = queue.push(nothing(), cargo).ok().unwrap();
    queue.next().unwrap().finish(Err(Fault::Panicked));
    let landed = |id| Landed(id, Err(Fault::Panicked));
    assert_eq!(*log.borrow(), [landed(1), landed(3)]);
    assert!(queue.poll(sequence, None).is_ready());
}

#[test]
fn what_is_detached_keeps_its_slot_until_its_cargo_is_dropped() {
    /// Looks at the queue while it is dropped.
    struct Looks(Weak<Board>);
    struct Board {
        queue: DescriptorQueue<Unsync, Looks, 2>,
        seen: Cell<Option<(u64, usize, bool)>>,
    }
    impl Cargo for Looks {}
    impl Drop for Looks {
        fn drop(&mut self) {
            let board = self.0.upgrade().unwrap();
            let oldest = board.queue.outstanding().unwrap().start().get();
            // The runner is free by now: whoever comes may run the next one.
            let next = board.queue.next().is_some();
            board.seen.set(Some((oldest, board.queue.in_use(), next)));
        }
    }
    let board = Rc::new(Board {
        queue: DescriptorQueue::new(),
        seen: Cell::new(None),
    });
    let queue = &board.queue;
    for aborts in [false, true] {
        let push = || queue.push(nothing(), Looks(Rc::downgrade(&board))).ok();
        let first = push().unwrap();
        queue.detach(first);
        if aborts {
            queue.abort(first);
        } else {
            queue.next().unwrap().finish(Ok(()));
        }
        let seen = board.seen.take().unwrap();
        assert_eq!(seen, (first.get(), 1, false));
        assert_eq!((queue.outstanding(), queue.in_use()), (None, 0));
    }
}

#[test]
fn a_drop_that_panics_frees_slot_and_runner() {
    struct Bomb(bool);
    impl Cargo for Bomb {}
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(!self.0, "armed");
        }
    }
    let queue = DescriptorQueue::<Unsync, Bomb, 1>::new();
    let sequence = queue.push(nothing(), Bomb(true)).ok().unwrap();
    queue.detach(sequence);
    let seen = queue.completed().epoch();
    let ends = || queue.next().unwrap().finish(Ok(()));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(ends)).is_err());
    assert_eq!((queue.outstanding(), queue.in_use()), (None, 0));
    assert_ne!(queue.completed().epoch(), seen, "whoever waits is told");
    queue.push(nothing(), Bomb(false)).ok().unwrap();
    assert!(queue.next().is_some());
}

#[test]
fn a_landing_that_panics_keeps_its_slot_until_its_cargo_is_dropped() {
    /// Panics when it is told, and looks at the queue while it is dropped.
    struct Bursts(Weak<Board>);
    struct Board {
        queue: DescriptorQueue<Unsync, Bursts, 1>,
        outstanding: Cell<bool>,
    }
    impl Cargo for Bursts {
        fn landed(&mut self, _: Result<(), Fault>) {
            panic!("told, for a test");
        }
    }
    impl Drop for Bursts {
        fn drop(&mut self) {
            let board = self.0.upgrade().unwrap();
            let outstanding = board.queue.outstanding().is_some();
            board.outstanding.set(outstanding);
        }
    }
    let board = Rc::new(Board {
        queue: DescriptorQueue::new(),
        outstanding: Cell::new(false),
    });
    let queue = &board.queue;
    for aborts in [false, true] {
        let cargo = Bursts(Rc::downgrade(&board));
        let sequence = queue.push(nothing(), cargo).ok().unwrap();
        let lands = || {
            if aborts {
                queue.abort(sequence);
            } else {
                queue.next().unwrap().finish(Ok(()));
            }
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(lands)).is_err());
        assert!(board.outstanding.take(), "a barrier waits for the cargo");
        assert_eq!((queue.outstanding(), queue.in_use()), (None, 0));
    }
}
