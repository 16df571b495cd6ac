//! Running commands on tensors.
//!
//! Invariant: a descriptor is submitted only together with a ticket for each of its operands, of which those in device space are
//! of backends whose addresses are the engines'.
#![allow(
    unsafe_code,
    reason = "submits descriptors, whose operands it holds tickets for"
)]

use core::time::Duration;

use heapless::Vec;
use wharf_engine::{
    Access, Command, Descriptor, DescriptorError, Engine, MAX_OPERANDS, Operand, Sequence,
    StreamId, SubmitError,
};

use crate::io::FOREVER;
use crate::storage::{Patience, StorageRef};
use crate::tickets::{Beside, patience};
use crate::trace::{TraceDetail, TraceEvent, TraceKind, tell};
use crate::{LaunchError, Target, Tickets, Use};

mod awaited;
mod submission;

pub use awaited::Launching;
pub use submission::{Submission, WaitError};

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
    /// engines of other streams that have access; not for a guard, which is [`TensorError::Guarded`](crate::TensorError::Guarded),
    /// and not for room: a full queue is an error. Whose slots they are shows what to do then: wait for the oldest submission of
    /// your own, or for [`Engine::completed`] to happen.
    ///
    /// Up to 63 operands in the queue may read one storage, and as many write it; one more is an error, too
    /// ([`TensorError::Busy`](crate::TensorError::Busy)), and the way out the same.
    ///
    /// Launches of one engine run in order, so that one may read what the one before it writes, with nothing in
    /// between.
    ///
    /// # Errors
    /// An operand cannot be had (an output over [read-only](crate::TensorError::ReadOnly) memory never), two operands overlap and one
    /// is written, or the engine takes none. Nothing is held then.
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
    /// As there, and [`TensorError::WouldBlock`](crate::TensorError::WouldBlock).
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
    /// As there, and [`TensorError::TimedOut`](crate::TensorError::TimedOut) or [`TensorError::NoClock`](crate::TensorError::NoClock) of an operand.
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
        let submission = Submission::new(engine, sequence, self.clock);
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
