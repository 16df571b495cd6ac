//! How one waits for an engine: for one submission, or for all before a moment.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use wharf_sync::{Clock, Event, Wake};

use crate::{Completion, Engine, Sequence};

/// Blocks until `ask` answers, which may be whenever something completes. Until then it says which submission is in the way.
///
/// The one protocol of everything that blocks for an engine: no completion is slept through, one that comes with the deadline
/// counts, and whoever would wait for himself is told.
pub(crate) fn wait_for<E: Engine + ?Sized, K: Clock + ?Sized, T>(
    engine: &E,
    mut ask: impl FnMut() -> Result<T, Sequence>,
    clock: &K,
    deadline: Option<Duration>,
) -> Result<T, Unfinished> {
    let mut slept = Wake::Notified;
    loop {
        // Sampled before the question: a completion in between moves it on.
        let seen = engine.completed().epoch();
        let sequence = match ask() {
            Ok(answer) => return Ok(answer),
            Err(sequence) => sequence,
        };
        match slept {
            Wake::Notified if engine.is_inside() => {
                return Err(Unfinished::WouldDeadlock { sequence });
            }
            Wake::Notified => slept = engine.completed().wait(seen, clock, deadline),
            // It has been asked once more, for a completion that came just then.
            Wake::TimedOut => return Err(Unfinished::TimedOut { sequence }),
            Wake::Never => return Err(Unfinished::WouldDeadlock { sequence }),
        }
    }
}

/// The future of [`EngineExt::completion`](crate::EngineExt::completion).
#[must_use = "a future does nothing until it is polled"]
pub struct Completes<'e, E: Engine + ?Sized> {
    engine: &'e E,
    sequence: Sequence,
    taken: bool,
}

impl<'e, E: Engine + ?Sized> Completes<'e, E> {
    pub(crate) const fn new(engine: &'e E, sequence: Sequence) -> Self {
        Self {
            engine,
            sequence,
            taken: false,
        }
    }
}

impl<E: Engine + ?Sized> Future for Completes<'_, E> {
    type Output = Option<Completion<E::Cargo>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.taken {
            return Poll::Ready(None);
        }
        let polled = self.engine.poll(self.sequence, Some(context.waker()));
        self.taken = polled.is_ready();
        polled
    }
}

impl<E: Engine + ?Sized> fmt::Debug for Completes<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completes")
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}

/// A barrier: passed when everything has landed that was submitted before [`EngineExt::drained`](crate::EngineExt::drained) made it. What
/// is submitted later does not hold it up, and once passed it stays so.
///
/// A future, which can also be polled without a waker, and waited for. Dropping it changes nothing.
///
/// ```
/// use wharf_engine::{Command, CpuEngine, Descriptor, Engine, EngineExt, Stream};
/// use wharf_sync::{NoClock, Unsync};
///
/// let engine = CpuEngine::<Unsync, ()>::new(Stream::claim()?);
/// let barrier = engine.drained();
/// assert_eq!(barrier.sequence(), None, "nothing is under way");
/// assert!(barrier.poll(None).is_ready());
/// barrier.wait(&NoClock, None)?;
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[must_use = "a barrier waits for nothing until it is waited for or polled"]
pub struct Drains<'e, E: Engine + ?Sized> {
    engine: &'e E,
    newest: Option<Sequence>,
}

impl<'e, E: Engine + ?Sized> Drains<'e, E> {
    pub(crate) fn new(engine: &'e E) -> Self {
        let outstanding = engine.outstanding();
        Self {
            engine,
            newest: outstanding.map(|outstanding| *outstanding.end()),
        }
    }

    /// The newest submission that it stands behind; `None`: all had landed.
    #[must_use]
    pub const fn sequence(&self) -> Option<Sequence> {
        self.newest
    }

    /// Whether it is passed.
    ///
    /// # Errors
    /// The oldest submission in the way.
    fn passed(&self) -> Result<(), Sequence> {
        let Some(newest) = self.newest else {
            return Ok(());
        };
        match self.engine.outstanding() {
            Some(outstanding) if *outstanding.start() <= newest => Err(*outstanding.start()),
            _ => Ok(()),
        }
    }

    /// Whether it is passed. If not, `waker` is woken when to ask again.
    pub fn poll(&self, waker: Option<&Waker>) -> Poll<()> {
        if self.passed().is_ok() {
            return Poll::Ready(());
        }
        let Some(waker) = waker else {
            return Poll::Pending;
        };
        self.engine.completed().register(waker);
        // Again, for a completion that came before the waker was there.
        match self.passed() {
            Ok(()) => Poll::Ready(()),
            Err(_) => Poll::Pending,
        }
    }

    /// Blocks until it is passed, or until `clock` passes `deadline`. May be called again.
    ///
    /// # Errors
    /// As of [`EngineExt::drain`](crate::EngineExt::drain).
    pub fn wait<K: Clock + ?Sized>(
        &self,
        clock: &K,
        deadline: Option<Duration>,
    ) -> Result<(), Unfinished> {
        wait_for(self.engine, || self.passed(), clock, deadline)
    }
}

impl<E: Engine + ?Sized> Future for Drains<'_, E> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Self::poll(&self, Some(context.waker()))
    }
}

impl<E: Engine + ?Sized> fmt::Debug for Drains<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drains")
            .field("newest", &self.newest)
            .finish_non_exhaustive()
    }
}

/// Why a wait for an engine brought nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Unfinished {
    /// The deadline passed first. Nothing was taken back: it may be waited for again.
    TimedOut {
        /// What had not landed; of several the oldest.
        sequence: Sequence,
    },
    /// The wait would never end: under this policy nobody else exists who could finish it, or the caller is
    /// [inside](Engine::is_inside) of the engine.
    WouldDeadlock {
        /// What has not landed; of several the oldest.
        sequence: Sequence,
    },
    /// The completion was taken already, or the submission detached, or there never was one.
    Taken {
        /// What was waited for.
        sequence: Sequence,
    },
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut { sequence } => {
                write!(f, "submission {sequence} had not landed at the deadline")
            }
            Self::WouldDeadlock { sequence } => {
                write!(
                    f,
                    "nobody but the caller could finish submission {sequence}"
                )
            }
            Self::Taken { sequence } => {
                write!(
                    f,
                    "how submission {sequence} ended was told already, if it ever was one"
                )
            }
        }
    }
}

impl core::error::Error for Unfinished {}
