//! Waiting: who is woken, when a wait ends, and what a waiter that gives up leaves behind.

mod support;

use std::cell::Cell;
use std::task::{Context, Poll};
use std::time::Duration;

use wharf_sync::{Clock, Epoch, Event, NoClock, SyncPolicy, Turn, Wake};

use support::{Task, under_every_policy};

/// One second passes whenever somebody idles.
struct Countdown(Cell<u64>);

impl Clock for Countdown {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.get())
    }
    fn idle(&self) {
        self.0.set(self.0.get() + 1);
    }
}

fn a_deadline_that_has_passed_ends_a_wait<P: SyncPolicy, const PLACES: usize>() {
    let event = P::Event::new();
    let clock = Countdown(Cell::new(7));
    for deadline in [0, 7] {
        let deadline = Some(Duration::from_secs(deadline));
        let wake = event.wait(event.epoch(), &clock, deadline);
        assert_ne!(wake, Wake::Notified);
    }
    assert_eq!(clock.now(), Duration::from_secs(7), "without idling");
}

fn what_has_happened_is_not_waited_for<P: SyncPolicy, const PLACES: usize>() {
    let event = P::Event::new();
    let seen = event.epoch();
    assert_eq!(seen, Epoch::new(0));
    event.notify();
    assert_eq!(event.epoch(), Epoch::new(1));
    event.notify_one();
    assert_eq!(event.epoch(), Epoch::new(2));
    for seen in [seen, Epoch::new(1)] {
        // Also when its deadline has passed.
        for deadline in [None, Some(Duration::ZERO)] {
            assert_eq!(event.wait(seen, &NoClock, deadline), Wake::Notified);
        }
    }
}

/// Slots of a pool, say: one unit for each `true`.
struct Units<E> {
    free: Cell<u32>,
    freed: E,
}

impl<E: Event> Units<E> {
    fn new() -> Self {
        Self {
            free: Cell::new(0),
            freed: E::new(),
        }
    }

    fn free(&self) {
        self.free.set(self.free.get() + 1);
        self.freed.notify_one();
    }

    fn poll(&self, turn: &mut Turn<'_, E>, task: &std::sync::Arc<Task>) -> Poll<()> {
        let take = || {
            let less = self.free.get().checked_sub(1)?;
            self.free.set(less);
            Some(())
        };
        turn.poll(&mut Context::from_waker(&task.waker()), take)
    }
}

fn a_turn_ends_when_there_is_a_unit<P: SyncPolicy, const PLACES: usize>() {
    let units = Units::<P::Event>::new();
    let task = Task::new();
    let mut turn = Turn::new(&units.freed);
    assert!(units.poll(&mut turn, &task).is_pending());
    assert_eq!((task.wakes(), task.wakers()), (0, 1));
    assert!(units.poll(&mut turn, &task).is_pending());
    assert_eq!((task.wakes(), task.wakers()), (0, 1), "one place");
    units.free();
    assert_eq!((task.wakes(), task.wakers()), (1, 0));
    let before = units.freed.epoch();
    assert!(units.poll(&mut turn, &task).is_ready());
    assert_eq!(units.freed.epoch(), before, "it used the wake itself");

    // Used again; this time the unit is there before it is woken.
    assert!(units.poll(&mut turn, &task).is_pending());
    units.free.set(1);
    assert!(units.poll(&mut turn, &task).is_ready());
    assert_eq!(
        (task.wakes(), task.wakers()),
        (1, 0),
        "it has left the queue"
    );
    let before = units.freed.epoch();
    drop(turn);
    assert_eq!(units.freed.epoch(), before, "and owes nothing");
}

fn a_unit_that_comes_while_a_turn_queues_is_seen<P: SyncPolicy, const PLACES: usize>() {
    let event = P::Event::new();
    let task = Task::new();
    let mut turn = Turn::new(&event);
    let mut looks = 0;
    let polled = turn.poll(&mut Context::from_waker(&task.waker()), || {
        looks += 1;
        (looks == 2).then_some(looks)
    });
    assert_eq!(polled, Poll::Ready(2));
    assert_eq!(task.wakers(), 0);
}

/// The one who is woken goes away: the other one is woken.
fn a_wake_is_passed_on<P: SyncPolicy, const PLACES: usize>() {
    let units = Units::<P::Event>::new();
    let (first, second) = (Task::new(), Task::new());
    let mut leaves = Turn::new(&units.freed);
    let mut stays = Turn::new(&units.freed);
    assert!(units.poll(&mut leaves, &first).is_pending());
    assert!(units.poll(&mut stays, &second).is_pending());
    units.free();
    if PLACES > 1 {
        assert_eq!((first.wakes(), second.wakes()), (1, 0), "one is woken");
    }
    drop(leaves);
    assert_eq!(second.wakes(), 1);
    assert!(units.poll(&mut stays, &second).is_ready());
}

