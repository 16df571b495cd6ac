//! Pitfall: an `Unsync` pool in a `static`, where every interrupt handler and thread reaches it.
//! Instead: `Critical` (interrupts and threads) or `Blocking` (threads); or make the pool in `main`.

use wharf::prelude::*;

static FRAMES: StaticPool<Unsync, 64, 4> = StaticPool::new();

fn main() {
    drop(FRAMES.alloc(8));
}
