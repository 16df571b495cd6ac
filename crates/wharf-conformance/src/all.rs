//! Everything that exists on every target, under one policy.
#![allow(unsafe_code, reason = "lends an engine memory that it does not keep")]

use core::cell::Cell;
use core::mem::MaybeUninit;

use wharf_backend::{Align32, FaultInject, MemSpace, PoolBackend, SlotControl, StaticPool};
use wharf_engine::{CpuEngine, Stream};
use wharf_source::{
    BumpSource, NullSource, PoolSource, SizeClass, StaticPoolSource, StaticPoolState,
};
use wharf_sync::{ConstInit, NoClock, SyncPolicy};

use crate::{
    Check, EngineClaims, Failure, Nesting, Parcel, Report, SourceClaims, Subject, Tally, backend,
    constants, engine_on_borrowed, policy, run, segment, source, source_with_reset,
};

/// Runs the suite on everything of wharf that needs neither heap nor operating system, under the policy
/// `P`: on a host and in firmware the same checks, and so the same counts.
///
/// It takes some 6 KiB of stack. Where there is a heap, go on with [`run_heap`].
pub fn run_all<P: SyncPolicy>(nesting: Nesting, report: &mut dyn Report) -> Tally
where
    P::Lock<StaticPoolState<CLASSES>>: ConstInit,
    P::Lock<Cell<u32>>: ConstInit,
    P::Count: ConstInit,
    P::Word: ConstInit,
    P::Event: ConstInit,
{
    let mut tally = policy::<P>(nesting, report);
    tally.add(constants::<P>(report));
    tally.add(source::<P, _>(
        "NullSource",
        NullSource,
        SourceClaims::NULL,
        report,
    ));
    tally.add(pool_source::<P>(report));
    tally.add(bump_source::<P>(report));
    tally.add(static_pool_source::<P>(report));
    tally.add(pool_backend::<P>(report));
    tally.add(static_pool::<P>(report));
    tally.add(fault_inject::<P>(report));
    tally.add(segments::<P>(report));
    tally.add(cpu_engine::<P>(report));
    tally
}

/// Shapes that the pools of [`run_all`] have room for.
pub const CLASSES: usize = 16;

const SLAB: usize = 2048;

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
fn static_pool<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    let pool = StaticPool::<P, 72, 8, Align32>::fresh();
    backend("StaticPool", &pool, report)
}

#[inline(never)]
fn fault_inject<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    let pool = FaultInject::new(StaticPool::<P, 24, 3>::fresh());
    backend("FaultInject<StaticPool>", &pool, report)
}

#[inline(never)]
fn segments<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    let pool = StaticPool::<P, 16, 2>::fresh();
    segment("Segment<&StaticPool>", &pool, report)
}

#[inline(never)]
fn cpu_engine<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    const NAME: &str = "CpuEngine";
    let Ok(stream) = Stream::claim() else {
        return missing::<P>(NAME, "a stream", report);
    };
    let memory = StaticPool::<P, 16, 2>::fresh();
    let cpu = CpuEngine::<P, Parcel, 4>::new(stream);
    let claims = EngineClaims {
        apart: false,
        unreachable: Some(MemSpace::Device),
    };
    // SAFETY: this engine runs only inside of calls to it, and is dropped before the memory.
    unsafe { engine_on_borrowed(NAME, &cpu, &memory, NoClock, claims, report) }
}

/// Reports a subject that could not even be made.
fn missing<P: SyncPolicy>(
    name: &'static str,
    what: &'static str,
    report: &mut dyn Report,
) -> Tally {
    let check = Check {
        name: "it can be made",
        run: |what: &&'static str| Err(Failure::new(what).into()),
    };
    let policy = P::NAME;
    run(Subject { policy, name }, &what, &[check], report)
}

/// Runs the suite on what needs a heap, under the policy `P`.
#[cfg(feature = "alloc")]
pub fn run_heap<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    use wharf_backend::Heap;
    use wharf_source::HeapSource;

    let mut tally = source::<P, _>("HeapSource", HeapSource, SourceClaims::HEAP, report);
    tally.add(backend("HeapBackend", Heap::<P>::new(), report));
    tally.add(segment("Segment<HeapBackend>", Heap::<P>::new(), report));
    tally
}

/// Runs on the engines what only a host can: kernels that panic.
#[cfg(feature = "std")]
pub fn run_unwinding<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    const NAME: &str = "CpuEngine, unwinding";
    let Ok(stream) = Stream::claim() else {
        return missing::<P>(NAME, "a stream", report);
    };
    let cpu = CpuEngine::<P, Parcel, 4>::new(stream);
    let memory = wharf_backend::Heap::<P>::new();
    crate::engine_unwinding(NAME, &cpu, memory, NoClock, EngineClaims::default(), report)
}
