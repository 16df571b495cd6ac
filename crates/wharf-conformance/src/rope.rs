//! What ropes do, over every backend.

use wharf_backend::{BackendRef, SegmentMut};
use wharf_segment::{GatherError, OutOfBounds, PushError, ReadError, Rope, SliceError, View};
use wharf_source::{BlockSource, NullSource, StaticPoolSource};
use wharf_sync::{SyncPolicy, Unsync};

use crate::check::{Demand, ensure, equal, refused};
use crate::view::{in_use, segment, settles, shows};
use crate::{Check, Failure, Outcome, Report, Stop, Subject, Tally, run};

/// Holds the ropes of a backend's views to the behaviours of `wharf-segment`. The backend must vend four segments of 16 bytes at a
/// time, and nobody else use it meanwhile. It is tried to exhaustion, as long as fewer than 64 segments exhaust it.
///
/// ```
/// use wharf_backend::StaticPool;
/// use wharf_conformance::rope;
/// use wharf_sync::Unsync;
///
/// let mine = StaticPool::<Unsync, 16, 4>::new();
/// assert!(rope("mine", &mine, &mut ()).is_clean());
/// ```
pub fn rope<R>(name: &'static str, backend: R, report: &mut dyn Report) -> Tally
where
    R: BackendRef + Clone,
{
    let policy = <R::Policy as SyncPolicy>::NAME;
    run(
        Subject {
            policy,
            suite: "rope",
            name,
        },
        &backend,
        &checks(),
        report,
    )
}

fn checks<R: BackendRef + Clone>() -> [Check<R>; 11] {
    [
        Check {
            name: "a rope is its links",
            run: |backend| settles(backend, links),
        },
        Check {
            name: "what does not fit comes back",
            run: |backend| settles(backend, no_room),
        },
        Check {
            name: "links beyond the inline ones are the source's",
            run: |backend| settles(backend, spills),
        },
        Check {
            name: "a rope is concatenated, with itself too",
            run: |backend| settles(backend, concat),
        },
        Check {
            name: "a slice goes across links",
            run: |backend| settles(backend, slices),
        },
        Check {
            name: "a rope is cut anywhere",
            run: |backend| settles(backend, cuts),
        },
        Check {
            name: "a range out of bounds changes nothing",
            run: |backend| settles(backend, out_of_bounds),
        },
        Check {
            name: "a cursor reads across links",
            run: |backend| settles(backend, cursor),
        },
        Check {
            name: "the bytes are gathered into one segment",
            run: |backend| settles(backend, gathers),
        },
        Check {
            name: "a rope that cannot be gathered is as it was",
            run: |backend| settles(backend, gather_refused),
        },
        Check {
            name: "a rope that a device reads lands again",
            run: |backend| settles(backend, in_flight),
        },
    ]
}

/// A rope with room for eight links.
pub(crate) type Eight<R> = Rope<R, NullSource, 8>;

fn empty<R: BackendRef>() -> Eight<R> {
    Rope::with_inline(NullSource)
}

fn piece<R: BackendRef + Clone>(backend: &R, bytes: &[u8]) -> Result<View<R>, Failure> {
    segment(backend, bytes).map(View::from)
}

fn push<R: BackendRef>(rope: &mut Eight<R>, link: View<R>) -> Result<(), Failure> {
    let pushed = rope.push(link);
    pushed.map_err(|refused| refused.error).demand("a link")
}

/// "many pieces, one rope" in three links.
#[inline(never)]
pub(crate) fn three<R: BackendRef + Clone>(backend: &R) -> Result<Eight<R>, Failure> {
    let mut rope = empty();
    for bytes in [b"many pi".as_slice(), b"eces, o", b"ne rope"] {
        push(&mut rope, piece(backend, bytes)?)?;
    }
    Ok(rope)
}

pub(crate) const TEXT: [u8; 21] = *b"many pieces, one rope";

/// The rope has exactly these bytes.
#[inline(never)]
pub(crate) fn has<R: BackendRef, S: BlockSource, const N: usize>(
    rope: &Rope<R, S, N>,
    expected: &[u8],
) -> Result<(), Failure> {
    equal("the length of a rope", rope.len(), expected.len())?;
    for (at, &expected) in expected.iter().enumerate() {
        let mut byte = [!expected];
        rope.read(at, &mut byte).demand("a read")?;
        let [found] = byte;
        equal("a byte of a rope", found, expected)?;
    }
    ensure(
        rope.links().iter().all(|link| !link.is_empty()),
        "no link is empty",
    )
}

fn links<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let mut rope = three(backend)?;
    has(&rope, &TEXT)?;
    equal("links", rope.links().len(), 3)?;
    let mut places = rope.places();
    equal("places", places.len(), 3)?;
    let same = rope
        .links()
        .iter()
        .all(|link| places.next() == Some((link.place(), link.len())));
    ensure(same, "each place is that of its link")?;
    drop(places);
    // An empty view is no link, and neighbours are one.
    let whole = piece(backend, b"[]--")?;
    let slice = |start, end| whole.slice(start..end).demand("a slice");
    push(&mut rope, slice(1, 1)?)?;
    equal("links: an empty one is none", rope.links().len(), 3)?;
    push(&mut rope, slice(1, 2)?)?;
    push(&mut rope, slice(2, 4)?)?;
    equal("links: neighbours are one", rope.links().len(), 4)?;
    let front = rope
        .push_front(slice(0, 1)?)
        .map_err(|refused| refused.error);
    front.demand("a link in front")?;
    has(&rope, b"[many pieces, one rope]--")?;
    equal(
        "holders of the shared segment",
        whole.segment().holders(),
        3,
    )?;
    shows(&rope.pop_front().demand("the first link")?, b"[")?;
    shows(&rope.pop_back().demand("the last link")?, b"]--")?;
    has(&rope, &TEXT)?;
    rope.clear();
    ensure(
        rope.is_empty() && rope.links().is_empty(),
        "nothing is left",
    )?;
    ensure(rope.pop_front().is_none(), "there is no link")?;
    Ok(())
}

