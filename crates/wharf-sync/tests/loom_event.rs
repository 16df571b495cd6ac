//! The protocols of events under the model checker: nobody sleeps through what they wait for. A thread that
//! does is a deadlock, which loom reports.
//!
//! Each model runs over both texts that are shipped: the event over a condition variable (`Blocking`), and the one
//! over a lock and a word whose waits idle (`Critical`, `Spin`).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use wharf_sync::{
    Clock, Event, IdleEvent, Loom, LoomCount, LoomLock, LoomWord, SyncPolicy, Turn, Who, Word,
};

/// What is shipped as `Critical` and `Spin`, over loom's lock and atomics.
enum Idling {}

// SAFETY: loom's own primitives.
unsafe impl SyncPolicy for Idling {
    type Lock<T> = LoomLock<T>;
    type Count = LoomCount;
    type Word = LoomWord;
    type Event = IdleEvent<Self, 2>;
    const NAME: &'static str = "Idling";
    fn who() -> Who {
        Loom::who()
    }
}

/// No time passes, and whoever idles lets the others run.
struct Yields;

impl Clock for Yields {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn idle(&self) {
        thread::yield_now();
    }
}

fn model(preemptions: usize, run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(run);
}

/// A condition and the event that announces it. The condition is relaxed: the event alone orders it.
struct Shared<P: SyncPolicy> {
    happened: AtomicBool,
    event: P::Event,
}

impl<P: SyncPolicy> Shared<P> {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            happened: AtomicBool::new(false),
            event: P::Event::new(),
        })
    }

    fn happen(&self) {
        self.happened.store(true, Relaxed);
        self.event.notify();
    }

    fn wait(&self) {
        loop {
            let seen = self.event.epoch();
            if self.happened.load(Relaxed) {
                return;
            }
            let wake = self.event.wait(seen, &Yields, None);
            assert_eq!(wake, wharf_sync::Wake::Notified);
        }
    }
}

trait Shares: SyncPolicy<Event: Send + Sync, Word: Send + Sync> {}
impl<P: SyncPolicy<Event: Send + Sync, Word: Send + Sync>> Shares for P {}

fn a_waiter_never_sleeps_through<P: Shares>() {
    model(3, || {
        let shared = Shared::<P>::new();
        let there = Arc::clone(&shared);
        let other = thread::spawn(move || there.happen());
        shared.wait();
        other.join().unwrap();
    });
}

fn two_waiters_are_both_woken<P: Shares>() {
    model(3, || {
        let shared = Shared::<P>::new();
        let waiters = [(); 2].map(|()| {
            let there = Arc::clone(&shared);
            thread::spawn(move || there.wait())
        });
        shared.happen();
        for waiter in waiters {
            waiter.join().unwrap();
        }
    });
}

fn two_events_are_enough_for_two_conditions<P: Shares>() {
    model(3, || {
        let shared = Shared::<P>::new();
        let there = Arc::clone(&shared);
        // An event for somebody else in between must not be taken for ours.
        let other = thread::spawn(move || {
            there.event.notify();
            there.happen();
        });
        shared.wait();
        other.join().unwrap();
    });
}

/// Counts how often a task is woken. Nothing that loom sees.
#[derive(Default)]
struct Task(AtomicUsize);

impl Wake for Task {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Task {
    fn woken(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

fn a_task_that_registers_first_and_tests_then_is_woken_or_sees_it<P: Shares>() {
    model(3, || {
        let shared = Shared::<P>::new();
        let there = Arc::clone(&shared);
        let other = thread::spawn(move || there.happen());
        let task = std::sync::Arc::new(Task::default());
        shared
            .event
            .register(&Waker::from(std::sync::Arc::clone(&task)));
        let seen = shared.happened.load(Relaxed);
        other.join().unwrap();
        assert!(seen || task.woken(), "asleep for ever");
    });
}

fn more_tasks_than_places_take_turns_and_none_is_lost<P: Shares>() {
    model(3, || {
        let shared = Shared::<P>::new();
        let there = Arc::clone(&shared);
        let other = thread::spawn(move || there.happen());
        // Three tasks; the event has two places.
        let tasks = [(); 3].map(|()| {
            let task = std::sync::Arc::new(Task::default());
            shared
                .event
                .register(&Waker::from(std::sync::Arc::clone(&task)));
            (shared.happened.load(Relaxed), task)
        });
        other.join().unwrap();
        assert!(tasks.iter().all(|(seen, task)| *seen || task.woken()));
    });
}

/// Units that are handed out one by one.
struct Units<P: SyncPolicy> {
    free: P::Word,
    freed: P::Event,
}

impl<P: SyncPolicy> Units<P> {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            free: P::Word::new(0),
            freed: P::Event::new(),
        })
    }

    fn free(&self) {
        let _ = self.free.update(|free| free.checked_add(1));
        self.freed.notify_one();
    }

    fn take(&self) -> Option<()> {
        self.free.update(|free| free.checked_sub(1)).ok().map(drop)
    }

    /// Takes one, as a thread.
    fn wait(&self) {
        loop {
            let seen = self.freed.epoch();
            if self.take().is_some() {
                return;
            }
            self.freed.wait(seen, &Yields, None);
        }
    }

