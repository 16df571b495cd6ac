//! Pools against values worked out by hand or by counting: strides, slots, order, refusals, census.
#![cfg(all(feature = "std", feature = "critical-section"))]

use core::mem::MaybeUninit;

use wharf_backend::{
    AllocError, BackendExt, BackendRef, Caps, Census, MemBackend, PoolBackend, PoolError,
    SegmentMut, SlotControl, StaticPool, Uninit,
};
use wharf_sync::{Blocking, Critical, SyncPolicy, Unsync};

type Control = SlotControl<Unsync>;

/// A slab whose first byte is at a multiple of 128.
#[repr(align(128))]
struct Slab<const N: usize>([MaybeUninit<u8>; N]);

impl<const N: usize> Slab<N> {
    const fn new() -> Self {
        Self([MaybeUninit::uninit(); N])
    }
}

/// As many control blocks.
fn control<const N: usize>() -> [Control; N] {
    [const { Control::NEW }; N]
}

fn address<R: BackendRef>(segment: &SegmentMut<R, Uninit>) -> usize {
    match segment.place() {
        wharf_backend::Place::Host(base) => base.addr().get(),
        wharf_backend::Place::Device(_) => panic!("a pool is host memory"),
    }
}

/// Every segment that `pool` still vends, of `size` bytes.
fn drain<B: MemBackend>(pool: &B, size: usize) -> Vec<SegmentMut<&B, Uninit>> {
    std::iter::from_fn(|| pool.alloc(size).ok()).collect()
}

#[test]
fn strides_are_payloads_rounded_up() {
    for (payload, align, stride) in [
        (1, 1, 1),
        (3, 1, 3),
        (3, 4, 4),
        (8, 8, 8),
        (9, 8, 16),
        (100, 32, 128),
        (1, 64, 64),
        (0, 1, 1),
        (0, 16, 16),
    ] {
        let mut slab = Slab::<1024>::new();
        let mut control = control::<1024>();
        let pool = PoolBackend::new(&mut slab.0, &mut control, payload, align).unwrap();
        assert_eq!(pool.census().unit, stride, "{payload} aligned to {align}");
        assert_eq!(pool.slots() as usize, 1024 / stride);
        assert_eq!(pool.max_segment_size(), payload);
        assert_eq!(pool.alignment(), align);
    }
}

/// Slots found by walking over the slab byte by byte, and the bytes skipped at its start.
fn walk(start: usize, len: usize, payload: usize, align: usize) -> (usize, usize) {
    let stride = (payload.max(1)..).find(|bytes| bytes % align == 0).unwrap();
    let lost = (0..len)
        .find(|skip| (start + skip).is_multiple_of(align))
        .unwrap_or(len);
    let slots = (1..).find(|slots| lost + slots * stride > len).unwrap() - 1;
    (slots, lost)
}

#[test]
fn an_odd_base_costs_exactly_the_bytes_up_to_the_next_boundary() {
    let mut slab = Slab::<128>::new();
    let start = slab.0.as_ptr().addr();
    assert_eq!(start % 128, 0);
    let mut control = control::<64>();
    for offset in 0..64 {
        for len in 0..=64 {
            for align in [1, 2, 4, 8, 16, 32, 64] {
                for payload in [0, 1, 3, 8, 10, 64] {
                    let (slots, lost) = walk(offset, len, payload, align);
                    let part = &mut slab.0[offset..offset + len];
                    let pool = match PoolBackend::new(part, &mut control, payload, align) {
                        Ok(pool) => pool,
                        Err(error) => {
                            let stride = payload.max(1).next_multiple_of(align);
                            let none = PoolError::NoSlot {
                                slab: len,
                                lost,
                                stride,
                                control: 64,
                            };
                            assert_eq!((slots, error), (0, none));
                            continue;
                        }
                    };
                    assert_eq!(pool.slots() as usize, slots);
                    let stride = pool.census().unit;
                    let all = drain(&pool, payload);
                    assert_eq!(all.len(), slots);
                    for (index, segment) in all.iter().enumerate() {
                        let at = address(segment) - start;
                        assert_eq!(at, offset + lost + index * stride);
                        assert_eq!(at % align, 0);
                        assert!(at + payload <= offset + len, "the last slot ends inside");
                    }
                }
            }
        }
    }
}

