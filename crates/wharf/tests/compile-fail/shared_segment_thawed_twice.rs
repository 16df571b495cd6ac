//! Pitfall: two writers through one shared segment.
//! Instead: `try_mut` gives the writer to the only holder, who has no other handle then.

use wharf::prelude::*;

fn main() {
    let pool = StaticPool::<Unsync, 64, 4>::new();
    let frame = Segment::from(pool.alloc(8).unwrap().filled(0).unwrap());
    let one = frame.try_mut();
    let other = frame.try_mut();
    drop((one, other));
}
