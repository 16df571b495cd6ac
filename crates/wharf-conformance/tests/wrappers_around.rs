//! Wrappers around what is not a plain pool: maintained memory, block sources, a backend that others use, a device's channel.

use core::ptr::NonNull;
use std::sync::Arc;

use wharf_backend::wrap::{BackendEvent, Finding};
use wharf_backend::{
    Align64, CacheOps, Checked, FaultInject, FreeList, Maintained, MemBackend, Quota, Scrub,
    SegmentMut, Shared, SourceBackend, StaticPool, Traced, Waitable,
};
use wharf_conformance::{Printer, Tally, backend, segment};
use wharf_source::HeapSource;
use wharf_sync::{Blocking, ConstInit, Critical, SyncPolicy, Unsync};

const SLOTS: usize = 5;
type Pool<P> = StaticPool<P, 96, SLOTS, Align64>;

fn nothing_found(finding: Finding) {
    panic!("{finding}");
}

const fn unheard(_: BackendEvent) {}

/// Nothing is to be done, for whole lines.
#[derive(Clone, Copy)]
struct Coherent;

impl Coherent {
    fn whole(start: NonNull<u8>, len: usize) {
        assert!(start.addr().get().is_multiple_of(Self::LINE));
        assert!(len.is_multiple_of(Self::LINE) && len != 0);
    }
}

// SAFETY: nothing is to be done.
unsafe impl CacheOps for Coherent {
    const LINE: usize = 32;
    unsafe fn clean(&self, start: NonNull<u8>, len: usize) {
        Self::whole(start, len);
    }
    unsafe fn invalidate(&self, start: NonNull<u8>, len: usize) {
        Self::whole(start, len);
    }
    unsafe fn clean_invalidate(&self, start: NonNull<u8>, len: usize) {
        Self::whole(start, len);
    }
}

fn wrappers<P: SyncPolicy>(report: &mut Printer<String>) -> Tally
where
    P::Lock<FreeList>: ConstInit,
    P::Count: ConstInit,
{
    let pool = Pool::<P>::fresh;
    let mut tally = Tally::default();

    let memory = Maintained::fixed(pool(), Coherent);
    let memory = Checked::<_, _, SLOTS>::new(Scrub::new(memory), nothing_found);
    tally.add(backend("Checked<Scrub<Maintained>>", &memory, report));
    tally.add(segment(
        "Segment<Checked<Scrub<Maintained>>>",
        &memory,
        report,
    ));
    let memory = Checked::<_, _, SLOTS>::new(pool(), nothing_found);
    let memory = Maintained::fixed(Traced::new(memory, unheard), Coherent);
    tally.add(backend("Maintained<Traced<Checked>>", &memory, report));
    let memory = Maintained::fixed(Waitable::new(FaultInject::new(pool())), Coherent);
    tally.add(backend(
        "Maintained<Waitable<FaultInject>>",
        &memory,
        report,
    ));
    let quota = Quota::<_, 1>::new(Maintained::fixed(pool(), Coherent));
    tally.add(backend(
        "Share<Maintained>",
        quota.share(5, 5).unwrap(),
        report,
    ));

    let source = || SourceBackend::<_, P, Align64>::fresh(HeapSource);
    let memory = Checked::<_, _, 32>::new(Scrub::new(source()), nothing_found);
    tally.add(backend("Checked<Scrub<SourceBackend>>", &memory, report));

    let others = Waitable::new(pool());
    let memory = Traced::new(Scrub::new(Shared::new(&others)), unheard);
    tally.add(backend("Traced<Scrub<Shared<&Waitable>>>", &memory, report));
    tally.add(segment("Segment<Traced<Scrub<Shared>>>", &memory, report));
    assert_eq!(others.census().in_use, 0);
    let erased: &dyn MemBackend<Policy = P> = &others;
    let memory = FaultInject::new(Shared::new(erased));
    tally.add(backend("FaultInject<Shared<&dyn>>", &memory, report));

    let quota = Arc::new(Quota::<_, 2>::new(pool()));
    let share = quota.share_counted(2, 3).unwrap();
    tally.add(backend("CountedShare", share.clone(), report));
    // Outlived by a segment of it.
    let segment = SegmentMut::alloc(share, 1).unwrap();
    drop(quota);
    assert_eq!(segment.backend().census().in_use, 1);
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
