//! Pitfall: a segment is used after its backend is gone.
//! Instead: drop the segment first, or hold the backend by `&'static` or `Arc`.

use wharf::prelude::*;

fn main() {
    let pool = StaticPool::<Unsync, 64, 4>::new();
    let frame = pool.alloc(8).unwrap();
    drop(pool);
    drop(frame);
}
