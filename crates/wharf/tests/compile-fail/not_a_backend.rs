//! Pitfall: a segment is to come from plain bytes.
//! Instead: make a pool of them: `PoolBackend::new(&mut bytes, …)`.

use wharf::prelude::*;
// The compiler lists the backends that it sees: the same, whatever the features.
use wharf_softdma as _;

fn send(_: SegmentMut<&[u8; 64]>) {}

fn main() {
    let _ = send;
}
