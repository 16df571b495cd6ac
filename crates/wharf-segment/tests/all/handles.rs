//! What handles tell of themselves, and the ways in which they hand out their bytes.

use wharf_backend::{BackendExt, StaticPool};
use wharf_segment::{Segment, View};
use wharf_sync::Unsync;

type Pool = StaticPool<Unsync, 16, 4>;

fn segment<'p>(pool: &'p Pool, bytes: &[u8]) -> Segment<&'p Pool> {
    Segment::from(pool.alloc(bytes.len()).unwrap().init_from(bytes).unwrap())
}

#[test]
fn a_handle_is_empty_when_it_has_no_bytes() {
    let pool = Pool::new();
    let (none, one) = (segment(&pool, b""), segment(&pool, b"a"));
    assert_eq!((none.len(), none.is_empty()), (0, true));
    assert_eq!((one.len(), one.is_empty()), (1, false));

    let view = View::from(one);
    assert!(!view.is_empty());
    let unique = view.try_mut().unwrap();
    assert_eq!((unique.len(), unique.is_empty()), (1, false));
    let mut view = unique.freeze();
    view.advance(1).unwrap();
    assert!(view.is_empty());
    let unique = view.try_mut().unwrap();
    assert_eq!((unique.len(), unique.is_empty()), (0, true));
}

#[test]
fn every_way_to_the_bytes_leads_to_the_window() {
    let pool = Pool::new();
    let whole = segment(&pool, b"0123456789");
    assert_eq!(AsRef::<[u8]>::as_ref(&whole), b"0123456789");
    let view = View::from(whole).slice(3..6).unwrap();
    assert_eq!(AsRef::<[u8]>::as_ref(&view), b"345");
    assert_eq!(view.host().unwrap(), b"345");
    assert_eq!((&view).into_iter().copied().collect::<Vec<_>>(), b"345");

    let mut unique = view.try_mut().unwrap();
    assert_eq!(AsRef::<[u8]>::as_ref(&unique), b"345");
    assert_eq!(unique.host().unwrap(), b"345");
    AsMut::<[u8]>::as_mut(&mut unique).copy_from_slice(b"abc");
    assert_eq!(*unique, *b"abc");
    unique.host_mut().unwrap()[1] = b'B';
    unique[2] = b'C';
    let view = View::from(unique);
    assert_eq!((&*view, view.offset()), (&b"aBC"[..], 3));
    assert_eq!(*view.into_segment(), *b"012aBC6789");
}
