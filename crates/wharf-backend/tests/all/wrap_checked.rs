//! What `Checked` finds, what `Scrub` leaves, and what `Traced` tells.
#![cfg(feature = "std")]

use core::cell::RefCell;
use core::ptr::NonNull;
use std::sync::Mutex;

use wharf_backend::wrap::{
    BackendEvent, BackendEventKind as Kind, BackendEventPhase as Phase, Finding, OwnsBytes, Share,
};
use wharf_backend::{
    Align1, Align64, AllocError, AllocHint, BackendExt, BackendRef, Caps, Census, Checked,
    ConstOwnLines, DeviceAddress, FaultInject, Header, Heap, HostBackend, IoDirection, MemBackend,
    MemSpace, Place, Scrub, SegmentMut, Shared, SourceBackend, State, StaticPool, Traced,
    TransferError, Uninit, Waitable,
};
use wharf_source::BumpSource;
use wharf_sync::Unsync;

type Raw = NonNull<Header<Unsync>>;
const TAG: AllocHint = AllocHint(42);

fn base<R: BackendRef, S: State>(segment: &SegmentMut<R, S>) -> *mut u8 {
    match segment.place() {
        Place::Host(base) => base.as_ptr(),
        Place::Device(_) => panic!("host memory"),
    }
}

/// What is found when a holder of `size` bytes in slots of 64 writes one byte at `offset`.
fn written_at(size: usize, offset: isize) -> Vec<Finding> {
    let found = RefCell::new(Vec::new());
    let pool = StaticPool::<Unsync, 64, 2>::new();
    let pool = Checked::<_, _, 2>::new(pool, |finding| found.borrow_mut().push(finding));
    let segment = SegmentMut::alloc_with(&pool, size, TAG).unwrap();
    // SAFETY: within the slot, whose provenance the place has; it is what the test is about.
    unsafe { base(&segment).offset(offset).write(0) };
    assert!(found.borrow().is_empty(), "found when it goes back");
    drop(segment);
    assert_eq!(pool.census().in_use, 0, "it went back all the same");
    drop(pool);
    found.into_inner()
}

#[test]
fn canaries_lie_on_both_sides_where_there_is_room() {
    let size = 48;
    let (before, behind) = (
        Finding::Underrun { tag: 42, size },
        Finding::Overrun { tag: 42, size },
    );
    assert_eq!(written_at(48, 0), []);
    assert_eq!(written_at(48, 47), []);
    for offset in -8..0 {
        assert_eq!(written_at(48, offset), [before]);
    }
    for offset in 48..56 {
        assert_eq!(written_at(48, offset), [behind]);
    }
    assert_eq!(
        before.to_string(),
        "written in front of the 48 bytes of holder 42"
    );
    assert_eq!(
        behind.to_string(),
        "written behind the 48 bytes of holder 42"
    );
    // Room for one, and that is the one behind.
    let size = 56;
    assert_eq!(written_at(56, 56), [Finding::Overrun { tag: 42, size }]);
    // Room for none.
    assert_eq!(written_at(57, 60), []);
    // Nothing to hold, and something around it.
    let size = 0;
    assert_eq!(written_at(0, 0), [Finding::Overrun { tag: 42, size }]);
    assert_eq!(written_at(0, -1), [Finding::Underrun { tag: 42, size }]);
}

#[test]
fn a_canary_in_front_keeps_the_alignment() {
    let found = RefCell::new(Vec::new());
    let pool = StaticPool::<Unsync, 192, 2, Align64>::new();
    let pool = Checked::<_, _, 2>::new(pool, |finding| found.borrow_mut().push(finding));
    let segment = SegmentMut::alloc_with(&pool, 100, TAG).unwrap();
    assert_eq!(base(&segment).addr() % 64, 0);
    // SAFETY: within the slot.
    unsafe { base(&segment).sub(64).write(0) };
    drop(segment);
    let size = 100;
    assert_eq!(*found.borrow(), [Finding::Underrun { tag: 42, size }]);
}

