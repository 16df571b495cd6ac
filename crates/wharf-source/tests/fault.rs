//! A source that fails when told to, and the sweep it is for.

mod common;

use common::{Citizen, Ledger, Population, Slab, layout};
use std::collections::BTreeSet;

use wharf_source::{
    Block, BlockArray, BlockSource, BumpSource, Census, FaultSource, NullSource, Owned, PoolSource,
    SizeClass, SourceError,
};
use wharf_sync::Unsync;

fn pattern<S: BlockSource>(source: &FaultSource<S>, sizes: &[usize]) -> Vec<bool> {
    let ask = |&size| Block::new(source, layout(size, 1)).is_ok();
    sizes.iter().map(ask).collect()
}

#[test]
fn it_refuses_the_nth_every_kth_and_the_large() {
    let ledger = Ledger::default();
    let source = FaultSource::new(&ledger);
    let met = |source, sizes| {
        let met = pattern(source, sizes);
        met.into_iter().map(u8::from).collect::<Vec<_>>()
    };
    assert_eq!(met(&source, &[8; 3]), [1, 1, 1]);
    source.fail_nth(2);
    assert_eq!(met(&source, &[8; 4]), [1, 0, 1, 1]);
    assert_eq!(source.calls(), 4);
    source.fail_every(3);
    assert_eq!(source.calls(), 0);
    assert_eq!(met(&source, &[8; 7]), [1, 1, 0, 1, 1, 0, 1]);
    source.fail_above(64);
    assert_eq!(met(&source, &[64, 65, 1, 100]), [1, 0, 1, 0]);
    // Each plan replaces the one before.
    source.fail_nth(1);
    assert_eq!(met(&source, &[100, 100, 100]), [0, 1, 1]);
    source.fail_every(0);
    assert_eq!(met(&source, &[8; 3]), [1, 1, 1]);
    source.fail_nth(0);
    assert_eq!(met(&source, &[8; 3]), [1, 1, 1]);
    assert_eq!(source.injected(), 1 + 2 + 2 + 1);
    assert!(ledger.is_balanced());
}

#[test]
fn its_cause_is_told_apart_from_the_inner_one() {
    let mut slab = Slab::<64>::new();
    let bump = BumpSource::new(&mut slab.0);
    let source = FaultSource::<_>::new(&bump);
    source.fail_nth(2);
    let ask = |size| Block::new(&source, layout(size, 1)).err();
    let exhausted = |requested, available| SourceError::Exhausted {
        requested,
        available,
    };
    assert_eq!(ask(40), None);
    let injected = SourceError::Injected {
        requested: 5,
        call: 2,
    };
    assert_eq!(ask(5), Some(injected));
    assert_eq!(source.refusal(layout(5, 1)), injected, "asked again");
    assert_eq!(ask(30), Some(exhausted(30, 24)), "the inner cause");
    assert_eq!(source.calls(), 3);
    let census = Census {
        unit: 1,
        capacity: 64,
        in_use: 40,
        peak: 40,
        refused: 2,
        dropped: 0,
        largest_refused: 30,
    };
    assert_eq!(source.census(), census);
    source.fail_above(49);
    assert!(matches!(
        ask(50),
        Some(SourceError::Injected { call: 1, .. })
    ));
    assert_eq!(source.census().largest_refused, 50);
    assert_eq!(ask(10), None);
    assert_eq!(
        source.refusal(layout(30, 1)),
        exhausted(30, 14),
        "nothing was refused last"
    );
    assert_eq!(bump.census().refused, 1, "the inner one saw only its own");
    assert!(std::ptr::eq(*source.inner(), &raw const bump));
    assert_eq!(source.name(), "bump");
    assert_eq!(
        format!("{source:?}"),
        "FaultSource { inner: \"bump\", policy: \"Unsync\", .. }"
    );
}

#[test]
fn a_request_for_no_bytes_is_not_refused_nor_counted() {
    let source = FaultSource::<_>::new(NullSource);
    source.fail_nth(1);
    assert!(Block::new(&source, layout(0, 8)).is_ok());
    assert_eq!((source.calls(), source.injected()), (0, 0));
    assert!(Block::new(&source, layout(1, 8)).is_err());
    assert_eq!(source.injected(), 1);
}

