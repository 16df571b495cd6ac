//! Waiting for memory, as a thread or as a task.
#![allow(
    unsafe_code,
    reason = "implements the unsafe traits by handing everything on"
)]

use core::fmt;
use core::future::Future;
use core::pin::{Pin, pin};
use core::ptr::NonNull;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use wharf_source::Census;
use wharf_sync::{Clock, ConstInit, SyncPolicy, Wake};

use super::hand_on::hand_on;
use super::queue::{Node, WaitList};
use super::{SelfContained, WaitQueue};
use crate::{AllocError, AllocHint, BackendRef, Header, MemBackend, SegmentMut, Uninit};

/// Why waiting for memory ended without any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum AllocWaitError {
    /// Waiting does not help: the segment is larger than any, the device is closed.
    Refused(AllocError),
    /// The deadline passed first.
    TimedOut {
        /// Bytes asked.
        requested: usize,
    },
    /// The policy knows no second context that could free anything. The wait would be for ever.
    WouldDeadlock {
        /// Bytes asked.
        requested: usize,
    },
}

impl fmt::Display for AllocWaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::TimedOut { requested } => {
                write!(f, "{requested} bytes were not free before the deadline")
            }
            Self::WouldDeadlock { requested } => write!(
                f,
                "{requested} bytes are not free, and nobody but the one who waits could free them"
            ),
        }
    }
}

impl core::error::Error for AllocWaitError {}

impl From<AllocError> for AllocWaitError {
    fn from(refusal: AllocError) -> Self {
        Self::Refused(refusal)
    }
}

/// A backend whose memory can be waited for: a [`Waitable`], a [`Share`](super::Share) of a quota, a device that keeps a
/// [`WaitQueue`] itself, and other wrappers around one of them.
///
/// Waited for is only what comes by waiting, memory that is in use ([`AllocError::may_pass`]). Every other refusal ends the
/// wait at once.
///
/// # Fairness
/// *First come, first served*, threads and tasks in one queue, any number of them. A drop wakes the first and no
/// other; who is served wakes the next, who finds out whether there is more. So none starves, a large segment is not overtaken
/// for ever by small ones, and nobody is woken in vain. The price: while the first asks for more than is free, those behind him
/// wait although there may be enough for them; and a task that is woken but not polled (or a future that is forgotten instead of
/// dropped) holds up those behind it.
///
/// An `alloc` does not queue, because it must not wait: it takes what it finds, also from under a waiter that was
/// just woken. That one keeps the first place.
///
/// Of *threads*, all that sleep in `alloc_wait` on this backend are woken when one of them is first and may look; the others
/// go back to sleep. Of tasks, only the first.
///
/// # Cancelling
/// A future may be dropped at any time. It leaves the queue, and if it was first, the next one looks at once: neither a wake nor
/// a segment is lost.
pub trait Waits: MemBackend {
    /// The waiters, always the same queue: of two, each would wake its own. For the code of this module.
    fn waiters(&self) -> &WaitQueue<Self::Policy>;

    /// A segment of `size` bytes, as soon as there is one. Blocks: not for interrupt handlers.
    ///
    /// # Errors
    /// Waiting does not help, the deadline passed first, or the wait could never end.
    fn alloc_wait<C: Clock + ?Sized>(
        &self,
        size: usize,
        clock: &C,
        deadline: Option<Duration>,
    ) -> Result<SegmentMut<&Self, Uninit>, AllocWaitError> {
        alloc_wait(self, size, AllocHint::NONE, clock, deadline)
    }

    /// A segment of `size` bytes, as soon as there is one.
    ///
    /// The future answers [`AllocError`] at once where waiting does not help. It takes its place in the queue when
    /// it is first polled and finds nothing.
    fn alloc_async(&self, size: usize) -> AllocAsync<&Self> {
        AllocAsync::new(self, size, AllocHint::NONE)
    }

    /// Has the first waiter look again, although nothing was freed: because a device was closed, say. Who finds that
    /// waiting does not help any more goes, and the next one looks.
    fn recheck(&self) {
        self.waiters().wake();
    }
}

/// One try. `None`: not yet.
fn attempt<R>(
    backend: &R,
    size: usize,
    hint: AllocHint,
) -> Result<Option<SegmentMut<R, Uninit>>, AllocError>
where
    R: BackendRef + Clone,
    R::Backend: Waits,
{
    match SegmentMut::alloc_with(backend.clone(), size, hint) {
        Ok(segment) => Ok(Some(segment)),
        Err(refusal) if refusal.may_pass() => {
            backend.backend().waiters().hush();
            Ok(None)
        }
        Err(refusal) => Err(refusal),
    }
}

/// [`Waits::alloc_wait`] for a counted or another reference, and with a hint.
///
/// # Errors
/// Waiting does not help, the deadline passed first, or the wait could never end.
pub fn alloc_wait<R, C>(
    backend: R,
    size: usize,
    hint: AllocHint,
    clock: &C,
    deadline: Option<Duration>,
) -> Result<SegmentMut<R, Uninit>, AllocWaitError>
where
    R: BackendRef + Clone,
    R::Backend: Waits,
    C: Clock + ?Sized,
{
    let sleeper = pin!(AllocAsync::new(backend, size, hint));
    let sleeper = sleeper.as_ref();
    let waiters = sleeper.backend.backend().waiters();
    loop {
        let seen = waiters.epoch();
        if let Some(answer) = sleeper.look(None) {
            return answer.map_err(AllocWaitError::from);
        }
        let requested = size;
        let error = match waiters.sleep(seen, clock, deadline) {
            Wake::Notified => continue,
            Wake::TimedOut => AllocWaitError::TimedOut { requested },
            Wake::Never => AllocWaitError::WouldDeadlock { requested },
        };
        waiters.tell();
        return Err(error);
    }
}

