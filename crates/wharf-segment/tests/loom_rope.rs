//! Ropes under the model checker: each link's slot comes back once, whoever drops the last rope that has it, and who writes a
//! link sees that all reads are done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use loom::cell::UnsafeCell;
use loom::thread;
use wharf_backend::{MemBackend, SegmentMut, StaticPool};
use wharf_segment::{Rope, View};
use wharf_sync::Loom;

const PAYLOAD: usize = 4;
type Pool = StaticPool<Loom, PAYLOAD, 2>;

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

/// Stands for the bytes of a slot: the model checker fails a run in which a read and a write of it are not ordered.
struct Bytes(UnsafeCell<u32>);

// SAFETY: the cell is what is under test; loom checks every access to it.
unsafe impl Sync for Bytes {}
// SAFETY: as above.
unsafe impl Send for Bytes {}

impl Bytes {
    fn new() -> Arc<Self> {
        Arc::new(Self(UnsafeCell::new(0)))
    }
    fn read(&self) {
        // SAFETY: a holder may read; loom checks.
        self.0.with(|bytes| unsafe { bytes.read() });
    }
    fn write(&self) {
        // SAFETY: the owner of a unique segment may write; loom checks.
        self.0.with_mut(|bytes| unsafe { *bytes += 1 });
    }
}

fn link(pool: &Arc<Pool>, byte: u8) -> View<Arc<Pool>> {
    let unique = SegmentMut::alloc(Arc::clone(pool), PAYLOAD).unwrap();
    View::from(unique.filled(byte).unwrap())
}

fn home(pool: &Arc<Pool>) {
    assert_eq!(pool.census().in_use, 0);
    assert_eq!(Arc::strong_count(pool), 1, "and no reference is left");
}

#[test]
fn the_last_of_two_ropes_gives_both_slots_back() {
    model(|| {
        let (pool, bytes) = (Arc::new(Pool::fresh()), Bytes::new());
        let mut rope = Rope::new();
        rope.push(link(&pool, 1)).unwrap();
        rope.push(link(&pool, 2)).unwrap();
        let there = (rope.clone(), Arc::clone(&bytes));
        let other = thread::spawn(move || {
            let (rope, bytes) = there;
            bytes.read();
            assert_eq!(rope.cursor().read_array(), Ok([1, 1, 1, 1, 2]));
            drop(rope);
        });
        bytes.read();
        drop(rope);
        // Both slots are free only when both ropes are gone.
        if let (Ok(_one), Ok(_two)) = (
            SegmentMut::alloc(Arc::clone(&pool), 0),
            SegmentMut::alloc(Arc::clone(&pool), 0),
        ) {
            bytes.write();
        }
        other.join().unwrap();
        home(&pool);
    });
}

#[test]
fn a_link_thaws_once_the_other_rope_has_let_go() {
    static THAWED: Seen = Seen::new();
    static SHARED: Seen = Seen::new();
    model(|| {
        let (pool, bytes) = (Arc::new(Pool::fresh()), Bytes::new());
        let mut rope = Rope::new();
        rope.push(link(&pool, 1)).unwrap();
        let there = (rope.slice(1..3).unwrap(), Arc::clone(&bytes));
        let other = thread::spawn(move || {
            let (mut part, bytes) = there;
            bytes.read();
            assert_eq!(part.pinned().kept, PAYLOAD);
            part.advance(2).unwrap();
        });
        // Without it the model checker tries no run in which the other one is done by now.
        thread::yield_now();
        match rope.pop_front().unwrap().try_mut() {
            Ok(mut unique) => {
                THAWED.mark();
                bytes.write();
                unique.fill(0, PAYLOAD, 9).unwrap();
                assert_eq!(&*unique.freeze(), [9; PAYLOAD]);
            }
            Err(view) => {
                SHARED.mark();
                bytes.read();
                assert_eq!(view, [1; PAYLOAD]);
            }
        }
        other.join().unwrap();
        drop(rope);
        home(&pool);
    });
    THAWED.check("the link thawed");
    SHARED.check("it did not");
}
