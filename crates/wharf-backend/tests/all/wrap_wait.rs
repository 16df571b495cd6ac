//! Waiting for memory: who is served in which order, and that neither a wake nor a segment is lost by whoever goes.
#![cfg(all(feature = "std", feature = "critical-section"))]

use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::Pin;
use core::ptr::NonNull;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Wake;

use wharf_backend::wrap::{
    AllocAsync, AllocWaitError, BackendEvent, Finding, WaitQueue, Waits, alloc_wait,
};
use wharf_backend::{
    AllocError, AllocHint, BackendExt, Caps, Census, Checked, FaultInject, FreeList, Header,
    MemBackend, Place, Quota, Scrub, SegmentMut, StaticPool, Traced, Uninit, Waitable,
};
use wharf_sync::{Blocking, Clock, ConstInit, Critical, NoClock, StdClock, SyncPolicy, Unsync};

/// A task that counts its wakes.
#[derive(Default)]
struct Task(AtomicU32);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A future with its task: polled by hand.
struct Waiter<F> {
    future: Pin<Box<F>>,
    task: Arc<Task>,
}

impl<F: Future> Waiter<F> {
    fn new(future: F) -> Self {
        let task = Arc::default();
        let future = Box::pin(future);
        Self { future, task }
    }
    fn poll(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(&self.task));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }
    fn wakes(&self) -> u32 {
        self.task.0.load(Ordering::Relaxed)
    }
}

fn pool<P: SyncPolicy, const SLOTS: usize>() -> Waitable<StaticPool<P, 16, SLOTS>>
where
    P::Lock<FreeList>: ConstInit,
    P::Count: ConstInit,
{
    Waitable::new(StaticPool::new())
}

fn served<T>(poll: Poll<Result<T, AllocError>>) -> Option<T> {
    match poll {
        Poll::Ready(answer) => Some(answer.unwrap()),
        Poll::Pending => None,
    }
}

fn first_come_first_served<P: SyncPolicy>()
where
    P::Lock<FreeList>: ConstInit,
    P::Count: ConstInit,
{
    let pool = pool::<P, 1>();
    let held = pool.alloc(16).unwrap();
    let mut waiters: Vec<_> = (0..5).map(|_| Waiter::new(pool.alloc_async(16))).collect();
    for waiter in &mut waiters {
        assert!(waiter.poll().is_pending());
    }
    let mut next = Some(held);
    for turn in 0..waiters.len() {
        drop(next.take());
        let wakes: Vec<_> = waiters.iter().map(Waiter::wakes).collect();
        let expected: Vec<_> = (0..5).map(|index| u32::from(index <= turn)).collect();
        assert_eq!(wakes, expected, "a drop wakes the first, and no other");
        // A poll out of turn gets nothing, though there is memory.
        for late in waiters.iter_mut().skip(turn + 1) {
            assert!(late.poll().is_pending());
        }
        next = served(waiters[turn].poll());
        assert!(next.is_some());
    }
    drop(next);
    assert_eq!(pool.census().in_use, 0);
    // Nobody was told of a refusal.
    assert_eq!(pool.census().refused, 0);
}

#[test]
fn tasks_are_served_in_the_order_in_which_they_came() {
    first_come_first_served::<Unsync>();
    first_come_first_served::<Critical>();
    first_come_first_served::<Blocking>();
}

#[test]
fn whoever_comes_later_does_not_overtake_but_an_alloc_may() {
    let pool = pool::<Unsync, 1>();
    let held = pool.alloc(1).unwrap();
    let mut first = Waiter::new(pool.alloc_async(1));
    assert!(first.poll().is_pending());
    drop(held);
    // There is memory, and it is the first one's.
    let mut second = Waiter::new(pool.alloc_async(1));
    assert!(second.poll().is_pending());
    // An `alloc` cannot wait, and takes it; the first keeps its place.
    let barged = pool.alloc(1).unwrap();
    assert!(first.poll().is_pending());
    drop(barged);
    assert_eq!((first.wakes(), second.wakes()), (2, 0));
    assert!(second.poll().is_pending());
    let got = served(first.poll()).unwrap();
    // Being served wakes the next, who finds nothing and waits on.
    assert_eq!(second.wakes(), 1);
    assert!(second.poll().is_pending());
    drop(got);
    assert_eq!(second.wakes(), 2);
    assert!(served(second.poll()).is_some());
}

