//! Segments made of values that own bytes: in place, dropped once, with the last handle.
#![cfg(feature = "std")]

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

use wharf_backend::{
    AllocError, BackendExt, BackendRef, Caps, IoDirection, MemBackend, OwnerBackend, ReadOnly,
    SegmentMut, TransferError,
};
use wharf_source::{HeapSource, NullSource, PoolSource, SizeClass, SourceError};
use wharf_sync::{Blocking, Unsync};

/// Bytes that count how often they were dropped, and asked for.
struct Mapping<'c> {
    bytes: [u8; 4],
    dropped: &'c Cell<usize>,
    asked: &'c Cell<usize>,
}

impl AsRef<[u8]> for Mapping<'_> {
    fn as_ref(&self) -> &[u8] {
        self.asked.set(self.asked.get() + 1);
        &self.bytes
    }
}

impl AsMut<[u8]> for Mapping<'_> {
    fn as_mut(&mut self) -> &mut [u8] {
        self.asked.set(self.asked.get() + 1);
        &mut self.bytes
    }
}

impl Drop for Mapping<'_> {
    fn drop(&mut self) {
        self.dropped.set(self.dropped.get() + 1);
    }
}

#[test]
fn a_vec_becomes_a_segment_where_it_is_and_comes_back() {
    let bytes = vec![1, 2, 3];
    let at = bytes.as_ptr();
    let backend = OwnerBackend::<Vec<u8>, Unsync, _>::new(HeapSource);
    let mut segment = backend.adopt(bytes).unwrap();
    assert_eq!(segment.as_ptr(), at, "nothing was copied");
    assert_eq!(segment.len(), 3);
    segment[0] = 9;
    segment.write(1, &[8]).unwrap();
    segment.fill(2, 1, 7).unwrap();
    let bytes = OwnerBackend::into_owner(segment);
    assert_eq!(bytes, [9, 8, 7]);
    assert_eq!(bytes.as_ptr(), at);
}

#[test]
fn boxes_and_arrays_are_owners() {
    let backend = OwnerBackend::<Box<[u8]>, Unsync, _>::new(HeapSource);
    let mut segment = backend.adopt(Box::from([1, 2])).unwrap();
    segment[1] = 5;
    assert_eq!(*segment, [1, 5]);
    // The bytes are inside the owner, which has stopped moving.
    let backend = OwnerBackend::<[u8; 4], Unsync, _>::new(HeapSource);
    let mut segments: Vec<_> = (0..50).map(|n| backend.adopt([n; 4]).unwrap()).collect();
    segments.reverse();
    for (segment, n) in segments.iter().zip((0..50).rev()) {
        assert_eq!(**segment, [n; 4]);
    }
    let empty = OwnerBackend::<Vec<u8>, Unsync, _>::new(HeapSource);
    assert!(empty.adopt(Vec::new()).unwrap().is_empty());
}

#[test]
fn shared_bytes_are_read_and_never_written() {
    let weights: Arc<[u8]> = Arc::from([1, 2, 3]);
    let backend = OwnerBackend::<_, Blocking, _, ReadOnly>::new(HeapSource);
    let segment = backend.adopt_shared(Arc::clone(&weights)).unwrap();
    assert_eq!(*segment, [1, 2, 3]);
    assert!(segment.backend().caps().contains(Caps::READ_ONLY));
    let refused = segment.hand_over(0, 3, IoDirection::DeviceToCpu);
    let segment = refused.unwrap_err().value;
    // Another thread drops the last handle, and with it its share.
    let other = std::thread::spawn(move || segment.iter().map(|&byte| u32::from(byte)).sum());
    assert_eq!(other.join().ok(), Some(6_u32));
    assert_eq!(Arc::strong_count(&weights), 1);
}

#[test]
fn an_owner_is_asked_once_and_dropped_once() {
    let (dropped, asked) = (Cell::new(0), Cell::new(0));
    let owner = || Mapping {
        bytes: [1, 2, 3, 4],
        dropped: &dropped,
        asked: &asked,
    };
    let exclusive = OwnerBackend::<Mapping<'_>, Unsync, _>::new(HeapSource);
    let segment = exclusive.adopt(owner()).unwrap();
    assert_eq!(segment.to_vec(), [1, 2, 3, 4]);
    assert_eq!(*segment, [1, 2, 3, 4]);
    assert_eq!((asked.get(), dropped.get()), (1, 0));
    drop(segment);
    assert_eq!((asked.get(), dropped.get()), (1, 1));

    let shared = OwnerBackend::<Mapping<'_>, Unsync, _, _>::new(HeapSource);
    let segment = shared.adopt_shared(owner()).unwrap();
    assert_eq!(*segment, [1, 2, 3, 4]);
    let owner = OwnerBackend::into_owner(segment);
    assert_eq!((asked.get(), dropped.get()), (2, 1));
    drop(owner);
    assert_eq!(dropped.get(), 2);
}

