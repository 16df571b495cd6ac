//! Every wrapper around a backend is a backend, alone and in compositions, under every policy that a host has.

use wharf_backend::wrap::{BackendEvent, Finding};
use wharf_backend::{
    Align64, Checked, FaultInject, FreeList, Heap, MemBackend, Quota, Scrub, StaticPool, Traced,
    Waitable,
};
use wharf_conformance::{Printer, Tally, backend, segment};
use wharf_sync::{Blocking, ConstInit, Critical, SyncPolicy, Unsync};

const SLOTS: usize = 5;
type Pool<P> = StaticPool<P, 96, SLOTS, Align64>;

/// A suite that writes where it must not, or loses a segment, is caught as well.
fn nothing_found(finding: Finding) {
    panic!("{finding}");
}

const fn unheard(_: BackendEvent) {}

fn wrappers<P: SyncPolicy>(report: &mut Printer<String>) -> Tally
where
    P::Lock<FreeList>: ConstInit,
    P::Count: ConstInit,
{
    let pool = Pool::<P>::fresh;
    let mut tally = Tally::default();
    tally.add(backend("Traced", &Traced::new(pool(), unheard), report));
    tally.add(backend("Scrub", &Scrub::new(pool()), report));
    tally.add(backend(
        "Scrub<Heap>",
        &Scrub::new(Heap::<P>::new()),
        report,
    ));
    tally.add(backend("Waitable", &Waitable::new(pool()), report));

    let checked = Checked::<_, _, SLOTS>::new(pool(), nothing_found);
    tally.add(backend("Checked", &checked, report));
    tally.add(segment("Segment<Checked>", &checked, report));
    // The table is what limits it.
    let checked = Checked::<_, _, 3>::new(pool(), nothing_found);
    tally.add(backend("Checked, short", &checked, report));
    let checked = Checked::<_, _, 32>::new(Heap::<P>::new(), nothing_found);
    tally.add(backend("Checked<Heap>", &checked, report));

    let quota = Quota::<_, 3>::new(pool());
    let share = quota.share(2, 3).unwrap();
    let other = quota.share(1, 1).unwrap();
    tally.add(backend("Share", share, report));
    tally.add(backend("&Share", &share, report));
    tally.add(segment("Segment<Share>", share, report));
    // With the common part gone, it is what it has reserved.
    let hoard = quota.share(0, usize::MAX).unwrap();
    let hoarded: Vec<_> =
        std::iter::from_fn(|| wharf_backend::SegmentMut::alloc(hoard, 1).ok()).collect();
    assert_eq!(hoarded.len(), 2);
    tally.add(backend("Share, others hoard", other, report));
    drop(hoarded);
    assert_eq!(quota.census().in_use, 0);

    let all = Checked::<_, _, SLOTS>::new(Scrub::new(pool()), nothing_found);
    let all = Waitable::new(Traced::new(FaultInject::new(all), unheard));
    tally.add(backend(
        "Waitable<Traced<FaultInject<Checked<Scrub>>>>",
        &all,
        report,
    ));
    let inside = FaultInject::new(Traced::new(pool(), unheard));
    let quota = Quota::<_, 1>::new(Checked::<_, _, SLOTS>::new(inside, nothing_found));
    let all = Scrub::new(Traced::new(quota.share(4, 4).unwrap(), unheard));
    tally.add(backend(
        "Scrub<Traced<Share<Checked<FaultInject>>>>",
        &all,
        report,
    ));
    tally.add(segment("Segment<Scrub<Traced<Share>>>", &all, report));
    assert_eq!(all.census().in_use, 0);
    tally
}

fn conforms<P: SyncPolicy>()
where
    P::Lock<FreeList>: ConstInit,
    P::Count: ConstInit,
{
    let mut report = Printer::new(String::new());
    let tally = wrappers::<P>(&mut report);
    let report = report.finish().expect("a string takes every line");
    println!("\n{report}");
    assert!(tally.is_clean(), "{tally}");
}

#[test]
fn unsync() {
    conforms::<Unsync>();
}

#[test]
fn critical() {
    conforms::<Critical>();
}

#[test]
fn blocking() {
    conforms::<Blocking>();
}
