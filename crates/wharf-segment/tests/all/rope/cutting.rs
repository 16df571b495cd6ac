//! Views: cut, joined, in pieces, found, compared, written.

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroUsize;

use wharf_backend::{
    BackendExt, BackendRef, BorrowedShared, DeviceAddress, MemBackend, NotHostAddressable, Place,
    ReadableBackend, StaticPool, TransferError,
};
use wharf_segment::{JoinError, OutOfBounds, Pinned, Segment, View};
use wharf_sync::Unsync;

use super::device::{BASE, device, huge, whole};
use super::{Pool, erased, piece};

#[test]
fn cutting_moves_the_edges_and_refuses_what_is_not_there() {
    let pool = Pool::new();
    let mut view = piece(&pool, b"0123456789");
    let head = view.split_to(3).unwrap();
    assert_eq!(
        (&*head, &*view, view.offset()),
        (&b"012"[..], &b"3456789"[..], 3)
    );
    let tail = view.split_off(5).unwrap();
    assert_eq!(
        (&*view, &*tail, tail.offset()),
        (&b"34567"[..], &b"89"[..], 8)
    );
    view.advance(1).unwrap();
    view.truncate(3).unwrap();
    assert_eq!((&*view, view.offset()), (&b"456"[..], 4));
    assert_eq!(view.segment().holders(), 3);

    for at in [4, usize::MAX - 3, usize::MAX] {
        let position = OutOfBounds {
            start: at,
            end: at,
            len: 3,
        };
        assert_eq!(view.advance(at), Err(position));
        assert_eq!(view.truncate(at), Err(position));
        let head = OutOfBounds {
            start: 0,
            end: at,
            len: 3,
        };
        assert_eq!(view.split_to(at).unwrap_err(), head);
        let tail = OutOfBounds {
            start: at,
            end: 3,
            len: 3,
        };
        assert_eq!(view.split_off(at).unwrap_err(), tail);
    }
    assert_eq!(
        (&*view, view.offset()),
        (&b"456"[..], 4),
        "a refusal changes nothing"
    );
    assert_eq!(view.segment().holders(), 3);

    // To both ends.
    assert_eq!(view.split_off(3).unwrap(), b"");
    assert_eq!(view.split_to(0).unwrap(), b"");
    let all = view.split_to(3).unwrap();
    assert_eq!((&*all, view.len(), view.offset()), (&b"456"[..], 0, 7));
    view.advance(0).unwrap();
    view.truncate(0).unwrap();
}

#[test]
fn neighbours_join_and_others_come_back() {
    let pool = Pool::new();
    let whole = piece(&pool, b"abcdef");
    let (ab, cd) = (whole.slice(..2).unwrap(), whole.slice(2..4).unwrap());
    let ef = whole.slice(4..).unwrap();

    let refused = ab.join(ef).unwrap_err();
    assert_eq!(refused.error, JoinError::Apart { end: 2, start: 4 });
    assert_eq!(
        refused.error.to_string(),
        "the first view ends at 2 of the segment, the second starts at 4"
    );
    let (ab, ef) = refused.value;
    let refused = cd.join(ab).unwrap_err();
    assert_eq!(refused.error, JoinError::Apart { end: 4, start: 0 });
    let (cd, ab) = refused.value;
    assert_eq!((&*ab, &*cd, &*ef), (&b"ab"[..], &b"cd"[..], &b"ef"[..]));

    let abcd = ab.join(cd).unwrap();
    assert_eq!((&*abcd, whole.segment().holders()), (&b"abcd"[..], 3));
    let all = abcd.join(ef).unwrap();
    assert_eq!((all, whole.segment().holders()), (whole.clone(), 2));

    // The same place in another segment is no neighbour, equal bytes or not.
    let other = piece(&pool, b"abcdef").slice(2..).unwrap();
    let refused = whole.slice(..2).unwrap().join(other).unwrap_err();
    assert_eq!(refused.error, JoinError::OtherSegment);

    // Nothing, at the right place.
    let nothing = whole.slice(6..).unwrap();
    assert_eq!(whole.join(nothing).unwrap(), b"abcdef");
    assert_eq!(pool.census().in_use, 2, "those that came back");
    drop(refused);
    assert_eq!(pool.census().in_use, 0);
}

#[test]
fn chunks_cover_a_view_and_are_counted() {
    let pool = Pool::new();
    let view = piece(&pool, b"0123456789").slice(1..9).unwrap();
    let sized = |size| view.chunks(NonZeroUsize::new(size).unwrap());
    let chunks: Vec<_> = sized(3).collect();
    assert_eq!(chunks, [&b"123"[..], b"456", b"78"]);
    assert_eq!(chunks[2].offset(), 7);
    assert_eq!(sized(8).map(|chunk| chunk.len()).collect::<Vec<_>>(), [8]);
    assert_eq!(
        sized(usize::MAX)
            .map(|chunk| chunk.len())
            .collect::<Vec<_>>(),
        [8]
    );
    assert_eq!(
        (
            sized(1).len(),
            sized(3).len(),
            sized(4).len(),
            sized(9).len()
        ),
        (8, 3, 2, 1)
    );
    let mut some = sized(3);
    some.next();
    assert_eq!((some.len(), some.clone().count()), (2, 2));
    let empty = view.slice(2..2).unwrap();
    assert_eq!(empty.chunks(NonZeroUsize::MIN).count(), 0);
}

