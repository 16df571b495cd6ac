//! A bounded queue of descriptors, between those who submit and the one who runs.
//!
//! Foreign code (what a cargo is told, its `drop`, wakers) is never called inside the queue's lock.

use core::cell::Cell;
use core::fmt;
use core::ops::RangeInclusive;
use core::task::{Poll, Waker};

use wharf_backend::Returned;
use wharf_sync::{ConstInit, Event, Lock, NoClock, SyncPolicy, Wake, Who};

use crate::{Cargo, Completion, Descriptor, Fault, Sequence, SubmitError};

/// `SLOTS` descriptors in flight or waiting to be asked for.
///
/// Many may submit and poll; one at a time runs. A slot is taken from `submit` until its completion is polled or, if
/// detached, until it has landed and its cargo is dropped.
///
/// It lies in `.bss` as a `static`, and costs no start-up code:
///
/// ```
/// use wharf_engine::DescriptorQueue;
/// use wharf_sync::Unsync;
///
/// const QUEUE: DescriptorQueue<Unsync, (), 4> = DescriptorQueue::empty();
/// assert_eq!(QUEUE.in_use(), 0);
/// ```
pub struct DescriptorQueue<P: SyncPolicy, C: Cargo, const SLOTS: usize> {
    state: P::Lock<QueueState<C, SLOTS>>,
    completed: P::Event,
    submitted: P::Event,
}

/// The part of a queue that its lock guards. Opaque; public because the bounds of a `const` queue name it.
// Cells, because sections may nest. All zero bytes while nothing is queued, but for those without a meaning.
pub struct QueueState<C, const SLOTS: usize> {
    slots: [Slot<C>; SLOTS],
    last: Cell<u64>,
    running: Cell<bool>,
    closed: Cell<bool>,
}

struct Slot<C> {
    stage: Cell<Stage>,
    /// Whose stack is in foreign code of this slot: what its cargo is told, its kernel, the cargo's drop. It cannot wait for the
    /// slot. [`Who::SOLE`]: nobody, or a policy that cannot tell.
    inside: Cell<Who>,
    /// From [`Stage::Queued`] on, until somebody takes it to run.
    waiting: Held<(Descriptor, C)>,
    /// In [`Stage::Done`].
    done: Held<Completion<C>>,
}

/// Holds a value or nothing.
struct Held<T>(Cell<Perhaps<T>>);

/// An option that is zero bytes when it is empty: the numbers see to that, where a niche in `T` would not.
#[repr(u8)]
enum Perhaps<T> {
    Nothing = 0,
    Something(T) = 1,
}

impl<T> Held<T> {
    const fn nothing() -> Self {
        Self(Cell::new(Perhaps::Nothing))
    }

    fn set(&self, value: T) {
        self.0.set(Perhaps::Something(value));
    }

    fn take(&self) -> Option<T> {
        match self.0.replace(Perhaps::Nothing) {
            Perhaps::Nothing => None,
            Perhaps::Something(value) => Some(value),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Stage {
    Free = 0,
    Queued { sequence: u64, detached: bool } = 1,
    Running { sequence: u64, detached: bool } = 2,
    Done { sequence: u64 } = 3,
}

impl<C> Slot<C> {
    const fn free() -> Self {
        Self {
            stage: Cell::new(Stage::Free),
            inside: Cell::new(Who::SOLE),
            waiting: Held::nothing(),
            done: Held::nothing(),
        }
    }
}

impl<C, const SLOTS: usize> ConstInit for QueueState<C, SLOTS> {
    const INIT: Self = Self {
        slots: [const { Slot::free() }; SLOTS],
        last: Cell::new(0),
        running: Cell::new(false),
        closed: Cell::new(false),
    };
}

impl<C, const SLOTS: usize> fmt::Debug for QueueState<C, SLOTS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueState")
            .field("in_use", &self.in_use())
            .finish_non_exhaustive()
    }
}

impl<C, const SLOTS: usize> QueueState<C, SLOTS> {
    fn find(&self, wanted: Sequence) -> Option<&Slot<C>> {
        self.slots.iter().find(|slot| match slot.stage.get() {
            Stage::Free => false,
            Stage::Queued { sequence, .. }
            | Stage::Running { sequence, .. }
            | Stage::Done { sequence } => sequence == wanted.get(),
        })
    }

