//! Beside `waiting_beside_others`: the pool is waited for by all of its users.

use std::sync::Arc;

use wharf::backend::wrap::Waits;
use wharf::backend::{Scrub, Shared, Waitable};
use wharf::prelude::*;
use wharf::sync::NoClock;

use critical_section as _;

fn main() {
    let pool = Arc::new(Waitable::new(StaticPool::<Blocking, 64, 1>::new()));
    let mine = Scrub::new(Shared::new(Arc::clone(&pool)));
    let theirs = pool.alloc(64).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| mine.alloc_wait(64, &NoClock, None).map(drop));
        drop(theirs);
        waiter.join().unwrap().unwrap();
    });
}
