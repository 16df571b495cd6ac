//! A bounded set of wakers that loses none.

use core::task::Waker;

use crate::ConstInit;

/// Up to `N` wakers, without a heap.
///
/// When a further waker arrives, the oldest must make room: [`insert`](Self::insert) returns it, and the caller wakes
/// it. Its task then polls again and registers again, so with more than `N` tasks on one event they
/// take turns instead of sleeping for ever. (The same answer to the same question as in `embassy-sync`'s multi-waker.)
#[derive(Debug)]
pub struct WakerSet<const N: usize> {
    slots: [Option<Waker>; N],
    oldest: usize,
}

impl<const N: usize> ConstInit for WakerSet<N> {
    const INIT: Self = Self::new();
}

impl<const N: usize> Default for WakerSet<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> WakerSet<N> {
    /// An empty set.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(N > 0, "a waker set needs room for one waker") };
        Self {
            slots: [const { None }; N],
            oldest: 0,
        }
    }

    /// Adds `waker`, unless one that wakes the same task is there. Returns the waker that had to make
    /// room: wake it, outside of any critical section.
    #[must_use = "the displaced waker must be woken, or its task sleeps for ever"]
    pub fn insert(&mut self, waker: Waker) -> Option<Waker> {
        if self
            .slots
            .iter()
            .flatten()
            .any(|known| known.will_wake(&waker))
        {
            return None;
        }
        if let Some(free) = self.slots.iter_mut().find(|slot| slot.is_none()) {
            *free = Some(waker);
            return None;
        }
        let slot = &mut self.slots[self.oldest % N];
        self.oldest = (self.oldest + 1) % N;
        slot.replace(waker)
    }

    /// Takes all wakers out.
    #[must_use = "dropping a waker does not wake its task"]
    pub fn take(&mut self) -> [Option<Waker>; N] {
        self.oldest = 0;
        core::mem::replace(&mut self.slots, [const { None }; N])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::task::{RawWaker, RawWakerVTable};

    // A waker told apart by its data pointer; waking is not observed here.
    #[expect(unsafe_code, reason = "a waker with an identity needs a vtable")]
    fn waker(id: usize) -> Waker {
        static VTABLE: RawWakerVTable =
            RawWakerVTable::new(|p| RawWaker::new(p, &VTABLE), |_| (), |_| (), |_| ());
        // SAFETY: every function of the table is a no-op on the pointer, which is never followed.
        unsafe { Waker::from_raw(RawWaker::new(core::ptr::without_provenance(id), &VTABLE)) }
    }

    #[test]
    fn the_same_task_takes_one_place() {
        let mut set = WakerSet::<2>::new();
        assert!(set.insert(waker(1)).is_none());
        assert!(set.insert(waker(1)).is_none());
        assert!(set.insert(waker(2)).is_none());
        assert_eq!(set.take().iter().flatten().count(), 2);
        assert_eq!(set.take().iter().flatten().count(), 0);
    }

    #[test]
    fn a_full_set_gives_its_oldest_back() {
        let mut set = WakerSet::<2>::new();
        for id in [1, 2] {
            assert!(set.insert(waker(id)).is_none());
        }
        assert!(set.insert(waker(3)).is_some_and(|w| w.will_wake(&waker(1))));
        assert!(set.insert(waker(4)).is_some_and(|w| w.will_wake(&waker(2))));
        assert!(set.insert(waker(5)).is_some_and(|w| w.will_wake(&waker(3))));
    }
}
