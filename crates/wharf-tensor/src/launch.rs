//! Running commands on tensors.
//!
//! Invariant: a descriptor is submitted only together with a ticket for each of its operands, of which those in device space are
//! of backends whose addresses are the engines'.
#![allow(
    unsafe_code,
    reason = "submits descriptors, whose operands it holds tickets for"
)]

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};
use core::time::Duration;

use heapless::Vec;
use wharf_engine::{
    Access, Command, Completion, Descriptor, DescriptorError, Engine, EngineExt, Fault,
    MAX_OPERANDS, Operand, Sequence, StreamId, SubmitError, Unfinished,
};
use wharf_sync::NoClock;

use crate::io::FOREVER;
use crate::storage::{Patience, StorageRef};
use crate::tickets::{Acquiring, Beside, patience};
use crate::trace::{TraceDetail, TraceEvent, TraceKind, tell};
use crate::within::Limit;
use crate::{LaunchError, Target, Tickets, Use};

/// Launching commands on tensors, for every engine whose cargo is [`Tickets`].
///
/// ```
/// # use wharf_backend::Heap;
/// # use wharf_source::HeapSource;
/// # use wharf_sync::Unsync;
/// use wharf_engine::{Command, CpuEngine, KernelFault, Lent, Stream};
/// use wharf_tensor::{Launch, Parts, Tensor, Tickets};
///
/// type Sketch = Parts<Heap<Unsync>, HeapSource>;
/// let target = Sketch::new(HeapSource);
/// let engine = CpuEngine::<Unsync, Tickets<Sketch>>::new(Stream::claim()?);
///
/// fn add(operands: &mut [Lent<'_>]) -> Result<(), KernelFault> {
///     let [Lent::Read(a), Lent::Write(b)] = operands else { return Err(KernelFault(1)) };
///     b.iter_mut().zip(a.iter()).for_each(|(b, a)| *b += a);
///     Ok(())
/// }
///
/// let a = Tensor::alloc(&target, Heap::new(), 2)?;
/// let b = Tensor::alloc(&target, Heap::new(), 2)?;
/// a.write(0, &[1, 2])?;
/// b.write(0, &[10, 20])?;
/// engine.launch(Command::Kernel(add), &[a.input(), b.output()])?.wait()?;
/// assert_eq!(&*b.lend()?, [11, 22]);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub trait Launch<T: Target>: Engine<Policy = T::Policy, Cargo = Tickets<T>> {
    /// Hands a command over to the engine, which keeps the tensors until it is done. Blocks for calls of the host and for
    /// engines of other streams that have access; not for a guard, which is [`TensorError::Guarded`], and not for room: a full
    /// queue is an error. Whose slots they are shows what to do then: wait for the oldest submission of your own, or for
    /// [`Engine::completed`] to happen.
    ///
    /// Launches of one engine run in order, so that one may read what the one before it writes, with nothing in
    /// between.
    ///
    /// # Errors
    /// An operand cannot be had (an output over [read-only](TensorError::ReadOnly) memory never), two operands overlap and one is written,
    /// or the engine takes none. Nothing is held then.
    fn launch<'e>(
        &'e self,
        command: Command,
        operands: &[Use<'_, T>],
    ) -> Result<Submission<'e, Self, T>, LaunchError> {
        launch(self, command, operands, FOREVER, None)
    }

    /// [`launch`](Self::launch) without waiting.
    ///
    /// # Errors
    /// As there, and [`TensorError::WouldBlock`].
    fn try_launch<'e>(
        &'e self,
        command: Command,
        operands: &[Use<'_, T>],
    ) -> Result<Submission<'e, Self, T>, LaunchError> {
        launch(self, command, operands, Patience::None, None)
    }

    /// [`launch`](Self::launch), waiting so long and no longer for operands, by the clock of their [`Target`]. For the work
    /// itself there is [`Submission::wait_within`].
    ///
    /// # Errors
    /// As there, and [`TensorError::TimedOut`] or [`TensorError::NoClock`] of an operand.
    fn launch_within<'e>(
        &'e self,
        limit: Duration,
        command: Command,
        operands: &[Use<'_, T>],
    ) -> Result<Submission<'e, Self, T>, LaunchError> {
        launch(self, command, operands, patience(operands, limit)?, None)
    }

    /// [`launch`](Self::launch), awaited.
    ///
    /// Nothing happens before the first poll. Dropped at any poll before it is ready, nothing was launched and no operand is
    /// held; while it is suspended it holds none either, but a place in the queue of the one that it waits for (see
    /// [`WhenReady`](crate::WhenReady)). What it is ready with is a future again, of the work: dropping that one detaches.
    ///
    /// A full queue is an error here, too.
    ///
    /// # Errors
    /// As of [`launch`](Self::launch).
    fn launch_when_ready<'e, 'u>(
        &'e self,
        command: Command,
        operands: &'u [Use<'u, T>],
    ) -> Launching<'e, 'u, Self, T> {
        Launching::new(self, command, operands, None)
    }
}

impl<T: Target, E: Engine<Policy = T::Policy, Cargo = Tickets<T>> + ?Sized> Launch<T> for E {}

