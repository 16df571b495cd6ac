//! The protocol of events under the model checker: nobody sleeps through what they wait for. A thread that
//! does is a deadlock, which loom reports.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use loom::thread;
use wharf_sync::{Event, LoomEvent, NoClock, SyncPolicy};

fn model(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

/// A condition and the event that announces it. The condition is relaxed: the event alone orders it.
struct Shared {
    happened: AtomicBool,
    event: LoomEvent,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            happened: AtomicBool::new(false),
            event: LoomEvent::new(),
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
            let wake = self.event.wait(seen, &NoClock, None);
            assert_eq!(wake, wharf_sync::Wake::Notified);
        }
    }
}

#[test]
fn a_waiter_never_sleeps_through() {
    model(|| {
        let shared = Shared::new();
        let there = Arc::clone(&shared);
        let other = thread::spawn(move || there.happen());
        shared.wait();
        other.join().unwrap();
    });
}

#[test]
fn two_waiters_are_both_woken() {
    model(|| {
        let shared = Shared::new();
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

#[test]
fn two_events_are_enough_for_two_conditions() {
    model(|| {
        let shared = Shared::new();
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

#[test]
fn a_task_that_registers_first_and_tests_then_is_woken_or_sees_it() {
    model(|| {
        let shared = Shared::new();
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

#[test]
fn more_tasks_than_places_take_turns_and_none_is_lost() {
    model(|| {
        let shared = Shared::new();
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

#[test]
fn contexts_are_told_apart() {
    model(|| {
        let here = wharf_sync::Loom::who();
        let there = thread::spawn(wharf_sync::Loom::who).join().unwrap();
        assert_ne!(here, there);
        assert_eq!(here, wharf_sync::Loom::who());
    });
}
