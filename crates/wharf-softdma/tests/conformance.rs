//! The device keeps the laws that every backend and engine keeps.

use std::sync::Arc;

use wharf_backend::MemSpace;
use wharf_conformance::{
    EngineClaims, Parcel, Printer, Tally, backend, engine, engine_unwinding, segment,
};
use wharf_softdma::{Config, SoftDma};
use wharf_sync::StdClock;

#[test]
fn the_device_keeps_the_laws() {
    let device = SoftDma::<Parcel, 4>::open(Config::new(64 * 1024)).expect("room and a thread");
    let memory = device.channel();
    let mut report = Printer::new(String::new());
    let mut tally = Tally::default();
    tally.add(backend("Channel", Arc::clone(&memory), &mut report));
    tally.add(segment(
        "Segment<Arc<Channel>>",
        Arc::clone(&memory),
        &mut report,
    ));
    let claims = EngineClaims {
        apart: true,
        unreachable: Some(MemSpace::Host),
    };
    let clock = StdClock::new();
    let (its_own, name) = (Arc::clone(&memory), "SoftDma");
    tally.add(engine(name, &device, its_own, clock, claims, &mut report));
    let (its_own, name) = (Arc::clone(&memory), "SoftDma, unwinding");
    tally.add(engine_unwinding(
        name,
        device,
        its_own,
        clock,
        claims,
        &mut report,
    ));

    let report = report.finish().expect("a string takes everything");
    print!("{report}");
    assert!(tally.is_clean() && tally.passed > 0, "{report}");
    assert_eq!(memory.ledger().segments, 0);
}
