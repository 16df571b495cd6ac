//! Ropes, which take blocks for their links; and what gathers.

use std::io::IoSlice;
use std::num::NonZeroUsize;

use super::bench::{BYTES, Bench, Refused, Rope, cutting, piece, pushing};
use super::{Row, nothing};

/// Another rope of the same links.
fn clone(bench: &Bench) -> Result<Rope, Refused> {
    Ok(bench.rope.try_clone()?)
}

/// That a rope is the one of the bench.
#[track_caller]
fn as_it_was(rope: &Rope) {
    assert_eq!((rope.len(), rope.links().len()), (24, 8));
    assert_eq!(*rope, BYTES[..]);
}

pub(super) const ROWS: &[Row] = &[
    Row {
        title: "push, until it spills",
        through: &["rope::push"],
        segments: 3,
        blocks: &[3],
        run: |bench| {
            let mut rope = Rope::with_source(bench.source.clone());
            for bytes in [b"xx", b"yy", b"zz"] {
                if let Err(refused) = rope.push(piece(&bench.pool, bytes)?) {
                    assert_eq!(refused.value, *b"zz");
                    assert_eq!((rope.len(), rope.links().len()), (4, 2));
                    assert_eq!(rope, b"xxyy"[..]);
                    return Err(pushing(3)(refused.error));
                }
            }
            assert_eq!(rope, b"xxyyzz"[..]);
            Ok(())
        },
    },
    Row {
        title: "push and push_front, into a block that is full",
        through: &["rope::push", "rope::push_front", "rope::try_clone"],
        segments: 2,
        blocks: &[8, 8, 16, 16],
        run: |bench| {
            let [mut front, mut back] = [clone(bench)?, clone(bench)?];
            let [first, last] = [piece(&bench.pool, b"<")?, piece(&bench.pool, b">")?];
            if let Err(refused) = front.push_front(first) {
                as_it_was(&front);
                assert_eq!(refused.value, *b"<");
                return Err(pushing(9)(refused.error));
            }
            if let Err(refused) = back.push(last) {
                as_it_was(&back);
                assert_eq!(refused.value, *b">");
                return Err(pushing(9)(refused.error));
            }
            assert_eq!(front, b"<aaabbbcccdddeeefffggghhh"[..]);
            assert_eq!(back, b"aaabbbcccdddeeefffggghhh>"[..]);
            Ok(())
        },
    },
    Row {
        title: "try_reserve",
        through: &["rope::try_reserve"],
        segments: 0,
        blocks: &[8, 28],
        run: |bench| {
            let mut rope = clone(bench)?;
            let reserved = rope.try_reserve(20);
            as_it_was(&rope);
            Ok(reserved?)
        },
    },
    Row {
        title: "append",
        through: &["rope::append"],
        segments: 0,
        blocks: &[8, 8, 16],
        run: |bench| {
            let [mut rope, mut other] = [clone(bench)?, clone(bench)?];
            if let Err(refused) = rope.append(&mut other) {
                as_it_was(&rope);
                as_it_was(&other);
                return Err(pushing(16)(refused));
            }
            assert_eq!((rope.links().len(), other.len()), (16, 0));
            assert_eq!(rope.slice(21..27).unwrap(), b"hhhaaa"[..]);
            Ok(())
        },
    },
    Row {
        title: "extend_from_links",
        through: &["rope::extend_from_links", "rope::links"],
        segments: 0,
        blocks: &[8, 16],
        run: |bench| {
            let mut rope = clone(bench)?;
            if let Err(refused) = rope.extend_from_links(bench.rope.links()) {
                as_it_was(&rope);
                return Err(pushing(16)(refused));
            }
            assert_eq!(rope, [*BYTES, *BYTES].concat()[..]);
            Ok(())
        },
    },
    Row {
        title: "try_extend",
        through: &["rope::try_extend"],
        segments: 0,
        blocks: &[8, 16],
        run: |bench| {
            let mut rope = clone(bench)?;
            let mut links = bench.rope.links().iter().cloned();
            if let Err(refused) = rope.try_extend(links.by_ref()) {
                as_it_was(&rope);
                assert_eq!(
                    (refused.value, links.len()),
                    (bench.rope.links()[0].clone(), 7)
                );
                return Err(pushing(9)(refused.error));
            }
            assert_eq!(rope, [*BYTES, *BYTES].concat()[..]);
            Ok(())
        },
    },
    Row {
        title: "concat, with itself",
        through: &["rope::concat"],
        segments: 0,
        blocks: &[16],
        run: |bench| {
            let both = bench.rope.concat(&bench.rope).map_err(pushing(16))?;
            assert_eq!(both, [*BYTES, *BYTES].concat()[..]);
            Ok(())
        },
    },
    Row {
        title: "slice",
        through: &["rope::cut::slice"],
        segments: 0,
        blocks: &[6],
        run: |bench| {
            let part = bench.rope.slice(4..20).map_err(cutting(6))?;
            assert_eq!(part, BYTES[4..20]);
            // Two links have room inline.
            assert_eq!(bench.rope.slice(1..6).unwrap(), BYTES[1..6]);
            Ok(())
        },
    },
    Row {
        title: "split_to",
        through: &["rope::cut::split_to"],
        segments: 0,
        blocks: &[8, 5],
        run: |bench| {
            let mut rope = clone(bench)?;
            match rope.split_to(13) {
                Ok(head) => {
                    assert_eq!(head, BYTES[..13]);
                    assert_eq!(rope, BYTES[13..]);
                }
                Err(refused) => {
                    as_it_was(&rope);
                    return Err(cutting(5)(refused));
                }
            }
            Ok(())
        },
    },
    Row {
        title: "split_off",
        through: &["rope::cut::split_off"],
        segments: 0,
        blocks: &[8, 6],
        run: |bench| {
            let mut rope = clone(bench)?;
            let tail = rope.split_off(7);
            if tail.is_err() {
                as_it_was(&rope);
            }
            let tail = tail.map_err(cutting(6))?;
            assert_eq!(tail, BYTES[7..]);
            assert_eq!(rope, BYTES[..7]);
            Ok(())
        },
    },
    Row {
        title: "gather, materialise, compact_into",
        through: &["rope::gather", "rope::materialise", "gather::compact_into"],
        segments: 3,
        blocks: &[],
        run: |bench| {
            let gathered = bench.rope.gather(bench.pool.clone())?;
            assert_eq!(gathered[..], BYTES[..]);
            let view = bench.rope.materialise(bench.pool.clone())?;
            assert_eq!(view, BYTES[..]);
            match view.slice(2..5).unwrap().compact_into(bench.pool.clone()) {
                Ok(small) => assert_eq!(small[..], BYTES[2..5]),
                Err(refused) => {
                    assert_eq!(refused.value, BYTES[2..5]);
                    return Err(refused.error.into());
                }
            }
            Ok(())
        },
    },
    Row {
        title: "what makes a rope shorter",
        through: &[
            "rope::pop_front",
            "rope::pop_back",
            "rope::clear",
            "rope::cut::advance",
            "rope::cut::truncate",
        ],
        segments: 0,
        blocks: &[8],
        run: |bench| {
            let mut rope = clone(bench)?;
            assert_eq!(rope.pop_front().unwrap(), *b"aaa");
            assert_eq!(rope.pop_back().unwrap(), *b"hhh");
            rope.advance(4).unwrap();
            rope.truncate(9).unwrap();
            assert_eq!(rope, BYTES[7..16]);
            rope.clear();
            assert!(rope.is_empty());
            Ok(())
        },
    },
    nothing(
        "ropes that stay inline, or need no block",
        &[
            "rope::push",
            "rope::cut::slice",
            "rope::materialise",
            "rope::cut::split_to",
        ],
        |bench| {
            let mut rope = Rope::with_source(bench.source.clone());
            // One link, as they are neighbours.
            for bytes in bench.view.chunks(NonZeroUsize::MIN) {
                rope.push(bytes).unwrap();
            }
            assert_eq!(rope.links().len(), 1);
            assert_eq!(rope.materialise(bench.pool.clone()).unwrap(), bench.view);
            let head = rope.split_to(4).unwrap();
            assert_eq!(head.concat(&rope).unwrap(), *b"0123456789");
            let cloned = head.try_clone()?;
            assert_eq!(cloned.slice(1..3).unwrap(), *b"12");
            // Of one that has no source.
            let mut bare = wharf_segment::Rope::<_>::new();
            bare.push(bench.view.clone()).unwrap();
            assert_eq!(bare.clone(), bare);
            Ok(())
        },
    ),
    nothing(
        "what looks at a rope",
        &[
            "rope::pinned",
            "rope::places",
            "rope::cursor::cursor",
            "rope::cursor::read",
            "rope::cursor::seek",
            "rope::cursor::advance",
            "rope::cursor::chunk",
            "rope::cursor::read_array",
            "rope::iter::bytes",
            "rope::iter::chunks",
            "rope::hosted::io_slices",
            "rope::hosted::write_to",
        ],
        |bench| {
            let rope = &bench.rope;
            assert_eq!((rope.pinned().hidden(), rope.places().len()), (0, 8));
            let mut bytes = [0; 4];
            rope.read(1, &mut bytes).unwrap();
            assert_eq!(bytes, *b"aabb");
            let mut cursor = rope.cursor();
            cursor.seek(5).unwrap();
            cursor.advance(1).unwrap();
            assert_eq!(cursor.chunk().unwrap(), b"ccc");
            assert_eq!(cursor.read_array().unwrap(), *b"cccd");
            cursor.read(&mut bytes).unwrap();
            assert_eq!(bytes, *b"ddee");
            let mut slices = [IoSlice::new(&[]); 3];
            assert_eq!(cursor.io_slices(&mut slices).unwrap(), 3);
            let mut written = [0; 10];
            cursor.write_to(&mut &mut written[..]).unwrap();
            assert_eq!(written, BYTES[14..]);
            assert!(rope.bytes().eq(BYTES.iter().copied()));
            assert_eq!(rope.chunks().count(), 8);
            Ok(())
        },
    ),
    Row {
        title: "handed over to a device and back",
        through: &["rope::in_flight::hand_over", "rope::in_flight::land"],
        segments: 0,
        blocks: &[8],
        run: |bench| {
            as_it_was(&clone(bench)?.hand_over().land());
            Ok(())
        },
    },
];
