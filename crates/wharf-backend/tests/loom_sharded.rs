//! The pool in shards under the model checker: no slot has two owners wherever it was dropped, whoever gets a recycled one
//! sees what the owner before did, and nobody is refused while a slot is free.

use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::MaybeUninit;

use loom::cell::UnsafeCell;
use loom::thread;
use wharf_backend::{BackendExt, MemBackend, Place, SegmentMut, ShardedPool, SlotControl, Uninit};
use wharf_sync::{Loom, SyncPolicy, Who};

const PAYLOAD: usize = 8;
const SHARDS: usize = 2;

loom::thread_local!(static POST: Cell<usize> = Cell::new(0));

/// Loom, whose threads are told apart by what they [say](stand_at), so that a model is the same in every run.
struct Posted(PhantomData<Loom>);

// SAFETY: all that is shared is shared as under `Loom`.
unsafe impl SyncPolicy for Posted {
    type Lock<T> = <Loom as SyncPolicy>::Lock<T>;
    type Count = <Loom as SyncPolicy>::Count;
    type Word = <Loom as SyncPolicy>::Word;
    type Event = <Loom as SyncPolicy>::Event;
    const NAME: &'static str = "Loom";

    fn who() -> Who {
        Who::new(POST.with(Cell::get))
    }
}

fn stand_at(who: usize) {
    POST.with(|post| post.set(who));
}

type Pool = ShardedPool<'static, Posted, SHARDS>;
type Taken = SegmentMut<&'static Pool, Uninit>;

fn model(run: impl Fn() + Send + Sync + 'static) {
    model_with(3, run);
}

/// Where a wrong outcome needs more changes of context than usual.
fn model_with(preemptions: usize, run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(run);
}

/// A pool of `SLOTS` slots and a note per slot. The model checker fails a run in which two owners of a slot are not ordered.
struct Yard<const SLOTS: usize> {
    pool: &'static Pool,
    base: usize,
    notes: [UnsafeCell<usize>; SLOTS],
}

// SAFETY: the cells are what is under test; loom checks every access to them.
unsafe impl<const SLOTS: usize> Sync for Yard<SLOTS> {}

impl<const SLOTS: usize> Yard<SLOTS> {
    /// Leaked, because threads of loom are `'static`, and a model has few thousand runs.
    fn leak() -> &'static Self {
        let slab = Vec::leak(vec![MaybeUninit::uninit(); PAYLOAD * SLOTS]);
        let base = slab.as_ptr().addr();
        let control = Vec::leak((0..SLOTS).map(|_| SlotControl::new()).collect());
        let pool = Box::leak(Box::new(
            ShardedPool::new(slab, control, PAYLOAD, 1).unwrap(),
        ));
        Box::leak(Box::new(Self {
            pool,
            base,
            notes: core::array::from_fn(|_| UnsafeCell::new(0)),
        }))
    }

    fn slot(&self, segment: &Taken) -> usize {
        match segment.place() {
            Place::Host(address) => (address.addr().get() - self.base) / PAYLOAD,
            Place::Device(_) => panic!("a pool is host memory"),
        }
    }

    /// Marks a slot as its owner may.
    fn mark(&self, segment: &Taken) {
        // SAFETY: whoever has the slot has its note; loom checks.
        self.notes[self.slot(segment)].with_mut(|note| unsafe { *note += 1 });
    }

    fn take(&self) -> Option<Taken> {
        let segment = self.pool.alloc(PAYLOAD).ok()?;
        self.mark(&segment);
        Some(segment)
    }

    /// Nothing is lost, nothing doubled, and every owner left a mark.
    fn check(&self, marks: usize) {
        assert_eq!(self.pool.census().in_use, 0);
        let all: Vec<_> = std::iter::from_fn(|| self.pool.alloc(0).ok()).collect();
        let mut slots: Vec<_> = all.iter().map(|segment| self.slot(segment)).collect();
        slots.sort_unstable();
        assert_eq!(slots, Vec::from_iter(0..SLOTS));
        let found: usize = self
            .notes
            .iter()
            // SAFETY: the other threads have ended; loom checks.
            .map(|note| note.with(|note| unsafe { *note }))
            .sum();
        assert_eq!(found, marks);
    }
}

