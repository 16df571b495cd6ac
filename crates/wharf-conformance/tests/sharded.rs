//! The pool in shards, under every policy that a host has.

use core::mem::MaybeUninit;

use wharf_backend::{ShardedPool, SlotControl};
use wharf_conformance::{Printer, Tally, backend, segment};
use wharf_sync::{Blocking, Critical, SyncPolicy, Unsync};

/// Lends `run` a pool of nine slots.
fn with_pool<P: SyncPolicy, const SHARDS: usize>(
    run: impl FnOnce(&ShardedPool<'_, P, SHARDS>) -> Tally,
) -> Tally {
    let mut slab = [MaybeUninit::uninit(); 1024];
    let mut control: [SlotControl<P>; 9] = core::array::from_fn(|_| SlotControl::new());
    run(&ShardedPool::new(&mut slab[1..], &mut control, 100, 16).expect("seven slots"))
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
