//! Safe ways to submit, and ways to wait.
//!
//! Invariants:
//! 1. [`EngineExt::ship`] submits the operands that its cargo lists, and the engine keeps that cargo until it has landed;
//! 2. [`EngineExt::run_borrowed`] ends in no way, neither by a return nor by a panic, before its submission has landed.
#![allow(
    unsafe_code,
    reason = "submits descriptors whose operands its cargo owns, or that it does not leave"
)]

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::ptr::NonNull;
use core::task::{Context, Poll};
use core::time::Duration;

use heapless::Vec;
use wharf_backend::{BackendRef, Place, Returned, SegmentMut};
use wharf_sync::{Clock, Event, NoClock, Wake};

use crate::freight::Operands;
use crate::wait::wait_for;
use crate::{
    Cargo, Command, Completes, Completion, Descriptor, DescriptorError, Drains, Engine, Fault,
    Freight, Lent, MAX_OPERANDS, Manifest, Operand, Sequence, SubmitError, Unfinished,
};

/// What every engine can do beyond [`Engine`]: submit safely, and wait.
pub trait EngineExt: Engine {
    /// Blocks until a submission has ended, or until `clock` passes `deadline`. The submission is left alone in either case: after
    /// [`Unfinished::TimedOut`] ask again, [`abort`](Engine::abort) it, or [`detach`](Engine::detach) it.
    ///
    /// # Errors
    /// There is no completion to take.
    fn wait<K: Clock + ?Sized>(
        &self,
        sequence: Sequence,
        clock: &K,
        deadline: Option<Duration>,
    ) -> Result<Completion<Self::Cargo>, Unfinished> {
        let ask = || match self.poll(sequence, None) {
            Poll::Ready(Some(completion)) => Ok(Ok(completion)),
            Poll::Ready(None) => Ok(Err(Unfinished::Taken { sequence })),
            Poll::Pending => Err(sequence),
        };
        wait_for(self, ask, clock, deadline)?
    }

    /// A barrier: blocks until everything that was submitted before this call has landed, well or badly, or until `clock`
    /// passes `deadline`. What is submitted meanwhile is not waited for. Afterwards completions can be polled, the tickets of
    /// tensors are released, and the cargo of what was detached is dropped; slots whose completion nobody has taken stay taken.
    ///
    /// ```
    /// use wharf_engine::{Command, CpuEngine, Descriptor, Engine, EngineExt, Stream};
    /// use wharf_sync::{NoClock, Unsync};
    ///
    /// let engine = CpuEngine::<Unsync, ()>::new(Stream::claim()?);
    /// // SAFETY: no operands.
    /// unsafe { engine.submit(Descriptor::new(Command::Kernel(|_| Ok(())), &[])?, ()) }
    ///     .map_err(|refused| refused.error)?;
    /// engine.drain(&NoClock, None)?;
    /// assert_eq!(engine.outstanding(), None);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Unfinished::TimedOut`] or [`Unfinished::WouldDeadlock`], with the oldest submission that it still waited for;
    /// nothing has changed, and it may be called again.
    fn drain<K: Clock + ?Sized>(
        &self,
        clock: &K,
        deadline: Option<Duration>,
    ) -> Result<(), Unfinished> {
        self.drained().wait(clock, deadline)
    }

