//! What the device takes of the host's heap: all of it comes back, and a heap that refuses is a value.

mod common;

use core::cell::Cell;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::{Mutex, PoisonError};

use common::{Load, NOTHING, buffer, open, submit};
use wharf_backend::{AllocError, BackendExt, SegmentMut};
use wharf_softdma::{Config, OpenError, SoftDma};

/// Counts large allocations, and refuses on the thread that asks for it.
struct Counting;

/// Larger than whatever else a test program allocates.
const LARGE: usize = 1 << 22;

static LARGE_LIVE: AtomicUsize = AtomicUsize::new(0);
std::thread_local!(static REFUSES: Cell<bool> = const { Cell::new(false) });

// SAFETY: hands everything on to the system's allocator, or refuses.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if REFUSES.get() {
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
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if REFUSES.get() {
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
    device.drain().unwrap();
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
