//! Pitfall: a value is to own the static pool that it lies in, so that the two would move together.
//! Instead: a reference to the pool.

use wharf::prelude::*;
use wharf::source::Owned;

fn send(_: Owned<u32, StaticPoolSource<Unsync, 256, 2>>) {}

fn main() {
    let _ = send;
}
