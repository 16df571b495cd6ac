//! One owner: no lock, no atomic, nothing to pay.
#![allow(
    unsafe_code,
    reason = "implements the unsafe traits; contains no unsafe operation"
)]

use core::cell::{Cell, RefCell};
use core::marker::PhantomData;
use core::task::Waker;
use core::time::Duration;

use crate::{
    Clock, ConstInit, Count, Epoch, Event, Lock, Place, SyncPolicy, Wake, WakerSet, Who, Word,
};

/// For memory that one context owns: a task, a receive loop, `main`.
///
/// Locks compile to nothing and counters are plain cells. None of them is `Sync`, so the compiler
/// refuses to share what is built on them. Waiting is refused ([`Wake::Never`]): the only context
/// there is would wait for itself.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Unsync {}

// SAFETY: nothing here is `Sync`, so no second context reaches it.
unsafe impl SyncPolicy for Unsync {
    type Lock<T> = UnsyncLock<T>;
    type Count = UnsyncCount;
    type Word = UnsyncWord;
    type Event = UnsyncEvent;
    const NAME: &'static str = "Unsync";
    fn who() -> Who {
        Who::SOLE
    }
}

/// The lock of [`Unsync`]: the value.
#[derive(Debug)]
pub struct UnsyncLock<T> {
    value: T,
    // Not `Sync`, whatever `T` is; `Send` as `T` is.
    _owned: PhantomData<Cell<()>>,
}

// SAFETY: not `Sync`.
unsafe impl<T> Lock<T> for UnsyncLock<T> {
    fn new(value: T) -> Self {
        Self {
            value,
            _owned: PhantomData,
        }
    }
    #[inline]
    fn with<R>(&self, section: impl FnOnce(&T) -> R) -> R {
        section(&self.value)
    }
    fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: ConstInit> ConstInit for UnsyncLock<T> {
    const INIT: Self = Self {
        value: T::INIT,
        _owned: PhantomData,
    };
}

/// The counter of [`Unsync`]: a cell.
#[derive(Debug)]
pub struct UnsyncCount(Cell<u32>);

// SAFETY: not `Sync`; one context counts, one step at a time.
unsafe impl Count for UnsyncCount {
    fn new(count: u32) -> Self {
        Self(Cell::new(count))
    }
    #[inline]
    fn increment(&self) {
        let count = self.0.get();
        if count < Self::LIMIT {
            self.0.set(count + 1);
        }
    }
    #[inline]
    fn decrement(&self) -> bool {
        let count = self.0.get();
        if count == 1 {
            return true;
        }
        // Without a branch: one less, or nothing less where it is saturated.
        self.0.set(count - u32::from(count < Self::LIMIT));
        false
    }
    #[inline]
    fn is_unique(&self) -> bool {
        self.0.get() == 1
    }
    fn get(&self) -> u32 {
        self.0.get()
    }
}

impl ConstInit for UnsyncCount {
    const INIT: Self = Self(Cell::new(0));
}

/// The state word of [`Unsync`]: a cell.
#[derive(Debug)]
pub struct UnsyncWord(Cell<u32>);

// SAFETY: not `Sync`.
unsafe impl Word for UnsyncWord {
    fn new(value: u32) -> Self {
        Self(Cell::new(value))
    }
    #[inline]
    fn load(&self) -> u32 {
        self.0.get()
    }
    #[inline]
    fn update(&self, mut step: impl FnMut(u32) -> Option<u32>) -> Result<u32, u32> {
        let before = self.0.get();
        match step(before) {
            Some(after) => {
                self.0.set(after);
                Ok(before)
            }
            None => Err(before),
        }
    }
}

impl ConstInit for UnsyncWord {
    const INIT: Self = Self(Cell::new(0));
}

/// The event of [`Unsync`]: nobody blocks on it, but tasks of one executor may await it.
#[derive(Debug)]
pub struct UnsyncEvent {
    epoch: Cell<u32>,
    wakers: RefCell<WakerSet<1>>,
}

// SAFETY: not `Sync`.
unsafe impl Event for UnsyncEvent {
    fn new() -> Self {
        Self::INIT
    }
    fn epoch(&self) -> Epoch {
        Epoch(self.epoch.get())
    }
    fn wait<C: Clock + ?Sized>(&self, seen: Epoch, _: &C, _: Option<Duration>) -> Wake {
        if self.epoch() == seen {
            Wake::Never
        } else {
            Wake::Notified
        }
    }
    fn notify(&self) {
        self.happen(WakerSet::take);
    }
    fn notify_one(&self) {
        self.happen(WakerSet::take_one);
    }
    // In all three: cloned before the borrow, woken and dropped after it, because each runs code that is not ours.
    fn register(&self, waker: &Waker) {
        let mut waker = Some(waker.clone());
        let displaced = self.wakers.borrow_mut().insert(&mut waker);
        if let Some(displaced) = displaced {
            displaced.wake();
        }
    }
    fn queue(&self, place: &mut Place, waker: &Waker) {
        let mut waker = Some(waker.clone());
        let displaced = self.wakers.borrow_mut().queue(place, &mut waker);
        if let Some(displaced) = displaced {
            displaced.wake();
        }
    }
    fn withdraw(&self, place: &mut Place) -> bool {
        if place.is_none() {
            return true;
        }
        let waker = self.wakers.borrow_mut().withdraw(place);
        waker.is_some()
    }
}

impl UnsyncEvent {
    fn happen(&self, take: impl FnOnce(&mut WakerSet<1>) -> [Option<Waker>; 1]) {
        self.epoch.set(self.epoch.get().wrapping_add(1));
        // Taken out first: a waker may run its task, and the task may come back here.
        let woken = take(&mut self.wakers.borrow_mut());
        woken.into_iter().flatten().for_each(Waker::wake);
    }
}

impl ConstInit for UnsyncEvent {
    const INIT: Self = Self {
        epoch: Cell::new(0),
        wakers: RefCell::new(WakerSet::new()),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NoClock;

    #[test]
    fn a_count_saturates() {
        let count = UnsyncCount::new(UnsyncCount::LIMIT - 1);
        count.increment();
        count.increment();
        assert_eq!(count.get(), 0x8000_0000);
        assert!(!count.decrement());
        assert_eq!(count.get(), 0x8000_0000, "a saturated count never falls");
    }

    #[test]
    fn waiting_for_oneself_is_refused_and_a_past_event_is_not() {
        let event = UnsyncEvent::new();
        let seen = event.epoch();
        assert_eq!(event.wait(seen, &NoClock, None), Wake::Never);
        event.notify();
        assert_eq!(event.wait(seen, &NoClock, None), Wake::Notified);
    }
}
