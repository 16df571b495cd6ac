//! Transfers: bounds, cache hooks, failures, and the same answer on every route.
#![cfg(feature = "std")]

use core::ptr::NonNull;
use std::sync::{Arc, Mutex};

use wharf_backend::{
    AllocError, AllocHint, BackendExt, BackendRef, Caps, Census, DeviceAddress, FaultInject,
    Header, Heap, HostBackend, IoDirection, MemBackend, MemSpace, NotHostAddressable, Piece,
    PieceError, Place, SegmentMut, StaticPool, TransferError, Uninit, VendsUninit,
};
use wharf_sync::{Blocking, Unsync};

use IoDirection::{CpuToDevice, DeviceToCpu};

type Raw = NonNull<Header<Blocking>>;

/// What a backend was called for, in the order of the calls.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Call {
    Before(usize, usize, IoDirection),
    In(usize, usize),
    Out(usize, usize),
    Fill(usize, usize, u8),
    After(usize, usize, IoDirection),
    /// From, to, and how many.
    OnDevice(u64, u64, usize),
    /// Addresses and lengths.
    All(IoDirection, Vec<(u64, usize)>),
}
use Call::{After, All, Before, Fill, In, OnDevice, Out};

/// A pool that needs maintenance, keeps a log, and fails its copies when told to. If it is `FAR`, it says that the CPU does
/// not address it, and only its transfers get there.
struct Logged<const FAR: bool = false> {
    pool: StaticPool<Blocking, 16, 2>,
    caps: Caps,
    failing: Option<TransferError>,
    log: Mutex<Vec<Call>>,
}

impl<const FAR: bool> Logged<FAR> {
    fn new() -> Self {
        Self {
            pool: StaticPool::new(),
            caps: Caps::NEEDS_CACHE_OPS,
            failing: None,
            log: Mutex::new(Vec::new()),
        }
    }

    fn log(&self, call: Call) {
        self.log.lock().unwrap().push(call);
    }

    fn take_log(&self) -> Vec<Call> {
        core::mem::take(&mut *self.log.lock().unwrap())
    }

    fn copy(
        &self,
        call: Call,
        copy: impl FnOnce() -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        self.log(call);
        self.failing.map_or_else(copy, Err)
    }
}

// SAFETY: every header comes from `pool` and goes back to it, and the wrapper moves only with it.
unsafe impl<const FAR: bool> MemBackend for Logged<FAR> {
    type Policy = Blocking;
    fn vend(&self, size: usize, hint: AllocHint) -> Option<Raw> {
        self.pool.vend(size, hint)
    }
    fn refusal(&self, size: usize, hint: AllocHint) -> AllocError {
        self.pool.refusal(size, hint)
    }
    unsafe fn reclaim(&self, header: Raw) {
        // SAFETY: as the caller promises.
        unsafe { self.pool.reclaim(header) }
    }
    unsafe fn place(&self, header: Raw) -> Place {
        if FAR {
            return Place::Device(DeviceAddress::new(BASE));
        }
        // SAFETY: as the caller promises.
        unsafe { self.pool.place(header) }
    }
    fn space(&self) -> MemSpace {
        if FAR {
            MemSpace::Device
        } else {
            MemSpace::Host
        }
    }
    fn may_own(&self, header: Raw) -> bool {
        self.pool.may_own(header)
    }
    fn caps(&self) -> Caps {
        self.pool.caps().difference(Caps::PLAIN_COPIES) | self.caps
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
        "logged"
    }
    unsafe fn before_io(&self, _: Raw, offset: usize, len: usize, direction: IoDirection) {
        self.log(Before(offset, len, direction));
    }
    unsafe fn after_io(&self, _: Raw, offset: usize, len: usize, direction: IoDirection) {
        self.log(After(offset, len, direction));
    }
    unsafe fn copy_in(
        &self,
        header: Raw,
        offset: usize,
        source: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        self.copy(In(offset, len), || {
            // SAFETY: as the caller promises.
            unsafe { self.pool.copy_in(header, offset, source, len) }
        })
    }
    unsafe fn copy_out(
        &self,
        header: Raw,
        offset: usize,
        destination: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        self.copy(Out(offset, len), || {
            // SAFETY: as the caller promises.
            unsafe { self.pool.copy_out(header, offset, destination, len) }
        })
    }
    unsafe fn fill(
        &self,
        header: Raw,
        offset: usize,
        len: usize,
        byte: u8,
    ) -> Result<(), TransferError> {
        self.copy(Fill(offset, len, byte), || {
            // SAFETY: as the caller promises.
            unsafe { self.pool.fill(header, offset, len, byte) }
        })
    }
    fn reaches(&self, address: DeviceAddress, len: usize) -> bool {
        let offset = address.get().wrapping_sub(BASE);
        offset.checked_add(len as u64).is_some_and(|end| end <= 16)
    }
    /// Moves nothing.
    unsafe fn copy_on_device(
        &self,
        from: DeviceAddress,
        to: DeviceAddress,
        len: usize,
    ) -> Result<(), TransferError> {
        self.copy(OnDevice(from.get(), to.get(), len), || Ok(()))
    }
    /// Moves nothing.
    unsafe fn transfer_all(
        &self,
        direction: IoDirection,
        pieces: &mut dyn Iterator<Item = Piece>,
    ) -> Result<(), PieceError> {
        let pieces: Vec<_> = pieces
            .map(|piece| (piece.address.get(), piece.len))
            .collect();
        let failed = |error| PieceError { piece: 1, error };
        self.copy(All(direction, pieces), || Ok(())).map_err(failed)
    }
}

