//! Counters in statics, lent to one check at a time.
//!
//! What a check hands to its subject (wakers, cargo, kernels) may outlive the check if the subject is
//! broken, and so counts in a place that exists for ever. It finds the place by number.

use wharf_sync::{AtomicWord, ConstInit, Word};

use crate::Failure;

/// Checks that may run at the same time, in a program that runs the suite on several threads.
pub(crate) const LEASES: usize = 16;

/// The words of a lease; what they count is for its holder to say.
pub(crate) type Words = [AtomicWord; 4];

struct Slot {
    taken: AtomicWord,
    words: Words,
}

static SLOTS: [Slot; LEASES] = [const {
    Slot {
        taken: AtomicWord::INIT,
        words: [const { AtomicWord::INIT }; 4],
    }
}; LEASES];

/// Four words that start at zero and are nobody else's.
#[derive(Debug)]
pub(crate) struct Lease {
    index: usize,
    words: &'static Words,
    retired: bool,
}

impl Lease {
    pub(crate) fn claim() -> Result<Self, Failure> {
        for (index, slot) in SLOTS.iter().enumerate() {
            let free = |taken| (taken == 0).then_some(1);
            if slot.taken.update(free).is_ok() {
                slot.words.iter().for_each(|word| set(word, 0));
                return Ok(Self {
                    index,
                    words: &slot.words,
                    retired: false,
                });
            }
        }
        Err(Failure::new(
            "the suite's own counters are all in use; run fewer suites at once",
        ))
    }

    pub(crate) const fn index(&self) -> usize {
        self.index
    }

    pub(crate) const fn words(&self) -> &'static Words {
        self.words
    }

    /// Nobody gets it again, because something may still count in it.
    pub(crate) const fn retire(&mut self) {
        self.retired = true;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.retired
            && let Some(slot) = SLOTS.get(self.index)
        {
            set(&slot.taken, 0);
        }
    }
}

/// The words of the lease with this number, for what cannot hold a reference.
pub(crate) fn words(index: usize) -> Option<&'static Words> {
    SLOTS.get(index).map(|slot| &slot.words)
}

pub(crate) fn set(word: &AtomicWord, value: u32) {
    // `Some` always, so the update never refuses.
    let _ = word.update(|_| Some(value));
}

pub(crate) fn add(word: &AtomicWord, more: u32) {
    let _ = word.update(|count| Some(count.wrapping_add(more)));
}

pub(crate) fn subtract(word: &AtomicWord, less: u32) {
    let _ = word.update(|count| Some(count.wrapping_sub(less)));
}
