//! Ropes: what somebody worked out by hand, at the edges.

use wharf_backend::{BackendExt, BackendRef, DeviceAddress, MemBackend, Place, TransferError};
use wharf_engine::{Limits, Operand, Rules, SplitError};
use wharf_segment::{OutOfBounds, Pinned, PushError, ReadError, Rope, Segment, SliceError, View};
use wharf_source::{BlockSource, HeapSource, NullSource, SourceError, StaticPoolSource};
use wharf_sync::Unsync;

use super::device::{BASE, close_after, device, huge, whole_erased};
use super::{Erased, Pool, erased, piece};

fn rope<'p>(pool: &'p Pool, pieces: &[&[u8]]) -> Rope<&'p Pool, HeapSource> {
    let mut rope = Rope::with_source(HeapSource);
    rope.try_extend(pieces.iter().map(|bytes| piece(pool, bytes)))
        .unwrap();
    rope
}

fn lengths<R: BackendRef, S: BlockSource, const N: usize>(rope: &Rope<R, S, N>) -> Vec<usize> {
    assert_eq!(rope.len(), rope.links().iter().map(View::len).sum());
    rope.links().iter().map(View::len).collect()
}

#[test]
fn two_links_have_room_and_the_third_comes_back() {
    let pool = Pool::new();
    let mut rope = Rope::new();
    rope.push(piece(&pool, b"ab")).unwrap();
    rope.push(piece(&pool, b"c")).unwrap();
    let refusal = SourceError::Null {
        requested: 8 * size_of::<View<&Pool>>(),
    };
    let refused = rope.push(piece(&pool, b"de")).unwrap_err();
    assert_eq!(refused.error, PushError::NoRoom { links: 3, refusal });
    assert_eq!(refused.value, b"de");
    assert!(
        refused
            .error
            .to_string()
            .starts_with("no room for a rope of 3 links: null source")
    );
    let refused = rope.push_front(refused.value).unwrap_err();
    assert_eq!(
        (refused.error, &*refused.value),
        (PushError::NoRoom { links: 3, refusal }, &b"de"[..])
    );
    assert_eq!(lengths(&rope), [2, 1]);

    // No room is needed for nothing.
    rope.push(piece(&pool, b"")).unwrap();
    rope.push_front(piece(&pool, b"")).unwrap();
    assert_eq!(
        (rope.len(), pool.census().in_use),
        (3, 3),
        "what was empty is gone"
    );
    assert_eq!(rope.pop_back().unwrap(), b"c");
    rope.push(refused.value).unwrap();
    assert_eq!(rope, b"abde");
    drop(rope);
    assert_eq!(pool.census().in_use, 0);
}

#[test]
fn room_inline_is_what_was_asked_for() {
    let pool = Pool::new();
    let mut none = Rope::with_inline::<0>(NullSource);
    let refused = none.push(piece(&pool, b"a")).unwrap_err();
    assert!(matches!(refused.error, PushError::NoRoom { links: 1, .. }));
    assert!(none.is_empty() && none.pop_front().is_none() && none.pop_back().is_none());

    let mut three = Rope::<_, NullSource, 3>::default();
    for bytes in [b"a", b"b", b"c"] {
        three.push(piece(&pool, bytes)).unwrap();
    }
    assert!(three.push(piece(&pool, b"d")).is_err());
    assert_eq!(three.clone(), three);
    assert_eq!(three.pinned().sole, 3, "the clone is gone");

    let mut spilled = Rope::with_inline::<0>(HeapSource);
    spilled.push(piece(&pool, b"a")).unwrap();
    assert_eq!(lengths(&spilled), [1]);
}

