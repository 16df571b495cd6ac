//! A closed set of backends: the same result by its own type, in the set, erased, and counted.
#![cfg(feature = "std")]

use core::mem::MaybeUninit;
use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use wharf_backend::{
    AllocError, BackendRef, BorrowedDevice, BorrowedExclusive, BorrowedShared, Census,
    DeviceAddress, DeviceRange, DeviceTransfer, ForeignSegment, Heap, MemBackend,
    NotHostAddressable, PoolBackend, SegmentMut, SlotControl, SourceBackend, StaticPool,
    TransferError,
};
use wharf_source::HeapSource;
use wharf_sync::{Blocking, SyncPolicy, Unsync};

/// Sixteen bytes somewhere else.
#[derive(Debug, Default)]
struct Far(Mutex<[u8; 16]>);

impl DeviceTransfer for Far {
    fn write(&self, at: DeviceAddress, from: &[u8]) -> Result<(), TransferError> {
        let at = usize::try_from(at.get()).unwrap();
        self.0.lock().unwrap()[at..at + from.len()].copy_from_slice(from);
        Ok(())
    }
    fn read(&self, at: DeviceAddress, to: &mut [u8]) -> Result<(), TransferError> {
        let at = usize::try_from(at.get()).unwrap();
        to.copy_from_slice(&self.0.lock().unwrap()[at..at + to.len()]);
        Ok(())
    }
}