#[test]
fn a_slot_that_comes_back_from_elsewhere_is_fit_to_use_again() {
    model(|| {
        let yard = Yard::<2>::leak();
        stand_at(0);
        let held = (yard.take().unwrap(), yard.take().unwrap());
        // Both shards are empty. One slot comes home from elsewhere, and the other is given back at home.
        let other = thread::spawn(move || {
            stand_at(1);
            drop(held);
        });
        let marks = (0..2).filter_map(|_| yard.take().map(drop)).count();
        other.join().unwrap();
        yard.check(2 + marks);
    });
}

#[test]
fn near_and_far_drops_of_one_shard_lose_nothing() {
    model(|| {
        let yard = Yard::<4>::leak();
        stand_at(0);
        let (near, far) = (yard.take().unwrap(), yard.take().unwrap());
        let other = thread::spawn(move || {
            stand_at(1);
            drop(far);
        });
        drop(near);
        let again = (yard.take().unwrap(), yard.take().unwrap());
        other.join().unwrap();
        drop(again);
        yard.check(4);
    });
}

#[test]
fn a_shard_is_robbed_while_its_own_allocate() {
    model(|| {
        // Both slots of shard 1 are free, and both contexts want them.
        let yard = Yard::<4>::leak();
        stand_at(0);
        let mine = (yard.take().unwrap(), yard.take().unwrap());
        let other = thread::spawn(|| {
            stand_at(1);
            drop(yard.take().unwrap());
        });
        drop(yard.take().expect("one is left at least"));
        other.join().unwrap();
        drop(mine);
        yard.check(4);
    });
}

#[test]
fn nobody_is_refused_while_a_slot_is_free() {
    model(|| {
        // Slot 0 is held, slot 1 is free. The other context frees slot 0 first and takes slot 1 then: at every moment one
        // of the two is free, though not always the one that is looked at.
        let yard = Yard::<2>::leak();
        stand_at(0);
        let held = yard.take().unwrap();
        let other = thread::spawn(move || {
            stand_at(1);
            drop(held);
            drop(yard.take().expect("slot 1 is free"));
        });
        let mine = yard.take();
        assert!(mine.is_some(), "one slot was free throughout");
        other.join().unwrap();
        drop(mine);
        yard.check(3);
        // Those of `check`, which takes until there is nothing left.
        assert_eq!(yard.pool.census().refused, 1);
    });
}

#[test]
fn nobody_is_refused_while_slots_go_round() {
    model_with(6, || {
        // As above, three times, and in the second as a context of the other shard: so both slots are dropped far from
        // home, and taken again, while somebody is at the last attempt.
        let yard = Yard::<2>::leak();
        stand_at(0);
        let mut held = yard.take().unwrap();
        let other = thread::spawn(move || {
            for who in [1, 0, 1] {
                stand_at(who);
                drop(held);
                held = yard.take().expect("the slot of this shard is free");
            }
            drop(held);
        });
        let mine = yard.take();
        assert!(mine.is_some(), "one slot was free throughout");
        drop(mine);
        other.join().unwrap();
        yard.check(5);
    });
}

#[test]
fn two_refusals_at_once_do_not_wait_for_each_other() {
    model(|| {
        let yard = Yard::<2>::leak();
        stand_at(0);
        let held = (yard.take().unwrap(), yard.take().unwrap());
        let other = thread::spawn(|| {
            stand_at(1);
            assert!(yard.take().is_none());
        });
        assert!(yard.take().is_none());
        other.join().unwrap();
        assert_eq!(yard.pool.census().refused, 2);
        drop(held);
        yard.check(2);
    });
}

#[test]
fn a_stale_pointer_is_told_from_a_live_one_while_others_drop() {
    model(|| {
        let yard = Yard::<2>::leak();
        stand_at(0);
        let (kept, gone) = (yard.take().unwrap(), yard.take().unwrap());
        let (stale, live) = (gone.header_ptr(), kept.header_ptr());
        let address = stale.addr();
        let other = thread::spawn(move || {
            stand_at(1);
            drop(kept);
        });
        drop(gone);
        assert!(!yard.pool.may_own(live.with_addr(address)));
        other.join().unwrap();
        yard.check(2);
    });
}
