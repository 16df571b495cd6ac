//! Pitfall: bytes are copied out that nobody has written.
//! Instead: fill it first: `filled`, `init_from` or `initialised`.

use wharf::prelude::*;

fn main() {
    let pool = StaticPool::<Unsync, 64, 4>::new();
    let frame = pool.alloc(8).unwrap();
    let mut bytes = [0; 8];
    let _ = frame.read(0, &mut bytes);
}
