//! Policies that break a law each.
#![allow(unsafe_code, reason = "implements the unsafe traits, wrongly")]

/// A policy that is `Unsync` but for one part.
macro_rules! policy {
    ($name:ident: $count:ty, $word:ty, $event:ty) => {
        #[derive(Debug)]
        enum $name {}
        // SAFETY: nothing here is `Sync`, and no memory is guarded by it.
        unsafe impl SyncPolicy for $name {
            type Lock<T> = UnsyncLock<T>;
            type Count = $count;
            type Word = $word;
            type Event = $event;
            const NAME: &'static str = stringify!($name);
            fn who() -> Who {
                Who::SOLE
            }
        }
    };
}

mod one;

use std::cell::{Cell, RefCell};
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Duration;

use wharf_conformance::{Nesting, constants, policy};
use wharf_sync::{
    Clock, ConstInit, Count, Epoch, Event, Lock, SyncPolicy, Unsync, UnsyncCount, UnsyncEvent,
    UnsyncLock, UnsyncWord, Wake, Who, Word,
};

use crate::Failures;

fn failures<P: SyncPolicy>() -> Failures {
    let mut report = Failures::default();
    let _ = policy::<P>(Nesting::Allowed, &mut report);
    report
}

/// Counts on without end, says "last" as told, and knows no only holder as told.
struct BadCount<const WRAPS: bool, const LAST: u32, const ALONE: bool>(Cell<u32>);

// SAFETY: it breaks the law, but no memory is counted by it.
unsafe impl<const WRAPS: bool, const LAST: u32, const ALONE: bool> Count
    for BadCount<WRAPS, LAST, ALONE>
{
    fn new(count: u32) -> Self {
        Self(Cell::new(count))
    }
    fn increment(&self) {
        if WRAPS || self.0.get() < Self::LIMIT {
            self.0.set(self.0.get().wrapping_add(1));
        }
    }
    fn decrement(&self) -> bool {
        let before = self.0.get();
        if WRAPS || before < Self::LIMIT {
            self.0.set(before.wrapping_sub(1));
        }
        before <= LAST
    }
    fn is_unique(&self) -> bool {
        ALONE || self.0.get() == 1
    }
    fn get(&self) -> u32 {
        self.0.get()
    }
}

policy!(Wrapping: BadCount<true, 1, false>, UnsyncWord, UnsyncEvent);
policy!(LastTwice: BadCount<false, 2, false>, UnsyncWord, UnsyncEvent);
policy!(NeverLast: BadCount<false, 0, false>, UnsyncWord, UnsyncEvent);
policy!(AlwaysAlone: BadCount<false, 1, true>, UnsyncWord, UnsyncEvent);

#[test]
fn broken_counts_are_found() {
    failures::<Unsync>().none();
    failures::<Wrapping>().name("a count at its limit sticks");
    failures::<LastTwice>().name("a count gives the last to one");
    failures::<NeverLast>().name("a count gives the last to one");
    failures::<AlwaysAlone>().name("a count tells the only holder");
}

/// Takes refusals for zero, and answers what is new.
struct BadWord<const REFUSES: bool>(Cell<u32>);

// SAFETY: it breaks the law, but nothing is kept apart by it.
unsafe impl<const REFUSES: bool> Word for BadWord<REFUSES> {
    fn new(value: u32) -> Self {
        Self(Cell::new(value))
    }
    fn load(&self) -> u32 {
        self.0.get()
    }
    fn update(&self, mut step: impl FnMut(u32) -> Option<u32>) -> Result<u32, u32> {
        let before = self.0.get();
        match step(before) {
            None if REFUSES => Err(before),
            after => {
                self.0.set(after.unwrap_or_default());
                Ok(self.0.get())
            }
        }
    }
}

policy!(NewForOld: UnsyncCount, BadWord<true>, UnsyncEvent);
policy!(Yielding: UnsyncCount, BadWord<false>, UnsyncEvent);

#[test]
fn broken_words_are_found() {
    failures::<NewForOld>().name("a word moves");
    failures::<Yielding>().name("a refused word stays");
}

const STILL: u8 = 0;
const LOSES: u8 = 1;
const FORGETS: u8 = 2;
const TWICE: u8 = 3;
const LATE: u8 = 4;
const INSIDE: u8 = 5;
const WAITS_FOR_NOTHING: u8 = 6;
const TOGGLES: u8 = 7;
const HOARDS: u8 = 8;

/// An event with room for one waker and one fault.
struct BadEvent<const FAULT: u8> {
    epoch: Cell<u32>,
    waker: RefCell<Option<Waker>>,
}