#[test]
fn poison_is_in_what_is_vended_and_in_what_was_freed() {
    let pool = Checked::<_, _, 1>::new(StaticPool::<Unsync, 64, 1>::new(), |finding: Finding| {
        panic!("{finding}")
    });
    let segment = pool.alloc(8).unwrap();
    let first = base(&segment);
    assert_eq!(first.addr() % 8, 0);
    // SAFETY: poisoned, hence initialised; ours.
    assert_eq!(unsafe { first.cast::<[u8; 8]>().read() }, [0xA5; 8]);
    drop(segment.filled(1).unwrap());
    // SAFETY: the slot is the pool's, which lives, and nobody has it; it was initialised.
    assert_eq!(unsafe { first.cast::<[u8; 8]>().read() }, [0xDD; 8]);
}

#[test]
fn double_and_foreign_releases_are_told_and_left_alone() {
    let found = RefCell::new(Vec::new());
    let pool = Checked::<_, _, 4>::new(Heap::<Unsync>::new(), |finding| {
        found.borrow_mut().push(finding);
    });
    let (gone, _) = pool.alloc(8).unwrap().into_raw();
    let kept = pool.alloc(8).unwrap();
    let mut foreign = Header::<Unsync>::new(8);
    let foreign = NonNull::from(&mut foreign);
    assert!(pool.may_own(gone), "exact, though the heap is not");
    assert!(!pool.may_own(foreign));
    // SAFETY: from `into_raw`, released once; what follows breaks the law, and the wrapper says that it finds it.
    unsafe {
        pool.reclaim(gone);
        assert_eq!(*found.borrow(), []);
        pool.reclaim(gone);
        pool.reclaim(foreign);
    }
    let double = Finding::DoubleRelease {
        address: gone.addr().get(),
    };
    let never = Finding::ForeignRelease {
        address: foreign.addr().get(),
    };
    assert_eq!(*found.borrow(), [double, never]);
    assert!(double.to_string().ends_with(" was given back twice"));
    assert!(
        never
            .to_string()
            .ends_with(" was given back and never came from here")
    );
    drop(kept.filled(1).unwrap());
    drop(pool);
    assert_eq!(found.borrow().len(), 2, "nothing else");
}

#[test]
fn a_release_is_double_inside_of_the_table_and_foreign_outside() {
    let found = RefCell::new(Vec::new());
    let pool = StaticPool::<Unsync, 32, 2>::new();
    let pool = Checked::<_, _, 2>::new(pool, |finding| found.borrow_mut().push(finding));
    let [first, last] = [pool.alloc(1).unwrap(), pool.alloc(1).unwrap()];
    let (last, _) = last.into_raw();
    let at = |bytes: usize| last.map_addr(|address| address.checked_add(bytes).unwrap());
    let (inside, behind) = (at(1), at(size_of::<Header<Unsync>>()));
    // SAFETY: from `into_raw`, released once; what follows breaks the law, and the wrapper says that it finds it.
    unsafe {
        pool.reclaim(last);
        for header in [last, inside, behind] {
            pool.reclaim(header);
        }
    }
    let address = |header: NonNull<Header<Unsync>>| header.addr().get();
    assert_eq!(
        *found.borrow(),
        [
            Finding::DoubleRelease {
                address: address(last)
            },
            Finding::ForeignRelease {
                address: address(inside)
            },
            Finding::ForeignRelease {
                address: address(behind)
            },
        ]
    );
    drop(first);
    assert_eq!(pool.census().in_use, 0);
}

#[test]
fn a_refusal_inside_has_its_own_cause() {
    let pool = FaultInject::new(StaticPool::<Unsync, 64, 2>::new());
    pool.fail_every(1);
    let pool = Checked::<_, _, 2>::new(pool, |finding: Finding| panic!("{finding}"));
    // With room for both canaries, for one, and for none.
    for (call, size) in [(1, 8), (2, 56), (3, 60)] {
        assert_eq!(pool.alloc(size).unwrap_err(), AllocError::Injected { call });
    }
}

