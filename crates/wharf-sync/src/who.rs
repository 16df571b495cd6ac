//! Threads are numbered.

use core::cell::Cell;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::Who;

/// The calling thread: the first that asks is 1, the next one 2, and so on. Small numbers that follow each other
/// fall into different shards whatever the number of shards is; addresses of threads are pages apart and may not.
pub(crate) fn thread() -> Who {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    // Without a destructor, so it is there for as long as the thread runs any code at all.
    std::thread_local!(static NUMBER: Cell<usize> = const { Cell::new(0) });
    NUMBER.with(|number| {
        if number.get() == 0 {
            // Relaxed: a number that nobody else gets, and no more.
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        Who::new(number.get())
    })
}