    /// The barrier of [`drain`](Self::drain), to be awaited, polled, or waited for later: it stands behind everything that was
    /// submitted before this call.
    ///
    /// It only asks. Dropping it at any poll changes nothing; its waker stays until the next completion.
    fn drained(&self) -> Drains<'_, Self> {
        Drains::new(self)
    }

    /// A future of a submission's completion, `None` if that was taken.
    ///
    /// It only asks, and owns nothing: dropping it at any time leaves the submission as it is, because whoever has the number
    /// can ask again. (A [`Transfer`] owns its number, and detaches when it is dropped.)
    fn completion(&self, sequence: Sequence) -> Completes<'_, Self> {
        Completes::new(self, sequence)
    }

    /// Submits a command on what the cargo lists.
    ///
    /// The cargo borrows nothing, so the engine may keep it for as long as it must; forgetting the [`Transfer`], or even the
    /// engine, leaks it and no more.
    ///
    /// ```
    /// use wharf_backend::{SegmentMut, StaticPool};
    /// use wharf_engine::{Command, CpuEngine, EngineExt, Freight, KernelFault, Lent, Stream};
    /// use wharf_sync::{Blocking, NoClock};
    ///
    /// static POOL: StaticPool<Blocking, 64, 4> = StaticPool::new();
    /// type Memory = &'static StaticPool<Blocking, 64, 4>;
    ///
    /// fn add(operands: &mut [Lent<'_>]) -> Result<(), KernelFault> {
    ///     let [Lent::Read(a), Lent::Write(b)] = operands else { return Err(KernelFault(1)) };
    ///     b.iter_mut().zip(a.iter()).for_each(|(b, a)| *b += a);
    ///     Ok(())
    /// }
    ///
    /// let engine = CpuEngine::<Blocking, [Freight<Memory>; 2]>::new(Stream::claim()?);
    /// let a = SegmentMut::alloc(&POOL, 2)?.init_from(&[1, 2])?;
    /// let b = SegmentMut::alloc(&POOL, 2)?.init_from(&[10, 20])?;
    /// let sum = engine.ship(Command::Kernel(add), [Freight::read(a), Freight::write(b)])?;
    /// let [_, b] = sum.wait(&NoClock, None)??;
    /// assert_eq!(*b.into_segment(), [11, 22]);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// A segment that borrows its pool is refused, because the pool could go while the engine is at it:
    ///
    /// ```compile_fail,E0597
    /// # use wharf_backend::{SegmentMut, StaticPool};
    /// # use wharf_engine::{Command, CpuEngine, EngineExt, Freight, Stream};
    /// # use wharf_sync::Unsync;
    /// let pool = StaticPool::<Unsync, 64, 4>::new();
    /// let engine = CpuEngine::<Unsync, Freight<&StaticPool<Unsync, 64, 4>>>::new(Stream::claim().unwrap());
    /// let segment = SegmentMut::alloc(&pool, 4).unwrap().filled(0).unwrap();
    /// engine.ship(Command::Fill(1), Freight::write(segment)); // error: `pool` does not live long enough
    /// ```
    ///
    /// # Errors
    /// The operands do not fit the command, or the engine does not take them; the cargo comes back.
    fn ship(&self, command: Command, mut cargo: Self::Cargo) -> Shipped<'_, Self, Self::Cargo>
    where
        Self::Cargo: Manifest + 'static,
    {
        let descriptor = match describe(command, &cargo) {
            Ok(descriptor) => descriptor,
            Err(error) => return Err(Returned::new(error, cargo)),
        };
        cargo.depart();
        // SAFETY: the cargo keeps the operands: valid, initialised, written by nobody else, and read by nobody else where the
        // engine writes, while the engine keeps it, which is until it lands. It is `'static`, so that holds even if the engine is forgotten.
        match unsafe { self.submit(descriptor, cargo) } {
            Ok(sequence) => Ok(Transfer {
                engine: self,
                sequence,
                open: true,
            }),
            Err(Returned { error, mut value }) => {
                value.landed(Err(Fault::Aborted));
                Err(Returned::new(error.into(), value))
            }
        }
    }

    /// Copies one segment into another of the same length.
    ///
    /// # Errors
    /// As of [`ship`](Self::ship); the segments come back.
    fn copy<A, B>(
        &self,
        source: SegmentMut<A>,
        destination: SegmentMut<B>,
    ) -> Shipped<'_, Self, (SegmentMut<A>, SegmentMut<B>)>
    where
        A: BackendRef + 'static,
        B: BackendRef + 'static,
        Self: Engine<Cargo = (Freight<A>, Freight<B>)>,
    {
        let cargo = (Freight::read(source), Freight::write(destination));
        self.ship(Command::Copy, cargo).map_err(
            |Returned {
                 error,
                 value: (source, destination),
             }| {
                Returned::new(error, (source.into_segment(), destination.into_segment()))
            },
        )
    }

    /// Sets every byte of a segment.
    ///
    /// # Errors
    /// As of [`ship`](Self::ship); the segment comes back.
    fn fill<R>(&self, segment: SegmentMut<R>, byte: u8) -> Shipped<'_, Self, SegmentMut<R>>
    where
        R: BackendRef + 'static,
        Self: Engine<Cargo = Freight<R>>,
    {
        self.ship(Command::Fill(byte), Freight::write(segment))
            .map_err(|Returned { error, value }| Returned::new(error, value.into_segment()))
    }

    /// Runs a command on borrowed bytes, and does not come back before the engine has let go of them: not by a return, and not
    /// by a panic of the clock, of a waker or of somebody else's kernel.
    ///
    /// When `deadline` passes, the submission is aborted. One that had not started comes back as [`RunError::TimedOut`]. One that
    /// runs is waited for, without a deadline: nothing else could be done with a device that holds an address. If its
    /// hardware hangs, so does this; an engine that can stop a transfer under way does so in its `abort`. A panic in here
    /// aborts and waits in the same way, and a second one meanwhile ends the program.
    ///
    /// `cargo` rides along, for engines whose cargo is more than `()`. The bytes have no backend, so no cache is maintained
    /// for them: where the device does not snoop, use segments of a backend that maintains.
    ///
    /// ```
    /// use wharf_engine::{Command, CpuEngine, EngineExt, Lent, Stream};
    /// use wharf_sync::{NoClock, Unsync};
    ///
    /// let engine = CpuEngine::<Unsync, ()>::new(Stream::claim()?);
    /// let (from, mut to) = (*b"wharf", [0; 5]);
    /// let operands = &mut [Lent::Read(&from), Lent::Write(&mut to)];
    /// engine.run_borrowed(Command::Copy, operands, (), &NoClock, None).map_err(|r| r.error)?;
    /// assert_eq!(to, from);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The bytes are not as the command says, with the cargo, unless somebody else took the completion.
    fn run_borrowed<K: Clock + ?Sized>(
        &self,
        command: Command,
        operands: &mut [Lent<'_>],
        cargo: Self::Cargo,
        clock: &K,
        deadline: Option<Duration>,
    ) -> Result<Self::Cargo, Returned<Option<Self::Cargo>, RunError>> {
        let descriptor = match borrow(command, operands) {
            Ok(descriptor) => descriptor,
            Err(error) => return Err(Returned::new(error.into(), Some(cargo))),
        };
        // SAFETY: the operands are borrowed, by the caller and so by us, for longer than this call: initialised, written by
        // nobody, and reached by nobody else where they are to be written. If `submit` refuses or panics, the engine touches
        // none of them; else `held` sees to invariant 2.
        let sequence = match unsafe { self.submit(descriptor, cargo) } {
            Ok(sequence) => sequence,
            Err(Returned { error, value }) => {
                return Err(Returned::new(error.into(), Some(value)));
            }
        };
        let held = Held {
            engine: self,
            sequence,
        };
        let (completion, given_up) = match self.wait(sequence, clock, deadline) {
            Ok(completion) => (Some(completion), None),
            Err(Unfinished::Taken { .. }) => (None, None),
            Err(Unfinished::TimedOut { .. }) => (held.take_back(), Some(RunError::TimedOut)),
            Err(Unfinished::WouldDeadlock { .. }) => {
                (held.take_back(), Some(RunError::WouldDeadlock))
            }
        };
        core::mem::forget(held);
        match (completion, given_up) {
            (Some(Ok(cargo)), _) => Ok(cargo),
            (Some(Err(Returned { error, value })), given_up) => {
                let why = match (error, given_up) {
                    (Fault::Aborted, Some(why)) => why,
                    (fault, _) => RunError::Fault(fault),
                };
                Err(Returned::new(why, Some(value)))
            }
            (None, _) => Err(Returned::new(RunError::Taken, None)),
        }
    }
}

