//! Events that hand things out wrongly, one by one.

use std::cell::{Cell, RefCell};
use std::panic::catch_unwind;
use std::task::Waker;
use std::time::Duration;

use wharf_sync::{
    Clock, Epoch, Event, SyncPolicy, UnsyncCount, UnsyncLock, UnsyncWord, Wake, WakerPlace,
    WakerSet, Who,
};

use super::failures;

const RIGHT: u8 = 0;
const STILL: u8 = 1;
const NEVER: u8 = 2;
const SKIPS: u8 = 3;
const FORGETS_DISPLACED: u8 = 4;
const ONLY_QUEUE: u8 = 5;
const LOSES_PLACES: u8 = 6;
const STAYS: u8 = 7;
const NEVER_SPENT: u8 = 8;
const INSIDE: u8 = 9;

/// An event with room for three who queue and three who do not, and one fault.
struct OneByOne<const FAULT: u8> {
    epoch: Cell<u32>,
    queue: RefCell<WakerSet<3>>,
    others: RefCell<WakerSet<3>>,
}

impl<const FAULT: u8> OneByOne<FAULT> {
    fn happen(&self) {
        self.epoch.set(self.epoch.get() + 1);
    }

    fn wake(wakers: impl IntoIterator<Item = Option<Waker>>) {
        wakers.into_iter().flatten().for_each(Waker::wake);
    }
}

// SAFETY: not `Sync`.
unsafe impl<const FAULT: u8> Event for OneByOne<FAULT> {
    fn new() -> Self {
        Self {
            epoch: Cell::new(0),
            queue: RefCell::new(WakerSet::new()),
            others: RefCell::new(WakerSet::new()),
        }
    }
    fn epoch(&self) -> Epoch {
        Epoch::new(self.epoch.get())
    }
    fn wait<C: Clock + ?Sized>(&self, seen: Epoch, _: &C, _: Option<Duration>) -> Wake {
        if self.epoch() == seen {
            Wake::Never
        } else {
            Wake::Notified
        }
    }
    fn notify(&self) {
        self.happen();
        let (queue, others) = (
            self.queue.borrow_mut().take(),
            self.others.borrow_mut().take(),
        );
        Self::wake(queue);
        Self::wake(others);
    }
    fn notify_one(&self) {
        if FAULT != STILL {
            self.happen();
        }
        if FAULT == NEVER {
            return;
        }
        if FAULT != ONLY_QUEUE {
            let others = self.others.borrow_mut().take();
            Self::wake(others);
        }
        if FAULT == INSIDE {
            let mut queue = self.queue.borrow_mut();
            let first = queue.take_one();
            Self::wake(first);
            return;
        }
        let first = self.queue.borrow_mut().take_one();
        if FAULT == SKIPS {
            let second = self.queue.borrow_mut().take_one();
            for mut skipped in first {
                let mut last = WakerPlace::new();
                let _ = self.queue.borrow_mut().queue(&mut last, &mut skipped);
            }
            Self::wake(second);
        } else {
            Self::wake(first);
        }
    }
    fn register(&self, waker: &Waker) {
        let mut waker = Some(waker.clone());
        let displaced = self.others.borrow_mut().insert(&mut waker);
        Self::wake([displaced]);
    }
    fn queue(&self, place: &mut WakerPlace, waker: &Waker) {
        if FAULT == LOSES_PLACES {
            *place = WakerPlace::new();
        }
        let mut waker = Some(waker.clone());
        let displaced = self.queue.borrow_mut().queue(place, &mut waker);
        if FAULT != FORGETS_DISPLACED {
            Self::wake([displaced]);
        }
    }
    fn withdraw(&self, place: &mut WakerPlace) -> bool {
        if FAULT == STAYS || place.is_none() {
            return true;
        }
        let waker = self.queue.borrow_mut().withdraw(place);
        waker.is_some() || FAULT == NEVER_SPENT
    }
}

policy!(Right: UnsyncCount, UnsyncWord, OneByOne<RIGHT>);
policy!(Still: UnsyncCount, UnsyncWord, OneByOne<STILL>);
policy!(Never: UnsyncCount, UnsyncWord, OneByOne<NEVER>);
policy!(Skips: UnsyncCount, UnsyncWord, OneByOne<SKIPS>);
policy!(ForgetsDisplaced: UnsyncCount, UnsyncWord, OneByOne<FORGETS_DISPLACED>);
policy!(OnlyQueue: UnsyncCount, UnsyncWord, OneByOne<ONLY_QUEUE>);
policy!(LosesPlaces: UnsyncCount, UnsyncWord, OneByOne<LOSES_PLACES>);
policy!(Stays: UnsyncCount, UnsyncWord, OneByOne<STAYS>);
policy!(NeverSpent: UnsyncCount, UnsyncWord, OneByOne<NEVER_SPENT>);
policy!(Inside: UnsyncCount, UnsyncWord, OneByOne<INSIDE>);

#[test]
fn an_event_with_a_queue_of_its_own_passes() {
    failures::<Right>().none();
}

#[test]
fn broken_queues_are_found() {
    failures::<Still>().name("waking one is an event");
    failures::<Never>().name("those who wait are served one by one");
    failures::<Skips>().name("of those who queue the first is woken");
    failures::<ForgetsDisplaced>().name("nobody who queues is forgotten");
    failures::<OnlyQueue>().name("waking one wakes who has no place");
    failures::<LosesPlaces>().name("who queues again keeps the place");
    failures::<Stays>().name("who leaves the queue is not waited for");
    failures::<NeverSpent>().name("a wait that is given up passes its wake on");
}

#[test]
fn a_waker_of_a_queue_inside_a_section_is_found() {
    let panic = catch_unwind(failures::<Inside>).unwrap_err();
    let already = panic.downcast_ref::<String>().map(String::as_str);
    assert!(
        already.is_some_and(|message| message.contains("borrowed")),
        "{already:?}"
    );
}
