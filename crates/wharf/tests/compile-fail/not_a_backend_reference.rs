//! Pitfall: a segment is to own its backend, which would move with it.
//! Instead: `&pool`, or an `Arc` of it.

use wharf::prelude::*;

fn send(_: SegmentMut<StaticPool<Unsync, 64, 4>>) {}

fn main() {
    let _ = send;
}
