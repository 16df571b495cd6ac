//! What a bump source does, in worked-out values.

mod common;

use common::{Ledger, Slab, layout};
use core::mem::MaybeUninit;
use wharf_source::{
    Block, BlockSource, BumpSource, Census, NullSource, Owned, PoolSource, SizeClass, SourceError,
};
use wharf_sync::Unsync;

const HUGE: usize = isize::MAX as usize;

#[test]
fn blocks_ascend_and_releases_give_nothing_back() {
    let mut slab = Slab::<64>::new();
    let base = slab.base();
    let source = BumpSource::new(&mut slab.0);
    let offset = |size, align| {
        let block = Block::new(&source, layout(size, align)).unwrap();
        block.as_ptr().addr().get() - base
    };
    // Dropped at once, each of them, and of no use to the next.
    assert_eq!([offset(3, 1), offset(8, 8), offset(1, 1)], [0, 8, 16]);
    assert_eq!(offset(4, 32), 32);
    assert_eq!((source.used(), source.remaining()), (36, 28));
    assert_eq!(offset(28, 4), 36, "the last byte is vended, too");
    let full = Block::new(&source, layout(1, 1)).err();
    let exhausted = SourceError::Exhausted {
        requested: 1,
        available: 0,
    };
    assert_eq!(full, Some(exhausted));
    let census = Census {
        unit: 1,
        capacity: 64,
        in_use: 64,
        peak: 64,
        refused: 1,
        dropped: 0,
        largest_refused: 1,
    };
    assert_eq!(source.census(), census);
    assert_eq!(BlockSource::census(&&source), census);
    assert_eq!(BlockSource::name(&source), "bump");
    assert_eq!(
        format!("{source:?}"),
        "BumpSource { capacity: 64, used: 64, upstream: \"null\", .. }"
    );
}

#[test]
fn a_refusal_takes_nothing_and_what_is_smaller_still_fits() {
    let mut slab = Slab::<64>::new();
    let source = BumpSource::new(&mut slab.0);
    let _first = Block::new(&source, layout(40, 8)).unwrap();
    assert_eq!(
        Block::new(&source, layout(25, 1)).err(),
        Some(SourceError::Exhausted {
            requested: 25,
            available: 24
        })
    );
    assert_eq!(
        Block::new(&source, layout(65, 1)).err(),
        Some(SourceError::TooLarge {
            requested: 65,
            capacity: 64
        })
    );
    assert_eq!(
        Block::new(&source, layout(30, 1))
            .err()
            .unwrap()
            .requested(),
        30
    );
    assert!(Block::new(&source, layout(24, 8)).is_ok());
    let census = source.census();
    assert_eq!((census.refused, census.largest_refused), (3, 65));
}

#[test]
fn a_reset_gives_all_of_it_back_and_folds_the_peak() {
    let mut slab = Slab::<64>::new();
    let base = slab.base();
    let mut source = BumpSource::new(&mut slab.0);
    let peaks = [16, 48, 8].map(|size| {
        let block = Block::new(&source, layout(size, 8)).unwrap();
        assert_eq!(block.as_ptr().addr().get(), base, "from the beginning");
        drop(block);
        assert_eq!(source.used(), size);
        let during = source.census().peak;
        source.reset();
        assert_eq!((source.used(), source.remaining()), (0, 64));
        (during, source.census().peak)
    });
    assert_eq!(peaks, [(16, 16), (48, 48), (48, 48)]);
    assert!(Block::new(&source, layout(65, 1)).is_err());
    source.reset();
    let census = source.census();
    assert_eq!((census.refused, census.largest_refused), (1, 65), "kept");
}

