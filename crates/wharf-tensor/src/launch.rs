//! Running commands on tensors.
//!
//! Invariant: a descriptor is submitted only together with a ticket for each of its operands.
#![allow(
    unsafe_code,
    reason = "submits descriptors, whose operands it holds tickets for"
)]

use core::fmt;
use core::task::{Poll, Waker};
use core::time::Duration;

use heapless::Vec;
use wharf_engine::{
    Access, Cargo, Command, Descriptor, DescriptorError, Engine, Fault, MAX_OPERANDS, Operand,
    Sequence,
};
use wharf_source::BlockSource;
use wharf_sync::{Clock, Event, SyncPolicy, Wake};

use crate::identity::{IdentityRef, Keep};
use crate::storage::Patience;
use crate::{LaunchError, Target, Tensor, TensorError, Ticket};

/// The tickets of one launch: the cargo of an engine that serves tensors. They end when the engine lets
/// go, whether or not anybody asks for the completion.
///
/// If it went well, the [completion count](Tensor::completions) of each named output then rises by one, after the tickets have
/// ended and before the submission is complete. For that the cargo keeps the counts, which anonymous outputs do not have.
pub struct Tickets<T: Target> {
    tickets: Vec<Ticket<T>, MAX_OPERANDS>,
    outputs: Vec<Keep<T::Policy, T::Source>, MAX_OPERANDS>,
}

impl<T: Target> Tickets<T> {
    /// `tickets` are those of `uses`.
    fn new(tickets: Vec<Ticket<T>, MAX_OPERANDS>, uses: &[Use<'_, T>]) -> Self {
        let outputs = uses.iter().filter(|one| one.access == Access::Write);
        let identities = outputs.filter_map(|one| one.tensor.identity());
        Self {
            tickets,
            // As many as operands at most, of which the descriptor admitted the number.
            outputs: identities
                .take(MAX_OPERANDS)
                .map(IdentityRef::keep)
                .collect(),
        }
    }
}

impl<T: Target> Cargo for Tickets<T> {
    fn landed(&mut self, outcome: Result<(), Fault>) {
        let mut outputs = Outputs(&mut self.outputs, outcome.is_ok());
        // First: whoever waits for the count finds the bytes free.
        self.tickets.clear();
        outputs.complete();
    }
}

/// The outputs of a launch that has landed. The ends of tickets, and completions, run wakers: one that panics does not keep
/// the others from being woken.
struct Outputs<'o, P: SyncPolicy, S: BlockSource>(&'o mut Vec<Keep<P, S>, MAX_OPERANDS>, bool);

impl<P: SyncPolicy, S: BlockSource> Outputs<'_, P, S> {
    fn complete(&mut self) {
        while let Some(output) = self.0.pop() {
            if self.1 {
                output.get().completed().complete();
            }
        }
    }
}

impl<P: SyncPolicy, S: BlockSource> Drop for Outputs<'_, P, S> {
    fn drop(&mut self) {
        // None are left, unless one has panicked.
        self.complete();
    }
}

impl<T: Target> fmt::Debug for Tickets<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.tickets).finish()
    }
}

/// A tensor, and what the command does with it.
pub struct Use<'t, T: Target> {
    tensor: &'t Tensor<T>,
    access: Access,
}

impl<T: Target> Clone for Use<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Target> Copy for Use<'_, T> {}

impl<T: Target> fmt::Debug for Use<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Use")
            .field("tensor", &self.tensor)
            .field("access", &self.access)
            .finish()
    }
}

impl<T: Target> Tensor<T> {
    /// This tensor as an operand that the command reads.
    #[must_use]
    pub const fn input(&self) -> Use<'_, T> {
        Use {
            tensor: self,
            access: Access::Read,
        }
    }

    /// This tensor as an operand that the command writes, and may read first.
    #[must_use]
    pub const fn output(&self) -> Use<'_, T> {
        Use {
            tensor: self,
            access: Access::Write,
        }
    }
}

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
    /// Hands a command over to the engine, which keeps the tensors until it is done. Waits for calls of the host and for
    /// engines of other streams that have access; not for a guard, which is [`TensorError::Guarded`], and not for room: a full
    /// queue is an error. Whose slots they are shows what to do then: wait for the oldest submission of your own, or for
    /// [`Engine::completed`] to happen.
    ///
    /// Launches of one engine run in order, so that one may read what the one before it writes, with nothing in
    /// between.
    ///
    /// # Errors
    /// An operand cannot be had, two operands overlap and one is written, or the engine takes none. Nothing is held then.
    fn launch<'e>(
        &'e self,
        command: Command,
        operands: &[Use<'_, T>],
    ) -> Result<Submission<'e, Self, T>, LaunchError> {
        launch(self, command, operands, true)
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
        launch(self, command, operands, false)
    }
}

