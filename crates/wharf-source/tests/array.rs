//! What an array in a block does, in worked-out values.

mod common;

use common::{Citizen, Ledger, Population, Slab};
use core::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};

use wharf_source::{
    Block, BlockArray, BumpSource, FaultSource, InsertError, NullSource, PoolSource, SizeClass,
    SourceError,
};
use wharf_sync::Unsync;

type Array<'l, T> = BlockArray<T, &'l Ledger>;

fn numbers(ledger: &Ledger, count: u32) -> Array<'_, u32> {
    let mut array = BlockArray::new(ledger);
    array.try_extend(0..count).unwrap();
    array
}

#[test]
fn it_takes_8_first_and_then_doubles() {
    let ledger = Ledger::default();
    let mut array = BlockArray::new(&ledger);
    assert_eq!((array.capacity(), ledger.vended()), (0, 0));
    let mut capacities = Vec::new();
    for n in 0..100u16 {
        array.push(n).unwrap();
        assert_eq!(ledger.live().len(), 1, "the old block went back");
        assert_eq!(ledger.live()[0].size(), array.capacity() * 2);
        if capacities.last() != Some(&array.capacity()) {
            capacities.push(array.capacity());
        }
    }
    assert_eq!(capacities, [8, 16, 32, 64, 128]);
    assert!(array.iter().copied().eq(0..100));
    drop(array);
    assert!(ledger.is_balanced());
}

#[test]
fn room_is_made_at_once_and_not_twice() {
    let ledger = Ledger::default();
    let mut array = BlockArray::<u8, _>::with_capacity(&ledger, 5).unwrap();
    assert_eq!((array.capacity(), ledger.vended()), (5, 1));
    array.try_reserve(5).unwrap();
    array.try_reserve_exact(5).unwrap();
    assert_eq!((array.capacity(), ledger.vended()), (5, 1));
    array.extend_from_slice(&[1, 2, 3, 4]).unwrap();
    array.try_reserve(1).unwrap();
    assert_eq!(array.capacity(), 5);
    array.try_reserve(2).unwrap();
    assert_eq!(array.capacity(), 10, "doubled");
    array.try_reserve_exact(8).unwrap();
    assert_eq!(array.capacity(), 12, "exactly");
    array.try_reserve(100).unwrap();
    assert_eq!(array.capacity(), 104);
    assert_eq!(array, [1, 2, 3, 4]);
    let none = BlockArray::<u8, _>::with_capacity(NullSource, 0).unwrap();
    assert_eq!(none.capacity(), 0);
}

#[test]
fn a_refused_push_returns_the_value_and_changes_nothing() {
    let people = Population::default();
    let ledger = Ledger::default();
    let source = FaultSource::<_>::new(&ledger);
    source.fail_nth(2);
    let mut array = BlockArray::new(&source);
    for id in 0..8 {
        array.push(people.born(id)).unwrap();
    }
    let before = array.as_ptr();
    let size = size_of::<Citizen<'_>>();
    let (error, value) = array.push(people.born(8)).unwrap_err();
    assert_eq!(
        error,
        SourceError::Injected {
            requested: 16 * size,
            call: 2
        }
    );
    assert_eq!((value.id(), array.len(), array.as_ptr()), (8, 8, before));
    assert_eq!(people.count(), 9);
    array.push(value).unwrap();
    assert!(array.iter().map(Citizen::id).eq(0..9));
    drop(array);
    assert_eq!(people.count(), 0);
    assert!(ledger.is_balanced());
}

/// `reserve(SIZE_MAX / 8 + 2)` wraps, and answers yes, in what this was modelled on.
#[test]
fn a_size_that_would_wrap_is_an_error() {
    let ledger = Ledger::default();
    let mut array = BlockArray::<u64, _>::new(&ledger);
    array.push(1).unwrap();
    for count in [
        usize::MAX / 8 + 2,
        usize::MAX / 8,
        usize::MAX / 16 + 1,
        usize::MAX - 1,
    ] {
        let overflow = SourceError::Overflow {
            count: count + 1,
            size: 8,
        };
        assert_eq!(array.try_reserve(count), Err(overflow));
        assert_eq!(array.try_reserve_exact(count), Err(overflow));
    }
    let overflow = SourceError::Overflow {
        count: usize::MAX,
        size: 8,
    };
    assert_eq!(
        array.try_reserve(usize::MAX),
        Err(overflow),
        "the sum wraps"
    );
    assert_eq!(array.capacity(), 8);
    assert_eq!(ledger.vended(), 1, "no source was asked");
    assert_eq!(
        BlockArray::<u64, _>::with_capacity(NullSource, usize::MAX).err(),
        Some(overflow)
    );
    // What a layout can say goes to the source, which refuses it.
    let refused = BlockArray::<u8, _>::with_capacity(NullSource, isize::MAX as usize).err();
    assert_eq!(
        refused,
        Some(SourceError::Null {
            requested: isize::MAX as usize
        })
    );
}

