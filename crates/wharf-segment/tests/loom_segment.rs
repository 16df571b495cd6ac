//! Shared segments under the model checker: the last holder gives the slot back once, and whoever may write
//! sees that all reads are done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use loom::cell::UnsafeCell;
use loom::thread;
use wharf_backend::{MemBackend, SegmentMut, StaticPool};
use wharf_segment::{Segment, View};
use wharf_sync::Loom;

const PAYLOAD: usize = 8;
type Pool = StaticPool<Loom, PAYLOAD, 1>;
type Shared = Segment<Arc<Pool>>;

fn model(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

/// Whether some run of a model came by. Not loom's: it outlives the runs.
struct Seen(AtomicBool);

impl Seen {
    const fn new() -> Self {
        Self(AtomicBool::new(false))
    }
    fn mark(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
    fn check(&self, what: &str) {
        assert!(self.0.load(Ordering::Relaxed), "no run in which {what}");
    }
}

/// Stands for the bytes of the only slot. The model checker fails a run in which a read and a write of it are
/// not ordered.
struct Bytes(UnsafeCell<u32>);

// SAFETY: the cell is what is under test; loom checks every access to it.
unsafe impl Sync for Bytes {}
// SAFETY: as above.
unsafe impl Send for Bytes {}

impl Bytes {
    fn read(&self) {
        // SAFETY: a holder may read; loom checks.
        self.0.with(|bytes| unsafe { bytes.read() });
    }
    fn write(&self) {
        // SAFETY: the owner of a unique segment may write; loom checks.
        self.0.with_mut(|bytes| unsafe { *bytes += 1 });
    }
}

/// The pool's only slot, shared, and its stand-in.
fn start() -> (Arc<Pool>, Shared, Arc<Bytes>) {
    let pool = Arc::new(Pool::fresh());
    let unique = SegmentMut::alloc(Arc::clone(&pool), PAYLOAD).unwrap();
    let segment = Segment::from(unique.filled(7).unwrap());
    (pool, segment, Arc::new(Bytes(UnsafeCell::new(0))))
}

/// The slot came back exactly once.
fn home(pool: &Arc<Pool>) {
    assert_eq!(pool.census().in_use, 0);
    let only = SegmentMut::alloc(Arc::clone(pool), 0).unwrap();
    assert!(SegmentMut::alloc(Arc::clone(pool), 0).is_err());
    drop(only);
    assert_eq!(Arc::strong_count(pool), 1, "and no reference is left");
}

#[test]
fn the_last_of_two_threads_gives_the_slot_back_once() {
    model(|| {
        let (pool, segment, bytes) = start();
        let read_and_drop = |segment: Shared, bytes: &Bytes| {
            bytes.read();
            assert_eq!(*segment, [7; PAYLOAD]);
            drop(segment);
        };
        let there = (segment.clone(), Arc::clone(&bytes), Arc::clone(&pool));
        let other = thread::spawn(move || {
            let (segment, bytes, pool) = there;
            read_and_drop(segment, &bytes);
            // Whoever gets the slot next may write: both reads are done.
            if let Ok(_unique) = SegmentMut::alloc(pool, 0) {
                bytes.write();
            }
        });
        read_and_drop(segment, &bytes);
        if let Ok(_unique) = SegmentMut::alloc(Arc::clone(&pool), 0) {
            bytes.write();
        }
        other.join().unwrap();
        home(&pool);
    });
}

#[test]
fn a_thawed_segment_has_seen_the_reads_of_others_end() {
    static THAWED: Seen = Seen::new();
    static SHARED: Seen = Seen::new();
    model(|| {
        let (pool, segment, bytes) = start();
        let there = (segment.clone(), Arc::clone(&bytes));
        let other = thread::spawn(move || {
            there.1.read();
            drop(there.0);
        });
        // Without it the model checker tries no run in which the other one is done by now.
        thread::yield_now();
        match segment.try_mut() {
            Ok(mut unique) => {
                THAWED.mark();
                bytes.write();
                unique.fill(0, PAYLOAD, 8).unwrap();
            }
            Err(shared) => {
                SHARED.mark();
                bytes.read();
                assert_eq!(*shared, [7; PAYLOAD]);
            }
        }
        other.join().unwrap();
        home(&pool);
    });
    THAWED.check("it thawed");
    SHARED.check("it did not");
}

#[test]
fn a_segment_thaws_in_the_end() {
    model(|| {
        let (pool, mut segment, bytes) = start();
        let there = (segment.clone(), Arc::clone(&bytes));
        let other = thread::spawn(move || {
            there.1.read();
            drop(there.0);
        });
        let unique = loop {
            match segment.try_mut() {
                Ok(unique) => break unique,
                Err(shared) => segment = shared,
            }
            thread::yield_now();
        };
        bytes.write();
        drop(unique);
        other.join().unwrap();
        home(&pool);
    });
}

#[test]
fn only_one_of_two_threads_thaws() {
    static THAWED: Seen = Seen::new();
    model(|| {
        let (pool, segment, bytes) = start();
        let thaw = |segment: Shared, bytes: &Bytes| match segment.try_mut() {
            Ok(_unique) => {
                bytes.write();
                true
            }
            Err(shared) => {
                bytes.read();
                drop(shared);
                false
            }
        };
        let there = (segment.clone(), Arc::clone(&bytes));
        let other = thread::spawn(move || thaw(there.0, &there.1));
        thread::yield_now();
        let here = thaw(segment, &bytes);
        let elsewhere = other.join().unwrap();
        if here || elsewhere {
            THAWED.mark();
        }
        assert!(!(here && elsewhere), "two writers");
        home(&pool);
    });
    THAWED.check("one of them thawed");
}

#[test]
fn a_view_taken_while_another_is_dropped_holds_the_slot() {
    model(|| {
        let (pool, segment, bytes) = start();
        let view = View::from(segment.clone());
        let there = Arc::clone(&bytes);
        let other = thread::spawn(move || {
            let part = view.slice(2..4).unwrap();
            drop(view);
            there.read();
            assert_eq!(*part, [7; 2]);
        });
        bytes.read();
        drop(segment);
        if let Ok(_unique) = SegmentMut::alloc(Arc::clone(&pool), 0) {
            bytes.write();
        }
        other.join().unwrap();
        home(&pool);
    });
}