/// Something with many allocations of several shapes, that grow, nest and are dropped.
fn work<'p, S: BlockSource + Copy>(
    source: S,
    people: &'p Population,
) -> Result<usize, SourceError> {
    let first = |(error, _)| error;
    let mut teams = BlockArray::<BlockArray<Citizen<'p>, S>, S>::new(source);
    for size in [3, 9, 1, 20] {
        let mut team = BlockArray::with_capacity(source, 2)?;
        for id in 0..size {
            team.push(people.born(id)).map_err(first)?;
        }
        teams.push_slot()?.write(team);
    }
    let lead = Owned::new(source, people.born(7)).map_err(|(error, _)| error)?;
    let mut all = BlockArray::new(source);
    for team in &teams {
        all.extend_from_slice(team)?;
    }
    all.insert(3, lead.clone())
        .map_err(|(error, _)| match error {
            wharf_source::InsertError::Refused(error) => error,
            other => unreachable!("{other}"),
        })?;
    let mut evens = BlockArray::new(source);
    evens
        .try_extend(all.into_iter().filter(|citizen| citizen.id() % 2 == 0))
        .map_err(|(error, _)| error)?;
    let _scratch = Block::new(source, layout(300, 64))?;
    Ok(evens.len())
}

/// Fails each request in turn; nothing is lost, nothing dropped twice, and the cause is the injected one.
fn sweep<S: BlockSource>(source: &FaultSource<S>, nothing_lost: impl Fn()) -> u64 {
    let people = Population::default();
    source.fail_nth(0);
    assert_eq!(work(source, &people), Ok(18));
    let calls = source.calls();
    for nth in 1..=calls {
        source.fail_nth(nth);
        let requested = work(source, &people).map_err(|error| match error {
            SourceError::Injected { call, requested } if call == nth => requested,
            other => unreachable!("{other}"),
        });
        assert!(requested.is_err_and(|bytes| bytes > 0), "{nth} of {calls}");
        assert_eq!(source.calls(), nth, "nobody asks again");
        assert_eq!(people.count(), 0);
        nothing_lost();
    }
    source.fail_nth(0);
    assert_eq!(work(source, &people), Ok(18), "as good as new");
    calls
}

#[test]
fn whichever_request_fails_nothing_is_lost_of_a_heap() {
    let ledger = Ledger::default();
    let calls = sweep(&FaultSource::new(&ledger), || assert!(ledger.is_balanced()));
    assert!(calls > 15, "{calls}");
}

#[test]
fn whichever_request_fails_nothing_is_lost_of_a_pool() {
    let mut slab = Box::new(Slab::<8192>::new());
    let mut table: [SizeClass; 16] = [const { SizeClass::EMPTY }; 16];
    let pool = PoolSource::<Unsync>::new(&mut slab.0, &mut table);
    let source = FaultSource::new(&pool);
    let people = Population::default();
    assert_eq!(work(&source, &people), Ok(18));
    let used = pool.used();
    // What was carved in the first run serves all others: not a block was lost.
    let calls = sweep(&source, || assert_eq!(pool.used(), used));
    assert!(calls > 15, "{calls}");
    assert_eq!((pool.foreign(), pool.overflowed()), (0, 0));
}

#[test]
fn whichever_request_fails_a_spill_goes_back_to_its_upstream() {
    let ledger = Ledger::default();
    let upstream = FaultSource::<_>::new(&ledger);
    let people = Population::default();
    let mut outcomes = BTreeSet::new();
    for nth in 0..40 {
        let mut slab = Slab::<512>::new();
        let bump = BumpSource::with_upstream(&mut slab.0, &upstream);
        upstream.fail_nth(nth);
        let outcome = work(&bump, &people).map_err(|error| match error {
            SourceError::Injected { call, .. } => assert_eq!(call, nth),
            other => unreachable!("{other}"),
        });
        outcomes.insert(outcome.is_ok());
        assert_eq!(usize::from(outcome.is_err()), bump.census().refused);
        assert!(ledger.is_balanced() && people.count() == 0);
    }
    assert_eq!(outcomes.len(), 2, "some runs need no 39 spills");
}

#[test]
fn every_limit_on_sizes_is_survived() {
    let ledger = Ledger::default();
    let source = FaultSource::<_>::new(&ledger);
    let people = Population::default();
    for bytes in 0..1200 {
        source.fail_above(bytes);
        let outcome = work(&source, &people);
        assert!(outcome.is_ok() || outcome.is_err_and(|error| error.requested() > bytes));
        assert!(ledger.is_balanced() && people.count() == 0);
    }
    assert_eq!(work(&source, &people), Ok(18));
}
