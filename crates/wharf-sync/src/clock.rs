//! Time, and what to do while it passes.

use core::time::Duration;

/// Tells the time and idles. A target owns one by value: zero-sized on an MCU that reads a timer
/// register, a shared handle on a host, a hand-driven one in a test.
pub trait Clock {
    /// Time since some fixed moment. Never goes backwards.
    fn now(&self) -> Duration;

    /// Whether time passes on it. Where it does not, no deadline ever would: who is asked to keep one refuses.
    fn tells_time(&self) -> bool {
        true
    }

    /// Called over and over while a context waits and its policy cannot put it to sleep. The place
    /// for `wfe` on Arm (its event latch is set by every interrupt return, so no wake slips between
    /// the test and the sleep), or for driving an engine that is polled.
    fn idle(&self) {
        core::hint::spin_loop();
    }
}

/// A clock that stands still, for programs that set no deadlines. It [says so](Clock::tells_time).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn tells_time(&self) -> bool {
        false
    }
}

impl<C: Clock + ?Sized> Clock for &C {
    fn now(&self) -> Duration {
        (**self).now()
    }
    fn tells_time(&self) -> bool {
        (**self).tells_time()
    }
    fn idle(&self) {
        (**self).idle();
    }
}

#[cfg(feature = "std")]
impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    fn now(&self) -> Duration {
        (**self).now()
    }
    fn tells_time(&self) -> bool {
        (**self).tells_time()
    }
    fn idle(&self) {
        (**self).idle();
    }
}
