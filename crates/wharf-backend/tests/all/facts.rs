//! What backends say of themselves, by value; and that what lies around one says the same.
#![cfg(all(feature = "std", feature = "critical-section"))]

use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::cell::Cell;

use wharf_backend::wrap::{BackendEvent, Finding, QuotaError};
use wharf_backend::{
    Align32, Align64, AllocError, AllocHint, BackendExt, BackendRef, BorrowedBackend,
    BorrowedDevice, BorrowedExclusive, BorrowedShared, CacheOps, Caps, Census, Checked,
    DeviceAddress, DeviceRange, DeviceTransfer, ExclusiveBytes, FaultInject, ForeignSegment,
    Header, Heap, HostBackend, Init, IoDirection, LentMemory, LineError, Maintained, MemBackend,
    MemSpace, NotHostAddressable, OwnLines, OwnerBackend, Place, PoolBackend, PoolError, Quota,
    ReadOnly, Registers, Scrub, SegmentMut, SharedBytes, SlotControl, SourceBackend, StaticPool,
    Traced, TransferError, Uninit, Waitable,
};
use wharf_source::{HeapSource, PoolSource, SizeClass, SourceError};
use wharf_sync::{Blocking, Unsync};

/// Name, alignment, largest segment, space.
fn facts<B: MemBackend>(backend: &B) -> (&'static str, usize, usize, MemSpace) {
    (
        backend.name(),
        backend.alignment(),
        backend.max_segment_size(),
        backend.space(),
    )
}

/// A bus that nobody answers on.
struct Silent;
impl DeviceTransfer for Silent {
    fn write(&self, _: DeviceAddress, _: &[u8]) -> Result<(), TransferError> {
        Err(TransferError::Closed)
    }
    fn read(&self, _: DeviceAddress, _: &mut [u8]) -> Result<(), TransferError> {
        Err(TransferError::Closed)
    }
}

#[repr(align(64))]
struct Slab<const N: usize>([MaybeUninit<u8>; N]);

#[test]
fn every_backend_says_what_it_is() {
    use MemSpace::{Device, Host};

    let pool = StaticPool::<Unsync, 96, 4, Align32>::new();
    assert_eq!(facts(&pool), ("pool", 32, 96, Host));
    assert_eq!(pool.granule(), 32);
    let mut slab = Slab([MaybeUninit::uninit(); 512]);
    let mut control = [const { SlotControl::<Unsync>::NEW }; 3];
    let pool = PoolBackend::new(&mut slab.0, &mut control, 100, 64).unwrap();
    assert_eq!(facts(&pool), ("pool", 64, 100, Host));
    assert_eq!((pool.granule(), pool.slots()), (64, 3));

    // An allocation ends within half of the address space, rounded up to its alignment too; the header is two words.
    let heap = Heap::<Unsync>::new();
    let header = (2 * size_of::<usize>()).next_multiple_of(16);
    let most = isize::MAX.unsigned_abs() - 15 - header;
    assert_eq!(facts(&heap), ("heap", 16, most, Host));
    assert_eq!(heap.census(), Census::NOTHING);
    assert_eq!(heap.caps(), Caps::OWNS_BYTES | Caps::PLAIN_COPIES);
    assert_eq!(
        heap.alloc(most + 1).unwrap_err(),
        AllocError::TooLarge {
            requested: most + 1,
            max: most
        }
    );
    let error = heap.alloc(most).unwrap_err();
    assert_eq!(error, AllocError::Heap { requested: most });

    let shared = BorrowedShared::<Unsync>::shared(b"in flash");
    assert_eq!(shared.name(), "borrowed, shared");
    assert_eq!((shared.max_segment_size(), shared.space()), (0, Host));
    let mut bytes = [0; 5];
    let exclusive = BorrowedExclusive::<Unsync>::exclusive(&mut bytes);
    assert_eq!(exclusive.name(), "borrowed, exclusive");
    assert_eq!((exclusive.max_segment_size(), exclusive.space()), (5, Host));
    let range = DeviceRange::new(DeviceAddress::new(0x40), 24, Silent).unwrap();
    let device = BorrowedDevice::<_, Unsync>::new(range);
    assert_eq!(facts(&device), ("borrowed, device", 64, 24, Device));
    let words = Cell::new([0_u32; 2]);
    // SAFETY: two aligned words in a cell that nobody else reaches.
    let registers = unsafe { Registers::new(NonNull::from(&words).cast::<u32>(), 2) };
    let registers = BorrowedBackend::<_, Unsync>::new(registers);
    assert_eq!(registers.name(), "borrowed, registers");
    assert_eq!(
        (registers.max_segment_size(), registers.space()),
        (0, Device)
    );
    assert_eq!(registers.lend().unwrap().len(), 8);

    let owner = OwnerBackend::<Vec<u8>, Unsync, _, Init>::new(HeapSource);
    assert_eq!(facts(&owner), ("owner", 1, 0, Host));
    assert_eq!(owner.census(), Census::NOTHING);
    let owned = Caps::OWNS_BYTES | Caps::VENDS_INITIALISED | Caps::PLAIN_COPIES;
    assert_eq!(owner.caps(), owned);
    let owner = OwnerBackend::<Vec<u8>, Unsync, _, ReadOnly>::new(HeapSource);
    assert_eq!(owner.caps(), owned | Caps::READ_ONLY);
    assert!(owner.vend(0, AllocHint::NONE).is_none());
    let refusal = owner.refusal(0, AllocHint::NONE);
    assert_eq!(refusal, AllocError::Unsupported);

    let memory = SourceBackend::<_, Unsync, Align64>::new(HeapSource);
    let most = (isize::MAX.unsigned_abs() & !63) - 64;
    assert_eq!(facts(&memory), ("heap", 64, most, Host));
}

