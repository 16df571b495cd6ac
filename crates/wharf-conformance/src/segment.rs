//! What segments and views do, over every backend.
#![allow(unsafe_code, reason = "puts segments together again")]

use core::ops::Bound;

use wharf_backend::{BackendRef, MemBackend, MemSpace, SegmentMut};
use wharf_segment::{OutOfBounds, Segment, View};
use wharf_sync::SyncPolicy;

use crate::check::{Demand, ensure, equal};
use crate::{Check, Failure, Outcome, Report, Subject, Tally, run};

/// Holds the segments of a backend to the laws of `wharf-segment`. The backend must vend 16 bytes.
pub fn segment<R>(name: &'static str, backend: R, report: &mut dyn Report) -> Tally
where
    R: BackendRef + Clone,
    R::Backend: Sized,
{
    let policy = <R::Policy as SyncPolicy>::NAME;
    run(
        Subject {
            policy,
            suite: "segment",
            name,
        },
        &backend,
        &checks(),
        report,
    )
}

fn checks<R>() -> [Check<R>; 9]
where
    R: BackendRef + Clone,
    R::Backend: Sized,
{
    [
        Check {
            name: "freezing keeps the bytes in place",
            run: freezing,
        },
        Check {
            name: "clones are counted",
            run: clones,
        },
        Check {
            name: "the last one gives the memory back",
            run: last_drop,
        },
        Check {
            name: "only the only holder may write",
            run: only_holder,
        },
        Check {
            name: "a shared segment is taken apart and put together",
            run: raw_round_trip,
        },
        Check {
            name: "only the only holder forgets the type",
            run: erased,
        },
        Check {
            name: "a view is a window",
            run: window,
        },
        Check {
            name: "a view does not leave its window",
            run: view_bounds,
        },
        Check {
            name: "a view keeps its segment",
            run: view_keeps,
        },
    ]
}

const LEN: usize = 16;
const BYTES: [u8; LEN] = *b"wharf holds this";

#[inline(never)]
fn unique<R: BackendRef + Clone>(backend: &R) -> Result<SegmentMut<R>, Failure> {
    SegmentMut::alloc(backend.clone(), LEN)
        .demand("a segment of 16 bytes")?
        .init_from(&BYTES)
        .demand("its bytes")
}

fn shared<R: BackendRef + Clone>(backend: &R) -> Result<Segment<R>, Failure> {
    unique(backend).map(Segment::from)
}

fn in_use<R: BackendRef>(backend: &R) -> usize {
    backend.backend().census().in_use
}

/// The units in use while a segment lives: more than `before`, if they are counted.
fn taken<R: BackendRef>(backend: &R, before: usize) -> Result<usize, Failure> {
    let census = backend.backend().census();
    let more = census.unit == 0 || census.in_use > before;
    ensure(more, "a segment is in use")?;
    Ok(census.in_use)
}

/// Thaws the only handle and looks at its bytes, wherever they are.
#[inline(never)]
fn holds<R: BackendRef>(segment: Segment<R>, expected: &[u8; LEN]) -> Result<(), Failure> {
    let unique = segment.try_mut().ok().demand("the only holder thaws it")?;
    let mut found = [0; LEN];
    unique.read(0, &mut found).demand("a read")?;
    ensure(found == *expected, "the bytes are those that were written")
}

fn freezing<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let unique = unique(backend)?;
    let place = unique.place();
    let segment = Segment::from(unique);
    ensure(segment.place() == place, "it is where it was")?;
    equal("its length", segment.len(), LEN)?;
    ensure(!segment.is_empty(), "it has bytes")?;
    equal("its holders", segment.holders(), 1)?;
    let on_host = backend.backend().space() == MemSpace::Host;
    ensure(
        segment.host().is_ok() == on_host,
        "host memory lends its bytes, and no other",
    )?;
    if let Ok(bytes) = segment.host() {
        ensure(bytes == BYTES, "the bytes are those that were written")?;
    }
    holds(segment, &BYTES)?;
    Ok(())
}

fn clones<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let before = in_use(backend);
    let segment = shared(backend)?;
    let during = taken(backend, before)?;
    let clones = [segment.clone(), segment.clone(), segment.clone()];
    equal("holders", segment.holders(), 4)?;
    equal("units in use: a clone takes none", in_use(backend), during)?;
    for clone in &clones {
        ensure(
            clone.place() == segment.place(),
            "a clone is the same memory",
        )?;
        equal("holders, as a clone knows them", clone.holders(), 4)?;
    }
    drop(clones);
    equal("holders", segment.holders(), 1)?;
    drop(segment);
    equal("units in use", in_use(backend), before)?;
    Ok(())
}

fn last_drop<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let before = in_use(backend);
    let first = shared(backend)?;
    let during = taken(backend, before)?;
    let second = first.clone();
    drop(first);
    equal("units in use while one holds it", in_use(backend), during)?;
    equal("holders", second.holders(), 1)?;
    if let Ok(bytes) = second.host() {
        ensure(bytes == BYTES, "the bytes stay while one holds them")?;
    }
    let third = second.clone();
    drop(second);
    drop(third);
    equal("units in use", in_use(backend), before)?;
    Ok(())
}

fn only_holder<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let before = in_use(backend);
    let first = shared(backend)?;
    let second = first.clone();
    let Err(first) = first.try_mut() else {
        return Err(Failure::new("one of two may not write").into());
    };
    equal("holders after a refusal", first.holders(), 2)?;
    drop(second);
    let mut unique = first.try_mut().ok().demand("the only holder thaws it")?;
    unique.write(0, b"WHARF").demand("a write")?;
    let mut expected = BYTES;
    for (byte, new) in expected.iter_mut().zip(b"WHARF") {
        *byte = *new;
    }
    holds(Segment::from(unique), &expected)?;
    equal("units in use", in_use(backend), before)?;
    Ok(())
}

