//! What views do beyond being a window, over every backend: they are cut, joined, written when nobody else holds them, and
//! moved into less memory.

use core::num::NonZeroUsize;

use wharf_backend::{BackendRef, MemBackend, MemSpace, SegmentMut};
use wharf_segment::{GatherError, JoinError, OutOfBounds, Pinned, View};
use wharf_sync::SyncPolicy;

use crate::check::{Demand, ensure, equal, refused};
use crate::{Check, Failure, Outcome, Report, Subject, Tally, run};

/// Holds the views of a backend to the behaviours of `wharf-segment`: what [`segment`](crate::segment) holds the segments to
/// that they are windows on. The backend must vend three segments of 16 bytes at a time, and nobody else use it meanwhile.
///
/// ```
/// use wharf_backend::StaticPool;
/// use wharf_conformance::view;
/// use wharf_sync::Unsync;
///
/// let mine = StaticPool::<Unsync, 16, 3>::new();
/// assert!(view("mine", &mine, &mut ()).is_clean());
/// ```
pub fn view<R>(name: &'static str, backend: R, report: &mut dyn Report) -> Tally
where
    R: BackendRef + Clone,
{
    let policy = <R::Policy as SyncPolicy>::NAME;
    run(
        Subject {
            policy,
            suite: "view",
            name,
        },
        &backend,
        &checks(),
        report,
    )
}

fn checks<R: BackendRef + Clone>() -> [Check<R>; 8] {
    [
        Check {
            name: "a view is split without a copy",
            run: |backend| settles(backend, splits),
        },
        Check {
            name: "a view gives up either end",
            run: |backend| settles(backend, shortens),
        },
        Check {
            name: "a cut out of bounds changes nothing",
            run: |backend| settles(backend, out_of_bounds),
        },
        Check {
            name: "neighbours are joined",
            run: |backend| settles(backend, joins),
        },
        Check {
            name: "chunks are all of a view",
            run: |backend| settles(backend, chunks),
        },
        Check {
            name: "the only view writes its window",
            run: |backend| settles(backend, writes),
        },
        Check {
            name: "views say what they keep",
            run: |backend| settles(backend, pinned),
        },
        Check {
            name: "a view is moved into as much as it shows",
            run: |backend| settles(backend, compacts),
        },
    ]
}

const LEN: usize = 16;
const BYTES: [u8; LEN] = *b"views are cheap.";

/// Units of its memory that are in use.
pub(crate) fn in_use<R: BackendRef>(backend: &R) -> usize {
    backend.backend().census().in_use
}

/// Runs `check`, after which all memory has gone back.
#[inline(never)]
pub(crate) fn settles<R: BackendRef>(backend: &R, check: impl FnOnce(&R) -> Outcome) -> Outcome {
    let before = in_use(backend);
    check(backend)?;
    Ok(equal("units in use afterwards", in_use(backend), before)?)
}

/// A segment of these bytes.
#[inline(never)]
pub(crate) fn segment<R: BackendRef + Clone>(
    backend: &R,
    bytes: &[u8],
) -> Result<SegmentMut<R>, Failure> {
    let segment = SegmentMut::alloc(backend.clone(), bytes.len()).demand("a segment")?;
    segment.init_from(bytes).demand("its bytes")
}

fn whole<R: BackendRef + Clone>(backend: &R) -> Result<View<R>, Failure> {
    segment(backend, &BYTES).map(View::from)
}

/// The view shows exactly these bytes, wherever they are.
#[inline(never)]
pub(crate) fn shows<R: BackendRef>(view: &View<R>, expected: &[u8]) -> Result<(), Failure> {
    equal("the length of a view", view.len(), expected.len())?;
    for (at, &expected) in expected.iter().enumerate() {
        let mut byte = [!expected];
        view.read(at, &mut byte).demand("a read")?;
        let [found] = byte;
        equal("a byte of a view", found, expected)?;
    }
    Ok(())
}

fn splits<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let mut rest = whole(backend)?;
    let during = in_use(backend);
    let first = rest.split_to(6).demand("the head")?;
    shows(&first, b"views ")?;
    shows(&rest, b"are cheap.")?;
    let last = rest.split_off(4).demand("the tail")?;
    shows(&rest, b"are ")?;
    shows(&last, b"cheap.")?;
    equal("where the tail starts in the segment", last.offset(), 10)?;
    let none = rest.split_to(0).demand("a head without bytes")?;
    ensure(none.is_empty(), "it has no bytes")?;
    drop(none);
    let none = rest.split_off(4).demand("a tail without bytes")?;
    ensure(none.is_empty(), "it has no bytes")?;
    shows(&rest, b"are ")?;
    equal("units in use: a cut takes none", in_use(backend), during)?;
    equal("holders", first.segment().holders(), 4)?;
    Ok(())
}

fn shortens<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let mut view = whole(backend)?;
    view.advance(6).demand("fewer at the front")?;
    shows(&view, b"are cheap.")?;
    view.truncate(9).demand("fewer at the end")?;
    shows(&view, b"are cheap")?;
    view.advance(4).demand("fewer at the front")?;
    shows(&view, b"cheap")?;
    equal("where it starts in the segment", view.offset(), 10)?;
    equal("holders: it counts nothing", view.segment().holders(), 1)?;
    view.advance(5).demand("none is left")?;
    ensure(view.is_empty(), "it has no bytes")?;
    view.truncate(0).demand("none of none")?;
    Ok(())
}