#[test]
fn links_spill_together_and_come_back_inline_when_none_is_left() {
    let pool = Pool::new();
    let blocks = StaticPoolSource::<Unsync, 4096, 4>::new();
    let mut rope = Rope::with_source(&blocks);
    for bytes in [b"ab", b"cd"] {
        rope.push(piece(&pool, bytes)).unwrap();
    }
    assert_eq!(blocks.census().in_use, 0, "two lie in the rope");
    rope.push(piece(&pool, b"ef")).unwrap();
    let block = blocks.census().in_use;
    assert_eq!(block, 8 * size_of::<View<&Pool>>());
    assert_eq!(
        (lengths(&rope), rope.source().name()),
        (vec![2, 2, 2], (&blocks).name())
    );
    assert_eq!(rope, b"abcdef");
    rope.clear();
    assert_eq!(
        (rope.len(), rope.links().len(), pool.census().in_use),
        (0, 0, 0)
    );
    rope.push(piece(&pool, b"gh")).unwrap();
    assert_eq!(
        (&rope, blocks.census().in_use),
        (&rope, block),
        "the block is kept for next time"
    );
    assert_eq!(rope, b"gh");

    // Reserved is reserved: nothing is refused although the source has no more.
    let none = wharf_source::FaultSource::<_>::new(&blocks);
    let mut reserved = Rope::with_source(&none);
    reserved.try_reserve(4).unwrap();
    none.fail_every(1);
    for bytes in [b"1", b"2", b"3", b"4"] {
        reserved.push(piece(&pool, bytes)).unwrap();
    }
    assert_eq!(reserved, b"1234");

    // Also where those that are there move along.
    none.fail_nth(0);
    let mut full = Rope::with_inline::<8>(&none);
    let (a, b) = (piece(&pool, b"a"), piece(&pool, b"b"));
    let long = piece(&pool, b"long");
    for _ in 0..4 {
        full.push(a.clone()).unwrap();
        full.push(b.clone()).unwrap();
    }
    full.try_reserve(1).unwrap();
    none.fail_every(1);
    full.push(a).unwrap();
    assert_eq!(full, b"ababababa");

    // No bytes need no room, wherever they are cut from.
    let mut spilled = Rope::with_inline::<0>(&none);
    none.fail_nth(0);
    spilled.push(long).unwrap();
    none.fail_every(1);
    assert!(spilled.slice(..1).is_err());
    let nothing = [0, 1, 4].map(|at| spilled.slice(at..at).unwrap());
    assert!(nothing.iter().all(Rope::is_empty));
}

#[test]
fn neighbours_become_one_link() {
    let pool = Pool::new();
    let whole = piece(&pool, b"abcdef");
    let part = |range| whole.slice(range).unwrap();
    let mut rope = Rope::new();
    rope.push(part(2..4)).unwrap();
    rope.push(part(4..6)).unwrap();
    rope.push_front(part(0..2)).unwrap();
    assert_eq!((lengths(&rope), whole.segment().holders()), (vec![6], 2));

    // In the wrong order, or with a gap, they are neighbours no longer.
    let mut rope = Rope::with_source(HeapSource);
    rope.push(part(2..4)).unwrap();
    rope.push(part(0..2)).unwrap();
    rope.push_front(part(3..4)).unwrap();
    assert_eq!((lengths(&rope), &rope == b"dcdab"), (vec![1, 2, 2], true));

    // Where the last of one and the first of the other are neighbours, no room is needed.
    let (mut front, mut back) = (Rope::new(), Rope::new());
    front.push(piece(&pool, b"-")).unwrap();
    front.push(part(0..2)).unwrap();
    back.push(part(2..4)).unwrap();
    assert_eq!(lengths(&front.concat(&back).unwrap()), [1, 4]);
    front.extend_from_links(back.links()).unwrap();
    assert_eq!(lengths(&front), [1, 4]);
    let mut last = Rope::new();
    last.push(part(4..6)).unwrap();
    front.append(&mut last).unwrap();
    assert_eq!(
        (lengths(&front), last.len(), last.links().len()),
        (vec![1, 6], 0, 0)
    );
    assert_eq!(front, b"-abcdef");

    // The same within what is appended, where what is empty needs no room either.
    let pieces = [
        part(0..2),
        part(2..2),
        part(2..3),
        piece(&pool, b""),
        part(4..6),
    ];
    let mut two = Rope::new();
    two.extend_from_links(&pieces).unwrap();
    assert_eq!(lengths(&two), [3, 2]);
    assert!(two.extend_from_links(&pieces[..1]).is_err());
    two.extend_from_links(&[]).unwrap();
}

