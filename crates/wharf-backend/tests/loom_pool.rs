//! The pool's free list under the model checker: no slot has two owners, and whoever gets a recycled one sees
//! what the owner before did.

use core::mem::MaybeUninit;

use loom::cell::UnsafeCell;
use loom::thread;
use wharf_backend::{
    BackendExt, MemBackend, Place, PoolBackend, SegmentMut, SlotControl, StaticPool, Uninit,
};
use wharf_sync::Loom;

const PAYLOAD: usize = 8;

fn model(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

/// A pool and a note per slot. The model checker fails a run in which two owners of a slot are not ordered.
struct Yard<B: 'static, const SLOTS: usize> {
    pool: &'static B,
    base: usize,
    notes: [UnsafeCell<usize>; SLOTS],
}

// SAFETY: the cells are what is under test; loom checks every access to them.
unsafe impl<B: Sync, const SLOTS: usize> Sync for Yard<B, SLOTS> {}

fn address<B: MemBackend>(segment: &SegmentMut<&B, Uninit>) -> usize {
    match segment.place() {
        Place::Host(base) => base.addr().get(),
        Place::Device(_) => panic!("a pool is host memory"),
    }
}

impl<B: MemBackend<Policy = Loom> + Sync, const SLOTS: usize> Yard<B, SLOTS> {
    /// Leaked, because threads of loom are `'static`, and a model has few thousand runs.
    fn leak(pool: B) -> &'static Self {
        let pool: &B = Box::leak(Box::new(pool));
        // The first slot is known only while the pool is fresh, and this makes it a recycled one.
        let base = address(&pool.alloc(0).unwrap());
        Box::leak(Box::new(Self {
            pool,
            base,
            notes: core::array::from_fn(|_| UnsafeCell::new(0)),
        }))
    }

    /// Takes a slot, if there is one, owns it for a moment, and gives it back.
    fn visit(&'static self) -> bool {
        let Ok(segment) = self.pool.alloc(PAYLOAD) else {
            return false;
        };
        let slot = (address(&segment) - self.base) / PAYLOAD;
        let segment = segment.filled(0xA5).unwrap();
        // SAFETY: whoever has the slot has its note; loom checks.
        self.notes[slot].with_mut(|note| unsafe { *note += 1 });
        thread::yield_now();
        assert_eq!(segment.host().unwrap(), [0xA5; PAYLOAD]);
        // SAFETY: as above.
        self.notes[slot].with_mut(|note| unsafe { *note += 1 });
        true
    }

    /// Nothing is lost, nothing doubled, and every visit left its two marks.
    fn check(&'static self, visits: usize) {
        assert_eq!(self.pool.census().in_use, 0);
        let all: Vec<_> = std::iter::from_fn(|| self.pool.alloc(0).ok()).collect();
        assert_eq!(all.len(), SLOTS);
        let mut slots: Vec<_> = all.iter().map(address).collect();
        slots.sort_unstable();
        slots.dedup();
        assert_eq!(slots.len(), SLOTS);
        let marks: usize = self
            .notes
            .iter()
            // SAFETY: the other thread has ended; loom checks.
            .map(|note| note.with(|note| unsafe { *note }))
            .sum();
        assert_eq!(marks, 2 * visits);
    }
}

fn lent<const SLOTS: usize>() -> PoolBackend<'static, Loom> {
    let slab = Vec::leak(vec![MaybeUninit::uninit(); PAYLOAD * SLOTS]);
    let control = Vec::leak((0..SLOTS).map(|_| SlotControl::new()).collect());
    PoolBackend::new(slab, control, PAYLOAD, 1).unwrap()
}

#[test]
fn one_slot_has_one_owner_at_a_time() {
    model(|| {
        let yard = Yard::<_, 1>::leak(lent::<1>());
        let other = thread::spawn(|| usize::from(yard.visit()) + usize::from(yard.visit()));
        let here = usize::from(yard.visit()) + usize::from(yard.visit());
        let visits = here + other.join().unwrap();
        yard.check(visits);
        assert_eq!(yard.pool.census().refused, 4 - visits + 1);
    });
}

#[test]
fn two_slots_are_never_the_same() {
    model(|| {
        let yard = Yard::<_, 2>::leak(lent::<2>());
        let other = thread::spawn(|| yard.visit() && yard.visit());
        assert!(yard.visit() && yard.visit(), "one for each, always");
        assert!(other.join().unwrap());
        yard.check(4);
    });
}

#[test]
fn a_segment_given_back_elsewhere_is_fit_to_use_again() {
    model(|| {
        let yard = Yard::<_, 1>::leak(StaticPool::<Loom, PAYLOAD, 1>::fresh());
        let segment = yard.pool.alloc(PAYLOAD).unwrap();
        // SAFETY: the slot is ours; loom checks.
        yard.notes[0].with_mut(|note| unsafe { *note += 2 });
        let other = thread::spawn(move || drop(segment));
        let visits = 1 + usize::from(yard.visit());
        other.join().unwrap();
        yard.check(visits);
    });
}

#[test]
fn a_stale_pointer_is_told_from_a_live_one_while_others_allocate() {
    model(|| {
        let yard = Yard::<_, 2>::leak(lent::<2>());
        let live = yard.pool.alloc(0).unwrap();
        let (header, _) = live.into_raw();
        let address = header.addr();
        let other = thread::spawn(|| yard.visit());
        assert!(yard.pool.may_own(header.map_addr(|_| address)));
        // SAFETY: from `into_raw` above, put together once.
        drop(unsafe { SegmentMut::<_, Uninit>::from_raw(header, yard.pool) }.unwrap());
        let visits = usize::from(other.join().unwrap());
        assert!(!yard.pool.may_own(header));
        yard.check(visits);
    });
}
