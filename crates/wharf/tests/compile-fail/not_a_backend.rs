//! Pitfall: a segment is to come from plain bytes.
//! Instead: make a pool of them: `PoolBackend::new(&mut bytes, …)`.

use wharf::prelude::*;

fn send(_: SegmentMut<&[u8; 64]>) {}

fn main() {
    let _ = send;
}
