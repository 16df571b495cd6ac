//! Views, ropes and tensors, over the memory and the engine that exist on every target.
//!
//! Invariant: what [`forever`] has lent is dropped after everything that the suite made of it: tensors, tickets and names are
//! locals of its checks, or cargo of an engine that is declared after it. What the library should lose, nobody finds again.
#![allow(unsafe_code, reason = "lends for ever what outlives its users")]

use core::time::Duration;

use wharf_backend::{Align32, BorrowedBackend, Maintained, MemBackend, SharedBytes, StaticPool};
use wharf_engine::{CpuEngine, Stream};
use wharf_source::{StaticPoolSource, StaticPoolState};
use wharf_sync::{AtomicWord, Clock, ConstInit, NoClock, SyncPolicy, Word};
use wharf_tensor::{Directory, Parts, Tickets};

use super::backends::NoCache;
use super::{CLASSES, afterwards, missing};
use crate::{
    Balance, EngineClaims, Report, Tally, copies, launch, read_only, relay, rope, tensor, view,
};

/// Room for six control blocks and four identities.
const BLOCKS: usize = 288 * size_of::<usize>();

type Source<P> = StaticPoolSource<P, BLOCKS, CLASSES>;

/// The target that has everything, each behind a reference: the checks of tensors are in an image once for all of them.
type Whole<P> = Parts<
    &'static dyn MemBackend<Policy = P>,
    &'static Source<P>,
    &'static dyn Clock,
    &'static Balance,
    &'static Directory<P, &'static Source<P>>,
>;

type Frames<P> = StaticPool<P, 64, 4, Align32>;

/// A clock on which a millisecond passes whenever somebody looks.
struct Ticks(AtomicWord);

impl Clock for Ticks {
    fn now(&self) -> Duration {
        let (Ok(before) | Err(before)) = self.0.update(|now| Some(now.wrapping_add(1)));
        Duration::from_millis(before.into())
    }
}

/// # Safety
/// `place` lives until the last use of what is returned, and of its copies.
unsafe fn forever<T>(place: &T) -> &'static T {
    // SAFETY: the caller's promise.
    unsafe { &*core::ptr::from_ref(place) }
}

/// What `make` makes, where it is to be: what the making takes of the stack is free again.
#[inline(never)]
fn made<T>(make: impl FnOnce() -> T) -> T {
    make()
}

pub(super) fn run<P: SyncPolicy>(report: &mut dyn Report) -> Tally
where
    P::Lock<StaticPoolState<CLASSES>>: ConstInit,
{
    let mut tally = chains::<P>(report);
    tally.add(erased::<P>(report));
    tally.add(maintained::<P>(report));
    tally.add(pair::<P>(report));
    tally
}

pub(super) fn launches<P: SyncPolicy>(report: &mut dyn Report) -> Tally
where
    P::Lock<StaticPoolState<CLASSES>>: ConstInit,
{
    let mut tally = launched::<P>(report);
    tally.add(relayed::<P>(report));
    tally.add(flash::<P>(report));
    tally
}

#[inline(never)]
fn chains<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    let pool = StaticPool::<P, 16, 6>::fresh();
    let mut tally = view("View<&StaticPool>", &pool, report);
    tally.add(rope("Rope<&StaticPool>", &pool, report));
    tally
}

#[inline(never)]
fn erased<P: SyncPolicy>(report: &mut dyn Report) -> Tally
where
    P::Lock<StaticPoolState<CLASSES>>: ConstInit,
{
    const NAME: &str = "dyn MemBackend";
    let (source, frames) = (made(Source::<P>::new), made(Frames::<P>::fresh));
    let (names, trace, clock) = (Directory::fresh(), Balance::new(), Ticks(AtomicWord::INIT));
    // SAFETY: the invariant; all are dropped after everything below.
    let (source, frames) = unsafe { (forever(&source), forever(&frames)) };
    // SAFETY: as above.
    let (names, trace, clock) = unsafe { (forever(&names), forever(&trace), forever(&clock)) };
    let target = Whole::<P>::with_directory(source, clock, trace, names);
    let mut tally = tensor(NAME, &target, frames, report);
    tally.add(even::<P>(NAME, trace, report));
    tally
}

/// What is told to begin is told to end, on every way that the checks have taken.
fn even<P: SyncPolicy>(name: &'static str, trace: &Balance, report: &mut dyn Report) -> Tally {
    let even = trace.is_even();
    afterwards::<P>(name, "its trace is even", even, report)
}

#[inline(never)]
fn launched<P: SyncPolicy>(report: &mut dyn Report) -> Tally
where
    P::Lock<StaticPoolState<CLASSES>>: ConstInit,
{
    const NAME: &str = "CpuEngine";
    let Ok(stream) = Stream::claim() else {
        return missing::<P>(NAME, "a stream", report);
    };
    let (source, frames) = (made(Source::<P>::new), made(Frames::<P>::fresh));
    let (names, trace, clock) = (Directory::fresh(), Balance::new(), Ticks(AtomicWord::INIT));
    // SAFETY: the invariant; all are dropped after everything below.
    let (source, frames) = unsafe { (forever(&source), forever(&frames)) };
    // SAFETY: as above.
    let (names, trace, clock) = unsafe { (forever(&names), forever(&trace), forever(&clock)) };
    let target = Whole::<P>::with_directory(source, clock, trace, names);
    let cpu = made(|| CpuEngine::<P, Tickets<Whole<P>>, 2>::new(stream));
    let claims = EngineClaims::default();
    let mut tally = launch(NAME, &target, frames, &cpu, claims, report);
    tally.add(even::<P>(NAME, trace, report));
    tally
}

