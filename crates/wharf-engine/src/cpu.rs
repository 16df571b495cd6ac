//! The CPU as an engine.
//!
//! Invariant: [`run_on_host`] is called only with the descriptor of a [`Job`](crate::Job), or of a submission under way.
#![allow(unsafe_code, reason = "turns operands into slices")]

use core::fmt;
use core::ops::RangeInclusive;
use core::task::{Poll, Waker};

use heapless::Vec;
use wharf_backend::{Place, Returned};
use wharf_sync::{ConstInit, Event, SyncPolicy};

#[cfg(any(target_has_atomic = "32", feature = "critical-section"))]
use crate::TooManyStreams;
use crate::{
    Access, Cargo, Command, Completion, Descriptor, DescriptorQueue, Engine, Fault, Lent,
    MAX_OPERANDS, QueueState, Sequence, Stream, StreamCell, StreamId, SubmitError,
};

/// Runs descriptors inline, on the context that submits: no thread, no heap, no hardware.
///
/// While a kernel runs, an interrupt (or another thread) may submit as well; its descriptor is queued and
/// run by whoever is running, when the present one is done.
///
/// Reaches host memory only.
///
/// For a `static` see [`StaticCpuEngine`].
pub struct CpuEngine<P: SyncPolicy, C: Cargo, const SLOTS: usize = 8> {
    queue: DescriptorQueue<P, C, SLOTS>,
    /// Filled before anybody outside of this module sees the engine.
    stream: StreamCell<P>,
}

impl<P: SyncPolicy, C: Cargo, const SLOTS: usize> CpuEngine<P, C, SLOTS> {
    /// An engine that runs as `stream`.
    #[must_use]
    pub fn new(stream: Stream) -> Self {
        Self {
            queue: DescriptorQueue::new(),
            stream: StreamCell::holding(stream),
        }
    }

    /// Runs what is queued, unless somebody does already.
    fn drive(&self) {
        // Wakers, cargo and kernels may panic; whoever runs then leaves, and perhaps nobody comes after him.
        let leaving = Leaving { queue: &self.queue };
        while let Some(job) = self.queue.next() {
            // SAFETY: whoever submitted this job promised that its operands are valid and unshared
            // until it lands, which is after this call.
            let outcome = job.run(|descriptor| unsafe { run_on_host(descriptor) });
            job.finish(outcome);
        }
        core::mem::forget(leaving);
    }

    /// Slots in use: queued, running, or finished and not asked for.
    pub fn in_use(&self) -> usize {
        self.queue.in_use()
    }

    /// Slots whose work is not over: queued or running.
    pub fn in_flight(&self) -> usize {
        self.queue.in_flight()
    }
}

/// Somebody who runs the queue. Dropped only when he unwinds: what is queued then, and
/// nobody asks for, ends as aborted: nobody would run it. (What is asked for is run by the poll, or by the detaching.)
struct Leaving<'e, P: SyncPolicy, C: Cargo, const SLOTS: usize> {
    queue: &'e DescriptorQueue<P, C, SLOTS>,
}

impl<P: SyncPolicy, C: Cargo, const SLOTS: usize> Drop for Leaving<'_, P, C, SLOTS> {
    fn drop(&mut self) {
        self.queue.cancel(Fault::Aborted, |detached| detached);
    }
}

/// A [`CpuEngine`] for a `static`: a constant, all zero bytes, without start-up code.
///
/// A stream is claimed while the program runs, so the engine must be got out first; that is why nobody can submit to one
/// that has none.
///
/// ```
/// use wharf_engine::{Engine, StaticCpuEngine};
/// use wharf_sync::Blocking; // in firmware: `Critical`
///
/// static ENGINE: StaticCpuEngine<Blocking, (), 4> = StaticCpuEngine::new();
///
/// let engine = ENGINE.get()?;
/// assert!(engine.stream().get() > 0);
/// assert_eq!(ENGINE.get()?.stream(), engine.stream());
/// # Ok::<(), wharf_engine::TooManyStreams>(())
/// ```
#[derive(Debug)]
pub struct StaticCpuEngine<P: SyncPolicy, C: Cargo, const SLOTS: usize = 8>(CpuEngine<P, C, SLOTS>);

impl<P: SyncPolicy, C: Cargo, const SLOTS: usize> StaticCpuEngine<P, C, SLOTS> {
    /// An engine that has no stream yet.
    #[must_use]
    pub const fn new() -> Self
    where
        P::Lock<QueueState<C, SLOTS>>: ConstInit,
        P::Event: ConstInit,
        P::Word: ConstInit,
    {
        Self(CpuEngine {
            queue: DescriptorQueue::empty(),
            stream: StreamCell::empty(),
        })
    }

    /// The engine. The first call claims its stream.
    ///
    /// # Errors
    /// It has none, and all are claimed.
    #[cfg(any(target_has_atomic = "32", feature = "critical-section"))]
    pub fn get(&self) -> Result<&CpuEngine<P, C, SLOTS>, TooManyStreams> {
        self.0.stream.claim()?;
        Ok(&self.0)
    }