#[test]
fn an_element_of_itself_is_pushed_at_capacity() {
    let ledger = Ledger::default();
    let mut array = BlockArray::with_capacity(&ledger, 1).unwrap();
    array.push(0xA5A5_u64).unwrap();
    for _ in 0..20 {
        array.push(array[0]).unwrap();
    }
    assert!(array.len() == 21 && array.iter().all(|&n| n == 0xA5A5));
}

#[test]
#[expect(
    clippy::forget_non_drop,
    reason = "that it is the same as dropping is what is tested"
)]
fn a_slot_counts_only_once_it_is_filled() {
    let ledger = Ledger::default();
    let people = Population::default();
    let mut array = BlockArray::new(&ledger);
    array.push(people.born(0)).unwrap();
    drop(array.push_slot().unwrap());
    core::mem::forget(array.push_slot().unwrap());
    let slot = array.push_slot().unwrap();
    assert_eq!(format!("{slot:?}"), "ArraySlot { index: 1, .. }");
    drop(slot);
    assert_eq!((array.len(), people.count()), (1, 1));
    let written = array.push_slot().unwrap().write(people.born(1));
    assert_eq!(*written, 1);
    let mut slot = array.push_slot().unwrap();
    slot.as_uninit_mut().write(people.born(2));
    // SAFETY: just written.
    assert_eq!(*unsafe { slot.assume_init() }, 2);
    assert!(array.iter().map(Citizen::id).eq(0..3));
    drop(array);
    assert_eq!(people.count(), 0);
    assert!(ledger.is_balanced());
}

#[test]
fn what_is_filled_and_not_counted_leaks_and_no_more() {
    let dropped = Cell::new(0);
    let ledger = Ledger::default();
    let mut array = BlockArray::new(&ledger);
    let mut slot = array.push_slot().unwrap();
    slot.as_uninit_mut().write(Grenade(&dropped, true));
    drop(slot);
    assert!(array.is_empty());
    assert!(array.push(Grenade(&dropped, false)).is_ok());
    drop(array);
    assert_eq!(dropped.get(), 1, "the one that was counted");
    assert!(ledger.is_balanced());
}

#[test]
fn a_refused_slot_changes_nothing() {
    let mut array = BlockArray::<[u8; 1500], _>::new(NullSource);
    let refused = array.push_slot().err();
    assert_eq!(refused, Some(SourceError::Null { requested: 12000 }));
    assert!(array.is_empty());
}

#[test]
fn ends_are_taken_and_looked_at() {
    let ledger = Ledger::default();
    let mut array = numbers(&ledger, 3);
    assert_eq!((array.front(), array.back()), (Some(&0), Some(&2)));
    *array.front_mut().unwrap() = 10;
    *array.back_mut().unwrap() = 12;
    assert_eq!([array.pop(), array.pop()], [Some(12), Some(1)]);
    assert_eq!((array.front(), array.back()), (Some(&10), Some(&10)));
    assert_eq!([array.pop(), array.pop()], [Some(10), None]);
    assert_eq!((array.front(), array.back()), (None, None));
    assert!(array.front_mut().is_none() && array.back_mut().is_none());
    assert_eq!(array.capacity(), 8, "the room stays");
}

#[test]
fn indices_in_bounds_answer_and_others_panic_or_are_none() {
    let ledger = Ledger::default();
    let mut array = numbers(&ledger, 4);
    array[1] = 11;
    array[2..].copy_from_slice(&[12, 13]);
    assert_eq!((array[1], &array[..2]), (11, &[0, 11][..]));
    assert_eq!((array.get(3), array.get(4)), (Some(&13), None));
    let beyond = catch_unwind(AssertUnwindSafe(|| array[4]));
    assert!(beyond.is_err(), "there is room, but no element");
}

