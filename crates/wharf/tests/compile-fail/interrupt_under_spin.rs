//! Pitfall: an interrupt handler, or a signal handler, spins on a lock that what it has interrupted may hold.
//! Instead: `Critical`, whose sections mask interrupts.

use wharf::prelude::*;
use wharf::sync::{IsrSafe, Spin};

fn on_interrupt<E: Engine<Policy: IsrSafe>>(_engine: &'static E) {}

fn register(engine: &'static CpuEngine<Spin, ()>) {
    on_interrupt(engine);
}

fn main() {
    let _ = register;
}
