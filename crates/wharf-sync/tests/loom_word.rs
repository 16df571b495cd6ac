//! The state word under the model checker: what happened in one state is seen by whoever moves it to the next, and by
//! whoever looks at it.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use wharf_sync::{LoomWord, Word};

fn model(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

/// A note that the word guards. The model checker fails a run in which two accesses to it, one of them exclusive, are
/// not ordered.
struct Guarded {
    word: LoomWord,
    note: UnsafeCell<u32>,
}

// SAFETY: the cell is what is under test; loom checks every access to it.
unsafe impl Sync for Guarded {}

impl Guarded {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            word: LoomWord::new(0),
            note: UnsafeCell::new(0),
        })
    }

    fn write(&self) {
        // SAFETY: the word says whose turn it is; loom checks.
        self.note.with_mut(|note| unsafe { *note += 1 });
    }

    fn read(&self) -> u32 {
        // SAFETY: as above.
        self.note.with(|note| unsafe { *note })
    }

    /// Writes once, with the word as a lock: 0 is free, 1 is taken.
    fn write_alone(&self) {
        while self.word.update(|word| (word == 0).then_some(1)).is_err() {
            thread::yield_now();
        }
        self.write();
        assert_eq!(self.word.update(|word| Some(word - 1)), Ok(1));
    }
}

#[test]
fn a_word_is_a_lock() {
    model(|| {
        let guarded = Guarded::new();
        let there = Arc::clone(&guarded);
        let other = thread::spawn(move || there.write_alone());
        guarded.write_alone();
        other.join().unwrap();
        assert_eq!(guarded.read(), 2);
    });
}

#[test]
fn whoever_sees_a_state_sees_what_came_before_it() {
    model(|| {
        let guarded = Guarded::new();
        let there = Arc::clone(&guarded);
        let other = thread::spawn(move || {
            there.write();
            there.word.update(|_| Some(1)).unwrap();
        });
        while guarded.word.load() == 0 {
            thread::yield_now();
        }
        assert_eq!(guarded.read(), 1);
        other.join().unwrap();
    });
}

#[test]
fn whoever_is_refused_sees_it_too() {
    model(|| {
        let guarded = Guarded::new();
        let there = Arc::clone(&guarded);
        let other = thread::spawn(move || {
            there.write();
            there.word.update(|_| Some(1)).unwrap();
        });
        while guarded.word.update(|_| None) == Err(0) {
            thread::yield_now();
        }
        assert_eq!(guarded.read(), 1);
        other.join().unwrap();
    });
}
