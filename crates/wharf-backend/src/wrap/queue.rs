//! Who waits for memory, in the order in which they came.
//!
//! Invariants of a [`WaitQueue`]:
//! 1. a node is reached through `list` only inside its lock, and so are all its cells but `queue`, which is its owner's;
//! 2. a node is linked from [`stand`](WaitQueue::stand) to [`leave`](WaitQueue::leave). It is pinned, and its owner leaves
//!    before it is dropped; so a linked node is memory that is still there (also when its owner was forgotten). Until then
//!    the queue is there too: the owner, an `AllocAsync`, has it from its backend, which it keeps. The node knows which one it
//!    is, because [`Waits`](super::Waits) is a safe trait, and may name another each time;
//! 3. no waker is cloned, woken or dropped inside of the lock, and the event is notified outside of it.
#![allow(
    unsafe_code,
    reason = "links nodes by raw pointers; the invariants above"
)]

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomPinned;
use core::pin::Pin;
use core::ptr::NonNull;
use core::task::Waker;
use core::time::Duration;

use wharf_sync::{Clock, ConstInit, Epoch, Event, Lock, SyncPolicy, Wake};

/// The waiters of one backend: first come, first served. See [`Waits`](super::Waits).
///
/// It has room for any number of them, and needs no heap: a waiter brings its own place.
///
/// For most backends a [`Waitable`](super::Waitable) keeps one. A backend that many use past any wrapper (a device that hands out
/// its memory by `Arc`) keeps one itself, and is waited for by implementing [`Waits`](super::Waits):
/// * [`wake`](Self::wake) at the end of every `reclaim`, and when it is closed, outside of its own lock;
/// * in its census, [`untold`](Self::untold) is taken off `refused`, wrapping.
pub struct WaitQueue<P: SyncPolicy> {
    list: P::Lock<WaitList>,
    /// Happens when a *thread* is first, and may go on.
    thread: P::Event,
}

/// The part of a queue that its lock guards. Opaque; public because the bounds of a `const` queue name it.
#[derive(Debug)]
pub struct WaitList {
    first: Cell<Link>,
    last: Cell<Link>,
    /// Refusals that no caller was told of, because he waits on. Wraps: those that nobody counted come off it.
    untold: Cell<usize>,
}

type Link = Option<NonNull<Node>>;

// SAFETY: invariants 1 and 2: whoever has the list has the only way to the nodes' shared cells, and what is in them
// (links and wakers) may be touched by any thread.
unsafe impl Send for WaitList {}

impl ConstInit for WaitList {
    const INIT: Self = Self {
        first: Cell::new(None),
        last: Cell::new(None),
        untold: Cell::new(0),
    };
}

/// One waiter's place.
pub(super) struct Node {
    previous: Cell<Link>,
    next: Cell<Link>,
    waker: Cell<Option<Waker>>,
    /// Whether a thread sleeps here, and no task.
    thread: Cell<bool>,
    /// The queue that it is linked in: a `WaitQueue` of the owner's policy. For the owner alone.
    queue: Cell<Option<NonNull<()>>>,
    /// Others point here.
    _pinned: PhantomPinned,
}

// SAFETY: a node that is not linked is plain data; for one that is, see invariant 1: the owner, wherever it is, takes the lock.
unsafe impl Send for Node {}

impl Node {
    pub(super) const fn new() -> Self {
        Self {
            previous: Cell::new(None),
            next: Cell::new(None),
            waker: Cell::new(None),
            thread: Cell::new(false),
            queue: Cell::new(None),
            _pinned: PhantomPinned,
        }
    }

    pub(super) const fn is_linked(&self) -> bool {
        self.queue.get().is_some()
    }
}

/// Whom to wake, once the lock is left.
enum Next {
    Nobody,
    Thread,
    Task(Waker),
}

impl WaitList {
    /// # Safety
    /// `node` is pinned, not linked, and leaves before it is dropped.
    unsafe fn push(&self, node: NonNull<Node>) {
        let last = self.last.replace(Some(node));
        // SAFETY: both are linked from now on: invariants 1 and 2.
        unsafe {
            node.as_ref().previous.set(last);
            node.as_ref().next.set(None);
            match last {
                Some(last) => last.as_ref().next.set(Some(node)),
                None => self.first.set(Some(node)),
            }
        }
    }

    /// # Safety
    /// `node` is linked in this list.
    unsafe fn unlink(&self, node: NonNull<Node>) {
        // SAFETY: it and its neighbours are linked: invariants 1 and 2.
        unsafe {
            let (previous, next) = (node.as_ref().previous.take(), node.as_ref().next.take());
            match previous {
                Some(previous) => previous.as_ref().next.set(next),
                None => self.first.set(next),
            }
            match next {
                Some(next) => next.as_ref().previous.set(previous),
                None => self.last.set(previous),
            }
        }
    }