pub(crate) fn launch<'e, T: Target, E: Launch<T> + ?Sized>(
    engine: &'e E,
    command: Command,
    uses: &[Use<'_, T>],
    patience: Patience,
    beside: Beside<'_, T>,
) -> Result<Submission<'e, E, T>, LaunchError> {
    let prepared = Prepared::new(command, uses)?;
    let tickets = Tickets::acquire(engine.stream(), uses, patience, beside)?;
    prepared.submit(engine, uses, tickets)
}

/// What a launch is made of but for its tickets.
struct Prepared<T: Target> {
    descriptor: Descriptor,
    clock: Option<T::Clock>,
}

impl<T: Target> Prepared<T> {
    fn new(command: Command, uses: &[Use<'_, T>]) -> Result<Self, LaunchError> {
        let mut operands = Vec::<Operand, MAX_OPERANDS>::new();
        for (index, one) in uses.iter().enumerate() {
            let place = one.tensor.placed().map_err(|error| LaunchError::Operand {
                operand: index,
                error,
            })?;
            if one.access == Access::Write {
                let writable = one.tensor.storage().and_then(StorageRef::writable);
                writable.map_err(|error| LaunchError::Operand {
                    operand: index,
                    error,
                })?;
            }
            if !one.tensor.is_for_engines() {
                return Err(SubmitError::Unreachable { operand: index }.into());
            }
            let operand = Operand {
                place,
                len: one.tensor.len(),
                access: one.access,
            };
            let too_many = |_| DescriptorError::TooManyOperands {
                operands: uses.len(),
            };
            operands.push(operand).map_err(too_many)?;
        }
        let descriptor = Descriptor::new(command, &operands)?;
        let storage = uses.iter().find_map(|one| one.tensor.storage().ok());
        // Before the engine has anything: this runs code that is not ours.
        let clock = storage.map(|storage| storage.clock().clone());
        Ok(Self { descriptor, clock })
    }

    /// `tickets` are those of the same uses.
    fn submit<'e, E: Launch<T> + ?Sized>(
        self,
        engine: &'e E,
        uses: &[Use<'_, T>],
        tickets: Tickets<T>,
    ) -> Result<Submission<'e, E, T>, LaunchError> {
        // SAFETY: each operand is a window on a storage of which the cargo holds a ticket: the storage lives, its
        // bytes are initialised, and the fence keeps the host and other streams away, until the tickets land. Where it is on a
        // device, its address is the engine's name for it, and for nothing else.
        let sequence =
            unsafe { engine.submit(self.descriptor, tickets) }.map_err(|refused| refused.error)?;
        let submission = Submission {
            engine,
            sequence,
            clock: self.clock,
            open: true,
        };
        // A sink that panics here detaches it.
        launched(engine.stream(), sequence, uses);
        Ok(submission)
    }
}

/// Tells that an engine has accepted a command.
fn launched<T: Target>(stream: StreamId, sequence: Sequence, uses: &[Use<'_, T>]) {
    let Some(storage) = uses.iter().find_map(|one| one.tensor.storage().ok()) else {
        return;
    };
    tell(storage.trace(), || {
        let bytes = uses.iter().map(|one| one.tensor.len() as u64);
        let bytes = bytes.fold(0, u64::saturating_add);
        TraceEvent::instant(TraceKind::Launched, storage.id().get(), bytes).with(
            TraceDetail::Launch {
                stream: stream.get(),
                sequence: sequence.get(),
            },
        )
    });
}

/// A launch that waits for its operands: see [`Launch::launch_when_ready`].
#[must_use = "a future does nothing until it is polled"]
pub struct Launching<'e, 'u, E: Engine<Cargo = Tickets<T>> + ?Sized, T: Target> {
    engine: &'e E,
    command: Command,
    tickets: Acquiring<'u, T>,
    done: bool,
}

impl<'e, 'u, E: Launch<T> + ?Sized, T: Target> Launching<'e, 'u, E, T> {
    pub(crate) fn new(
        engine: &'e E,
        command: Command,
        uses: &'u [Use<'u, T>],
        beside: Beside<'u, T>,
    ) -> Self {
        Self {
            engine,
            command,
            tickets: Acquiring::new(engine.stream(), uses, beside),
            done: false,
        }
    }

    fn attempt(&mut self, waker: &Waker) -> Poll<Result<Submission<'e, E, T>, LaunchError>> {
        let uses = self.tickets.uses();
        // First of all: it finds what no waiting mends.
        let prepared = Prepared::new(self.command, uses)?;
        let tickets = ready!(self.tickets.poll(waker))?;
        Poll::Ready(prepared.submit(self.engine, uses, tickets))
    }
}

impl<'e, E: Launch<T> + ?Sized, T: Target> Future for Launching<'e, '_, E, T> {
    type Output = Result<Submission<'e, E, T>, LaunchError>;

    /// # Panics
    /// Polled after it was ready.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(!self.done, "polled after it was ready");
        let polled = self.attempt(context.waker());
        self.done = polled.is_ready();
        polled
    }
}

impl<E: Launch<T> + ?Sized, T: Target> fmt::Debug for Launching<'_, '_, E, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launching")
            .field("tickets", &self.tickets)
            .finish_non_exhaustive()
    }
}

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

    /// Blocks until it has ended.
    ///
    /// # Errors
    /// How it failed.
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
