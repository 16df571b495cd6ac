//! The policy under which every protocol of the workspace is model-checked: the same code, with
//! `loom`'s mutex, atomics and condition variable underneath.
#![allow(
    unsafe_code,
    reason = "implements the unsafe traits; contains no unsafe operation"
)]

use core::task::Waker;
use core::time::Duration;
use std::boxed::Box;

use ::loom::sync::atomic::{AtomicU32, Ordering};
use ::loom::sync::{Condvar, Mutex};

use crate::blocking::unpoisoned;
use crate::{Clock, Count, Epoch, Event, Lock, SyncPolicy, Wake, WakerPlace, WakerSet, Who, Word};

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
        let value = unpoisoned(self.0.lock());
        section(&value)
    }
    fn get_mut(&mut self) -> &mut T {
        unpoisoned(self.0.get_mut())
    }
}

crate::atomic::over_atomics! {
    /// The counter of [`Loom`]: the shipped one, over loom's atomic.
    LoomCount,
    /// The state word of [`Loom`]: the shipped one, over loom's atomic.
    LoomWord
}

crate::blocking::over_condvar! {
    /// The event of [`Loom`]: the shipped one of `Blocking`, over loom's mutex and condition variable. No time
    /// passes in a model: a wait ends at its deadline only if the clock is past it when the wait begins, or after a wake.
    LoomEvent, 2
}
