//! Pitfall: a segment of an `Unsync` pool goes to another thread with its type erased.
//! Instead: name a shared policy where the pool is named: `Critical` or `Blocking`.

use wharf::prelude::*;

type Erased<'b> = &'b (dyn MemBackend<Policy = Unsync> + Sync);

fn main() {
    let pool = StaticPool::<Unsync, 64, 4>::new();
    let frame = pool.alloc(8).unwrap();
    // The handle could cross, so what may become one may not be `Unsync`.
    drop(frame.erase::<Erased<'_>>());
}
