//! Shared bytes are copied out wherever they are, and never from beyond the window.

use wharf_backend::{BackendExt, StaticPool, TransferError};
use wharf_segment::{Segment, View};
use wharf_sync::Unsync;

#[test]
fn a_read_stays_in_its_window() {
    let pool = StaticPool::<Unsync, 16, 2>::new();
    let segment = Segment::from(pool.alloc(8).unwrap().init_from(b"01234567").unwrap());
    let view = View::from(segment.clone()).slice(2..6).unwrap();

    let mut two = *b"--";
    segment.read(6, &mut two).unwrap();
    assert_eq!(&two, b"67");
    view.read(1, &mut two).unwrap();
    assert_eq!(&two, b"34");
    view.read(4, &mut []).unwrap();

    // One too far, past the window though not past the segment, and sums that wrap.
    for (offset, size) in [(7, 8), (8, 8), (usize::MAX, 8), (usize::MAX - 1, 8)] {
        let error = TransferError::OutOfBounds {
            offset,
            len: 2,
            size,
        };
        assert_eq!(segment.read(offset, &mut two), Err(error));
    }
    for offset in [3, 4, usize::MAX - 1] {
        let error = TransferError::OutOfBounds {
            offset,
            len: 2,
            size: 4,
        };
        assert_eq!(view.read(offset, &mut two), Err(error));
    }
    assert_eq!(&two, b"34", "a refused read touches nothing");
}

#[test]
fn a_unique_segment_becomes_a_view_of_all_of_it() {
    let pool = StaticPool::<Unsync, 16, 2>::new();
    let view = View::from(pool.alloc(3).unwrap().init_from(b"abc").unwrap());
    assert_eq!((&*view, view.offset()), (&b"abc"[..], 0));
}
