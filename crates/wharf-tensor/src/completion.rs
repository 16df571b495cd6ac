//! Counting completions, and waiting for them.
//!
//! Each identity has a count and an event of its own. The storage has no part in it: its fence is not passed and its event not used,
//! so that a wait for a count keeps nobody from the bytes.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use wharf_sync::{Clock, Event, SyncPolicy, Wake, Word};

use crate::error::StorageId;
use crate::identity::IdentityRef;
use crate::storage::StorageRef;
use crate::trace::{TraceEvent, TraceKind, tell};
use crate::{Target, Tensor};

/// How often something was completed.
#[derive(Debug)]
pub(crate) struct Completed<P: SyncPolicy> {
    count: P::Word,
    risen: P::Event,
}

impl<P: SyncPolicy> Completed<P> {
    pub(crate) fn new() -> Self {
        Self {
            count: P::Word::new(0),
            risen: P::Event::new(),
        }
    }

    /// One more. The caller keeps the count by something else than those who wait for it: the wake comes after the rise.
    pub(crate) fn complete(&self) {
        // Refuses only at the limit, where the number stays, and whoever waits for as much has it.
        if self.count.update(|count| count.checked_add(1)).is_ok() {
            self.risen.notify();
        }
    }

    pub(crate) fn count(&self) -> u32 {
        self.count.load()
    }

    fn reset(&self) -> u32 {
        // `Some` always, so the update never refuses.
        let (Ok(before) | Err(before)) = self.count.update(|_| Some(0));
        before
    }
}

impl<T: Target> Tensor<T> {
    /// How often launches have completed this tensor, if it is [named](Self::named). Clones share it.
    #[must_use]
    pub fn completions(&self) -> Option<Completions<'_, T>> {
        Some(Completions {
            identity: self.identity()?,
            storage: self.storage().ok()?,
            warning: WARNING,
        })
    }
}

const WARNING: Duration = Duration::from_secs(30);

/// The completion count of a named tensor.
///
/// It rises by one with each launch that writes the tensor (as an [`output`](Tensor::output)) and ends well: after the engine has let
/// go of the bytes, and before the submission says that it is complete. So whoever has seen the count finds the bytes free. A launch
/// that fails, is taken back or is only dropped counts nothing. The driver of a device that is no
/// [`Engine`](wharf_engine::Engine) ends its [`Tickets`](crate::Tickets) by [`land`](crate::Tickets::land), or calls
/// [`complete`](Self::complete) when it has dropped its [`Ticket`](crate::Ticket).
///
/// Any number of contexts may wait, also for different counts. Waiting takes no lock, and no access to the bytes. To wait
/// in a task for one of several, poll a [`reached`](Self::reached) of each: every count that rises wakes the task.
///
/// ```
/// # use wharf_backend::Heap;
/// # use wharf_source::HeapSource;
/// # use wharf_sync::Unsync;
/// # use wharf_engine::{Command, CpuEngine, Stream};
/// # use wharf_tensor::{CompletionError, Launch, Parts, Tensor, Tickets};
/// # type Sketch = Parts<Heap<Unsync>, HeapSource>;
/// # let target = Sketch::new(HeapSource);
/// # let engine = CpuEngine::<Unsync, Tickets<Sketch>>::new(Stream::claim()?);
/// let logits = Tensor::alloc(&target, Heap::new(), 10)?.named(&target, "logits")?;
/// drop(engine.launch(Command::Fill(1), &[logits.output()])?); // Nobody keeps the submission.
///
/// let done = logits.completions().unwrap();
/// done.wait_for(1)?;
/// assert_eq!(logits.try_lend()?[9], 1);
/// assert!(matches!(done.try_wait_for(2), Err(CompletionError::WouldBlock { expected: 2, seen: 1, .. })));
/// assert_eq!(done.reset(), 1);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// It borrows the tensor; another context waits in a clone of that:
///
/// ```compile_fail,E0505
/// # use wharf_tensor::{Target, Tensor};
/// fn wait<T: Target>(tensor: Tensor<T>) {
///     let done = tensor.completions().unwrap();
///     drop(tensor); // error: `done` borrows it
///     done.wait_for(1).unwrap();
/// }
/// ```
pub struct Completions<'t, T: Target> {
    identity: &'t IdentityRef<T>,
    storage: &'t StorageRef<T>,
    warning: Duration,
}

