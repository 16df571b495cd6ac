//! Views cut, joined and compacted; ropes of them.
#![cfg(feature = "std")]

mod cutting;
mod device;
mod edges;
mod errors;
mod exhaustion;
mod gathering;
mod graph;
mod hosted;
mod in_flight;

use wharf_backend::{BackendExt, MemBackend, StaticPool};
use wharf_segment::View;
use wharf_sync::Unsync;

/// Slots of 16 bytes.
type Pool = StaticPool<Unsync, 16, 8>;

/// Any memory, its type forgotten.
type Erased<'p> = &'p (dyn MemBackend<Policy = Unsync> + 'p);

/// A view of a segment of these bytes.
fn piece<'p>(pool: &'p Pool, bytes: &[u8]) -> View<&'p Pool> {
    View::from(pool.alloc(bytes.len()).unwrap().init_from(bytes).unwrap())
}

fn erased<'p>(pool: &'p Pool, bytes: &[u8]) -> View<Erased<'p>> {
    let unique = pool.alloc(bytes.len()).unwrap().init_from(bytes).unwrap();
    View::from(unique.erase::<Erased<'p>>())
}
