//! Bytes copied together: from the host and devices, to the host and devices, and every way in which that fails.

use wharf_backend::{AllocError, BackendExt, MemBackend, StaticPool, TransferError};
use wharf_segment::{GatherError, Rope, View};
use wharf_source::HeapSource;
use wharf_sync::Unsync;

use super::device::{close_after, contents, device, whole, whole_erased};
use super::{Erased, Pool, erased, piece};

/// 700 bytes: more than two pieces of what goes through the stack.
fn many() -> Vec<u8> {
    (0..700)
        .map(|at: u32| at.to_le_bytes()[0] ^ at.to_le_bytes()[1])
        .collect()
}

type Large = StaticPool<Unsync, 1024, 2>;

#[test]
fn host_links_are_gathered_in_order() {
    let (pool, large) = (Pool::new(), Large::new());
    let mut rope = Rope::with_source(HeapSource);
    rope.try_extend([&b"ab"[..], b"cde", b"f"].map(|bytes| piece(&pool, bytes)))
        .unwrap();
    let mut unique = rope.gather(&large).unwrap();
    assert_eq!((&*unique, large.census().in_use), (&b"abcdef"[..], 1));
    unique[0] = b'A';
    assert_eq!(rope, b"abcdef", "it is a copy");
    drop(unique);

    let view = rope.materialise(&pool).unwrap();
    assert_eq!((&*view, pool.census().in_use), (&b"abcdef"[..], 4));
}

#[test]
fn a_single_link_is_materialised_without_a_copy() {
    let pool = Pool::new();
    let mut rope = Rope::new();
    rope.push(piece(&pool, b"abcdef").slice(2..4).unwrap())
        .unwrap();
    let refused = pool.census().refused;
    let view = rope.materialise(&pool).unwrap();
    assert_eq!(
        (&*view, view.offset(), view.segment().holders()),
        (&b"cd"[..], 2, 2)
    );
    assert_eq!((pool.census().in_use, pool.census().refused), (1, refused));
    assert!(view.segment().ptr_eq(rope.links()[0].segment()));
    // Gathering copies it all the same: what comes is unique.
    assert_eq!(&*rope.gather(&pool).unwrap(), b"cd");
}

#[test]
fn the_three_refusals_are_told_apart() {
    let pool = Pool::new();
    let before = pool.census();
    assert_eq!(
        Rope::<&Pool>::new().gather(&pool).unwrap_err(),
        GatherError::Empty
    );
    assert_eq!(
        Rope::<&Pool>::new().materialise(&pool).unwrap_err(),
        GatherError::Empty
    );
    assert_eq!(pool.census(), before, "nothing was asked of the pool");
    assert_eq!(
        GatherError::Empty.to_string(),
        "there are no bytes to gather"
    );

    let mut rope = Rope::new();
    rope.push(piece(&pool, &[1; 10])).unwrap();
    rope.push(piece(&pool, &[2; 10])).unwrap();
    let large = AllocError::TooLarge {
        requested: 20,
        max: 16,
    };
    assert_eq!(rope.gather(&pool).unwrap_err(), GatherError::Refused(large));
    assert_eq!(
        rope.materialise(&pool).unwrap_err(),
        GatherError::Refused(large)
    );
    assert_eq!(rope.len(), 20);

    let device = device(b"0123456789");
    let mut mixed = Rope::<Erased<'_>>::new();
    mixed.push(erased(&pool, b"ab")).unwrap();
    mixed.push(whole_erased(&device)).unwrap();
    let in_use = pool.census().in_use;
    close_after(&device, 0);
    let error = GatherError::Read {
        at: 2,
        error: TransferError::Closed,
    };
    assert_eq!(mixed.gather(&pool).unwrap_err(), error);
    assert_eq!(pool.census().in_use, in_use, "the segment went back");
    assert_eq!(
        error.to_string(),
        "read failed after 2 bytes: the device is closed"
    );
    use std::error::Error;
    assert!(error.source().is_some() && GatherError::Empty.source().is_none());
    // It was not the rope's fault.
    close_after(&device, 1);
    assert_eq!(&*mixed.gather(&pool).unwrap(), b"ab0123456789");
}