    fn in_use(&self) -> usize {
        let used = |slot: &&Slot<C>| slot.stage.get() != Stage::Free;
        self.slots.iter().filter(used).count()
    }

    fn in_flight(&self) -> usize {
        let flies = |slot: &&Slot<C>| {
            matches!(
                slot.stage.get(),
                Stage::Queued { .. } | Stage::Running { .. }
            )
        };
        self.slots.iter().filter(flies).count()
    }

    /// From the oldest to the newest that is queued, runs, or is being dropped.
    fn outstanding(&self) -> Option<RangeInclusive<Sequence>> {
        let flying = || {
            self.slots.iter().filter_map(|slot| match slot.stage.get() {
                Stage::Queued { sequence, .. } | Stage::Running { sequence, .. } => Some(sequence),
                Stage::Free | Stage::Done { .. } => None,
            })
        };
        let (oldest, newest) = flying().min().zip(flying().max())?;
        Some(Sequence::new(oldest)..=Sequence::new(newest))
    }

    /// The queued slot that was submitted first.
    fn first(&self) -> Option<(usize, &Slot<C>, u64, bool)> {
        self.first_of(|_| true)
    }

    /// The first of those queued slots of which `wanted`, told whether nobody will ask for them, says so.
    fn first_of(&self, wanted: impl Fn(bool) -> bool) -> Option<(usize, &Slot<C>, u64, bool)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(index, slot)| match slot.stage.get() {
                Stage::Queued { sequence, detached } if wanted(detached) => {
                    Some((index, slot, sequence, detached))
                }
                _ => None,
            })
            .min_by_key(|&(_, _, sequence, _)| sequence)
    }
}

impl<P: SyncPolicy, C: Cargo, const SLOTS: usize> DescriptorQueue<P, C, SLOTS> {
    /// An empty queue. Where a `const` is needed, see [`empty`](Self::empty).
    #[must_use]
    pub fn new() -> Self {
        const { assert!(SLOTS > 0, "a queue has at least one slot") };
        Self {
            state: Lock::new(ConstInit::INIT),
            completed: P::Event::new(),
            submitted: P::Event::new(),
        }
    }

    /// An empty queue, for a `static`.
    #[must_use]
    pub const fn empty() -> Self
    where
        P::Lock<QueueState<C, SLOTS>>: ConstInit,
        P::Event: ConstInit,
    {
        const { assert!(SLOTS > 0, "a queue has at least one slot") };
        Self {
            state: ConstInit::INIT,
            completed: ConstInit::INIT,
            submitted: ConstInit::INIT,
        }
    }

    /// Queues a descriptor. If a waker panics that is told of it, the descriptor is taken back before the panic goes on.
    ///
    /// # Errors
    /// Every slot is in use, or the queue is closed; the cargo comes back.
    pub fn push(
        &self,
        descriptor: Descriptor,
        cargo: C,
    ) -> Result<Sequence, Returned<C, SubmitError>> {
        let pushed = self.state.with(|state| {
            if state.closed.get() {
                return Err(Returned::new(SubmitError::Closed, cargo));
            }
            let free = |slot: &&Slot<C>| slot.stage.get() == Stage::Free;
            let Some(slot) = state.slots.iter().find(free) else {
                let full = SubmitError::QueueFull { slots: SLOTS };
                return Err(Returned::new(full, cargo));
            };
            let sequence = state.last.get() + 1;
            state.last.set(sequence);
            slot.waiting.set((descriptor, cargo));
            slot.stage.set(Stage::Queued {
                sequence,
                detached: false,
            });
            Ok(Sequence::new(sequence))
        });
        if let Ok(sequence) = pushed {
            let unknown = self.withdrawn_on_unwind(sequence);
            self.submitted.notify();
            core::mem::forget(unknown);
        }
        pushed
    }

