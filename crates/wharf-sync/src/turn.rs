//! An asynchronous waiter that never loses a wake.

use core::fmt;
use core::task::{Context, Poll};

use crate::{Event, WakerPlace};

/// Waits, in a task, for something that an event hands out one by one ([`Event::notify_one`]).
///
/// It queues for as long as it waits, and keeps the law of [`Event::notify_one`] when it is dropped: if a wake was
/// spent on it that it has not used, it passes the wake on.
///
/// ```
/// use core::cell::Cell;
/// use core::future::poll_fn;
/// use core::task::{Context, Poll, Waker};
/// use wharf_sync::{Event, Turn, UnsyncEvent};
///
/// let (free, freed) = (Cell::new(0_u32), UnsyncEvent::new());
/// let take = || free.get().checked_sub(1).map(|less| free.set(less));
///
/// let mut turn = Turn::new(&freed);
/// let mut context = Context::from_waker(Waker::noop());
/// assert!(turn.poll(&mut context, take).is_pending());
/// free.set(1);
/// freed.notify_one();
/// assert!(turn.poll(&mut context, take).is_ready());
///
/// // As a future:
/// let mut turn = Turn::new(&freed);
/// let future = poll_fn(move |context| turn.poll(context, take));
/// # drop(future);
/// ```
pub struct Turn<'e, E: Event> {
    event: &'e E,
    place: WakerPlace,
}

impl<'e, E: Event> Turn<'e, E> {
    /// A waiter on `event` that does not queue yet.
    pub const fn new(event: &'e E) -> Self {
        Self {
            event,
            place: WakerPlace::new(),
        }
    }

    /// Tries to `take` what it waits for; if there is none, queues, and has the task polled again when there
    /// may be. Once it is ready it may be used again.
    ///
    /// It does not stand behind others who wait: whoever tries at the right moment gets it.
    pub fn poll<T>(
        &mut self,
        context: &mut Context<'_>,
        mut take: impl FnMut() -> Option<T>,
    ) -> Poll<T> {
        // Who stands in the queue, or was taken out of it, does not just try: it could not tell afterwards
        // whether it was woken for what it got, or for something that came later and is nobody's now.
        let first = self.place.is_none().then(&mut take).flatten();
        let taken = first.or_else(|| {
            self.event.queue(&mut self.place, context.waker());
            // After queueing, for what came before the waker was there.
            take()
        });
        if taken.is_some() {
            self.leave();
        }
        taken.map_or(Poll::Pending, Poll::Ready)
    }

    /// Leaves the queue. If a wake was spent on it since it queued last, it passes the wake on.
    fn leave(&mut self) {
        if !self.event.withdraw(&mut self.place) {
            self.event.notify_one();
        }
    }
}

impl<E: Event> Drop for Turn<'_, E> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<E: Event> fmt::Debug for Turn<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}
