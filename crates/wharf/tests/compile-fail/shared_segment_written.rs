//! Pitfall: one of several holders of a segment writes it.
//! Instead: `try_mut`, which gives the writable segment back when nobody else holds it.

use wharf::prelude::*;

fn main() {
    let pool = StaticPool::<Unsync, 64, 4>::new();
    let frame = Segment::from(pool.alloc(8).unwrap().filled(0).unwrap());
    let _reader = frame.clone();
    frame[0] = 1;
}
