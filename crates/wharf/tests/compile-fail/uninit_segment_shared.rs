//! Pitfall: bytes that nobody has written are shared, and can never be written again.
//! Instead: fill it first: `filled`, `init_from` or `initialised`.

use wharf::prelude::*;

fn main() {
    let pool = StaticPool::<Unsync, 64, 4>::new();
    let frame = pool.alloc(8).unwrap();
    let _shared = Segment::from(frame);
}