wharf_backend::backend_set! {
    /// Every kind there is.
    enum Any<'b>: Blocking {
        Static(StaticPool<Blocking, 16, 2>),
        Pool(PoolBackend<'b, Blocking>),
        Lent(BorrowedExclusive<'b, Blocking>),
        Table(BorrowedShared<'b, Blocking>),
        Far(BorrowedDevice<Far, Blocking>),
        Heap(Heap<Blocking>),
        Sourced(SourceBackend<HeapSource, Blocking>),
    }
}

wharf_backend::backend_set! {
    /// Those that lend slices, of one owner.
    enum Near: Unsync, host {
        Small(StaticPool<Unsync, 16, 2>),
        Large(StaticPool<Unsync, 64, 1>),
    }
}

/// Everything that a backend can be asked, as one value to compare.
#[derive(Debug, PartialEq)]
struct Answers {
    name: &'static str,
    facts: (u32, wharf_backend::MemSpace, usize),
    refusals: Vec<Option<AllocError>>,
    bytes: Vec<u8>,
    transfers: Vec<Result<(), TransferError>>,
    host: Result<Vec<u8>, NotHostAddressable>,
    foreign: Option<ForeignSegment>,
    census: [Census; 3],
}

fn ask<R: BackendRef + Clone>(reference: &R) -> Answers {
    let backend = reference.backend();
    let mut answers = Answers {
        name: backend.name(),
        facts: (
            backend.caps().bits(),
            backend.space(),
            backend.max_segment_size(),
        ),
        refusals: Vec::new(),
        bytes: Vec::new(),
        transfers: Vec::new(),
        host: Ok(Vec::new()),
        foreign: None,
        census: [backend.census(); 3],
    };
    let held: Vec<_> = [4, usize::MAX, 16, 17, 0]
        .map(|size| SegmentMut::alloc(reference.clone(), size))
        .into_iter()
        .filter_map(|answer| {
            answers.refusals.push(answer.as_ref().err().copied());
            answer.ok()
        })
        .collect();
    answers.census[1] = backend.census();
    let mut held = held.into_iter();
    if let Some(segment) = held.next() {
        let mut segment = segment.filled(3).unwrap();
        answers.transfers = vec![
            segment.write(1, &[8, 9]),
            segment.fill(3, 1, 7),
            segment.write(3, &[1, 2]),
            segment.read(5, &mut []),
        ];
        answers.bytes = vec![0; 4];
        segment.read(0, &mut answers.bytes).unwrap();
        answers.host = segment.host().map(Vec::from);
        // Apart, together, and once more after it has gone back.
        let (header, reference) = segment.into_raw();
        // SAFETY: from `into_raw` of an initialised handle.
        drop(unsafe { SegmentMut::<_>::from_raw(header, reference.clone()) }.unwrap());
        answers.foreign = (!backend.may_own(header)).then_some(ForeignSegment { address: 0 });
    }
    drop(held);
    answers.census[2] = backend.census();
    answers
}

/// A fresh backend by each route.
fn routes<'b, B: MemBackend<Policy = Blocking> + Send + Sync>(
    fresh: impl Fn() -> B,
    variant: fn(B) -> Any<'b>,
) -> Answers {
    let typed = ask(&&fresh());
    let set = |backend| -> Any<'b> { variant(backend) };
    assert_eq!(ask(&&set(fresh())), typed);
    type Erased<'e> = dyn MemBackend<Policy = Blocking> + 'e;
    let backend = fresh();
    assert_eq!(ask::<&Erased<'_>>(&(&backend as _)), typed);
    let backend = set(fresh());
    assert_eq!(ask::<&Erased<'_>>(&(&backend as _)), typed);
    assert_eq!(ask(&Arc::new(fresh())), typed);
    assert_eq!(ask(&Arc::new(set(fresh()))), typed);
    let counted: Arc<dyn MemBackend<Policy = Blocking> + Send + Sync + '_> = Arc::new(fresh());
    assert_eq!(ask(&counted), typed);
    let counted: Arc<dyn MemBackend<Policy = Blocking> + Send + Sync + '_> = Arc::new(set(fresh()));
    assert_eq!(ask(&counted), typed);
    typed
}

/// Memory for a route of its own; a few hundred bytes in all. Leaked, and remembered by its address, so that a leak checker
/// sees that it is meant.
fn leaked<T: Send + Sync + 'static>(values: Vec<T>) -> &'static mut [T] {
    static KEPT: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    let leaked = Vec::leak(values);
    KEPT.lock()
        .unwrap()
        .push(leaked.as_mut_ptr().expose_provenance());
    leaked
}

#[test]
fn every_route_to_every_backend_gives_the_same_result() {
    let pool = || {
        let slab = leaked(vec![MaybeUninit::uninit(); 40]);
        let control = leaked(vec![SlotControl::new(), SlotControl::new()]);
        PoolBackend::new(slab, control, 16, 1).unwrap()
    };
    let full = |requested, in_use, capacity| {
        Some(AllocError::Exhausted {
            requested,
            in_use,
            capacity,
        })
    };
    let large = |requested, max| Some(AllocError::TooLarge { requested, max });

    for answers in [
        routes(StaticPool::new, Any::Static),
        routes(pool, Any::Pool),
    ] {
        let refusals = [
            None,
            large(usize::MAX, 16),
            None,
            large(17, 16),
            full(0, 32, 32),
        ];
        assert_eq!(answers.name, "pool");
        assert_eq!(answers.refusals, refusals);
        assert_eq!(answers.bytes, [3, 8, 9, 7]);
        assert_eq!(answers.host, Ok(vec![3, 8, 9, 7]));
        assert!(answers.foreign.is_some());
        assert_eq!(answers.census.map(|census| census.in_use), [0, 2, 0]);
        let out = |offset, len| {
            let size = 4;
            Err(TransferError::OutOfBounds { offset, len, size })
        };
        assert_eq!(answers.transfers, [Ok(()), Ok(()), out(3, 2), out(5, 0)]);
    }

    let answers = routes(
        || BorrowedExclusive::exclusive(leaked(vec![0; 16])),
        Any::Lent,
    );
    let once = [
        None,
        large(usize::MAX, 16),
        full(16, 16, 16),
        large(17, 16),
        full(0, 16, 16),
    ];
    assert_eq!(answers.refusals, once);
    assert_eq!(answers.host, Ok(vec![3, 8, 9, 7]));

    let far = || {
        let range = DeviceRange::new(DeviceAddress::new(0), 16, Far::default());
        BorrowedDevice::new(range.unwrap())
    };
    let answers = routes(far, Any::Far);
    assert_eq!(answers.refusals, once);
    assert_eq!(answers.host, Err(NotHostAddressable));
    assert_eq!(answers.bytes, [3, 8, 9, 7]);

    let answers = routes(|| BorrowedShared::shared(b"table"), Any::Table);
    assert_eq!(answers.refusals, [Some(AllocError::Unsupported); 5]);

    let answers = routes(Heap::new, Any::Heap);
    assert_eq!(answers.refusals.iter().flatten().count(), 1);
    let answers = routes(|| SourceBackend::new(HeapSource), Any::Sourced);
    assert_eq!(answers.refusals.iter().flatten().count(), 1);
    assert_eq!(answers.bytes, [3, 8, 9, 7]);
}

#[test]
fn a_set_of_host_memories_lends_slices_and_segments_of_one_type() {
    let memories = [
        Near::Small(StaticPool::new()),
        Near::Large(StaticPool::new()),
    ];
    let held = RefCell::new(Vec::<SegmentMut<&Near>>::new());
    for memory in &memories {
        let mut segment = SegmentMut::alloc(memory, 16).unwrap().filled(1).unwrap();
        segment[15] = 2;
        held.borrow_mut().push(segment);
    }
    assert!(held.borrow().iter().all(|segment| segment[14..] == [1, 2]));
    let census = || memories.each_ref().map(|memory| memory.census().in_use);
    assert_eq!(census(), [1, 1]);
    drop(held.borrow_mut().remove(0));
    assert_eq!(census(), [0, 1], "each went back to its own");
}

#[test]
fn hooks_are_handed_on() {
    use core::ptr::NonNull;
    use std::cell::Cell;
    use wharf_backend::{Align32, CacheOps, IoDirection, Maintained};

    thread_local!(static CALLS: Cell<[usize; 3]> = const { Cell::new([0; 3]) });
    fn count(op: usize) {
        let mut calls = CALLS.get();
        calls[op] += 1;
        CALLS.set(calls);
    }
    struct Counting;
    // SAFETY: there is no cache.
    unsafe impl CacheOps for Counting {
        const LINE: usize = 32;
        unsafe fn clean(&self, _: NonNull<u8>, _: usize) {
            count(0);
        }
        unsafe fn invalidate(&self, _: NonNull<u8>, _: usize) {
            count(1);
        }
        unsafe fn clean_invalidate(&self, _: NonNull<u8>, _: usize) {
            count(2);
        }
    }
    wharf_backend::backend_set! {
        enum Board: Unsync, host {
            Frames(Maintained<StaticPool<Unsync, 64, 2, Align32>, Counting>),
        }
    }
    let board = Board::Frames(Maintained::fixed(StaticPool::new(), Counting));
    let segment = SegmentMut::alloc(&board, 64).unwrap();
    let lent = segment.hand_over(0, 64, IoDirection::DeviceToCpu).unwrap();
    assert_eq!(CALLS.get(), [0, 1, 0]);
    let segment = lent.land();
    assert_eq!(CALLS.get(), [0, 2, 0]);
    drop(segment.hand_over(0, 64, IoDirection::CpuToDevice).unwrap());
    assert_eq!(CALLS.get(), [1, 2, 1]);
    assert_eq!(Unsync::NAME, "Unsync");
}
