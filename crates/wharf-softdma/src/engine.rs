//! The device as an engine: what is taken, and how the worker carries it out.
//!
//! Invariants:
//! 1. the queue holds only descriptors whose operands lie in the arenas of channels that it reaches: `submit` refuses all others, as an IOMMU
//!    would;
//! 2. only [`serve`] takes jobs, on one thread per device, so one descriptor runs at a time; references to the
//!    arenas' bytes exist nowhere but in [`carry_out`], while its job exists.
#![allow(
    unsafe_code,
    reason = "implements the unsafe trait; lends operands to kernels"
)]

use core::task::{Poll, Waker};

use wharf_engine::{
    Cargo, Completion, Descriptor, DeviceAddress, Engine, Fault, MAX_OPERANDS, Operand, Place,
    Returned, Sequence, StreamId, SubmitError, run_on_host,
};
use wharf_sync::{Blocking, Event, NoClock, SyncPolicy};

use crate::SoftDma;
use crate::activity::{Tracked, contained};
use crate::device::Shared;
use crate::faults::Verdict;

/// The life of the worker: until the queue is closed and empty.
pub(crate) fn serve<C: Cargo, const SLOTS: usize>(shared: &Shared<C, SLOTS>) {
    let queue = &shared.queue;
    loop {
        // Sampled before the tests, so that what happens in between ends the wait.
        let seen = queue.submitted().epoch();
        let Some(job) = queue.next() else {
            // Nothing was queued, and once the queue is closed nothing more will be.
            if queue.is_closed() {
                return;
            }
            queue.submitted().wait(seen, &NoClock, None);
            continue;
        };
        let (outcome, signals) = match shared.faults.launch() {
            Verdict::Answer(fault) => (Err(fault), 1),
            Verdict::Run { signals } => {
                let outcome = contained(|| {
                    // SAFETY: whoever submitted this job promised that its operands are initialised and free of
                    // conflicting accesses until it lands, which is after this call; invariant 2 keeps the device's
                    // own descriptors apart.
                    unsafe { carry_out(shared, job.descriptor()) }
                });
                (outcome.unwrap_or(Err(Fault::Panicked)), signals)
            }
        };
        // A device that tells of one end several times: only the first finds something that runs.
        let mut running = Some(job);
        for _ in 0..signals {
            match running.take() {
                // Cargo cannot panic here: it is tracked. A waker can; the completion is out and the queue free by then, so
                // there is nothing to mend.
                Some(job) => drop(contained(|| job.finish(outcome))),
                None => shared.activity.spurious(),
            }
        }
    }
}

/// Carries a descriptor out with the CPU, on the channels' memory.
///
/// # Safety
/// Until the return the operands' bytes are initialised; those to be read are written by nobody, and those to be
/// written are accessed by nobody else.
unsafe fn carry_out<C: Cargo, const SLOTS: usize>(
    shared: &Shared<C, SLOTS>,
    descriptor: &Descriptor,
) -> Result<(), Fault> {
    const UNUSED: Operand = Operand::read(Place::Device(DeviceAddress::new(0)), 0);
    let operands = descriptor.operands();
    let mut here = [UNUSED; MAX_OPERANDS];
    for (operand, (here, there)) in here.iter_mut().zip(operands).enumerate() {
        // By invariant 1 all are there.
        let base = shared.locate(there).ok_or(Fault::Unreachable { operand })?;
        let place = Place::Host(base);
        *here = Operand { place, ..*there };
    }
    // Within a channel distances are as they were, and two channels have nothing in common: what did not overlap does not
    // overlap.
    let here = Descriptor::new(descriptor.command(), &here[..operands.len()])
        .map_err(|_| Fault::Unreachable { operand: 0 })?;
    // SAFETY: every place points to `len` bytes of an arena, which its channel keeps alive and initialised; the
    // rest as the caller promises.
    unsafe { run_on_host(&here) }
}

fn untracked<C: Cargo>(completion: Completion<Tracked<C>>) -> Completion<C> {
    completion
        .map(Tracked::into_inner)
        .map_err(|Returned { error, value }| Returned::new(error, value.into_inner()))
}

// SAFETY:
// * operands are touched by `carry_out` only, each as its access says, while the job exists, which lands afterwards;
// * the queue keeps the cargo until then. It is held by the worker, so it outlives the device while a job runs,
//   and it lands what never started;
// * invariant 2, and the queue hands jobs out in order; the stream stays claimed until device and worker are gone.
unsafe impl<C: Cargo + Send + 'static, const SLOTS: usize> Engine for SoftDma<C, SLOTS> {
    type Policy = Blocking;
    type Cargo = C;

    fn stream(&self) -> StreamId {
        self.shared.stream.id()
    }

    unsafe fn submit(
        &self,
        descriptor: Descriptor,
        cargo: C,
    ) -> Result<Sequence, Returned<C, SubmitError>> {
        for (index, operand) in descriptor.operands().iter().enumerate() {
            if self.shared.locate(operand).is_none() {
                return Err(Returned::new(
                    self.shared.unreachable(index, operand),
                    cargo,
                ));
            }
        }
        let cargo = Tracked::new(cargo, &self.shared.activity);
        self.shared
            .queue
            .push(descriptor, cargo)
            .map_err(|Returned { error, value }| Returned::new(error, value.into_inner()))
    }

    fn poll(&self, sequence: Sequence, waker: Option<&Waker>) -> Poll<Option<Completion<C>>> {
        let completion = self.shared.queue.poll(sequence, waker);
        completion.map(|completion| completion.map(untracked))
    }

    fn detach(&self, sequence: Sequence) {
        self.shared.queue.detach(sequence);
    }

    fn abort(&self, sequence: Sequence) {
        self.shared.queue.abort(sequence);
    }

    fn outstanding(&self) -> Option<core::ops::RangeInclusive<Sequence>> {
        self.shared.queue.outstanding()
    }

    /// Also for wakers on the device's own thread.
    fn is_inside(&self) -> bool {
        self.is_worker() || self.shared.queue.is_inside()
    }

    fn completed(&self) -> &<Blocking as SyncPolicy>::Event {
        self.shared.queue.completed()
    }
}
