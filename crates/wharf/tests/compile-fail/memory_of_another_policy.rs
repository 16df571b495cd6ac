//! Pitfall: tensors of threads over a pool whose locks are another policy's.
//! Instead: name one policy for the target and its memory.

use std::sync::Arc;
use wharf::prelude::*;

fn main() {
    let pool = Arc::new(StaticPool::<Critical, 64, 4>::new());
    let _ = Tensor::alloc(&Hosted::default(), pool, 8);
}