// SAFETY: not `Sync`.
unsafe impl<const FAULT: u8> Event for BadEvent<FAULT> {
    fn new() -> Self {
        Self {
            epoch: Cell::new(0),
            waker: RefCell::new(None),
        }
    }
    fn epoch(&self) -> Epoch {
        Epoch::new(self.epoch.get())
    }
    fn wait<C: Clock + ?Sized>(&self, seen: Epoch, _: &C, _: Option<Duration>) -> Wake {
        if FAULT == WAITS_FOR_NOTHING || (self.epoch() != seen && FAULT != LATE) {
            Wake::Notified
        } else {
            Wake::Never
        }
    }
    fn notify(&self) {
        if FAULT != STILL {
            self.epoch.set(self.epoch.get() + 1);
        }
        match FAULT {
            FORGETS => core::mem::forget(self.waker.take()),
            TWICE => {
                if let Some(waker) = self.waker.take() {
                    let kept = Some(waker.clone());
                    drop(self.waker.replace(kept));
                    waker.wake();
                }
            }
            INSIDE => {
                let mut waker = self.waker.borrow_mut();
                if let Some(waker) = waker.take() {
                    waker.wake();
                }
            }
            _ => {
                let waker = self.waker.take();
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        }
    }
    fn register(&self, waker: &Waker) {
        if FAULT == TOGGLES
            && let Some(known) = self.waker.take()
            && known.will_wake(waker)
        {
            return;
        }
        let displaced = self.waker.replace(Some(waker.clone()));
        if FAULT != LOSES
            && let Some(displaced) = displaced
        {
            displaced.wake();
        }
    }
}

impl<const FAULT: u8> Drop for BadEvent<FAULT> {
    fn drop(&mut self) {
        if FAULT == HOARDS {
            core::mem::forget(self.waker.take());
        }
    }
}

policy!(Still: UnsyncCount, UnsyncWord, BadEvent<STILL>);
policy!(Loses: UnsyncCount, UnsyncWord, BadEvent<LOSES>);
policy!(Forgets: UnsyncCount, UnsyncWord, BadEvent<FORGETS>);
policy!(Twice: UnsyncCount, UnsyncWord, BadEvent<TWICE>);
policy!(Late: UnsyncCount, UnsyncWord, BadEvent<LATE>);
policy!(Inside: UnsyncCount, UnsyncWord, BadEvent<INSIDE>);
policy!(Toggles: UnsyncCount, UnsyncWord, BadEvent<TOGGLES>);
policy!(Hoards: UnsyncCount, UnsyncWord, BadEvent<HOARDS>);
policy!(WaitsForNothing: UnsyncCount, UnsyncWord, BadEvent<WAITS_FOR_NOTHING>);

#[test]
fn broken_events_are_found() {
    failures::<Still>().name("an epoch counts events");
    failures::<Loses>().name("a displaced waker is woken");
    failures::<Forgets>().name("a registered waker is woken once");
    failures::<Twice>().name("a registered waker is woken once");
    failures::<Late>().name("a past event is not waited for");
    failures::<WaitsForNothing>().name("a wait ends at its deadline");
    failures::<Toggles>().name("a task that registers twice is woken");
    failures::<Hoards>().name("an event that ends lets its wakers go");
}

#[test]
fn a_waker_inside_a_section_is_found() {
    // This event has a cell for a lock, so it panics; a mutex would hang.
    let panic = catch_unwind(failures::<Inside>).unwrap_err();
    let already = panic.downcast_ref::<String>().map(String::as_str);
    assert!(
        already.is_some_and(|message| message.contains("borrowed")),
        "{already:?}"
    );
}

/// A lock whose sections see a copy.
struct Copies<T>(Cell<Option<T>>);

// SAFETY: not `Sync`.
unsafe impl<T> Lock<T> for Copies<T> {
    fn new(value: T) -> Self {
        Self(Cell::new(Some(value)))
    }
    fn with<R>(&self, section: impl FnOnce(&T) -> R) -> R {
        // Taken out, so a section inside finds nothing.
        let value = self.0.take().expect("a section in a section");
        let result = section(&value);
        self.0.set(Some(value));
        result
    }
    fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().as_mut().expect("nobody is inside")
    }
}

/// A policy under which nobody knows who he is.
#[derive(Debug)]
enum Estranged {}

// SAFETY: nothing here is `Sync`.
unsafe impl SyncPolicy for Estranged {
    type Lock<T> = UnsyncLock<T>;
    type Count = UnsyncCount;
    type Word = UnsyncWord;
    type Event = UnsyncEvent;
    const NAME: &'static str = "Estranged";
    fn who() -> Who {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Who::new(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

#[test]
fn a_broken_identity_is_found() {
    failures::<Estranged>().name("a context is itself");
}

/// A policy whose sections do not nest.
#[derive(Debug)]
enum Alone {}

// SAFETY: nothing here is `Sync`.
unsafe impl SyncPolicy for Alone {
    type Lock<T> = Copies<T>;
    type Count = UnsyncCount;
    type Word = UnsyncWord;
    type Event = UnsyncEvent;
    const NAME: &'static str = "Alone";
    fn who() -> Who {
        Who::SOLE
    }
}

#[test]
fn nesting_is_claimed_and_tried() {
    let mut report = Failures::default();
    let tally = policy::<Alone>(Nesting::Forbidden, &mut report);
    report.none();
    assert_eq!(tally.inapplicable, 1);
    assert!(catch_unwind(failures::<Alone>).is_err());
}

/// A count whose constant is another than zero.
struct Two(UnsyncCount);

impl ConstInit for Two {
    const INIT: Self = Self(UnsyncCount::INIT);
}

// SAFETY: as the count inside; nothing is counted by it.
unsafe impl Count for Two {
    fn new(count: u32) -> Self {
        Self(UnsyncCount::new(count))
    }
    fn increment(&self) {
        self.0.increment();
    }
    fn decrement(&self) -> bool {
        self.0.decrement()
    }
    fn is_unique(&self) -> bool {
        self.0.is_unique()
    }
    fn get(&self) -> u32 {
        self.0.get() + 2
    }
}

policy!(StartsAtTwo: Two, UnsyncWord, UnsyncEvent);

#[test]
fn broken_constants_are_found() {
    let mut report = Failures::default();
    let _ = constants::<StartsAtTwo>(&mut report);
    report.name("a constant count and word are zero");
}