impl<E: Engine + ?Sized> EngineExt for E {}

fn describe<M: Manifest>(command: Command, cargo: &M) -> Result<Descriptor, ShipError> {
    let mut operands = Operands::default();
    cargo.list(&mut operands);
    let list = operands
        .list()
        .map_err(|operands| DescriptorError::TooManyOperands { operands })?;
    if let Some(operand) = operands.unreachable() {
        return Err(SubmitError::Unreachable { operand }.into());
    }
    Ok(Descriptor::new(command, list)?)
}

fn borrow(command: Command, lent: &mut [Lent<'_>]) -> Result<Descriptor, DescriptorError> {
    let mut operands = Vec::<Operand, MAX_OPERANDS>::new();
    let count = lent.len();
    for bytes in lent {
        let operand = match bytes {
            Lent::Read(bytes) => {
                Operand::read(Place::Host(NonNull::from(*bytes).cast()), bytes.len())
            }
            Lent::Write(bytes) => {
                let len = bytes.len();
                Operand::write(Place::Host(NonNull::from(&mut **bytes).cast()), len)
            }
        };
        operands
            .push(operand)
            .map_err(|_| DescriptorError::TooManyOperands { operands: count })?;
    }
    Descriptor::new(command, &operands)
}

/// Borrowed operands that a device has. Dropped only when a panic goes by: it gets them back first.
struct Held<'e, E: Engine + ?Sized> {
    engine: &'e E,
    sequence: Sequence,
}

impl<E: Engine + ?Sized> Held<'_, E> {
    /// Aborts, and waits until it has landed, however long that takes.
    fn take_back(&self) -> Option<Completion<E::Cargo>> {
        self.engine.abort(self.sequence);
        loop {
            let seen = self.engine.completed().epoch();
            // By the law of `poll`, this says that it has landed.
            if let Poll::Ready(completion) = self.engine.poll(self.sequence, None) {
                return completion;
            }
            // `Never` under `Unsync`: then it is the poll that drives the device.
            if self.engine.completed().wait(seen, &NoClock, None) != Wake::Notified {
                core::hint::spin_loop();
            }
        }
    }
}

impl<E: Engine + ?Sized> Drop for Held<'_, E> {
    fn drop(&mut self) {
        // A panic in here is a second one, which ends the program.
        drop(self.take_back());
    }
}