/// A segment that comes: what [`Waits::alloc_async`] makes.
#[must_use = "a future does nothing unless it is polled"]
pub struct AllocAsync<R>
where
    R: BackendRef + Clone,
    R::Backend: Waits,
{
    backend: R,
    size: usize,
    hint: AllocHint,
    node: Node,
}

impl<R> AllocAsync<R>
where
    R: BackendRef + Clone,
    R::Backend: Waits,
{
    /// For any reference to the backend, and with a hint.
    pub const fn new(backend: R, size: usize, hint: AllocHint) -> Self {
        Self {
            backend,
            size,
            hint,
            node: Node::new(),
        }
    }

    fn waiters(&self) -> &WaitQueue<R::Policy> {
        self.backend.backend().waiters()
    }

    fn node(self: Pin<&Self>) -> Pin<&Node> {
        // SAFETY: the node is pinned with the future: nothing moves it out, and `Drop` does not either.
        unsafe { self.map_unchecked(|this| &this.node) }
    }

    /// Looks whether it is its turn and there is memory; otherwise it stands in the queue, to be woken through `task`, or
    /// as a thread.
    fn look(
        self: Pin<&Self>,
        task: Option<&Waker>,
    ) -> Option<Result<SegmentMut<R, Uninit>, AllocError>> {
        let this = self.get_ref();
        let waiters = this.waiters();
        let attempt = || attempt(&this.backend, this.size, this.hint).transpose();
        // Nobody to stand behind: it need not stand at all.
        let at_once = if !this.node.is_linked() && waiters.is_empty() {
            attempt()
        } else {
            None
        };
        let answer = at_once.or_else(|| {
            let first = waiters.stand(self.node(), task);
            if first { attempt() } else { None }
        });
        if answer.is_some() {
            WaitQueue::<R::Policy>::leave(self.node());
        }
        answer
    }
}

impl<R> Future for AllocAsync<R>
where
    R: BackendRef + Clone,
    R::Backend: Waits,
{
    type Output = Result<SegmentMut<R, Uninit>, AllocError>;

    /// After it was ready, it asks for another segment.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = self.as_ref().look(Some(context.waker()));
        answer.map_or(Poll::Pending, Poll::Ready)
    }
}

impl<R> Drop for AllocAsync<R>
where
    R: BackendRef + Clone,
    R::Backend: Waits,
{
    fn drop(&mut self) {
        // SAFETY: it is not moved any more.
        let this = unsafe { Pin::new_unchecked(&*self) };
        WaitQueue::<R::Policy>::leave(this.node());
    }
}

impl<R> fmt::Debug for AllocAsync<R>
where
    R: BackendRef + Clone,
    R::Backend: Waits,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AllocAsync")
            .field("size", &self.size)
            .field("stands", &self.node.is_linked())
            .finish_non_exhaustive()
    }
}

/// A wrapper around a backend whose memory can be waited for: see [`Waits`], whose methods it has.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use wharf_backend::{BackendExt, StaticPool, Waitable};
/// use wharf_backend::wrap::Waits;
/// use wharf_sync::{Blocking, NoClock};
///
/// let frames = Waitable::new(StaticPool::<Blocking, 64, 1>::new());
/// let first = frames.alloc(64)?;
/// std::thread::scope(|scope| {
///     let waiter = scope.spawn(|| frames.alloc_wait(64, &NoClock, None).map(drop));
///     drop(first);
///     waiter.join().unwrap()
/// })?;
/// # }
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// It costs a second short section when a segment goes back, and nothing when one is vended.
///
/// Segments that are allocated from [`inner`](Self::inner) directly go back without a waiter being woken.
pub struct Waitable<B: SelfContained> {
    inner: B,
    waiters: WaitQueue<B::Policy>,
}

impl<B: SelfContained> Waitable<B> {
    /// Around `inner`.
    pub fn new(inner: B) -> Self {
        Self {
            inner,
            waiters: WaitQueue::new(),
        }
    }

    /// [`new`](Self::new) for a `static`.
    pub const fn new_const(inner: B) -> Self
    where
        <B::Policy as SyncPolicy>::Lock<WaitList>: ConstInit,
        <B::Policy as SyncPolicy>::Event: ConstInit,
    {
        Self {
            inner,
            waiters: ConstInit::INIT,
        }
    }

    /// What is inside.
    #[must_use]
    pub const fn inner(&self) -> &B {
        &self.inner
    }
}

impl<B: SelfContained> Waits for Waitable<B> {
    fn waiters(&self) -> &WaitQueue<B::Policy> {
        &self.waiters
    }
}

impl<B: SelfContained> fmt::Debug for Waitable<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waitable")
            .field("backend", &self.inner.name())
            .field("waiters", &self.waiters)
            .finish()
    }
}

// SAFETY: every header comes from `inner` and goes back to it, and the wrapper moves only with it.
unsafe impl<B: SelfContained> MemBackend for Waitable<B> {
    type Policy = B::Policy;

    hand_on! { [inner]; except reclaim census }

    #[inline]
    unsafe fn reclaim(&self, header: NonNull<Header<B::Policy>>) {
        // SAFETY: as the caller promises.
        unsafe { self.inner.reclaim(header) };
        self.waiters.wake();
    }

    /// The inner census, with what waiters were refused counted once, and only if it was told. (`largest_refused`
    /// also knows sizes that were waited for and came.)
    fn census(&self) -> Census {
        let mut census = self.inner.census();
        census.refused = census.refused.wrapping_sub(self.waiters.untold());
        census
    }
}
