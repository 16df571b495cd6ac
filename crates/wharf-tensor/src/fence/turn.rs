//! Waiting for a fence. A thread and a task wait for the same marks in the same word; they differ in how they sleep.

use core::task::{Poll, Waker};
use core::time::Duration;

use wharf_sync::{Clock, Event, NoClock, SyncPolicy, Wake, Word};

use super::{Claim, Fence, PENDING, Refusal, WAITERS};

/// Somebody's turn at a fence: to come, or had. Dropped before it was had, whatever the reason, it gives its place up.
///
/// Forgotten, a writer keeps its place: newcomers queue behind it for ever. Nothing dangles.
pub(crate) struct Turn<'f, P: SyncPolicy> {
    fence: &'f Fence<P>,
    claim: Claim,
    /// This is one of the pending writers that the word counts.
    counted: bool,
}

impl<'f, P: SyncPolicy> Turn<'f, P> {
    pub(crate) const fn new(fence: &'f Fence<P>, claim: Claim) -> Self {
        Self {
            fence,
            claim,
            counted: false,
        }
    }

    /// Blocks until the claim is granted, or cannot be. What `blocks` makes when the first sleep begins is given back, to
    /// be dropped when the caller has seen to what was granted.
    pub(crate) fn wait<C: Clock + ?Sized, S>(
        mut self,
        clock: &C,
        deadline: Option<Duration>,
        blocks: impl FnOnce() -> S,
    ) -> (Result<(), Refusal>, Option<S>) {
        let event = &self.fence.event;
        let (mut blocks, mut blocked) = (Some(blocks), None);
        let outcome = loop {
            // Sampled before the word is tested: an access that ends in between moves it on.
            let seen = event.epoch();
            match self.take() {
                Err(Refusal::Held) => {}
                outcome => break outcome,
            }
            if let Some(begin) = blocks.take() {
                // Asks whether one can wait at all, and does not.
                match event.wait(seen, &NoClock, Some(Duration::ZERO)) {
                    Wake::TimedOut => blocked = Some(begin()),
                    Wake::Notified => {
                        blocks = Some(begin);
                        continue;
                    }
                    Wake::Never => break Err(Refusal::Never),
                }
            }
            match event.wait(seen, clock, deadline) {
                Wake::Notified => {}
                Wake::TimedOut => break Err(Refusal::TimedOut),
                Wake::Never => break Err(Refusal::Never),
            }
        };
        (outcome, blocked)
    }

    /// The claim granted, or not to be had; until then `waker` is woken whenever that may have changed.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Result<(), Refusal>> {
        let at_once = if self.counted {
            Err(Refusal::Held)
        } else {
            self.fence.try_begin(self.claim)
        };
        let outcome = match at_once {
            Err(Refusal::Held) => {
                // Before the word is marked: an access that ends right after finds the waker.
                self.fence.event.register(waker);
                self.take()
            }
            outcome => outcome,
        };
        match outcome {
            Err(Refusal::Held) => Poll::Pending,
            outcome => Poll::Ready(outcome),
        }
    }

    /// One update grants the claim, or marks that it is waited for.
    fn take(&mut self) -> Result<(), Refusal> {
        let (claim, counted) = (self.claim, self.counted);
        let step = |word| match claim.grant(word, counted) {
            Ok(granted) if counted => Some(granted - PENDING.one()),
            Ok(granted) => Some(granted),
            Err(Refusal::Held) if claim.writes() && !counted => {
                Some(PENDING.more(word).unwrap_or(word) | WAITERS)
            }
            Err(Refusal::Held) => Some(word | WAITERS),
            Err(_) => None,
        };
        // The word before the update tells which it was.
        let (Ok(before) | Err(before)) = self.fence.word.update(step);
        let outcome = claim.grant(before, counted).map(|_| ());
        match outcome {
            // The grant has taken the mark away.
            Ok(()) => self.counted = false,
            Err(Refusal::Held) => {
                self.counted |= claim.writes() && !PENDING.is_full(before);
            }
            Err(_) => {}
        }
        outcome
    }
}

impl<P: SyncPolicy> Drop for Turn<'_, P> {
    fn drop(&mut self) {
        if self.counted {
            self.fence.give_up();
        }
    }
}

impl<P: SyncPolicy> Fence<P> {
    /// A pending writer leaves, and whoever waits looks again: it may have been the one whose turn it was.
    #[cold]
    fn give_up(&self) {
        let leave = |word: u32| (word - PENDING.one()) & !WAITERS;
        // `Some` always, so the update never refuses.
        let (Ok(before) | Err(before)) = self.word.update(|word| Some(leave(word)));
        if before & WAITERS != 0 {
            self.event.notify();
        }
    }
}
