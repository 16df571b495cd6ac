//! The backends of wharf that vend.
#![allow(unsafe_code, reason = "implements an unsafe trait")]

use core::mem::MaybeUninit;
use core::ptr::NonNull;

use wharf_backend::{
    Align32, CacheOps, Maintained, PoolBackend, ShardedPool, SlotControl, SourceBackend, StaticPool,
};
use wharf_source::{PoolSource, SizeClass};
use wharf_sync::SyncPolicy;

use super::missing;
use crate::{Report, Tally, backend, segment, shortens, vends_uninit, writer};

pub(super) fn run<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    let mut tally = pool_backend::<P>(report);
    tally.add(sharded_pool::<P>(report));
    tally.add(static_pool::<P>(report));
    tally.add(maintained::<P>(report));
    tally.add(segments::<P>(report));
    tally.add(source_backend::<P>(report));
    tally
}

/// A `SourceBackend` is held to the laws of a backend over the heap. Over a pool its largest segment depends on the shapes that
/// were carved before, which is not for the suite to know: there it is held to those of segments.
#[cfg(feature = "alloc")]
pub(super) fn heap<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    use wharf_backend::Heap;
    use wharf_source::HeapSource;

    let mut tally = backend("HeapBackend", Heap::<P>::new(), report);
    tally.add(segment("Segment<HeapBackend>", Heap::<P>::new(), report));
    let over_heap = SourceBackend::<_, P>::fresh(HeapSource);
    tally.add(backend("SourceBackend<HeapSource>", &over_heap, report));
    tally
}

#[inline(never)]
fn pool_backend<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    let mut slab = [MaybeUninit::uninit(); 1024];
    let mut control: [SlotControl<P>; 9] = core::array::from_fn(|_| SlotControl::new());
    // An odd start, so that the pool has something to align.
    let slab = slab.get_mut(1..).unwrap_or_default();
    match PoolBackend::new(slab, &mut control, 100, 16) {
        Ok(pool) => backend("PoolBackend", &pool, report),
        Err(_) => missing::<P>("PoolBackend", "a pool over a slab of 1023 bytes", report),
    }
}

#[inline(never)]
fn sharded_pool<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    const NAME: &str = "ShardedPool, two shards";
    let mut slab = [MaybeUninit::uninit(); 5 * 24];
    let mut control: [SlotControl<P>; 5] = core::array::from_fn(|_| SlotControl::new());
    match ShardedPool::<P, 2>::new(&mut slab, &mut control, 24, 1) {
        Ok(pool) => backend(NAME, &pool, report),
        Err(_) => missing::<P>(NAME, "five slots of 24 bytes", report),
    }
}

#[inline(never)]
fn static_pool<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    let pool = StaticPool::<P, 72, 8, Align32>::fresh();
    backend("StaticPool", &pool, report)
}

#[inline(never)]
fn maintained<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    const NAME: &str = "Maintained<StaticPool>";
    match Maintained::new(StaticPool::<P, 72, 3, Align32>::fresh(), NoCache) {
        Ok(pool) => backend(NAME, &pool, report),
        Err(_) => missing::<P>(NAME, "lines of its own", report),
    }
}

/// The cache of a core that has none: every line is what the memory is.
pub(super) struct NoCache;

// SAFETY: between the CPU and the memory there is nothing to maintain, nor are these boards' devices behind another cache.
unsafe impl CacheOps for NoCache {
    const LINE: usize = 32;
    unsafe fn clean(&self, _: NonNull<u8>, _: usize) {}
    unsafe fn invalidate(&self, _: NonNull<u8>, _: usize) {}
    unsafe fn clean_invalidate(&self, _: NonNull<u8>, _: usize) {}
}

#[inline(never)]
fn segments<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    let pool = StaticPool::<P, 16, 2>::fresh();
    let mut tally = segment("Segment<&StaticPool>", &pool, report);
    tally.add(shortens("StaticPool", &pool, report));
    tally.add(writer("StaticPool", &pool, report));
    tally.add(vends_uninit("StaticPool", &pool, report));
    tally
}

#[inline(never)]
fn source_backend<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    let mut slab = [MaybeUninit::uninit(); 512];
    let mut classes = [SizeClass::EMPTY; 4];
    let source = PoolSource::<P>::new(&mut slab, &mut classes);
    let memory = SourceBackend::<_, P, Align32>::fresh(&source);
    segment("Segment<&SourceBackend>", &memory, report)
}