#[test]
fn elements_are_inserted_and_removed() {
    let ledger = Ledger::default();
    let mut array = numbers(&ledger, 4);
    array.insert(0, 10).unwrap();
    array.insert(5, 15).unwrap();
    array.insert(2, 12).unwrap();
    assert_eq!(array, [10, 0, 12, 1, 2, 3, 15]);
    let out = InsertError::OutOfBounds { index: 8, len: 7 };
    assert_eq!(array.insert(8, 1), Err((out, 1)));
    assert_eq!([array.remove(2), array.remove(7)], [Some(12), None]);
    assert_eq!([array.remove(0), array.remove(4)], [Some(10), Some(15)]);
    assert_eq!(array, [0, 1, 2, 3]);
    assert_eq!(array.remove(4), None);
    assert_eq!(array.swap_remove(4), None);
    assert_eq!(
        [array.swap_remove(0), array.swap_remove(2)],
        [Some(0), Some(2)]
    );
    assert_eq!(array, [3, 1]);
    array.clear();
    assert_eq!([array.swap_remove(0), array.remove(0)], [None, None]);

    let mut refused = BlockArray::new(NullSource);
    let error = InsertError::Refused(SourceError::Null { requested: 8 });
    assert_eq!(refused.insert(0, 7u8), Err((error, 7)));
    assert_eq!(
        error.to_string(),
        "null source refuses everything (8 bytes requested)"
    );
    assert_eq!(out.to_string(), "cannot insert at 8 among 7 elements");
    let source = |error: &InsertError| std::error::Error::source(error).map(ToString::to_string);
    assert_eq!(source(&error), Some(error.to_string()));
    assert_eq!(source(&out), None);
}

#[test]
fn an_extension_keeps_what_came_before_the_refusal() {
    let people = Population::default();
    let ledger = Ledger::default();
    let source = FaultSource::<_>::new(&ledger);
    let mut array = BlockArray::new(&source);
    source.fail_nth(2);
    // One at a time: nobody says how many are coming.
    let mut ids = (0..20).filter(|_| true);
    let (error, refused) = array
        .try_extend(ids.by_ref().map(|id| people.born(id)))
        .unwrap_err();
    assert!(matches!(error, SourceError::Injected { call: 2, .. }));
    assert_eq!((refused.id(), array.len(), ids.next()), (8, 8, Some(9)));
    drop(refused);
    assert_eq!(people.count(), 8);
    drop(array);
    assert!(ledger.is_balanced());

    // Room for as many as are announced, at once.
    let ledger = Ledger::default();
    let source = FaultSource::<_>::new(&ledger);
    let mut array = BlockArray::new(&source);
    array.try_extend(0..100u8).unwrap();
    assert_eq!((array.capacity(), ledger.vended()), (100, 1));
    source.fail_nth(1);
    let mut more = 100..110u8;
    let refused = array.try_extend(more.by_ref()).unwrap_err();
    assert_eq!((refused.1, more, array.len()), (100, 101..110, 100));
    // An iterator without an end goes as far as it can.
    source.fail_nth(2);
    let (_, item) = array.try_extend(100..).unwrap_err();
    assert_eq!((item, array.len(), ledger.vended()), (200, 200, 2));
    // One that announces more than there can be is refused at once.
    let (error, item) = array
        .try_extend(core::iter::repeat_n(1, usize::MAX))
        .unwrap_err();
    let overflow = SourceError::Overflow {
        count: usize::MAX,
        size: 1,
    };
    assert_eq!((error, item, array.len()), (overflow, 1, 200));
}

#[test]
fn a_slice_is_appended_whole_or_not_at_all() {
    let people = Population::default();
    let ledger = Ledger::default();
    let source = FaultSource::<_>::new(&ledger);
    let more: Vec<_> = (0..10).map(|id| people.born(id)).collect();
    let mut array = BlockArray::new(&source);
    array.extend_from_slice(&more[..8]).unwrap();
    source.fail_nth(1);
    let refused = array.extend_from_slice(&more[8..]).unwrap_err();
    assert!(matches!(refused, SourceError::Injected { call: 1, .. }));
    assert_eq!((array.len(), people.count()), (8, 18));
    array.extend_from_slice(&more[8..]).unwrap();
    assert!(array.iter().map(Citizen::id).eq(0..10));
    array.extend_from_slice(&[]).unwrap();
    assert_eq!((array.len(), array.capacity()), (10, 16));
}