#[test]
fn a_source_of_an_odd_capacity_serves_whole_alignments_of_it() {
    let mut slab = [MaybeUninit::uninit(); 1023];
    let mut classes = [SizeClass::EMPTY; 1];
    let source = PoolSource::<Unsync>::new(&mut slab, &mut classes);
    let memory = SourceBackend::<_, Unsync>::new(&source);
    // 1008 bytes are 63 times 16, of which the header takes one.
    assert_eq!(memory.max_segment_size(), 1008 - 16);
}

/// Host memory whose owner says more of it than its bytes do.
struct Said<'b>(SharedBytes<'b>);

// SAFETY: as the shared bytes are.
unsafe impl LentMemory for Said<'_> {
    type Access = ReadOnly;
    const VENDS: bool = false;
    fn len(&self) -> usize {
        self.0.len()
    }
    fn place(&self) -> Place {
        self.0.place()
    }
    fn caps(&self) -> Caps {
        Caps::all()
    }
    fn name(&self) -> &'static str {
        "said"
    }
    unsafe fn copy_in(&self, _: usize, _: NonNull<u8>, _: usize) -> Result<(), TransferError> {
        Err(TransferError::ReadOnly)
    }
    unsafe fn copy_out(
        &self,
        offset: usize,
        destination: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        // SAFETY: as the caller promises.
        unsafe { self.0.copy_out(offset, destination, len) }
    }
    unsafe fn fill(&self, _: usize, _: usize, _: u8) -> Result<(), TransferError> {
        Err(TransferError::ReadOnly)
    }
}

#[test]
fn what_lent_memory_says_of_itself_stands() {
    let memory = BorrowedBackend::<_, Unsync>::new(Said(SharedBytes::new(b"rom")));
    assert_eq!(memory.caps(), Caps::all());
    assert_eq!(memory.name(), "said");
    assert!(!memory.lent().is_empty());
    assert!(Said(SharedBytes::new(b"")).is_empty());
    assert!(!SharedBytes::new(b"rom").is_empty());
    assert!(ExclusiveBytes::new(&mut []).is_empty());
}

/// A cache that costs nothing.
struct Coherent;
// SAFETY: there is no cache between the CPU and the memory of this test.
unsafe impl CacheOps for Coherent {
    const LINE: usize = 32;
    unsafe fn clean(&self, _: NonNull<u8>, _: usize) {}
    unsafe fn invalidate(&self, _: NonNull<u8>, _: usize) {}
    unsafe fn clean_invalidate(&self, _: NonNull<u8>, _: usize) {}
}

type Pool = StaticPool<Blocking, 96, 4, Align32>;

/// Around a pool, and around what says everything of itself, the pool's own facts are handed on, and its segments known.
fn hands_on<B: HostBackend<Policy = Blocking>>(outer: &B, inner: &Pool, changed: Caps) {
    assert_eq!(
        facts(outer),
        facts(inner),
        "{}",
        core::any::type_name::<B>()
    );
    assert_eq!(outer.caps(), inner.caps() ^ changed);
    let segment = outer.alloc(40).unwrap();
    assert_eq!(outer.census().in_use, 1);
    assert_eq!(outer.census().unit, inner.census().unit);
    assert_eq!(outer.census().capacity, 4);
    let header = segment.header_ptr();
    assert!(outer.may_own(header));
    drop(segment);
    assert!(!outer.may_own(header), "gone back");
    assert_eq!(outer.census().in_use, 0);
    assert_eq!(outer.census().peak, 1);
    let error = outer.alloc(97).unwrap_err();
    let large = AllocError::TooLarge {
        requested: 97,
        max: 96,
    };
    assert_eq!(error, large);
    assert_eq!(outer.census().refused, 1);
    assert_eq!(outer.census().largest_refused, 97);
}

