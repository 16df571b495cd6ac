//! Pitfall: a segment is given back twice.
//! Instead: nothing: it is given back once, when its handle goes.

use wharf::prelude::*;

fn main() {
    let pool = StaticPool::<Unsync, 64, 4>::new();
    let frame = pool.alloc(8).unwrap();
    drop(frame);
    drop(frame);
}
