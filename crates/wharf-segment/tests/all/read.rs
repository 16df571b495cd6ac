//! Shared bytes are copied out wherever they are, and never from beyond the window.

use core::cell::RefCell;
use core::ptr::NonNull;

use wharf_backend::{
    AllocError, AllocHint, BackendExt, Caps, Census, DeviceAddress, Header, IoDirection,
    MemBackend, MemSpace, Place, StaticPool, TransferError,
};
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

type Raw = NonNull<Header<Unsync>>;

/// Memory behind a window with a cache: a pool of which it says that the CPU does not address it. It keeps a log.
struct Windowed {
    pool: StaticPool<Unsync, 16, 2>,
    log: RefCell<Vec<(&'static str, usize, usize)>>,
}

impl Windowed {
    fn log(&self, what: &'static str, offset: usize, len: usize) {
        self.log.borrow_mut().push((what, offset, len));
    }
}

// SAFETY: every header comes from `pool` and goes back to it, and the wrapper moves only with it.
unsafe impl MemBackend for Windowed {
    type Policy = Unsync;
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
    unsafe fn place(&self, _: Raw) -> Place {
        Place::Device(DeviceAddress::new(0x1000))
    }
    fn space(&self) -> MemSpace {
        MemSpace::Device
    }
    fn may_own(&self, header: Raw) -> bool {
        self.pool.may_own(header)
    }
    fn caps(&self) -> Caps {
        self.pool.caps() | Caps::NEEDS_CACHE_OPS
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
        "windowed"
    }
    unsafe fn before_io(&self, _: Raw, offset: usize, len: usize, direction: IoDirection) {
        assert_eq!(direction, IoDirection::DeviceToCpu);
        self.log("before", offset, len);
    }
    unsafe fn after_io(&self, _: Raw, offset: usize, len: usize, direction: IoDirection) {
        assert_eq!(direction, IoDirection::DeviceToCpu);
        self.log("after", offset, len);
    }
    unsafe fn copy_in(
        &self,
        _: Raw,
        _: usize,
        _: NonNull<u8>,
        _: usize,
    ) -> Result<(), TransferError> {
        Err(TransferError::ReadOnly)
    }
    unsafe fn copy_out(
        &self,
        header: Raw,
        offset: usize,
        destination: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        self.log("copy", offset, len);
        // SAFETY: as the caller promises.
        unsafe { self.pool.copy_out(header, offset, destination, len) }
    }
}

/// Shared or not, the same maintenance is due.
#[test]
fn hooks_bracket_a_read_of_shared_device_memory() {
    let memory = Windowed {
        pool: StaticPool::new(),
        log: RefCell::default(),
    };
    let fresh = memory.alloc(8).unwrap();
    // SAFETY: a live handle that is ours; its bytes are the pool's, and all of them are written.
    let segment = unsafe {
        memory
            .pool
            .copy_in(fresh.header_ptr(), 0, NonNull::from(b"01234567").cast(), 8)
            .unwrap();
        fresh.assume_init()
    };
    let segment = Segment::from(segment);
    let mut two = [0; 2];
    View::from(segment.clone())
        .slice(3..)
        .unwrap()
        .read(1, &mut two)
        .unwrap();
    assert_eq!(&two, b"45");
    assert_eq!(
        memory.log.take(),
        [("before", 4, 2), ("copy", 4, 2), ("after", 4, 2)]
    );
    let refused = segment.read(7, &mut two);
    assert!(matches!(refused, Err(TransferError::OutOfBounds { .. })));
    assert_eq!(
        memory.log.take(),
        [],
        "nothing is maintained that is not read"
    );
}
