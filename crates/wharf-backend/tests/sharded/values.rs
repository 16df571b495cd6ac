//! Worked out by hand: whose shard, which slot, what is refused, what is foreign.

use core::mem::MaybeUninit;
use core::ptr::NonNull;

use wharf_backend::{
    AllocError, AllocHint, BackendExt, BackendRef, Caps, Header, MemBackend, OwnLines, Place,
    PoolError, SegmentMut, ShardedPool, SlotControl, Uninit,
};
use wharf_sync::{Blocking, Critical, Unsync};

use crate::posted::{Posted, stand_at};

type Policy = Posted<Unsync>;
type Control = SlotControl<Policy>;

const PAYLOAD: usize = 16;

/// A slab of `N` bytes whose first is at a multiple of 128.
#[repr(align(128))]
struct Slab<const N: usize>([MaybeUninit<u8>; N]);

impl<const N: usize> Slab<N> {
    const fn new() -> Self {
        Self([MaybeUninit::uninit(); N])
    }
}

/// Lends `run` a pool of `SLOTS` slots of 16 bytes, and the address of the first.
fn with_pool<const SHARDS: usize, const SLOTS: usize>(
    run: impl FnOnce(&ShardedPool<'_, Policy, SHARDS>, usize),
) {
    stand_at(0);
    let mut slab = vec![MaybeUninit::uninit(); PAYLOAD * SLOTS];
    let base = slab.as_ptr().addr();
    let mut control = [const { Control::NEW }; SLOTS];
    run(
        &ShardedPool::new(&mut slab, &mut control, PAYLOAD, 1).unwrap(),
        base,
    );
}

fn address<R: BackendRef>(segment: &SegmentMut<R, Uninit>) -> usize {
    match segment.place() {
        Place::Host(base) => base.addr().get(),
        Place::Device(_) => panic!("a pool is host memory"),
    }
}

/// The slot that a context gets.
fn slot<'p, const SHARDS: usize>(
    pool: &'p ShardedPool<'_, Policy, SHARDS>,
    base: usize,
    who: usize,
) -> (
    usize,
    SegmentMut<&'p ShardedPool<'p, Policy, SHARDS>, Uninit>,
) {
    stand_at(who);
    let segment = pool.alloc(PAYLOAD).unwrap();
    ((address(&segment) - base) / PAYLOAD, segment)
}

#[test]
fn everybody_takes_from_a_shard_of_their_own_and_wraps_around() {
    // Twelve slots in four shards: 0, 3, 6 and 9 are the firsts.
    with_pool::<4, 12>(|pool, base| {
        let firsts = [0, 1, 2, 3].map(|who| slot(pool, base, who));
        assert_eq!(firsts.each_ref().map(|(slot, _)| *slot), [0, 3, 6, 9]);
        let seconds = [4, 7, 1_000_002].map(|who| slot(pool, base, who));
        assert_eq!(seconds.each_ref().map(|(slot, _)| *slot), [1, 10, 7]);
    });
}

#[test]
fn an_empty_shard_takes_from_the_next_ones() {
    // Shards of three, three and two slots.
    with_pool::<3, 8>(|pool, base| {
        let all: Vec<_> = (0..8).map(|_| slot(pool, base, 1)).collect();
        let order: Vec<_> = all.iter().map(|(slot, _)| *slot).collect();
        assert_eq!(order, [3, 4, 5, 6, 7, 0, 1, 2]);
        let full = AllocError::Exhausted {
            requested: 5,
            in_use: 8 * PAYLOAD,
            capacity: 8 * PAYLOAD,
        };
        assert_eq!(pool.alloc(5).unwrap_err(), full);
        assert_eq!(pool.census().in_use, 8);
    });
}

