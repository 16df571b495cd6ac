//! Pitfall: the host reads device memory as if it were its own.
//! Instead: move the bytes with `read` and `write`; where the backend is erased, ask with `host()`.

use std::sync::Arc;
use wharf::prelude::*;
use wharf_softdma::Channel;

fn first(segment: &SegmentMut<Arc<Channel>>) -> u8 {
    segment[0]
}

fn main() {
    let _ = first;
}
