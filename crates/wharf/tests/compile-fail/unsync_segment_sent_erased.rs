//! Pitfall: a segment whose backend was erased without `Sync` goes to another thread.
//! Instead: name a shared policy, and erase to `dyn MemBackend<Policy = …> + Sync`.

use wharf::prelude::*;

type Erased<'b> = &'b dyn MemBackend<Policy = Unsync>;

fn to_another_thread<T: Send>(_: T) {}

fn main() {
    let pool = StaticPool::<Unsync, 64, 4>::new();
    let frame = pool.alloc(8).unwrap();
    to_another_thread(frame.erase::<Erased<'_>>());
}