#[test]
fn a_slot_goes_home_whoever_drops_it() {
    with_pool::<2, 4>(|pool, base| {
        let (_, first) = slot(pool, base, 0);
        let (_, second) = slot(pool, base, 0);
        let (_, other) = slot(pool, base, 1);
        // Given back by another: the last one first, and not mixed with what is recycled at home.
        stand_at(1);
        drop(first);
        drop(second);
        drop(other);
        assert_eq!(pool.census().in_use, 0);
        let (again, again_held) = slot(pool, base, 1);
        assert_eq!(again, 2, "its own, recycled");
        let (third, third_held) = slot(pool, base, 0);
        let (fourth, fourth_held) = slot(pool, base, 0);
        assert_eq!((third, fourth), (1, 0), "recycled before fresh");
        assert_eq!(pool.census().peak, 3);
        drop((again_held, third_held, fourth_held));
    });
}

#[test]
fn fewer_slots_than_shards_are_still_all_there() {
    with_pool::<8, 3>(|pool, base| {
        assert_eq!(pool.slots(), 3);
        let all = [7, 0, 5].map(|who| slot(pool, base, who));
        assert_eq!(all.each_ref().map(|(slot, _)| *slot), [0, 1, 2]);
        assert!(pool.alloc(0).is_err());
    });
}

#[test]
fn refusals_are_counted_once_with_the_largest() {
    with_pool::<4, 4>(|pool, base| {
        let too_large = AllocError::TooLarge {
            requested: 17,
            max: 16,
        };
        stand_at(2);
        assert_eq!(pool.alloc(17).unwrap_err(), too_large);
        stand_at(1);
        let huge = pool.alloc(usize::MAX).unwrap_err();
        assert!(matches!(
            huge,
            AllocError::TooLarge {
                requested: usize::MAX,
                max: 16
            }
        ));
        let all = [0, 1, 2, 3].map(|who| slot(pool, base, who));
        assert!(pool.vend(3, AllocHint::NONE).is_none());
        let census = pool.census();
        assert_eq!((census.refused, census.largest_refused), (3, usize::MAX));
        drop(all);
        assert_eq!((pool.census().capacity, pool.census().unit), (4, 16));
        assert_eq!((pool.census().in_use, pool.census().peak), (0, 4));
    });
}

#[test]
fn slabs_too_small_and_odd_alignments_are_told_apart() {
    let new = |slab: usize, offset: usize, payload: usize, align: usize| {
        let mut bytes = Slab::<192>::new();
        let mut control = [const { Control::NEW }; 4];
        let slab = &mut bytes.0[offset..][..slab];
        ShardedPool::<_, 2>::new(slab, &mut control, payload, align).map(|pool| pool.slots())
    };
    for align in [0, 3] {
        assert_eq!(new(64, 0, 8, align), Err(PoolError::Alignment { align }));
    }
    let overflow = PoolError::StrideOverflow {
        payload: usize::MAX - 2,
        align: 8,
    };
    assert_eq!(new(64, 0, usize::MAX - 2, 8), Err(overflow));
    for offset in 0..16 {
        for size in 0..=64_usize {
            // What a slot needs at least, worked out without the pool.
            let lost = (16 - offset % 16) % 16;
            let fit = size.saturating_sub(lost) / 16;
            match new(size, offset, 9, 16) {
                Ok(slots) => assert_eq!(slots as usize, fit),
                Err(error) => {
                    assert_eq!(fit, 0);
                    let expected = PoolError::NoSlot {
                        slab: size,
                        lost: lost.min(size),
                        stride: 16,
                        control: 4,
                    };
                    assert_eq!(error, expected);
                }
            }
        }
    }
    let mut none: [Control; 0] = [];
    let error = ShardedPool::<_, 2>::new(&mut Slab::<64>::new().0, &mut none, 8, 8).unwrap_err();
    let expected = PoolError::NoSlot {
        slab: 64,
        lost: 0,
        stride: 8,
        control: 0,
    };
    assert_eq!(error, expected);
}

#[test]
fn payloads_have_lines_of_their_own() {
    stand_at(0);
    let mut slab = Slab::<640>::new();
    let mut control = [const { Control::NEW }; 16];
    let pool = ShardedPool::<_, 3>::new(&mut slab.0[1..], &mut control, 70, 64).unwrap();
    assert_eq!(
        (pool.slots(), pool.granule(), pool.alignment()),
        (4, 64, 64)
    );
    assert_eq!(pool.max_segment_size(), 70);
    let all: Vec<_> = (0..4).map(|_| pool.alloc(70).unwrap()).collect();
    for segment in &all {
        assert_eq!(address(segment) % 64, 0);
    }
}