#[test]
fn two_drops_before_the_first_looks_serve_two() {
    let pool = pool::<Unsync, 2>();
    let held = [pool.alloc(1).unwrap(), pool.alloc(1).unwrap()];
    let mut waiters = [(); 3].map(|()| Waiter::new(pool.alloc_async(1)));
    for waiter in &mut waiters {
        assert!(waiter.poll().is_pending());
    }
    drop(held);
    let [first, second, third] = &mut waiters;
    assert_eq!((first.wakes(), second.wakes(), third.wakes()), (1, 0, 0));
    let one = served(first.poll()).unwrap();
    assert_eq!((second.wakes(), third.wakes()), (1, 0));
    let two = served(second.poll()).unwrap();
    assert_eq!(third.wakes(), 1, "looks, and finds nothing");
    assert!(third.poll().is_pending());
    drop(one);
    assert_eq!(third.wakes(), 2);
    assert!(served(third.poll()).is_some());
    drop(two);
}

/// Whoever of three is cancelled, after however many polls and drops: the others are served, and nothing is lost.
fn cancelled_at_every_poll<P: SyncPolicy>()
where
    P::Lock<FreeList>: ConstInit,
    P::Count: ConstInit,
{
    for who in 0..3 {
        for when in 0..6 {
            let pool = pool::<P, 1>();
            let mut held = Some(pool.alloc(1).unwrap());
            let mut waiters: Vec<_> = (0..3)
                .map(|_| Some(Waiter::new(pool.alloc_async(1))))
                .collect();
            let mut served_of = [false; 3];
            let mut step = 0;
            let mut cancel = |waiters: &mut Vec<Option<_>>| {
                if step == when {
                    waiters[who] = None;
                }
                step += 1;
            };
            cancel(&mut waiters);
            for index in 0..3 {
                if let Some(waiter) = &mut waiters[index] {
                    assert!(waiter.poll().is_pending());
                }
                cancel(&mut waiters);
            }
            drop(held.take());
            // Woken, and not polled yet.
            cancel(&mut waiters);
            for _ in 0..3 {
                for index in 0..3 {
                    let Some(waiter) = &mut waiters[index] else {
                        continue;
                    };
                    // As an executor does: only who was woken.
                    if served_of[index] || waiter.task.0.swap(0, Ordering::Relaxed) == 0 {
                        continue;
                    }
                    if served(waiter.poll()).is_some() {
                        served_of[index] = true;
                    }
                }
                cancel(&mut waiters);
            }
            for (index, waiter) in waiters.iter().enumerate() {
                let here = waiter.is_some() || served_of[index];
                assert_eq!(
                    served_of[index], here,
                    "{index} of {who} cancelled at {when}"
                );
            }
            drop(waiters);
            assert_eq!(pool.census().in_use, 0);
            assert!(served(Waiter::new(pool.alloc_async(1)).poll()).is_some());
        }
    }
}

#[test]
fn a_cancelled_waiter_loses_neither_a_wake_nor_a_segment() {
    cancelled_at_every_poll::<Unsync>();
    cancelled_at_every_poll::<Critical>();
    cancelled_at_every_poll::<Blocking>();
}

