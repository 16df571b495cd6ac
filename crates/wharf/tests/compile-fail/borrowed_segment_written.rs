//! Pitfall: a segment is written through a shared borrow.
//! Instead: borrow it mutably.

use wharf::prelude::*;

fn stamp(frame: &SegmentMut<Heap<Unsync>>) {
    frame[0] = 1;
}

fn main() {
    let _ = stamp;
}
