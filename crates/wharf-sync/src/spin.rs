//! Spinning, by name, over the `spin` crate.
#![allow(
    unsafe_code,
    reason = "implements the unsafe traits; contains no unsafe operation"
)]

use ::spin::mutex::SpinMutex;

use crate::atomic::{AtomicCount, AtomicWord};
use crate::{ConstInit, IdleEvent, Lock, SyncPolicy, Who};

/// For memory that threads share in sections so short that putting a thread to sleep would cost more.
///
/// A thread that meets a held lock burns its time slice until the holder is done. Where the system may
/// preempt the holder, a waiter burns a whole slice for nothing: unless a measurement says otherwise,
/// take `Blocking`. Sections do not nest (entering a lock again inside itself spins for ever).
///
/// On bare metal it does not exist: there it is `SpinMulticore`, and has to be asked
/// for by that name.
///
/// It tells threads apart where the feature `std` is on ([`SyncPolicy::who`]).
#[cfg(not(target_os = "none"))]
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Spin {}
#[cfg(not(target_os = "none"))]
use Spin as Policy;

/// For memory that the cores of a microcontroller share, when no interrupt handler touches it.
///
/// The name is a promise: **more than one core, and nobody who uses this memory preempts another user
/// of it on the same core**. A core that spins on a lock which is held by what it preempted spins for
/// ever: the holder cannot run before the spinner returns. So it is never [`IsrSafe`](crate::IsrSafe), and on a single
/// core it is of no use at all: take `Critical`. Two tasks of a preemptive kernel on one core
/// are two such users; one executor per core that never preempts is the case that this is made for.
///
/// Against `Critical` it gains that the other core's interrupts are served while a section runs, and
/// that two cores in two different locks do not wait for each other. Sections do not nest.
///
/// It does not exist on cores without compare-and-swap: there every attempt on the lock would be a
/// critical section of its own, and a `Critical` lock is just one.
///
/// It cannot tell cores apart: their numbers are a matter of the chip. A policy of your own
/// that borrows everything else from this one can, in ten lines: see `docs/sync-policies.md`.
#[cfg(target_os = "none")]
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum SpinMulticore {}
#[cfg(target_os = "none")]
use SpinMulticore as Policy;

// SAFETY: a spin lock and atomics. Not `IsrSafe`.
unsafe impl SyncPolicy for Policy {
    type Lock<T> = SpinLock<T>;
    type Count = AtomicCount;
    type Word = AtomicWord;
    type Event = SpinEvent;
    #[cfg(not(target_os = "none"))]
    const NAME: &'static str = "Spin";
    #[cfg(target_os = "none")]
    const NAME: &'static str = "SpinMulticore";
    const NONBLOCKING: bool = true;
    fn who() -> Who {
        #[cfg(feature = "std")]
        return crate::who::thread();
        #[cfg(not(feature = "std"))]
        Who::SOLE
    }
}

/// The lock of `Spin` and `SpinMulticore`.
#[derive(Debug)]
pub struct SpinLock<T>(SpinMutex<T>);

// SAFETY: a mutex.
unsafe impl<T> Lock<T> for SpinLock<T> {
    fn new(value: T) -> Self {
        Self(SpinMutex::new(value))
    }
    #[inline]
    fn with<R>(&self, section: impl FnOnce(&T) -> R) -> R {
        section(&self.0.lock())
    }
    fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

impl<T: ConstInit> ConstInit for SpinLock<T> {
    const INIT: Self = Self(SpinMutex::new(T::INIT));
}

/// The event of `Spin` and `SpinMulticore`. A blocking wait runs the clock's idle hook until the event happens.
pub type SpinEvent = IdleEvent<Policy, 4>;