#[test]
fn waiting_does_not_help_where_there_can_be_none() {
    let pool = Waitable::new(FaultInject::new(StaticPool::<Unsync, 16, 1>::new()));
    let held = pool.alloc(1).unwrap();
    let too_large = AllocError::TooLarge {
        requested: 17,
        max: 16,
    };
    let mut waiter = Waiter::new(pool.alloc_async(17));
    assert!(matches!(waiter.poll(), Poll::Ready(Err(error)) if error == too_large));
    let refused = pool.alloc_wait(17, &NoClock, None).unwrap_err();
    assert_eq!(refused, AllocWaitError::Refused(too_large));
    assert_eq!(refused.to_string(), too_large.to_string());
    assert_eq!(pool.census().refused, 2, "both were told");

    // Under `Unsync` nobody else could free anything.
    let alone = pool.alloc_wait(9, &NoClock, None).unwrap_err();
    assert_eq!(alone, AllocWaitError::WouldDeadlock { requested: 9 });
    assert_eq!(
        alone.to_string(),
        "9 bytes are not free, and nobody but the one who waits could free them"
    );
    assert_eq!(pool.census().refused, 3);

    // An injected refusal is the end of a wait too, also of one that stands already; and the next one looks.
    let mut first = Waiter::new(pool.alloc_async(1));
    let mut second = Waiter::new(pool.alloc_async(1));
    assert!(first.poll().is_pending());
    assert!(second.poll().is_pending());
    pool.inner().fail_nth(1);
    drop(held);
    let injected = AllocError::Injected { call: 1 };
    assert!(matches!(first.poll(), Poll::Ready(Err(error)) if error == injected));
    assert_eq!(second.wakes(), 1);
    assert!(served(second.poll()).is_some());
    assert_eq!(pool.census().refused, 4);
}

#[test]
fn a_task_is_told_to_look_again() {
    let pool = pool::<Unsync, 1>();
    let _held = pool.alloc(1).unwrap();
    let mut waiter = Waiter::new(pool.alloc_async(1));
    assert!(waiter.poll().is_pending());
    pool.recheck();
    assert_eq!(waiter.wakes(), 1);
    assert!(waiter.poll().is_pending());
}

/// Nobody waits behind a task that cannot run: an error, not a hang.
#[test]
fn a_thread_behind_a_task_of_its_own_context_is_refused() {
    let pool = pool::<Unsync, 1>();
    let held = pool.alloc(1).unwrap();
    let mut first = Waiter::new(pool.alloc_async(1));
    assert!(first.poll().is_pending());
    drop(held);
    let behind = pool.alloc_wait(1, &NoClock, None).unwrap_err();
    assert_eq!(behind, AllocWaitError::WouldDeadlock { requested: 1 });
    assert!(served(first.poll()).is_some());
    assert!(pool.alloc_wait(1, &NoClock, None).is_ok());
}

/// Time passes when somebody idles.
struct Countdown<'f> {
    now: Cell<u64>,
    at: u64,
    then: &'f dyn Fn(),
}

impl<'f> Countdown<'f> {
    fn new(at: u64, then: &'f dyn Fn()) -> Self {
        let now = Cell::new(0);
        Self { now, at, then }
    }
}

impl Clock for Countdown<'_> {
    fn now(&self) -> Duration {
        Duration::from_secs(self.now.get())
    }
    fn idle(&self) {
        self.now.set(self.now.get() + 1);
        if self.now.get() == self.at {
            (self.then)();
        }
    }
}

#[test]
fn a_deadline_ends_a_wait_and_leaves_no_trace() {
    let pool = pool::<Critical, 1>();
    let held = Cell::new(Some(pool.alloc(1).unwrap()));
    let late = Countdown::new(0, &|| ());
    let deadline = Some(Duration::from_secs(5));
    let error = pool.alloc_wait(3, &late, deadline).unwrap_err();
    assert_eq!(error, AllocWaitError::TimedOut { requested: 3 });
    assert_eq!(
        error.to_string(),
        "3 bytes were not free before the deadline"
    );
    assert_eq!(late.now.get(), 5);
    assert_eq!(pool.census().refused, 1, "told once, tried more than once");
    assert_eq!(pool.census().in_use, 1);

    // Whoever goes from the first place has the next one look.
    let task = RefCell::new(Waiter::new(pool.alloc_async(1)));
    let comes_later = || assert!(task.borrow_mut().poll().is_pending());
    let timing_out = Countdown::new(1, &comes_later);
    assert!(pool.alloc_wait(3, &timing_out, deadline).is_err());
    assert_eq!(task.borrow().wakes(), 1);
    drop(task);

    let frees = || drop(held.take());
    let freeing = Countdown::new(3, &frees);
    let got = pool.alloc_wait(3, &freeing, deadline).unwrap();
    assert_eq!((got.len(), freeing.now.get()), (3, 3));
}

