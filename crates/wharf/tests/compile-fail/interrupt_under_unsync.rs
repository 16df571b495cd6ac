//! Pitfall: an interrupt handler uses what was made for one context.
//! Instead: `Critical`, whose sections mask interrupts.

use wharf::prelude::*;
use wharf::sync::IsrSafe;

fn on_interrupt<P: IsrSafe>(_pool: &StaticPool<P, 64, 4>) {}

fn main() {
    on_interrupt(&StaticPool::<Unsync, 64, 4>::new());
}
