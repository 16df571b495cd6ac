//! What a pool does, in worked-out values. Bytes are those of a 64-bit host where they depend on it.
#![cfg(target_pointer_width = "64")]

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use wharf_source::{Block, BlockSource, PoolSource, SizeClass, SourceError, StaticPoolSource};
use wharf_sync::Unsync;

type Pool<'s> = PoolSource<'s, Unsync>;

const HUGE: usize = isize::MAX as usize;

/// A slab that begins at a multiple of 64.
#[repr(C, align(64))]
struct Slab<const LEN: usize>([MaybeUninit<u8>; LEN]);

impl<const LEN: usize> Slab<LEN> {
    fn new() -> Self {
        Self([MaybeUninit::uninit(); LEN])
    }
    fn base(&self) -> usize {
        self.0.as_ptr().addr()
    }
}

fn classes<const COUNT: usize>() -> [SizeClass; COUNT] {
    [SizeClass::EMPTY; COUNT]
}

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

fn offset<S: BlockSource>(block: &Block<S>, base: usize) -> usize {
    block.as_ptr().addr().get() - base
}

#[test]
fn fresh_blocks_ascend_by_their_stride_and_come_back_last_in_first_out() {
    let (mut slab, mut table) = (Slab::<256>::new(), classes::<2>());
    let base = slab.base();
    let pool = Pool::new(&mut slab.0, &mut table);
    // 20 bytes become 24, the next multiple of a pointer's alignment.
    let mut blocks: Vec<_> = (0..4)
        .map(|_| Block::new(&pool, layout(20, 4)).unwrap())
        .collect();
    let offsets: Vec<_> = blocks.iter().map(|block| offset(block, base)).collect();
    assert_eq!(offsets, [0, 24, 48, 72]);
    assert_eq!(pool.used(), 96);
    assert_eq!(pool.classes_used(), 0, "a class is claimed on release");

    for at in [1, 0, 1] {
        drop(blocks.remove(at)); // 24, then 0, then 72
    }
    assert_eq!(pool.classes_used(), 1);
    let again: Vec<_> = (0..4)
        .map(|_| Block::new(&pool, layout(20, 4)).unwrap())
        .collect();
    let offsets: Vec<_> = again.iter().map(|block| offset(block, base)).collect();
    assert_eq!(offsets, [72, 0, 24, 96], "then a fresh one");
    assert_eq!(pool.used(), 120);
}

#[test]
fn shapes_are_exact() {
    let (mut slab, mut table) = (Slab::<512>::new(), classes::<8>());
    let base = slab.base();
    let pool = Pool::new(&mut slab.0, &mut table);
    let first = Block::new(&pool, layout(64, 8)).unwrap();
    assert_eq!(offset(&first, base), 0);
    drop(first);
    // A smaller size, or the same with a larger alignment, is another shape ...
    let smaller = Block::new(&pool, layout(56, 8)).unwrap();
    assert_eq!(offset(&smaller, base), 64);
    let aligned = Block::new(&pool, layout(64, 64)).unwrap();
    assert_eq!(offset(&aligned, base), 128, "8 bytes skipped to align it");
    // ... but what rounds to the same is the same.
    let same = Block::new(&pool, layout(57, 1)).unwrap();
    assert_eq!(offset(&same, base), 0);
    assert_eq!(pool.used(), 192);
}

#[test]
fn every_alignment_is_met_wherever_the_slab_begins() {
    for skip in 0..64 {
        for align in (0..=6).map(|log| 1 << log) {
            let (mut slab, mut table) = (Slab::<256>::new(), classes::<4>());
            let base = slab.base() + skip;
            let pool = Pool::new(&mut slab.0[skip..], &mut table);
            let block = Block::new(&pool, layout(24, align)).unwrap();
            let first = skip.next_multiple_of(align.max(8)) - skip;
            assert_eq!(offset(&block, base), first, "{skip} {align}");
            let size = 24usize.next_multiple_of(align.max(8));
            assert_eq!(pool.used(), first + size, "{skip} {align}");
        }
    }
}

#[test]
fn small_slabs_hold_what_fits() {
    for len in 0..64 {
        let (mut slab, mut table) = (Slab::<64>::new(), classes::<1>());
        let pool = Pool::new(&mut slab.0[..len], &mut table);
        let mut count = 0;
        while let Some(block) = pool.try_alloc(layout(1, 1)) {
            assert_eq!(block.addr().get() % 8, 0);
            count += 1;
        }
        assert_eq!(count, len / 8, "{len}");
        let census = pool.census();
        assert_eq!(census.capacity, len);
        assert_eq!(census.in_use, len / 8 * 8);
        assert_eq!(census.peak, census.in_use);
        assert_eq!((census.refused, census.largest_refused), (1, 1));
    }
}

