//! Pitfall: a constant pool in code for any policy, though a policy's lock need not have a constant to start from.
//! Instead: `StaticPool::fresh()`; or demand `P::Lock<FreeList>: ConstInit` of the caller too.

use wharf::prelude::*;
use wharf::sync::ConstInit;

fn frames<P: SyncPolicy<Count: ConstInit>>() -> StaticPool<P, 64, 4> {
    StaticPool::new()
}

fn main() {
    drop(frames::<Unsync>());
}
