//! What is refused, what is counted, and what comes back.

use core::alloc::Layout;

use wharf_source::{Block, Census, Owned, SourceError};

use super::{Erased, HUGE, LAYOUTS, SMALL, Sample, SourceClaims, VENDS_NOTHING};
use crate::check::{Demand, applies, ensure, equal, refused};
use crate::{Failure, Outcome};

pub(super) fn refuses_everything(sample: &Sample<'_>) -> Outcome {
    applies(!sample.claims.vends, "it vends blocks")?;
    let before = sample.source.census();
    for layout in LAYOUTS {
        let answer = Block::new(sample.source, layout);
        let requested = layout.size();
        refused("a block", answer, SourceError::Null { requested })?;
    }
    let counted = sample.source.census() != before || sample.counts();
    ensure(!counted, "it counts nothing")?;
    Ok(())
}

pub(super) fn everything_returns(sample: &Sample<'_>) -> Outcome {
    applies(sample.claims.vends, VENDS_NOTHING)?;
    applies(sample.claims.reuses, "it vends no block twice")?;
    drop(sample.all()?);
    let after_one = sample.source.census();
    for _ in 0..32 {
        drop(sample.all()?);
    }
    let census = sample.source.census();
    equal("units in use", census.in_use, after_one.in_use)?;
    equal("most units in use", census.peak, after_one.peak)?;
    equal("refusals", census.refused, after_one.refused)?;
    Ok(())
}

pub(super) fn census(sample: &Sample<'_>) -> Outcome {
    applies(sample.counts(), "it counts nothing")?;
    let before = sample.source.census();
    let held = sample.all()?;
    let bytes: usize = held
        .iter()
        .flatten()
        .map(|block| block.layout().size())
        .sum();
    let during = sample.source.census();
    ensure(
        during.bytes_in_use() >= bytes,
        "the bytes in use are at least those of the live blocks",
    )?;
    ensure(
        during.peak >= during.in_use,
        "the peak is never below the use",
    )?;
    let within = during.capacity == 0 || during.peak <= during.capacity;
    ensure(within, "the peak is within the capacity")?;
    drop(held);
    let after = sample.source.census();
    ensure(after.in_use <= during.in_use, "releasing takes no units")?;
    ensure(after.peak >= during.peak, "a peak never falls")?;
    equal("the capacity", after.capacity, before.capacity)?;
    equal("refusals", after.refused, before.refused)?;
    Ok(())
}

/// The refusal of a request is counted once, in the bytes that were asked for.
#[inline(never)]
fn counted(sample: &Sample<'_>, request: Layout) -> Result<Option<SourceError>, Failure> {
    let before = sample.source.census();
    let Err(error) = Block::new(sample.source, request) else {
        return Ok(None);
    };
    equal("the bytes it names", error.requested(), request.size())?;
    let after = sample.source.census();
    if before.unit != 0 {
        equal("refusals", after.refused, before.refused.saturating_add(1))?;
        let largest = before.largest_refused.max(request.size());
        equal("the largest refused", after.largest_refused, largest)?;
    }
    equal("units in use", after.in_use, before.in_use)?;
    Ok(Some(error))
}

pub(super) fn beyond(sample: &Sample<'_>) -> Outcome {
    let requested = HUGE.size();
    let error = counted(sample, HUGE)?.demand("such a request is refused")?;
    let capacity = sample.source.census().capacity;
    let expected = match sample.claims {
        SourceClaims { vends: false, .. } => SourceError::Null { requested },
        _ if capacity == 0 => SourceError::HeapExhausted { requested },
        _ => SourceError::TooLarge {
            requested,
            capacity,
        },
    };
    refused("the refusal", Err::<(), _>(error), expected)?;
    if sample.claims.vends {
        drop(sample.block(SMALL, "a small block after that")?);
    }
    Ok(())
}

pub(super) fn asking_why(sample: &Sample<'_>) -> Outcome {
    let before = sample.source.census();
    for request in [SMALL, HUGE] {
        let requested = sample.source.refusal(request).requested();
        equal("the bytes it names", requested, request.size())?;
    }
    ensure(sample.source.census() == before, "the census stays")?;
    Ok(())
}

/// A source that claims a bound is given up on after so many blocks.
const MOST_LINKS: usize = 100_000;

/// A block that owns the one before it: any number of blocks is held without a place to hold them.
pub(super) struct Chain<'s> {
    before: Option<Owned<Self, Erased<'s>>>,
}

/// Takes links until one is refused; tells how many there were.
#[inline(never)]
pub(super) fn fill(source: Erased<'_>) -> (Option<Owned<Chain<'_>, Erased<'_>>>, usize) {
    let mut chain = None;
    for links in 0..MOST_LINKS {
        let link = Chain { before: chain };
        match Owned::new(source, link) {
            Ok(owned) => chain = Some(owned),
            Err((_, link)) => return (link.before, links),
        }
    }
    (chain, MOST_LINKS)
}

/// Lets `links` go, one by one: a chain that drops itself drops recursively.
pub(super) fn release<'s>(chain: &mut Option<Owned<Chain<'s>, Erased<'s>>>, links: usize) {
    for _ in 0..links {
        let Some(mut link) = chain.take() else {
            return;
        };
        *chain = link.before.take();
    }
}

pub(super) fn exhaustion(sample: &Sample<'_>) -> Outcome {
    applies(sample.claims.vends, VENDS_NOTHING)?;
    applies(sample.claims.bounded, "it claims no bound")?;
    let before = sample.source.census();
    let (mut chain, links) = fill(sample.source);
    let outcome = exhausted(sample, before, &mut chain, links);
    release(&mut chain, usize::MAX);
    outcome?;
    if !sample.claims.reuses {
        return Ok(());
    }
    let (mut chain, again) = fill(sample.source);
    release(&mut chain, usize::MAX);
    equal("blocks, once all have come back", again, links)?;
    Ok(())
}

fn exhausted<'s>(
    sample: &Sample<'s>,
    before: Census,
    chain: &mut Option<Owned<Chain<'s>, Erased<'s>>>,
    links: usize,
) -> Outcome {
    ensure(links > 0, "at least one block fits")?;
    let request = Layout::new::<Chain<'_>>();
    let census = sample.source.census();
    if census.unit != 0 {
        let told = before.refused.saturating_add(1);
        equal("refusals", census.refused, told)?;
        let largest = before.largest_refused.max(request.size());
        equal("the largest refused", census.largest_refused, largest)?;
    }
    let within = census.capacity == 0 || census.in_use <= census.capacity;
    ensure(within, "no more is in use than there is")?;
    let error = counted(sample, request)?.demand("the next one is refused, too")?;
    let exhausted = matches!(error, SourceError::Exhausted { .. });
    if !exhausted {
        return Err(Failure::refused("exhaustion is told by its name", error.into()).into());
    }
    if sample.claims.reuses {
        release(chain, 1);
        drop(sample.block(request, "what came back is vended again")?);
    }
    Ok(())
}
