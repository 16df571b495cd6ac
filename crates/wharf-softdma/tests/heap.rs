//! What the device takes of the host's heap: all of it comes back, and a heap that refuses is a value.

mod common;

use core::cell::Cell;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::{Arc, Mutex, PoisonError};

use common::{Load, NOTHING, buffer, open, submit};
use wharf_backend::usage::UsageClass;
use wharf_backend::{AllocError, BackendExt, Group, GroupError, SegmentMut};
use wharf_engine::EngineExt;
use wharf_softdma::{Channel, Config, OpenError, SoftDma};
use wharf_source::HeapSource;
use wharf_sync::NoClock;

/// Counts large allocations, and refuses on the thread that asks for it.
struct Counting;

/// Larger than whatever else a test program allocates.
const LARGE: usize = 1 << 22;

static LARGE_LIVE: AtomicUsize = AtomicUsize::new(0);
std::thread_local!(
    static REFUSES: Cell<bool> = const { Cell::new(false) };
    /// The allocation that is refused, counted down from here; none at zero.
    static REFUSE_NTH: Cell<u64> = const { Cell::new(0) };
);

fn refuses() -> bool {
    let left = REFUSE_NTH.get();
    REFUSE_NTH.set(left.saturating_sub(1));
    REFUSES.get() || left == 1
}

// SAFETY: hands everything on to the system's allocator, or refuses.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if refuses() {
            return core::ptr::null_mut();
        }
        if layout.size() >= LARGE {
            LARGE_LIVE.fetch_add(1, Ordering::SeqCst);
        }
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if layout.size() >= LARGE {
            LARGE_LIVE.fetch_sub(1, Ordering::SeqCst);
        }
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) };
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if refuses() {
            return core::ptr::null_mut();
        }
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if refuses() {
            return core::ptr::null_mut();
        }
        if layout.size() >= LARGE {
            LARGE_LIVE.fetch_add(1, Ordering::SeqCst);
        }
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }
}

#[global_allocator]
static HEAP: Counting = Counting;

fn refusing<R>(code: impl FnOnce() -> R) -> R {
    REFUSES.set(true);
    let result = code();
    REFUSES.set(false);
    result
}

/// The tests count the same things.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn the_memory_goes_with_whoever_holds_it_last() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let live = || LARGE_LIVE.load(Ordering::SeqCst);
    let before = live();
    let device = SoftDma::<Load, 4>::open(Config::new(LARGE)).unwrap();
    assert_eq!(live(), before + 1);
    let kept = buffer(&device, &[1]);
    // A completion that nobody asks for holds a segment, too.
    let unasked = buffer(&device, &[2]);
    submit(&device, NOTHING, &[], Load::new(1).holding(unasked)).unwrap();
    device.drain(&NoClock, None).unwrap();
    drop(device);
    assert_eq!(live(), before + 1);
    drop(kept);
    assert_eq!(live(), before);
}

#[test]
fn a_heap_that_refuses_a_header_is_told_apart() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let device = open::<4>();
    let channel = device.channel();
    for size in [0, 8, 4096] {
        let refused = refusing(|| channel.alloc(size).map(drop));
        assert_eq!(refused, Err(AllocError::Heap { requested: size }));
        // The books say nothing was taken, and the next one is served.
        assert_eq!(channel.ledger().census.in_use, 0);
        drop(SegmentMut::alloc(channel.clone(), size).unwrap());
    }
    assert_eq!(channel.ledger().census.refused, 3);
    let opened = refusing(|| SoftDma::<()>::open(Config::new(64)).err());
    assert_eq!(opened, Some(OpenError::Memory { requested: 64 }));
}

/// What a program does with a device's memory, and everything that takes something of the host's heap on the way.
fn works(channel: &Arc<Channel>) -> Result<usize, GroupError> {
    let ring = channel
        .tagged("ring", UsageClass::RING)
        .aligned(1024)
        .expect("2^10");
    let first = SegmentMut::alloc(channel.tagged("first", UsageClass::IO), 100)?;
    let aligned = SegmentMut::alloc(ring.clone(), 100)?;
    let mut model = Group::new(ring, HeapSource);
    let members = [model.alloc(10)?, model.alloc(20)?];
    for _ in 0..8 {
        model.alloc(1)?;
    }
    let listed = channel.allocations()?.len();
    assert!(members.iter().all(|&member| model.get(member).is_some()));
    drop((first, aligned));
    Ok(listed)
}

#[test]
fn every_allocation_of_the_hosts_heap_may_fail() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut failed = 0;
    for nth in 1.. {
        // A fresh one each time: its tables grow again.
        let device = SoftDma::<()>::open(Config::new(1 << 16)).unwrap();
        let channel = device.channel();
        REFUSE_NTH.set(nth);
        let worked = works(&channel);
        let met = REFUSE_NTH.replace(0) == 0;
        // Nothing is lost, whichever it was, and the same works at once.
        let ledger = channel.ledger();
        assert_eq!((ledger.segments, ledger.census.in_use), (0, 0), "{nth}");
        assert_eq!(ledger.largest_free, 1 << 16);
        assert_eq!(ledger.allocations, ledger.frees);
        assert!(ledger.usage.classes().all(|(_, census)| census.in_use == 0));
        assert_eq!(works(&channel), Ok(12));
        if !met {
            assert_eq!(worked, Ok(12));
            break;
        }
        let refused = worked.unwrap_err();
        let GroupError::Alloc(error) = refused else {
            panic!("{refused}")
        };
        let by_heap = matches!(error, AllocError::Heap { .. } | AllocError::Source(_));
        assert!(by_heap, "{nth}: {error}");
        failed += 1;
    }
    // Twelve headers, the set of them and the table of ranges as they grow, the group's list twice, the list of allocations.
    assert!(failed > 12 + 2 + 2 + 2, "{failed}");
}