#[test]
fn a_source_that_refuses_gives_the_owner_back() {
    let backend = OwnerBackend::<_, Unsync, _>::new(NullSource);
    let refused = backend.adopt(vec![1, 2, 3]).unwrap_err();
    assert_eq!(refused.value, [1, 2, 3]);
    let AllocError::Source(SourceError::Null { .. }) = refused.error else {
        panic!("{:?}", refused.error);
    };

    // Of a pool with room for some, each in turn; and the room comes back.
    let mut slab = [MaybeUninit::uninit(); 200];
    let mut classes = [SizeClass::EMPTY; 1];
    let pool = PoolSource::<Unsync>::new(&mut slab, &mut classes);
    let backend = OwnerBackend::<Vec<u8>, Unsync, _>::new(&pool);
    let mut held = Vec::new();
    let refused = loop {
        match backend.adopt(vec![7; 100]) {
            Ok(segment) => held.push(segment),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused.value, [7; 100]);
    // A header and a pointer, and a vector.
    assert!((1..=4).contains(&held.len()), "{}", held.len());
    assert_eq!(pool.census().refused, 1);
    held.pop();
    held.push(backend.adopt(refused.value).unwrap());
    assert!(held.iter().all(|segment| **segment == [7; 100]));
}

#[test]
fn an_owner_that_panics_leaks_nothing() {
    struct Fickle(#[expect(dead_code, reason = "counted")] Rc<()>);
    impl AsRef<[u8]> for Fickle {
        fn as_ref(&self) -> &[u8] {
            panic!("not today")
        }
    }
    let alive = Rc::new(());
    let mut slab = [MaybeUninit::uninit(); 64];
    let mut classes = [SizeClass::EMPTY; 1];
    let pool = PoolSource::<Unsync>::new(&mut slab, &mut classes);
    let backend = OwnerBackend::<Fickle, Unsync, _, _>::new(&pool);
    for _ in 0..8 {
        let owner = Fickle(Rc::clone(&alive));
        let adopted = catch_unwind(AssertUnwindSafe(|| backend.adopt_shared(owner).is_ok()));
        adopted.unwrap_err();
    }
    assert_eq!(Rc::strong_count(&alive), 1);
    assert_eq!(pool.census().refused, 0, "every block went back");
}

#[test]
fn an_owner_backend_vends_nothing() {
    let backend = OwnerBackend::<Vec<u8>, Unsync, _>::new(HeapSource);
    assert_eq!(backend.alloc(0).unwrap_err(), AllocError::Unsupported);
    assert_eq!(backend.max_segment_size(), 0);
}

#[test]
fn an_erased_segment_drops_its_owner_all_the_same() {
    fn last<R: BackendRef>(segment: SegmentMut<R>) {
        assert_eq!(segment.host().unwrap(), [4, 5]);
    }
    // The backend is its own reference; erased behind an `Arc` it is shared by whom it is handed to.
    let alive = Arc::new(());
    struct Keeps(Vec<u8>, #[expect(dead_code, reason = "dropped")] Arc<()>);
    impl AsMut<[u8]> for Keeps {
        fn as_mut(&mut self) -> &mut [u8] {
            &mut self.0
        }
    }
    let backend = OwnerBackend::<Keeps, Blocking, _>::new(HeapSource);
    let segment = backend
        .adopt(Keeps(vec![4, 5], Arc::clone(&alive)))
        .unwrap();
    let (header, backend) = segment.into_raw();
    let backend: Arc<dyn MemBackend<Policy = Blocking> + Send + Sync> = Arc::new(backend);
    // SAFETY: from `into_raw` of an initialised handle; the backend is the same, elsewhere.
    last(unsafe { SegmentMut::<_>::from_raw(header, backend) }.unwrap());
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn the_transfers_of_a_shared_owner_write_nothing() {
    // Memory that could be written, so that a write would be seen and not be a fault.
    let backend = OwnerBackend::<[u8; 4], Unsync, _, ReadOnly>::new(HeapSource);
    let segment = backend.adopt_shared([1, 2, 3, 4]).unwrap();
    let (erased, header) = (segment.backend(), segment.header_ptr());
    let erased: &dyn MemBackend<Policy = Unsync> = erased;
    let source = NonNull::from(&[9_u8; 4]).cast();
    // SAFETY: a live segment, a range in it, and a source elsewhere.
    let (copied, filled) = unsafe {
        (
            erased.copy_in(header, 0, source, 4),
            erased.fill(header, 1, 2, 9),
        )
    };
    assert_eq!(copied, Err(TransferError::ReadOnly));
    assert_eq!(filled, Err(TransferError::ReadOnly));
    assert_eq!(*segment, [1, 2, 3, 4]);
}