impl<T: Target, E: Engine<Policy = T::Policy, Cargo = Tickets<T>> + ?Sized> Launch<T> for E {}

fn launch<'e, T: Target, E: Launch<T> + ?Sized>(
    engine: &'e E,
    command: Command,
    uses: &[Use<'_, T>],
    wait: bool,
) -> Result<Submission<'e, E, T>, LaunchError> {
    let mut operands = Vec::<Operand, MAX_OPERANDS>::new();
    for (index, one) in uses.iter().enumerate() {
        let place = one.tensor.placed().map_err(|error| LaunchError::Operand {
            operand: index,
            error,
        })?;
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
    let tickets = tickets(engine, uses, wait)?;
    // SAFETY: each operand is a window on a storage of which the cargo holds a ticket: the storage lives, its
    // bytes are initialised, and the fence keeps the host and other streams away, until the tickets land.
    let sequence =
        unsafe { engine.submit(descriptor, tickets) }.map_err(|refused| refused.error)?;
    Ok(Submission {
        engine,
        sequence,
        clock,
        open: true,
    })
}

/// A ticket for every operand, or none: nothing is held while waiting for one, so launches with common
/// operands cannot wait for each other in a circle.
fn tickets<T: Target, E: Launch<T> + ?Sized>(
    engine: &E,
    uses: &[Use<'_, T>],
    wait: bool,
) -> Result<Tickets<T>, LaunchError> {
    let stream = engine.stream();
    loop {
        let mut tickets = Vec::new();
        let mut refused = None;
        for (operand, one) in uses.iter().enumerate() {
            match one.tensor.ticket(one.access, stream, Patience::None) {
                // As many as operands, of which the descriptor admitted the number.
                Ok(ticket) => drop(tickets.push(ticket)),
                Err(error) => {
                    refused = Some((operand, one, error));
                    break;
                }
            }
        }
        let Some((operand, one, error)) = refused else {
            return Ok(Tickets::new(tickets, uses));
        };
        drop(tickets);
        let failed = |error| LaunchError::Operand { operand, error };
        if !(wait && matches!(error, TensorError::WouldBlock { .. })) {
            return Err(failed(error));
        }
        // Wait for this one alone, let go of it, and try all again.
        let patience = Patience::Until(None);
        let ticket = one.tensor.ticket(one.access, stream, patience);
        drop(ticket.map_err(failed)?);
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
#[must_use = "dropping a submission detaches it; call `wait` to learn how it ended"]
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
        self.engine.poll(self.sequence, waker).map(|completion| {
            self.open = false;
            match completion {
                Some(Ok(_)) => Ok(()),
                Some(Err(refused)) => Err(WaitError::Fault(refused.error)),
                None => Err(WaitError::Taken),
            }
        })
    }

    /// Blocks until it has ended.
    ///
    /// # Errors
    /// How it failed.
    pub fn wait(mut self) -> Result<(), WaitError> {
        loop {
            // Sampled before the poll: a completion in between moves it on.
            let seen = self.engine.completed().epoch();
            if let Poll::Ready(outcome) = self.poll(None) {
                return outcome;
            }
            let wake = match &self.clock {
                Some(clock) => self.sleep(seen, clock),
                None => self.sleep(seen, &wharf_sync::NoClock),
            };
            if wake == Wake::Never {
                return Err(WaitError::WouldDeadlock);
            }
        }
    }

    fn sleep<C: Clock>(&self, seen: wharf_sync::Epoch, clock: &C) -> Wake {
        self.engine.completed().wait(seen, clock, None::<Duration>)
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
    /// Under this policy nobody else exists who could finish it. It was detached.
    WouldDeadlock,
    /// How it ended was told already: to an earlier poll, or to somebody who asked the engine for this number.
    Taken,
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(fault) => fault.fmt(f),
            Self::WouldDeadlock => f.write_str("nobody is left to finish the submission"),
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
