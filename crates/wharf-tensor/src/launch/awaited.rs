//! The launch that is awaited.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker, ready};

use wharf_engine::{Command, Engine};

use super::{Launch, Prepared, Submission};
use crate::tickets::{Acquiring, Beside};
use crate::{LaunchError, Target, Tickets, Use};

/// A launch that waits for its operands: see [`Launch::launch_when_ready`].
#[must_use = "a future does nothing until it is polled"]
pub struct Launching<'e, 'u, E: Engine<Cargo = Tickets<T>> + ?Sized, T: Target> {
    engine: &'e E,
    command: Command,
    tickets: Acquiring<'u, T>,
    done: bool,
}

impl<'e, 'u, E: Launch<T> + ?Sized, T: Target> Launching<'e, 'u, E, T> {
    pub(crate) fn new(
        engine: &'e E,
        command: Command,
        operands: &'u [Use<'u, T>],
        beside: Beside<'u, T>,
    ) -> Self {
        Self {
            engine,
            command,
            tickets: Acquiring::new(engine.stream(), operands, beside),
            done: false,
        }
    }

    fn attempt(&mut self, waker: &Waker) -> Poll<Result<Submission<'e, E, T>, LaunchError>> {
        let uses = self.tickets.uses();
        // First of all: it finds what no waiting mends.
        let prepared = Prepared::new(self.command, uses)?;
        let tickets = ready!(self.tickets.poll(waker))?;
        Poll::Ready(prepared.submit(self.engine, uses, tickets))
    }
}

impl<'e, E: Launch<T> + ?Sized, T: Target> Future for Launching<'e, '_, E, T> {
    type Output = Result<Submission<'e, E, T>, LaunchError>;

    /// # Panics
    /// Polled after it was ready.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(!self.done, "polled after it was ready");
        let polled = self.attempt(context.waker());
        self.done = polled.is_ready();
        polled
    }
}

impl<E: Launch<T> + ?Sized, T: Target> fmt::Debug for Launching<'_, '_, E, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launching")
            .field("tickets", &self.tickets)
            .finish_non_exhaustive()
    }
}
