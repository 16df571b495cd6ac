//! The tickets of one operation, all of them or none.

use core::fmt;
use core::future::poll_fn;
use core::slice;
use core::task::{Poll, Waker, ready};
use core::time::Duration;

use heapless::Vec;
use wharf_engine::{Access, Cargo, DescriptorError, Fault, MAX_OPERANDS, Sequence, StreamId};
use wharf_source::BlockSource;
use wharf_sync::SyncPolicy;

use crate::identity::{IdentityRef, Keep};
use crate::io::FOREVER;
use crate::storage::Patience;
use crate::ticket::TicketTurn;
use crate::trace::{TraceDetail, TraceEvent, TraceKind, TracePhase, tell};
use crate::within::Limit;
use crate::{LaunchError, Target, Tensor, TensorError, Ticket};

/// The tickets of one launch: the cargo of an engine that serves tensors. They end when the engine lets
/// go, whether or not anybody asks for the completion.
///
/// If it went well, the [completion count](Tensor::completions) of each named output then rises by one, after the tickets have
/// ended and before the submission is complete. For that the cargo keeps the counts, which anonymous outputs do not have.
///
/// [`Launch`](crate::Launch) makes them. The driver of a device that is no [`Engine`](wharf_engine::Engine) takes them by
/// [`begin`](Self::begin), programs its hardware from them, and keeps them until the device is done: all operands or none,
/// without a heap, and whatever order two drivers name their tensors in, they do not wait for each other in a circle.
///
/// ```
/// # use wharf_backend::Heap;
/// # use wharf_source::HeapSource;
/// # use wharf_sync::Unsync;
/// use wharf_engine::Stream;
/// use wharf_tensor::{Parts, Tensor, TensorError, Tickets};
/// # use wharf_tensor::Access;
///
/// # type Sketch = Parts<Heap<Unsync>, HeapSource>;
/// # let target = Sketch::new(HeapSource);
/// let stream = Stream::claim()?; // the device's
/// let sent = Tensor::alloc(&target, Heap::new(), 4)?;
/// let received = Tensor::alloc(&target, Heap::new(), 4)?;
///
/// let tickets = Tickets::begin(stream.id(), &[sent.input(), received.output()])?;
/// for ticket in &tickets {
///     // Goes into the registers of the device: where its bytes are, how many, and which way they move.
///     let (place, len, access) = (ticket.place(), ticket.len(), ticket.access());
///     assert!(place.is_some() && len == 4);
/// #   let _: Access = access;
/// }
/// assert!(matches!(received.try_fill(0), Err(TensorError::WouldBlock { .. })));
///
/// // In the interrupt of the device: it is done. (Dropped instead, they end all the same, and nothing counts as completed.)
/// tickets.land(Ok(()));
/// received.try_fill(0)?;
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct Tickets<T: Target> {
    tickets: Vec<Ticket<T>, MAX_OPERANDS>,
    outputs: Vec<Keep<T::Policy, T::Source>, MAX_OPERANDS>,
}