#[test]
fn shards_are_on_lines_of_their_own() {
    let line = if size_of::<usize>() == 8 { 128 } else { 32 };
    assert_eq!(align_of::<ShardedPool<'_, Unsync, 1>>(), line);
    let added = size_of::<ShardedPool<'_, Unsync, 5>>() - size_of::<ShardedPool<'_, Unsync, 4>>();
    assert_eq!(added, 2 * line);
}

#[test]
fn only_live_headers_are_its_own() {
    with_pool::<3, 7>(|pool, base| {
        let held: Vec<_> = [0, 1, 2, 1]
            .map(|who| slot(pool, base, who).1.into_raw().0)
            .into();
        for &header in &held {
            assert!(pool.may_own(header));
            for off in [1, 4, size_of::<Header<Policy>>() / 2] {
                let inside = header.map_addr(|address| address.checked_add(off).unwrap());
                assert!(!pool.may_own(inside), "interior");
            }
        }
        // Every multiple of a header around the array, and far away: live are exactly the four.
        let first = held[0];
        let live = (-20..40)
            .filter(|step: &isize| {
                let bytes = step * size_of::<Header<Policy>>().cast_signed();
                let address = first.addr().get().wrapping_add_signed(bytes);
                let header =
                    core::num::NonZero::new(address).map(|address| first.with_addr(address));
                header.is_some_and(|header| pool.may_own(header))
            })
            .count();
        assert_eq!(live, 4);
        assert!(!pool.may_own(NonNull::dangling()));
        assert!(!pool.may_own(first.with_addr(core::num::NonZero::<usize>::MAX)));
        // Put together and dropped here and there: neither is live any more, near or far.
        for (who, header) in [0, 0, 2, 1].into_iter().zip(held) {
            stand_at(who);
            // SAFETY: from `into_raw` above, put together once.
            drop(unsafe { SegmentMut::<_, Uninit>::from_raw(header, pool) }.unwrap());
            assert!(!pool.may_own(header));
            // SAFETY: a pointer that the pool refuses is harmless.
            let twice = unsafe { SegmentMut::<_, Uninit>::from_raw(header, pool) };
            assert_eq!(twice.unwrap_err().address, header.addr().get());
        }
        assert_eq!(pool.census().in_use, 0);
    });
}

#[test]
fn it_is_what_its_policy_is() {
    let mut slab = Slab::<128>::new();
    let mut control = [const { SlotControl::<Critical>::NEW }; 2];
    let pool = ShardedPool::<_, 2>::new(&mut slab.0, &mut control, 64, 64).unwrap();
    let caps = Caps::OWNS_BYTES | Caps::PLAIN_COPIES | Caps::ISR_SAFE | Caps::NONBLOCKING;
    assert_eq!(pool.caps(), caps);
    assert_eq!(pool.name(), "sharded pool");
    let said = format!("{pool:?}");
    for part in ["ShardedPool", "\"Critical\"", "shards: 2", "payload: 64"] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn it_crosses_threads_where_its_policy_does() {
    const fn send<T: Send>() {}
    const fn sync<T: Sync>() {}
    send::<ShardedPool<'_, Unsync, 2>>();
    send::<ShardedPool<'_, Blocking, 2>>();
    sync::<ShardedPool<'_, Blocking, 2>>();
    sync::<ShardedPool<'_, Critical, 2>>();
    send::<SegmentMut<&ShardedPool<'_, Critical, 2>>>();

    // Does not build if the pool were `Sync` under `Unsync`: then two impls fit.
    trait Ambiguous<A> {
        fn found() {}
    }
    impl<T: ?Sized> Ambiguous<()> for T {}
    struct HasIt;
    impl<T: ?Sized + Sync> Ambiguous<HasIt> for T {}
    <ShardedPool<'_, Unsync, 2> as Ambiguous<_>>::found();
}