/// The address of every segment that is far.
const BASE: u64 = 0x1000;

// SAFETY: the places are the pool's.
unsafe impl HostBackend for Logged<false> {}
// SAFETY: a pool's slots. (The test that says they have values takes none away.)
unsafe impl VendsUninit for Logged<false> {}

/// The bytes, wherever they are.
fn bytes<R: BackendRef>(segment: &SegmentMut<R>) -> Vec<u8> {
    let mut bytes = vec![0; segment.len()];
    segment.read(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn the_cpu_copies_its_own_memory_through_its_cache() {
    let backend = Logged::<false>::new();
    let mut segment = backend.alloc(8).unwrap().filled(7).unwrap();
    segment[0] = 1; // Dirty: a hook that invalidates would lose it.
    segment.write(2, b"abc").unwrap();
    segment.read(1, &mut [0; 4]).unwrap();
    segment.fill(6, 2, 9).unwrap();
    assert_eq!(*segment, [1, 7, b'a', b'b', b'c', 7, 9, 9]);
    let log = [Fill(0, 8, 7), In(2, 3), Out(1, 4), Fill(6, 2, 9)];
    assert_eq!(backend.take_log(), log, "and no hook");
}

#[test]
fn hooks_bracket_every_move_to_a_device_in_its_direction() {
    let backend = Logged::<true>::new();
    let mut segment = backend.alloc(8).unwrap().filled(7).unwrap();
    segment.write(2, b"abc").unwrap();
    let mut bytes = [0; 4];
    segment.read(1, &mut bytes).unwrap();
    segment.fill(6, 2, 9).unwrap();
    assert_eq!(bytes, [7, b'a', b'b', b'c']);
    let log = [
        Before(0, 8, CpuToDevice),
        Fill(0, 8, 7),
        After(0, 8, CpuToDevice),
        Before(2, 3, CpuToDevice),
        In(2, 3),
        After(2, 3, CpuToDevice),
        Before(1, 4, DeviceToCpu),
        Out(1, 4),
        After(1, 4, DeviceToCpu),
        Before(6, 2, CpuToDevice),
        Fill(6, 2, 9),
        After(6, 2, CpuToDevice),
    ];
    assert_eq!(backend.take_log(), log);
    assert_eq!(self::bytes(&segment), [7, 7, b'a', b'b', b'c', 7, 9, 9]);
}

#[test]
fn hooks_are_paired_when_the_move_between_them_fails() {
    let mut backend = Logged::<true>::new();
    let (header, _) = backend.alloc(8).unwrap().filled(7).unwrap().into_raw();
    backend.take_log();
    backend.failing = Some(TransferError::Closed);
    // SAFETY: from `into_raw` of an initialised handle above.
    let mut segment = unsafe { SegmentMut::<&Logged<true>>::from_raw(header, &backend) }.unwrap();
    assert_eq!(segment.write(2, b"abc"), Err(TransferError::Closed));
    assert_eq!(segment.read(1, &mut [0; 4]), Err(TransferError::Closed));
    assert_eq!(segment.fill(6, 2, 9), Err(TransferError::Closed));
    let log = [
        Before(2, 3, CpuToDevice),
        In(2, 3),
        After(2, 3, CpuToDevice),
        Before(1, 4, DeviceToCpu),
        Out(1, 4),
        After(1, 4, DeviceToCpu),
        Before(6, 2, CpuToDevice),
        Fill(6, 2, 9),
        After(6, 2, CpuToDevice),
    ];
    assert_eq!(backend.take_log(), log);
}

#[test]
fn a_backend_without_caches_is_asked_for_no_maintenance() {
    let mut backend = Logged::<true>::new();
    backend.caps = Caps::empty();
    let segment = backend.alloc(3).unwrap().init_from(b"abc").unwrap();
    segment.read(0, &mut [0; 3]).unwrap();
    assert_eq!(backend.take_log(), [In(0, 3), Out(0, 3)]);
}

#[test]
fn ranges_that_leave_the_segment_move_nothing_and_run_no_hook() {
    let backend = Logged::<true>::new();
    let mut segment = backend.alloc(16).unwrap().filled(7).unwrap();
    backend.take_log();
    let size = 16;
    for (offset, len) in [
        (17, 0),
        (16, 1),
        (15, 2),
        (0, 17),
        (usize::MAX, 0),
        (usize::MAX, 1),
        (usize::MAX - 7, 8),
        (usize::MAX - 7, 16),
        (usize::MAX / 2 + 1, 16),
    ] {
        let out = Err(TransferError::OutOfBounds { offset, len, size });
        assert_eq!(segment.write(offset, &vec![1; len]), out);
        assert_eq!(segment.read(offset, &mut vec![1; len]), out);
        assert_eq!(segment.fill(offset, len, 1), out);
    }
    // Lengths that only a fill can ask for, because no slice is that long.
    for (offset, len) in [
        (0, usize::MAX),
        (1, usize::MAX),
        (8, usize::MAX - 7),
        (usize::MAX, usize::MAX),
    ] {
        let out = Err(TransferError::OutOfBounds { offset, len, size });
        assert_eq!(segment.fill(offset, len, 1), out);
    }
    assert_eq!(backend.take_log(), []);
    assert_eq!(bytes(&segment), [7; 16]);
    // The largest that fit.
    for (offset, len) in [(0, 16), (16, 0), (15, 1), (0, 0)] {
        assert_eq!(segment.fill(offset, len, 8), Ok(()));
        assert_eq!(segment.read(offset, &mut vec![1; len]), Ok(()));
        assert_eq!(segment.write(offset, &vec![1; len]), Ok(()));
    }
    let out = TransferError::OutOfBounds {
        offset: 15,
        len: 2,
        size: 16,
    };
    assert_eq!(out.to_string(), "2 bytes at 15 leave a segment of 16");
}

#[test]
fn bounds_are_those_of_the_segment_and_not_of_its_slot() {
    let backend = Logged::<false>::new();
    let mut segment = backend.alloc(5).unwrap().filled(0).unwrap();
    let out = Err(TransferError::OutOfBounds {
        offset: 5,
        len: 1,
        size: 5,
    });
    assert_eq!(segment.write(5, &[1]), out);
}

#[test]
fn a_segment_is_filled_from_exactly_as_many_bytes_as_it_has() {
    let backend = Logged::<false>::new();
    for host in [0, 3, 5, 16] {
        let error = backend.alloc(4).unwrap().init_from(&vec![1; host]);
        let mismatch = TransferError::LengthMismatch { segment: 4, host };
        assert_eq!(error.unwrap_err(), mismatch);
        assert_eq!(backend.census().in_use, 0, "the segment went back");
    }
    assert_eq!(backend.take_log(), []);
    let mismatch = TransferError::LengthMismatch {
        segment: 4,
        host: 5,
    };
    assert_eq!(
        mismatch.to_string(),
        "a segment of 4 bytes cannot be filled from 5"
    );
}

#[test]
fn every_way_to_initialise_gives_the_segment_back_when_it_fails() {
    let backend = Logged {
        failing: Some(TransferError::Closed),
        ..Logged::<false>::new()
    };
    let fresh = || backend.alloc(4).unwrap();
    assert_eq!(fresh().filled(1).unwrap_err(), TransferError::Closed);
    assert_eq!(fresh().initialised().unwrap_err(), TransferError::Closed);
    assert_eq!(
        fresh().init_from(&[1; 4]).unwrap_err(),
        TransferError::Closed
    );
    assert_eq!(backend.census().in_use, 0);
    assert_eq!(backend.census().peak, 1);
}

#[test]
fn initialised_costs_nothing_where_bytes_come_initialised() {
    let mut backend = Logged::<false>::new();
    let zeros = backend.alloc(4).unwrap().initialised().unwrap();
    assert_eq!(*zeros, [0; 4]);
    let (header, _) = zeros.into_raw();
    assert_eq!(backend.take_log(), [Fill(0, 4, 0)]);

    // The slot was written above, so its bytes do have values: the promise of the capability.
    backend.caps |= Caps::VENDS_INITIALISED;
    // SAFETY: from `into_raw` of an initialised handle above.
    let mut segment = unsafe { SegmentMut::<&Logged>::from_raw(header, &backend) }.unwrap();
    segment.copy_from_slice(&[1, 2, 3, 4]);
    drop(segment);
    let again = backend.alloc(4).unwrap().initialised().unwrap();
    assert_eq!(*again, [1, 2, 3, 4], "the same slot, as it was left");
    assert_eq!(backend.take_log(), []);
}

#[test]
fn bytes_can_be_written_in_place_before_they_are_declared() {
    let backend = Logged::<false>::new();
    let mut segment = backend.alloc(4).unwrap();
    assert_eq!(segment.as_uninit_mut().len(), 4);
    for (at, byte) in segment.as_uninit_mut().iter_mut().zip(10..) {
        at.write(byte);
    }
    // SAFETY: every byte was just written.
    let segment = unsafe { segment.assume_init() };
    assert_eq!(*segment, [10, 11, 12, 13]);
    assert_eq!(
        backend.take_log(),
        [],
        "the CPU wrote; no transfer took place"
    );
}

#[test]
fn what_turned_out_shorter_is_zero_behind_that() {
    let backend = Logged::<false>::new();
    let arrived = |bytes: &[u8]| {
        let mut segment = backend.alloc(4).unwrap();
        segment.as_uninit_mut()[..bytes.len()].write_copy_of_slice(bytes);
        // SAFETY: so many bytes were just written.
        unsafe { segment.assume_init_to(bytes.len()) }.unwrap()
    };
    drop(backend.alloc(4).unwrap().filled(0xEE).unwrap());
    assert_eq!(backend.take_log(), [Fill(0, 4, 0xEE)]);
    assert_eq!(*arrived(&[1, 2, 3]), [1, 2, 3, 0]);
    assert_eq!(*arrived(&[]), [0; 4]);
    assert_eq!(backend.take_log(), [Fill(3, 1, 0), Fill(0, 4, 0)]);
    assert_eq!(*arrived(&[1, 2, 3, 4]), [1, 2, 3, 4]);
    assert_eq!(backend.take_log(), [], "a full one costs nothing");
    // More cannot have arrived.
    let segment = backend.alloc(4).unwrap();
    // SAFETY: it is refused.
    let refused = unsafe { segment.assume_init_to(5) }.unwrap_err();
    let (offset, len, size) = (0, 5, 4);
    assert_eq!(refused, TransferError::OutOfBounds { offset, len, size });
    assert_eq!((backend.take_log(), backend.census().in_use), (vec![], 0));
}

/// Headers from a pool, bytes nowhere that the CPU could reach, and no way to move them.
struct Remote(StaticPool<Blocking, 16, 2>);

// SAFETY: headers come from the pool and go back to it; a device place is valid for nothing that anybody
// here could do with it. Device bytes always have a value.
unsafe impl MemBackend for Remote {
    type Policy = Blocking;
    fn vend(&self, size: usize, hint: AllocHint) -> Option<Raw> {
        self.0.vend(size, hint)
    }
    fn refusal(&self, size: usize, hint: AllocHint) -> AllocError {
        self.0.refusal(size, hint)
    }
    unsafe fn reclaim(&self, header: Raw) {
        // SAFETY: as the caller promises.
        unsafe { self.0.reclaim(header) }
    }
    unsafe fn place(&self, _: Raw) -> Place {
        Place::Device(DeviceAddress::new(0x1000))
    }
    fn may_own(&self, header: Raw) -> bool {
        self.0.may_own(header)
    }
    fn caps(&self) -> Caps {
        Caps::VENDS_INITIALISED
    }
    fn space(&self) -> MemSpace {
        MemSpace::Device
    }
    fn alignment(&self) -> usize {
        self.0.alignment()
    }
    fn max_segment_size(&self) -> usize {
        self.0.max_segment_size()
    }
    fn census(&self) -> Census {
        self.0.census()
    }
    fn name(&self) -> &'static str {
        "remote"
    }
}

/// What device memory answers, whatever the route to it.
fn remote<R: BackendRef + Clone>(backend: R) {
    let fresh = || SegmentMut::alloc(backend.clone(), 8).unwrap();
    let unsupported = TransferError::Unsupported {
        space: MemSpace::Device,
    };
    assert_eq!(fresh().filled(0).unwrap_err(), unsupported);
    assert_eq!(fresh().init_from(&[0; 8]).unwrap_err(), unsupported);
    assert_eq!(
        unsupported.to_string(),
        "this backend moves no bytes to or from Device memory"
    );
    let mut segment = fresh().initialised().unwrap();
    assert_eq!(segment.host(), Err(NotHostAddressable));
    assert_eq!(segment.host_mut(), Err(NotHostAddressable));
    assert_eq!(segment.place(), Place::Device(DeviceAddress::new(0x1000)));
    assert_eq!(segment.write(0, &[1]), Err(unsupported));
    assert_eq!(segment.read(0, &mut [1]), Err(unsupported));
    assert_eq!(segment.fill(0, 1, 1), Err(unsupported));
    // The range is checked first, so that no backend has to.
    let out = Err(TransferError::OutOfBounds {
        offset: 8,
        len: 1,
        size: 8,
    });
    assert_eq!(segment.write(8, &[1]), out);
    drop(segment);
    assert_eq!(backend.backend().census().in_use, 0);
}

/// What a host backend with hooks answers, whatever the route to it.
fn host<R: BackendRef + Clone>(backend: R) {
    let segment = SegmentMut::alloc(backend.clone(), 4).unwrap();
    let mut segment = segment.init_from(b"abcd").unwrap();
    segment.write(1, b"XY").unwrap();
    segment.fill(3, 1, b'z').unwrap();
    let mut bytes = [0; 4];
    segment.read(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"aXYz");
    assert_eq!(segment.host().unwrap(), b"aXYz");
    segment.host_mut().unwrap()[0] = b'A';
    assert_eq!(segment.host().unwrap(), b"AXYz");
    assert_eq!(
        segment.write(3, b"12"),
        Err(TransferError::OutOfBounds {
            offset: 3,
            len: 2,
            size: 4
        })
    );
    drop(segment);
    let error = SegmentMut::alloc(backend.clone(), 17).unwrap_err();
    let large = AllocError::TooLarge {
        requested: 17,
        max: 16,
    };
    assert_eq!(error, large);
    assert_eq!(backend.backend().census().in_use, 0);
}

type Erased = dyn MemBackend<Policy = Blocking>;
type ErasedBoth = dyn MemBackend<Policy = Blocking> + Send + Sync;

#[test]
fn typed_erased_and_counted_routes_give_the_same_result() {
    let logs = [
        {
            let backend = Logged::<false>::new();
            host(&backend);
            backend.take_log()
        },
        {
            let backend = Logged::<false>::new();
            host::<&Erased>(&backend);
            backend.take_log()
        },
        {
            let backend = Arc::new(Logged::<false>::new());
            host(Arc::clone(&backend));
            backend.take_log()
        },
        {
            let backend = Arc::new(Logged::<false>::new());
            host::<Arc<ErasedBoth>>(Arc::clone(&backend) as _);
            backend.take_log()
        },
        {
            let backend = FaultInject::new(Logged::<false>::new());
            host(&backend);
            backend.inner().take_log()
        },
    ];
    let log = [In(0, 4), In(1, 2), Fill(3, 1, b'z'), Out(0, 4)];
    assert_eq!(logs[0], log);
    assert!(logs.iter().all(|log| *log == logs[0]));

    let new = || Remote(StaticPool::new());
    remote(&new());
    remote::<&Erased>(&new());
    remote(Arc::new(new()));
    remote::<Arc<ErasedBoth>>(Arc::new(new()));
    remote(&FaultInject::new(new()));
}

#[test]
fn a_segment_erased_on_its_way_keeps_its_bytes_and_its_backend() {
    let backend = Logged::<false>::new();
    let typed = backend.alloc(3).unwrap().init_from(b"abc").unwrap();
    let erased = typed.erase::<&dyn MemBackend<Policy = Blocking>>();
    assert_eq!(erased.host().unwrap(), b"abc");
    assert_eq!(erased.backend().name(), "logged");
    drop(erased);
    assert_eq!(backend.census().in_use, 0);

    let counted = Arc::new(Logged::<false>::new());
    let typed = SegmentMut::alloc(Arc::clone(&counted), 3).unwrap();
    let erased = typed.init_from(b"abc").unwrap().erase::<Arc<ErasedBoth>>();
    assert_eq!(Arc::strong_count(&counted), 2, "one reference, handed on");
    drop(erased);
    assert_eq!(Arc::strong_count(&counted), 1);
    assert_eq!(counted.census().in_use, 0);

    let heap = SegmentMut::alloc(Arc::new(Heap::<Blocking>::new()), 3).unwrap();
    let erased = heap.init_from(b"abc").unwrap().erase::<Arc<ErasedBoth>>();
    assert_eq!(erased.host().unwrap(), b"abc");
    assert_eq!(erased.backend().name(), "heap");
}

#[test]
fn a_counted_backend_outlives_its_owner() {
    let backend = Arc::new(Logged::<false>::new());
    let segment = SegmentMut::alloc(Arc::clone(&backend), 3).unwrap();
    let watch = Arc::downgrade(&backend);
    drop(backend);
    let segment = segment.init_from(b"abc").unwrap();
    assert_eq!(*segment, *b"abc");
    assert_eq!(watch.strong_count(), 1);
    drop(segment);
    assert_eq!(watch.strong_count(), 0, "it went with its last segment");
}

#[test]
fn fault_injection_refuses_the_nth_and_only_that() {
    let pool = FaultInject::new(StaticPool::<Unsync, 8, 8>::new());
    for nth in 1..=4 {
        pool.fail_nth(nth);
        let outcomes: Vec<Option<AllocError>> = (0..5).map(|_| pool.alloc(8).err()).collect();
        for (call, outcome) in (1..).zip(outcomes) {
            let expected = (call == nth).then_some(AllocError::Injected { call });
            assert_eq!(outcome, expected, "call {call}, told to fail {nth}");
        }
        assert_eq!(pool.calls(), 5);
    }
    pool.fail_nth(0);
    assert!((0..5).all(|_| pool.alloc(8).is_ok()));
    // A refusal of the pool's own keeps its own cause.
    assert_eq!(
        pool.alloc(9).unwrap_err(),
        AllocError::TooLarge {
            requested: 9,
            max: 8
        }
    );
    assert_eq!(
        AllocError::Injected { call: 3 }.to_string(),
        "call 3 was made to fail"
    );
}

#[test]
fn injected_refusals_are_in_the_census() {
    let pool = FaultInject::new(StaticPool::<Unsync, 8, 1>::new());
    pool.fail_nth(1);
    assert!(pool.alloc(7).is_err());
    let injected = Census {
        unit: 8,
        capacity: 1,
        refused: 1,
        largest_refused: 7,
        ..Census::NOTHING
    };
    assert_eq!(pool.census(), injected);
    assert!(pool.alloc(20).is_err());
    pool.fail_nth(1);
    assert!(pool.alloc(3).is_err());
    let both = Census {
        refused: 3,
        largest_refused: 20,
        ..injected
    };
    assert_eq!(pool.census(), both);
    let served: SegmentMut<&FaultInject<_>, Uninit> = pool.alloc(8).unwrap();
    assert_eq!(pool.census().in_use, 1);
    drop(served);
}

const UNSUPPORTED: TransferError = TransferError::Unsupported {
    space: MemSpace::Device,
};

#[test]
fn what_moves_by_address_is_checked_and_then_one_call() {
    let mut backend = Logged::<true>::new();
    backend.caps = Caps::ENGINE_ADDRESSED;
    let mut segment = backend.alloc(8).unwrap().filled(0).unwrap();
    let at = |offset| Some(DeviceAddress::new(BASE + offset));
    assert_eq!(segment.by_address(3, 5), at(3));
    assert_eq!(segment.by_address(8, 0), at(8));
    assert_eq!(segment.by_address(3, 6), None, "the pool's, and another's");
    assert_eq!(segment.by_address(usize::MAX, 2), None);
    backend.take_log();
    segment.move_within(1, 2, 6).unwrap();
    let other = backend.alloc(4).unwrap().filled(0).unwrap();
    segment.copy_from_segment(4, &other, 1, 3).unwrap();
    segment
        .write_all(&[(0, b"ab"), (7, b"c"), (8, b"")])
        .unwrap();
    segment
        .read_all(&mut [(2, &mut [0; 3]), (1, &mut [0])])
        .unwrap();
    let log = [
        OnDevice(BASE + 1, BASE + 2, 6),
        Fill(0, 4, 0),
        OnDevice(BASE + 1, BASE + 4, 3),
        All(CpuToDevice, vec![(BASE, 2), (BASE + 7, 1), (BASE + 8, 0)]),
        All(DeviceToCpu, vec![(BASE + 2, 3), (BASE + 1, 1)]),
    ];
    assert_eq!(backend.take_log(), log);
    // Out of bounds, and nobody was asked.
    let beyond = |offset, len, size| TransferError::OutOfBounds { offset, len, size };
    let refused = segment.copy_from_segment(0, &other, 2, 3);
    assert_eq!(refused, Err(beyond(2, 3, 4)));
    assert_eq!(segment.move_within(3, 0, 6), Err(beyond(3, 6, 8)));
    let error = beyond(8, 1, 8);
    let refused = Err(PieceError { piece: 2, error });
    let writes: [(usize, &[u8]); 3] = [(0, b"a"), (1, b"b"), (8, b"c")];
    assert_eq!(segment.write_all(&writes), refused);
    let (mut a, mut b, mut c) = ([0], [0], [0]);
    let mut reads: [(usize, &mut [u8]); 3] = [(0, &mut a), (1, &mut b), (8, &mut c)];
    assert_eq!(segment.read_all(&mut reads), refused);
    assert_eq!(backend.take_log(), []);
}

#[test]
fn a_failure_by_address_is_handed_on() {
    let mut backend = Logged::<true>::new();
    backend.caps = Caps::ENGINE_ADDRESSED | Caps::VENDS_INITIALISED;
    backend.failing = Some(TransferError::Closed);
    let mut segment = backend.alloc(8).unwrap().initialised().unwrap();
    assert_eq!(segment.move_within(0, 1, 7), Err(TransferError::Closed));
    let error = TransferError::Closed;
    let failed = Err(PieceError { piece: 1, error });
    assert_eq!(segment.write_all(&[(0, b"a"), (1, b"b")]), failed);
    assert_eq!(segment.read_all(&mut [(0, &mut [0])]), failed);
}

#[test]
fn behind_a_cache_and_without_the_engines_addresses_ranges_move_one_by_one() {
    // (A pool says neither of itself.)
    let needs = Caps::NEEDS_CACHE_OPS;
    for caps in [needs | Caps::ENGINE_ADDRESSED, Caps::empty()] {
        let mut backend = Logged::<true>::new();
        backend.caps = caps;
        let mut segment = backend.alloc(8).unwrap().filled(0).unwrap();
        backend.take_log();
        assert_eq!(segment.by_address(0, 8), None);
        assert_eq!(segment.move_within(0, 1, 7), Err(UNSUPPORTED));
        let other = backend.alloc(8).unwrap().filled(0).unwrap();
        backend.take_log();
        let refused = segment.copy_from_segment(0, &other, 0, 8);
        assert_eq!(refused, Err(UNSUPPORTED));
        segment.write_all(&[(0, b"ab"), (4, b"c")]).unwrap();
        segment.read_all(&mut [(1, &mut [0; 3])]).unwrap();
        let steps = [
            (In(0, 2), 0, 2, CpuToDevice),
            (In(4, 1), 4, 1, CpuToDevice),
            (Out(1, 3), 1, 3, DeviceToCpu),
        ];
        let bracketed = steps.into_iter().flat_map(|(call, offset, len, way)| {
            let hooks = caps.contains(needs);
            let around = move |hook| Some(hook).filter(|_| hooks);
            [
                around(Before(offset, len, way)),
                Some(call),
                around(After(offset, len, way)),
            ]
        });
        let log: Vec<_> = bracketed.flatten().collect();
        assert_eq!(backend.take_log(), log);
    }
    // The host's memory is the host's to move, whatever is said of its addresses.
    let mut backend = Logged::<false>::new();
    backend.caps = Caps::ENGINE_ADDRESSED;
    let mut segment = backend.alloc(8).unwrap().filled(0).unwrap();
    assert_eq!(segment.by_address(0, 8), None);
    segment.write_all(&[(0, b"abcd")]).unwrap();
    segment.move_within(0, 1, 4).unwrap();
    assert_eq!(*segment, *b"aabcd\0\0\0");
}

#[test]
fn by_default_nothing_is_in_reach() {
    let pool = StaticPool::<Unsync, 16, 1>::new();
    let address = DeviceAddress::new(0);
    assert!(!pool.reaches(address, 0));
    // SAFETY: nothing is in reach, and the default touches nothing.
    let copied = unsafe { pool.copy_on_device(address, address, 0) };
    assert_eq!(copied, Err(UNSUPPORTED));
    // SAFETY: as above.
    let moved = unsafe { pool.transfer_all(CpuToDevice, &mut core::iter::empty()) };
    let error = UNSUPPORTED;
    assert_eq!(moved, Err(PieceError { piece: 0, error }));
}
