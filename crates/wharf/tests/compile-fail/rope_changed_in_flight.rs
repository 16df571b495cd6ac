//! Pitfall: a rope is changed while a device reads it.
//! Instead: let it land first; or send a clone, which shares the bytes.

use wharf::prelude::*;

static POOL: StaticPool<Critical, 64, 4> = StaticPool::new();

fn main() {
    let mut frame = Rope::new();
    let _ = frame.push(POOL.alloc(8).unwrap().filled(7).unwrap());
    let frame = frame.hand_over();
    frame.clear();
}