impl<'t, T: Target> Completions<'t, T> {
    /// One more, by hand, and wakes whoever waits. At `u32::MAX` it stays. Never blocks; may be called in an interrupt handler where
    /// the policy is [`IsrSafe`](wharf_sync::IsrSafe).
    pub fn complete(&self) {
        self.completed().complete();
    }

    /// How many there were since it was named, or [reset](Self::reset).
    #[must_use]
    pub fn count(&self) -> u32 {
        self.completed().count()
    }

    /// Back to zero. Answers what the count was, so that none is lost between the two. Whoever waits goes on waiting, for as many
    /// as before.
    #[allow(
        clippy::must_use_candidate,
        reason = "the number is often of no interest"
    )]
    pub fn reset(&self) -> u32 {
        self.completed().reset()
    }

    /// Waits of this value warn whenever so much time has passed again: by an event
    /// [`TraceKind::Overdue`] to the target's trace. 30 seconds, if nothing is said; [`Duration::ZERO`]: never. It takes a
    /// clock that moves.
    #[must_use]
    pub const fn warning_every(self, warning: Duration) -> Self {
        Self { warning, ..self }
    }

    /// Whether there were at least `expected`.
    ///
    /// # Errors
    /// [`CompletionError::WouldBlock`].
    pub fn try_wait_for(&self, expected: u32) -> Result<(), CompletionError> {
        let (storage, seen) = (self.storage.id(), self.count());
        if seen >= expected {
            return Ok(());
        }
        Err(CompletionError::WouldBlock {
            storage,
            expected,
            seen,
        })
    }

    /// Blocks until there were at least `expected`, for as long as it takes. Not for interrupt handlers.
    ///
    /// # Errors
    /// [`CompletionError::WouldDeadlock`]: under this policy nobody else exists who could complete it.
    pub fn wait_for(&self, expected: u32) -> Result<(), CompletionError> {
        self.wait(expected, None)
    }

    /// [`wait_for`](Self::wait_for), for `patience` at most, on the target's clock.
    ///
    /// # Errors
    /// As there, and [`CompletionError::TimedOut`] or [`CompletionError::NoClock`].
    pub fn wait_for_within(
        &self,
        expected: u32,
        patience: Duration,
    ) -> Result<(), CompletionError> {
        if self.try_wait_for(expected).is_ok() {
            return Ok(());
        }
        let clock = self.storage.clock();
        if !patience.is_zero() && !clock.tells_time() {
            return Err(CompletionError::NoClock {
                storage: self.storage.id(),
                expected,
                seen: self.count(),
            });
        }
        // Later than any clock says: no deadline.
        let deadline = clock.now().checked_add(patience);
        self.wait(expected, deadline)
    }

    /// A future that is ready when there were at least `expected`, with their number.
    ///
    /// It owns nothing, and may be dropped at any time: nothing is lost, and others are woken as ever.
    pub const fn reached(self, expected: u32) -> Reached<'t, T> {
        Reached {
            completions: self,
            expected,
        }
    }

    const fn completed(&self) -> &'t Completed<T::Policy> {
        self.identity.get().completed()
    }

    fn wait(&self, expected: u32, deadline: Option<Duration>) -> Result<(), CompletionError> {
        let (completed, clock) = (self.completed(), self.storage.clock());
        let mut warning = None;
        loop {
            // Sampled before the count is tested: a completion in between moves it on.
            let epoch = completed.risen.epoch();
            if completed.count() >= expected {
                return Ok(());
            }
            let warn_at = *warning.get_or_insert_with(|| self.next_warning(clock));
            // `None` is never, and so later than anything.
            let until = deadline.into_iter().chain(warn_at).min();
            let (storage, ended) = (self.storage.id(), completed.risen.wait(epoch, clock, until));
            if ended == Wake::Notified {
                continue;
            }
            // Once more, for a completion that came just then.
            let seen = completed.count();
            if seen >= expected {
                return Ok(());
            }
            if ended == Wake::Never {
                return Err(CompletionError::WouldDeadlock {
                    storage,
                    expected,
                    seen,
                });
            }
            let now = clock.now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Err(CompletionError::TimedOut {
                    storage,
                    expected,
                    seen,
                });
            }
            if warn_at.is_some_and(|warn_at| now >= warn_at) {
                self.warn();
                warning = None;
            }
        }
    }

    fn next_warning(&self, clock: &T::Clock) -> Option<Duration> {
        if self.warning.is_zero() {
            return None;
        }
        clock.now().checked_add(self.warning)
    }

    #[cold]
    fn warn(&self) {
        tell(self.storage.trace(), || {
            let bytes = self.identity.get().window().len as u64;
            TraceEvent::instant(TraceKind::Overdue, self.storage.id().get(), bytes)
        });
    }
}

