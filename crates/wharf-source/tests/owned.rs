//! Owned blocks and values: what they give back, and when.

use core::alloc::Layout;
use core::cell::Cell;
use core::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use wharf_source::{Block, BlockSource, NullSource, Owned, SourceError, StaticPoolSource};
use wharf_sync::Unsync;

type Pool = StaticPoolSource<Unsync, 1024, 4>;

/// Takes blocks until the pool refuses: how many of `layout` are to be had now.
fn free(pool: &Pool, layout: Layout) -> usize {
    let mut taken = Vec::new();
    while let Ok(block) = Block::new(pool, layout) {
        taken.push(block);
    }
    taken.len()
}

struct Bell<'a>(&'a Cell<u32>);
impl Drop for Bell<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn a_block_goes_back_when_it_is_dropped_and_only_then() {
    let pool = Pool::new();
    let layout = Layout::new::<[u8; 128]>();
    assert_eq!(free(&pool, layout), 8);
    let block = Block::new(&pool, layout).unwrap();
    assert_eq!(free(&pool, layout), 7);
    let (ptr, layout, source) = block.into_raw();
    assert_eq!(free(&pool, layout), 7, "taken apart, not released");
    // SAFETY: the very parts.
    let block = unsafe { Block::from_raw(ptr, layout, source) };
    assert_eq!(block.as_ptr(), ptr);
    assert_eq!(
        format!("{block:?}"),
        format!("Block {{ ptr: {ptr:?}, layout: {layout:?}, source: \"static pool\" }}")
    );
    drop(block);
    assert_eq!(free(&pool, layout), 8);
    assert_eq!(pool.foreign(), 0);
}

#[test]
fn a_block_lends_all_its_bytes() {
    let pool = Pool::new();
    let mut block = Block::new(&pool, Layout::new::<[u8; 100]>()).unwrap();
    assert_eq!(block.as_uninit_mut().len(), 100);
    block.as_uninit_mut().fill(MaybeUninit::new(9));
    // SAFETY: just filled.
    assert_eq!(unsafe { block.as_ptr().add(99).read() }, 9);
}

#[test]
fn a_value_is_dropped_once_whichever_way_it_ends() {
    let pool = Pool::new();
    let rung = Cell::new(0);
    let layout = Layout::new::<Bell<'_>>();
    let all = free(&pool, layout);

    drop(Owned::new(&pool, Bell(&rung)).ok().unwrap());
    assert_eq!(rung.get(), 1);
    let inner = Owned::into_inner(Owned::new(&pool, Bell(&rung)).ok().unwrap());
    assert_eq!(rung.get(), 1, "moved out");
    assert_eq!(free(&pool, layout), all, "and its block is back already");
    drop(inner);
    assert_eq!(rung.get(), 2);
    let (ptr, source) = Owned::into_raw(Owned::new(&pool, Bell(&rung)).ok().unwrap());
    assert_eq!(rung.get(), 2);
    // SAFETY: the very parts.
    drop(unsafe { Owned::from_raw(ptr, source) });
    assert_eq!(rung.get(), 3);
    assert_eq!(free(&pool, layout), all);
}

#[test]
fn a_refused_value_comes_back() {
    let rung = Cell::new(0);
    let (error, bell) = Owned::new(NullSource, Bell(&rung)).err().unwrap();
    let requested = size_of::<Bell<'_>>();
    assert_eq!(error, SourceError::Null { requested });
    assert_eq!(rung.get(), 0);
    drop(bell);
    assert_eq!(rung.get(), 1);
}

#[test]
fn a_value_is_filled_in_place() {
    let pool = Pool::new();
    let mut place = Owned::<[u16; 4], _>::uninit(&pool).unwrap();
    let first: *mut u16 = place.as_mut_ptr().cast();
    for n in 0..4u16 {
        // SAFETY: inside the place.
        unsafe { first.add(n.into()).write(n) };
    }
    // SAFETY: all four were written.
    let mut value = unsafe { place.assume_init() };
    assert_eq!(*value, [0, 1, 2, 3]);
    value[3] = 7;
    assert_eq!(format!("{value:?}"), "[0, 1, 2, 7]");
    assert_eq!(Owned::new(&pool, 3.25).unwrap().to_string(), "3.25");
    assert!(core::ptr::eq(*Owned::source(&value), &raw const pool));

    let unfilled = Owned::<Bell<'_>, _>::uninit(&pool).unwrap();
    drop(unfilled); // nothing to drop but the place
}

#[test]
fn a_value_without_bytes_takes_none() {
    let pool = Pool::new();
    let unit = Owned::new(&pool, ()).unwrap();
    assert_eq!(pool.used(), 0);
    assert_eq!(*unit, ());
    drop(Owned::new(NullSource, [0u64; 0]).unwrap());
}

#[test]
fn a_drop_that_panics_still_gives_the_block_back() {
    struct Grenade([u8; 512]);
    impl Drop for Grenade {
        fn drop(&mut self) {
            panic!("as it should");
        }
    }
    let pool = Pool::new();
    let layout = Layout::new::<[u64; 64]>();
    let grenade = Owned::new(&pool, Grenade([0; 512])).ok().unwrap();
    assert_eq!(grenade.0[511], 0);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(grenade))).is_err());
    assert_eq!(free(&pool, layout), 2);
}

#[test]
fn a_source_behind_dyn_answers_the_same() {
    let pool = Pool::new();
    let handle = &pool;
    let erased: &dyn BlockSource = &handle;
    let block = Block::new(erased, Layout::new::<[u8; 1024]>()).unwrap();
    let refused = Block::new(erased, Layout::new::<u8>()).err();
    let exhausted = SourceError::Exhausted {
        requested: 1,
        available: 0,
    };
    assert_eq!(refused, Some(exhausted));
    assert_eq!(erased.census(), pool.census());
    assert_eq!(erased.census().refused, 1);
    assert_eq!(block.source().name(), "static pool");
}

#[cfg(feature = "alloc")]
#[test]
fn counted_handles_keep_their_source() {
    use std::rc::Rc;
    use std::sync::Arc;
    use wharf_source::HeapSource;

    let shared = Rc::new(HeapSource);
    let block = Block::new(Rc::clone(&shared), Layout::new::<u64>()).unwrap();
    assert_eq!(Rc::strong_count(&shared), 2);
    drop(block);
    assert_eq!(Rc::strong_count(&shared), 1);

    let shared: Arc<dyn BlockSource + Send + Sync> = Arc::new(HeapSource);
    let mut value = Owned::new(Arc::clone(&shared), [1u8; 3]).unwrap();
    value[0] = 2;
    assert_eq!(Owned::into_inner(value), [2, 1, 1]);
    assert_eq!(Arc::strong_count(&shared), 1);
    assert_eq!(shared.name(), "heap");
}
