//! Writers, shorter segments and raw memory, on every backend of the host that they compile for, under every policy that it has.

use std::ptr::NonNull;

use wharf_backend::wrap::{BackendEvent, Finding};
use wharf_backend::{
    Align32, BorrowedBackend, CacheOps, Checked, ExclusiveBytes, FaultInject, FreeList,
    HeapBackend, Maintained, PoolBackend, Quota, Scrub, ShardedPool, Shared, SlotControl,
    SourceBackend, StaticPool, Traced, Waitable,
};
use wharf_conformance::{Printer, Tally, shortens, vends_uninit, writer};
use wharf_source::HeapSource;
use wharf_sync::{Blocking, ConstInit, Critical, SyncPolicy, Unsync};

type Pool<P> = StaticPool<P, 32, 3, Align32>;

fn nothing_found(finding: Finding) {
    panic!("{finding}");
}

const fn unheard(_: BackendEvent) {}

/// Nothing is to be done.
#[derive(Clone, Copy)]
struct Coherent;

// SAFETY: nothing is to be done.
unsafe impl CacheOps for Coherent {
    const LINE: usize = 32;
    unsafe fn clean(&self, _: NonNull<u8>, _: usize) {}
    unsafe fn invalidate(&self, _: NonNull<u8>, _: usize) {}
    unsafe fn clean_invalidate(&self, _: NonNull<u8>, _: usize) {}
}

/// Whose segments may become shorter, and are raw memory.
macro_rules! slots {
    ($report:expr, $tally:expr, $($name:literal => $memory:expr,)*) => {$({
        let memory = $memory;
        $tally.add(writer($name, memory, $report));
        $tally.add(shortens($name, memory, $report));
        $tally.add(vends_uninit($name, memory, $report));
    })*};
}

/// Whose segments keep their lengths, and are raw memory.
macro_rules! blocks {
    ($report:expr, $tally:expr, $($name:literal => $memory:expr,)*) => {$({
        let memory = $memory;
        $tally.add(writer($name, memory, $report));
        $tally.add(vends_uninit($name, memory, $report));
    })*};
}

fn filling<P: SyncPolicy>(report: &mut Printer<String>) -> Tally
where
    P::Lock<FreeList>: ConstInit,
    P::Count: ConstInit,
{
    let pool = Pool::<P>::fresh;
    let mut tally = Tally::default();

    let mut slab = [const { std::mem::MaybeUninit::uninit() }; 200];
    let mut control: [SlotControl<P>; 5] = std::array::from_fn(|_| SlotControl::new());
    let slots = PoolBackend::new(&mut slab, &mut control, 24, 1).expect("five slots");
    let mut slab = [const { std::mem::MaybeUninit::uninit() }; 200];
    let mut control: [SlotControl<P>; 5] = std::array::from_fn(|_| SlotControl::new());
    let shards = ShardedPool::<P, 2>::new(&mut slab, &mut control, 24, 1).expect("five slots");
    let quota = Quota::<_, 1>::new(pool());
    let share = quota.share(3, 3).expect("all of it");
    let wrapped = Quota::<_, 1>::new(FaultInject::new(Traced::new(pool(), unheard)));
    let nested = Scrub::new(Traced::new(
        wrapped.share(3, 3).expect("all of it"),
        unheard,
    ));
    let others = Waitable::new(pool());
    slots! { report, tally,
        "PoolBackend" => &slots,
        "ShardedPool" => &shards,
        "StaticPool, aligned" => &pool(),
        "FaultInject" => &FaultInject::new(pool()),
        "Traced" => &Traced::new(pool(), unheard),
        "Waitable" => &others,
        "Shared<&Waitable>" => &Shared::new(&others),
        "Scrub" => &Scrub::new(pool()),
        "Maintained" => &Maintained::fixed(pool(), Coherent),
        "Share" => share,
        "Scrub<Traced<Share<FaultInject<Traced>>>>" => &nested,
    }

    let source = SourceBackend::<_, P>::fresh(HeapSource);
    blocks! { report, tally,
        "HeapBackend" => &HeapBackend::<P>::default(),
        "SourceBackend<HeapSource>" => &source,
        "Checked" => &Checked::<_, _, 3>::new(Pool::<P>::fresh(), nothing_found),
        "Scrub<HeapBackend>" => &Scrub::new(HeapBackend::<P>::default()),
    }

    // Somebody's bytes, which have values.
    let mut left = [7; 40];
    let lent = BorrowedBackend::<_, P>::fresh(ExclusiveBytes::new(&mut left));
    tally.add(writer("BorrowedBackend<ExclusiveBytes>", &lent, report));
    tally.add(shortens("BorrowedBackend<ExclusiveBytes>", &lent, report));
    tally
}

fn conforms<P: SyncPolicy>()
where
    P::Lock<FreeList>: ConstInit,
    P::Count: ConstInit,
{
    let mut report = Printer::new(String::new());
    let tally = filling::<P>(&mut report);
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

#[cfg(feature = "spin")]
#[test]
fn spin() {
    conforms::<wharf_sync::Spin>();
}