#[test]
fn slabs_of_0_to_64_bytes_at_any_offset_hold_what_fits() {
    for len in 0..=64 {
        for skip in 0..64 {
            let mut slab = Slab::<128>::new();
            let base = slab.base() + skip;
            let source = BumpSource::new(&mut slab.0[skip..][..len]);
            let mut count = 0;
            while let Some(block) = source.try_alloc(layout(3, 4)) {
                let at = block.addr().get();
                assert!(at.is_multiple_of(4) && at >= base && at + 3 <= base + len);
                count += 1;
            }
            let usable = len.saturating_sub(skip.next_multiple_of(4) - skip);
            assert_eq!(count, (usable + 1) / 4, "{len} {skip}");
            let census = source.census();
            assert_eq!((census.capacity, census.refused), (len, 1));
            assert!(census.in_use <= len);
            // And one byte at a time, the rest.
            let left = source.remaining();
            let bytes = (0..).take_while(|_| source.try_alloc(layout(1, 1)).is_some());
            assert_eq!(bytes.count(), left);
        }
    }
}

#[test]
fn sizes_that_would_wrap_and_alignments_beyond_the_slab_are_refused() {
    let mut slab = Slab::<64>::new();
    let source = BumpSource::new(&mut slab.0[1..]);
    let requests = [
        layout(HUGE, 1),
        layout(HUGE - 7, 8),
        layout(HUGE / 2 + 1, HUGE / 2 + 1),
        layout(1, HUGE / 2 + 1),
        layout(1, 64),
    ];
    for (count, request) in (1..).zip(requests) {
        let refused = Block::new(&source, request).err();
        let too_large = SourceError::TooLarge {
            requested: request.size(),
            capacity: 63,
        };
        assert_eq!(refused, Some(too_large));
        assert_eq!(source.census().refused, count);
    }
    assert_eq!(source.census().largest_refused, HUGE, "as requested");
    assert_eq!(source.used(), 0);
    // An alignment that no multiple of lies in the slab, save one.
    assert!(Block::new(&source, layout(1, 32)).is_ok());
}

#[test]
fn no_bytes_take_no_memory_and_do_not_reach_the_upstream() {
    let ledger = Ledger::default();
    let mut slab = Slab::<8>::new();
    let source = BumpSource::with_upstream(&mut slab.0, &ledger);
    drop(Block::new(&source, layout(0, 4096)).unwrap());
    assert_eq!(source.used(), 0);
    let _full = Block::new(&source, layout(8, 1)).unwrap();
    let empty = Block::new(&source, layout(0, 64)).unwrap();
    assert_eq!(empty.as_ptr().addr().get(), 64);
    drop(empty);
    assert_eq!((ledger.vended(), source.spilled()), (0, 0));
    assert!(ledger.is_balanced(), "the upstream was given nothing back");
    assert_eq!(source.census().refused, 0);
    let nowhere = BumpSource::new(&mut []);
    assert!(Block::new(&nowhere, layout(0, 1)).is_ok());
    assert!(Block::new(&nowhere, layout(1, 1)).is_err());
}

#[test]
fn a_spill_is_the_upstreams_and_survives_a_reset() {
    let ledger = Ledger::default();
    let mut slab = Slab::<32>::new();
    let mut source = BumpSource::with_upstream(&mut slab.0, &ledger);
    let own = Block::new(&source, layout(24, 8)).unwrap();
    let spilled = Block::new(&source, layout(16, 8)).unwrap();
    assert_eq!(source.spilled(), 1);
    assert_eq!(ledger.live(), [layout(16, 8)]);
    let census = source.census();
    assert_eq!((census.capacity, census.in_use, census.peak), (32, 24, 24));
    assert_eq!(census.refused, 0, "a spill is not a refusal");
    drop(own);
    assert_eq!(
        ledger.live().len(),
        1,
        "the buffer's own block is no matter of the upstream's"
    );
    let (ptr, layout, _) = spilled.into_raw();
    source.reset();
    assert_eq!(ledger.live().len(), 1, "untouched by the reset");
    // SAFETY: the very parts; an upstream block outlives a reset.
    unsafe {
        ptr.write_bytes(7, layout.size());
        drop(Block::from_raw(ptr, layout, &source));
    }
    assert!(ledger.is_balanced());
    assert!(std::ptr::eq(*source.upstream(), &raw const ledger));
}