fn no_room<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let mut rope = Rope::new();
    let pushed = |rope: &mut Rope<R>, link| rope.push(link).map_err(|refused| refused.error);
    pushed(&mut rope, piece(backend, b"ab")?).demand("a first link")?;
    pushed(&mut rope, piece(backend, b"cd")?).demand("a second link")?;
    let refusal = rope.push(piece(backend, b"ef")?).err().demand("no third")?;
    ensure(
        matches!(refusal.error, PushError::NoRoom { links: 3, .. }),
        "it says for how many",
    )?;
    shows(&refusal.value, b"ef")?;
    let refusal = rope
        .push_front(refusal.value)
        .err()
        .demand("nor in front")?;
    shows(&refusal.value, b"ef")?;
    let mut other: Rope<R> = Rope::new();
    pushed(&mut other, refusal.value).demand("a link")?;
    ensure(
        rope.append(&mut other).is_err(),
        "nor those of another rope",
    )?;
    has(&rope, b"abcd")?;
    has(&other, b"ef")?;
    ensure(rope.concat(&other).is_err(), "nor both in a new one")?;
    ensure(
        rope.extend_from_links(other.links()).is_err(),
        "nor copies of them",
    )?;
    has(&rope, b"abcd")?;
    Ok(())
}

fn spills<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let source = StaticPoolSource::<Unsync, 1024, 1>::new();
    // Not so often, unless each gives back what it took.
    for _ in 0..8 {
        let mut rope: Rope<R, _> = Rope::with_source(&source);
        let inline = source.census().in_use;
        for bytes in [b"many pi".as_slice(), b"eces, o"] {
            let pushed = rope.push(piece(backend, bytes)?);
            pushed.map_err(|refused| refused.error).demand("a link")?;
        }
        let kept = source.census().in_use;
        equal("bytes of the source, for two links", kept, inline)?;
        let pushed = rope.push(piece(backend, b"ne rope")?);
        pushed
            .map_err(|refused| refused.error)
            .demand("a third link")?;
        ensure(source.census().in_use > 0, "the source has them")?;
        has(&rope, &TEXT)?;
    }
    Ok(())
}

fn concat<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let mut rope = three(backend)?;
    let during = in_use(backend);
    let twice = rope.concat(&rope).demand("a rope and itself")?;
    has(&twice, b"many pieces, one ropemany pieces, one rope")?;
    equal("links", twice.links().len(), 6)?;
    equal(
        "units in use: the bytes are shared",
        in_use(backend),
        during,
    )?;
    let first = rope.links().first().demand("a link")?;
    equal("holders of a link's segment", first.segment().holders(), 3)?;
    drop(twice);
    let links = rope.try_clone().demand("a clone")?;
    rope.extend_from_links(links.links())
        .demand("a rope behind itself")?;
    equal("its length", rope.len(), 42)?;
    let mut other = links;
    let mut all = empty();
    all.append(&mut rope).demand("its links")?;
    ensure(rope.is_empty(), "what was appended is empty")?;
    equal("bytes", all.len(), 42)?;
    let refusal = all.append(&mut other);
    ensure(refusal.is_err(), "eight places do not hold nine links")?;
    has(&other, &TEXT)?;
    Ok(())
}

fn slices<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let rope = three(backend)?;
    for start in 0..=TEXT.len() {
        for end in start..=TEXT.len() {
            let part = rope.slice(start..end).demand("a slice")?;
            has(&part, TEXT.get(start..end).unwrap_or_default())?;
        }
    }
    let part = rope.slice(5..16).demand("a slice")?;
    equal("links of a slice", part.links().len(), 3)?;
    drop(rope);
    has(&part.slice(1..=1).demand("a slice of a slice")?, b"i")?;
    has(&part, b"pieces, one")?;
    Ok(())
}