#[test]
fn a_wrapper_says_what_the_backend_in_it_says() {
    let pool = Pool::new;
    let wrapped = FaultInject::new(pool());
    hands_on(&wrapped, wrapped.inner(), Caps::empty());
    assert_eq!(wrapped.granule(), 32);
    let wrapped = Traced::new(pool(), |_: BackendEvent| ());
    // Who copied past it would not be told of.
    hands_on(&wrapped, wrapped.inner(), Caps::PLAIN_COPIES);
    let wrapped = Scrub::new(pool());
    hands_on(&wrapped, wrapped.inner(), Caps::empty());
    let wrapped = Waitable::new(pool());
    hands_on(&wrapped, wrapped.inner(), Caps::empty());
    let wrapped = Checked::<_, _, 4>::new(pool(), |finding: Finding| panic!("{finding}"));
    hands_on(&wrapped, wrapped.inner(), Caps::empty());
    let wrapped = Maintained::fixed(pool(), Coherent);
    hands_on(&wrapped, wrapped.inner(), Caps::NEEDS_CACHE_OPS);
}

#[test]
fn a_share_says_what_the_whole_says() {
    let quota = Quota::<_, 2>::new(Pool::new());
    let share = quota.share(1, 4).unwrap();
    assert_eq!(facts(&share), facts(&Pool::new()));
    assert_eq!(share.caps(), Pool::new().caps());
    let segment = SegmentMut::alloc(share, 5).unwrap();
    assert!(share.may_own(segment.header_ptr()));
    assert_eq!((quota.census().in_use, quota.census().unit), (1, 96));
    let (header, share) = segment.into_raw();
    // SAFETY: from `into_raw` just above.
    drop(unsafe { SegmentMut::<_, Uninit>::from_raw(header, share) }.unwrap());
    assert!(!share.may_own(header));
    let texts = [
        (
            QuotaError::BelowReserve {
                reserved: 3,
                limit: 2,
            },
            "3 segments to be reserved, 2 allowed",
        ),
        (QuotaError::TooMany { shares: 2 }, "all 2 shares are issued"),
    ];
    for (error, text) in texts {
        assert_eq!(error.to_string(), text);
    }
}

/// A pool that says of itself that it has hooks.
struct Hooked(Pool);

// SAFETY: the pool's segments.
unsafe impl MemBackend for Hooked {
    type Policy = Blocking;
    fn vend(&self, size: usize, hint: AllocHint) -> Option<NonNull<Header<Blocking>>> {
        self.0.vend(size, hint)
    }
    fn refusal(&self, size: usize, hint: AllocHint) -> AllocError {
        self.0.refusal(size, hint)
    }
    unsafe fn reclaim(&self, header: NonNull<Header<Blocking>>) {
        // SAFETY: as the caller promises.
        unsafe { self.0.reclaim(header) }
    }
    unsafe fn place(&self, header: NonNull<Header<Blocking>>) -> Place {
        // SAFETY: as the caller promises.
        unsafe { self.0.place(header) }
    }
    fn may_own(&self, header: NonNull<Header<Blocking>>) -> bool {
        self.0.may_own(header)
    }
    fn caps(&self) -> Caps {
        self.0.caps() | Caps::NEEDS_CACHE_OPS
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
        "hooked"
    }
}
// SAFETY: the pool's places.
unsafe impl HostBackend for Hooked {}
// SAFETY: the pool's segments.
unsafe impl OwnLines for Hooked {
    fn granule(&self) -> usize {
        self.0.granule()
    }
}

#[test]
fn a_backend_with_hooks_of_its_own_keeps_the_capability() {
    let around = Maintained::new(Hooked(Pool::new()), Coherent).unwrap();
    assert!(around.caps().contains(Caps::NEEDS_CACHE_OPS));
    assert_eq!(around.name(), "hooked");
}

#[test]
fn a_header_knows_whether_its_segment_has_bytes() {
    let heap = Heap::<Unsync>::new();
    for size in [0, 1] {
        let segment = heap.alloc(size).unwrap();
        // SAFETY: live as long as the segment, which nobody writes.
        let header = unsafe { segment.header_ptr().as_ref() };
        assert_eq!((header.len(), header.is_empty()), (size, size == 0));
        assert_eq!(segment.is_empty(), size == 0);
    }
}

