//! Clocks and wakers are code of others: it may come back to the event, and it may panic.
#![cfg(all(feature = "std", feature = "critical-section"))]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Wake as Waking, Waker};
use std::time::Duration;

use wharf_sync::{Blocking, Clock, Critical, Event, SyncPolicy, Wake};

struct Panics;
impl Waking for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker that panics, for a test");
    }
}

#[derive(Default)]
struct Counts(AtomicU32);
impl Waking for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn a_panic_costs_no_other_waker_its_wake<P: SyncPolicy>() {
    // Both ways round: a set may wake in any order, and in one of the two the panic comes first.
    for panics_first in [true, false] {
        let event = P::Event::new();
        let counts = Arc::new(Counts::default());
        let mut wakers = [
            Waker::from(Arc::new(Panics)),
            Waker::from(Arc::clone(&counts)),
        ];
        if !panics_first {
            wakers.reverse();
        }
        wakers.iter().for_each(|waker| event.register(waker));
        assert!(catch_unwind(AssertUnwindSafe(|| event.notify())).is_err());
        let woken = counts.0.load(Ordering::Relaxed);
        assert_eq!(woken, 1, "{}, {panics_first}", P::NAME);
    }
}

#[test]
fn a_waker_that_panics_costs_no_other_its_wake() {
    a_panic_costs_no_other_waker_its_wake::<Critical>();
    a_panic_costs_no_other_waker_its_wake::<Blocking>();
}

/// Makes the event happen whenever it is asked for the time.
struct Strikes<'e, E: Event>(&'e E);
impl<E: Event> Clock for Strikes<'_, E> {
    fn now(&self) -> Duration {
        self.0.notify();
        Duration::ZERO
    }
}

#[test]
fn a_clock_may_come_back_to_the_event() {
    fn strikes<P: SyncPolicy>() {
        let event = P::Event::new();
        let clock = Strikes(&event);
        let woken = event.wait(event.epoch(), &clock, Some(Duration::from_secs(1)));
        assert_eq!(woken, Wake::Notified, "{}", P::NAME);
    }
    strikes::<Critical>();
    strikes::<Blocking>();
}
