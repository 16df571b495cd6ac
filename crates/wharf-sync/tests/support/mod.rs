//! What several tests need.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Wake, Waker};

/// A task that counts how often it is woken. How many wakers of it are alive, its `Arc` counts.
#[derive(Debug, Default)]
pub(crate) struct Task(AtomicU32);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Task {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    pub(crate) fn wakes(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn wakers(self: &Arc<Self>) -> usize {
        Arc::strong_count(self) - 1
    }
}

/// Makes a test of every generic function, under every policy that there is. The number is how many wakers an event
/// of the policy keeps.
macro_rules! under_every_policy {
    ($($test:ident),* $(,)?) => {
        mod unsync {
            $(#[test] fn $test() { super::$test::<wharf_sync::Unsync, 1>(); })*
        }
        #[cfg(feature = "critical-section")]
        mod critical {
            $(#[test] fn $test() { super::$test::<wharf_sync::Critical, 2>(); })*
        }
        #[cfg(feature = "spin")]
        mod spin {
            $(#[test] fn $test() { super::$test::<wharf_sync::Spin, 4>(); })*
        }
        #[cfg(feature = "std")]
        mod blocking {
            $(#[test] fn $test() { super::$test::<wharf_sync::Blocking, 4>(); })*
        }
    };
}
pub(crate) use under_every_policy;
