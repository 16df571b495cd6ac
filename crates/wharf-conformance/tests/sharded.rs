//! The pool in shards, under every policy that a host has.

use core::mem::MaybeUninit;

use wharf_backend::{Checked, Quota, Scrub, ShardedPool, SlotControl, Waitable};
use wharf_conformance::{Printer, Report, Tally, backend, segment, waits};
use wharf_sync::{Blocking, Critical, SyncPolicy, Unsync};

/// Lends `run` a pool of nine slots.
fn with_pool<P: SyncPolicy, const SHARDS: usize>(
    run: impl FnOnce(&ShardedPool<'_, P, SHARDS>) -> Tally,
) -> Tally {
    let mut slab = [MaybeUninit::uninit(); 1024];
    let mut control: [SlotControl<P>; 9] = core::array::from_fn(|_| SlotControl::new());
    run(&ShardedPool::new(&mut slab[1..], &mut control, 100, 16).expect("seven slots"))
}

/// Seven slots in four shards, inside of what asks for memory of equal slots that nobody else uses.
fn wrapped<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    let mut tally = Tally::default();
    owning::<P>(|pool| {
        let pool = Waitable::new(Checked::<_, _, 7>::new(Scrub::new(pool), |finding| {
            panic!("{finding}")
        }));
        tally.add(backend(
            "Waitable<Checked<Scrub<ShardedPool>>>",
            &pool,
            report,
        ));
        tally.add(waits("Waitable<ShardedPool>", &pool, report));
    });
    owning::<P>(|pool| {
        let quota = Quota::<_, 2>::new(pool);
        let share = quota.share(5, 6).expect("seven slots");
        let _other = quota.share(1, 1).expect("two are left");
        tally.add(backend("Share<ShardedPool>", share, report));
        tally.add(waits("Share<ShardedPool>", &share, report));
    });
    tally
}

/// Gives `run` a pool of seven slots in four shards.
fn owning<P: SyncPolicy>(run: impl FnOnce(ShardedPool<'_, P, 4>)) {
    let mut slab = [MaybeUninit::uninit(); 7 * 32];
    let mut control: [SlotControl<P>; 7] = core::array::from_fn(|_| SlotControl::new());
    run(ShardedPool::new(&mut slab, &mut control, 32, 1).expect("seven slots"));
}

fn conforms<P: SyncPolicy>() {
    let mut report = Printer::new(String::new());
    let mut tally = Tally::default();
    tally.add(with_pool::<P, 1>(|pool| {
        backend("ShardedPool, one shard", pool, &mut report)
    }));
    tally.add(with_pool::<P, 4>(|pool| {
        backend("ShardedPool", pool, &mut report)
    }));
    tally.add(with_pool::<P, 16>(|pool| {
        backend("ShardedPool, more shards than slots", pool, &mut report)
    }));
    tally.add(with_pool::<P, 2>(|pool| {
        segment("Segment<&ShardedPool>", pool, &mut report)
    }));
    tally.add(wrapped::<P>(&mut report));
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
