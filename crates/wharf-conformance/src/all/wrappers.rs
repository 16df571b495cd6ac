//! The wrappers of wharf, each around a small pool.

use core::cell::Cell;

use wharf_backend::wrap::{BackendEvent, BackendEventPhase, Finding};
use wharf_backend::{Checked, FaultInject, Quota, Scrub, StaticPool, Traced, Waitable};
use wharf_sync::SyncPolicy;

use super::{afterwards, missing};
use crate::{Report, Tally, backend, waits};

pub(super) fn run<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    let mut tally = fault_inject::<P>(report);
    tally.add(traced::<P>(report));
    tally.add(scrub::<P>(report));
    tally.add(checked::<P>(report));
    tally.add(waitable::<P>(report));
    tally.add(share::<P>(report));
    tally
}

type Pool<P> = StaticPool<P, 24, 3>;

#[inline(never)]
fn fault_inject<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    let pool = FaultInject::new(Pool::<P>::fresh());
    backend("FaultInject<StaticPool>", &pool, report)
}

#[inline(never)]
fn traced<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    const NAME: &str = "Traced<StaticPool>";
    let (begun, ended) = (Cell::new(0_usize), Cell::new(0_usize));
    let count = |event: BackendEvent| {
        let counter = match event.phase {
            BackendEventPhase::Start => &begun,
            BackendEventPhase::Why(_) => return,
            _ => &ended,
        };
        counter.set(counter.get().wrapping_add(1));
    };
    let mut tally = backend(NAME, &Traced::new(Pool::<P>::fresh(), count), report);
    let balanced = begun.get() > 0 && begun.get() == ended.get();
    tally.add(afterwards::<P>(NAME, "what begins ends", balanced, report));
    tally
}

#[inline(never)]
fn scrub<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    const NAME: &str = "Scrub<StaticPool>";
    let pool = Scrub::new(Pool::<P>::fresh());
    let mut tally = backend(NAME, &pool, report);
    let all = pool.missed() == 0;
    tally.add(afterwards::<P>(NAME, "all is scrubbed", all, report));
    tally
}

#[inline(never)]
fn checked<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    const NAME: &str = "Checked<StaticPool>";
    let found = Cell::new(0_usize);
    let count = |_: Finding| found.set(found.get().saturating_add(1));
    let pool = StaticPool::<P, 48, 3>::fresh();
    let pool = Checked::<_, _, 3>::new(pool, count);
    let mut tally = backend(NAME, &pool, report);
    drop(pool);
    let clean = found.get() == 0;
    tally.add(afterwards::<P>(NAME, "nothing is found", clean, report));
    tally
}

#[inline(never)]
fn waitable<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    let pool = Waitable::new(Pool::<P>::fresh());
    let mut tally = backend("Waitable<StaticPool>", &pool, report);
    tally.add(waits("Waitable<StaticPool>", &pool, report));
    tally
}

#[inline(never)]
fn share<P: SyncPolicy>(report: &mut dyn Report) -> Tally {
    const NAME: &str = "Share<StaticPool>";
    let quota = Quota::<_, 2>::new(StaticPool::<P, 24, 4>::fresh());
    let (Ok(share), Ok(_)) = (quota.share(2, 3), quota.share(1, 1)) else {
        return missing::<P>(NAME, "shares of a pool", report);
    };
    let mut tally = backend(NAME, share, report);
    tally.add(waits(NAME, &share, report));
    tally
}
