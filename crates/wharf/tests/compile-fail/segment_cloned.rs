//! Pitfall: two handles that both may write one piece of memory.
//! Instead: freeze it, `Segment::from(frame)`, and clone that: shared, and read-only.

use wharf::prelude::*;

fn to_two_readers(frame: impl Clone) {
    let _ = (frame.clone(), frame);
}

fn main() {
    let pool = StaticPool::<Unsync, 64, 4>::new();
    to_two_readers(pool.alloc(8).unwrap().filled(0).unwrap());
}