#[test]
fn what_does_not_fit_stays_where_it_was() {
    let pool = Pool::new();
    let (mut front, mut back) = (Rope::new(), Rope::new());
    front.push(piece(&pool, b"ab")).unwrap();
    back.push(piece(&pool, b"cd")).unwrap();
    back.push(piece(&pool, b"ef")).unwrap();
    let error = front.append(&mut back).unwrap_err();
    assert!(matches!(error, PushError::NoRoom { links: 3, .. }));
    assert_eq!(front.extend_from_links(back.links()), Err(error));
    assert_eq!(front.concat(&back).unwrap_err(), error);
    assert_eq!((&front == b"ab", &back == b"cdef"), (true, true));

    let mut three = [b"1", b"2", b"3"]
        .map(|bytes| piece(&pool, bytes))
        .into_iter();
    let refused = front.try_extend(&mut three).unwrap_err();
    assert_eq!((refused.value, three.count()), (piece(&pool, b"2"), 1));
    assert_eq!(front, b"ab1", "those before it are in");
}

#[test]
fn a_rope_and_itself_are_both_halves() {
    let pool = Pool::new();
    let half = rope(&pool, &[b"ab", b"c"]);
    let twice = half.concat(&half).unwrap();
    assert_eq!(
        (lengths(&twice), &twice == b"abcabc"),
        (vec![2, 1, 2, 1], true)
    );
    assert_eq!(pool.census().in_use, 2);
    assert_eq!(
        twice.pinned(),
        Pinned {
            shown: 6,
            kept: 3,
            sole: 0,
            segments: 2
        }
    );
    drop(half);
    assert_eq!(twice.pinned().sole, 3);

    let nothing = Rope::<&Pool>::new();
    assert_eq!(nothing.concat(&nothing).unwrap().len(), 0);
}

#[test]
fn a_length_that_cannot_be_counted_is_refused() {
    let most = huge(0, usize::MAX);
    let view = View::from(Segment::from(most.lend().unwrap()));
    let mut rope = Rope::new();
    rope.push(view.slice(1..).unwrap()).unwrap();
    assert_eq!(rope.len(), usize::MAX - 1);
    let (len, added) = (usize::MAX - 1, 2);
    let refused = rope.push(view.slice(..2).unwrap()).unwrap_err();
    assert_eq!(refused.error, PushError::TooLong { len, added });
    assert_eq!(refused.value.len(), 2);
    let refused = rope.push_front(refused.value).unwrap_err();
    assert_eq!(refused.error, PushError::TooLong { len, added });
    assert_eq!(
        refused.error.to_string(),
        "2 bytes more than 18446744073709551614 are too many for one rope"
    );
    let mut other = Rope::new();
    other.push(refused.value).unwrap();
    assert_eq!(
        rope.append(&mut other),
        Err(PushError::TooLong { len, added })
    );
    assert_eq!((rope.links().len(), other.len()), (1, 2));

    // Neither does a sum wrap that is not the rope's own.
    let thrice = [view.clone(), view.clone(), view.slice(..2).unwrap()];
    let mut empty = Rope::with_source(HeapSource);
    assert_eq!(
        empty.extend_from_links(&thrice),
        Err(PushError::TooLong {
            len: 0,
            added: usize::MAX
        })
    );
    assert_eq!(
        rope.concat(&rope).unwrap_err(),
        PushError::TooLong { len, added: len }
    );
    assert!(empty.is_empty() && empty.links().is_empty());

    // One byte more is the most there is.
    rope.push(view.slice(..1).unwrap()).unwrap();
    assert_eq!(rope.len(), usize::MAX);
    rope.cursor().seek(usize::MAX).unwrap();
    let mut byte = [0];
    let error = OutOfBounds {
        start: usize::MAX,
        end: usize::MAX,
        len: usize::MAX,
    };
    assert_eq!(
        rope.read(usize::MAX, &mut byte),
        Err(ReadError::OutOfBounds(error))
    );
}

