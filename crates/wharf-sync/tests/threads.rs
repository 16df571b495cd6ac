//! Real threads on what is shared. What they find is for the model checker to prove; this finds what it is not told.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use wharf_sync::{Clock, Count, Event, Lock, StdClock, SyncPolicy, Wake, Word};

const THREADS: u32 = 4;
const ROUNDS: u32 = 5000;

fn sections_exclude<P: SyncPolicy>()
where
    P::Lock<Cell<u32>>: Sync,
{
    let lock = P::Lock::new(Cell::new(0_u32));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    lock.with(|sum| sum.set(sum.get() + 1));
                }
            });
        }
    });
    assert_eq!(lock.with(Cell::get), THREADS * ROUNDS);
}

fn a_panic_in_a_section_lets_go<P: SyncPolicy>()
where
    P::Lock<Cell<u32>>: Sync,
{
    let lock = P::Lock::new(Cell::new(1_u32));
    let panics = || lock.with(|_| panic!("in a section"));
    std::thread::scope(|scope| assert!(scope.spawn(panics).join().is_err()));
    assert_eq!(lock.with(Cell::get), 1);
}

fn counts_and_words_lose_nothing<P: SyncPolicy>()
where
    P::Count: Sync,
    P::Word: Sync,
{
    let (count, word) = (P::Count::new(1), P::Word::new(0));
    let lasts = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            count.increment();
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    count.increment();
                    let _ = word.update(|word| word.checked_add(1));
                    lasts.fetch_add(count.decrement().into(), Ordering::Relaxed);
                }
                lasts.fetch_add(count.decrement().into(), Ordering::Relaxed);
            });
        }
    });
    assert_eq!(lasts.into_inner(), 0, "one is left");
    assert!(count.is_unique());
    assert!(count.decrement());
    assert_eq!(word.load(), THREADS * ROUNDS);
}

/// Each unit is announced to one; there are as many as are taken, and every thread that sleeps is served.
fn units_are_handed_out_one_by_one<P: SyncPolicy>()
where
    P::Word: Sync,
    P::Event: Sync,
{
    const EACH: u32 = 200;
    let (free, freed) = (P::Word::new(0), P::Event::new());
    let clock = StdClock::new();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..EACH {
                    loop {
                        let seen = freed.epoch();
                        if free.update(|free| free.checked_sub(1)).is_ok() {
                            break;
                        }
                        let late = clock.now() + Duration::from_secs(60);
                        let wake = freed.wait(seen, &clock, Some(late));
                        assert_eq!(wake, Wake::Notified, "a wake was lost");
                    }
                }
            });
        }
        for round in 0..THREADS * EACH {
            let _ = free.update(|free| free.checked_add(1));
            freed.notify_one();
            if round % 16 == 0 {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    });
    assert_eq!(free.load(), 0);
}

/// A thread that sleeps, or idles, is woken by either.
fn a_waiting_thread_is_woken<P: SyncPolicy>()
where
    P::Event: Sync,
{
    for notify in [P::Event::notify, P::Event::notify_one] {
        let event = P::Event::new();
        let seen = event.epoch();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| event.wait(seen, &StdClock::new(), None));
            std::thread::sleep(Duration::from_millis(5));
            notify(&event);
            assert_eq!(waiter.join().unwrap(), Wake::Notified);
        });
    }
}

fn a_wait_ends_at_its_deadline<P: SyncPolicy>() {
    let clock = StdClock::new();
    let event = P::Event::new();
    let late = clock.now() + Duration::from_millis(20);
    let wake = event.wait(event.epoch(), &clock, Some(late));
    assert_eq!(wake, Wake::TimedOut);
    assert!(clock.now() >= late, "not before");
}

macro_rules! threads {
    ($name:ident, $policy:ty) => {
        mod $name {
            use super::*;
            #[test]
            fn exclude_each_other() {
                sections_exclude::<$policy>();
            }
            #[test]
            fn may_panic_in_a_section() {
                a_panic_in_a_section_lets_go::<$policy>();
            }
            #[test]
            fn count() {
                counts_and_words_lose_nothing::<$policy>();
            }
            #[test]
            fn are_served_one_by_one() {
                units_are_handed_out_one_by_one::<$policy>();
            }
            #[test]
            fn are_woken() {
                a_waiting_thread_is_woken::<$policy>();
            }
            #[test]
            fn do_not_wait_for_ever() {
                a_wait_ends_at_its_deadline::<$policy>();
            }
        }
    };
}
threads!(blocking, wharf_sync::Blocking);
#[cfg(feature = "spin")]
threads!(spin, wharf_sync::Spin);
#[cfg(feature = "critical-section")]
threads!(critical, wharf_sync::Critical);

/// Threads are known by small numbers that differ, and keep theirs.
fn are_told_apart<P: SyncPolicy>() {
    let here = P::who();
    assert_eq!(here, P::who());
    // Until all have asked none of them ends: a number is used again.
    let gate = std::sync::Barrier::new(3);
    let there = std::thread::scope(|scope| {
        let ask = || {
            let first = P::who();
            gate.wait();
            (first, P::who())
        };
        let threads = [(); 3].map(|()| scope.spawn(ask));
        threads.map(|thread| thread.join().unwrap())
    });
    let mut all = vec![here];
    for (first, again) in there {
        assert_eq!(first, again, "a thread keeps its number");
        assert!(!all.contains(&first), "two threads with one number");
        all.push(first);
    }
    assert!(!all.contains(&wharf_sync::Who::SOLE));
    assert!(all.iter().all(|who| who.id() < 1000), "small: {all:?}");
}

#[test]
fn blocking_tells_threads_apart() {
    are_told_apart::<wharf_sync::Blocking>();
}

#[cfg(feature = "spin")]
#[test]
fn spin_tells_threads_apart() {
    are_told_apart::<wharf_sync::Spin>();
}