    /// Guards a submission whose number its submitter does not know yet.
    pub(crate) const fn withdrawn_on_unwind(
        &self,
        sequence: Sequence,
    ) -> Withdraw<'_, P, C, SLOTS> {
        Withdraw {
            queue: self,
            sequence,
        }
    }

    /// Takes the next descriptor to run, unless another one is running: then whoever runs that takes the next.
    pub fn next(&self) -> Option<Job<'_, P, C, SLOTS>> {
        let here = P::who();
        let mut job = self.state.with(|state| {
            if state.running.get() {
                return None;
            }
            let (index, slot, sequence, detached) = state.first()?;
            let (descriptor, cargo) = slot.waiting.take()?;
            state.running.set(true);
            slot.stage.set(Stage::Running { sequence, detached });
            slot.inside.set(here);
            Some(Job {
                queue: self,
                index,
                sequence: Sequence::new(sequence),
                descriptor,
                cargo: Some(cargo),
            })
        })?;
        // Foreign code; if it panics the job lands as it unwinds.
        if let Some(cargo) = &mut job.cargo {
            cargo.taken_up(job.sequence);
        }
        // From here on the runner may be a device that needs nobody's stack: see `Job::run`.
        self.outside(job.index);
        Some(job)
    }

    /// See [`Engine::poll`](crate::Engine::poll).
    pub fn poll(&self, sequence: Sequence, waker: Option<&Waker>) -> Poll<Option<Completion<C>>> {
        let polled = self.take(sequence);
        match waker {
            Some(waker) if polled.is_pending() => {
                self.completed.register(waker);
                // Again, for a completion that came before the waker was there.
                self.take(sequence)
            }
            _ => polled,
        }
    }

    /// Takes a completion out, and tells those who wait for room.
    fn take(&self, sequence: Sequence) -> Poll<Option<Completion<C>>> {
        let (polled, was_full) = self.state.with(|state| {
            let Some(slot) = state.find(sequence) else {
                return (Poll::Ready(None), false);
            };
            let Stage::Done { .. } = slot.stage.get() else {
                return (Poll::Pending, false);
            };
            let was_full = state.in_use() == SLOTS;
            slot.stage.set(Stage::Free);
            (Poll::Ready(slot.done.take()), was_full)
        });
        if was_full {
            self.completed.notify();
        }
        polled
    }

    /// See [`Engine::detach`](crate::Engine::detach).
    pub fn detach(&self, sequence: Sequence) {
        let dropped = self.state.with(|state| {
            let slot = state.find(sequence)?;
            match slot.stage.get() {
                Stage::Free => None,
                Stage::Queued { sequence, .. } => {
                    slot.stage.set(Stage::Queued {
                        sequence,
                        detached: true,
                    });
                    None
                }
                Stage::Running { sequence, .. } => {
                    slot.stage.set(Stage::Running {
                        sequence,
                        detached: true,
                    });
                    None
                }
                Stage::Done { .. } => {
                    slot.stage.set(Stage::Free);
                    slot.done.take()
                }
            }
        });
        if let Some(completion) = dropped {
            drop(completion);
            self.completed.notify();
        }
    }

    /// See [`Engine::abort`](crate::Engine::abort).
    pub fn abort(&self, sequence: Sequence) {
        let taken = self.state.with(|state| {
            let slot = state.find(sequence)?;
            let Stage::Queued { sequence, detached } = slot.stage.get() else {
                return None;
            };
            let (_, cargo) = slot.waiting.take()?;
            // Marked as running while its cargo lands outside of the lock.
            slot.stage.set(Stage::Running { sequence, detached });
            let index = state
                .slots
                .iter()
                .position(|other| core::ptr::eq(other, slot))?;
            Some((index, cargo))
        });
        if let Some((index, cargo)) = taken {
            self.land((index, sequence), cargo, Err(Fault::Aborted), false);
        }
    }

    /// Takes no more, and completes what is queued with [`Fault::Closed`]. What runs, runs to its end.
    pub fn close(&self) {
        self.state.with(|state| state.closed.set(true));
        self.cancel(Fault::Closed, |_| true);
        self.submitted.notify();
        self.completed.notify();
    }

    /// Completes with `fault` what is queued, as far as it is `wanted`.
    pub(crate) fn cancel(&self, fault: Fault, wanted: impl Fn(bool) -> bool) {
        loop {
            let taken = self.state.with(|state| {
                let (index, slot, sequence, detached) = state.first_of(&wanted)?;
                let (_, cargo) = slot.waiting.take()?;
                slot.stage.set(Stage::Running { sequence, detached });
                Some(((index, Sequence::new(sequence)), cargo))
            });
            let Some((slot, cargo)) = taken else { break };
            self.land(slot, cargo, Err(fault), false);
        }
    }

    /// Whether [`close`](Self::close) was called.
    pub fn is_closed(&self) -> bool {
        self.state.with(|state| state.closed.get())
    }

    /// Slots in use: queued, running, or finished and not asked for.
    pub fn in_use(&self) -> usize {
        self.state.with(QueueState::in_use)
    }

    /// Slots whose work is not over: queued or running. The others of [`in_use`](Self::in_use) wait to be asked for.
    pub fn in_flight(&self) -> usize {
        self.state.with(QueueState::in_flight)
    }

    /// See [`Engine::is_inside`](crate::Engine::is_inside): whether the caller is in [`Job::run`], in what a cargo is told, or in
    /// the drop of a detached one. `false` under a policy whose [`who`](SyncPolicy::who) cannot tell.
    pub fn is_inside(&self) -> bool {
        let here = P::who();
        here != Who::SOLE
            && self.state.with(|state| {
                let mut slots = state.slots.iter();
                slots.any(|slot| slot.inside.get() == here)
            })
    }

    fn inside(&self, index: usize) {
        self.mark(index, P::who());
    }

    fn outside(&self, index: usize) {
        self.mark(index, Who::SOLE);
    }

    fn mark(&self, index: usize, who: Who) {
        self.state.with(|state| {
            if let Some(slot) = state.slots.get(index) {
                slot.inside.set(who);
            }
        });
    }

    /// See [`Engine::outstanding`](crate::Engine::outstanding). What is detached counts until its cargo is dropped.
    pub fn outstanding(&self) -> Option<RangeInclusive<Sequence>> {
        self.state.with(QueueState::outstanding)
    }

    /// Happens with every completion and whenever a full queue has room again.
    pub const fn completed(&self) -> &P::Event {
        &self.completed
    }

    /// Happens with every submission and when the queue is closed: what a runner waits for.
    pub const fn submitted(&self) -> &P::Event {
        &self.submitted
    }

    /// Completes the descriptor in slot `index`, which has this number. If it `ran`, the runner is free in the same step: whoever
    /// the completion wakes may run the next one, and perhaps nobody else will.
    fn land(
        &self,
        (index, sequence): (usize, Sequence),
        cargo: C,
        outcome: Result<(), Fault>,
        ran: bool,
    ) {
        self.inside(index);
        // What the cargo is told is foreign code and may panic.
        let slot = Landing {
            queue: self,
            index,
            ran,
        };
        // Behind the slot, so that a panic drops it first: a barrier that is passed finds no cargo.
        let mut cargo = cargo;
        if !ran {
            cargo.taken_up(sequence);
        }
        cargo.landed_as(sequence, outcome);
        core::mem::forget(slot);
        let completion = match outcome {
            Ok(()) => Ok(cargo),
            Err(fault) => Err(Returned::new(fault, cargo)),
        };
        let unwanted = self.state.with(|state| {
            if ran {
                state.running.set(false);
            }
            let slot = state.slots.get(index)?;
            match slot.stage.get() {
                Stage::Running {
                    sequence,
                    detached: false,
                } => {
                    slot.done.set(completion);
                    slot.stage.set(Stage::Done { sequence });
                    slot.inside.set(Who::SOLE);
                    None
                }
                // The slot stays taken until the cargo is gone: a barrier waits for that, too.
                _ => Some(completion),
            }
        });
        match unwanted {
            None => self.completed.notify(),
            Some(completion) => {
                // Frees the slot, also if the drop panics. The runner is free already, and may be another one's by now.
                let _slot = Landing {
                    queue: self,
                    index,
                    ran: false,
                };
                drop(completion);
            }
        }
    }
}

