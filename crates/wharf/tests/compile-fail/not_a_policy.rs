//! Pitfall: a lock, or whatever else is no policy, is named as one.
//! Instead: `Unsync`, `Critical` or `Blocking`.

use std::sync::Mutex;
use wharf::prelude::*;

fn frames(_: &StaticPool<Mutex<()>, 64, 4>) {}

fn main() {
    let _ = frames;
}