#[test]
fn sizes_that_would_wrap_are_refused() {
    let (mut slab, mut table) = (Slab::<64>::new(), classes::<1>());
    let pool = Pool::new(&mut slab.0[1..], &mut table);
    let requests = [
        layout(HUGE, 1),
        layout(HUGE - 7, 8),
        layout(HUGE / 2 + 1, HUGE / 2 + 1),
        layout(1, HUGE / 2 + 1),
    ];
    for (count, request) in (1..).zip(requests) {
        assert_eq!(
            Block::new(&pool, request).err(),
            Some(SourceError::TooLarge {
                requested: request.size(),
                capacity: 63
            })
        );
        assert_eq!(pool.census().refused, count);
    }
    assert_eq!(pool.census().largest_refused, HUGE, "as requested");
    assert_eq!(pool.used(), 0);
}

#[test]
fn exhausted_and_too_large_are_told_apart() {
    let (mut slab, mut table) = (Slab::<64>::new(), classes::<1>());
    let pool = Pool::new(&mut slab.0, &mut table);
    let block = Block::new(&pool, layout(40, 8)).unwrap();
    let exhausted = Block::new(&pool, layout(25, 1)).err();
    assert_eq!(
        exhausted,
        Some(SourceError::Exhausted {
            requested: 25,
            available: 24
        })
    );
    let large = Block::new(&pool, layout(65, 1)).err();
    let too_large = |requested| SourceError::TooLarge {
        requested,
        capacity: 64,
    };
    assert_eq!(large, Some(too_large(65)));
    // 57 to 64 bytes are 64, and fit only when nothing was carved.
    assert!(matches!(
        Block::new(&pool, layout(57, 1)),
        Err(SourceError::Exhausted { .. })
    ));
    let census = pool.census();
    assert_eq!((census.refused, census.largest_refused), (3, 65));
    drop(block);
    // What came back serves its own shape and no other.
    assert!(Block::new(&pool, layout(25, 1)).is_err());
    assert!(Block::new(&pool, layout(40, 8)).is_ok());
}

#[test]
fn an_alignment_larger_than_the_slab_is_met_only_by_luck() {
    let (mut slab, mut table) = (Slab::<128>::new(), classes::<1>());
    // One byte past a multiple of 64: the next one is inside, and 65 bytes are left from there.
    let pool = Pool::new(&mut slab.0[1..], &mut table);
    assert!(Block::new(&pool, layout(1, 64)).is_ok());
    assert_eq!(pool.used(), 127);
    let (mut slab, mut table) = (Slab::<64>::new(), classes::<1>());
    let pool = Pool::new(&mut slab.0[1..], &mut table);
    assert_eq!(
        Block::new(&pool, layout(1, 64)).err(),
        Some(SourceError::TooLarge {
            requested: 1,
            capacity: 63
        })
    );
}

#[test]
fn no_bytes_take_no_memory() {
    let pool_of_nothing = Pool::new(&mut [], &mut []);
    for align in [1, 8, 4096, HUGE / 2 + 1] {
        let block = Block::new(&pool_of_nothing, layout(0, align)).unwrap();
        assert_eq!(block.as_ptr().addr().get(), align);
    }
    assert_eq!(pool_of_nothing.census().refused, 0);
    assert_eq!(pool_of_nothing.foreign(), 0);
    assert_eq!(pool_of_nothing.classes_used(), 0);
    assert!(Block::new(&pool_of_nothing, layout(1, 1)).is_err());
}

#[test]
fn a_full_table_costs_blocks_and_is_not_a_refusal() {
    let (mut slab, mut table) = (Slab::<256>::new(), classes::<1>());
    let base = slab.base();
    let pool = Pool::new(&mut slab.0, &mut table);
    drop(Block::new(&pool, layout(8, 8)).unwrap());
    drop(Block::new(&pool, layout(16, 8)).unwrap());
    assert_eq!((pool.classes_used(), pool.overflowed()), (1, 1));
    let fresh = Block::new(&pool, layout(16, 8)).unwrap();
    assert_eq!(offset(&fresh, base), 24, "the first stays carved");
    let recycled = Block::new(&pool, layout(8, 8)).unwrap();
    assert_eq!(offset(&recycled, base), 0);
    assert_eq!(pool.census().refused, 0);
    assert_eq!(pool.foreign(), 0);
}

#[test]
fn without_a_table_a_pool_is_a_bump_source() {
    let mut slab = Slab::<64>::new();
    let pool = Pool::new(&mut slab.0, &mut []);
    for _ in 0..4 {
        drop(Block::new(&pool, layout(16, 1)).unwrap());
    }
    assert_eq!((pool.classes_used(), pool.overflowed()), (0, 4));
    assert!(Block::new(&pool, layout(16, 1)).is_err());
}

