//! Beside `interrupt_under_*`, `constant_of_any_policy`, `not_a_policy`: a policy that can do what is asked of it.

use wharf::prelude::*;
use wharf::sync::IsrSafe;

use critical_section as _;

fn on_interrupt<E: Engine<Policy: IsrSafe>>(_engine: &'static E) {}

fn frames<P: SyncPolicy>() -> StaticPool<P, 64, 4> {
    StaticPool::fresh()
}

fn main() {
    let engine = CpuEngine::<Critical, ()>::new(Stream::claim().unwrap());
    on_interrupt(Box::leak(Box::new(engine)));
    drop(frames::<Critical>());
    drop(frames::<Blocking>());
}
