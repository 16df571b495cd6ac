//! Pitfall: a segment that borrows its backend is erased into one that would own a share of it.
//! Instead: allocate through the `Arc` in the first place: `SegmentMut::alloc(Arc::clone(&pool), size)`.

use std::sync::Arc;
use wharf::prelude::*;

type Shared = Arc<dyn MemBackend<Policy = Blocking> + Send + Sync>;

fn main() {
    let pool = StaticPool::<Blocking, 64, 4>::new();
    drop(pool.alloc(8).unwrap().erase::<Shared>());
}