#[test]
fn twelve_shapes_in_twelve_slots_are_all_recycled() {
    let (mut slab, mut table) = (Slab::<8192>::new(), classes::<12>());
    let base = slab.base();
    let pool = Pool::new(&mut slab.0, &mut table);
    let shapes: Vec<_> = (0..12)
        .map(|n| layout(8 << (n % 6), 8 << (n / 6 * 3)))
        .collect();
    let round = || -> Vec<usize> {
        let blocks: Vec<_> = shapes
            .iter()
            .map(|&shape| Block::new(&pool, shape).unwrap())
            .collect();
        blocks.iter().map(|block| offset(block, base)).collect()
    };
    let first = round();
    // Sizes 8 to 256 at alignment 64: three of them round to 64 and share a class.
    assert_eq!(pool.classes_used(), 6 + 3);
    let used = pool.used();
    let mut second = round();
    assert_eq!(pool.used(), used);
    let mut sorted = first;
    sorted.sort_unstable();
    second.sort_unstable();
    assert_eq!(sorted, second, "the same blocks again");

    let more = [layout(24, 8), layout(40, 8), layout(48, 8)];
    for shape in more {
        drop(Block::new(&pool, shape).unwrap());
    }
    assert_eq!((pool.classes_used(), pool.overflowed()), (12, 0));
    let used = pool.used();
    for shape in more.iter().chain(&shapes) {
        drop(Block::new(&pool, *shape).unwrap());
    }
    assert_eq!(pool.used(), used, "all twelve are found");
    drop(Block::new(&pool, layout(72, 8)).unwrap());
    assert_eq!((pool.classes_used(), pool.overflowed()), (12, 1));
}

#[test]
fn what_cannot_be_a_block_is_counted_and_not_linked_in() {
    let mut slab = Slab::<256>::new();
    let mut table = classes::<4>();
    let base = slab.base();
    let (below, middle) = slab.0.split_at_mut(64);
    let (middle, above) = middle.split_at_mut(128);
    let below = NonNull::from(below).cast::<u8>();
    let above = NonNull::from(above).cast::<u8>();
    let pool = Pool::new(middle, &mut table);
    let shape = layout(32, 8);
    let block = pool.try_alloc(shape).unwrap();
    assert_eq!(block.addr().get() - base, 64);
    let mut elsewhere = [0u64; 4];
    let elsewhere = NonNull::from(&mut elsewhere).cast::<u8>();
    let strange = [
        below,                                                 // before the slab
        above,                                                 // behind it
        elsewhere,                                             // not near it
        NonNull::without_provenance(8.try_into().unwrap()),    // nowhere
        block.map_addr(|addr| addr.checked_add(1).unwrap()),   // misaligned
        block.map_addr(|addr| addr.checked_add(8).unwrap()),   // sticks out of what was carved
        block.map_addr(|addr| addr.checked_add(32).unwrap()),  // not carved yet
        block.map_addr(|addr| addr.checked_add(96).unwrap()),  // neither
        block.map_addr(|addr| addr.checked_add(128).unwrap()), // one past the end
    ];
    for (count, strange) in (1..).zip(strange) {
        // SAFETY: none: this breaks the promise, in ways that the pool says it recognises.
        unsafe { pool.release(strange, shape) };
        assert_eq!(pool.foreign(), count, "{strange:?}");
    }
    assert_eq!(pool.classes_used(), 0);

    // Inside of what was carved, but no block of such a shape can begin there.
    let inside = block.map_addr(|addr| addr.checked_add(4).unwrap());
    // SAFETY: none: again, in a way that the pool says it recognises.
    unsafe { pool.release(inside, layout(8, 8)) };
    assert_eq!((pool.foreign(), pool.classes_used()), (10, 0));

    // SAFETY: the block is live and of this shape.
    unsafe { pool.release(block, shape) };
    assert_eq!(pool.foreign(), 10);
    // SAFETY: none: a double release, of the kind that the pool says it recognises.
    unsafe { pool.release(block, shape) };
    assert_eq!(pool.foreign(), 11);

    assert_eq!(pool.try_alloc(shape), Some(block));
    assert_ne!(pool.try_alloc(shape), Some(block), "once");
    assert_eq!(pool.used(), 64);
}