    /// Who is first and does not know yet that it is time to look.
    fn next(&self) -> Next {
        let Some(first) = self.first.get() else {
            return Next::Nobody;
        };
        // SAFETY: linked: invariants 1 and 2.
        let first = unsafe { first.as_ref() };
        if first.thread.get() {
            return Next::Thread;
        }
        first.waker.take().map_or(Next::Nobody, Next::Task)
    }
}

impl<P: SyncPolicy> WaitQueue<P> {
    /// Nobody waits. (For a `static`: `ConstInit::INIT`.)
    #[must_use]
    pub fn new() -> Self {
        Self {
            list: Lock::new(WaitList::INIT),
            thread: Event::new(),
        }
    }

    /// How many refusals were not told, because the caller waits on; to be taken off those that the backend has counted, by
    /// `wrapping_sub`: a refusal that is told and was not counted counts below zero.
    #[must_use]
    pub fn untold(&self) -> usize {
        self.list.with(|list| list.untold.get())
    }

    /// A refusal was counted that is not told.
    pub(super) fn hush(&self) {
        self.list
            .with(|list| list.untold.set(list.untold.get().wrapping_add(1)));
    }

    /// A refusal is told that was not counted.
    pub(super) fn tell(&self) {
        self.list
            .with(|list| list.untold.set(list.untold.get().wrapping_sub(1)));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.with(|list| list.first.get().is_none())
    }

    /// There may be memory: the first in the queue looks. One short section, and a waker may run: call it outside of your own
    /// locks. As safe in an interrupt handler as the policy and the waker are.
    pub fn wake(&self) {
        self.call(self.list.with(WaitList::next));
    }

    fn call(&self, next: Next) {
        match next {
            Next::Nobody => {}
            Next::Thread => self.thread.notify(),
            Next::Task(waker) => waker.wake(),
        }
    }

    /// Takes a place at the end, or keeps the one that `node` has, in whatever queue, to be woken there through `task`, or as a
    /// thread. Whether that is the first place: then look whether there is memory. (In this order: memory that comes after the
    /// look wakes.)
    pub(super) fn stand(&self, node: Pin<&Node>, task: Option<&Waker>) -> bool {
        let mut waker = task.cloned();
        let node = node.get_ref();
        let here = NonNull::from(node);
        let linked = node.queue.get();
        let queue = match linked {
            // SAFETY: invariant 2.
            Some(queue) => unsafe { queue.cast::<Self>().as_ref() },
            None => {
                node.queue.set(Some(NonNull::from(self).cast()));
                self
            }
        };
        let first = queue.list.with(|list| {
            if linked.is_none() {
                // SAFETY: pinned and not linked; the owner, an `AllocAsync`, leaves when it is dropped.
                unsafe { list.push(here) };
            }
            node.thread.set(waker.is_none());
            waker = node.waker.replace(waker.take());
            list.first.get() == Some(here)
        });
        drop(waker);
        first
    }

    /// Gives the place up, if `node` has one. If it was the first, whoever is first now looks: a wake may have been spent on this
    /// one, or it may have left some memory over.
    pub(super) fn leave(node: Pin<&Node>) {
        let Some(queue) = node.queue.take() else {
            return;
        };
        // SAFETY: invariant 2.
        let queue = unsafe { queue.cast::<Self>().as_ref() };
        let node = node.get_ref();
        let here = NonNull::from(node);
        let (waker, next) = queue.list.with(|list| {
            let was_first = list.first.get() == Some(here);
            // SAFETY: it was linked.
            unsafe { list.unlink(here) };
            let next = if was_first { list.next() } else { Next::Nobody };
            (node.waker.take(), next)
        });
        drop(waker);
        queue.call(next);
    }

    /// To be taken before a look; then [`sleep`](Self::sleep).
    pub(super) fn epoch(&self) -> Epoch {
        self.thread.epoch()
    }

    pub(super) fn sleep<C: Clock + ?Sized>(
        &self,
        seen: Epoch,
        clock: &C,
        deadline: Option<Duration>,
    ) -> Wake {
        self.thread.wait(seen, clock, deadline)
    }
}

impl<P: SyncPolicy> Default for WaitQueue<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: SyncPolicy> ConstInit for WaitQueue<P>
where
    P::Lock<WaitList>: ConstInit,
    P::Event: ConstInit,
{
    const INIT: Self = Self {
        list: ConstInit::INIT,
        thread: ConstInit::INIT,
    };
}

impl<P: SyncPolicy> fmt::Debug for WaitQueue<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitQueue")
            .field("waited_for", &!self.is_empty())
            .finish_non_exhaustive()
    }
}