/// A submission whose number its submitter does not know yet. If a panic goes through `submit` it never will: nobody could
/// free the slot, and nobody could say when the operands are free again. So it is taken back, and if it runs already its end
/// is waited for.
pub(crate) struct Withdraw<'q, P: SyncPolicy, C: Cargo, const SLOTS: usize> {
    queue: &'q DescriptorQueue<P, C, SLOTS>,
    sequence: Sequence,
}

impl<P: SyncPolicy, C: Cargo, const SLOTS: usize> Drop for Withdraw<'_, P, C, SLOTS> {
    fn drop(&mut self) {
        let Self { queue, sequence } = *self;
        queue.abort(sequence);
        queue.detach(sequence);
        loop {
            let seen = queue.completed.epoch();
            // Pending while it runs, and nothing once it has landed.
            if queue.poll(sequence, None).is_ready() {
                return;
            }
            if queue.completed.wait(seen, &NoClock, None) == Wake::Never {
                // A second panic, which ends the program: whoever runs it is below us on this very stack, or never ends.
                panic!("a submission that runs cannot be taken back");
            }
        }
    }
}

/// A slot whose cargo is landing. Dropped when its cargo is gone: by a panic, or because it is detached. The slot and the runner are free then.
struct Landing<'q, P: SyncPolicy, C: Cargo, const SLOTS: usize> {
    queue: &'q DescriptorQueue<P, C, SLOTS>,
    index: usize,
    ran: bool,
}

