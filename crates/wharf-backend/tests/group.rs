//! Segments that go all at once: what is listed is owned, what is lent is borrowed, what fails changes nothing.

#![cfg(feature = "std")]

use wharf_backend::{
    AllocError, BackendExt, FaultInject, Group, GroupError, MemBackend, SegmentMut, StaticPool,
};
use wharf_source::{FaultSource, HeapSource, NullSource, SourceError};
use wharf_sync::Unsync;

type Pool = StaticPool<Unsync, 64, 12>;

#[test]
fn members_are_found_until_they_go() {
    let pool = Pool::new();
    let mut group = Group::new(&pool, HeapSource);
    assert!(group.is_empty());
    let [a, b, c] = [3, 0, 64].map(|size| group.alloc(size).unwrap());
    assert_eq!(
        (group.len(), group.bytes(), pool.census().in_use),
        (3, 67, 3)
    );
    assert_eq!(&**group.get(a).unwrap(), [0; 3]);
    group.get_mut(a).unwrap()[1] = 7;
    assert_eq!(&**group.get(a).unwrap(), [0, 7, 0]);
    assert!(group.iter().map(SegmentMut::len).eq([3, 0, 64]));
    // What is taken out is its owner's, and a member no more.
    let taken = group.take(b).unwrap();
    assert!(group.take(b).is_none() && group.get(b).is_none() && group.get_mut(b).is_none());
    assert_eq!((group.len(), pool.census().in_use), (2, 3));
    let d = group.adopt(taken).unwrap();
    assert_ne!(d, b);
    assert!(group.get(b).is_none(), "its place is not used again");
    assert!(group.get(d).is_some_and(|segment| segment.is_empty()));
    group.clear();
    assert_eq!((group.len(), pool.census().in_use), (0, 0));
    // Members of former times are nobody's, although there is one in their place.
    let e = group.alloc(8).unwrap();
    for old in [a, b, c, d] {
        assert!(group.get(old).is_none());
    }
    assert_eq!(group.get(e).map(|segment| segment.len()), Some(8));
    assert_eq!(group.backend().census().in_use, 1);
    drop(group);
    assert_eq!(pool.census().in_use, 0);
}

#[test]
fn a_refusal_leaves_the_group_as_it_was() {
    let pool = FaultInject::new(Pool::new());
    let source = FaultSource::<_, Unsync>::new(HeapSource);
    let mut group = Group::new(&pool, &source);
    let kept = group.alloc(5).unwrap();
    let alone = |group: &Group<_, _>| {
        assert_eq!(
            (group.len(), group.bytes(), pool.census().in_use),
            (1, 5, 1)
        );
        assert!(group.get(kept).is_some());
    };
    pool.fail_nth(1);
    let injected = GroupError::Alloc(AllocError::Injected { call: 1 });
    assert_eq!(group.alloc(1).unwrap_err(), injected);
    alone(&group);
    let too_large = AllocError::TooLarge {
        requested: 65,
        max: 64,
    };
    assert_eq!(group.alloc(65).unwrap_err(), GroupError::Alloc(too_large));
    alone(&group);
    for _ in 0..7 {
        group.alloc(1).unwrap();
    }
    // The list must grow from 8 to 16.
    source.fail_nth(1);
    let before = pool.census();
    let Err(GroupError::Alloc(AllocError::Source(SourceError::Injected { call: 1, .. }))) =
        group.alloc(1)
    else {
        panic!("the list cannot grow")
    };
    assert_eq!(pool.census(), before, "no segment was asked for");
    source.fail_nth(1);
    let segment = pool.alloc(2).unwrap().init_from(b"ok").unwrap();
    let refused = group.adopt(segment).unwrap_err();
    assert_eq!((&*refused.value, group.len()), (&b"ok"[..], 8));
    assert!(group.adopt(refused.value).is_ok());
    assert_eq!(group.len(), 9);
}

#[test]
fn a_group_without_room_for_its_list_takes_nothing() {
    let pool = Pool::new();
    let mut group = Group::new(&pool, NullSource);
    assert!(matches!(
        group.alloc(1),
        Err(GroupError::Alloc(AllocError::Source(
            SourceError::Null { .. }
        )))
    ));
    assert_eq!((pool.census().in_use, pool.census().peak), (0, 0));
    assert_eq!(format!("{group:?}").matches("len: 0").count(), 1);
}