#[test]
fn slices_share_and_cross_links() {
    let pool = Pool::new();
    let rope = rope(&pool, &[b"abc", b"d", b"efgh"]);
    for (range, bytes, links) in [
        (0..8, &b"abcdefgh"[..], &[3, 1, 4][..]),
        (0..3, b"abc", &[3]),
        (1..3, b"bc", &[2]),
        (1..4, b"bcd", &[2, 1]),
        (2..7, b"cdefg", &[1, 1, 3]),
        (3..4, b"d", &[1]),
        (5..6, b"f", &[1]),
        (4..8, b"efgh", &[4]),
        (0..0, b"", &[]),
        (1..1, b"", &[]),
        (3..3, b"", &[]),
        (8..8, b"", &[]),
    ] {
        let part = rope.slice(range.clone()).unwrap();
        assert_eq!(
            (lengths(&part), part == bytes),
            (links.to_vec(), true),
            "{range:?}"
        );
        // The same, by cutting.
        let mut tail = rope.try_clone().unwrap();
        let head = tail.split_to(range.start).unwrap();
        assert_eq!(
            (head, &tail),
            (
                rope.slice(..range.start).unwrap(),
                &rope.slice(range.start..).unwrap()
            )
        );
        let rest = tail.split_off(range.len()).unwrap();
        assert_eq!((tail == bytes, lengths(&tail)), (true, links.to_vec()));
        assert_eq!(
            (lengths(&rest).len(), rest),
            (
                lengths(&rope.slice(range.end..).unwrap()).len(),
                rope.slice(range.end..).unwrap()
            )
        );
        let mut kept = rope.try_clone().unwrap();
        kept.advance(range.start).unwrap();
        kept.truncate(range.len()).unwrap();
        assert_eq!((kept == bytes, lengths(&kept)), (true, links.to_vec()));
    }
    assert_eq!(pool.census().in_use, 3, "nothing was copied");
}

#[test]
fn cuts_out_of_bounds_change_nothing() {
    let pool = Pool::new();
    let mut rope = rope(&pool, &[b"abc", b"de"]);
    const MAX: usize = usize::MAX;
    for (start, end) in [
        (0, 6),
        (6, 6),
        (4, 2),
        (MAX, MAX),
        (MAX, 2),
        (0, MAX),
        (MAX - 1, MAX),
    ] {
        let error = SliceError::OutOfBounds(OutOfBounds { start, end, len: 5 });
        assert_eq!(rope.slice(start..end).unwrap_err(), error);
    }
    let error = rope.slice(..=MAX).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("0..{MAX} does not lie within 5 bytes")
    );
    for at in [6, MAX - 1, MAX] {
        let error = OutOfBounds {
            start: at,
            end: at,
            len: 5,
        };
        assert_eq!(
            rope.split_to(at).unwrap_err(),
            SliceError::OutOfBounds(error)
        );
        assert_eq!(
            rope.split_off(at).unwrap_err(),
            SliceError::OutOfBounds(error)
        );
        assert_eq!(rope.advance(at), Err(error));
        assert_eq!(rope.truncate(at), Err(error));
        assert_eq!(rope.cursor().seek(at), Err(error));
    }
    assert_eq!((lengths(&rope), &rope == b"abcde"), (vec![3, 2], true));
}