fn raw_round_trip<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let before = in_use(backend);
    let segment = shared(backend)?;
    let clone = segment.clone();
    let (header, reference) = clone.into_raw();
    equal("holders while one is apart", segment.holders(), 2)?;
    // SAFETY: the parts of one handle that was just taken apart, put together once.
    let clone = unsafe { Segment::<R>::from_raw(header, reference) };
    let clone = clone.ok().demand("it is put together")?;
    equal("holders", clone.holders(), 2)?;
    ensure(clone.place() == segment.place(), "it is the same memory")?;
    drop(segment);
    holds(clone, &BYTES)?;
    equal("units in use", in_use(backend), before)?;
    Ok(())
}

fn erased<R>(backend: &R) -> Outcome
where
    R: BackendRef + Clone,
    R::Backend: Sized,
{
    type Erased<'b, P> = &'b dyn MemBackend<Policy = P>;

    let before = in_use(backend);
    let typed: &R::Backend = backend.backend();
    let first = shared(&typed)?;
    let second = first.clone();
    let Err(first) = first.erase::<Erased<'_, R::Policy>>() else {
        return Err(Failure::new("one of two keeps its type").into());
    };
    drop(first);
    let erased = second
        .erase::<Erased<'_, R::Policy>>()
        .ok()
        .demand("the only holder forgets the type")?;
    let again = erased.clone();
    equal("holders", again.holders(), 2)?;
    drop(again);
    holds(erased, &BYTES)?;
    equal("units in use", in_use(backend), before)?;
    Ok(())
}

type Range = (Bound<usize>, Bound<usize>);

#[inline(never)]
fn sees<R: BackendRef>(view: &View<R>, start: usize, len: usize) -> Result<(), Failure> {
    equal("where a view starts", view.offset(), start)?;
    equal("how long it is", view.len(), len)?;
    ensure(view.is_empty() == (len == 0), "no bytes are none")?;
    if let Ok(bytes) = view.host() {
        let expected = BYTES.get(start..).and_then(|tail| tail.get(..len));
        ensure(Some(bytes) == expected, "its bytes are those of its window")?;
    }
    Ok(())
}

fn window<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let whole = View::from(shared(backend)?);
    sees(&whole, 0, LEN)?;
    let slice = |view: &View<R>, range: Range| view.slice(range).ok();
    let (from, to) = (Bound::Included(6), Bound::Excluded(11));
    let holds = slice(&whole, (from, to)).demand("a slice")?;
    sees(&holds, 6, 5)?;
    let olds = slice(&holds, (Bound::Excluded(0), Bound::Unbounded)).demand("its tail")?;
    sees(&olds, 7, 4)?;
    let old = slice(&olds, (Bound::Unbounded, Bound::Included(2))).demand("its head")?;
    sees(&old, 7, 3)?;
    let end = whole
        .slice(LEN..)
        .ok()
        .demand("the empty slice at the end")?;
    sees(&end, LEN, 0)?;
    let end = end
        .slice(0..0)
        .ok()
        .demand("the empty slice of an empty one")?;
    sees(&end, LEN, 0)?;
    let all = old.slice(..).ok().demand("all of a view")?;
    sees(&all, 7, 3)?;
    Ok(())
}

fn view_bounds<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let view = View::from(shared(backend)?)
        .slice(4..12)
        .ok()
        .demand("a slice")?;
    let refused = |range: Range, start, end| {
        let answer = view.slice(range);
        let expected = OutOfBounds { start, end, len: 8 };
        match answer {
            Err(error) if error == expected => Ok(()),
            Err(error) => Err(Failure::numbers(
                "the numbers of a slice out of bounds (its end)",
                end as u64,
                error.end as u64,
            )),
            Ok(_) => Err(Failure::new("a slice out of bounds is refused")),
        }
    };
    use Bound::{Excluded, Included, Unbounded};
    refused((Included(0), Excluded(9)), 0, 9)?;
    refused((Included(9), Unbounded), 9, 8)?;
    refused((Included(9), Excluded(9)), 9, 9)?;
    refused((Included(5), Excluded(4)), 5, 4)?;
    refused((Included(0), Included(8)), 0, 9)?;
    refused((Included(0), Included(usize::MAX)), 0, usize::MAX)?;
    refused((Excluded(usize::MAX), Unbounded), usize::MAX, 8)?;
    refused((Included(usize::MAX), Excluded(2)), usize::MAX, 2)?;
    refused((Included(0), Excluded(usize::MAX)), 0, usize::MAX)?;
    sees(&view, 4, 8)?;
    Ok(())
}

fn view_keeps<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let before = in_use(backend);
    let segment = shared(backend)?;
    let during = taken(backend, before)?;
    let view = View::from(segment).slice(15..).ok().demand("a slice")?;
    equal(
        "units in use while a view holds it",
        in_use(backend),
        during,
    )?;
    let clone = view.clone();
    equal("holders", view.segment().holders(), 2)?;
    drop(view);
    sees(&clone, 15, 1)?;
    let whole = clone.into_segment();
    equal("the length of its segment", whole.len(), LEN)?;
    holds(whole, &BYTES)?;
    equal("units in use", in_use(backend), before)?;
    Ok(())
}
