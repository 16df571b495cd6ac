//! The counter under the model checker: one zero, and everything before it visible to whoever gets it.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use wharf_sync::{Count, LoomCount};

fn model(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

/// What `holders` share: the count, and a note of each. The model checker fails a run in which two accesses to
/// a note, one of them exclusive, are not ordered.
struct Shared {
    count: LoomCount,
    notes: [UnsafeCell<u32>; 2],
    /// Not a loom atomic, so that it orders nothing.
    zeros: AtomicUsize,
}

// SAFETY: the cells are what is under test; loom checks every access to them.
unsafe impl Sync for Shared {}

impl Shared {
    fn held_by(holders: u32) -> Arc<Self> {
        Arc::new(Self {
            count: LoomCount::new(holders),
            notes: [UnsafeCell::new(0), UnsafeCell::new(0)],
            zeros: AtomicUsize::new(0),
        })
    }

    fn write(&self, who: usize) {
        // SAFETY: a holder has its own note; loom checks.
        self.notes[who].with_mut(|note| unsafe { *note += 1 });
    }

    /// Both notes, as the only one left.
    fn own(&self) -> u32 {
        self.notes
            .iter()
            // SAFETY: the count said that nobody else is left; loom checks.
            .map(|note| note.with_mut(|note| unsafe { *note }))
            .sum()
    }

    /// Gives a reference up; whoever gives up the last finds `written` by all.
    fn release(&self, written: u32) {
        if self.count.decrement() {
            self.zeros.fetch_add(1, Relaxed);
            assert_eq!(self.own(), written);
        }
    }
}

#[test]
fn two_holders_leave_and_one_is_last() {
    model(|| {
        let shared = Shared::held_by(2);
        let there = Arc::clone(&shared);
        let other = thread::spawn(move || {
            there.write(1);
            there.release(2);
        });
        shared.write(0);
        shared.release(2);
        other.join().unwrap();
        assert_eq!(shared.zeros.load(Relaxed), 1);
    });
}

#[test]
fn a_clone_made_meanwhile_counts() {
    model(|| {
        let shared = Shared::held_by(2);
        let there = Arc::clone(&shared);
        let other = thread::spawn(move || {
            there.write(1);
            there.release(2);
        });
        shared.count.increment();
        shared.write(0);
        shared.release(2);
        shared.release(2);
        other.join().unwrap();
        assert_eq!(shared.zeros.load(Relaxed), 1);
    });
}

#[test]
fn three_holders_leave_and_one_is_last() {
    model(|| {
        let shared = Shared::held_by(3);
        let others = [0, 1].map(|who| {
            let there = Arc::clone(&shared);
            thread::spawn(move || {
                there.write(who);
                there.release(2);
            })
        });
        shared.release(2);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(shared.zeros.load(Relaxed), 1);
    });
}

#[test]
fn whoever_finds_itself_unique_may_write() {
    model(|| {
        let shared = Shared::held_by(2);
        let there = Arc::clone(&shared);
        let other = thread::spawn(move || {
            there.write(1);
            there.release(1);
        });
        // Until it does: a single look, loom's search would only make before the other one leaves.
        while !shared.count.is_unique() {
            thread::yield_now();
        }
        assert_eq!(shared.own(), 1);
        shared.release(1);
        other.join().unwrap();
        assert_eq!(shared.zeros.load(Relaxed), 1);
    });
}
