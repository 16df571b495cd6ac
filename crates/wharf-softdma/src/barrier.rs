//! The barrier of a queue.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use wharf_engine::{Cargo, Sequence};
use wharf_sync::{Clock, Event, NoClock, Wake};

use crate::{SoftDma, WaitError};

/// A barrier: passed when everything that was submitted before it was made has landed. What is submitted later does not
/// hold it up.
///
/// Whoever has passed it finds completions to poll, sees the tickets of tensors released, and the cargo of what was
/// detached dropped. It can be polled, awaited, and waited for with or without a deadline; dropping it changes nothing.
///
/// ```
/// use wharf_engine::{Command, Descriptor, Engine};
/// use wharf_softdma::{Config, SoftDma};
///
/// let device = SoftDma::<()>::open(Config::new(4096))?;
/// let descriptor = Descriptor::new(Command::Kernel(|_| Ok(())), &[])?;
/// // SAFETY: no operands.
/// let sequence = unsafe { device.submit(descriptor, ()) }.map_err(|refused| refused.error)?;
/// device.barrier().wait()?;
/// assert!(device.poll(sequence, None).is_ready());
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[must_use = "a barrier waits for nothing until it is waited for or polled"]
pub struct Barrier<'d, C: Cargo + Send + 'static, const SLOTS: usize> {
    device: &'d SoftDma<C, SLOTS>,
    through: Sequence,
    /// Once all has landed: those calls that were under way then, which may not have shown it to pollers yet.
    calls: Option<u64>,
}

impl<'d, C: Cargo + Send + 'static, const SLOTS: usize> Barrier<'d, C, SLOTS> {
    pub(crate) fn new(device: &'d SoftDma<C, SLOTS>) -> Self {
        Self {
            device,
            through: device.shared.queue.last(),
            calls: None,
        }
    }

    /// The last submission that it stands behind.
    #[must_use]
    pub const fn sequence(&self) -> Sequence {
        self.through
    }

    fn is_passed(&mut self) -> bool {
        let shared = &self.device.shared;
        let calls = match self.calls {
            Some(calls) => calls,
            None if shared.queue.landed_through(self.through) => {
                *self.calls.insert(shared.activity.calls())
            }
            None => return false,
        };
        shared.activity.have_returned(calls)
    }

    /// Whether it is passed. If not, `waker` is woken when to ask again.
    pub fn poll(&mut self, waker: Option<&Waker>) -> Poll<()> {
        if self.is_passed() {
            return Poll::Ready(());
        }
        let Some(waker) = waker else {
            return Poll::Pending;
        };
        self.device.shared.activity.changed().register(waker);
        // Again, for what landed before the waker was there.
        if self.is_passed() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Blocks until it is passed.
    ///
    /// # Errors
    /// It would have to wait for its own caller.
    pub fn wait(self) -> Result<(), WaitError> {
        self.sleep(&NoClock, None)
    }

    /// Blocks until it is passed, or until `clock` passes `deadline`.
    ///
    /// # Errors
    /// The deadline passed first, or it would have to wait for its own caller.
    pub fn wait_until<K: Clock + ?Sized>(
        self,
        clock: &K,
        deadline: Duration,
    ) -> Result<(), WaitError> {
        self.sleep(clock, Some(deadline))
    }

    fn sleep<K: Clock + ?Sized>(
        mut self,
        clock: &K,
        deadline: Option<Duration>,
    ) -> Result<(), WaitError> {
        if self.device.is_inside() {
            return Err(WaitError::Inside);
        }
        loop {
            // Sampled before the test, so that what lands in between ends the wait.
            let changed = self.device.shared.activity.changed();
            let seen = changed.epoch();
            if self.is_passed() {
                return Ok(());
            }
            if changed.wait(seen, clock, deadline) == Wake::TimedOut {
                return Err(self.device.timed_out(self.through));
            }
        }
    }
}

impl<C: Cargo + Send + 'static, const SLOTS: usize> Future for Barrier<'_, C, SLOTS> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Self::poll(self.get_mut(), Some(context.waker()))
    }
}

impl<C: Cargo + Send + 'static, const SLOTS: usize> fmt::Debug for Barrier<'_, C, SLOTS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier")
            .field("through", &self.through)
            .finish_non_exhaustive()
    }
}
