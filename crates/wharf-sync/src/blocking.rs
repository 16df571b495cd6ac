//! Threads of a hosted system: `std`'s mutex and condition variable.
#![allow(
    unsafe_code,
    reason = "implements the unsafe traits; contains no unsafe operation"
)]

use core::task::Waker;
use core::time::Duration;
use std::sync::{Condvar, LockResult, Mutex, PoisonError};
use std::time::Instant;

use crate::atomic::{AtomicCount, AtomicWord};
use crate::{Clock, ConstInit, Epoch, Event, Lock, SyncPolicy, Wake, WakerPlace, WakerSet, Who};

/// For memory that threads share.
///
/// Sections do not nest (entering a lock again inside itself deadlocks). A panic inside a section
/// does not poison it: our sections keep their values whole at every step.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Blocking {}

// SAFETY: `std::sync::Mutex` and atomics.
unsafe impl SyncPolicy for Blocking {
    type Lock<T> = BlockingLock<T>;
    type Count = AtomicCount;
    type Word = AtomicWord;
    type Event = BlockingEvent;
    const NAME: &'static str = "Blocking";
    fn who() -> Who {
        crate::who::thread()
    }
}

pub(crate) fn unpoisoned<G>(locked: LockResult<G>) -> G {
    locked.unwrap_or_else(PoisonError::into_inner)
}

/// The lock of [`Blocking`].
#[derive(Debug)]
pub struct BlockingLock<T>(Mutex<T>);

// SAFETY: a mutex.
unsafe impl<T> Lock<T> for BlockingLock<T> {
    fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }
    #[inline]
    fn with<R>(&self, section: impl FnOnce(&T) -> R) -> R {
        let value = unpoisoned(self.0.lock());
        section(&value)
    }
    fn get_mut(&mut self) -> &mut T {
        unpoisoned(self.0.get_mut())
    }
}

impl<T: ConstInit> ConstInit for BlockingLock<T> {
    const INIT: Self = Self(Mutex::new(T::INIT));
}

/// The event over the `Mutex` and the `Condvar` in scope. One text for the shipped ones and for loom's: what is
/// model-checked is what is shipped.
macro_rules! over_condvar {
    ($(#[$about:meta])* $event:ident, $wakers:literal) => {
        $(#[$about])*
        #[derive(Debug)]
        pub struct $event {
            state: Mutex<State>,
            happened: Condvar,
        }

        #[derive(Debug)]
        struct State {
            epoch: u32,
            wakers: WakerSet<$wakers>,
        }

        impl State {
            const INIT: Self = Self {
                epoch: 0,
                wakers: WakerSet::new(),
            };
        }

        // SAFETY: a mutex and a condition variable.
        unsafe impl Event for $event {
            fn new() -> Self {
                Self {
                    state: Mutex::new(State::INIT),
                    happened: Condvar::new(),
                }
            }
            fn epoch(&self) -> Epoch {
                Epoch(unpoisoned(self.state.lock()).epoch)
            }
            fn wait<C: Clock + ?Sized>(
                &self,
                seen: Epoch,
                clock: &C,
                deadline: Option<Duration>,
            ) -> Wake {
                loop {
                    // The clock is code of others: asked outside of the lock.
                    let left = deadline.map(|deadline| deadline.saturating_sub(clock.now()));
                    let state = unpoisoned(self.state.lock());
                    if Epoch(state.epoch) != seen {
                        return Wake::Notified;
                    }
                    match left {
                        None => drop(unpoisoned(self.happened.wait(state))),
                        Some(Duration::ZERO) => return Wake::TimedOut,
                        Some(left) => drop(unpoisoned(self.happened.wait_timeout(state, left))),
                    }
                }
            }
            fn notify(&self) {
                let mut state = unpoisoned(self.state.lock());
                state.epoch = state.epoch.wrapping_add(1);
                let woken = state.wakers.take();
                drop(state);
                self.happened.notify_all();
                $crate::wakers::wake_all(woken);
            }
            fn notify_one(&self) {
                let mut state = unpoisoned(self.state.lock());
                state.epoch = state.epoch.wrapping_add(1);
                // Inside of the lock: after it, somebody may have gone to sleep who has seen this epoch. If the
                // signal met that one, who sleeps on, it would be lost for those who slept before.
                self.happened.notify_one();
                let woken = state.wakers.take_one();
                drop(state);
                $crate::wakers::wake_all(woken);
            }
            // In all three: cloned before the lock, woken and dropped after it, because each runs code that is not ours.
            fn register(&self, waker: &Waker) {
                let mut waker = Some(waker.clone());
                let displaced = unpoisoned(self.state.lock()).wakers.insert(&mut waker);
                if let Some(displaced) = displaced {
                    displaced.wake();
                }
            }
            fn queue(&self, place: &mut WakerPlace, waker: &Waker) {
                let mut waker = Some(waker.clone());
                let displaced = unpoisoned(self.state.lock()).wakers.queue(place, &mut waker);
                if let Some(displaced) = displaced {
                    displaced.wake();
                }
            }
            fn withdraw(&self, place: &mut WakerPlace) -> bool {
                if place.is_none() {
                    return true;
                }
                let waker = unpoisoned(self.state.lock()).wakers.withdraw(place);
                waker.is_some()
            }
        }
    };
}
#[cfg(feature = "loom")]
pub(crate) use over_condvar;

over_condvar! {
    /// The event of [`Blocking`]: threads sleep on a condition variable.
    BlockingEvent, 4
}

impl ConstInit for BlockingEvent {
    const INIT: Self = Self {
        state: Mutex::new(State::INIT),
        happened: Condvar::new(),
    };
}

/// The system's monotonic clock, counted from the moment this one was made.
#[derive(Clone, Copy, Debug)]
pub struct StdClock {
    start: Instant,
}

impl StdClock {
    /// Starts at zero now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Default for StdClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for StdClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }
    fn idle(&self) {
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NoClock;

    #[test]
    fn threads_are_told_apart() {
        let here = Blocking::who();
        assert_eq!(here, Blocking::who());
        let there = std::thread::scope(|s| s.spawn(|| (Blocking::who(), here)).join().unwrap().0);
        assert_ne!(here, there);
    }

    #[test]
    fn a_sleeper_is_woken_and_a_past_event_is_not_waited_for() {
        let event = BlockingEvent::new();
        let seen = event.epoch();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| event.wait(seen, &NoClock, None));
            event.notify();
            assert_eq!(sleeper.join().unwrap(), Wake::Notified);
        });
        assert_eq!(event.wait(seen, &NoClock, None), Wake::Notified);
        // A deadline in the past ends a wait for an event that does not come.
        let late = event.wait(event.epoch(), &NoClock, Some(Duration::ZERO));
        assert_eq!(late, Wake::TimedOut);
    }
}
