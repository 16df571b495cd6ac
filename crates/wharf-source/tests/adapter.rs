//! Containers of the `allocator-api2` ecosystem, on a source.
#![cfg(feature = "allocator-api2")]

mod common;

use allocator_api2::alloc::{AllocError, Allocator};
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use common::{Ledger, Population, Slab, layout};
use core::ptr::NonNull;
use std::hash::RandomState;

use wharf_source::{
    AsAllocator, BlockSource, BumpSource, FaultSource, NullSource, StaticPoolSource,
};
use wharf_sync::Unsync;

#[test]
fn a_vec_grows_shrinks_and_is_refused_by_value() {
    let ledger = Ledger::default();
    let people = Population::default();
    let source = FaultSource::<_>::new(&ledger);
    let mut vec = Vec::new_in(AsAllocator::new(&source));
    for id in 0..10 {
        vec.try_reserve(1).unwrap();
        vec.push(people.born(id));
    }
    assert_eq!(ledger.live().len(), 1);
    vec.shrink_to_fit();
    assert_eq!(vec.capacity(), 10);
    source.fail_nth(1);
    assert!(vec.try_reserve(1).is_err());
    assert!(vec.try_reserve(usize::MAX).is_err(), "its own overflow");
    assert_eq!((source.injected(), vec.len()), (1, 10));
    assert!(vec.iter().map(common::Citizen::id).eq(0..10));
    drop(vec);
    assert_eq!(people.count(), 0);
    assert!(ledger.is_balanced());
    let mut never = Vec::<u8, _>::new_in(AsAllocator::new(NullSource));
    assert!(never.try_reserve(1).is_err());
}

#[test]
fn a_box_is_made_or_refused() {
    let ledger = Ledger::default();
    let source = AsAllocator::new(&ledger);
    let boxed = Box::try_new_in([7u64; 3], source).unwrap();
    assert_eq!(*boxed, [7; 3]);
    assert_eq!(ledger.live(), [layout(24, 8)]);
    drop(boxed);
    let unit = Box::try_new_in((), source).unwrap();
    assert_eq!((*unit, ledger.vended()), ((), 1));
    drop(unit);
    assert!(ledger.is_balanced());
    assert!(Box::try_new_in(1, AsAllocator::new(NullSource)).is_err());
}

#[test]
fn a_hash_map_lives_in_a_pool_and_is_refused_by_value() {
    type Pool = StaticPoolSource<Unsync, 16384, 8>;
    let pool = Pool::new();
    let fill = || {
        let mut map =
            hashbrown::HashMap::with_hasher_in(RandomState::new(), AsAllocator::new(&pool));
        let mut count = 0u64;
        while map.try_reserve(1).is_ok() {
            map.insert(count, count * 3);
            count += 1;
        }
        assert!((0..count).all(|key| map.get(&key) == Some(&(key * 3))));
        map.retain(|key, _| key % 2 == 0);
        assert_eq!(map.len() as u64, count.div_ceil(2));
        assert!(
            map.iter()
                .all(|(key, value)| key % 2 == 0 && *value == key * 3)
        );
        count
    };
    let count = fill();
    assert!(count > 200, "{count}");
    let used = pool.used();
    assert_eq!(fill(), count, "what was given back serves again");
    assert_eq!(pool.used(), used);
    assert_eq!((pool.census().refused, pool.foreign()), (2, 0));
}

#[test]
fn a_vec_in_a_bump_source_holds_it_until_it_is_gone() {
    let mut slab = Slab::<256>::new();
    let mut source = BumpSource::new(&mut slab.0);
    let mut vec = Vec::new_in(AsAllocator::new(&source));
    vec.try_reserve_exact(100).unwrap();
    vec.extend_from_slice(&[1u8; 100]);
    assert_eq!(source.used(), 100);
    drop(vec);
    source.reset();
    // Leaked: then it never ends.
    let source = &source;
    let mut vec = Vec::<u8, _>::new_in(AsAllocator::new(source));
    vec.try_reserve_exact(8).unwrap();
    let leaked = Vec::leak(vec);
    assert!(leaked.is_empty());
    assert_eq!(source.used(), 8);
}

