//! A bounded set of wakers that loses none.

use core::task::Waker;

use crate::ConstInit;

/// Up to `N` wakers, without a heap. What an [`Event`](crate::Event) keeps inside its lock.
///
/// Some stand in a queue of which [`take_one`](Self::take_one) takes the first
/// ([`queue`](Self::queue)); the others are woken together ([`insert`](Self::insert)).
///
/// When a further waker arrives, the oldest must make room: it is returned, and the caller wakes
/// it. Its task then polls again and registers again, so with more than `N` tasks on one event they
/// take turns instead of sleeping for ever. (The same answer to the same question as in `embassy-sync`'s multi-waker.)
///
/// Wakers run foreign code when they are woken and when they are dropped. Do either outside of any
/// critical section: wake the ones that are returned, and drop what is left of the ones that were given.
#[derive(Debug)]
pub struct WakerSet<const N: usize> {
    slots: [Slot; N],
    /// The stamp of whoever comes next. Even; it steps by two and wraps.
    next: u32,
}

#[derive(Debug)]
struct Slot {
    waker: Option<Waker>,
    /// When it came, and in the lowest bit whether it queues. Means nothing without a waker.
    stamp: u32,
}

const QUEUES: u32 = 1;

/// A waiter's place in the queue of an event: see [`Event::queue`](crate::Event::queue).
///
/// It belongs to one event. After two thousand million further waiters on that event, a place that was never
/// withdrawn may be taken for that of another one.
#[derive(Debug, Default)]
#[must_use = "a place that is not withdrawn keeps its waker, which may be woken in place of another"]
pub struct WakerPlace {
    /// Zero: none. The stamp of a waker that queues is odd.
    stamp: u32,
}

impl WakerPlace {
    /// No place yet.
    pub const fn new() -> Self {
        Self { stamp: 0 }
    }

    /// Whether its holder has neither queued yet nor withdrawn.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.stamp == 0
    }
}

impl<const N: usize> ConstInit for WakerSet<N> {
    const INIT: Self = Self::new();
}

impl<const N: usize> Default for WakerSet<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl Slot {
    const EMPTY: Self = Self {
        waker: None,
        stamp: 0,
    };

    fn queues(&self) -> bool {
        self.waker.is_some() && self.stamp & QUEUES != 0
    }

    fn age(&self, next: u32) -> u32 {
        next.wrapping_sub(self.stamp & !QUEUES)
    }
}

impl<const N: usize> WakerSet<N> {
    /// An empty set.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(N > 0, "a waker set needs room for one waker") };
        Self {
            slots: [Slot::EMPTY; N],
            next: 0,
        }
    }

    /// Takes `waker`, and leaves it there if one that wakes the same task is known. Returns the waker that
    /// had to make room.
    #[must_use = "the displaced waker must be woken, or its task sleeps for ever"]
    pub fn insert(&mut self, waker: &mut Option<Waker>) -> Option<Waker> {
        let new = waker.as_ref()?;
        // One that queues does not count: it may be withdrawn.
        let knows = |slot: &Slot| {
            !slot.queues()
                && slot
                    .waker
                    .as_ref()
                    .is_some_and(|waker| waker.will_wake(new))
        };
        if self.slots.iter().any(knows) {
            return None;
        }
        self.put(waker, 0).0
    }

    /// Takes `waker` to the end of the queue. A waiter that has its `place` there keeps it: its waker is replaced, and
    /// what is left in `waker` is the other one. Returns the waker that had to make room.
    #[must_use = "the displaced waker must be woken, or its task sleeps for ever"]
    pub fn queue(&mut self, place: &mut WakerPlace, waker: &mut Option<Waker>) -> Option<Waker> {
        let new = waker.as_ref()?;
        if let Some(slot) = self.find(place) {
            let known = slot.waker.as_ref();
            if !known.is_some_and(|known| known.will_wake(new)) {
                core::mem::swap(&mut slot.waker, waker);
            }
            return None;
        }
        let (displaced, stamp) = self.put(waker, QUEUES);
        place.stamp = stamp;
        displaced
    }

    /// Takes the waker at `place` out of the queue, to be dropped. `None`: it is not there any more, because it was
    /// taken out to be woken.
    #[must_use = "the waker is to be dropped outside of the section, and that there is none must be known"]
    pub fn withdraw(&mut self, place: &mut WakerPlace) -> Option<Waker> {
        let waker = self.find(place).and_then(|slot| slot.waker.take());
        *place = WakerPlace::new();
        waker
    }

    /// Takes all wakers out.
    #[must_use = "dropping a waker does not wake its task"]
    pub fn take(&mut self) -> [Option<Waker>; N] {
        self.take_those(|_| true)
    }

    /// Takes out the first of those who queue, and all who do not queue: it is not known whether anybody still
    /// waits behind one of those.
    #[must_use = "dropping a waker does not wake its task"]
    pub fn take_one(&mut self) -> [Option<Waker>; N] {
        let queue = self.slots.iter().filter(|slot| slot.queues());
        let first = queue.max_by_key(|slot| slot.age(self.next));
        let first = first.map(|slot| slot.stamp);
        self.take_those(|slot| !slot.queues() || Some(slot.stamp) == first)
    }

    fn take_those(&mut self, which: impl Fn(&Slot) -> bool) -> [Option<Waker>; N] {
        let mut taken = [const { None }; N];
        for (slot, taken) in self.slots.iter_mut().zip(&mut taken) {
            if which(slot) {
                *taken = slot.waker.take();
            }
        }
        taken
    }

    fn find(&mut self, place: &WakerPlace) -> Option<&mut Slot> {
        let mut queue = self.slots.iter_mut().filter(|slot| slot.queues());
        queue.find(|slot| slot.stamp == place.stamp)
    }

    /// Puts `waker` where there is room, or in place of the oldest, which is returned; and its stamp.
    fn put(&mut self, waker: &mut Option<Waker>, queues: u32) -> (Option<Waker>, u32) {
        // `next` is even, so this does not overflow.
        let stamp = self.next + queues;
        let room = |slot: &&mut Slot| (slot.waker.is_none(), slot.age(self.next));
        let displaced = match self.slots.iter_mut().max_by_key(room) {
            Some(slot) => {
                slot.stamp = stamp;
                core::mem::replace(&mut slot.waker, waker.take())
            }
            // There is a slot; if there were none, this one would have to make room.
            None => waker.take(),
        };
        self.next = self.next.wrapping_add(2);
        (displaced, stamp)
    }
}

/// Wakes all of them, also those after one that panics.
pub(crate) fn wake_all(wakers: impl IntoIterator<Item = Option<Waker>>) {
    struct Rest<I: Iterator<Item = Option<Waker>>>(I);
    impl<I: Iterator<Item = Option<Waker>>> Drop for Rest<I> {
        fn drop(&mut self) {
            // Empty unless one has panicked. (A second panic aborts, as panics while unwinding do.)
            self.0.by_ref().flatten().for_each(Waker::wake);
        }
    }
    let mut rest = Rest(wakers.into_iter());
    rest.0.by_ref().flatten().for_each(Waker::wake);
}
