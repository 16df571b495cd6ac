//! One owner: no lock, no atomic, nothing to pay.
#![allow(
    unsafe_code,
    reason = "implements the unsafe traits; contains no unsafe operation"
)]

use core::cell::{Cell, RefCell};
use core::fmt;
use core::marker::PhantomData;
use core::task::Waker;
use core::time::Duration;

use crate::wakers::wake_all;
use crate::{
    Clock, ConstInit, Count, Epoch, Event, Lock, SyncPolicy, Wake, WakerPlace, WakerSet, Who, Word,
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
    const NONBLOCKING: bool = true;
    fn who() -> Who {
        Who::SOLE
    }
}

/// A condition that nothing meets. It is there for its message: without it, the compiler would name the cells inside, and
/// recommend `std::sync::RwLock`.
#[diagnostic::on_unimplemented(
    message = "memory under the policy `Unsync` stays with the context that made it",
    label = "this would share it with another thread or interrupt, or send it there",
    note = "name another policy where the pool, heap or target is named: `Critical` (interrupts and threads) or `Blocking` (threads)"
)]
trait MayCross {}

/// A value that one context owns: never `Sync`, whatever it is; `Send` as it is.
struct Own<T, P = Unsync> {
    value: T,
    policy: PhantomData<P>,
}

// SAFETY: never applies: nothing is `MayCross`.
unsafe impl<T, P: MayCross> Sync for Own<T, P> {}

impl<T> Own<T> {
    const fn new(value: T) -> Self {
        Self {
            value,
            policy: PhantomData,
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Own<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

/// The lock of [`Unsync`]: the value.
#[derive(Debug)]
pub struct UnsyncLock<T>(Own<T>);

// SAFETY: not `Sync`.
unsafe impl<T> Lock<T> for UnsyncLock<T> {
    fn new(value: T) -> Self {
        Self(Own::new(value))
    }
    #[inline]
    fn with<R>(&self, section: impl FnOnce(&T) -> R) -> R {
        section(&self.0.value)
    }
    fn get_mut(&mut self) -> &mut T {
        &mut self.0.value
    }
}

impl<T: ConstInit> ConstInit for UnsyncLock<T> {
    const INIT: Self = Self(Own::new(T::INIT));
}

/// The counter of [`Unsync`]: a cell. It never holds more than [`Count::LIMIT`].
#[derive(Debug)]
pub struct UnsyncCount(Own<Cell<u32>>);

// SAFETY: not `Sync`; one context counts, one step at a time.
unsafe impl Count for UnsyncCount {
    fn new(count: u32) -> Self {
        Self(Own::new(Cell::new(count.min(Self::LIMIT))))
    }
    #[inline]
    fn increment(&self) {
        // Counted first and mended after: what nearly always happens is one increment in memory. No
        // wrap, because no count is above the limit.
        let count = self.0.value.get().wrapping_add(1);
        self.0.value.set(count);
        if count >= Self::LIMIT {
            self.stick();
        }
    }
    #[inline]
    fn decrement(&self) -> bool {
        let count = self.0.value.get();
        if count == 1 {
            return true;
        }
        debug_assert_ne!(count, 0, "given back more often than held");
        // The limit is the one number that overflows as a signed one: the core tests it for free.
        let (fewer, saturated) = count.cast_signed().overflowing_sub(1);
        self.0.value.set(fewer.cast_unsigned());
        if saturated {
            self.stick();
        }
        false
    }
    #[inline]
    fn is_unique(&self) -> bool {
        self.0.value.get() == 1
    }
    fn get(&self) -> u32 {
        self.0.value.get()
    }
}

impl UnsyncCount {
    /// Out of line, so that the count stays in memory on the way that is taken.
    #[cold]
    #[inline(never)]
    fn stick(&self) {
        self.0.value.set(Self::LIMIT);
    }
}

impl ConstInit for UnsyncCount {
    const INIT: Self = Self(Own::new(Cell::new(0)));
}

/// The state word of [`Unsync`]: a cell.
#[derive(Debug)]
pub struct UnsyncWord(Own<Cell<u32>>);

// SAFETY: not `Sync`.
unsafe impl Word for UnsyncWord {
    fn new(value: u32) -> Self {
        Self(Own::new(Cell::new(value)))
    }
    #[inline]
    fn load(&self) -> u32 {
        self.0.value.get()
    }
    #[inline]
    fn update(&self, mut step: impl FnMut(u32) -> Option<u32>) -> Result<u32, u32> {
        let before = self.0.value.get();
        match step(before) {
            Some(after) => {
                self.0.value.set(after);
                Ok(before)
            }
            None => Err(before),
        }
    }
}

impl ConstInit for UnsyncWord {
    const INIT: Self = Self(Own::new(Cell::new(0)));
}

/// The event of [`Unsync`]: nobody blocks on it, but tasks of one executor may await it.
#[derive(Debug)]
pub struct UnsyncEvent(Own<Happenings>);

#[derive(Debug)]
struct Happenings {
    epoch: Cell<u32>,
    wakers: RefCell<WakerSet<1>>,
}

// SAFETY: not `Sync`.
unsafe impl Event for UnsyncEvent {
    fn new() -> Self {
        Self::INIT
    }
    fn epoch(&self) -> Epoch {
        Epoch(self.0.value.epoch.get())
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
        let displaced = self.0.value.wakers.borrow_mut().insert(&mut waker);
        if let Some(displaced) = displaced {
            displaced.wake();
        }
    }
    fn queue(&self, place: &mut WakerPlace, waker: &Waker) {
        let mut waker = Some(waker.clone());
        let displaced = self.0.value.wakers.borrow_mut().queue(place, &mut waker);
        if let Some(displaced) = displaced {
            displaced.wake();
        }
    }
    fn withdraw(&self, place: &mut WakerPlace) -> bool {
        if place.is_none() {
            return true;
        }
        let waker = self.0.value.wakers.borrow_mut().withdraw(place);
        waker.is_some()
    }
}

impl UnsyncEvent {
    fn happen(&self, take: impl FnOnce(&mut WakerSet<1>) -> [Option<Waker>; 1]) {
        let Happenings { epoch, wakers } = &self.0.value;
        epoch.set(epoch.get().wrapping_add(1));
        // Taken out first: a waker may run its task, and the task may come back here.
        let woken = take(&mut wakers.borrow_mut());
        wake_all(woken);
    }
}

impl ConstInit for UnsyncEvent {
    const INIT: Self = Self(Own::new(Happenings {
        epoch: Cell::new(0),
        wakers: RefCell::new(WakerSet::new()),
    }));
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
        let count = UnsyncCount::new(u32::MAX);
        count.increment();
        assert_eq!(count.get(), 0x8000_0000, "nor wraps, wherever it began");
    }

    #[test]
    fn a_count_falls_by_one_a_holder() {
        let count = UnsyncCount::new(3);
        assert!(!count.decrement());
        assert!(!count.is_unique());
        assert!(!count.decrement());
        assert!(count.is_unique());
        assert!(count.decrement());
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
