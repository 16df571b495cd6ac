//! The suite on everything of wharf that runs on a host, under every policy there is.

use wharf_backend::{Align32, BorrowedExclusive, StaticPool, backend_set};
use wharf_conformance::{
    Nesting, Printer, Report, SourceClaims, Tally, backend, run_all, run_heap, run_launches,
    run_tensors, run_unwinding, segment, source,
};
use wharf_source::StaticPoolSource;
use wharf_sync::{Blocking, Critical, Unsync};

/// Prints what `suite` reports in one piece, since other tests print meanwhile, and judges it.
fn conforms(suite: impl FnOnce(&mut Printer<String>) -> Tally) {
    let mut report = Printer::new(String::new());
    let tally = suite(&mut report);
    let report = report.finish().expect("a string takes every line");
    println!("\n{report}");
    assert!(tally.is_clean(), "{tally}");
}

#[test]
fn unsync() {
    conforms(|report| {
        let mut tally = run_all::<Unsync>(Nesting::Allowed, report);
        tally.add(run_tensors::<Unsync>(report));
        tally.add(run_launches::<Unsync>(report));
        tally.add(run_heap::<Unsync>(report));
        tally.add(run_unwinding::<Unsync>(report));
        tally
    });
}

#[test]
fn critical() {
    conforms(|report| {
        let mut tally = run_all::<Critical>(Nesting::Allowed, report);
        tally.add(run_tensors::<Critical>(report));
        tally.add(run_launches::<Critical>(report));
        tally.add(run_heap::<Critical>(report));
        tally.add(run_unwinding::<Critical>(report));
        tally
    });
}

#[test]
fn blocking() {
    conforms(|report| {
        let mut tally = run_all::<Blocking>(Nesting::Forbidden, report);
        tally.add(run_tensors::<Blocking>(report));
        tally.add(run_launches::<Blocking>(report));
        tally.add(run_heap::<Blocking>(report));
        tally.add(run_unwinding::<Blocking>(report));
        tally
    });
}

#[cfg(feature = "spin")]
#[test]
fn spin() {
    conforms(|report| {
        let mut tally = run_all::<wharf_sync::Spin>(Nesting::Forbidden, report);
        tally.add(run_tensors::<wharf_sync::Spin>(report));
        tally.add(run_launches::<wharf_sync::Spin>(report));
        tally.add(run_heap::<wharf_sync::Spin>(report));
        tally.add(run_unwinding::<wharf_sync::Spin>(report));
        tally
    });
}

/// As the firmware does it.
#[test]
fn statics() {
    static FRAMES: StaticPool<Critical, 64, 8, Align32> = StaticPool::new();
    static BLOCKS: StaticPoolSource<Critical, 2048, 16> = StaticPoolSource::new();

    conforms(|report| {
        let mut tally = backend("static StaticPool", &FRAMES, report);
        tally.add(segment("Segment<&'static StaticPool>", &FRAMES, report));
        let claims = SourceClaims::POOL;
        let name = "static StaticPoolSource";
        tally.add(source::<Critical, _>(name, &BLOCKS, claims, report));
        tally.add(sets(report));
        tally
    });
}

backend_set! {
    /// What one program has, as one type.
    enum Memory<'b>: Critical, host {
        Frames(StaticPool<Critical, 64, 4, Align32>),
        Lent(BorrowedExclusive<'b, Critical>),
    }
}

fn sets(report: &mut dyn Report) -> Tally {
    let mut left = [0; 72];
    let frames = Memory::Frames(StaticPool::new());
    let lent = Memory::Lent(BorrowedExclusive::exclusive(&mut left));
    let mut tally = backend("backend_set!, a pool", &frames, report);
    tally.add(backend("backend_set!, lent bytes", &lent, report));
    tally.add(segment("Segment<backend_set!>", &frames, report));
    tally
}

/// What runs twice over one thing is told apart by the suite: no two subjects have one label.
#[test]
fn every_subject_has_a_label_of_its_own() {
    let mut report = Printer::new(String::new());
    let mut tally = run_all::<Unsync>(Nesting::Allowed, &mut report);
    tally.add(run_tensors::<Unsync>(&mut report));
    tally.add(run_launches::<Unsync>(&mut report));
    let report = report.finish().expect("a string takes every line");
    let labels: Vec<_> = report
        .lines()
        .filter_map(|line| line.rsplit_once(": "))
        .map(|(label, _)| label)
        .collect();
    let mut unique = labels.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), labels.len(), "{report}");
    for suite in ["backend", "waits"] {
        let label = format!("conformance: Unsync/{suite}/Waitable<StaticPool>");
        assert!(labels.contains(&label.as_str()), "{report}");
    }
    assert!(tally.is_clean());
}