#[test]
fn a_full_table_is_exhaustion_and_leaks_name_their_holders() {
    let found = RefCell::new(Vec::new());
    let pool = StaticPool::<Unsync, 32, 4>::new();
    let mut pool = Checked::<_, _, 2>::new(pool, |finding| found.borrow_mut().push(finding));
    let one = SegmentMut::alloc_with(&pool, 5, AllocHint(1)).unwrap();
    let two = SegmentMut::alloc_with(&pool, 6, AllocHint(2)).unwrap();
    assert_eq!(
        pool.alloc(7).unwrap_err(),
        AllocError::Exhausted {
            requested: 7,
            in_use: 64,
            capacity: 64
        }
    );
    let too_large = AllocError::TooLarge {
        requested: 33,
        max: 32,
    };
    assert_eq!(pool.alloc(33).unwrap_err(), too_large);
    let census = Census {
        unit: 32,
        capacity: 2,
        in_use: 2,
        peak: 2,
        refused: 2,
        largest_refused: 33,
        ..Census::NOTHING
    };
    assert_eq!(pool.census(), census);
    drop(two);
    core::mem::forget(one);
    let mut holders = Vec::new();
    pool.holders(|tag, size| holders.push((tag.0, size)));
    assert_eq!(holders, [(1, 5)]);
    drop(pool);
    assert_eq!(*found.borrow(), [Finding::Leak { tag: 1, size: 5 }]);
}

#[test]
fn a_capacity_is_capped_in_slots_and_not_in_bytes() {
    fn capacity<B: OwnsBytes>(inner: B) -> (usize, usize) {
        let checked = Checked::<_, _, 3>::new(inner, |finding: Finding| panic!("{finding}"));
        let census = checked.census();
        (census.capacity, census.unit)
    }
    // Slots of one byte are slots: three of the five can be out.
    assert_eq!(capacity(StaticPool::<Unsync, 1, 5, Align1>::new()), (3, 1));
    let pool = Checked::<_, _, 3>::new(StaticPool::<Unsync, 1, 5, Align1>::new(), |_: Finding| ());
    let held = [(); 3].map(|()| pool.alloc(1).unwrap());
    let full = AllocError::Exhausted {
        requested: 1,
        in_use: 3,
        capacity: 3,
    };
    assert_eq!(pool.alloc(1).unwrap_err(), full);
    drop(held);
    assert_eq!(capacity(StaticPool::<Unsync, 24, 5>::new()), (3, 24));
    // Fewer than the table has places for.
    assert_eq!(capacity(StaticPool::<Unsync, 1, 2, Align1>::new()), (2, 1));
    // A source counts bytes, of which one segment may take all.
    let mut bytes = [core::mem::MaybeUninit::uninit(); 4096];
    let source = BumpSource::new(&mut bytes);
    let (bytes, unit) = capacity(SourceBackend::<_, Unsync>::new(source));
    assert_eq!((bytes, unit), (4096, 1));
}

#[test]
fn a_full_table_over_a_source_tells_bytes_and_no_slots() {
    let mut bytes = [core::mem::MaybeUninit::uninit(); 4096];
    let bump = SourceBackend::<_, Unsync>::new(BumpSource::new(&mut bytes));
    let table = Checked::<_, _, 2>::new(bump, |finding: Finding| panic!("{finding}"));
    let out = [1000, 1500].map(|size| table.alloc(size).unwrap());
    let in_use = table.census().in_use;
    assert!(
        (2500..2700).contains(&in_use),
        "{in_use} bytes are out, with headers and guards"
    );
    let full = AllocError::Exhausted {
        requested: 8,
        in_use,
        capacity: in_use,
    };
    assert_eq!(table.alloc(8).unwrap_err(), full);
    drop(out);
}