    /// Takes one, as a task with an executor of its own.
    fn run(&self) {
        let sleeper = std::sync::Arc::new(Sleeper::new());
        let waker = Waker::from(std::sync::Arc::clone(&sleeper));
        let mut turn = Turn::new(&self.freed);
        while self.poll(&mut turn, &waker).is_pending() {
            sleeper.sleep();
        }
    }

    fn poll(&self, turn: &mut Turn<'_, P::Event>, waker: &Waker) -> Poll<()> {
        turn.poll(&mut Context::from_waker(waker), || self.take())
    }
}

/// A thread that runs one task and sleeps until it is woken.
struct Sleeper {
    woken: Mutex<bool>,
    wakes: Condvar,
}

impl Sleeper {
    fn new() -> Self {
        Self {
            woken: Mutex::new(false),
            wakes: Condvar::new(),
        }
    }

    fn sleep(&self) {
        let mut woken = self.woken.lock().unwrap();
        while !core::mem::take(&mut *woken) {
            woken = self.wakes.wait(woken).unwrap();
        }
    }
}

impl Wake for Sleeper {
    fn wake(self: std::sync::Arc<Self>) {
        *self.woken.lock().unwrap() = true;
        self.wakes.notify_one();
    }
}

fn each_of_two_threads_gets_a_unit<P: Shares>() {
    model(2, || {
        let units = Units::<P>::new();
        let others = [(); 2].map(|()| {
            let there = Arc::clone(&units);
            thread::spawn(move || there.wait())
        });
        units.free();
        units.free();
        for other in others {
            other.join().unwrap();
        }
    });
}

fn each_of_two_tasks_gets_a_unit<P: Shares>() {
    model(2, || {
        let units = Units::<P>::new();
        let others = [(); 2].map(|()| {
            let there = Arc::clone(&units);
            thread::spawn(move || there.run())
        });
        units.free();
        units.free();
        for other in others {
            other.join().unwrap();
        }
    });
}

fn a_thread_and_a_task_each_get_a_unit<P: Shares>() {
    model(2, || {
        let units = Units::<P>::new();
        let (there, elsewhere) = (Arc::clone(&units), Arc::clone(&units));
        let task = thread::spawn(move || there.run());
        let waiter = thread::spawn(move || elsewhere.wait());
        units.free();
        units.free();
        task.join().unwrap();
        waiter.join().unwrap();
    });
}

/// One unit, and the one who may be woken for it goes away: the other one gets it all the same.
fn a_task_that_is_cancelled_takes_no_wake_along<P: Shares>() {
    model(3, || {
        let units = Units::<P>::new();
        let task = std::sync::Arc::new(Task::default());
        let mut leaves = Turn::new(&units.freed);
        assert!(units.poll(&mut leaves, &Waker::from(task)).is_pending());
        let (there, elsewhere) = (Arc::clone(&units), Arc::clone(&units));
        let stays = thread::spawn(move || there.run());
        let frees = thread::spawn(move || elsewhere.free());
        drop(leaves);
        stays.join().unwrap();
        frees.join().unwrap();
    });
}

/// Nor does it for a thread that blocks.
fn a_task_that_is_cancelled_takes_no_wake_from_a_thread<P: Shares>() {
    model(3, || {
        let units = Units::<P>::new();
        let task = std::sync::Arc::new(Task::default());
        let mut leaves = Turn::new(&units.freed);
        assert!(units.poll(&mut leaves, &Waker::from(task)).is_pending());
        let (there, elsewhere) = (Arc::clone(&units), Arc::clone(&units));
        let stays = thread::spawn(move || there.wait());
        let frees = thread::spawn(move || elsewhere.free());
        drop(leaves);
        stays.join().unwrap();
        frees.join().unwrap();
    });
}

macro_rules! models {
    (over both: $($both:ident),*; over what sleeps: $($sleeping:ident),* $(;)?) => {
        mod sleeping {
            $(#[test] fn $both() { super::$both::<wharf_sync::Loom>(); })*
            $(#[test] fn $sleeping() { super::$sleeping::<wharf_sync::Loom>(); })*
        }
        mod idling {
            $(#[test] fn $both() { super::$both::<super::Idling>(); })*
        }
    };
}
models!(
    over both:
        a_waiter_never_sleeps_through,
        two_events_are_enough_for_two_conditions,
        a_task_that_registers_first_and_tests_then_is_woken_or_sees_it,
        more_tasks_than_places_take_turns_and_none_is_lost,
        each_of_two_tasks_gets_a_unit,
        a_thread_and_a_task_each_get_a_unit,
        a_task_that_is_cancelled_takes_no_wake_along,
        a_task_that_is_cancelled_takes_no_wake_from_a_thread;
    // Two threads that idle may let each other run for ever, and loom tries that. They share nothing but the
    // epoch, so one of them shows as much.
    over what sleeps:
        two_waiters_are_both_woken,
        each_of_two_threads_gets_a_unit;
);

#[test]
fn contexts_are_told_apart() {
    model(3, || {
        let here = Loom::who();
        let there = thread::spawn(Loom::who).join().unwrap();
        assert_ne!(here, there);
        assert_eq!(here, Loom::who());
    });
}
