//! Pitfall: a rope is used after the source of its links is gone.
//! Instead: declare the source before the rope, or give it a source in a `static`.

use wharf::prelude::*;

static POOL: StaticPool<Critical, 64, 4> = StaticPool::new();

fn main() {
    let blocks = StaticPoolSource::<Unsync, 512, 2>::new();
    let mut frame = Rope::with_source(&blocks);
    let _ = frame.push(POOL.alloc(8).unwrap().filled(7).unwrap());
    drop(blocks);
    drop(frame);
}
