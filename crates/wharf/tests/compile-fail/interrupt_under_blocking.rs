//! Pitfall: a completion in an interrupt handler, under a policy that blocks on what the interrupt has stopped.
//! Instead: `Critical`, whose sections mask interrupts.

use wharf::prelude::*;
use wharf::sync::IsrSafe;

/// What a driver does where it registers its interrupt.
fn on_interrupt<E: Engine<Policy: IsrSafe>>(_engine: &'static E) {}

fn register(engine: &'static CpuEngine<Blocking, ()>) {
    on_interrupt(engine);
}

fn main() {
    let _ = register;
}