#[test]
fn an_alignment_is_a_power_of_two() {
    let mut slab = Slab::<128>::new();
    let mut control = control::<4>();
    for align in [0, 3, 6, 12, usize::MAX] {
        let error = PoolBackend::new(&mut slab.0, &mut control, 8, align).unwrap_err();
        assert_eq!(error, PoolError::Alignment { align });
    }
    let error = PoolBackend::new(&mut slab.0, &mut control, 8, 3).unwrap_err();
    assert_eq!(error.to_string(), "alignment 3 is no power of two");
}

#[test]
fn payloads_near_the_end_of_memory_are_refused_and_do_not_wrap() {
    let mut slab = Slab::<1024>::new();
    let mut control = control::<32>();
    for (payload, align) in [
        (usize::MAX, 2),
        (usize::MAX - 6, 8),
        (usize::MAX - 62, 64),
        (usize::MAX / 2 + 2, usize::MAX / 2 + 1),
    ] {
        let error = PoolBackend::new(&mut slab.0, &mut control, payload, align).unwrap_err();
        assert_eq!(error, PoolError::StrideOverflow { payload, align });
    }
    // The largest strides that exist are no overflow; they only do not fit.
    for (payload, align, stride) in [
        (usize::MAX, 1, usize::MAX),
        (usize::MAX - 7, 8, usize::MAX - 7),
        (usize::MAX - 8, 8, usize::MAX - 7),
    ] {
        let error = PoolBackend::new(&mut slab.0, &mut control, payload, align).unwrap_err();
        let none = PoolError::NoSlot {
            slab: 1024,
            lost: 0,
            stride,
            control: 32,
        };
        assert_eq!(error, none);
    }
}

#[test]
fn an_alignment_larger_than_the_slab_leaves_no_slot() {
    let mut slab = Slab::<128>::new();
    let mut control = control::<4>();
    let error = PoolBackend::new(&mut slab.0[8..24], &mut control, 1, 128).unwrap_err();
    let none = PoolError::NoSlot {
        slab: 16,
        lost: 16,
        stride: 128,
        control: 4,
    };
    assert_eq!(error, none);
    assert_eq!(
        error.to_string(),
        "no slot: 16 bytes of slab, of which 16 are lost to alignment, 128 bytes per slot, 4 control blocks"
    );
}

#[test]
fn control_blocks_limit_the_slots() {
    let mut slab = Slab::<1024>::new();
    let mut control = control::<3>();
    let pool = PoolBackend::new(&mut slab.0, &mut control, 8, 8).unwrap();
    assert_eq!(pool.slots(), 3);
    assert_eq!(drain(&pool, 8).len(), 3);

    let error = PoolBackend::new(&mut slab.0, &mut control[..0], 8, 8).unwrap_err();
    let none = PoolError::NoSlot {
        slab: 1024,
        lost: 0,
        stride: 8,
        control: 0,
    };
    assert_eq!(error, none);
}

#[test]
fn fresh_slots_ascend_and_recycled_ones_come_last_in_first_out() {
    let pool = StaticPool::<Unsync, 24, 4>::new();
    let first = pool.alloc(1).unwrap();
    let base = address(&first);
    let second = pool.alloc(24).unwrap();
    let third = pool.alloc(0).unwrap();
    let slot = |segment: &SegmentMut<_, _>| (address(segment) - base) / 24;
    assert_eq!([&first, &second, &third].map(slot), [0, 1, 2]);
    drop(second);
    drop(first);
    drop(third);
    // Recycled slots go before the fresh fourth one, the last returned first.
    let again = drain(&pool, 24);
    let order: Vec<_> = again.iter().map(slot).collect();
    assert_eq!(order, [2, 0, 1, 3]);
}

#[test]
fn no_bytes_take_a_slot_and_give_an_empty_segment() {
    let pool = StaticPool::<Unsync, 8, 2>::new();
    let empty = [pool.alloc(0).unwrap(), pool.alloc(0).unwrap()];
    assert!(empty.iter().all(SegmentMut::is_empty));
    assert_ne!(address(&empty[0]), address(&empty[1]));
    assert_eq!(pool.census().in_use, 2);
    let full = AllocError::Exhausted {
        requested: 0,
        in_use: 16,
        capacity: 16,
    };
    assert_eq!(pool.alloc(0).unwrap_err(), full);
    let [first, second] = empty;
    assert_eq!(&*first.init_from(&[]).unwrap(), &[0_u8; 0]);
    assert_eq!(second.filled(9).unwrap().len(), 0);
    assert_eq!(pool.census().in_use, 0);
}