#[test]
fn a_part_of_more_links_than_it_has_room_for_is_refused() {
    let pool = Pool::new();
    let blocks = StaticPoolSource::<Unsync, 256, 1>::new();
    let mut rope = Rope::with_source(&blocks);
    rope.try_extend([b"ab", b"cd", b"ef"].map(|bytes| piece(&pool, bytes)))
        .unwrap();
    let refusal = SourceError::Exhausted {
        requested: 256,
        available: 0,
    };
    let error = SliceError::NoRoom { links: 3, refusal };
    assert_eq!(rope.slice(1..5).unwrap_err(), error);
    assert_eq!(rope.split_to(5).unwrap_err(), error);
    assert_eq!(rope.split_off(1).unwrap_err(), error);
    assert_eq!(rope.try_clone().unwrap_err(), refusal);
    assert_eq!((&rope == b"abcdef", lengths(&rope)), (true, vec![2, 2, 2]));
    // Two fit inline.
    assert_eq!(rope.slice(1..4).unwrap(), b"bcd");
    assert_eq!(rope.split_off(3).unwrap(), b"def");
    assert_eq!(rope.split_to(1).unwrap(), b"a");
    assert_eq!(rope, b"bc");
}

#[test]
fn a_cursor_goes_where_it_is_sent_and_reads_what_is_there() {
    let pool = Pool::new();
    let rope = rope(&pool, &[b"abc", b"d", b"efgh"]);
    let mut cursor = rope.cursor();
    for to in [0, 1, 2, 3, 4, 5, 7, 8, 6, 3, 0, 8, 4] {
        cursor.seek(to).unwrap();
        assert_eq!((cursor.position(), cursor.remaining()), (to, 8 - to));
        let chunk = match to {
            0..3 => &b"abc"[to..],
            3 => b"d",
            4..8 => &b"efgh"[to - 4..],
            _ => b"",
        };
        assert_eq!(cursor.chunk().unwrap(), chunk);
        for len in 0..=8 - to {
            let (mut bytes, mut ahead) = ([b'-'; 8], cursor.clone());
            ahead.read(&mut bytes[..len]).unwrap();
            assert_eq!(bytes[..len], b"abcdefgh"[to..to + len]);
            assert_eq!(
                (
                    ahead.position(),
                    bytes[len..].iter().all(|&byte| byte == b'-')
                ),
                (to + len, true)
            );
            bytes = [b'-'; 8];
            rope.read(to, &mut bytes[..len]).unwrap();
            assert_eq!(bytes[..len], b"abcdefgh"[to..to + len]);
        }
        let mut much = [b'-'; 9];
        let error = OutOfBounds {
            start: to,
            end: to + 9,
            len: 8,
        };
        assert_eq!(cursor.read(&mut much), Err(ReadError::OutOfBounds(error)));
        assert_eq!(
            (much, cursor.position()),
            ([b'-'; 9], to),
            "untouched, and unmoved"
        );
        for by in [9, usize::MAX - to, usize::MAX] {
            let error = OutOfBounds {
                start: to,
                end: to.saturating_add(by),
                len: 8,
            };
            assert_eq!(cursor.advance(by), Err(error));
            assert_eq!(cursor.position(), to);
        }
    }
    cursor.seek(2).unwrap();
    assert_eq!(cursor.read_array(), Ok(*b"cde"));
    assert!(matches!(
        cursor.read_array::<4>(),
        Err(ReadError::OutOfBounds(_))
    ));
    cursor.advance(3).unwrap();
    assert_eq!(cursor.read_array::<0>(), Ok([]));
    let mut two = [0; 2];
    let error = OutOfBounds {
        start: usize::MAX,
        end: usize::MAX,
        len: 8,
    };
    assert_eq!(
        rope.read(usize::MAX, &mut two),
        Err(ReadError::OutOfBounds(error))
    );
    rope.read(8, &mut []).unwrap();
    assert!(rope.read(9, &mut []).is_err());
}