    /// The engine, as `stream` if it has none yet.
    pub fn get_as(&self, stream: Stream) -> &CpuEngine<P, C, SLOTS> {
        self.0.stream.put(stream);
        &self.0
    }
}

impl<P: SyncPolicy, C: Cargo, const SLOTS: usize> Default for StaticCpuEngine<P, C, SLOTS>
where
    P::Lock<QueueState<C, SLOTS>>: ConstInit,
    P::Event: ConstInit,
    P::Word: ConstInit,
{
    fn default() -> Self {
        Self::new()
    }
}

impl<P: SyncPolicy, C: Cargo, const SLOTS: usize> fmt::Debug for CpuEngine<P, C, SLOTS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CpuEngine")
            .field("stream", &self.stream.get())
            .field("queue", &self.queue)
            .finish()
    }
}

// SAFETY: operands are touched only by `run_on_host` while their job exists; the queue keeps the cargo
// until then, lets one job exist at a time and hands them out in order; the stream is claimed.
unsafe impl<P: SyncPolicy, C: Cargo, const SLOTS: usize> Engine for CpuEngine<P, C, SLOTS> {
    type Policy = P;
    type Cargo = C;

    fn stream(&self) -> StreamId {
        // There is one, by the invariant of the field.
        self.stream.get().unwrap_or(StreamId::LOWEST)
    }

    unsafe fn submit(
        &self,
        descriptor: Descriptor,
        cargo: C,
    ) -> Result<Sequence, Returned<C, SubmitError>> {
        let is_device = |place: &Place| matches!(place, Place::Device(_));
        if let Some(operand) = descriptor
            .operands()
            .iter()
            .position(|operand| is_device(&operand.place))
        {
            return Err(Returned::new(SubmitError::Unreachable { operand }, cargo));
        }
        let sequence = self.queue.push(descriptor, cargo)?;
        let unknown = self.queue.withdrawn_on_unwind(sequence);
        self.drive();
        core::mem::forget(unknown);
        Ok(sequence)
    }

    fn poll(&self, sequence: Sequence, waker: Option<&Waker>) -> Poll<Option<Completion<C>>> {
        // For what was queued behind a kernel that panicked: whoever ran it has left.
        self.drive();
        let polled = self.queue.poll(sequence, None);
        match waker {
            Some(waker) if polled.is_pending() => {
                self.queue.completed().register(waker);
                // Again, for one that left before the waker was there.
                self.drive();
                self.queue.poll(sequence, None)
            }
            _ => polled,
        }
    }
    fn detach(&self, sequence: Sequence) {
        self.queue.detach(sequence);
        // Behind a kernel that panicked: nobody will poll it any more.
        self.drive();
    }
    fn abort(&self, sequence: Sequence) {
        self.queue.abort(sequence);
    }
    fn completed(&self) -> &P::Event {
        self.queue.completed()
    }
    fn outstanding(&self) -> Option<RangeInclusive<Sequence>> {
        // As in `poll`.
        self.drive();
        self.queue.outstanding()
    }
    fn is_inside(&self) -> bool {
        self.queue.is_inside()
    }
}

/// Carries a descriptor out with the CPU. For engines that run on one, here or on a thread of their own.
///
/// # Safety
/// Every operand is host memory, valid and initialised; those to be read are written by nobody, and those to
/// be written are accessed by nobody else, until the return.
///
/// # Errors
/// The kernel's fault, or the operand that is no host memory.
pub unsafe fn run_on_host(descriptor: &Descriptor) -> Result<(), Fault> {
    let mut lent = Vec::<Lent<'_>, MAX_OPERANDS>::new();
    for (index, operand) in descriptor.operands().iter().enumerate() {
        let Place::Host(base) = operand.place else {
            return Err(Fault::Unreachable { operand: index });
        };
        let (base, len) = (base.as_ptr(), operand.len);
        let bytes = match operand.access {
            // SAFETY: valid, initialised, and written by nobody, as the caller promises; a descriptor's
            // written operands overlap no other.
            Access::Read => Lent::Read(unsafe { core::slice::from_raw_parts(base, len) }),
            // SAFETY: valid, initialised and unshared, likewise.
            Access::Write => Lent::Write(unsafe { core::slice::from_raw_parts_mut(base, len) }),
        };
        // A descriptor has at most as many operands as the vector holds.
        let _ = lent.push(bytes);
    }
    match (descriptor.command(), lent.as_mut_slice()) {
        (Command::Kernel(kernel), operands) => kernel(operands).map_err(Fault::Kernel),
        (Command::Copy, [Lent::Read(from), Lent::Write(to)]) => {
            // Equal lengths: the descriptor checked.
            to.copy_from_slice(from);
            Ok(())
        }
        (Command::Fill(byte), [Lent::Write(to)]) => {
            to.fill(byte);
            Ok(())
        }
        // The descriptor checked the shape.
        _ => Ok(()),
    }
}
