//! The policy under which every protocol of the workspace is model-checked: the same code, with
//! `loom`'s mutex, atomics and condition variable underneath.
#![allow(
    unsafe_code,
    reason = "implements the unsafe traits; contains no unsafe operation"
)]

use core::task::Waker;
use core::time::Duration;

use ::loom::sync::atomic::{AtomicU32, Ordering, fence};
use ::loom::sync::{Condvar, Mutex};

use crate::{Clock, Count, Epoch, Event, Lock, SyncPolicy, Wake, WakerSet, Who, Word};

/// For tests inside `loom::model` only; anywhere else its operations panic.
///
/// It has no [`ConstInit`](crate::ConstInit), because loom's objects belong to one run of a model. Its orderings are
/// those of the shipped atomics.
#[derive(Clone, Copy, Debug)]
pub enum Loom {}

// SAFETY: loom's own primitives.
unsafe impl SyncPolicy for Loom {
    type Lock<T> = LoomLock<T>;
    type Count = LoomCount;
    type Word = LoomWord;
    type Event = LoomEvent;
    const NAME: &'static str = "Loom";
    fn who() -> Who {
        std::thread_local!(static ANCHOR: u8 = const { 0 });
        ANCHOR.with(|anchor| Who::new(core::ptr::from_ref(anchor).addr()))
    }
}

/// The lock of [`Loom`].
#[derive(Debug)]
pub struct LoomLock<T>(Mutex<T>);

// SAFETY: a mutex.
unsafe impl<T> Lock<T> for LoomLock<T> {
    fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }
    fn with<R>(&self, section: impl FnOnce(&T) -> R) -> R {
        section(&self.0.lock().unwrap())
    }
    fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap()
    }
}

/// The counter of [`Loom`], with the orderings of the shipped one.
#[derive(Debug)]
pub struct LoomCount(AtomicU32);

// SAFETY: as for the shipped atomic counter.
unsafe impl Count for LoomCount {
    fn new(count: u32) -> Self {
        Self(AtomicU32::new(count))
    }
    fn increment(&self) {
        assert!(self.0.fetch_add(1, Ordering::Relaxed) < Self::LIMIT);
    }
    fn decrement(&self) -> bool {
        if self.0.load(Ordering::Acquire) == 1 {
            return true;
        }
        if self.0.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            return true;
        }
        false
    }
    fn is_unique(&self) -> bool {
        self.0.load(Ordering::Acquire) == 1
    }
    fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The state word of [`Loom`], with the orderings of the shipped one.
#[derive(Debug)]
pub struct LoomWord(AtomicU32);

// SAFETY: compare-and-swap.
unsafe impl Word for LoomWord {
    fn new(value: u32) -> Self {
        Self(AtomicU32::new(value))
    }
    fn load(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }
    fn update(&self, step: impl FnMut(u32) -> Option<u32>) -> Result<u32, u32> {
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, step)
    }
}

/// The event of [`Loom`]. It has no time: a deadline is ignored.
#[derive(Debug)]
pub struct LoomEvent {
    state: Mutex<(u32, WakerSet<2>)>,
    happened: Condvar,
}

// SAFETY: a mutex and a condition variable.
unsafe impl Event for LoomEvent {
    fn new() -> Self {
        Self {
            state: Mutex::new((0, WakerSet::new())),
            happened: Condvar::new(),
        }
    }
    fn epoch(&self) -> Epoch {
        Epoch(self.state.lock().unwrap().0)
    }
    fn wait<C: Clock + ?Sized>(&self, seen: Epoch, _: &C, _: Option<Duration>) -> Wake {
        let mut state = self.state.lock().unwrap();
        while Epoch(state.0) == seen {
            state = self.happened.wait(state).unwrap();
        }
        Wake::Notified
    }
    fn notify(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        let woken = state.1.take();
        drop(state);
        self.happened.notify_all();
        woken.into_iter().flatten().for_each(Waker::wake);
    }
    fn register(&self, waker: &Waker) {
        let waker = waker.clone();
        let displaced = self.state.lock().unwrap().1.insert(waker);
        if let Some(displaced) = displaced {
            displaced.wake();
        }
    }
}
