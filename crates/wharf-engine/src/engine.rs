//! The seam.
#![allow(unsafe_code, reason = "declares the unsafe trait; no unsafe operation")]

use core::fmt;
use core::ops::RangeInclusive;
use core::task::{Poll, Waker};

use wharf_backend::usage::ChannelId;
use wharf_backend::{BackendRef, Returned, SegmentMut, State};
use wharf_sync::SyncPolicy;

use crate::{Descriptor, KernelFault, Limits, SplitError, StreamId};

/// The number of a submission on its engine: ascending from one, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Sequence(u64);

impl Sequence {
    /// For engines that count by themselves: the submission with this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// What a descriptor keeps alive: owned segments, or tickets of fences.
pub trait Cargo {
    /// The engine has let go of every operand. Called once, before anybody sees the completion, on the context that
    /// ended it: the engine's, or that of an abort or a close. The cargo itself is given back or dropped later. Tickets end here, so that
    /// the next access need not wait until somebody polls.
    fn landed(&mut self, outcome: Result<(), Fault>) {
        let _ = outcome;
    }

    /// The descriptor has left its queue, under this number: to run, or to end unrun because it was aborted or closed over. For
    /// whoever keeps a record of when the engine works on what. Called at most once, before it lands, on the context that takes it
    /// up, outside of critical sections; a [`DescriptorQueue`](crate::DescriptorQueue) does. It must not wait for the engine.
    fn taken_up(&mut self, sequence: Sequence) {
        let _ = sequence;
    }

    /// [`landed`](Self::landed), of a descriptor that was [taken up](Self::taken_up) under this number: what an engine calls that
    /// tells of both. Implement `landed` alone, unless the number matters; then do there what is done here.
    fn landed_as(&mut self, sequence: Sequence, outcome: Result<(), Fault>) {
        let _ = sequence;
        self.landed(outcome);
    }
}

impl Cargo for () {}
impl<R: BackendRef, S: State> Cargo for SegmentMut<R, S> {}
impl<C: Cargo> Cargo for Option<C> {
    fn landed(&mut self, outcome: Result<(), Fault>) {
        if let Some(cargo) = self {
            cargo.landed(outcome);
        }
    }
    fn taken_up(&mut self, sequence: Sequence) {
        if let Some(cargo) = self {
            cargo.taken_up(sequence);
        }
    }
    fn landed_as(&mut self, sequence: Sequence, outcome: Result<(), Fault>) {
        if let Some(cargo) = self {
            cargo.landed_as(sequence, outcome);
        }
    }
}
impl<C: Cargo, const N: usize> Cargo for [C; N] {
    fn landed(&mut self, outcome: Result<(), Fault>) {
        for cargo in self {
            cargo.landed(outcome);
        }
    }
    fn taken_up(&mut self, sequence: Sequence) {
        for cargo in self {
            cargo.taken_up(sequence);
        }
    }
    fn landed_as(&mut self, sequence: Sequence, outcome: Result<(), Fault>) {
        for cargo in self {
            cargo.landed_as(sequence, outcome);
        }
    }
}
impl<A: Cargo, B: Cargo> Cargo for (A, B) {
    fn landed(&mut self, outcome: Result<(), Fault>) {
        self.0.landed(outcome);
        self.1.landed(outcome);
    }
    fn taken_up(&mut self, sequence: Sequence) {
        self.0.taken_up(sequence);
        self.1.taken_up(sequence);
    }
    fn landed_as(&mut self, sequence: Sequence, outcome: Result<(), Fault>) {
        self.0.landed_as(sequence, outcome);
        self.1.landed_as(sequence, outcome);
    }
}

/// A finished descriptor: its cargo, with the fault if it had one.
pub type Completion<C> = Result<C, Returned<C, Fault>>;

/// Runs descriptors.
///
/// # Safety
/// * The engine touches exactly the operands of a descriptor, each as its access says, between
///   `submit` and the cargo's `landed`, and nothing after.
/// * It keeps the cargo until then, whatever happens to the caller.
/// * It touches nothing of a descriptor that [`submit`](Self::submit) refuses; and of one through whose `submit` a panic goes,
///   nothing any more when it does: it was not taken, or has landed.
/// * [`poll`](Self::poll) answers `Ready` for a submission only when its cargo has landed, also if it was detached.
/// * Descriptors run one at a time, in the order of submission, and no other engine has its [`stream`](Self::stream).
pub unsafe trait Engine {
    /// How its queue is protected, and how waits for it sleep.
    type Policy: SyncPolicy;
    /// What its descriptors keep alive.
    type Cargo: Cargo;

    /// The stream that its descriptors belong to.
    fn stream(&self) -> StreamId;

    /// What its hardware can address. Drivers cut operands by it (see [`Limits::split`]), and refuse those that cannot be cut
    /// with [`SubmitError::Limits`].
    fn limits(&self) -> Limits {
        Limits::NONE
    }

    /// Hands a descriptor over. Does not wait.
    ///
    /// # Safety
    /// Until `cargo` has landed every operand stays valid, its bytes initialised, and is accessed by nobody
    /// else in a way that conflicts with its access, descriptors of the same engine excepted. If the call unwinds (somebody
    /// else's kernel panicked on an inline engine), the descriptor may be running on another thread: what the cargo does not keep
    /// alive must outlive the engine. So let the cargo own the operands.
    ///
    /// # Errors
    /// The queue is full, the engine is closed, or it does not reach an operand; the cargo comes back.
    unsafe fn submit(
        &self,
        descriptor: Descriptor,
        cargo: Self::Cargo,
    ) -> Result<Sequence, Returned<Self::Cargo, SubmitError>>;