#[test]
fn a_found_piece_is_a_view_only_of_its_own_bytes() {
    let pool = Pool::new();
    let whole = piece(&pool, b"key=value");
    let value = whole.slice(4..).unwrap();
    let found = value.slice_ref(&value[1..3]).unwrap();
    assert_eq!((found.offset(), &*found), (5, &b"al"[..]));
    assert_eq!(
        value.slice_ref(&value[5..]).unwrap().offset(),
        9,
        "the end is a place"
    );
    assert!(
        value.slice_ref(&whole[3..5]).is_none(),
        "starts before the view"
    );
    assert!(found.slice_ref(&value[1..4]).is_none(), "ends behind it");
    assert!(value.slice_ref(b"al").is_none());
    let device = device(b"value");
    assert!(self::whole(&device).slice_ref(b"").is_none());
}

#[test]
fn the_place_of_a_view_is_that_of_its_first_byte() {
    let pool = Pool::new();
    let view = piece(&pool, b"abcdef").slice(2..).unwrap();
    let Place::Host(place) = view.place() else {
        panic!("host memory")
    };
    assert_eq!(place.as_ptr().cast_const(), view.as_ptr());
    let Place::Host(base) = view.segment().place() else {
        panic!("host memory")
    };
    assert_eq!(place.addr().get() - base.addr().get(), 2);

    let device = device(b"abcdef");
    let view = whole(&device).slice(4..).unwrap();
    assert_eq!(view.place(), Place::Device(DeviceAddress::new(BASE + 4)));
    assert_eq!(view.host(), Err(NotHostAddressable));

    // The last bytes that have an address, and what is behind them.
    let last = huge(u64::MAX - 8, 8);
    let view = View::from(Segment::from(last.lend().unwrap()));
    let end = view.slice(8..).unwrap();
    assert_eq!(end.place(), Place::Device(DeviceAddress::new(u64::MAX)));
}

#[test]
#[expect(
    clippy::mutable_key_type,
    reason = "nobody writes the bytes that are compared"
)]
fn handles_compare_and_hash_as_their_bytes() {
    let (pool, other) = (Pool::new(), StaticPool::<Unsync, 4, 4>::new());
    let view = piece(&pool, b"xabc").slice(1..).unwrap();
    let there = Segment::from(other.alloc(3).unwrap().init_from(b"abc").unwrap());
    assert_eq!(view, View::from(there.clone()), "of another backend, too");
    assert_eq!(there, there.clone());
    assert_eq!(view, *b"abc");
    assert_eq!(view, b"abc");
    assert_eq!(there, b"abc"[..]);
    assert_eq!(b"abc"[..], view);
    assert_ne!(view, b"abd");
    assert_ne!(view, b"ab");
    assert_ne!(view, b"xabc");

    let mut names = HashMap::from([(view.clone(), 1)]);
    assert_eq!(names.get(&b"abc"[..]), Some(&1), "looked up by a slice");
    assert_eq!(
        names.insert(piece(&pool, b"abc"), 2),
        Some(1),
        "equal is equal"
    );
    let sorted = BTreeSet::from([
        piece(&pool, b"b"),
        piece(&pool, b"ab"),
        piece(&pool, b"abc"),
    ]);
    assert!(sorted.iter().eq([&b"ab"[..], b"abc", b"b"]));
    assert!(view < piece(&pool, b"abd"));
    let bytes: &[u8] = view.borrow();
    assert_eq!(bytes, b"abc");
    assert!(view.into_iter().eq(b"abc"));
}