#[test]
fn a_refusal_is_in_the_bytes_that_were_asked_for() {
    let pool = StaticPool::<Unsync, 32, 1>::new();
    let pool = Checked::<_, _, 4>::new(pool, |finding: Finding| panic!("{finding}"));
    let held = pool.alloc(8).unwrap();
    let exhausted = AllocError::Exhausted {
        requested: 8,
        in_use: 32,
        capacity: 32,
    };
    assert_eq!(pool.alloc(8).unwrap_err(), exhausted);
    assert_eq!(
        (pool.census().refused, pool.census().largest_refused),
        (1, 8)
    );
    drop(held);
    assert!(pool.alloc(32).is_ok(), "no place of the table was lost");
    let heap = Checked::<_, _, 1>::new(Heap::<Unsync>::new(), |_: Finding| ());
    let max = heap.max_segment_size();
    for requested in [max, max - 8, max - 100] {
        let refused = heap.alloc(requested).unwrap_err();
        assert_eq!(refused, AllocError::Heap { requested });
    }
}

/// Device memory with caches, that logs its hooks and can be closed.
struct Remote {
    pool: StaticPool<Unsync, 64, 2>,
    closed: core::cell::Cell<bool>,
    log: RefCell<Vec<(&'static str, usize, usize)>>,
}

impl Remote {
    fn new() -> Self {
        Self {
            pool: StaticPool::new(),
            closed: core::cell::Cell::new(false),
            log: RefCell::default(),
        }
    }
    fn log(&self, what: &'static str, offset: usize, len: usize) {
        self.log.borrow_mut().push((what, offset, len));
    }
    fn open(&self) -> Result<(), TransferError> {
        if self.closed.get() {
            return Err(TransferError::Closed);
        }
        Ok(())
    }
    fn bytes(&self, header: Raw) -> [u8; 64] {
        // SAFETY: the header of a slot of the pool, live or not: the place is computed from the address alone.
        match unsafe { self.pool.place(header) } {
            // SAFETY: the slot was filled as a whole, and the pool lives.
            Place::Host(base) => unsafe { base.cast().read() },
            Place::Device(_) => panic!("a pool"),
        }
    }
}

// SAFETY: every header comes from the pool and goes back to it; device addresses reach nothing.
unsafe impl MemBackend for Remote {
    type Policy = Unsync;
    fn vend(&self, size: usize, hint: AllocHint) -> Option<Raw> {
        self.pool.vend(size, hint)
    }
    fn refusal(&self, size: usize, hint: AllocHint) -> AllocError {
        self.pool.refusal(size, hint)
    }
    unsafe fn reclaim(&self, header: Raw) {
        self.log("reclaim", 0, 0);
        // SAFETY: as the caller promises.
        unsafe { self.pool.reclaim(header) }
    }
    unsafe fn place(&self, header: Raw) -> Place {
        // SAFETY: as the caller promises.
        match unsafe { self.pool.place(header) } {
            Place::Host(base) => Place::Device(DeviceAddress::new(base.addr().get() as u64)),
            device @ Place::Device(_) => device,
        }
    }
    fn may_own(&self, header: Raw) -> bool {
        self.pool.may_own(header)
    }
    fn caps(&self) -> Caps {
        self.pool.caps() | Caps::NEEDS_CACHE_OPS
    }
    fn space(&self) -> MemSpace {
        MemSpace::Device
    }
    fn alignment(&self) -> usize {
        self.pool.alignment()
    }
    fn max_segment_size(&self) -> usize {
        self.pool.max_segment_size()
    }
    fn census(&self) -> Census {
        self.pool.census()
    }
    fn name(&self) -> &'static str {
        "remote"
    }
    unsafe fn before_io(&self, _: Raw, offset: usize, len: usize, _: IoDirection) {
        self.log("before", offset, len);
    }
    unsafe fn after_io(&self, _: Raw, offset: usize, len: usize, _: IoDirection) {
        self.log("after", offset, len);
    }
    unsafe fn copy_in(
        &self,
        header: Raw,
        offset: usize,
        source: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        self.open()?;
        self.log("in", offset, len);
        // SAFETY: as the caller promises.
        unsafe { self.pool.copy_in(header, offset, source, len) }
    }
    unsafe fn copy_out(
        &self,
        header: Raw,
        offset: usize,
        destination: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        self.open()?;
        self.log("out", offset, len);
        // SAFETY: as the caller promises.
        unsafe { self.pool.copy_out(header, offset, destination, len) }
    }
    unsafe fn fill(
        &self,
        header: Raw,
        offset: usize,
        len: usize,
        byte: u8,
    ) -> Result<(), TransferError> {
        self.open()?;
        self.log("fill", offset, len);
        // SAFETY: as the caller promises.
        unsafe { self.pool.fill(header, offset, len, byte) }
    }
}

