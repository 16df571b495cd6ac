//! Sources that take everything back at once.

use wharf_source::BlockSource;

use super::accounts::{fill, release};
use super::{Erased, SMALL};
use crate::Outcome;
use crate::check::{Demand, ensure, equal};

/// One behaviour of a reset.
pub(super) struct Check<S> {
    pub(super) name: &'static str,
    pub(super) run: fn(&mut S, fn(&mut S)) -> Outcome,
}

pub(super) fn checks<S: BlockSource>() -> [Check<S>; 2] {
    [
        Check {
            name: "a reset gives everything back",
            run: everything_back,
        },
        Check {
            name: "a reset forgets no peak and no refusal",
            run: remembers,
        },
    ]
}

/// Takes blocks until there are no more, and lets them go; tells how many there were.
fn used_up<S: BlockSource>(source: &S) -> usize {
    let source: Erased<'_> = source;
    let (mut chain, links) = fill(source);
    release(&mut chain, usize::MAX);
    links
}

fn everything_back<S: BlockSource>(source: &mut S, reset: fn(&mut S)) -> Outcome {
    let fresh = source.census();
    let links = used_up(source);
    ensure(links > 0, "at least one block fits")?;
    for _ in 0..3 {
        reset(source);
        let census = source.census();
        equal("units in use after a reset", census.in_use, 0)?;
        equal("the capacity", census.capacity, fresh.capacity)?;
        equal("blocks after a reset", used_up(source), links)?;
    }
    Ok(())
}

fn remembers<S: BlockSource>(source: &mut S, reset: fn(&mut S)) -> Outcome {
    used_up(source);
    let before = source.census();
    reset(source);
    let one = wharf_source::Block::new(&*source, SMALL);
    drop(one.demand("a small block after a reset")?);
    let after = source.census();
    equal("the peak", after.peak, before.peak)?;
    equal("refusals", after.refused, before.refused)?;
    let largest = before.largest_refused;
    equal("the largest refused", after.largest_refused, largest)?;
    Ok(())
}