fn out_of_bounds<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let mut view = whole(backend)?;
    view.advance(6).demand("fewer at the front")?;
    for at in [
        11,
        LEN,
        isize::MAX.unsigned_abs(),
        usize::MAX - 5,
        usize::MAX,
    ] {
        let out = OutOfBounds {
            start: at,
            end: at,
            len: 10,
        };
        refused("an advance", view.advance(at), out)?;
        refused("a truncation", view.truncate(at), out)?;
        let head = OutOfBounds { start: 0, ..out };
        refused("a head", view.split_to(at).map(|_| ()), head)?;
        let tail = OutOfBounds { end: 10, ..out };
        refused("a tail", view.split_off(at).map(|_| ()), tail)?;
        let mut bytes = [7; 2];
        ensure(view.read(at, &mut bytes).is_err(), "a read is refused")?;
        ensure(bytes == [7; 2], "it leaves the buffer")?;
        shows(&view, b"are cheap.")?;
    }
    equal("holders", view.segment().holders(), 1)?;
    Ok(())
}

fn joins<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let (view, other) = (whole(backend)?, whole(backend)?);
    let slice = |start, end| view.slice(start..end).demand("a slice");
    let joined = slice(0, 5)?.join(slice(5, 9)?);
    let joined = joined
        .map_err(|refused| refused.error)
        .demand("two neighbours")?;
    shows(&joined, b"views are")?;
    equal("holders: two became one", view.segment().holders(), 2)?;
    let none = joined.join(slice(9, 9)?);
    let joined = none
        .map_err(|refused| refused.error)
        .demand("one without bytes")?;
    shows(&joined, b"views are")?;
    let refusal = joined.join(slice(10, 12)?).err().demand("no neighbours")?;
    let apart = JoinError::Apart { end: 9, start: 10 };
    refused("two apart", Err::<(), _>(refusal.error), apart)?;
    let (joined, next) = refusal.value;
    shows(&joined, b"views are")?;
    shows(&next, b"ch")?;
    let refusal = joined.join(other).err().demand("two segments")?;
    refused(
        "two segments",
        Err::<(), _>(refusal.error),
        JoinError::OtherSegment,
    )?;
    shows(&refusal.value.1, &BYTES)?;
    Ok(())
}

fn chunks<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let view = whole(backend)?.slice(1..).demand("a slice")?;
    let size = NonZeroUsize::new(6).demand("a size")?;
    let mut chunks = view.chunks(size);
    equal("how many", chunks.len(), 3)?;
    for expected in [b"iews a".as_slice(), b"re che", b"ap."] {
        let chunk = chunks.next().demand("a chunk")?;
        shows(&chunk, expected)?;
    }
    ensure(chunks.next().is_none(), "there is no more")?;
    equal("holders", view.segment().holders(), 1)?;
    Ok(())
}

fn writes<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let whole = whole(backend)?;
    let part = whole.slice(10..15).demand("a slice")?;
    let part = part.try_mut().err().demand("one of two may not write")?;
    shows(&part, b"cheap")?;
    drop(whole);
    let mut part = part.try_mut().ok().demand("the only one may")?;
    part.write(0, b"CH").demand("a write")?;
    part.fill(4, 1, b'P').demand("a fill")?;
    for offset in [4, 5, usize::MAX - 1, usize::MAX] {
        let out = wharf_backend::TransferError::OutOfBounds {
            offset,
            len: 2,
            size: 5,
        };
        refused("a write that leaves it", part.write(offset, b"XX"), out)?;
        refused("a fill that leaves it", part.fill(offset, 2, 0), out)?;
    }
    let on_host = backend.backend().space() == MemSpace::Host;
    ensure(
        part.host_mut().is_ok() == on_host,
        "host memory lends its bytes, and no other",
    )?;
    let part = part.freeze();
    shows(&part, b"CHeaP")?;
    let whole = View::from(part.into_segment());
    shows(&whole, b"views are CHeaP.")?;
    Ok(())
}

fn pinned<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let (first, second) = (whole(backend)?, whole(backend)?);
    let slice = |view: &View<R>, start, end| view.slice(start..end).demand("a slice");
    let parts = [
        slice(&first, 0, 3)?,
        slice(&second, 2, 4)?,
        slice(&first, 1, 6)?,
    ];
    let census = |shown, sole| Pinned {
        shown,
        kept: 2 * LEN,
        sole,
        segments: 2,
    };
    ensure(Pinned::of(&parts) == census(10, 0), "others keep them, too")?;
    drop(first);
    ensure(
        Pinned::of(&parts) == census(10, LEN),
        "these alone keep the first",
    )?;
    drop(second);
    ensure(
        Pinned::of(&parts) == census(10, 2 * LEN),
        "these alone keep both",
    )?;
    Ok(())
}

fn compacts<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let part = whole(backend)?.slice(10..15).demand("a slice")?;
    let compact = part.compact_into(backend.clone());
    let compact = compact
        .map_err(|refused| refused.error)
        .demand("a smaller segment")?;
    equal("its length", compact.len(), 5)?;
    let part = View::from(compact);
    shows(&part, b"cheap")?;
    let none = part.slice(5..).demand("an empty slice")?;
    drop(part);
    let refusal = none
        .compact_into(backend.clone())
        .err()
        .demand("nothing to move")?;
    refused(
        "a segment of nothing",
        Err::<(), _>(refusal.error),
        GatherError::Empty,
    )?;
    ensure(refusal.value.is_empty(), "the view comes back")?;
    Ok(())
}