#[test]
fn truncating_drops_the_tail_and_nothing_else() {
    let people = Population::default();
    let ledger = Ledger::default();
    let mut array = BlockArray::new(&ledger);
    array.try_extend((0..10).map(|id| people.born(id))).unwrap();
    array.truncate(11);
    array.truncate(10);
    assert_eq!(people.count(), 10);
    array.truncate(4);
    assert_eq!((array.len(), people.count()), (4, 4));
    assert!(array.iter().map(Citizen::id).eq(0..4));
    array.clear();
    assert_eq!((array.len(), people.count()), (0, 0));
    assert_eq!(ledger.live().len(), 1, "the room stays");
}

#[test]
fn elements_are_taken_from_both_ends_and_the_rest_is_dropped() {
    let people = Population::default();
    let ledger = Ledger::default();
    let mut array = BlockArray::new(&ledger);
    array.try_extend((0..6).map(|id| people.born(id))).unwrap();
    let mut elements = array.into_iter();
    assert_eq!(elements.len(), 6);
    assert!(elements.next().is_some_and(|first| first == 0));
    assert!(elements.next_back().is_some_and(|last| last == 5));
    assert_eq!(elements.size_hint(), (4, Some(4)));
    assert!(elements.as_slice().iter().map(Citizen::id).eq(1..5));
    assert_eq!(people.count(), 4);
    drop(elements);
    assert_eq!(people.count(), 0);
    assert!(ledger.is_balanced());

    let mut elements = numbers(&ledger, 2).into_iter();
    assert_eq!(format!("{elements:?}"), "ArrayIntoIter([0, 1])");
    assert_eq!([elements.next(), elements.next_back()], [Some(0), Some(1)]);
    assert_eq!([elements.next(), elements.next_back()], [None, None]);
    assert_eq!(elements.len(), 0);
    drop(elements);
    assert!(ledger.is_balanced());
}

/// A value whose drop panics, if it is told to, after it has counted.
struct Grenade<'c>(&'c Cell<u32>, bool);

impl Drop for Grenade<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
        assert!(!self.1, "as it should");
    }
}

#[test]
fn a_drop_that_panics_leaks_at_most() {
    let dropped = Cell::new(0);
    let ledger = Ledger::default();
    let five = || {
        let mut array = BlockArray::new(&ledger);
        for n in 0..5 {
            assert!(array.push(Grenade(&dropped, n == 2)).is_ok());
        }
        array
    };
    let panics = |action: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(action)).is_err();

    let mut array = Some(five());
    assert!(panics(&mut || drop(array.take())));
    assert_eq!(dropped.replace(0), 5, "the others are dropped all the same");
    assert!(ledger.is_balanced(), "and the block went back");

    let mut array = five();
    assert!(panics(&mut || array.truncate(1)));
    assert_eq!((array.len(), dropped.replace(0)), (1, 4));
    drop(array);
    assert_eq!(dropped.replace(0), 1);

    let mut elements = Some(five().into_iter());
    drop(elements.as_mut().and_then(Iterator::next));
    assert!(panics(&mut || drop(elements.take())));
    assert_eq!(dropped.replace(0), 5);
    assert!(ledger.is_balanced());
}

#[test]
fn a_clone_that_panics_leaves_what_was_appended() {
    struct Shy<'c>(u32, &'c Cell<u32>);
    impl Clone for Shy<'_> {
        fn clone(&self) -> Self {
            assert_ne!(self.0, 3, "as it should");
            self.1.set(self.1.get() + 1);
            Self(self.0, self.1)
        }
    }
    impl Drop for Shy<'_> {
        fn drop(&mut self) {
            self.1.set(self.1.get() - 1);
        }
    }
    let alive = Cell::new(5);
    let ledger = Ledger::default();
    let original: Vec<_> = (0..5).map(|id| Shy(id, &alive)).collect();
    let mut array = BlockArray::new(&ledger);
    let panicked = catch_unwind(AssertUnwindSafe(|| array.extend_from_slice(&original)));
    assert!(panicked.is_err());
    assert_eq!((array.len(), alive.get()), (3, 8));
    drop(array);
    assert_eq!(alive.get(), 5);
    assert!(ledger.is_balanced());
}

