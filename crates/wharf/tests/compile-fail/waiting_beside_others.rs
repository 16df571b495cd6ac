//! Pitfall: one of several users of a pool waits for its memory; what the others give back would not wake him.
//! Instead: share what can be waited for, `Arc<Waitable<Pool>>`.

use std::sync::Arc;

use wharf::backend::{Shared, Waitable};
use wharf::prelude::*;

type Pool = StaticPool<Blocking, 64, 4>;

fn wait(_: &Waitable<Shared<Arc<Pool>>>) {}

fn main() {
    let _ = wait;
}