#[test]
fn oversize_and_exhausted_are_told_apart_with_their_numbers() {
    let mut slab = Slab::<64>::new();
    let mut control = control::<3>();
    let pool = PoolBackend::new(&mut slab.0, &mut control, 10, 4).unwrap();
    let _all = drain(&pool, 10);
    // A full pool still says that the size is the reason, where it is.
    let large = pool.alloc(11).unwrap_err();
    assert_eq!(
        large,
        AllocError::TooLarge {
            requested: 11,
            max: 10
        }
    );
    assert_eq!(
        large.to_string(),
        "11 bytes asked, a segment of this backend holds at most 10"
    );
    let full = pool.alloc(1).unwrap_err();
    assert_eq!(
        full,
        AllocError::Exhausted {
            requested: 1,
            in_use: 36,
            capacity: 36
        }
    );
    assert_eq!(full.to_string(), "1 bytes asked, 36 of 36 in use");
    let huge = pool.alloc(usize::MAX).unwrap_err();
    assert_eq!(
        huge,
        AllocError::TooLarge {
            requested: usize::MAX,
            max: 10
        }
    );
}

#[test]
fn the_census_counts_what_happened() {
    let pool = StaticPool::<Unsync, 10, 3>::new();
    let nothing = Census {
        unit: 16,
        capacity: 3,
        ..Census::NOTHING
    };
    assert_eq!(pool.census(), nothing);

    let one = pool.alloc(10).unwrap();
    let two = pool.alloc(1).unwrap();
    drop(one);
    // Recycled, not carved: the peak stays.
    let one = pool.alloc(5).unwrap();
    let after = Census {
        in_use: 2,
        peak: 2,
        ..nothing
    };
    assert_eq!(pool.census(), after);

    let three = pool.alloc(0).unwrap();
    assert!(pool.alloc(7).is_err());
    assert!(pool.alloc(11).is_err());
    assert!(pool.alloc(3).is_err());
    let full = Census {
        in_use: 3,
        peak: 3,
        refused: 3,
        largest_refused: 11,
        ..nothing
    };
    assert_eq!(pool.census(), full);
    // Asking for the cause again counts nothing.
    let _ = pool.refusal(usize::MAX, wharf_backend::AllocHint::NONE);
    assert_eq!(pool.census(), full);

    drop((one, two, three));
    assert_eq!(pool.census(), Census { in_use: 0, ..full });
}

#[test]
fn control_blocks_of_a_dropped_pool_serve_again_whatever_was_forgotten() {
    let mut slab = Slab::<64>::new();
    let mut control = control::<4>();
    let pool = PoolBackend::new(&mut slab.0, &mut control, 16, 16).unwrap();
    let forgotten: Vec<_> = drain(&pool, 16)
        .into_iter()
        .map(|s| s.into_raw().0)
        .collect();
    assert_eq!(forgotten.len(), 4);
    assert_eq!(pool.census().in_use, 4);

    // The first pool's borrow ends here.
    let pool = PoolBackend::new(&mut slab.0, &mut control, 16, 16).unwrap();
    assert_eq!(pool.census().in_use, 0);
    assert_eq!(pool.census().peak, 0);
    for &header in &forgotten {
        assert!(!pool.may_own(header), "the new pool never vended it");
    }
    assert_eq!(drain(&pool, 16).len(), 4);
    // Recycled ones are parked too, not merely below the mark.
    for &header in &forgotten {
        assert!(!pool.may_own(header), "every one was given back");
    }
}

#[test]
fn a_static_pool_aligns_its_payloads_as_its_type_says() {
    use wharf_backend::{
        Align1, Align2, Align4, Align8, Align16, Align32, Align64, Align128, Align256, Align512,
        Align1024, Align2048, Align4096, Alignment,
    };
    fn check<A: Alignment>(align: usize, stride: usize) {
        let pool = StaticPool::<Unsync, 33, 3, A>::new();
        assert_eq!(pool.alignment(), align);
        assert_eq!(pool.census().unit, stride);
        let all = drain(&pool, 33);
        let addresses: Vec<_> = all.iter().map(address).collect();
        for (index, at) in addresses.iter().enumerate() {
            assert_eq!(at % align, 0);
            assert_eq!(at - addresses[0], index * stride);
        }
    }
    check::<Align1>(1, 33);
    check::<Align2>(2, 34);
    check::<Align4>(4, 36);
    check::<Align8>(8, 40);
    check::<Align16>(16, 48);
    check::<Align32>(32, 64);
    check::<Align64>(64, 64);
    check::<Align128>(128, 128);
    check::<Align256>(256, 256);
    check::<Align512>(512, 512);
    check::<Align1024>(1024, 1024);
    check::<Align2048>(2048, 2048);
    check::<Align4096>(4096, 4096);
}

