//! Everything that exists on every target, under one policy.

mod backends;
mod engines;
mod lenders;
mod sources;
mod tensors;
mod traces;
mod wrappers;

use core::cell::Cell;

use wharf_source::StaticPoolState;
use wharf_sync::{ConstInit, SyncPolicy};

use crate::{Check, Failure, Nesting, Report, Subject, Tally, constants, policy, run};

/// Runs the suite on everything of wharf that needs neither heap nor operating system, under the policy
/// `P`: on a host and in firmware the same checks, and so the same counts.
///
/// It takes some 6 KiB of stack. Where there is a heap, go on with `run_heap`.
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
    tally.add(sources::run::<P>(report));
    tally.add(backends::run::<P>(report));
    tally.add(lenders::run::<P>(report));
    tally.add(wrappers::run::<P>(report));
    tally.add(engines::run::<P>(report));
    tally
}

/// Runs the suites of views, ropes and tensors on everything of wharf that needs neither heap nor operating system, under the
/// policy `P`: what [`run_all`] is for the layer below, in a function of its own because the two are too much for one image on
/// small boards. Go on with [`run_launches`].
///
/// It takes some 8 KiB of stack.
pub fn run_tensors<P: SyncPolicy>(report: &mut dyn Report) -> Tally
where
    P::Lock<StaticPoolState<CLASSES>>: ConstInit,
{
    let mut tally = tensors::run::<P>(report);
    tally.add(traces::run::<P>(report));
    tally
}

/// Runs the suites of launches, relays and read-only tensors on everything of wharf that needs neither heap nor operating system,
/// under the policy `P`: the third image of a small board, beside those of [`run_all`] and [`run_tensors`].
///
/// It takes some 8 KiB of stack.
pub fn run_launches<P: SyncPolicy>(report: &mut dyn Report) -> Tally
where
    P::Lock<StaticPoolState<CLASSES>>: ConstInit,
{
    tensors::launches::<P>(report)
}

/// Shapes that the pools of [`run_all`] have room for.
pub const CLASSES: usize = 16;

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
    run(
        Subject {
            policy,
            suite: "run_all",
            name,
        },
        &what,
        &[check],
        report,
    )
}

/// One thing that must hold once the suite has run on a subject.
fn afterwards<P: SyncPolicy>(
    name: &'static str,
    what: &'static str,
    holds: bool,
    report: &mut dyn Report,
) -> Tally {
    let check = Check {
        name: what,
        run: |holds: &bool| Ok(crate::check::ensure(*holds, "it holds after all checks")?),
    };
    let policy = P::NAME;
    run(
        Subject {
            policy,
            suite: "afterwards",
            name,
        },
        &holds,
        &[check],
        report,
    )
}

/// Runs the suite on what needs a heap, under the policy `P`.
#[cfg(feature = "alloc")]
pub fn run_heap<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    let mut tally = sources::heap::<P>(report);
    tally.add(backends::heap::<P>(report));
    tally
}

/// Runs on the engines what only a host can: kernels that panic.
#[cfg(feature = "std")]
pub fn run_unwinding<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    engines::unwinding::<P>(report)
}