/// A wake that comes after the test that succeeded was for something else: the other one is woken for that.
fn a_wake_that_comes_late_is_passed_on<P: SyncPolicy, const PLACES: usize>() {
    if PLACES == 1 {
        return; // The other one would be displaced, and woken by that.
    }
    let event = P::Event::new();
    let (first, second) = (Task::new(), Task::new());
    let mut served = Turn::new(&event);
    let mut other = Turn::new(&event);
    let (mut here, waker) = (true, first.waker());
    let polled = served.poll(&mut Context::from_waker(&waker), || {
        here = !here;
        if !here {
            return None;
        }
        let waker = second.waker();
        let polled = other.poll(&mut Context::from_waker(&waker), || None::<()>);
        assert!(polled.is_pending());
        // It takes the unit, and before it is out of the queue the next one comes.
        event.notify_one();
        assert_eq!((first.wakes(), second.wakes()), (1, 0));
        Some(())
    });
    assert!(polled.is_ready());
    assert_eq!(second.wakes(), 1);
}

/// Somebody who is not woken goes away: what comes next is not spent on nobody, and nobody is disturbed.
fn who_leaves_the_queue_is_not_woken<P: SyncPolicy, const PLACES: usize>() {
    let units = Units::<P::Event>::new();
    let (first, second) = (Task::new(), Task::new());
    let mut leaves = Turn::new(&units.freed);
    assert!(units.poll(&mut leaves, &first).is_pending());
    let before = units.freed.epoch();
    drop(leaves);
    assert_eq!(units.freed.epoch(), before, "it owes nothing");
    let mut stays = Turn::new(&units.freed);
    assert!(units.poll(&mut stays, &second).is_pending());
    units.free();
    assert_eq!((first.wakes(), second.wakes()), (0, 1));
    drop(stays);
}

/// A turn that never queued has nothing to pass on.
fn an_unused_turn_is_silent<P: SyncPolicy, const PLACES: usize>() {
    let event = P::Event::new();
    drop(Turn::new(&event));
    assert_eq!(event.epoch(), Epoch::new(0));
}

/// A unit for each of many tasks, more than an event has places for: they take turns, and all are served.
fn all_of_many_are_served<P: SyncPolicy, const PLACES: usize>() {
    const MANY: usize = 9;
    let units = Units::<P::Event>::new();
    let tasks = [(); MANY].map(|()| Task::new());
    let mut turns: Vec<_> = tasks
        .iter()
        .map(|task| (task, Turn::new(&units.freed)))
        .collect();
    turns.retain_mut(|(task, turn)| units.poll(turn, task).is_pending());
    let mut polled = [0; MANY];
    for _ in 0..MANY {
        units.free();
        let woken = |(task, turn): &mut (&std::sync::Arc<Task>, Turn<'_, P::Event>)| {
            let index = tasks
                .iter()
                .position(|known| std::sync::Arc::ptr_eq(known, task));
            let polled = &mut polled[index.expect("one of them")];
            if task.wakes() == *polled {
                return true;
            }
            *polled = task.wakes();
            units.poll(turn, task).is_pending()
        };
        turns.retain_mut(woken);
    }
    assert!(turns.is_empty(), "{} are left", turns.len());
}

/// The defaults of the trait, for an event of somebody else's: they wake all, and nobody owes.
#[test]
fn an_event_without_a_queue_wakes_all() {
    struct Plain(<wharf_sync::Unsync as SyncPolicy>::Event);
    // SAFETY: not `Sync`.
    unsafe impl Event for Plain {
        fn new() -> Self {
            Self(Event::new())
        }
        fn epoch(&self) -> Epoch {
            self.0.epoch()
        }
        fn wait<C: Clock + ?Sized>(&self, seen: Epoch, clock: &C, by: Option<Duration>) -> Wake {
            self.0.wait(seen, clock, by)
        }
        fn notify(&self) {
            self.0.notify();
        }
        fn register(&self, waker: &std::task::Waker) {
            self.0.register(waker);
        }
    }

    let units = Units::<Plain>::new();
    let task = Task::new();
    let mut turn = Turn::new(&units.freed);
    assert!(units.poll(&mut turn, &task).is_pending());
    units.free();
    assert_eq!(task.wakes(), 1);
    drop(turn);
    assert_eq!(units.freed.epoch(), Epoch::new(1), "nobody owes");
}

under_every_policy!(
    a_deadline_that_has_passed_ends_a_wait,
    what_has_happened_is_not_waited_for,
    a_turn_ends_when_there_is_a_unit,
    a_unit_that_comes_while_a_turn_queues_is_seen,
    a_wake_is_passed_on,
    a_wake_that_comes_late_is_passed_on,
    who_leaves_the_queue_is_not_woken,
    an_unused_turn_is_silent,
    all_of_many_are_served,
);

/// The policies that wait by idling.
#[cfg(any(feature = "critical-section", feature = "spin"))]
fn idles_until_its_deadline<P: SyncPolicy>() {
    let clock = Countdown(Cell::new(0));
    let event = P::Event::new();
    let deadline = Some(Duration::from_secs(7));
    let wake = event.wait(event.epoch(), &clock, deadline);
    assert_eq!(wake, Wake::TimedOut);
    assert_eq!(clock.0.get(), 7, "idled once a second, seven times");
}

#[cfg(feature = "critical-section")]
#[test]
fn critical_idles_until_its_deadline() {
    idles_until_its_deadline::<wharf_sync::Critical>();
}

#[cfg(feature = "spin")]
#[test]
fn spin_idles_until_its_deadline() {
    idles_until_its_deadline::<wharf_sync::Spin>();
}
