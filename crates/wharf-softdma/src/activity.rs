//! What came of the descriptors of a device, and code of others that must not break it.

use core::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wharf_engine::{Cargo, Fault, Sequence};

/// What became of the descriptors that a device took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
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
    /// Panics in what a cargo is told, or in its `drop`. They are contained, because the device must go on.
    pub cargo_panics: u64,
    /// Ends that the device told of for something that had ended already. They are ignored.
    pub spurious: u64,
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} completed, {} faulted ({} of them detached), {} cancelled, {} panics of cargo, {} spurious",
            self.completed,
            self.faulted,
            self.faulted_detached,
            self.cancelled,
            self.cargo_panics,
            self.spurious
        )
    }
}

/// What came of what landed.
#[derive(Default)]
pub(crate) struct Activity(Mutex<Stats>);

impl Activity {
    fn counts(&self) -> MutexGuard<'_, Stats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stats(&self) -> Stats {
        *self.counts()
    }

    /// An end was told of that had been told of before.
    pub(crate) fn spurious(&self) {
        self.counts().spurious += 1;
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

// Only ever told by a queue, which tells the number, too.
impl<C: Cargo> Cargo for Tracked<C> {
    fn taken_up(&mut self, sequence: Sequence) {
        let cargo = self.cargo.as_mut();
        let calm = contained(|| cargo.map(|cargo| cargo.taken_up(sequence))).is_some();
        self.activity.counts().cargo_panics += u64::from(!calm);
    }

    fn landed_as(&mut self, sequence: Sequence, outcome: Result<(), Fault>) {
        let cargo = self.cargo.as_mut();
        let calm = contained(|| cargo.map(|cargo| cargo.landed_as(sequence, outcome))).is_some();
        self.outcome = Some(outcome);
        let mut stats = self.activity.counts();
        stats.cargo_panics += u64::from(!calm);
        match outcome {
            Ok(()) => stats.completed += 1,
            Err(Fault::Aborted | Fault::Closed) => stats.cancelled += 1,
            Err(_) => stats.faulted += 1,
        }
    }
}

impl<C: Cargo> Drop for Tracked<C> {
    fn drop(&mut self) {
        let cargo = self.cargo.take();
        let unseen = cargo.is_some();
        let calm = contained(|| drop(cargo)).is_some();
        let outcome = self.outcome;
        let faulted = !matches!(
            outcome,
            None | Some(Ok(()) | Err(Fault::Aborted | Fault::Closed))
        );
        let mut stats = self.activity.counts();
        stats.cargo_panics += u64::from(!calm);
        stats.faulted_detached += u64::from(unseen && faulted);
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
