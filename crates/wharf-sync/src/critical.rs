//! Interrupts and threads of an MCU, through the `critical-section` crate.
#![allow(
    unsafe_code,
    reason = "implements the unsafe traits; contains no unsafe operation"
)]

use core::cell::RefCell;
use core::task::Waker;
use core::time::Duration;

use critical_section::Mutex;

use crate::atomic::{AtomicCount, AtomicWord};
use crate::{Clock, ConstInit, Epoch, Event, IsrSafe, Lock, SyncPolicy, Wake, WakerSet, Who, Word};

/// For memory that interrupt handlers and threads share.
///
/// A section is whatever the linked `critical-section` implementation makes it: interrupts masked on
/// one core, plus a hardware spinlock on two. Sections nest. Counters are atomics, through
/// `portable-atomic` where the core has no compare-and-swap.
///
/// It does not tell an interrupt from the thread that it interrupted ([`SyncPolicy::who`] answers
/// [`Who::SOLE`]): never wait in an interrupt handler.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Critical {}

// SAFETY: `critical_section` excludes all contexts of the program; the counters are atomics.
unsafe impl SyncPolicy for Critical {
    type Lock<T> = CriticalLock<T>;
    type Count = AtomicCount;
    type Word = AtomicWord;
    type Event = CriticalEvent;
    const NAME: &'static str = "Critical";
    fn who() -> Who {
        Who::SOLE
    }
}

// SAFETY: a section cannot be preempted, and atomics do not block.
unsafe impl IsrSafe for Critical {}

/// The lock of [`Critical`].
#[derive(Debug)]
pub struct CriticalLock<T>(Mutex<T>);

// SAFETY: as `critical_section::Mutex`, which is `Sync` where `T: Send`.
unsafe impl<T> Lock<T> for CriticalLock<T> {
    fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }
    #[inline]
    fn with<R>(&self, section: impl FnOnce(&T) -> R) -> R {
        critical_section::with(|cs| section(self.0.borrow(cs)))
    }
    fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

impl<T: ConstInit> ConstInit for CriticalLock<T> {
    const INIT: Self = Self(Mutex::new(T::INIT));
}

/// The event of [`Critical`]. A blocking wait runs the clock's idle hook until the event happens.
#[derive(Debug)]
pub struct CriticalEvent {
    epoch: AtomicWord,
    wakers: CriticalLock<RefCell<WakerSet<2>>>,
}

// SAFETY: an atomic and a lock.
unsafe impl Event for CriticalEvent {
    fn new() -> Self {
        Self::INIT
    }
    fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load())
    }
    fn wait<C: Clock + ?Sized>(&self, seen: Epoch, clock: &C, deadline: Option<Duration>) -> Wake {
        loop {
            if self.epoch() != seen {
                return Wake::Notified;
            }
            if deadline.is_some_and(|deadline| clock.now() >= deadline) {
                return Wake::TimedOut;
            }
            clock.idle();
        }
    }
    fn notify(&self) {
        // `Some` always, so the update never refuses.
        let _ = self.epoch.update(|epoch| Some(epoch.wrapping_add(1)));
        let woken = self.wakers.with(|wakers| wakers.borrow_mut().take());
        woken.into_iter().flatten().for_each(Waker::wake);
    }
    fn register(&self, waker: &Waker) {
        // Cloned before the section, woken and dropped after it: each runs code that is not ours.
        let mut waker = Some(waker.clone());
        let displaced = self
            .wakers
            .with(|wakers| wakers.borrow_mut().insert(&mut waker));
        if let Some(displaced) = displaced {
            displaced.wake();
        }
    }
}

impl ConstInit for CriticalEvent {
    const INIT: Self = Self {
        epoch: AtomicWord::INIT,
        wakers: CriticalLock(Mutex::new(RefCell::new(WakerSet::new()))),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    #[test]
    fn sections_nest() {
        let lock = CriticalLock::new(Cell::new(1));
        let seen = lock.with(|outer| {
            outer.set(2);
            lock.with(|inner| {
                inner.set(inner.get() + 3);
                outer.get()
            })
        });
        assert_eq!(seen, 5);
    }

    struct Countdown(Cell<u64>);
    impl Clock for Countdown {
        fn now(&self) -> Duration {
            Duration::from_secs(self.0.get())
        }
        fn idle(&self) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn a_wait_ends_at_its_deadline() {
        let clock = Countdown(Cell::new(0));
        let event = CriticalEvent::new();
        let outcome = event.wait(event.epoch(), &clock, Some(Duration::from_secs(7)));
        assert_eq!(outcome, Wake::TimedOut);
        assert_eq!(clock.0.get(), 7, "idled once a second, seven times");
    }
}