impl OwnsBytes for Remote {}

#[test]
fn device_memory_is_checked_through_transfers() {
    let found = RefCell::new(Vec::new());
    let device = Checked::<_, _, 2>::new(Remote::new(), |finding| found.borrow_mut().push(finding));
    let mut segment = SegmentMut::alloc_with(&device, 16, TAG)
        .unwrap()
        .filled(1)
        .unwrap();
    device.inner().log.borrow_mut().clear();
    segment.write(2, b"abc").unwrap();
    let mut bytes = [0; 3];
    segment.read(2, &mut bytes).unwrap();
    assert_eq!(bytes, *b"abc");
    segment.fill(15, 1, 9).unwrap();
    // Behind the canary in front, hooks and all.
    let moved = [
        [("before", 10, 3), ("in", 10, 3), ("after", 10, 3)],
        [("before", 10, 3), ("out", 10, 3), ("after", 10, 3)],
        [("before", 23, 1), ("fill", 23, 1), ("after", 23, 1)],
    ];
    assert_eq!(*device.inner().log.borrow(), moved.concat());
    let Place::Device(address) = segment.place() else {
        panic!("it is device memory");
    };
    device.inner().log.borrow_mut().clear();
    drop(segment);
    let inspected = [
        [("before", 0, 8), ("out", 0, 8), ("after", 0, 8)],
        [("before", 24, 8), ("out", 24, 8), ("after", 24, 8)],
        [("before", 8, 16), ("fill", 8, 16), ("after", 8, 16)],
    ];
    let log = device.inner().log.borrow().clone();
    assert_eq!(log[..9], inspected.concat());
    assert_eq!(log[9..], [("reclaim", 0, 0)]);
    assert_eq!(found.borrow().len(), 0);
    let again = SegmentMut::alloc_with(&device, 16, TAG).unwrap();
    assert_eq!(
        again.place(),
        Place::Device(address),
        "the slot, used again"
    );
    device.inner().closed.set(true);
    drop(again);
    let unchecked = Finding::Unchecked { tag: 42, size: 16 };
    assert_eq!(*found.borrow(), [unchecked, unchecked], "neither side");
    found.borrow_mut().clear();
    drop(SegmentMut::alloc_with(&device, 16, TAG).unwrap());
    assert_eq!(*found.borrow(), [unchecked], "there was nothing to check");
    assert_eq!(
        unchecked.to_string(),
        "around the 16 bytes of holder 42 nothing could be read"
    );
}

/// What a transfer through `backend` asks of `remote`, which is inside: hooks and all, at its own place.
fn moves_bytes_of<B: MemBackend<Policy = Unsync>>(backend: &B, remote: &Remote) {
    assert_eq!(backend.space(), MemSpace::Device);
    let mut segment = backend.alloc(8).unwrap().filled(1).unwrap();
    remote.log.borrow_mut().clear();
    segment.write(2, b"abc").unwrap();
    let mut bytes = [0; 3];
    segment.read(2, &mut bytes).unwrap();
    assert_eq!(bytes, *b"abc");
    segment.fill(7, 1, 9).unwrap();
    let moved = [
        [("before", 2, 3), ("in", 2, 3), ("after", 2, 3)],
        [("before", 2, 3), ("out", 2, 3), ("after", 2, 3)],
        [("before", 7, 1), ("fill", 7, 1), ("after", 7, 1)],
    ];
    assert_eq!(*remote.log.borrow(), moved.concat());
    let mut last = [0];
    segment.read(7, &mut last).unwrap();
    assert_eq!(last, [9]);
}