fn bytes<S: BlockSource>(source: &AsAllocator<S>, size: usize, align: usize) -> NonNull<u8> {
    let block = source.allocate(layout(size, align)).unwrap();
    assert_eq!(block.len(), size);
    let block = block.cast::<u8>();
    for at in 0..size {
        // SAFETY: inside the block.
        unsafe { block.add(at).write(u8::try_from(at).unwrap()) };
    }
    block
}

fn holds(block: NonNull<[u8]>, count: usize) -> bool {
    // SAFETY: so many bytes were written, here or where they were copied from.
    (0..count).all(|at| usize::from(unsafe { block.cast::<u8>().add(at).read() }) == at)
}

#[test]
fn blocks_are_moved_to_other_layouts_with_their_bytes() {
    let ledger = Ledger::default();
    let source = AsAllocator::new(&ledger);
    // SAFETY: each block is live and of the layout that is named, and new sizes are not less to grow and
    // not more to shrink.
    unsafe {
        let block = bytes(&source, 10, 1);
        let grown = source.grow(block, layout(10, 1), layout(100, 64)).unwrap();
        assert!(holds(grown, 10) && grown.len() == 100);
        assert_eq!(grown.addr().get() % 64, 0);
        assert_eq!(ledger.live(), [layout(100, 64)]);
        let same = source.grow(grown.cast(), layout(100, 64), layout(100, 64));
        assert_eq!((same, ledger.vended()), (Ok(grown), 2), "left where it is");
        let realigned = source
            .shrink(grown.cast(), layout(100, 64), layout(100, 8))
            .unwrap();
        assert!(holds(realigned, 10) && ledger.live() == [layout(100, 8)]);
        let shrunk = source
            .shrink(realigned.cast(), layout(100, 8), layout(6, 2))
            .unwrap();
        assert!(holds(shrunk, 6) && shrunk.len() == 6);
        let zeroed = source
            .grow_zeroed(shrunk.cast(), layout(6, 2), layout(20, 2))
            .unwrap();
        assert!(holds(zeroed, 6));
        assert!((6..20).all(|at| zeroed.cast::<u8>().add(at).read() == 0));
        source.deallocate(zeroed.cast(), layout(20, 2));
    }
    assert!(ledger.is_balanced());
}

#[test]
fn no_bytes_take_no_memory_and_grow_from_there() {
    let ledger = Ledger::default();
    let source = AsAllocator::new(&ledger);
    let empty = source.allocate(layout(0, 32)).unwrap();
    assert_eq!(
        (empty.len(), empty.addr().get(), ledger.vended()),
        (0, 32, 0)
    );
    // SAFETY: as above.
    unsafe {
        let grown = source
            .grow(empty.cast(), layout(0, 32), layout(8, 1))
            .unwrap();
        assert_eq!(ledger.live(), [layout(8, 1)]);
        let empty = source
            .shrink(grown.cast(), layout(8, 1), layout(0, 1))
            .unwrap();
        assert!(empty.is_empty() && ledger.is_balanced());
        source.deallocate(empty.cast(), layout(0, 1));
    }
    assert!(ledger.is_balanced());
}

#[test]
fn what_is_refused_a_new_layout_keeps_the_old_one() {
    let ledger = Ledger::default();
    let fault = FaultSource::<_>::new(&ledger);
    let source = AsAllocator::new(&fault);
    let block = bytes(&source, 10, 1);
    fault.fail_every(1);
    // SAFETY: as above; what is refused leaves the block as it was.
    unsafe {
        let old = layout(10, 1);
        assert_eq!(source.grow(block, old, layout(11, 1)), Err(AllocError));
        assert_eq!(source.shrink(block, old, layout(9, 1)), Err(AllocError));
        assert_eq!(
            source.grow_zeroed(block, old, layout(11, 1)),
            Err(AllocError)
        );
        assert!(holds(NonNull::slice_from_raw_parts(block, 10), 10));
        assert_eq!(ledger.live(), [old]);
        source.deallocate(block, old);
    }
    assert!(ledger.is_balanced());
    assert!(std::ptr::eq(*source.source(), &raw const fault));
    assert!(std::ptr::eq(source.into_source(), &raw const fault));
}
