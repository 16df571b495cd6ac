//! Faults on order, for tests of what uses a device.

use core::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use wharf_backend::TransferError;
use wharf_engine::Fault;

/// Makes a device fail: a handle, of which there may be as many as one likes.
///
/// Of each kind of call (launches, transfers, allocations) one can be ordered to go wrong at a time; an order replaces the one
/// before. Calls are counted from the order on, so the first is the next one; an order for the zeroth takes the one
/// before back. Without orders none of this costs a lock.
///
/// ```
/// use wharf_backend::{SegmentMut, TransferError};
/// use wharf_softdma::{Config, SoftDma};
///
/// let device = SoftDma::<()>::open(Config::new(4096))?;
/// let mut buffer = SegmentMut::alloc(device.channel(), 8)?.filled(0)?;
/// device.faults().fail_transfer(2);
/// assert_eq!(buffer.write(0, b"one"), Ok(()));
/// assert_eq!(buffer.write(0, b"two"), Err(TransferError::Injected { call: 2 }));
/// assert_eq!(buffer.write(0, b"six"), Ok(()));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Faults(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Whether there may be an order. Set before an order is given, so whoever is told of the order by any means sees it.
    armed: AtomicBool,
    plan: Mutex<Plan>,
    changed: Condvar,
}

#[derive(Default)]
struct Plan {
    launches: Order<Launch>,
    transfers: Order<Transfer>,
    allocations: Order<()>,
    launch_gate: Gate,
    transfer_gate: Gate,
    closed: bool,
}

/// What is to happen in the call that comes when `left` has come down to zero.
#[derive(Clone, Copy)]
struct Order<W> {
    wrong: Option<W>,
    calls: u64,
    left: u64,
}

impl<W> Default for Order<W> {
    fn default() -> Self {
        Self {
            wrong: None,
            calls: 0,
            left: 0,
        }
    }
}

impl<W: Copy> Order<W> {
    fn set(&mut self, nth: u64, wrong: W) {
        *self = Self {
            wrong: (nth > 0).then_some(wrong),
            calls: 0,
            left: nth,
        };
    }

    /// Counts a call. Its number and what is to go wrong, if this is the one.
    fn call(&mut self) -> Option<(u64, W)> {
        let wrong = self.wrong?;
        self.calls += 1;
        self.left -= 1;
        if self.left > 0 {
            return None;
        }
        self.wrong = None;
        Some((self.calls, wrong))
    }
}

#[derive(Clone, Copy)]
enum Launch {
    Fail(Fault),
    Stall,
    Twice,
    AfterClose,
}

#[derive(Clone, Copy)]
enum Transfer {
    Fail,
    Stall,
}

/// Where a call stalls.
#[derive(Default)]
struct Gate {
    /// Which stall it is for: an older one is over.
    stall: u64,
    reached: bool,
    open: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    Launch,
    Transfer,
}

impl Plan {
    const fn gate(&mut self, kind: Kind) -> &mut Gate {
        match kind {
            Kind::Launch => &mut self.launch_gate,
            Kind::Transfer => &mut self.transfer_gate,
        }
    }
}

/// What is to become of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Run it, and tell of its end so often.
    Run { signals: u32 },
    /// Do not run it; this is how it ended.
    Answer(Fault),
}