impl<T: Target> Tickets<T> {
    /// A ticket for each of `uses`, on a device's stream, or none. Blocks as a [launch](crate::Launch::launch) does for its operands:
    /// for calls of the host and for devices of other streams, not for guards. While it waits for one it has none of the others.
    ///
    /// The [`Stream`](wharf_engine::Stream) of that number must be claimed for as long as tickets of it live; nobody checks that.
    /// Uses may overlap, also where one is written: in what order the device touches them is the driver's affair.
    /// A use waits behind a writer that waits, also behind one that waits for this very driver; so a driver does not begin with a tensor
    /// that it has begun with before, but ends that first (or asks with [`try_begin`](Self::try_begin)).
    ///
    /// # Errors
    /// [`LaunchError::Operand`] names the tensor that cannot be had; there are at most [`MAX_OPERANDS`].
    pub fn begin(stream: StreamId, uses: &[Use<'_, T>]) -> Result<Self, LaunchError> {
        Self::acquire(stream, uses, FOREVER, None)
    }

    /// [`begin`](Self::begin) without waiting.
    ///
    /// # Errors
    /// As there, and [`TensorError::WouldBlock`] of an operand.
    pub fn try_begin(stream: StreamId, uses: &[Use<'_, T>]) -> Result<Self, LaunchError> {
        Self::acquire(stream, uses, Patience::None, None)
    }

    /// [`begin`](Self::begin), waiting so long and no longer for all of them together, by the clock of the first one's [`Target`].
    ///
    /// # Errors
    /// As there, and [`TensorError::TimedOut`] or [`TensorError::NoClock`] of an operand.
    pub fn begin_within(
        limit: Duration,
        stream: StreamId,
        uses: &[Use<'_, T>],
    ) -> Result<Self, LaunchError> {
        Self::acquire(stream, uses, patience(uses, limit)?, None)
    }

    /// [`begin`](Self::begin), awaited. Suspended, it has no ticket, but a place in the queue of the tensor that it waits for; dropped
    /// at any poll, it leaves nothing behind.
    ///
    /// # Errors
    /// As there.
    pub async fn begin_when_ready(
        stream: StreamId,
        uses: &[Use<'_, T>],
    ) -> Result<Self, LaunchError> {
        let mut acquiring = Acquiring::new(stream, uses, None);
        poll_fn(|context| acquiring.poll(context.waker())).await
    }

    /// The device is done with all of them, and how it went: what an engine does with its cargo. Where it went well, the outputs that
    /// count their completions count one.
    ///
    /// May be called on any context on which a [`Ticket`] may be dropped, and never blocks.
    pub fn land(mut self, outcome: Result<(), Fault>) {
        self.landed(outcome);
    }

    /// The tickets, in the order of the uses. None are left once they have landed.
    pub fn iter(&self) -> slice::Iter<'_, Ticket<T>> {
        self.tickets.iter()
    }

    pub(crate) fn acquire(
        stream: StreamId,
        uses: &[Use<'_, T>],
        patience: Patience,
        beside: Beside<'_, T>,
    ) -> Result<Self, LaunchError> {
        let mut kept = None;
        loop {
            let collected = Self::collect(stream, uses, kept.take(), beside);
            match (collected, patience) {
                (Err((operand, TensorError::WouldBlock { .. })), Patience::Until(_)) => {
                    let Use { tensor, access } = uses[operand];
                    let ticket = tensor.ticket(access, stream, patience);
                    let failed = |error| LaunchError::Operand { operand, error };
                    kept = Some((operand, ticket.map_err(failed)?));
                }
                (Err((operand, error)), _) => return Err(LaunchError::Operand { operand, error }),
                (Ok(Some(tickets)), _) => return Ok(tickets),
                (Ok(None), _) => return Err(too_many(uses)),
            }
        }
    }

    /// A ticket for every operand, or none, and the operand that is not to be had; `None` where there are too many. Does not wait; who
    /// does, waits for that operand alone and comes back with its ticket: so launches with common operands cannot wait for each
    /// other in a circle.
    fn collect(
        stream: StreamId,
        uses: &[Use<'_, T>],
        mut kept: Option<(usize, Ticket<T>)>,
        beside: Beside<'_, T>,
    ) -> Result<Option<Self>, (usize, TensorError)> {
        let mut tickets = Vec::new();
        for (operand, one) in uses.iter().enumerate() {
            if tickets.is_full() {
                return Ok(None);
            }
            let ticket = match (kept.take_if(|(index, _)| *index == operand), beside) {
                (Some((_, ticket)), _) => Ok(ticket),
                (None, Some((index, held))) if index == operand => one.tensor.ticket_beside(held),
                (None, _) => one.tensor.ticket(one.access, stream, Patience::None),
            };
            let ticket = ticket.map_err(|error| (operand, error))?;
            // There is room.
            drop(tickets.push(ticket));
        }
        let outputs = uses.iter().filter(|one| one.access == Access::Write);
        let identities = outputs.filter_map(|one| one.tensor.identity());
        Ok(Some(Self {
            tickets,
            // No more than tickets.
            outputs: identities.map(IdentityRef::keep).collect(),
        }))
    }
}

/// An operand of whose storage the caller has a ticket already, for the same access on the same stream: that operand waits for
/// nobody, not even for who waits for the caller.
pub(crate) type Beside<'h, T> = Option<(usize, &'h Ticket<T>)>;

fn too_many<T: Target>(uses: &[Use<'_, T>]) -> LaunchError {
    LaunchError::Descriptor(DescriptorError::TooManyOperands {
        operands: uses.len(),
    })
}

/// Until when a call with these operands waits that has `limit` for all of them.
pub(crate) fn patience<T: Target>(
    uses: &[Use<'_, T>],
    limit: Duration,
) -> Result<Patience, LaunchError> {
    let failed = |error| LaunchError::Operand { operand: 0, error };
    match uses.first() {
        Some(first) => first.tensor.patience(Limit::In(limit)).map_err(failed),
        // Nothing to wait for.
        None => Ok(Patience::None),
    }
}

/// Tickets that a task waits for.
pub(crate) struct Acquiring<'u, T: Target> {
    stream: StreamId,
    uses: &'u [Use<'u, T>],
    beside: Beside<'u, T>,
    /// The operand that is waited for.
    waits: Option<(usize, TicketTurn<'u, T>)>,
}

impl<'u, T: Target> Acquiring<'u, T> {
    pub(crate) const fn new(
        stream: StreamId,
        uses: &'u [Use<'u, T>],
        beside: Beside<'u, T>,
    ) -> Self {
        Self {
            stream,
            uses,
            beside,
            waits: None,
        }
    }

    pub(crate) const fn uses(&self) -> &'u [Use<'u, T>] {
        self.uses
    }

    /// All of them, or why not.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Result<Tickets<T>, LaunchError>> {
        let mut kept = None;
        loop {
            if let Some((operand, turn)) = &mut self.waits {
                let operand = *operand;
                let granted = ready!(turn.poll(waker));
                self.waits = None;
                let failed = |error| LaunchError::Operand { operand, error };
                kept = Some((operand, granted.map_err(failed)?));
            }
            match Tickets::collect(self.stream, self.uses, kept.take(), self.beside) {
                Ok(tickets) => return Poll::Ready(tickets.ok_or_else(|| too_many(self.uses))),
                Err((operand, error)) => {
                    let failed = |error| LaunchError::Operand { operand, error };
                    if !matches!(error, TensorError::WouldBlock { .. }) {
                        return Poll::Ready(Err(failed(error)));
                    }
                    let Use { tensor, access } = self.uses[operand];
                    let turn = tensor.ticket_turn(access, self.stream).map_err(failed)?;
                    self.waits = Some((operand, turn));
                }
            }
        }
    }
}

impl<T: Target> fmt::Debug for Acquiring<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquiring")
            .field("uses", &self.uses)
            .field("waits", &self.waits.as_ref().map(|(operand, _)| operand))
            .finish_non_exhaustive()
    }
}