    /// Takes the completion of a submission, once. `None`: it was taken, detached, or never existed.
    /// While pending, `waker` is woken by the next completion of any submission.
    fn poll(
        &self,
        sequence: Sequence,
        waker: Option<&Waker>,
    ) -> Poll<Option<Completion<Self::Cargo>>>;

    /// Nobody will ask for this one: its slot is free as soon as it has landed and its cargo is dropped.
    fn detach(&self, sequence: Sequence);

    /// Takes a submission back that has not started; it completes with [`Fault::Aborted`]. One that runs or has
    /// finished is left alone.
    fn abort(&self, sequence: Sequence);

    /// Happens with every completion.
    fn completed(&self) -> &<Self::Policy as SyncPolicy>::Event;

    /// From the oldest to the newest submission that has not landed; `None`: all have, also those that nobody has asked for
    /// yet. What lies between may have landed, if it was aborted. One that is [detached](Self::detach) counts until its cargo is
    /// dropped, because that is when its segments are free. See [`EngineExt::drain`](crate::EngineExt::drain).
    ///
    /// An engine that works when it is polled works here, too.
    fn outstanding(&self) -> Option<RangeInclusive<Sequence>>;

    /// Whether the engine cannot go on before its caller returns: a kernel that the engine runs on this very stack, or a cargo
    /// that lands or is dropped on it. The waits of [`EngineExt`](crate::EngineExt) ask before they sleep, and answer
    /// [`Unfinished::WouldDeadlock`](crate::Unfinished::WouldDeadlock).
    ///
    /// As provided, `false`: nothing of it runs on anybody's stack, or it cannot tell. Such an engine must not be waited for from
    /// inside.
    fn is_inside(&self) -> bool {
        false
    }
}

macro_rules! pass_on {
    ($(#[$attribute:meta])* $reference:ty) => {
        $(#[$attribute])*
        // SAFETY: the engine behind the reference keeps the laws.
        unsafe impl<E: Engine + ?Sized> Engine for $reference {
    type Policy = E::Policy;
    type Cargo = E::Cargo;
    fn stream(&self) -> StreamId {
        (**self).stream()
    }
    fn limits(&self) -> Limits {
        (**self).limits()
    }
    unsafe fn submit(
        &self,
        descriptor: Descriptor,
        cargo: E::Cargo,
    ) -> Result<Sequence, Returned<E::Cargo, SubmitError>> {
        // SAFETY: as the caller promises.
        unsafe { (**self).submit(descriptor, cargo) }
    }
    fn poll(
        &self,
        sequence: Sequence,
        waker: Option<&Waker>,
    ) -> Poll<Option<Completion<E::Cargo>>> {
        (**self).poll(sequence, waker)
    }
    fn detach(&self, sequence: Sequence) {
        (**self).detach(sequence);
    }
    fn abort(&self, sequence: Sequence) {
        (**self).abort(sequence);
    }
    fn completed(&self) -> &<E::Policy as SyncPolicy>::Event {
        (**self).completed()
    }
    fn outstanding(&self) -> Option<RangeInclusive<Sequence>> {
        (**self).outstanding()
    }
    fn is_inside(&self) -> bool {
        (**self).is_inside()
    }
}
    };
}
pass_on!(&E);
pass_on!(
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    alloc::sync::Arc<E>
);

/// Why a descriptor was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SubmitError {
    /// Every slot is in use: in flight, or finished and not yet polled.
    QueueFull {
        /// Slots there are.
        slots: usize,
    },
    /// The engine was closed.
    Closed,
    /// The engine does not reach this operand.
    Unreachable {
        /// Its index.
        operand: usize,
    },
    /// This operand is on a memory channel that the engine does not reach: another device's, or one of its own that is not
    /// wired to this queue.
    WrongChannel {
        /// Its index.
        operand: usize,
        /// Where it is.
        channel: ChannelId,
        /// The first channel that the engine does reach, if there is one.
        reached: Option<ChannelId>,
    },
    /// The engine's limits do not admit this operand.
    Limits {
        /// Its index.
        operand: usize,
        /// What it cannot do.
        error: SplitError,
    },
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QueueFull { slots } => write!(f, "all {slots} slots of the queue are in use"),
            Self::Closed => f.write_str("the engine is closed"),
            Self::Unreachable { operand } => {
                write!(
                    f,
                    "operand {operand} is in memory that the engine does not reach"
                )
            }
            Self::WrongChannel {
                operand,
                channel,
                reached,
            } => {
                write!(f, "operand {operand} is on {channel}, the engine reaches ")?;
                match reached {
                    Some(reached) => reached.fmt(f),
                    None => f.write_str("none"),
                }
            }
            Self::Limits { operand, error } => write!(f, "operand {operand}: {error}"),
        }
    }
}

impl core::error::Error for SubmitError {}

/// Why a descriptor that was taken did not run to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Fault {
    /// The kernel gave up. What it wrote so far stays written.
    Kernel(KernelFault),
    /// The kernel panicked. What it wrote so far stays written.
    Panicked,
    /// The engine did not reach this operand (a bus error, on hardware).
    Unreachable {
        /// Its index.
        operand: usize,
    },
    /// It was taken back before it started; nothing was written.
    Aborted,
    /// The engine was closed before it started; nothing was written.
    Closed,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(fault) => fault.fmt(f),
            Self::Panicked => f.write_str("the kernel panicked"),
            Self::Unreachable { operand } => {
                write!(
                    f,
                    "operand {operand} is in memory that the engine does not reach"
                )
            }
            Self::Aborted => f.write_str("aborted before it started"),
            Self::Closed => f.write_str("the engine was closed before it started"),
        }
    }
}

impl core::error::Error for Fault {}