impl<P: SyncPolicy, C: Cargo, const SLOTS: usize> Drop for Landing<'_, P, C, SLOTS> {
    fn drop(&mut self) {
        self.queue.state.with(|state| {
            if self.ran {
                state.running.set(false);
            }
            if let Some(slot) = state.slots.get(self.index) {
                slot.stage.set(Stage::Free);
                slot.inside.set(Who::SOLE);
            }
        });
        self.queue.completed.notify();
    }
}

impl<P: SyncPolicy, C: Cargo, const SLOTS: usize> Drop for DescriptorQueue<P, C, SLOTS> {
    /// Lands what never ran: a ticket in a cargo ends there and nowhere else.
    fn drop(&mut self) {
        self.close();
    }
}

impl<P: SyncPolicy, C: Cargo, const SLOTS: usize> Default for DescriptorQueue<P, C, SLOTS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: SyncPolicy, C: Cargo, const SLOTS: usize> fmt::Debug for DescriptorQueue<P, C, SLOTS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DescriptorQueue")
            .field("policy", &P::NAME)
            .field("slots", &SLOTS)
            .field("in_use", &self.in_use())
            .field("closed", &self.is_closed())
            .finish()
    }
}

/// The descriptor that runs. There is one at a time; dropping it unfinished (a kernel that panicked)
/// completes it with [`Fault::Panicked`].
pub struct Job<'q, P: SyncPolicy, C: Cargo, const SLOTS: usize> {
    queue: &'q DescriptorQueue<P, C, SLOTS>,
    index: usize,
    sequence: Sequence,
    descriptor: Descriptor,
    cargo: Option<C>,
}

impl<P: SyncPolicy, C: Cargo, const SLOTS: usize> Job<'_, P, C, SLOTS> {
    /// What to do.
    #[must_use]
    pub const fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Carries it out on the caller's stack. Until `kernel` returns or panics, a wait for the engine [from
    /// inside](crate::Engine::is_inside) is an error. Not needed where hardware carries it out.
    pub fn run<R>(&self, kernel: impl FnOnce(&Descriptor) -> R) -> R {
        let _running = Running(self);
        self.queue.inside(self.index);
        kernel(&self.descriptor)
    }

    /// It is done.
    pub fn finish(mut self, outcome: Result<(), Fault>) {
        self.complete(outcome);
    }

    fn complete(&mut self, outcome: Result<(), Fault>) {
        if let Some(cargo) = self.cargo.take() {
            let slot = (self.index, self.sequence);
            self.queue.land(slot, cargo, outcome, true);
        }
    }
}

/// A job whose kernel is on this stack.
struct Running<'j, 'q, P: SyncPolicy, C: Cargo, const SLOTS: usize>(&'j Job<'q, P, C, SLOTS>);

impl<P: SyncPolicy, C: Cargo, const SLOTS: usize> Drop for Running<'_, '_, P, C, SLOTS> {
    fn drop(&mut self) {
        self.0.queue.outside(self.0.index);
    }
}

impl<P: SyncPolicy, C: Cargo, const SLOTS: usize> Drop for Job<'_, P, C, SLOTS> {
    fn drop(&mut self) {
        self.complete(Err(Fault::Panicked));
    }
}

impl<P: SyncPolicy, C: Cargo, const SLOTS: usize> fmt::Debug for Job<'_, P, C, SLOTS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("descriptor", &self.descriptor)
            .finish_non_exhaustive()
    }
}