/// From one engine to another, each with room for one command: there is no more room on the stack of a small board.
#[inline(never)]
fn relayed<P: SyncPolicy>(report: &mut dyn Report) -> Tally
where
    P::Lock<StaticPoolState<CLASSES>>: ConstInit,
{
    const NAME: &str = "CpuEngine, CpuEngine";
    let (Ok(reads), Ok(writes)) = (Stream::claim(), Stream::claim()) else {
        return missing::<P>(NAME, "two streams", report);
    };
    let (source, frames) = (made(Source::<P>::new), made(Frames::<P>::fresh));
    let (names, trace) = (Directory::fresh(), Balance::new());
    // SAFETY: the invariant; all are dropped after everything below.
    let (source, frames) = unsafe { (forever(&source), forever(&frames)) };
    // SAFETY: as above.
    let (names, trace) = unsafe { (forever(&names), forever(&trace)) };
    let target = Whole::<P>::with_directory(source, &NoClock, trace, names);
    let reader = made(|| CpuEngine::<P, Tickets<Whole<P>>, 1>::new(reads));
    let writer = made(|| CpuEngine::<P, Tickets<Whole<P>>, 1>::new(writes));
    let (engines, claims) = ((&reader, &writer), EngineClaims::default());
    let mut tally = relay(NAME, &target, frames, engines, claims, report);
    tally.add(even::<P>(NAME, trace, report));
    tally
}

#[inline(never)]
fn maintained<P: SyncPolicy>(report: &mut dyn Report) -> Tally
where
    P::Lock<StaticPoolState<CLASSES>>: ConstInit,
{
    const NAME: &str = "Maintained<StaticPool>";
    let (source, names, trace) = (made(Source::<P>::new), Directory::fresh(), Balance::new());
    let Ok(frames) = Maintained::new(Frames::<P>::fresh(), NoCache) else {
        return missing::<P>(NAME, "lines of its own", report);
    };
    // SAFETY: the invariant; all are dropped after everything below.
    let (source, names, trace) = unsafe { (forever(&source), forever(&names), forever(&trace)) };
    // SAFETY: as above.
    let frames = unsafe { forever(&frames) };
    let target = Whole::<P>::with_directory(source, &NoClock, trace, names);
    tensor(NAME, &target, frames, report)
}

/// What is in flash, on a board.
static WEIGHTS: [u8; 24] = *b"weights that are in rom.";

#[inline(never)]
fn flash<P: SyncPolicy>(report: &mut dyn Report) -> Tally
where
    P::Lock<StaticPoolState<CLASSES>>: ConstInit,
{
    const NAME: &str = "BorrowedShared";
    let (source, names, trace) = (made(Source::<P>::new), Directory::fresh(), Balance::new());
    let frames = made(Frames::<P>::fresh);
    let weights = BorrowedBackend::<_, P>::fresh(SharedBytes::new(&WEIGHTS));
    // SAFETY: the invariant; all are dropped after everything below.
    let (source, names, trace) = unsafe { (forever(&source), forever(&names), forever(&trace)) };
    // SAFETY: as above.
    let (frames, weights) = unsafe { (forever(&frames), forever(&weights)) };
    let target = Whole::<P>::with_directory(source, &NoClock, trace, names);
    let lend = || BorrowedBackend::lend_by(weights);
    let mut tally = read_only(NAME, &target, frames, lend, &WEIGHTS, report);
    tally.add(even::<P>(NAME, trace, report));
    tally
}

#[inline(never)]
fn pair<P: SyncPolicy>(report: &mut dyn Report) -> Tally
where
    P::Lock<StaticPoolState<CLASSES>>: ConstInit,
{
    const NAME: &str = "StaticPool, Maintained<StaticPool>";
    let (source, names, trace) = (made(Source::<P>::new), Directory::fresh(), Balance::new());
    let pool = StaticPool::<P, 300, 2>::fresh();
    let Ok(maintained) = Maintained::new(StaticPool::<P, 320, 2, Align32>::fresh(), NoCache) else {
        return missing::<P>(NAME, "lines of its own", report);
    };
    // SAFETY: the invariant; all are dropped after everything below.
    let (source, names, trace) = unsafe { (forever(&source), forever(&names), forever(&trace)) };
    // SAFETY: as above.
    let (pool, maintained) = unsafe { (forever(&pool), forever(&maintained)) };
    let target = Whole::<P>::with_directory(source, &NoClock, trace, names);
    copies(NAME, &target, pool, maintained, report)
}