#[test]
fn errors_say_what_happened_and_with_which_numbers() {
    let alloc = [
        (
            AllocError::Exhausted {
                requested: 3,
                in_use: 5,
                capacity: 7,
            },
            "3 bytes asked, 5 of 7 in use",
        ),
        (
            AllocError::TooLarge {
                requested: 9,
                max: 8,
            },
            "9 bytes asked, a segment of this backend holds at most 8",
        ),
        (
            AllocError::Heap { requested: 11 },
            "the heap refused 11 bytes",
        ),
        (AllocError::Unsupported, "this backend allocates nothing"),
        (AllocError::Closed, "the device is closed"),
        (
            AllocError::Injected { call: 13 },
            "call 13 was made to fail",
        ),
    ];
    for (error, text) in alloc {
        assert_eq!(error.to_string(), text);
    }
    let null = SourceError::Null { requested: 4 };
    assert_eq!(AllocError::from(null).to_string(), null.to_string());

    let transfer = [
        (
            TransferError::OutOfBounds {
                offset: 6,
                len: 3,
                size: 8,
            },
            "3 bytes at 6 leave a segment of 8",
        ),
        (
            TransferError::LengthMismatch {
                segment: 4,
                host: 5,
            },
            "a segment of 4 bytes cannot be filled from 5",
        ),
        (
            TransferError::Unsupported {
                space: MemSpace::Device,
            },
            "this backend moves no bytes to or from Device memory",
        ),
        (TransferError::ReadOnly, "the memory is read-only"),
        (
            TransferError::Unaligned {
                offset: 2,
                len: 3,
                word: 4,
            },
            "3 bytes at 2 are no whole words of 4 bytes",
        ),
        (TransferError::Closed, "the device is closed"),
    ];
    for (error, text) in transfer {
        assert_eq!(error.to_string(), text);
    }

    assert_eq!(
        NotHostAddressable.to_string(),
        "the bytes are in device memory, which the CPU does not address"
    );
    assert_eq!(
        ForeignSegment { address: 0x1f0 }.to_string(),
        "0x1f0 is no live segment of this backend"
    );
    assert_eq!(DeviceAddress::new(0x2000).to_string(), "0x2000");
    let shared = LineError {
        granule: 8,
        line: 32,
    };
    assert_eq!(
        shared.to_string(),
        "segments 8 bytes apart share lines of 32 bytes"
    );
    let pools = [
        (
            PoolError::Alignment { align: 3 },
            "alignment 3 is no power of two",
        ),
        (
            PoolError::StrideOverflow {
                payload: 5,
                align: 8,
            },
            "a payload of 5 bytes aligned to 8 is larger than memory",
        ),
        (
            PoolError::NoSlot {
                slab: 40,
                lost: 7,
                stride: 64,
                control: 2,
            },
            "no slot: 40 bytes of slab, of which 7 are lost to alignment, 64 bytes per slot, 2 control blocks",
        ),
    ];
    for (error, text) in pools {
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn a_handed_over_range_of_a_device_starts_at_its_own_address() {
    let range = DeviceRange::new(DeviceAddress::new(0x40), 24, Silent).unwrap();
    let memory = BorrowedDevice::<_, Unsync>::new(range);
    let segment = memory.lend().unwrap();
    let lent = segment.hand_over(8, 16, IoDirection::CpuToDevice).unwrap();
    assert_eq!(lent.place(), Place::Device(DeviceAddress::new(0x48)));
    assert_eq!((lent.len(), lent.is_empty()), (16, false));
    let whole: SegmentMut<_> = lent.land();
    assert_eq!(whole.backend().name(), "borrowed, device");
}

#[test]
fn a_reference_leads_to_its_backend() {
    fn name<R: BackendRef>(reference: &R) -> &'static str {
        reference.backend().name()
    }
    assert_eq!(name(&&Pool::new()), "pool");
    assert_eq!(name(&std::sync::Arc::new(Pool::new())), "pool");
    assert_eq!(name(&Heap::<Unsync>::new()), "heap");
}

#[test]
fn numbers_are_shown_as_what_they_mean() {
    let address = wharf_backend::DeviceAddress::new(0x4000_1000);
    assert_eq!(
        format!("{:?}", wharf_backend::Place::Device(address)),
        "Device(DeviceAddress(0x40001000))"
    );
    assert_eq!(
        format!("{:?}", wharf_backend::usage::UsageClass::WEIGHT),
        "UsageClass(weight)"
    );
}

/// An error that gives back what the call had taken is passed on without it.
#[test]
fn a_returned_value_can_be_let_go() {
    let refused: Result<(), _> = Err(wharf_backend::Returned::new(TransferError::Closed, vec![1]));
    assert_eq!(
        refused.map_err(wharf_backend::Returned::into_error),
        Err(TransferError::Closed)
    );
}
