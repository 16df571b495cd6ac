//! Handles and views count, and take nothing.

use super::bench::piece;
use super::{Row, nothing};
use std::sync::Arc;
use wharf_backend::MemBackend;
use wharf_segment::{Pinned, Segment, View};
use wharf_sync::Blocking;

type Erased = Arc<dyn MemBackend<Policy = Blocking> + Send + Sync>;

pub(super) const ROWS: &[Row] = &[
    Row {
        title: "a segment, from its allocation to the view and back",
        through: &[
            "view::try_mut",
            "view::into_segment",
            "view_mut::host",
            "view_mut::host_mut",
            "view_mut::write",
            "view_mut::read",
            "view_mut::fill",
            "view_mut::freeze",
            "view_mut::into_segment",
            "segment::try_mut",
            "segment::try_read_only",
            "segment::into_raw",
            "segment::from_raw",
            "segment::erase",
        ],
        segments: 1,
        blocks: &[],
        run: |bench| {
            let view = piece(&bench.pool, b"abcdef")?.slice(1..5).unwrap();
            let mut unique = view.try_mut().unwrap();
            unique.fill(0, 2, b'-').unwrap();
            unique.write(2, b"+").unwrap();
            unique.host_mut().unwrap()[3] = b'*';
            let mut bytes = [0; 4];
            unique.read(0, &mut bytes).unwrap();
            assert_eq!((unique.host().unwrap(), &bytes), (&b"--+*"[..], b"--+*"));
            let unique = unique.freeze().try_mut().unwrap().into_segment();
            let segment = View::from(unique).into_segment();
            let segment = segment.try_read_only().unwrap_err();
            let (header, backend) = segment.into_raw();
            // SAFETY: just taken apart.
            let segment = unsafe { Segment::from_raw(header, backend) };
            let segment = segment.unwrap().try_mut().unwrap();
            let erased = Segment::from(segment).erase::<Erased>().unwrap();
            assert_eq!(erased.host().unwrap(), b"a--+*f");
            Ok(())
        },
    },
    nothing(
        "what is known of a segment",
        &[
            "segment::len",
            "segment::is_empty",
            "segment::holders",
            "segment::ptr_eq",
            "segment::backend",
            "segment::place",
            "segment::host",
            "segment::read",
            "segment::is_read_only",
        ],
        |bench| {
            let segment = bench.view.segment();
            let clone = segment.clone();
            assert_eq!(
                (clone.len(), clone.is_empty(), clone.holders()),
                (10, false, 2)
            );
            assert!(clone.ptr_eq(segment) && !clone.is_read_only());
            assert_eq!(clone.place(), bench.view.place());
            assert_eq!(clone.backend().calls(), 0);
            let mut bytes = [0; 2];
            clone.read(4, &mut bytes).unwrap();
            assert_eq!((bytes, clone.host().unwrap().len()), (*b"45", 10));
            Ok(())
        },
    ),
    nothing(
        "views of views",
        &[
            "view::slice",
            "view::slice_ref",
            "view::split_to",
            "view::split_off",
            "view::join",
            "view::host",
            "view::place",
            "view::read",
            "view::pinned",
            "pinned::of",
        ],
        |bench| {
            let mut view = bench.view.slice(1..9).unwrap();
            let head = view.split_to(3).unwrap();
            let tail = view.split_off(2).unwrap();
            assert_eq!(
                [
                    head.host().unwrap(),
                    view.host().unwrap(),
                    tail.host().unwrap()
                ],
                [&b"123"[..], b"45", b"678"]
            );
            assert_eq!(head.slice_ref(&head[1..2]).unwrap(), *b"2");
            assert_eq!(Pinned::of([&head, &tail]).hidden(), 4);
            assert_eq!(head.pinned().hidden(), 7);
            let joined = head.clone().join(view).unwrap().join(tail).unwrap();
            assert_eq!(joined, *b"12345678");
            let mut bytes = [0; 2];
            head.read(1, &mut bytes).unwrap();
            assert_eq!(bytes, *b"23");
            assert_ne!(head.place(), bench.view.place());
            Ok(())
        },
    ),
];