#[test]
fn it_refuses_only_if_the_upstream_refuses_too_and_tells_the_cause_that_may_change() {
    let (mut slab, mut behind, mut table) =
        (Slab::<32>::new(), Slab::<64>::new(), [SizeClass::EMPTY; 2]);
    let pool = PoolSource::<Unsync>::new(&mut behind.0, &mut table);
    let source = BumpSource::with_upstream(&mut slab.0, &pool);
    let too_large = |requested, capacity| SourceError::TooLarge {
        requested,
        capacity,
    };
    let exhausted = |requested, available| SourceError::Exhausted {
        requested,
        available,
    };
    let ask = |size| Block::new(&source, layout(size, 1)).err().unwrap();
    // Too large for both: the larger of the two says so, whichever it is.
    assert_eq!(ask(100), too_large(100, 64));
    let _held = Block::new(&source, layout(48, 8)).unwrap();
    assert_eq!(pool.used(), 48);
    assert_eq!(ask(40), exhausted(40, 16), "the upstream may have it later");
    let _filled = Block::new(&source, layout(32, 1)).unwrap();
    assert_eq!(ask(20), exhausted(20, 16));
    assert_eq!((source.census().refused, pool.census().refused), (3, 3));
    assert_eq!(source.spilled(), 1);

    let (mut large, mut small) = (Slab::<64>::new(), Slab::<8>::new());
    let small = BumpSource::new(&mut small.0);
    let source = BumpSource::with_upstream(&mut large.0, &small);
    let ask = |size| Block::new(&source, layout(size, 1)).err().unwrap();
    assert_eq!(ask(100), too_large(100, 64));
    let _most = Block::new(&source, layout(60, 1)).unwrap();
    assert_eq!(
        ask(20),
        exhausted(20, 4),
        "a reset helps, the upstream never"
    );
    assert_eq!(
        source.refusal(layout(20, 1)),
        exhausted(20, 4),
        "asking counts nothing"
    );
    assert_eq!(source.census().refused, 2);
}

/// The lesson of a receiver whose frames came from a bump source.
#[test]
fn as_a_receiver_it_serves_6_frames_and_refuses_194_where_a_pool_serves_all() {
    fn receive(source: impl BlockSource + Copy) -> (usize, usize) {
        let served = (0..200)
            // Each frame is dropped before the next one comes.
            .filter(|_| Block::new(source, layout(1500, 4)).is_ok())
            .count();
        (served, source.census().refused)
    }
    let mut memory = Box::new(Slab::<9216>::new());
    assert_eq!(receive(&BumpSource::new(&mut memory.0)), (6, 194));
    let mut table = [SizeClass::EMPTY; 1];
    let pool = PoolSource::<Unsync>::new(&mut memory.0, &mut table);
    assert_eq!(receive(&pool), (200, 0));
}

#[test]
fn it_may_be_the_handle_of_its_only_block_and_is_sent_along() {
    let mut slab = Slab::<64>::new();
    let block = Block::new(BumpSource::new(&mut slab.0), layout(64, 64)).unwrap();
    let back = std::thread::scope(|scope| {
        let sent = scope.spawn(move || {
            let mut block = block;
            block.as_uninit_mut().fill(MaybeUninit::new(1));
            block
        });
        sent.join().unwrap()
    });
    assert_eq!(back.source().used(), 64);
}

#[test]
fn sources_stack_three_deep() {
    let ledger = Ledger::default();
    let (mut first, mut second) = (Slab::<16>::new(), Slab::<32>::new());
    let middle = BumpSource::with_upstream(&mut second.0, &ledger);
    let source = BumpSource::with_upstream(&mut first.0, &middle);
    let values: Vec<_> = (0..10u64)
        .map(|n| Owned::new(&source, n).unwrap())
        .collect();
    assert_eq!([source.used(), middle.used()], [16, 32]);
    assert_eq!([source.spilled(), middle.spilled()], [8, 4]);
    assert_eq!(ledger.live().len(), 4);
    assert!(values.iter().zip(0..).all(|(value, n)| **value == n));
    drop(values);
    assert!(ledger.is_balanced());
    assert_eq!(BumpSource::new(&mut []).upstream(), &NullSource);
}