#[test]
fn links_on_a_device_are_read_and_their_failure_is_told() {
    let (pool, device) = (Pool::new(), device(b"device"));
    let mut rope = Rope::<Erased<'_>, HeapSource>::with_source(HeapSource);
    rope.push(erased(&pool, b"host:")).unwrap();
    rope.push(whole_erased(&device)).unwrap();
    rope.push(erased(&pool, b".")).unwrap();
    let mut cursor = rope.cursor();
    assert_eq!(cursor.chunk().unwrap(), b"host:");
    assert_eq!(cursor.read_array(), Ok(*b"host:dev"));
    assert!(cursor.chunk().is_err(), "no bytes to lend");
    assert_eq!(cursor.read_array(), Ok(*b"ice."));

    close_after(&device, 0);
    let mut bytes = [b'-'; 7];
    let error = ReadError::Transfer {
        read: 3,
        error: TransferError::Closed,
    };
    assert_eq!(rope.read(2, &mut bytes), Err(error));
    assert_eq!(
        (&bytes[..3], error.to_string().as_str()),
        (
            &b"st:"[..],
            "read failed after 3 bytes: the device is closed"
        )
    );
    cursor.seek(2).unwrap();
    assert_eq!(
        (cursor.read(&mut bytes), cursor.position()),
        (Err(error), 2)
    );
    rope.read(11, &mut bytes[..1]).unwrap();
    assert_eq!(bytes[0], b'.', "the host's part is there");
}

#[test]
fn bytes_and_links_are_iterated_from_both_ends() {
    let pool = Pool::new();
    let rope = rope(&pool, &[b"ab", b"c", b"def"]);
    assert!(rope.bytes().eq(*b"abcdef"));
    assert!(rope.bytes().rev().eq(*b"fedcba"));
    assert!(rope.chunks().eq([&b"ab"[..], b"c", b"def"]));
    assert_eq!(rope.chunks().len(), 3);
    assert_eq!((&rope).into_iter().len(), 3);
    let mut links = rope.into_iter();
    assert_eq!(
        (
            links.len(),
            links.next().unwrap(),
            links.next_back().unwrap()
        ),
        (3, piece(&pool, b"ab"), piece(&pool, b"def"))
    );
    assert_eq!((links.len(), pool.census().in_use), (1, 1));
    drop(links);
    assert_eq!(pool.census().in_use, 0, "what was not taken is dropped");

    let mut inline = Rope::new();
    inline.push(piece(&pool, b"ab")).unwrap();
    inline.push(piece(&pool, b"c")).unwrap();
    assert!(
        inline
            .clone()
            .into_iter()
            .rev()
            .eq([piece(&pool, b"c"), piece(&pool, b"ab")])
    );
    assert_eq!(inline.pop_front().unwrap(), b"ab");
    assert_eq!(
        (inline.len(), inline.pop_front().unwrap(), inline.len()),
        (1, piece(&pool, b"c"), 0)
    );
}

#[test]
fn ropes_are_equal_by_their_bytes() {
    let pool = Pool::new();
    let one = rope(&pool, &[b"abc", b"def"]);
    let other = rope(&pool, &[b"a", b"bcde", b"f"]);
    assert_eq!(one, other);
    assert_eq!(one, b"abcdef");
    assert_eq!(one, b"abcdef"[..]);
    for bytes in [
        &b"abcdeg"[..],
        b"abcde",
        b"abcdefg",
        b"",
        b"bbcdef",
        b"abcxef",
    ] {
        assert_ne!(one, bytes);
        assert_eq!(
            rope(
                &pool,
                &[&bytes[..bytes.len() / 2], &bytes[bytes.len() / 2..]]
            ),
            bytes
        );
    }
    assert_ne!(one, *b"abcdeg", "an array, and not a slice");
    assert_ne!(one, rope(&pool, &[b"abcde"]));
    assert_ne!(one, rope(&pool, &[b"abcdeg"]));
    assert_eq!(Rope::<&Pool>::new(), b"");
    assert_eq!(Rope::<&Pool>::new(), Rope::<&Pool>::new());
}

