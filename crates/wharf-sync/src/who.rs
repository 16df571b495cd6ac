//! Threads are numbered.

use core::cell::Cell;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::Who;

/// The numbers that no thread has.
struct Numbers {
    /// From here on nobody ever had one.
    fresh: usize,
    returned: BTreeSet<usize>,
}

impl Numbers {
    /// The smallest.
    fn take(&mut self) -> usize {
        self.returned.pop_first().unwrap_or_else(|| {
            self.fresh += 1;
            self.fresh - 1
        })
    }

    fn give_back(&mut self, number: usize) {
        self.returned.insert(number);
    }
}

/// From 1: zero is [`Who::SOLE`].
static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers {
    fresh: 1,
    returned: BTreeSet::new(),
});

fn numbers<R>(section: impl FnOnce(&mut Numbers) -> R) -> R {
    // A panic in here, out of memory, leaves the numbers whole.
    section(&mut NUMBERS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Gives a number back when its thread ends.
struct Lease(Cell<usize>);

impl Drop for Lease {
    fn drop(&mut self) {
        let number = self.0.get();
        if number != 0 {
            numbers(|numbers| numbers.give_back(number));
        }
    }
}

std::thread_local! {
    // Without a destructor, so it is there for as long as the thread runs any code at all.
    static NUMBER: Cell<usize> = const { Cell::new(0) };
    static LEASE: Lease = const { Lease(Cell::new(0)) };
}

/// The calling thread: the smallest number, from 1, that no other thread has. So the threads of a program have numbers that
/// follow each other, and fall into different shards, however many threads came and went before. (Addresses of
/// threads are pages apart and may not.)
#[inline]
pub(crate) fn thread() -> Who {
    let mut number = NUMBER.get();
    if number == 0 {
        number = enrol();
    }
    Who::new(number)
}

#[cold]
fn enrol() -> usize {
    let number = numbers(Numbers::take);
    NUMBER.set(number);
    // A thread that is past its destructors keeps the number for ever: nobody would give it back.
    let _ = LEASE.try_with(|lease| lease.0.set(number));
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_number_goes_first() {
        let mut numbers = Numbers {
            fresh: 1,
            returned: BTreeSet::new(),
        };
        assert_eq!([(); 4].map(|()| numbers.take()), [1, 2, 3, 4]);
        for number in [3, 1, 2] {
            numbers.give_back(number);
        }
        assert_eq!([(); 4].map(|()| numbers.take()), [1, 2, 3, 5]);
    }

    #[test]
    fn a_thread_that_ends_leaves_its_number() {
        // Of these tests a handful of threads run at a time; many more come and go.
        let all = [(); 150].map(|()| std::thread::spawn(thread).join().unwrap().id());
        assert!(
            all.iter().all(|&number| (1..50).contains(&number)),
            "{all:?}"
        );
    }
}
