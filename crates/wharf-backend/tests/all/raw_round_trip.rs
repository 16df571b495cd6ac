//! Pointers that a pool never vended, or that it has taken back, are refused by `from_raw`, and leave
//! the pool as it was.

use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::collections::BTreeSet;

use wharf_backend::{
    BackendExt, ForeignSegment, Header, MemBackend, PoolBackend, SegmentMut, SlotControl,
    StaticPool, Uninit,
};
use wharf_sync::Unsync;

type Raw = NonNull<Header<Unsync>>;
const SLOTS: usize = 4;

/// Offers `header` to `pool`, which must refuse it.
fn refused<B: MemBackend<Policy = Unsync>>(pool: &B, header: Raw, what: &str) {
    let before = pool.census();
    // SAFETY: no handle to `header` exists and, as the assertion finds, none is made: a pointer that the
    // backend refuses is harmless.
    let answer = unsafe { SegmentMut::<&B, Uninit>::from_raw(header, pool) };
    let error = answer.map(core::mem::forget).expect_err(what);
    let address = header.addr().get();
    assert_eq!(error, ForeignSegment { address }, "{what}");
    assert!(error.to_string().contains(&format!("{address:#x}")));
    assert_eq!(pool.census(), before, "a refused pointer changes nothing");
}

/// Everything can be had, and everything is distinct.
fn intact<B: MemBackend<Policy = Unsync>>(pool: &B) {
    assert_eq!(pool.census().in_use, 0);
    let all: Vec<_> = std::iter::from_fn(|| pool.alloc(8).ok()).collect();
    assert_eq!(all.len(), SLOTS);
    let places: BTreeSet<_> = all
        .into_iter()
        .map(|segment| segment.filled(1).unwrap().as_ref_address())
        .collect();
    assert_eq!(places.len(), SLOTS);
    assert_eq!(pool.census().in_use, 0);
}

trait Address {
    fn as_ref_address(&self) -> usize;
}
impl<B: MemBackend> Address for SegmentMut<&B> {
    fn as_ref_address(&self) -> usize {
        self.host().unwrap().as_ptr().addr()
    }
}

/// A segment taken apart and put together is the same segment.
fn round_trip<B: MemBackend<Policy = Unsync>>(pool: &B) {
    let segment = pool.alloc(5).unwrap().init_from(b"cargo").unwrap();
    let (header, reference) = segment.into_raw();
    assert_eq!(pool.census().in_use, 1, "taken apart it still counts");
    // SAFETY: from `into_raw` of an initialised handle just above.
    let segment = unsafe { SegmentMut::<&B>::from_raw(header, reference) }.unwrap();
    assert_eq!(segment.host().unwrap(), b"cargo");
    drop(segment);
    assert_eq!(pool.census().in_use, 0);
}

fn hostile_pointers<B: MemBackend<Policy = Unsync>>(pool: &B) {
    round_trip(pool);

    // One slot was carved so far; it was given back.
    let (first, _) = pool.alloc(8).unwrap().into_raw();
    let (second, _) = pool.alloc(8).unwrap().into_raw();
    let byte = |header: Raw, offset: usize| header.map_addr(|a| a.saturating_add(offset));
    let size = size_of::<Header<Unsync>>();
    assert_eq!(byte(first, size), second, "headers lie side by side");

    for offset in 1..size {
        refused(pool, byte(first, offset), "interior, and misaligned or not");
    }
    for slot in 2..SLOTS {
        refused(pool, byte(first, slot * size), "never vended");
    }
    refused(pool, byte(first, SLOTS * size), "one past the last");
    refused(pool, byte(first, (SLOTS + 100) * size), "beyond");
    refused(
        pool,
        first.map_addr(|a| (a.get() - size).try_into().unwrap()),
        "before the first",
    );
    refused(pool, NonNull::dangling(), "dangling");
    refused(
        pool,
        first.map_addr(|_| usize::MAX.try_into().unwrap()),
        "the end of memory",
    );
    let local = Header::<Unsync>::new(8);
    refused(pool, NonNull::from(&local), "somebody else's header");
    let other = StaticPool::<Unsync, 8, SLOTS>::new();
    let (foreign, _) = other.alloc(8).unwrap().into_raw();
    refused(pool, foreign, "another pool's header");
    assert!(other.may_own(foreign));

    // Given back, and then once more.
    // SAFETY: from `into_raw` above, put together once.
    drop(unsafe { SegmentMut::<&B, Uninit>::from_raw(first, pool) }.unwrap());
    refused(pool, first, "given back already: top of the free list");
    // SAFETY: as above.
    drop(unsafe { SegmentMut::<&B, Uninit>::from_raw(second, pool) }.unwrap());
    refused(pool, second, "given back already: top of the free list");
    refused(pool, first, "given back already: deeper in the free list");
    intact(pool);
    refused(pool, first, "given back already, with all slots carved");
}

#[test]
fn a_lent_pool_refuses_what_it_never_vended() {
    let mut slab = [MaybeUninit::uninit(); 8 * SLOTS];
    let mut control = [const { SlotControl::NEW }; SLOTS];
    let pool = PoolBackend::new(&mut slab, &mut control, 8, 1).unwrap();
    hostile_pointers(&pool);
}

#[test]
fn control_blocks_beyond_the_last_slot_are_not_its_own() {
    let mut slab = [MaybeUninit::uninit(); 8 * 2];
    let mut control = [const { SlotControl::NEW }; SLOTS];
    let pool = PoolBackend::new(&mut slab, &mut control, 8, 1).unwrap();
    let (first, _) = pool.alloc(8).unwrap().into_raw();
    let (second, _) = pool.alloc(8).unwrap().into_raw();
    let past = second.map_addr(|a| a.saturating_add(size_of::<Header<Unsync>>()));
    refused(&pool, past, "a control block without a slot");
    assert!(pool.may_own(first));
}

#[test]
fn a_built_in_pool_refuses_what_it_never_vended() {
    hostile_pointers(&StaticPool::<Unsync, 8, SLOTS>::new());
}

#[test]
fn a_pool_behind_a_wrapper_refuses_the_same() {
    hostile_pointers(&wharf_backend::FaultInject::new(StaticPool::<
        Unsync,
        8,
        SLOTS,
    >::new()));
}