#[test]
fn device_memory_inside_of_a_wrapper_is_asked_as_it_is_outside() {
    let remote = Remote::new();
    let shared = Shared::new(&remote);
    moves_bytes_of(&shared, &remote);
    moves_bytes_of(&FaultInject::new(shared), &remote);
    moves_bytes_of(&Scrub::new(shared), &remote);
    moves_bytes_of(&Traced::new(shared, |_: BackendEvent| ()), &remote);
    let checked = Checked::<_, _, 1>::new(shared, |_: Finding| ());
    assert_eq!(checked.space(), MemSpace::Device);
}

#[test]
fn the_constant_granule_of_a_wrapper_is_the_one_inside() {
    type Pool = StaticPool<Unsync, 192, 2, Align64>;
    const fn granule<B: ConstOwnLines>() -> usize {
        B::GRANULE
    }
    assert_eq!(granule::<FaultInject<Pool>>(), 64);
    assert_eq!(granule::<Traced<Pool, fn(BackendEvent)>>(), 64);
    assert_eq!(granule::<Checked<Pool, fn(Finding), 2>>(), 64);
    assert_eq!(granule::<Waitable<Pool>>(), 64);
    assert_eq!(granule::<Share<'static, Pool, 1>>(), 64);
    assert_eq!(granule::<Shared<&'static Pool>>(), 64);
}

#[test]
fn what_is_freed_is_overwritten_before_it_goes_back() {
    let pool = Scrub::with_byte(StaticPool::<Unsync, 16, 1>::new(), 0x5A);
    let secret = pool.alloc(13).unwrap().init_from(b"a secret, all").unwrap();
    let first = base(&secret);
    drop(secret);
    // SAFETY: the slot is the pool's, which lives, and nobody has it; these were initialised.
    assert_eq!(unsafe { first.cast::<[u8; 13]>().read() }, [0x5A; 13]);
    assert_eq!(pool.census().in_use, 0);
    assert_eq!(pool.missed(), 0);

    let device = Scrub::new(Remote::new());
    let segment = device.alloc(64).unwrap().filled(7).unwrap();
    let header = segment.header_ptr();
    assert_eq!(device.inner().bytes(header), [7; 64]);
    device.inner().log.borrow_mut().clear();
    drop(segment);
    let log = [
        ("before", 0, 64),
        ("fill", 0, 64),
        ("after", 0, 64),
        ("reclaim", 0, 0),
    ];
    assert_eq!(
        *device.inner().log.borrow(),
        log,
        "then, and not before, it goes back"
    );
    assert_eq!(device.inner().bytes(header), [0; 64]);

    let segment = device.alloc(64).unwrap();
    device.inner().closed.set(true);
    drop(segment);
    assert_eq!(device.missed(), 1);
    assert_eq!(device.census().in_use, 0);
}

/// What happened, and whether every start has one end of its own kind, on the same segment.
fn balanced(events: &[BackendEvent]) {
    let mut open: Vec<Kind> = Vec::new();
    for event in events {
        match event.phase {
            Phase::Start => open.push(event.kind),
            Phase::Why(_) => {}
            _ => assert_eq!(open.pop(), Some(event.kind)),
        }
    }
    assert_eq!(open, []);
}

#[test]
fn everything_is_told_with_its_end() {
    let events = Mutex::new(Vec::new());
    let device = Traced::new(Remote::new(), |event| events.lock().unwrap().push(event));
    let mut segment = SegmentMut::alloc_with(&device, 8, TAG)
        .unwrap()
        .filled(0)
        .unwrap();
    segment.write(1, b"ab").unwrap();
    segment.read(2, &mut [0; 3]).unwrap();
    device.inner().closed.set(true);
    assert!(segment.fill(0, 4, 1).is_err());
    let here = segment.header_ptr().addr().get();
    drop(segment);
    assert!(device.alloc(65).is_err());
    let events = events.into_inner().unwrap();
    balanced(&events);
    let told: Vec<_> = events
        .iter()
        .map(|event| {
            (
                event.kind,
                event.phase,
                event.segment,
                event.offset,
                event.bytes,
            )
        })
        .collect();
    let why = AllocError::TooLarge {
        requested: 65,
        max: 64,
    };
    let (start, done) = (Phase::Start, Phase::Done);
    assert_eq!(
        told,
        [
            (Kind::Vend, start, 0, 0, 8),
            (Kind::Vend, done, here, 0, 8),
            (Kind::Fill, start, here, 0, 8),
            (Kind::Fill, done, here, 0, 8),
            (Kind::CopyIn, start, here, 1, 2),
            (Kind::CopyIn, done, here, 1, 2),
            (Kind::CopyOut, start, here, 2, 3),
            (Kind::CopyOut, done, here, 2, 3),
            (Kind::Fill, start, here, 0, 4),
            (Kind::Fill, Phase::Failed(TransferError::Closed), here, 0, 4),
            (Kind::Reclaim, start, here, 0, 8),
            (Kind::Reclaim, done, here, 0, 8),
            (Kind::Vend, start, 0, 0, 65),
            (Kind::Vend, Phase::Refused, 0, 0, 65),
            (Kind::Vend, Phase::Why(why), 0, 0, 65),
        ]
    );
    assert_eq!(
        (events[0].hint, events[1].hint, events[2].hint),
        (TAG, TAG, AllocHint::NONE)
    );
}

/// A host backend that panics.
struct Broken(StaticPool<Unsync, 8, 1>);
// SAFETY: it never gets so far.
unsafe impl MemBackend for Broken {
    type Policy = Unsync;
    fn vend(&self, _: usize, _: AllocHint) -> Option<Raw> {
        panic!("broken")
    }
    fn refusal(&self, size: usize, hint: AllocHint) -> AllocError {
        self.0.refusal(size, hint)
    }
    unsafe fn reclaim(&self, _: Raw) {}
    unsafe fn place(&self, _: Raw) -> Place {
        Place::Host(NonNull::dangling())
    }
    fn may_own(&self, _: Raw) -> bool {
        false
    }
    fn caps(&self) -> Caps {
        Caps::empty()
    }
    fn alignment(&self) -> usize {
        1
    }
    fn max_segment_size(&self) -> usize {
        8
    }
    fn census(&self) -> Census {
        Census::NOTHING
    }
    fn name(&self) -> &'static str {
        "broken"
    }
}

#[test]
fn what_unwinds_has_ended_too() {
    let events = Mutex::new(Vec::new());
    let traced = Traced::new(Broken(StaticPool::new()), |event: BackendEvent| {
        events.lock().unwrap().push((event.kind, event.phase));
    });
    let unwound =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| traced.alloc(1).map(drop)));
    assert!(unwound.is_err());
    assert_eq!(
        *events.lock().unwrap(),
        [(Kind::Vend, Phase::Start), (Kind::Vend, Phase::Unwound)]
    );
}

/// Wrapped or not, host memory lends its bytes: this is a test of the compiler.
fn lends<B: HostBackend>(backend: &B) {
    let segment = backend.alloc(3).unwrap().init_from(b"abc").unwrap();
    assert_eq!(*segment, *b"abc");
    let _: SegmentMut<&B, Uninit> = backend.alloc(3).unwrap();
}

#[test]
fn host_memory_lends_its_bytes_through_all_of_them() {
    let pool = Checked::<_, _, 2>::new(StaticPool::<Unsync, 64, 2>::new(), |finding: Finding| {
        panic!("{finding}")
    });
    let pool = Traced::new(Scrub::new(pool), |_: BackendEvent| ());
    lends(&wharf_backend::Waitable::new(
        wharf_backend::FaultInject::new(pool),
    ));
    let quota = wharf_backend::Quota::<_, 1>::new(StaticPool::<Unsync, 64, 2>::new());
    lends(&quota.share(2, 2).unwrap());
}
