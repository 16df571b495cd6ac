//! The policy under which every protocol of the workspace is model-checked: the same code, with
//! `loom`'s mutex, atomics and condition variable underneath.
#![allow(
    unsafe_code,
    reason = "implements the unsafe traits; contains no unsafe operation"
)]

use core::task::Waker;
use core::time::Duration;
use std::boxed::Box;

use ::loom::sync::atomic::{AtomicU32, Ordering, fence};
use ::loom::sync::{Condvar, Mutex};

use crate::{Clock, Count, Epoch, Event, Lock, SyncPolicy, Wake, WakerSet, Who, Word};

/// For tests inside `loom::model` only; anywhere else its operations panic.
///
/// It has no [`ConstInit`](crate::ConstInit), because loom's objects belong to one run of a model. Its counter and its
/// word are the text of the shipped ones.
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
        // Not `std`'s: loom runs all threads of a model on one of the system's.
        ::loom::thread_local!(static ANCHOR: Box<u8> = Box::new(0));
        ANCHOR.with(|anchor| Who::new(core::ptr::from_ref(&**anchor).addr()))
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

crate::atomic::over_atomics! {
    /// The counter of [`Loom`]: the shipped one, over loom's atomic.
    LoomCount,
    /// The state word of [`Loom`]: the shipped one, over loom's atomic.
    LoomWord
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
        let mut waker = Some(waker.clone());
        let displaced = self.state.lock().unwrap().1.insert(&mut waker);
        if let Some(displaced) = displaced {
            displaced.wake();
        }
    }
}