/// A submission of owned segments. Dropping or forgetting it detaches: the engine finishes the work, and drops the cargo.
///
/// It is a future of the completion; `&mut transfer` is one too, for a `select` that is to keep it.
#[must_use = "dropping a transfer detaches it; call `wait` or await it to get the cargo back"]
pub struct Transfer<'e, E: Engine + ?Sized> {
    engine: &'e E,
    sequence: Sequence,
    /// Nobody got the completion from us so far.
    open: bool,
}

impl<E: Engine + ?Sized> Transfer<'_, E> {
    /// Its number on the engine.
    #[must_use]
    pub const fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// The number, for whoever asks the engine itself; nothing is detached.
    #[must_use = "this is all that is left of the transfer"]
    pub const fn into_sequence(self) -> Sequence {
        let sequence = self.sequence;
        core::mem::forget(self);
        sequence
    }

    /// Blocks until it has ended.
    ///
    /// # Errors
    /// It has not by `deadline`, or cannot. It is detached then; to ask again, use [`wait_until`](Self::wait_until).
    pub fn wait<K: Clock + ?Sized>(
        mut self,
        clock: &K,
        deadline: Option<Duration>,
    ) -> Result<Completion<E::Cargo>, Unfinished> {
        self.wait_until(clock, deadline)
    }

    /// Blocks until it has ended, and may be called again if it has not.
    ///
    /// # Errors
    /// It has not by `deadline`, cannot, or has and was told.
    pub fn wait_until<K: Clock + ?Sized>(
        &mut self,
        clock: &K,
        deadline: Option<Duration>,
    ) -> Result<Completion<E::Cargo>, Unfinished> {
        if !self.open {
            return Err(Unfinished::Taken {
                sequence: self.sequence,
            });
        }
        let waited = self.engine.wait(self.sequence, clock, deadline);
        self.open = matches!(
            waited,
            Err(Unfinished::TimedOut { .. } | Unfinished::WouldDeadlock { .. })
        );
        waited
    }

    /// Takes it back, if it has not started; it then ends with [`Fault::Aborted`].
    pub fn abort(&self) {
        self.engine.abort(self.sequence);
    }
}

impl<E: Engine + ?Sized> Future for Transfer<'_, E> {
    /// `None` if somebody else, or an earlier poll, took the completion.
    type Output = Option<Completion<E::Cargo>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.open {
            return Poll::Ready(None);
        }
        let polled = self.engine.poll(self.sequence, Some(context.waker()));
        self.open = polled.is_pending();
        polled
    }
}

impl<E: Engine + ?Sized> Drop for Transfer<'_, E> {
    fn drop(&mut self) {
        if self.open {
            self.engine.detach(self.sequence);
        }
    }
}

impl<E: Engine + ?Sized> fmt::Debug for Transfer<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transfer")
            .field("sequence", &self.sequence)
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

/// What became of a submission of `C`: under way, or back.
pub type Shipped<'e, E, C> = Result<Transfer<'e, E>, Returned<C, ShipError>>;

/// Why segments were not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ShipError {
    /// They do not fit the command.
    Descriptor(DescriptorError),
    /// The engine did not take them.
    Submit(SubmitError),
}

impl From<DescriptorError> for ShipError {
    fn from(error: DescriptorError) -> Self {
        Self::Descriptor(error)
    }
}
impl From<SubmitError> for ShipError {
    fn from(error: SubmitError) -> Self {
        Self::Submit(error)
    }
}

impl fmt::Display for ShipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Descriptor(error) => error.fmt(f),
            Self::Submit(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ShipError {}

/// Why a command on borrowed bytes brought no success. The engine has let go of them, whichever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum RunError {
    /// The bytes do not fit the command; nothing was submitted.
    Descriptor(DescriptorError),
    /// The engine did not take them.
    Submit(SubmitError),
    /// It failed.
    Fault(Fault),
    /// It had not started when the deadline passed, and was taken back.
    TimedOut,
    /// Nobody else could have started it: under this policy nobody else exists, or the caller is
    /// [inside](Engine::is_inside) of the engine. It was taken back.
    WouldDeadlock,
    /// It has ended, but somebody else took the completion, and the cargo.
    Taken,
}

impl From<DescriptorError> for RunError {
    fn from(error: DescriptorError) -> Self {
        Self::Descriptor(error)
    }
}
impl From<SubmitError> for RunError {
    fn from(error: SubmitError) -> Self {
        Self::Submit(error)
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Descriptor(error) => error.fmt(f),
            Self::Submit(error) => error.fmt(f),
            Self::Fault(error) => error.fmt(f),
            Self::TimedOut => f.write_str("not started in time, and taken back"),
            Self::WouldDeadlock => f.write_str("nobody is left to start it, and it was taken back"),
            Self::Taken => f.write_str("it has ended, and somebody else was told how"),
        }
    }
}

impl core::error::Error for RunError {}
