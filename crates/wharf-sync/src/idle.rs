//! An event for policies whose contexts cannot be put to sleep.
#![allow(
    unsafe_code,
    reason = "implements an unsafe trait; contains no unsafe operation"
)]

use core::cell::RefCell;
use core::fmt;
use core::task::Waker;
use core::time::Duration;

use crate::wakers::wake_all;
use crate::{Clock, ConstInit, Epoch, Event, Lock, SyncPolicy, Wake, WakerPlace, WakerSet, Word};

/// An event over the lock and the word of a policy: the one of `Critical`, of `Spin`, and of a policy of
/// your own that has nothing better. A blocking wait runs the clock's idle hook until the event happens.
///
/// It has room for `N` wakers; see [`WakerSet`] for what happens to more.
pub struct IdleEvent<P: SyncPolicy, const N: usize> {
    epoch: P::Word,
    wakers: P::Lock<RefCell<WakerSet<N>>>,
}

impl<P: SyncPolicy, const N: usize> IdleEvent<P, N> {
    fn happen(&self, take: impl FnOnce(&mut WakerSet<N>) -> [Option<Waker>; N]) {
        // `Some` always, so the update never refuses.
        let _ = self.epoch.update(|epoch| Some(epoch.wrapping_add(1)));
        let woken = self.with(take);
        wake_all(woken);
    }

    fn with<R>(&self, section: impl FnOnce(&mut WakerSet<N>) -> R) -> R {
        // No section is inside another one, so the borrow is never refused.
        self.wakers.with(|wakers| section(&mut wakers.borrow_mut()))
    }
}

// SAFETY: a word and a lock of the policy, and nothing else is shared.
unsafe impl<P: SyncPolicy, const N: usize> Event for IdleEvent<P, N> {
    fn new() -> Self {
        Self {
            epoch: P::Word::new(0),
            wakers: P::Lock::new(RefCell::new(WakerSet::new())),
        }
    }
    fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load())
    }
    fn wait<C: Clock + ?Sized>(&self, seen: Epoch, clock: &C, deadline: Option<Duration>) -> Wake {
        loop {
            if self.epoch() != seen {
                return Wake::Notified;
            }
            if deadline.is_some_and(|deadline| clock.now() >= deadline) {
                return Wake::TimedOut;
            }
            clock.idle();
        }
    }
    fn notify(&self) {
        self.happen(WakerSet::take);
    }
    fn notify_one(&self) {
        self.happen(WakerSet::take_one);
    }
    // In all three: cloned before the section, woken and dropped after it, because each runs code that is not ours.
    fn register(&self, waker: &Waker) {
        let mut waker = Some(waker.clone());
        if let Some(displaced) = self.with(|wakers| wakers.insert(&mut waker)) {
            displaced.wake();
        }
    }
    fn queue(&self, place: &mut WakerPlace, waker: &Waker) {
        let mut waker = Some(waker.clone());
        if let Some(displaced) = self.with(|wakers| wakers.queue(place, &mut waker)) {
            displaced.wake();
        }
    }
    fn withdraw(&self, place: &mut WakerPlace) -> bool {
        if place.is_none() {
            return true;
        }
        let waker = self.with(|wakers| wakers.withdraw(place));
        waker.is_some()
    }
}

impl<P: SyncPolicy, const N: usize> ConstInit for IdleEvent<P, N>
where
    P::Word: ConstInit,
    P::Lock<RefCell<WakerSet<N>>>: ConstInit,
{
    const INIT: Self = Self {
        epoch: ConstInit::INIT,
        wakers: ConstInit::INIT,
    };
}

impl<P: SyncPolicy, const N: usize> fmt::Debug for IdleEvent<P, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdleEvent")
            .field("epoch", &self.epoch.load())
            .finish_non_exhaustive()
    }
}
