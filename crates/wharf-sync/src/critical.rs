//! Interrupts and threads of an MCU, through the `critical-section` crate.
#![allow(
    unsafe_code,
    reason = "implements the unsafe traits; contains no unsafe operation"
)]

use critical_section::Mutex;

use crate::atomic::{AtomicCount, AtomicWord};
use crate::{ConstInit, IdleEvent, IsrSafe, Lock, SyncPolicy, Who};

/// For memory that interrupt handlers and threads share.
///
/// A section is whatever the linked `critical-section` implementation makes it: interrupts masked on
/// one core, plus a hardware spinlock on two. Sections nest. Counters are atomics, through
/// `portable-atomic` where the core has no compare-and-swap.
///
/// It tells neither an interrupt from the thread that it interrupted nor one core from another
/// ([`SyncPolicy::who`] answers [`Who::SOLE`]). Never wait in an interrupt handler: what would end the wait may be
/// what it interrupted.
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
    const ISR_SAFE: bool = true;
    const NONBLOCKING: bool = true;
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
pub type CriticalEvent = IdleEvent<Critical, 2>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, Event, Wake};
    use core::cell::Cell;
    use core::time::Duration;

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