impl Faults {
    pub(crate) fn none() -> Self {
        Self(Arc::default())
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.0.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn order(&self, give: impl FnOnce(&mut Plan)) {
        // Release, so that a caller who sees it sees what its giver did before. The order itself is behind the lock.
        self.0.armed.store(true, Ordering::Release);
        give(&mut self.plan());
    }

    fn is_armed(&self) -> bool {
        self.0.armed.load(Ordering::Acquire)
    }

    /// The `nth` launch from now does not run, and ends with `fault`.
    pub fn fail_launch(&self, nth: u64, fault: Fault) {
        self.order(|plan| plan.launches.set(nth, Launch::Fail(fault)));
    }

    /// The `nth` launch from now runs once and tells of its end twice. The second time is ignored and counted
    /// ([`Stats::spurious`](crate::Stats::spurious)).
    pub fn complete_twice(&self, nth: u64) {
        self.order(|plan| plan.launches.set(nth, Launch::Twice));
    }

    /// As [`stall_launch`](Self::stall_launch), but if the device is closed first, the launch runs then, to its own end: one
    /// that completes after the close.
    pub fn complete_after_close(&self, nth: u64) -> Stall {
        self.stall(Kind::Launch, nth, |plan| {
            plan.launches.set(nth, Launch::AfterClose);
        })
    }

    /// The `nth` transfer from now, on whatever channel, moves nothing and ends with
    /// [`TransferError::Injected`].
    pub fn fail_transfer(&self, nth: u64) {
        self.order(|plan| plan.transfers.set(nth, Transfer::Fail));
    }

    /// The `nth` allocation from now, on whatever channel, is refused with
    /// [`AllocError::Injected`](wharf_backend::AllocError::Injected).
    pub fn fail_alloc(&self, nth: u64) {
        self.order(|plan| plan.allocations.set(nth, ()));
    }

    /// The `nth` launch from now stalls before it touches anything, until the [`Stall`] is released. If the device is closed
    /// first, it ends with [`Fault::Closed`].
    pub fn stall_launch(&self, nth: u64) -> Stall {
        self.stall(Kind::Launch, nth, |plan| {
            plan.launches.set(nth, Launch::Stall);
        })
    }

    /// The `nth` transfer from now stalls before it moves anything, until the [`Stall`] is released. If the device is closed
    /// first, it ends with [`TransferError::Closed`].
    pub fn stall_transfer(&self, nth: u64) -> Stall {
        self.stall(Kind::Transfer, nth, |plan| {
            plan.transfers.set(nth, Transfer::Stall);
        })
    }

    fn stall(&self, kind: Kind, nth: u64, give: impl FnOnce(&mut Plan)) -> Stall {
        let mut stall = 0;
        self.order(|plan| {
            let gate = plan.gate(kind);
            *gate = Gate {
                stall: gate.stall + 1,
                reached: false,
                open: false,
            };
            // The zeroth is none: nothing stands for it.
            stall = if nth > 0 { gate.stall } else { 0 };
            give(plan);
        });
        // Whoever stands at the gate of the stall before goes on.
        self.0.changed.notify_all();
        Stall {
            faults: self.clone(),
            kind,
            stall,
        }
    }

    /// Whether there are orders that nothing has met yet.
    #[must_use]
    pub fn are_due(&self) -> bool {
        let plan = self.plan();
        plan.launches.wrong.is_some()
            || plan.transfers.wrong.is_some()
            || plan.allocations.wrong.is_some()
    }

    /// Nothing stalls and nothing is held any more.
    pub(crate) fn close(&self) {
        self.plan().closed = true;
        self.0.changed.notify_all();
    }

    /// Stands at the gate. `false`: the device was closed.
    fn pass(&self, kind: Kind, mut plan: MutexGuard<'_, Plan>) -> bool {
        let gate = plan.gate(kind);
        gate.reached = true;
        let stall = gate.stall;
        self.0.changed.notify_all();
        loop {
            let gate = plan.gate(kind);
            if gate.stall != stall || gate.open {
                return true;
            }
            if plan.closed {
                return false;
            }
            plan = self
                .0
                .changed
                .wait(plan)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A launch is about to start. Waits for as long as it is to stall.
    pub(crate) fn launch(&self) -> Verdict {
        const RUN: Verdict = Verdict::Run { signals: 1 };
        if !self.is_armed() {
            return RUN;
        }
        let mut plan = self.plan();
        match plan.launches.call() {
            None => RUN,
            Some((_, Launch::Fail(fault))) => Verdict::Answer(fault),
            Some((_, Launch::Twice)) => Verdict::Run { signals: 2 },
            Some((_, Launch::Stall)) => {
                if self.pass(Kind::Launch, plan) {
                    RUN
                } else {
                    Verdict::Answer(Fault::Closed)
                }
            }
            Some((_, Launch::AfterClose)) => {
                self.pass(Kind::Launch, plan);
                RUN
            }
        }
    }

    /// A transfer is about to start. Waits for as long as it is to stall.
    pub(crate) fn transfer(&self) -> Result<(), TransferError> {
        if !self.is_armed() {
            return Ok(());
        }
        let mut plan = self.plan();
        match plan.transfers.call() {
            None => Ok(()),
            Some((call, Transfer::Fail)) => Err(TransferError::Injected { call }),
            Some((_, Transfer::Stall)) => self
                .pass(Kind::Transfer, plan)
                .then_some(())
                .ok_or(TransferError::Closed),
        }
    }

    /// An allocation is about to start. Its number, if it is to be refused.
    pub(crate) fn alloc(&self) -> Option<u64> {
        if !self.is_armed() {
            return None;
        }
        self.plan().allocations.call().map(|(call, ())| call)
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults")
            .field("are_due", &self.are_due())
            .finish()
    }
}

/// A call that stalls, until this is released or dropped.
#[must_use = "dropping it releases what it stalls"]
pub struct Stall {
    faults: Faults,
    kind: Kind,
    stall: u64,
}

impl Stall {
    /// Blocks until the call stalls. `false`: it never will, because the device was closed, another stall was ordered, or this one
    /// is of the zeroth call, which is none.
    pub fn wait_reached(&self) -> bool {
        let mut plan = self.faults.plan();
        loop {
            let closed = plan.closed;
            let gate = plan.gate(self.kind);
            if gate.stall != self.stall {
                return false;
            }
            if gate.reached || closed {
                return gate.reached;
            }
            let changed = &self.faults.0.changed;
            plan = changed.wait(plan).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets the call go on.
    pub fn release(self) {}
}

impl Drop for Stall {
    fn drop(&mut self) {
        let mut plan = self.faults.plan();
        let gate = plan.gate(self.kind);
        if gate.stall == self.stall {
            gate.open = true;
        }
        drop(plan);
        self.faults.0.changed.notify_all();
    }
}

impl fmt::Debug for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stall").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_from_the_order() {
        let faults = Faults::none();
        assert_eq!(faults.alloc(), None);
        faults.fail_alloc(3);
        assert_eq!(
            [(); 4].map(|()| faults.alloc()),
            [None, None, Some(3), None]
        );
        faults.fail_alloc(1);
        faults.fail_alloc(0);
        assert!(!faults.are_due());
        assert_eq!(faults.alloc(), None);
        faults.fail_alloc(1);
        assert_eq!([(); 2].map(|()| faults.alloc()), [Some(1), None]);
    }

    #[test]
    fn a_released_stall_stops_nobody() {
        let faults = Faults::none();
        faults.stall_transfer(1).release();
        assert_eq!(faults.transfer(), Ok(()));
        // One that was ordered later takes the gate, and the older one's release does not open it.
        let older = faults.stall_launch(1);
        let newer = faults.stall_launch(1);
        assert!(!older.wait_reached());
        drop(older);
        faults.close();
        assert_eq!(faults.launch(), Verdict::Answer(Fault::Closed));
        assert!(newer.wait_reached());
    }
}
