//! Memory that nobody may write, shared: it is read by all who hold it, and no way leads back to a handle that writes.
#![cfg(all(feature = "std", feature = "critical-section"))]

use std::sync::Arc;

use wharf_backend::{
    BackendRef, BorrowedExclusive, BorrowedShared, Caps, MemBackend, OwnerBackend, ReadOnly,
    SegmentMut, Shared,
};
use wharf_segment::{Segment, View};
use wharf_source::HeapSource;
use wharf_sync::{Blocking, Critical, SyncPolicy, Unsync};

type Erased<'o, P> = dyn MemBackend<Policy = P> + 'o;

/// Unique or not, there is no handle that writes; and the unique one that reads comes back.
fn never_writable<R: BackendRef>(lent: SegmentMut<R, ReadOnly>, bytes: &[u8]) {
    let segment = Segment::from(lent);
    assert!(segment.is_read_only());
    assert_eq!(segment.host().unwrap(), bytes);
    let other = segment.clone();
    let segment = segment.try_mut().expect_err("two hold it");
    let segment = segment.try_read_only().expect_err("two hold it");
    assert_eq!((segment.holders(), other.holders()), (2, 2));
    drop(other);
    let segment = segment.try_mut().expect_err("it is read-only");
    assert_eq!(segment.holders(), 1, "and nothing was counted");
    let mut copy = vec![0; bytes.len()];
    segment.read(0, &mut copy).unwrap();
    assert_eq!(copy, bytes);
    let lent = segment.try_read_only().expect("the only holder");
    assert_eq!(lent.host().unwrap(), bytes);
    let view = View::from(lent);
    assert_eq!(view.host().unwrap(), bytes);
    assert!(view.into_segment().try_mut().is_err());
}

#[test]
fn it_never_becomes_writable_on_any_route() {
    fn policy<P: SyncPolicy>() {
        let bytes: [u8; 9] = *b"read only";
        let table = BorrowedShared::<P>::fresh(wharf_backend::SharedBytes::new(&bytes));
        never_writable(table.lend().unwrap(), &bytes);
        never_writable(table.lend().unwrap().erase::<&Erased<'_, P>>(), &bytes);
        // Erased after it was shared.
        let segment = Segment::from(table.lend().unwrap());
        let erased = segment.erase::<&Erased<'_, P>>().unwrap();
        assert!(erased.is_read_only());
        let erased = erased.try_mut().unwrap_err();
        never_writable(erased.try_read_only().unwrap(), &bytes);
        assert_eq!(table.census().in_use, 0);

        let owners = OwnerBackend::<_, P, _, _>::new(HeapSource);
        let owner: Arc<[u8]> = Arc::from(bytes);
        never_writable(owners.adopt_shared(Arc::clone(&owner)).unwrap(), &bytes);
        assert_eq!(Arc::strong_count(&owner), 1);
    }
    policy::<Unsync>();
    policy::<Critical>();
    policy::<Blocking>();
}

#[test]
fn an_owner_comes_out_of_the_last_holder() {
    let owners = OwnerBackend::<_, Unsync, _, _>::new(HeapSource);
    let segment = Segment::from(owners.adopt_shared(vec![1_u8, 2, 3]).unwrap());
    let view = View::from(segment.clone()).slice(1..).unwrap();
    assert_eq!(*view, [2, 3], "typed, it lends its bytes");
    let segment = segment.try_read_only().unwrap_err();
    drop(view);
    let owner = OwnerBackend::into_owner(segment.try_read_only().unwrap());
    assert_eq!(owner, [1, 2, 3]);
}

#[test]
fn what_may_be_written_thaws_as_before_and_is_not_called_read_only() {
    let mut bytes = *b"writable";
    let memory = BorrowedExclusive::<Unsync>::exclusive(&mut bytes);
    let segment = Segment::from(memory.lend().unwrap());
    assert!(!segment.is_read_only());
    let segment = segment.try_read_only().unwrap_err();
    let segment = segment.erase::<&Erased<'_, Unsync>>().unwrap();
    let mut unique = segment.try_mut().unwrap();
    unique.write(0, b"W").unwrap();
    drop(unique);
    assert_eq!(memory.into_lent().into_slice(), b"Writable");
}

/// A wrapper says what is inside; and vends none of it.
#[test]
fn a_read_only_backend_vends_nothing_through_a_wrapper_either() {
    let table = BorrowedShared::<Unsync>::shared(b"table");
    let shared = Shared::new(&table);
    assert!(shared.caps().contains(Caps::READ_ONLY));
    assert!(SegmentMut::alloc(&shared, 1).is_err());
}

#[test]
fn a_table_is_read_by_threads_and_given_back_by_the_last() {
    static TABLE: BorrowedShared<'static, Critical> = BorrowedShared::shared(b"in flash");
    let segment = Segment::from(TABLE.lend().unwrap());
    let readers: Vec<_> = (0..4)
        .map(|index| {
            let view = View::from(segment.clone()).slice(index..).unwrap();
            std::thread::spawn(move || view.to_vec())
        })
        .collect();
    drop(segment);
    for (index, reader) in readers.into_iter().enumerate() {
        assert_eq!(reader.join().unwrap(), b"in flash"[index..]);
    }
    assert_eq!(TABLE.census().in_use, 0);
    assert!(TABLE.lend().is_ok());
}