#[test]
fn a_view_thaws_when_it_is_the_only_handle() {
    let pool = Pool::new();
    let whole = piece(&pool, b"01234567");
    let view = whole.slice(2..6).unwrap().try_mut().unwrap_err();
    assert_eq!(
        (&*view, view.offset()),
        (&b"2345"[..], 2),
        "it came back as it was"
    );
    drop(whole);
    let mut unique = view.try_mut().unwrap();
    assert_eq!(
        (unique.len(), unique.offset(), unique.is_empty()),
        (4, 2, false)
    );
    unique[0] = b'a';
    unique.write(1, b"bc").unwrap();
    unique.fill(3, 1, b'd').unwrap();
    unique.host_mut().unwrap()[1] = b'B';
    let mut two = [0; 2];
    unique.read(2, &mut two).unwrap();
    assert_eq!((&two, unique.host().unwrap()), (b"cd", &b"aBcd"[..]));

    // Nothing behind the window, though the segment goes on.
    for offset in [3, 4, usize::MAX - 1, usize::MAX] {
        let error = TransferError::OutOfBounds {
            offset,
            len: 2,
            size: 4,
        };
        assert_eq!(unique.write(offset, b"!!"), Err(error));
        assert_eq!(unique.read(offset, &mut two), Err(error));
        assert_eq!(unique.fill(offset, 2, b'!'), Err(error));
    }
    let view = unique.freeze();
    assert_eq!((&*view, view.offset()), (&b"aBcd"[..], 2));
    assert_eq!(&*view.clone().into_segment(), b"01aBcd67");
    assert_eq!(view.segment().holders(), 1);
    let whole = view.try_mut().unwrap().into_segment();
    assert_eq!(&*whole, b"01aBcd67");
    drop(whole);
    assert_eq!(pool.census().in_use, 0);
}

#[test]
fn a_window_on_a_device_thaws_too() {
    let device = device(b"01234567");
    let mut window = whole(&device).split_off(2).unwrap();
    window.truncate(4).unwrap();
    let mut unique = window.try_mut().unwrap();
    assert_eq!(unique.host_mut(), Err(NotHostAddressable));
    unique.write(1, b"ab").unwrap();
    unique.fill(3, 1, b'c').unwrap();
    drop(unique);
    assert_eq!(super::device::contents(&device), b"012abc67");
}

#[test]
fn pinned_counts_each_segment_once_and_knows_who_else_holds_it() {
    let pool = Pool::new();
    let (first, second) = (piece(&pool, b"0123456789"), piece(&pool, b"abcde"));
    let one = first.slice(2..4).unwrap();
    assert_eq!(
        one.pinned(),
        Pinned {
            shown: 2,
            kept: 10,
            sole: 0,
            segments: 1
        }
    );
    drop(first);
    assert_eq!(
        one.pinned(),
        Pinned {
            shown: 2,
            kept: 10,
            sole: 10,
            segments: 1
        }
    );

    let again = one.slice(..).unwrap();
    assert_eq!(one.pinned().sole, 0, "its slice holds it as well");
    let three = [again, second.slice(..3).unwrap(), one];
    let pinned = Pinned::of(&three);
    assert_eq!(
        pinned,
        Pinned {
            shown: 7,
            kept: 15,
            sole: 10,
            segments: 2
        }
    );
    assert_eq!(
        (pinned.hidden(), Pinned::of(&three[..0])),
        (8, Pinned::NONE)
    );
    let both = pinned + second.pinned();
    assert_eq!(
        both,
        Pinned {
            shown: 12,
            kept: 20,
            sole: 10,
            segments: 3
        }
    );
    assert_eq!(
        Pinned::of(&three[2..]).to_string(),
        "2 bytes shown of 10 kept in 1 segment, 0 of them by these alone"
    );
    assert!(pinned.to_string().contains("in 2 segments,"));

    // Overlapping windows may show more than they keep.
    let over = Pinned::of([&second, &second, &second]);
    assert_eq!((over.shown, over.kept, over.hidden()), (15, 5, 0));
    assert_eq!(
        over.sole, 0,
        "three times one handle are not the two that there are"
    );

    // An empty window keeps all the same; of an empty segment there is nothing to keep.
    let nothing = second.slice(1..1).unwrap();
    assert_eq!((nothing.pinned().shown, nothing.pinned().kept), (0, 5));
    assert_eq!(
        erased(&pool, b"").pinned(),
        Pinned {
            segments: 1,
            ..Pinned::NONE
        }
    );

    let most = huge(0, usize::MAX);
    let view = View::from(Segment::from(most.lend().unwrap()));
    let pinned = Pinned::of([&view, &view]);
    assert_eq!(
        (pinned.shown, pinned.kept),
        (usize::MAX, usize::MAX),
        "it stays there"
    );
    assert_eq!((pinned + pinned).kept, usize::MAX);
}

#[test]
fn read_only_memory_is_read_by_its_type() {
    fn shown<R>(view: &View<R>) -> &[u8]
    where
        R: BackendRef<Backend: ReadableBackend>,
    {
        view
    }
    // What can be frozen of it is another matter; that the bounds do not ask for more than reading is this one.
    let _: for<'a> fn(&'a View<&'static BorrowedShared<'static, Unsync>>) -> &'a [u8] = shown;
}

#[test]
fn slices_of_slices_stay_flat() {
    let pool = Pool::new();
    let mut view = piece(&pool, b"0123456789");
    for _ in 0..10_000 {
        view = view.slice(..).unwrap();
        view = view.clone().join(view.slice(10..).unwrap()).unwrap();
    }
    assert_eq!(view.segment().holders(), 1);
    assert_eq!(size_of_val(&view), size_of::<View<&Pool>>());
    assert_eq!(view, b"0123456789");
}