impl<'t, T: Target> IntoIterator for &'t Tickets<T> {
    type Item = &'t Ticket<T>;
    type IntoIter = slice::Iter<'t, Ticket<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: Target> Cargo for Tickets<T> {
    fn landed(&mut self, outcome: Result<(), Fault>) {
        let mut outputs = Outputs(&mut self.outputs, outcome.is_ok());
        // First: whoever waits for the count finds the bytes free.
        self.tickets.clear();
        outputs.complete();
    }

    fn taken_up(&mut self, sequence: Sequence) {
        self.tell(TracePhase::Start, sequence);
    }

    fn landed_as(&mut self, sequence: Sequence, outcome: Result<(), Fault>) {
        let lands = Lands(self, outcome);
        lands.0.tell(TracePhase::Stop, sequence);
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

impl<T: Target> Tickets<T> {
    /// That an engine works on their command, or no longer.
    fn tell(&self, phase: TracePhase, sequence: Sequence) {
        let Some(first) = self.tickets.first() else {
            return;
        };
        tell(first.traced().0, || {
            let bytes = self.tickets.iter().map(|ticket| ticket.traced().1 as u64);
            let bytes = bytes.fold(0, u64::saturating_add);
            TraceEvent::instant(TraceKind::Running, first.storage_id().get(), bytes)
                .with(TraceDetail::Launch {
                    stream: first.stream().get(),
                    sequence: sequence.get(),
                })
                .at(phase)
        });
    }
}

/// Tickets that land when this is dropped, also where a sink panics.
struct Lands<'c, T: Target>(&'c mut Tickets<T>, Result<(), Fault>);

impl<T: Target> Drop for Lands<'_, T> {
    fn drop(&mut self) {
        self.0.landed(self.1);
    }
}

impl<T: Target> fmt::Debug for Tickets<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.tickets).finish()
    }
}

/// A tensor, and what the command does with it.
pub struct Use<'t, T: Target> {
    pub(crate) tensor: &'t Tensor<T>,
    pub(crate) access: Access,
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