#[test]
fn places_are_what_a_controller_can_move() {
    let (pool, device) = (Pool::new(), device(&[7; 3000]));
    let mut rope = Rope::<Erased<'_>>::new();
    let host = erased(&pool, b"0123456789").slice(3..).unwrap();
    let base = host.host().unwrap().as_ptr().addr() as u64;
    rope.push(host).unwrap();
    rope.push(whole_erased(&device).slice(100..2500).unwrap())
        .unwrap();
    let places = rope.places();
    assert_eq!(places.len(), 2);
    let starts: Vec<_> = places
        .clone()
        .map(|(place, len)| match place {
            Place::Host(base) => (base.addr().get() as u64, len),
            Place::Device(base) => (base.get(), len),
        })
        .collect();
    assert_eq!(starts, [(base, 7), (BASE + 100, 2400)]);

    let split = |limits: Limits| -> Result<Vec<(u64, u64)>, SplitError> {
        let mut elements = Vec::new();
        for (place, len) in rope.places() {
            let split = limits.split(Operand::read(place, len).extent())?;
            elements.extend(split.map(|element| (element.start.get(), element.len)));
        }
        Ok(elements)
    };
    let wide = Limits::new(Rules {
        boundary: Some(1024),
        ..Rules::NONE
    })
    .unwrap();
    let in_device = [(BASE + 100, 924), (BASE + 1024, 1024), (BASE + 2048, 452)];
    assert_eq!(split(wide).unwrap()[1..], in_device);
    let narrow = Limits::new(Rules {
        address_bits: 36,
        ..Rules::NONE
    })
    .unwrap();
    assert!(matches!(split(narrow), Err(SplitError::BeyondWidth { .. })));
    // The first and the last device address are addresses like others.
    let last = huge(u64::MAX - 8, 8);
    let mut end = Rope::new();
    end.push(
        View::from(Segment::from(last.lend().unwrap()))
            .slice(4..)
            .unwrap(),
    )
    .unwrap();
    assert!(
        end.places()
            .eq([(Place::Device(DeviceAddress::new(u64::MAX - 4)), 4)])
    );
}

#[test]
fn ropes_of_ropes_stay_flat() {
    let pool = Pool::new();
    let whole = rope(&pool, &[b"abcd", b"efgh"]);
    let mut part = whole.try_clone().unwrap();
    for _ in 0..10_000 {
        part = part
            .slice(1..)
            .unwrap()
            .concat(&part.slice(..1).unwrap())
            .unwrap();
        let tail = part.split_off(7).unwrap();
        part = tail.concat(&part).unwrap();
    }
    assert_eq!((part.links().len(), pool.census().in_use), (2, 2));
    assert_eq!(part, b"abcdefgh");
    assert_eq!(whole.links()[0].segment().holders(), 2);
}

#[test]
fn a_rope_says_what_it_is() {
    let pool = Pool::new();
    let mut rope = Rope::new();
    rope.push(pool.alloc(2).unwrap().init_from(b"ab").unwrap())
        .unwrap();
    let text = format!("{rope:?} {:?}", rope.cursor());
    assert!(text.contains("Rope { len: 2, links: [View"), "{text}");
    assert!(
        text.contains("source: \"null\" } Cursor { position: 0, len: 2, link: 0, links: 1 }"),
        "{text}"
    );
    assert_eq!(
        format!("{:?}", rope.into_iter()),
        "RopeIntoIter { links: 1, .. }"
    );
}

#[test]
fn a_cut_between_links_needs_no_room_for_more() {
    let pool = Pool::new();
    let mut both = Rope::<&Pool>::new();
    both.push(piece(&pool, b"ab")).unwrap();
    both.push(piece(&pool, b"cd")).unwrap();
    let head = both.split_to(4).unwrap();
    assert_eq!((lengths(&head), both.len()), (vec![2, 2], 0));
    let mut both = head;
    let tail = both.split_off(0).unwrap();
    assert_eq!((lengths(&tail), both.len()), (vec![2, 2], 0));
}
