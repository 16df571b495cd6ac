//! Pitfall: a tensor, which may be in flight, over memory of the calling function.
//! Instead: a pool in a `static`, a backend behind an `Arc`, or the heap.

use wharf::prelude::*;

type Pool = StaticPool<Critical, 64, 4>;

fn main() {
    let pool = Pool::new();
    let target = Parts::<&Pool, HeapSource>::new(HeapSource);
    let _ = Tensor::alloc(&target, &pool, 8);
}