impl<T: Target> Clone for Completions<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Target> Copy for Completions<'_, T> {}

impl<T: Target> fmt::Debug for Completions<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completions")
            .field("name", &self.identity.get().name())
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

/// The future of [`Completions::reached`].
#[must_use = "a future does nothing until it is polled"]
pub struct Reached<'t, T: Target> {
    completions: Completions<'t, T>,
    expected: u32,
}

impl<T: Target> Future for Reached<'_, T> {
    type Output = u32;
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u32> {
        let completed = self.completions.completed();
        let reached = || Some(completed.count()).filter(|&count| count >= self.expected);
        let count = reached().or_else(|| {
            completed.risen.register(context.waker());
            // Afterwards, for what came before the waker was there.
            reached()
        });
        count.map_or(Poll::Pending, Poll::Ready)
    }
}

impl<T: Target> fmt::Debug for Reached<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reached")
            .field("completions", &self.completions)
            .field("expected", &self.expected)
            .finish()
    }
}

/// Why a wait for completions ended without them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum CompletionError {
    /// There are fewer so far, and the call was not to wait.
    WouldBlock {
        /// On what.
        storage: StorageId,
        /// How many were waited for.
        expected: u32,
        /// How many there were.
        seen: u32,
    },
    /// The time passed first.
    TimedOut {
        /// On what.
        storage: StorageId,
        /// How many were waited for.
        expected: u32,
        /// How many there were.
        seen: u32,
    },
    /// A deadline was set, and the clock of the target [does not tell the time](wharf_sync::Clock::tells_time): it would never pass.
    NoClock {
        /// On what.
        storage: StorageId,
        /// How many were waited for.
        expected: u32,
        /// How many there were.
        seen: u32,
    },
    /// Waiting would be for ever: under this policy nobody else exists who could complete it.
    WouldDeadlock {
        /// On what.
        storage: StorageId,
        /// How many were waited for.
        expected: u32,
        /// How many there were.
        seen: u32,
    },
}

impl CompletionError {
    /// The storage under the tensor.
    #[must_use]
    pub const fn storage_id(&self) -> Option<StorageId> {
        let (Self::WouldBlock { storage, .. }
        | Self::TimedOut { storage, .. }
        | Self::NoClock { storage, .. }
        | Self::WouldDeadlock { storage, .. }) = *self;
        Some(storage)
    }

    /// The message, with `storage` in place of [`storage_id`](Self::storage_id).
    pub(crate) fn about(
        &self,
        f: &mut fmt::Formatter<'_>,
        storage: &dyn fmt::Display,
    ) -> fmt::Result {
        let (seen, expected, what) = match self {
            Self::WouldBlock { seen, expected, .. } => (seen, expected, "so far"),
            Self::TimedOut { seen, expected, .. } => (seen, expected, "in time"),
            Self::NoClock { seen, expected, .. } => {
                (seen, expected, "and no clock to wait for more by")
            }
            Self::WouldDeadlock { seen, expected, .. } => {
                (seen, expected, "and nobody is left to complete it")
            }
        };
        write!(f, "{seen} of {expected} completions of {storage} {what}")
    }
}

impl fmt::Display for CompletionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::WouldBlock { storage, .. }
        | Self::TimedOut { storage, .. }
        | Self::NoClock { storage, .. }
        | Self::WouldDeadlock { storage, .. }) = self;
        self.about(f, storage)
    }
}

impl core::error::Error for CompletionError {}

#[cfg(test)]
mod tests {
    use wharf_sync::Unsync;

    use super::*;

    #[test]
    fn at_the_limit_the_count_stays() {
        let completed = Completed::<Unsync> {
            count: Word::new(u32::MAX - 1),
            risen: Event::new(),
        };
        completed.complete();
        completed.complete();
        assert_eq!(completed.count(), u32::MAX);
        assert_eq!(completed.reset(), u32::MAX);
        assert_eq!(completed.count(), 0);
    }
}
