//! What was launched, and how it ended.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use wharf_engine::{Completion, Engine, EngineExt, Fault, Sequence, Unfinished};
use wharf_sync::NoClock;

use super::Launch;
use crate::within::Limit;
use crate::{Target, Tickets};

/// A command that was launched. Dropping it detaches: the engine finishes the work and drops what it holds.
///
/// Forgetting it is harmless to memory, and its tensors come free all the same; but its slot of the queue stays taken until
/// somebody polls the engine for its number. To keep a launch where a borrow of the engine cannot live (in a struct beside
/// it, in a static), take the number with [`into_sequence`](Self::into_sequence).
///
/// It needs its tensors no more, but it does need its engine:
///
/// ```compile_fail,E0505
/// # use wharf_engine::{Command, CpuEngine};
/// # use wharf_tensor::{Launch, Target, Tensor, Tickets};
/// fn run<T: Target>(engine: CpuEngine<T::Policy, Tickets<T>>, tensor: Tensor<T>) {
///     let submission = engine.launch(Command::Fill(0), &[tensor.output()]).unwrap();
///     drop(tensor);
///     drop(engine); // error: the submission borrows it
///     submission.wait().unwrap();
/// }
/// ```
#[must_use = "dropping a submission detaches it; call `wait` or await it to learn how it ended"]
pub struct Submission<'e, E: Engine<Cargo = Tickets<T>> + ?Sized, T: Target> {
    engine: &'e E,
    sequence: Sequence,
    clock: Option<T::Clock>,
    open: bool,
}

impl<'e, E: Engine<Cargo = Tickets<T>> + ?Sized, T: Target> Submission<'e, E, T> {
    pub(super) const fn new(engine: &'e E, sequence: Sequence, clock: Option<T::Clock>) -> Self {
        Self {
            engine,
            sequence,
            clock,
            open: true,
        }
    }
}

impl<E: Launch<T> + ?Sized, T: Target> Submission<'_, E, T> {
    /// Its number on the engine.
    #[must_use]
    pub const fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// How it ended, or that it has not; `waker` is woken by the next completion. It says so once: afterwards the answer is
    /// [`WaitError::Taken`].
    pub fn poll(&mut self, waker: Option<&Waker>) -> Poll<Result<(), WaitError>> {
        if !self.open {
            return Poll::Ready(Err(WaitError::Taken));
        }
        let polled = self.engine.poll(self.sequence, waker);
        polled.map(|completion| self.told(completion))
    }

    /// The engine told how it ended, or that somebody else was told.
    fn told(&mut self, completion: Option<Completion<Tickets<T>>>) -> Result<(), WaitError> {
        self.open = false;
        match completion {
            Some(Ok(_)) => Ok(()),
            Some(Err(refused)) => Err(WaitError::Fault(refused.error)),
            None => Err(WaitError::Taken),
        }
    }

    /// Blocks until it has ended. Not for interrupt handlers.
    ///
    /// # Errors
    /// How it failed; or [`WaitError::WouldDeadlock`], and then it goes on [detached](Engine::detach).
    pub fn wait(mut self) -> Result<(), WaitError> {
        self.sleep(None)
    }

    /// Blocks until it has ended, so long and no longer, by the clock of the operands' target. After
    /// [`WaitError::TimedOut`] nothing has changed: wait again, [`abort`](Self::abort) it, or let it go.
    ///
    /// # Errors
    /// How it failed, or that it has not ended, or that there is no clock to tell.
    pub fn wait_within(&mut self, limit: Duration) -> Result<(), WaitError> {
        self.wait_limited(Limit::In(limit))
    }

    /// [`wait_within`](Self::wait_within), until `moment` on that clock.
    ///
    /// # Errors
    /// As there.
    pub fn wait_until(&mut self, moment: Duration) -> Result<(), WaitError> {
        self.wait_limited(Limit::At(moment))
    }

    fn wait_limited(&mut self, limit: Limit) -> Result<(), WaitError> {
        let moment = self.clock.as_ref().and_then(|clock| limit.moment(clock));
        self.sleep(Some(moment.ok_or(WaitError::NoClock)?))
    }

    fn sleep(&mut self, deadline: Option<Duration>) -> Result<(), WaitError> {
        if !self.open {
            return Err(WaitError::Taken);
        }
        let waited = match &self.clock {
            Some(clock) => EngineExt::wait(self.engine, self.sequence, clock, deadline),
            None => EngineExt::wait(self.engine, self.sequence, &NoClock, deadline),
        };
        match waited {
            Err(Unfinished::TimedOut { .. }) => Err(WaitError::TimedOut),
            Err(Unfinished::WouldDeadlock { .. }) => Err(WaitError::WouldDeadlock),
            ended => self.told(ended.ok()),
        }
    }

    /// The number alone, and no more borrow of the engine. The slot stays taken until the number is polled or detached:
    /// [`Engine::poll`], [`Engine::detach`].
    pub fn into_sequence(mut self) -> Sequence {
        self.open = false;
        self.sequence
    }

    /// Takes it back, if it has not started; it then ends with [`Fault::Aborted`].
    pub fn abort(&self) {
        self.engine.abort(self.sequence);
    }
}

/// How it ended. Dropping it, at any poll, detaches: the engine finishes the work, and its tensors come free all the same.
/// To keep it through a `select`, await `&mut submission`.
impl<E: Launch<T> + ?Sized, T: Target> Future for Submission<'_, E, T> {
    type Output = Result<(), WaitError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Submission::poll(self.get_mut(), Some(context.waker()))
    }
}

/// Nothing in it is pinned.
impl<E: Engine<Cargo = Tickets<T>> + ?Sized, T: Target> Unpin for Submission<'_, E, T> {}

impl<E: Engine<Cargo = Tickets<T>> + ?Sized, T: Target> Drop for Submission<'_, E, T> {
    fn drop(&mut self) {
        if self.open {
            self.engine.detach(self.sequence);
        }
    }
}

impl<E: Engine<Cargo = Tickets<T>> + ?Sized, T: Target> fmt::Debug for Submission<'_, E, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submission")
            .field("sequence", &self.sequence)
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

/// Why a wait for a submission brought no success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum WaitError {
    /// It failed.
    Fault(Fault),
    /// Nobody else could finish it: under this policy nobody else exists, or the caller is
    /// [inside](Engine::is_inside) of the engine. [`Submission::wait`] has detached it.
    WouldDeadlock,
    /// The deadline passed first.
    TimedOut,
    /// A deadline was set, and there is no clock that tells the time: that of the operands' target does not, or there are no
    /// operands. The submission is as it was.
    NoClock,
    /// How it ended was told already: to an earlier poll, or to somebody who asked the engine for this number.
    Taken,
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(fault) => fault.fmt(f),
            Self::WouldDeadlock => f.write_str("nobody is left to finish the submission"),
            Self::TimedOut => f.write_str("the submission did not end in time"),
            Self::NoClock => f.write_str("no clock tells the time, so no deadline can be kept"),
            Self::Taken => f.write_str("how the submission ended was told already"),
        }
    }
}

impl core::error::Error for WaitError {}

impl From<Fault> for WaitError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}
