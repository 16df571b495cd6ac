//! Pitfall: a segment of one pool is pushed to a rope of another's.
//! Instead: erase both to one type, `segment.erase::<&dyn MemBackend<Policy = Unsync>>()`, or name both pools in a `backend_set!`.

use wharf::prelude::*;

fn main() {
    let headers = StaticPool::<Unsync, 4, 8>::new();
    let bodies = StaticPool::<Unsync, 1500, 4>::new();
    let mut frame = Rope::new();
    let _ = frame.push(bodies.alloc(7).unwrap().init_from(b"payload").unwrap());
    let _ = frame.push_front(headers.alloc(4).unwrap().init_from(b"new:").unwrap());
}