#[test]
fn elements_without_bytes_take_no_memory() {
    let dropped = Cell::new(0);
    thread_local!(static DROPPED: Cell<u32> = const { Cell::new(0) });
    #[derive(Clone)]
    struct Nothing;
    impl Drop for Nothing {
        fn drop(&mut self) {
            DROPPED.with(|dropped| dropped.set(dropped.get() + 1));
        }
    }
    let mut array = BlockArray::new(NullSource);
    assert_eq!(array.capacity(), usize::MAX);
    for _ in 0..10 {
        assert!(array.push(Nothing).is_ok());
    }
    array.extend_from_slice(&[const { Nothing }; 5]).unwrap();
    assert_eq!(array.try_reserve(usize::MAX - 15), Ok(()));
    let overflow = SourceError::Overflow {
        count: usize::MAX,
        size: 0,
    };
    assert_eq!(array.try_reserve(usize::MAX - 14), Err(overflow));
    assert_eq!(overflow.requested(), 0);
    dropped.set(DROPPED.replace(0));
    assert_eq!(dropped.get(), 5, "the slice that was cloned");
    drop(array.pop());
    array.truncate(12);
    let mut elements = array.into_iter();
    assert_eq!((elements.len(), elements.by_ref().take(2).count()), (12, 2));
    assert_eq!(DROPPED.get(), 5);
    drop(elements);
    assert_eq!(DROPPED.get(), 15);

    #[repr(align(64))]
    struct Aligned;
    let mut array = BlockArray::new(NullSource);
    assert!(array.push(Aligned).is_ok());
    assert_eq!(array.as_ptr().addr() % 64, 0);
    let alignment_before_the_first = BlockArray::<u64, _>::new(NullSource).as_ptr().addr();
    assert_eq!(alignment_before_the_first % 8, 0);
}

#[test]
fn it_is_seen_as_its_elements() {
    let ledger = Ledger::default();
    let mut array = numbers(&ledger, 3);
    for element in &mut array {
        *element += 1;
    }
    let mut sum = 0;
    for element in &array {
        sum += element;
    }
    assert_eq!(sum, 6);
    assert_eq!(array.as_mut(), [1, 2, 3]);
    assert_eq!(AsRef::<[u32]>::as_ref(&array), array.as_slice());
    assert_eq!(std::borrow::Borrow::<[u32]>::borrow(&array), [1, 2, 3]);
    std::borrow::BorrowMut::<[u32]>::borrow_mut(&mut array)[0] = 0;
    assert_eq!(format!("{array:?}"), "[0, 2, 3]");

    let mut other = BlockArray::new(&ledger);
    other.extend_from_slice(&[0, 2, 3]).unwrap();
    assert_eq!(array, other);
    assert_eq!(array, *[0, 2, 3].as_slice());
    let state = RandomState::new();
    assert_eq!(
        state.hash_one(&array),
        state.hash_one([0u32, 2, 3].as_slice())
    );
    other[2] = 4;
    assert!(array < other && array.cmp(&other).is_lt());
    assert_ne!(state.hash_one(&array), state.hash_one(&other));
    assert!(array != other && array != [0, 2] && array != *[1].as_slice());
    assert!(std::ptr::eq(*array.source(), &raw const ledger));
}

/// Growing needs both blocks at once, and a pool keeps the old one for the next array.
#[test]
fn what_growth_leaves_behind_serves_the_next_array() {
    let (mut slab, mut table) = (Slab::<1024>::new(), [SizeClass::EMPTY; 4]);
    let pool = PoolSource::<Unsync>::new(&mut slab.0, &mut table);
    let fill = || {
        let mut array = BlockArray::new(&pool);
        array.try_extend((0..64u32).filter(|_| true)).unwrap();
        assert_eq!(array.capacity(), 64);
    };
    fill();
    assert_eq!(pool.used(), 32 + 64 + 128 + 256);
    fill();
    assert_eq!(pool.used(), 480, "recycled, all four");
    let mut scratch = Slab::<1024>::new();
    let bump = BumpSource::new(&mut scratch.0);
    for round in 1..=2 {
        let mut array = BlockArray::new(&bump);
        array.try_extend((0..64u32).filter(|_| true)).unwrap();
        assert_eq!(bump.used(), 480 * round);
    }
}

#[test]
fn arrays_nest_and_hold_what_owns_memory_of_the_same_source() {
    let ledger = Ledger::default();
    let mut outer = BlockArray::new(&ledger);
    for n in 0..20 {
        outer.push(numbers(&ledger, n)).unwrap();
    }
    assert!(outer.iter().map(|inner| inner.len()).eq(0..20));
    let blocks: Vec<_> = outer.into_iter().skip(10).collect();
    assert_eq!(blocks.len(), 10);
    drop(blocks);
    assert!(ledger.is_balanced());
    let mut blocks = BlockArray::new(&ledger);
    for size in 1..30 {
        let block = Block::new(&ledger, common::layout(size, 1)).unwrap();
        blocks.push(block).unwrap();
    }
    drop(blocks);
    assert!(ledger.is_balanced());
}
