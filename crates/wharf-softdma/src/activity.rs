//! What is under way on a device, what came of it, and code of others that must not break it.

use core::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use wharf_engine::{Cargo, Fault};

/// What became of the descriptors that a device took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Ran to their end.
    pub completed: u64,
    /// Their kernel gave up or panicked.
    pub faulted: u64,
    /// Of those that faulted: nobody was told, because nobody asked before the completion was dropped.
    pub faulted_detached: u64,
    /// Never started: aborted, or the device was closed.
    pub cancelled: u64,
    /// Panics in a cargo's `landed` or `drop`. They are contained, because the device must go on.
    pub cargo_panics: u64,
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} completed, {} faulted ({} of them detached), {} cancelled, {} panics of cargo",
            self.completed, self.faulted, self.faulted_detached, self.cancelled, self.cargo_panics
        )
    }
}

/// Counts what is queued or running.
#[derive(Default)]
pub(crate) struct Activity {
    work: Mutex<Work>,
    idle: Condvar,
}

#[derive(Default)]
struct Work {
    /// Submitted, and not landed.
    outstanding: usize,
    /// The threads that are in a call that may let something land, once a call: when one returns, pollers see what landed
    /// in it. (A thread may be in calls of several devices, one inside the other, so no thread-local will do.)
    landing: Vec<ThreadId>,
    stats: Stats,
}

impl Work {
    const fn is_idle(&self) -> bool {
        self.outstanding == 0 && self.landing.is_empty()
    }
}

impl Activity {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stats(&self) -> Stats {
        self.work().stats
    }

    /// Until the return value is dropped, cargo may land on this thread.
    pub(crate) fn landing(&self) -> Landing<'_> {
        self.work().landing.push(thread::current().id());
        Landing { activity: self }
    }

    /// Whether this thread is in a call of [`Cargo::landed`], and so must not wait for the end of it.
    pub(crate) fn is_landing_here(&self) -> bool {
        self.work().landing.contains(&thread::current().id())
    }

    pub(crate) fn wait_until_idle(&self) {
        let mut work = self.work();
        while !work.is_idle() {
            work = self.idle.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Something changed for good: tells those who wait for the end, if this was it.
    fn change(&self, change: impl FnOnce(&mut Work)) {
        let mut work = self.work();
        change(&mut work);
        if work.is_idle() {
            self.idle.notify_all();
        }
    }
}

pub(crate) struct Landing<'a> {
    activity: &'a Activity,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        let here = thread::current().id();
        self.activity.change(|work| {
            if let Some(index) = work.landing.iter().position(|&thread| thread == here) {
                work.landing.swap_remove(index);
            }
        });
    }
}

/// A cargo in the queue: it counts, and its panics go no further.
pub(crate) struct Tracked<C: Cargo> {
    /// Until it is taken out.
    cargo: Option<C>,
    /// Once it has landed.
    outcome: Option<Result<(), Fault>>,
    activity: Arc<Activity>,
}

impl<C: Cargo> Tracked<C> {
    pub(crate) fn new(cargo: C, activity: &Arc<Activity>) -> Self {
        activity.work().outstanding += 1;
        Self {
            cargo: Some(cargo),
            outcome: None,
            activity: Arc::clone(activity),
        }
    }

    /// The cargo: whoever takes it has seen the outcome, or had it refused.
    pub(crate) fn into_inner(mut self) -> C {
        match self.cargo.take() {
            Some(cargo) => cargo,
            None => unreachable!("a cargo is taken out by value, so once"),
        }
    }
}

impl<C: Cargo> Cargo for Tracked<C> {
    fn landed(&mut self, outcome: Result<(), Fault>) {
        let cargo = self.cargo.as_mut();
        let calm = contained(|| cargo.map(|cargo| cargo.landed(outcome))).is_some();
        self.outcome = Some(outcome);
        self.activity.change(|work| {
            work.outstanding -= 1;
            work.stats.cargo_panics += u64::from(!calm);
            match outcome {
                Ok(()) => work.stats.completed += 1,
                Err(Fault::Aborted | Fault::Closed) => work.stats.cancelled += 1,
                Err(_) => work.stats.faulted += 1,
            }
        });
    }
}

impl<C: Cargo> Drop for Tracked<C> {
    fn drop(&mut self) {
        let cargo = self.cargo.take();
        let unseen = cargo.is_some();
        let calm = contained(|| drop(cargo)).is_some();
        let outcome = self.outcome;
        self.activity.change(|work| {
            work.outstanding -= usize::from(outcome.is_none());
            work.stats.cargo_panics += u64::from(!calm);
            if unseen && matches!(outcome, Some(Err(Fault::Kernel(_) | Fault::Panicked))) {
                work.stats.faulted_detached += 1;
            }
        });
    }
}

/// Runs code of others; `None` if it panicked.
pub(crate) fn contained<R>(code: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(value) => Some(value),
        Err(payload) => {
            // A payload may panic when it is dropped; what that one leaves behind is leaked.
            if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                core::mem::forget(again);
            }
            None
        }
    }
}
