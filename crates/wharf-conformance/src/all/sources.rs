//! The sources of wharf.

use core::mem::MaybeUninit;

use wharf_source::{
    BumpSource, NullSource, PoolSource, SizeClass, StaticPoolSource, StaticPoolState,
};
use wharf_sync::{ConstInit, SyncPolicy};

use super::CLASSES;
use crate::{Report, SourceClaims, Tally, source, source_with_reset};

const SLAB: usize = 2048;

pub(super) fn run<P: SyncPolicy>(report: &mut dyn Report) -> Tally
where
    P::Lock<StaticPoolState<CLASSES>>: ConstInit,
{
    let mut tally = source::<P, _>("NullSource", NullSource, SourceClaims::NULL, report);
    tally.add(pool_source::<P>(report));
    tally.add(bump_source::<P>(report));
    tally.add(static_pool_source::<P>(report));
    tally
}

#[cfg(feature = "alloc")]
pub(super) fn heap<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    use wharf_source::HeapSource;

    source::<P, _>("HeapSource", HeapSource, SourceClaims::HEAP, report)
}

// Each in a frame of its own, so that one slab is on the stack at a time.

#[inline(never)]
fn pool_source<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    let mut slab = [MaybeUninit::uninit(); SLAB];
    let mut classes = [SizeClass::EMPTY; CLASSES];
    let pool = PoolSource::<P>::new(&mut slab, &mut classes);
    source::<P, _>("PoolSource", &pool, SourceClaims::POOL, report)
}

#[inline(never)]
fn bump_source<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    let mut slab = [MaybeUninit::uninit(); SLAB];
    let mut bump = BumpSource::new(&mut slab);
    let (reset, claims) = (|bump: &mut BumpSource<'_>| bump.reset(), SourceClaims::BUMP);
    source_with_reset::<P, _>("BumpSource", &mut bump, reset, claims, report)
}

#[inline(never)]
fn static_pool_source<P: SyncPolicy>(report: &mut dyn Report) -> Tally
where
    P::Lock<StaticPoolState<CLASSES>>: ConstInit,
{
    let pool = StaticPoolSource::<P, SLAB, CLASSES>::new();
    source::<P, _>("StaticPoolSource", &pool, SourceClaims::POOL, report)
}