fn cuts<R: BackendRef + Clone>(backend: &R) -> Outcome {
    for at in [0, 1, 7, 9, 14, 20, 21] {
        let (head, tail) = TEXT.split_at(at);
        let mut rope = three(backend)?;
        let first = rope.split_to(at).demand("the head")?;
        has(&first, head)?;
        has(&rope, tail)?;
        drop((first, rope));
        let mut rope = three(backend)?;
        let last = rope.split_off(at).demand("the tail")?;
        has(&rope, head)?;
        has(&last, tail)?;
        drop((last, rope));
        let mut rope = three(backend)?;
        rope.advance(at).demand("fewer at the front")?;
        has(&rope, tail)?;
        drop(rope);
        let mut rope = three(backend)?;
        rope.truncate(at).demand("fewer at the end")?;
        has(&rope, head)?;
    }
    Ok(())
}

fn out_of_bounds<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let mut rope = three(backend)?;
    for at in [22, isize::MAX.unsigned_abs(), usize::MAX - 1, usize::MAX] {
        let out = OutOfBounds {
            start: at,
            end: at,
            len: 21,
        };
        let cut = SliceError::OutOfBounds(out);
        refused("a head", rope.split_to(at).map(|_| ()), cut)?;
        refused("a tail", rope.split_off(at).map(|_| ()), cut)?;
        refused("an advance", rope.advance(at), out)?;
        refused("a truncation", rope.truncate(at), out)?;
        let tail = SliceError::OutOfBounds(OutOfBounds { end: 21, ..out });
        refused("a slice", rope.slice(at..).map(|_| ()), tail)?;
        let mut bytes = [7; 2];
        let end = at.saturating_add(2);
        let read = ReadError::OutOfBounds(OutOfBounds { end, ..out });
        refused("a read", rope.read(at, &mut bytes), read)?;
        ensure(bytes == [7; 2], "it leaves the buffer")?;
        has(&rope, &TEXT)?;
    }
    Ok(())
}

fn cursor<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let rope = three(backend)?;
    let mut cursor = rope.cursor();
    let first: [u8; 4] = cursor.read_array().demand("four bytes")?;
    ensure(first == *b"many", "the first four")?;
    cursor.advance(1).demand("a step")?;
    let next: [u8; 11] = cursor.read_array().demand("eleven bytes")?;
    ensure(next == *b"pieces, one", "those across all links")?;
    equal("where it is", cursor.position(), 16)?;
    equal("what is left", cursor.remaining(), 5)?;
    let refusal = cursor.read_array::<6>();
    let out = ReadError::OutOfBounds(OutOfBounds {
        start: 16,
        end: 22,
        len: 21,
    });
    refused("one more than there is", refusal, out)?;
    let far = OutOfBounds {
        start: 16,
        end: usize::MAX,
        len: 21,
    };
    refused("a step that wraps", cursor.advance(usize::MAX), far)?;
    equal("where it is still", cursor.position(), 16)?;
    cursor.seek(7).demand("back to a link's start")?;
    let back: [u8; 5] = cursor.read_array().demand("five bytes")?;
    ensure(back == *b"eces,", "the bytes from there")?;
    cursor.seek(21).demand("the end")?;
    equal("what is left", cursor.remaining(), 0)?;
    Ok(())
}

fn gathers<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let mut rope = three(backend)?;
    rope.truncate(16).demand("as much as fits")?;
    let gathered = rope.gather(backend.clone()).demand("one segment")?;
    equal("its length", gathered.len(), 16)?;
    shows(&View::from(gathered), b"many pieces, one")?;
    has(&rope, b"many pieces, one")?;
    let part = rope.slice(1..3).demand("a slice of one link")?;
    let during = in_use(backend);
    let one = part.materialise(backend.clone()).demand("one view")?;
    equal(
        "units in use: of one link there is no copy",
        in_use(backend),
        during,
    )?;
    shows(&one, b"an")?;
    let part = rope.slice(4..9).demand("a slice of two links")?;
    let one = part.materialise(backend.clone()).demand("one view")?;
    shows(&one, b" piec")?;
    Ok(())
}

/// Of the three causes, the two that a backend which works can give.
fn gather_refused<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let before = in_use(backend);
    let none = empty::<R>().gather(backend.clone()).map(|_| ());
    refused("a segment of nothing", none, GatherError::Empty)?;
    equal("units in use", in_use(backend), before)?;
    let rope = three(backend)?;
    let mut held: [Option<SegmentMut<R>>; 64] = [const { None }; 64];
    let exhausted = held.iter_mut().any(|place| {
        *place = segment(backend, &[0; 16]).ok();
        place.is_none()
    });
    if !exhausted {
        return Err(Stop::Inapplicable("it vends 64 segments and more"));
    }
    let during = in_use(backend);
    let part = rope.slice(..16).demand("as much as fits")?;
    let refusal = part
        .gather(backend.clone())
        .err()
        .demand("no memory for it")?;
    ensure(
        matches!(refusal, GatherError::Refused(_)),
        "it is for want of memory",
    )?;
    equal("units in use", in_use(backend), during)?;
    has(&part, b"many pieces, one")?;
    has(&rope, &TEXT)?;
    Ok(())
}

fn in_flight<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let rope = three(backend)?.hand_over();
    // It may be read meanwhile.
    has(&rope, &TEXT)?;
    let mut rope = rope.land();
    rope.truncate(4).demand("fewer at the end")?;
    has(&rope, b"many")?;
    // And dropped as it is.
    drop(rope.hand_over());
    Ok(())
}
