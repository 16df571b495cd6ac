//! Pitfall: the writer keeps writing after it has shared the segment.
//! Instead: write first; or thaw the shared one with `try_mut`.

use wharf::prelude::*;

fn main() {
    let pool = StaticPool::<Unsync, 64, 4>::new();
    let mut frame = pool.alloc(8).unwrap().filled(0).unwrap();
    let _shared = Segment::from(frame);
    frame[0] = 1;
}
