//! Waiting for memory under the model checker: no wake is lost, whoever goes when. A thread that sleeps for ever is a deadlock,
//! which loom reports.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Wake;

use loom::thread;
use wharf_backend::wrap::Waits;
use wharf_backend::{BackendExt, MemBackend, StaticPool, Waitable};
use wharf_sync::{Loom, NoClock};

type Pool = Waitable<StaticPool<Loom, 8, 1>>;

fn model(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

/// Leaked, because threads of loom are `'static`, and a model has few thousand runs.
fn pool() -> &'static Pool {
    Box::leak(Box::new(Waitable::new(StaticPool::fresh())))
}

/// Counts how often a task is woken. Nothing that loom sees.
#[derive(Default)]
struct Task(AtomicU32);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Task {
    fn woken(&self) -> bool {
        self.0.swap(0, Ordering::Relaxed) > 0
    }
}

#[test]
fn a_thread_gets_what_another_one_drops() {
    model(|| {
        let pool = pool();
        let held = pool.alloc(8).unwrap();
        let other = thread::spawn(move || drop(held));
        drop(pool.alloc_wait(8, &NoClock, None).unwrap());
        other.join().unwrap();
        assert_eq!(pool.census().in_use, 0);
        assert_eq!(pool.census().refused, 0);
    });
}

#[test]
fn two_threads_and_one_slot() {
    model(|| {
        let pool = pool();
        let held = pool.alloc(8).unwrap();
        let other = thread::spawn(move || drop(pool.alloc_wait(8, &NoClock, None).unwrap()));
        drop(held);
        drop(pool.alloc_wait(8, &NoClock, None).unwrap());
        other.join().unwrap();
        assert_eq!(pool.census().in_use, 0);
    });
}

#[test]
fn a_task_is_woken_or_sees_it() {
    model(|| {
        let pool = pool();
        let held = pool.alloc(8).unwrap();
        let other = thread::spawn(move || drop(held));
        let task = Arc::new(Task::default());
        let waker = Waker::from(Arc::clone(&task));
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(pool.alloc_async(8));
        let mut poll = future.as_mut().poll(&mut context);
        other.join().unwrap();
        if poll.is_pending() {
            assert!(task.woken(), "asleep for ever");
            poll = future.as_mut().poll(&mut context);
        }
        assert!(matches!(poll, Poll::Ready(Ok(_))));
        drop(poll);
        assert_eq!(pool.census().in_use, 0);
    });
}

/// The first is cancelled while it is woken; the second, a task of another thread, must be served.
#[test]
fn a_cancelled_waiter_passes_its_wake_on() {
    model(|| {
        let pool = pool();
        let held = pool.alloc(8).unwrap();
        let mut first = Box::pin(pool.alloc_async(8));
        let mut second = Box::pin(pool.alloc_async(8));
        let task = Arc::new(Task::default());
        let waker = Waker::from(Arc::clone(&task));
        let mut context = Context::from_waker(&waker);
        assert!(
            first
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
        assert!(second.as_mut().poll(&mut context).is_pending());
        let cancelling = thread::spawn(move || drop(first));
        let freeing = thread::spawn(move || drop(held));
        cancelling.join().unwrap();
        freeing.join().unwrap();
        assert!(task.woken(), "the wake went with the first");
        assert!(matches!(
            second.as_mut().poll(&mut context),
            Poll::Ready(Ok(_))
        ));
    });
}

/// The first cancels, the second comes, and a drop happens, all at once.
#[test]
fn a_waiter_that_comes_while_another_one_goes() {
    model(|| {
        let pool = pool();
        let held = pool.alloc(8).unwrap();
        let mut first = Box::pin(pool.alloc_async(8));
        assert!(
            first
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
        let other = thread::spawn(move || {
            drop(held);
            drop(first);
        });
        drop(pool.alloc_wait(8, &NoClock, None).unwrap());
        other.join().unwrap();
        assert_eq!(pool.census().in_use, 0);
    });
}
