//! Pitfall: bytes are read that nobody has written.
//! Instead: fill it first: `filled`, `init_from` or `initialised`.

use wharf::prelude::*;

fn main() {
    let pool = StaticPool::<Unsync, 64, 4>::new();
    let frame = pool.alloc(8).unwrap();
    assert_eq!(frame[0], 0);
}