#[test]
fn bytes_go_to_a_device_and_from_one_to_another() {
    let (large, there) = (Large::new(), device(&[0; 702]));
    let from = device(&many());
    let whole_host = View::from(large.alloc(700).unwrap().init_from(&many()).unwrap());
    let mut rope = Rope::new();
    rope.push(whole_host.slice(1..3).unwrap()).unwrap();
    rope.push(whole_host.clone()).unwrap();
    let unique = rope.gather(&there).unwrap();
    assert_eq!(unique.len(), 702);
    drop(unique);
    assert_eq!(
        (&contents(&there)[..2], &contents(&there)[2..]),
        (&many()[1..3], &many()[..])
    );
    drop((rope, whole_host));

    // Both devices: through the stack, in three pieces, not the first of which starts the segment.
    let there = device(&[0; 702]);
    let mut rope = Rope::<Erased<'_>>::new();
    let host = View::from(
        large
            .alloc(2)
            .unwrap()
            .init_from(b"ab")
            .unwrap()
            .erase::<Erased<'_>>(),
    );
    rope.push(host).unwrap();
    rope.push(whole_erased(&from)).unwrap();
    drop(rope.gather(&there).unwrap());
    assert_eq!(
        (&contents(&there)[..2], &contents(&there)[2..]),
        (&b"ab"[..], &many()[..])
    );

    // Where one of them ends in between, the error says how far it was.
    for (reads, at) in [(0, 2), (1, 258), (2, 514)] {
        close_after(&from, reads);
        let error = GatherError::Read {
            at,
            error: TransferError::Closed,
        };
        assert_eq!(rope.gather(&there).unwrap_err(), error);
        assert_eq!(there.census().in_use, 0);
    }
    for (writes, at) in [(0, 0), (1, 2), (2, 258), (3, 514)] {
        close_after(&from, usize::MAX);
        close_after(&there, writes);
        let error = GatherError::Write {
            at,
            error: TransferError::Closed,
        };
        assert_eq!(rope.gather(&there).unwrap_err(), error);
        assert_eq!(there.census().in_use, 0);
    }
    close_after(&there, 4);
    drop(rope.gather(&there).unwrap());
}

#[test]
fn a_view_is_compacted_or_comes_back() {
    let (pool, large) = (Pool::new(), Large::new());
    let view = View::from(large.alloc(1000).unwrap().filled(b'x').unwrap())
        .slice(100..116)
        .unwrap();
    assert_eq!(view.pinned().hidden(), 984);
    let empty = view.slice(4..4).unwrap().compact_into(&pool).unwrap_err();
    assert_eq!(
        (empty.error, empty.value.offset()),
        (GatherError::Empty, 104)
    );
    drop(empty);

    let wide = View::from(view.clone().into_segment())
        .compact_into(&pool)
        .unwrap_err();
    let large_error = AllocError::TooLarge {
        requested: 1000,
        max: 16,
    };
    assert_eq!(
        (wide.error, wide.value.len()),
        (GatherError::Refused(large_error), 1000)
    );
    drop(wide);

    let all: Vec<_> = std::iter::from_fn(|| pool.alloc(1).ok()).collect();
    let refused = view.compact_into(&pool).unwrap_err();
    assert!(matches!(
        refused.error,
        GatherError::Refused(AllocError::Exhausted { requested: 16, .. })
    ));
    assert_eq!((refused.value.offset(), refused.value.len()), (100, 16));
    drop(all);

    let compact = View::from(refused.value.compact_into(&pool).unwrap());
    assert_eq!((&*compact, compact.pinned().hidden()), (&[b'x'; 16][..], 0));
    assert_eq!(
        (large.census().in_use, pool.census().in_use),
        (0, 1),
        "the large one is free"
    );

    // Out of a device, whose other handle stays.
    let device = device(&many());
    let kept = whole(&device);
    let part = View::from(kept.slice(600..616).unwrap().compact_into(&pool).unwrap());
    assert_eq!((&*part, kept.segment().holders()), (&many()[600..616], 1));
}