#[test]
fn a_release_that_is_larger_than_all_that_was_carved_is_refused() {
    let (mut slab, mut table) = (Slab::<64>::new(), classes::<1>());
    let pool = Pool::new(&mut slab.0, &mut table);
    let block = pool.try_alloc(layout(8, 8)).unwrap();
    for size in [16, 64, 1 << 20, HUGE] {
        // SAFETY: none: the wrong layout, in a way that the pool says it recognises.
        unsafe { pool.release(block, layout(size, 1)) };
    }
    assert_eq!((pool.foreign(), pool.classes_used()), (4, 0));
}

#[test]
fn a_table_is_forgotten_when_another_pool_takes_it() {
    let mut table = classes::<2>();
    let mut first = Slab::<64>::new();
    let pool = Pool::new(&mut first.0, &mut table);
    drop(Block::new(&pool, layout(32, 8)).unwrap());
    assert_eq!(pool.classes_used(), 1);
    let mut second = Slab::<64>::new();
    let base = second.base();
    let pool = Pool::new(&mut second.0, &mut table);
    assert_eq!(pool.classes_used(), 0);
    let block = Block::new(&pool, layout(32, 8)).unwrap();
    assert_eq!(offset(&block, base), 0);
    assert_eq!(pool.used(), 32, "carved, not taken from a stale list");
}

#[test]
fn a_pool_may_be_the_handle_of_its_only_block() {
    let (mut slab, mut table) = (Slab::<64>::new(), classes::<1>());
    let mut block = Block::new(Pool::new(&mut slab.0, &mut table), layout(64, 64)).unwrap();
    block.as_uninit_mut()[63].write(1);
    let mut moved = Box::new(block);
    moved.as_uninit_mut()[0].write(2);
    assert_eq!(moved.source().used(), 64);
}

#[test]
fn a_static_pool_keeps_its_lists_when_it_moves() {
    type Inline = StaticPoolSource<Unsync, 256, 2>;
    let pool = Inline::new();
    assert_eq!(pool.census().capacity, 256);
    let shape = layout(32, 32);
    let pair = [shape; 2].map(|shape| Block::new(&pool, shape).unwrap());
    drop(pair);
    let moved = Box::new(pool);
    let base = (&raw const *moved).addr();
    let second = Block::new(&*moved, shape).unwrap();
    let first = Block::new(&*moved, shape).unwrap();
    assert_eq!([offset(&first, base), offset(&second, base)], [0, 32]);
    assert_eq!(moved.used(), 64);
    drop((first, second));
    assert_eq!((moved.classes_used(), moved.foreign()), (1, 0));
}

#[test]
fn a_static_pool_that_moved_vends_no_block_that_lost_its_alignment() {
    type Inline = StaticPoolSource<Unsync, 512, 2>;
    #[repr(C, align(128))]
    struct Berths([u64; 4], Option<Inline>, [u64; 4], Option<Inline>);
    // The first pool lies 32 bytes behind a multiple of 128, the second elsewhere.
    let mut berths = Berths([0; 4], Some(Inline::new()), [0; 4], None);
    let shape = layout(8, 128);
    drop(Block::new(berths.1.as_ref().unwrap(), shape).unwrap());
    let before = berths
        .1
        .as_ref()
        .map(|pool| (&raw const *pool).addr() % 128);
    berths.3 = berths.1.take();
    let after = berths
        .3
        .as_ref()
        .map(|pool| (&raw const *pool).addr() % 128);
    assert_ne!(before, after, "or the test shows nothing");
    let pool = berths.3.as_ref().unwrap();
    let block = Block::new(pool, shape).unwrap();
    assert_eq!(block.as_ptr().addr().get() % 128, 0);
    drop(block);
    let used = pool.used();
    assert_eq!(
        Block::new(pool, shape).unwrap().as_ptr().addr().get() % 128,
        0
    );
    assert_eq!(pool.used(), used, "what fits again is recycled");
}

#[test]
fn a_pool_of_nothing_but_constants() {
    let pool = const { StaticPoolSource::<Unsync, 0, 0>::new() };
    assert!(Block::new(&pool, layout(1, 1)).is_err());
    assert!(Block::new(&pool, layout(0, 1)).is_ok());
    assert_eq!(
        format!("{pool:?}"),
        "StaticPoolSource { policy: \"Unsync\", capacity: 0, classes: 0, .. }"
    );
}

#[test]
fn pools_have_names_and_print_without_entering_a_section() {
    let (mut slab, mut table) = (Slab::<64>::new(), classes::<1>());
    let pool = Pool::new(&mut slab.0, &mut table);
    assert_eq!(BlockSource::name(&pool), "pool");
    assert_eq!(BlockSource::census(&pool), pool.census());
    assert_eq!(
        format!("{pool:?}"),
        "PoolSource { policy: \"Unsync\", capacity: 64, .. }"
    );
}