#[test]
fn a_lent_slab_takes_every_power_of_two() {
    let mut slab = vec![MaybeUninit::uninit(); 1 << 20];
    let mut control = control::<4>();
    for bits in 0..20 {
        let align = 1 << bits;
        // An odd base costs less than one alignment: one slot of half the slab always fits.
        let pool = PoolBackend::new(&mut slab[1..], &mut control, 3, align).unwrap();
        for segment in drain(&pool, 3) {
            assert_eq!(address(&segment) % align, 0);
        }
    }
}

/// The lines of `line` bytes in which a segment of `len` bytes at `start` lies, as those of a maintained one do.
fn lines(start: usize, len: usize, line: usize) -> std::ops::Range<usize> {
    start / line..(start + len.max(1)).div_ceil(line)
}

#[test]
fn payloads_aligned_to_a_line_have_their_lines_to_themselves() {
    use wharf_backend::{Align32, Align64, Alignment, OwnLines};

    /// `own` is the pool's control and `around` what must not be touched.
    fn check<B: OwnLines>(pool: &B, len: usize, line: usize, around: std::ops::Range<usize>) {
        assert_eq!(pool.granule() % line, 0);
        let mut taken: Vec<usize> = Vec::new();
        for segment in drain(pool, len) {
            let header = segment.header_ptr().addr().get();
            for at in lines(address(&segment), len, line) {
                assert!(!taken.contains(&at), "two payloads in line {at}");
                assert_ne!(at, header / line, "a header in line {at}");
                let bytes = at * line..(at + 1) * line;
                assert!(around.start <= bytes.start && bytes.end <= around.end);
                taken.push(at);
            }
        }
        assert!(!taken.is_empty());
    }
    fn built_in<A: Alignment, const PAYLOAD: usize>() {
        let pool = StaticPool::<Unsync, PAYLOAD, 5, A>::new();
        let start = (&raw const pool).addr();
        check(&pool, PAYLOAD, A::BYTES, start..start + size_of_val(&pool));
    }
    built_in::<Align32, 1>();
    built_in::<Align32, 33>();
    built_in::<Align64, 60>();
    built_in::<Align64, 64>();
    built_in::<Align64, 129>();
    for line in [32, 64] {
        for (offset, len) in [(0, 512), (1, 511), (31, 400), (63, 300)] {
            let mut slab = Slab::<512>::new();
            let mut control = control::<16>();
            let part = &mut slab.0[offset..offset + len];
            let start = part.as_ptr().addr();
            let pool = PoolBackend::new(part, &mut control, 33, line).unwrap();
            check(&pool, 33, line, start..start + len);
        }
    }
}

#[test]
fn a_pool_without_constants_is_the_same_pool() {
    let pool = StaticPool::<Unsync, 10, 3>::fresh();
    assert_eq!(pool.census(), StaticPool::<Unsync, 10, 3>::new().census());
    assert_eq!(drain(&pool, 10).len(), 3);
}

#[cfg(feature = "critical-section")]
mod shared {
    use super::*;
    use wharf_sync::Critical;

    /// The linker takes only zero bytes in a `.bss` section: with any other initial value this test
    /// does not build.
    #[cfg_attr(target_os = "linux", unsafe(link_section = ".bss.pool_values"))]
    static FRAMES: StaticPool<Critical, 48, 2> = StaticPool::new();

    #[test]
    fn a_pool_is_a_static_of_zero_bytes() {
        let frames = drain(&FRAMES, 48);
        assert_eq!(frames.len(), 2);
        assert_eq!(FRAMES.census().in_use, 2);
        drop(frames);
        assert_eq!(FRAMES.census().in_use, 0);
    }
}

#[test]
fn what_a_pool_is_follows_from_its_policy() {
    fn caps<P: SyncPolicy>() -> Caps {
        StaticPool::<P, 8, 1>::fresh().caps()
    }
    let always = Caps::OWNS_BYTES | Caps::PLAIN_COPIES;
    assert_eq!(caps::<Unsync>(), always | Caps::NONBLOCKING);
    assert_eq!(
        caps::<Critical>(),
        always | Caps::NONBLOCKING | Caps::ISR_SAFE
    );
    assert_eq!(caps::<Blocking>(), always);
}
