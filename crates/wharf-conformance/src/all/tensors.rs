//! Views, ropes and tensors, over the memory and the engine that exist on every target.
//!
//! Invariant: what [`forever`] has lent is dropped after everything that the suite made of it: tensors, tickets and names are
//! locals of its checks, or cargo of an engine that is declared after it. What the library should lose, nobody finds again.
#![allow(unsafe_code, reason = "lends for ever what outlives its users")]

use core::time::Duration;

use wharf_backend::{Align32, Maintained, MemBackend, StaticPool};
use wharf_engine::{CpuEngine, Stream};
use wharf_source::{StaticPoolSource, StaticPoolState};
use wharf_sync::{AtomicWord, Clock, ConstInit, NoClock, SyncPolicy, Word};
use wharf_tensor::{Directory, Parts, Tickets};

use super::backends::NoCache;
use super::{CLASSES, afterwards, missing};
use crate::{Balance, EngineClaims, Report, Tally, copies, launch, rope, tensor, view};

/// Room for eight control blocks and four identities, and for some more.
const BLOCKS: usize = 512 * size_of::<usize>();

type Source<P> = StaticPoolSource<P, BLOCKS, CLASSES>;

/// The target that has everything, each behind a reference: the checks of tensors are in an image once for all of them.
type Whole<P> = Parts<
    &'static dyn MemBackend<Policy = P>,
    &'static Source<P>,
    &'static dyn Clock,
    &'static Balance,
    &'static Directory<P, &'static Source<P>>,
>;

/// One that has as little as there may be, and one memory whose type is known.
type Bare<P> = Parts<&'static Frames<P>, &'static Source<P>>;

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

pub(super) fn run<P: SyncPolicy>(report: &mut dyn Report) -> Tally
where
    P::Lock<StaticPoolState<CLASSES>>: ConstInit,
{
    let mut tally = chains::<P>(report);
    tally.add(bare::<P>(report));
    tally.add(whole::<P>(report));
    tally.add(pair::<P>(report));
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
fn bare<P: SyncPolicy>(report: &mut dyn Report) -> Tally
where
    P::Lock<StaticPoolState<CLASSES>>: ConstInit,
{
    let (source, frames) = (Source::<P>::new(), Frames::<P>::fresh());
    // SAFETY: the invariant; both are dropped after everything below.
    let (source, frames) = unsafe { (forever(&source), forever(&frames)) };
    tensor("StaticPool", &Bare::<P>::new(source), frames, report)
}

#[inline(never)]
fn whole<P: SyncPolicy>(report: &mut dyn Report) -> Tally
where
    P::Lock<StaticPoolState<CLASSES>>: ConstInit,
{
    const NAME: &str = "dyn MemBackend";
    let (source, frames, names) = (Source::<P>::new(), Frames::<P>::fresh(), Directory::fresh());
    let (trace, clock) = (Balance::new(), Ticks(AtomicWord::INIT));
    // SAFETY: the invariant; all are dropped after everything below.
    let (source, frames) = unsafe { (forever(&source), forever(&frames)) };
    // SAFETY: as above.
    let (names, lent, clock) = unsafe { (forever(&names), forever(&trace), forever(&clock)) };
    let target = Whole::<P>::with_directory(source, clock, lent, names);
    let mut tally = tensor(NAME, &target, frames, report);
    tally.add(match Stream::claim() {
        Ok(stream) => {
            let cpu = CpuEngine::<P, Tickets<Whole<P>>, 4>::new(stream);
            launch(
                "CpuEngine",
                &target,
                frames,
                &cpu,
                EngineClaims::default(),
                report,
            )
        }
        Err(_) => missing::<P>("CpuEngine", "a stream", report),
    });
    let even = trace.is_even();
    tally.add(afterwards::<P>(
        NAME,
        "what is told to begin is told to end",
        even,
        report,
    ));
    tally
}

#[inline(never)]
fn pair<P: SyncPolicy>(report: &mut dyn Report) -> Tally
where
    P::Lock<StaticPoolState<CLASSES>>: ConstInit,
{
    const NAME: &str = "Maintained<StaticPool>";
    let (source, names) = (Source::<P>::new(), Directory::fresh());
    let (trace, pool) = (Balance::new(), StaticPool::<P, 600, 2>::fresh());
    let Ok(maintained) = Maintained::new(StaticPool::<P, 608, 4, Align32>::fresh(), NoCache) else {
        return missing::<P>(NAME, "lines of its own", report);
    };
    // SAFETY: the invariant; all are dropped after everything below.
    let (source, names, trace) = unsafe { (forever(&source), forever(&names), forever(&trace)) };
    // SAFETY: as above.
    let (pool, maintained) = unsafe { (forever(&pool), forever(&maintained)) };
    let target = Whole::<P>::with_directory(source, &NoClock, trace, names);
    let mut tally = tensor(NAME, &target, maintained, report);
    tally.add(copies(
        "StaticPool and Maintained<StaticPool>",
        &target,
        pool,
        maintained,
        report,
    ));
    tally
}
