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

    /// Takes `waker`, and leaves it there if one that wakes the same task is known. Returns the waker that
    /// had to make room.
    ///
    /// Wakers run foreign code when they are woken and when they are dropped. Do either outside of any critical
    /// section: wake the one that is returned, and drop the one that is left.
    #[must_use = "the displaced waker must be woken, or its task sleeps for ever"]
    pub fn insert(&mut self, waker: &mut Option<Waker>) -> Option<Waker> {
        let new = waker.as_ref()?;
        if self
            .slots
            .iter()
            .flatten()
            .any(|known| known.will_wake(new))
        {
            return None;
        }
        if let Some(free) = self.slots.iter_mut().find(|slot| slot.is_none()) {
            *free = waker.take();
            return None;
        }
        let slot = &mut self.slots[self.oldest % N];
        self.oldest = (self.oldest + 1) % N;
        core::mem::replace(slot, waker.take())
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
        let mut insert = |id| {
            let mut new = Some(waker(id));
            assert!(set.insert(&mut new).is_none());
            new.is_none()
        };
        assert!(insert(1), "taken");
        assert!(!insert(1), "known");
        assert!(insert(2), "taken");
        assert_eq!(set.take().iter().flatten().count(), 2);
        assert_eq!(set.take().iter().flatten().count(), 0);
    }

    #[test]
    fn a_full_set_gives_its_oldest_back() {
        let mut set = WakerSet::<2>::new();
        for (id, displaced) in [
            (1, None),
            (2, None),
            (3, Some(1)),
            (4, Some(2)),
            (5, Some(3)),
        ] {
            let out = set.insert(&mut Some(waker(id)));
            assert_eq!(out.is_some(), displaced.is_some());
            assert!(out.is_none_or(|out| displaced.is_some_and(|id| out.will_wake(&waker(id)))));
        }
    }
}