#[test]
fn every_waiting_thread_is_served_once() {
    let pool = Arc::new(pool::<Blocking, 2>());
    let clock = StdClock::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    let segment =
                        alloc_wait(Arc::clone(&pool), 16, AllocHint::NONE, &clock, None).unwrap();
                    drop(segment.filled(1).unwrap());
                }
            });
        }
    });
    assert_eq!(pool.census().in_use, 0);
    assert_eq!(pool.census().refused, 0);
    let mut waiter = Waiter::new(AllocAsync::new(Arc::clone(&pool), 4, AllocHint(3)));
    let segment: SegmentMut<Arc<_>, Uninit> = served(waiter.poll()).unwrap();
    assert_eq!(segment.len(), 4);
}

/// A waker that comes back to the pool that calls it, at every opportunity that a waker has.
#[test]
fn no_waker_is_called_inside_a_section() {
    struct Back(Waitable<StaticPool<Blocking, 16, 1>>, AtomicU32);
    impl Wake for Back {
        fn wake(self: Arc<Self>) {
            // A section of the pool and of the queue; a mutex that is held would hang here.
            assert!(self.0.census().in_use <= 1);
            self.0.recheck();
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }
    impl Drop for Back {
        fn drop(&mut self) {
            self.0.recheck();
        }
    }
    let back = Arc::new(Back(pool(), AtomicU32::new(0)));
    let pool = &back.0;
    let held = pool.alloc(1).unwrap();
    let waker = Waker::from(Arc::clone(&back));
    let mut waiters = [(); 2].map(|()| Box::pin(pool.alloc_async(1)));
    for waiter in &mut waiters {
        let mut context = Context::from_waker(&waker);
        assert!(waiter.as_mut().poll(&mut context).is_pending());
    }
    drop(held);
    assert_eq!(back.1.load(Ordering::Relaxed), 1);
    let [first, second] = waiters;
    drop(first);
    assert_eq!(back.1.load(Ordering::Relaxed), 2);
    drop(second);
}

#[test]
fn what_is_around_it_can_be_waited_for_too() {
    // The table is full before the pool is.
    let checked =
        Checked::<_, _, 1>::new(pool::<Unsync, 2>(), |finding: Finding| panic!("{finding}"));
    let pool = Scrub::new(Traced::new(FaultInject::new(checked), |_: BackendEvent| ()));
    let held = pool.alloc(1).unwrap();
    let mut waiters = [(); 2].map(|()| Waiter::new(pool.alloc_async(1)));
    for waiter in &mut waiters {
        assert!(waiter.poll().is_pending());
    }
    assert_eq!(pool.census().refused, 0);
    drop(held);
    let [first, second] = &mut waiters;
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    let got = served(first.poll()).unwrap();
    assert!(second.poll().is_pending());
    drop(got);
    assert!(served(second.poll()).is_some());
    assert_eq!((pool.census().in_use, pool.census().refused), (0, 0));
    let share = Quota::<_, 1>::new(StaticPool::<Unsync, 8, 1>::new());
    let share = Scrub::new(share.share(1, 1).unwrap());
    let held = share.alloc(1).unwrap();
    let mut waiter = Waiter::new(share.alloc_async(1));
    assert!(waiter.poll().is_pending());
    drop(held);
    assert_eq!(waiter.wakes(), 1);
    assert!(served(waiter.poll()).is_some());
}

#[test]
fn shares_are_waited_for_apart() {
    let quota = Quota::<_, 3>::new(StaticPool::<Unsync, 8, 3>::new());
    let transmit = quota.share(1, 1).unwrap();
    let receive = quota.share(0, 2).unwrap();
    let log = quota.share(0, 2).unwrap();
    let reply = transmit.alloc(8).unwrap();
    let frames = [receive.alloc(8).unwrap(), receive.alloc(8).unwrap()];
    let mut transmitting = Waiter::new(transmit.alloc_async(8));
    let mut receiving = Waiter::new(receive.alloc_async(8));
    let mut logging = Waiter::new(log.alloc_async(8));
    assert!(transmitting.poll().is_pending());
    assert!(receiving.poll().is_pending());
    assert!(logging.poll().is_pending());
    // What is reserved wakes nobody else.
    drop(reply);
    assert_eq!(
        (transmitting.wakes(), receiving.wakes(), logging.wakes()),
        (1, 0, 0)
    );
    assert!(served(transmitting.poll()).is_some());
    // What is common may be anybody's.
    let [one, two] = frames;
    drop(one);
    assert_eq!((receiving.wakes(), logging.wakes()), (1, 1));
    let entry = served(logging.poll()).unwrap();
    assert!(receiving.poll().is_pending());
    drop(two);
    assert!(served(receiving.poll()).is_some());
    drop(entry);
}

#[test]
fn a_share_that_can_never_have_any_does_not_wait() {
    let quota = Quota::<_, 3>::new(StaticPool::<Unsync, 8, 1>::new());
    let common = quota.share(0, 1).unwrap();
    let held = common.alloc(1).unwrap();
    let other = quota.share(0, 1).unwrap();
    let mut waiting = Waiter::new(other.alloc_async(1));
    assert!(waiting.poll().is_pending());
    drop(held);
    assert_eq!(waiting.wakes(), 1);
    let held = common.alloc(1).unwrap();
    assert!(waiting.poll().is_pending());
    drop(held);
    assert_eq!(waiting.wakes(), 2);
    // It has not looked yet, and stands with its waker spent; the next poll finds that all of it was promised away.
    quota.share(1, 1).unwrap();
    assert!(matches!(
        waiting.poll(),
        Poll::Ready(Err(AllocError::Unsupported))
    ));
    assert!(matches!(
        Waiter::new(common.alloc_async(0)).poll(),
        Poll::Ready(Err(AllocError::Unsupported))
    ));
}

/// Names another queue each time, as a safe implementation may.
struct Fickle {
    pool: StaticPool<Unsync, 16, 1>,
    queues: [WaitQueue<Unsync>; 2],
    asked: Cell<usize>,
}

// SAFETY: the pool's segments.
unsafe impl MemBackend for Fickle {
    type Policy = Unsync;
    fn vend(&self, size: usize, hint: AllocHint) -> Option<NonNull<Header<Unsync>>> {
        self.pool.vend(size, hint)
    }
    fn refusal(&self, size: usize, hint: AllocHint) -> AllocError {
        self.pool.refusal(size, hint)
    }
    unsafe fn reclaim(&self, header: NonNull<Header<Unsync>>) {
        // SAFETY: as the caller promises.
        unsafe { self.pool.reclaim(header) };
        self.queues.iter().for_each(WaitQueue::wake);
    }
    unsafe fn place(&self, header: NonNull<Header<Unsync>>) -> Place {
        // SAFETY: as the caller promises.
        unsafe { self.pool.place(header) }
    }
    fn may_own(&self, header: NonNull<Header<Unsync>>) -> bool {
        self.pool.may_own(header)
    }
    fn caps(&self) -> Caps {
        self.pool.caps()
    }
    fn alignment(&self) -> usize {
        self.pool.alignment()
    }
    fn max_segment_size(&self) -> usize {
        self.pool.max_segment_size()
    }
    fn census(&self) -> Census {
        self.pool.census()
    }
    fn name(&self) -> &'static str {
        "fickle"
    }
}

impl Waits for Fickle {
    fn waiters(&self) -> &WaitQueue<Unsync> {
        self.asked.set(self.asked.get() + 1);
        &self.queues[self.asked.get() % 2]
    }
}

#[test]
fn who_waits_leaves_the_queue_that_he_stands_in_whichever_is_named() {
    for polls in 1..5 {
        let memory = Fickle {
            pool: StaticPool::new(),
            queues: [WaitQueue::new(), WaitQueue::new()],
            asked: Cell::new(0),
        };
        let held = memory.alloc(16).unwrap();
        let mut waiters: Vec<_> = (0..3)
            .map(|_| Waiter::new(memory.alloc_async(16)))
            .collect();
        for (waiter, more) in waiters.iter_mut().zip(0..) {
            for _ in 0..polls + more {
                assert!(waiter.poll().is_pending());
            }
        }
        waiters.swap_remove(0);
        drop(held);
        drop(waiters);
        for queue in &memory.queues {
            // Whoever were left in here would be memory that is gone.
            queue.wake();
            let shown = format!("{queue:?}");
            assert!(shown.contains("waited_for: false"), "{shown}");
        }
    }
}
