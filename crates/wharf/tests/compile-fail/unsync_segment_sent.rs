//! Pitfall: a segment of an `Unsync` pool goes to another thread, which would give it back unlocked.
//! Instead: name a shared policy where the pool is named: `Critical` or `Blocking`.

use wharf::prelude::*;

fn to_another_thread<T: Send>(_: T) {}

fn main() {
    let pool = StaticPool::<Unsync, 64, 4>::new();
    to_another_thread(pool.alloc(8).unwrap());
}
