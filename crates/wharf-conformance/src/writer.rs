//! Segments that are filled from their first byte on.
#![allow(
    unsafe_code,
    reason = "says of bytes that were just written that they are"
)]

use core::fmt::Write as _;
use core::mem::MaybeUninit;

use wharf_backend::{
    BackendRef, Caps, HostBackend, MemBackend, NoRoom, ReadFromError, SegmentMut, SegmentWriter,
    VendsUninit,
};
use wharf_sync::SyncPolicy;

use crate::check::{Demand, ensure, equal};
use crate::view::{in_use, settles};
use crate::{Check, Failure, Outcome, Report, Subject, Tally, run};

/// Holds the writers of a backend's segments to the behaviours of [`SegmentWriter`]. The backend must vend a segment of 16 bytes, and
/// nobody else use it meanwhile.
///
/// ```
/// use wharf_backend::StaticPool;
/// use wharf_conformance::writer;
/// use wharf_sync::Unsync;
///
/// let mine = StaticPool::<Unsync, 16, 1>::new();
/// assert!(writer("mine", &mine, &mut ()).is_clean());
/// ```
pub fn writer<R>(name: &'static str, backend: R, report: &mut dyn Report) -> Tally
where
    R: BackendRef + Clone,
    R::Backend: HostBackend,
{
    run(subject::<R>("writer", name), &backend, &checks(), report)
}

/// Holds a backend to what [`VendsUninit`] promises: its fresh segments may be written as raw memory. It must vend a segment of
/// 16 bytes, and nobody else use it meanwhile.
///
/// ```
/// use wharf_backend::StaticPool;
/// use wharf_conformance::vends_uninit;
/// use wharf_sync::Unsync;
///
/// let mine = StaticPool::<Unsync, 16, 1>::new();
/// assert!(vends_uninit("mine", &mine, &mut ()).is_clean());
/// ```
pub fn vends_uninit<R>(name: &'static str, backend: R, report: &mut dyn Report) -> Tally
where
    R: BackendRef + Clone,
    R::Backend: VendsUninit,
{
    let checks = [
        Check {
            name: "nobody counts on the values of a fresh segment",
            run: |backend: &R| {
                let initialised = backend.backend().caps().contains(Caps::VENDS_INITIALISED);
                Ok(ensure(!initialised, "it vends no values")?)
            },
        },
        Check {
            name: "raw memory is written, and said to be",
            run: |backend| settles(backend, raw),
        },
    ];
    run(
        subject::<R>("vends uninit", name),
        &backend,
        &checks,
        report,
    )
}

pub(crate) fn subject<R: BackendRef>(suite: &'static str, name: &'static str) -> Subject {
    let policy = <R::Policy as SyncPolicy>::NAME;
    Subject {
        policy,
        suite,
        name,
    }
}

fn checks<R>() -> [Check<R>; 4]
where
    R: BackendRef + Clone,
    R::Backend: HostBackend,
{
    [
        Check {
            name: "what is written is there, and no more",
            run: |backend| settles(backend, appends),
        },
        Check {
            name: "what there is no room for is not written",
            run: |backend| settles(backend, no_room),
        },
        Check {
            name: "a reader is lent what is left",
            run: |backend| settles(backend, reads),
        },
        Check {
            name: "what was not written is zero",
            run: |backend| settles(backend, padded),
        },
    ]
}

const LEN: usize = 16;

#[inline(never)]
fn fresh<R>(backend: &R) -> Result<SegmentWriter<R>, Failure>
where
    R: BackendRef + Clone,
    R::Backend: HostBackend,
{
    // So that there are values from before in it.
    let used = SegmentMut::alloc(backend.clone(), LEN).demand("a segment")?;
    drop(used.filled(0xA5).demand("a fill")?);
    let fresh = SegmentMut::alloc(backend.clone(), LEN).demand("a segment")?;
    let writer = fresh.writer();
    equal("its capacity", writer.capacity(), LEN)?;
    Ok(writer)
}

/// So much is written, and the rest is room.
#[inline(never)]
fn has<R>(writer: &SegmentWriter<R>, expected: &[u8]) -> Result<(), Failure>
where
    R: BackendRef,
    R::Backend: HostBackend,
{
    equal("bytes written", writer.len(), expected.len())?;
    equal(
        "the room",
        writer.room(),
        LEN.saturating_sub(expected.len()),
    )?;
    ensure(writer.is_empty() == expected.is_empty(), "none are none")?;
    ensure(writer.written() == expected, "it has what was written")
}

/// The whole segment, with zeros behind what was written.
#[inline(never)]
fn pads<R>(writer: SegmentWriter<R>, written: &[u8]) -> Result<(), Failure>
where
    R: BackendRef,
    R::Backend: HostBackend,
{
    let (segment, len) = writer.finish_padded();
    equal("bytes written", len, written.len())?;
    equal("its length", segment.len(), LEN)?;
    let mut found = [0x77; LEN];
    segment.read(0, &mut found).demand("a read")?;
    let expected = written.iter().copied().chain(core::iter::repeat(0));
    for (found, expected) in found.into_iter().zip(expected) {
        equal("a byte of the segment", found, expected)?;
    }
    Ok(())
}

fn appends<R>(backend: &R) -> Outcome
where
    R: BackendRef + Clone,
    R::Backend: HostBackend,
{
    let mut writer = fresh(backend)?;
    let during = in_use(backend);
    has(&writer, b"")?;
    writer.append(b"fra").ok().demand("room")?;
    writer.push(b'm').ok().demand("room")?;
    writer.append(b"").ok().demand("room for none")?;
    has(&writer, b"fram")?;
    writer.extend(*b"es ").ok().demand("room")?;
    equal("some", writer.append_some(b"are"), 3)?;
    write!(writer, " {}", 12).ok().demand("room for text")?;
    has(&writer, b"frames are 12")?;
    writer.truncate(LEN);
    has(&writer, b"frames are 12")?;
    writer.truncate(6);
    has(&writer, b"frames")?;
    if let Some(first) = writer.written_mut().first_mut() {
        *first = b'F';
    }
    equal("some", writer.append_some(b" go somewhere"), 10)?;
    has(&writer, b"Frames go somewh")?;
    equal("units in use: it takes no more", in_use(backend), during)?;
    // Given back as it came, or dropped, it is nobody's.
    let fresh = writer.into_uninit();
    equal("its length", fresh.len(), LEN)?;
    drop(fresh.writer());
    Ok(())
}

fn no_room<R>(backend: &R) -> Outcome
where
    R: BackendRef + Clone,
    R::Backend: HostBackend,
{
    let mut writer = fresh(backend)?;
    let too_much = |asked, room| Err(NoRoom { asked, room });
    let whole = [b'x'; LEN + 1];
    ensure(
        writer.append(&whole) == too_much(LEN + 1, LEN),
        "more than the segment is refused",
    )?;
    has(&writer, b"")?;
    writer.append(b"fourteen bytes").ok().demand("room")?;
    ensure(
        writer.append(b"one") == too_much(3, 2),
        "one byte too many is refused",
    )?;
    ensure(write!(writer, "one").is_err(), "text is refused, too")?;
    has(&writer, b"fourteen bytes")?;
    ensure(
        writer.extend(*b"-!?") == too_much(3, 2),
        "an iterator is told where it ended",
    )?;
    has(&writer, b"fourteen bytes-!")?;
    ensure(writer.push(0) == too_much(1, 0), "there is no room")?;
    equal("some of it", writer.append_some(b"x"), 0)?;
    // SAFETY: it is refused: nothing is said to be written.
    let advanced = unsafe { writer.advance(1) };
    ensure(advanced == too_much(1, 0), "nor to be advanced")?;
    has(&writer, b"fourteen bytes-!")?;
    pads(writer, b"fourteen bytes-!")?;
    Ok(())
}

fn reads<R>(backend: &R) -> Outcome
where
    R: BackendRef + Clone,
    R::Backend: HostBackend,
{
    let mut writer = fresh(backend)?;
    writer.append(b"> ").ok().demand("room")?;
    let read = writer.read_from(|room| {
        let zero = room.len() == LEN - 2 && room.iter().all(|&byte| byte == 0);
        for (byte, from) in room.iter_mut().zip(b"line, and more") {
            *byte = *from;
        }
        if zero { Ok(4) } else { Err(()) }
    });
    ensure(
        read == Ok(4),
        "it is lent zeros, as many as there is room for",
    )?;
    has(&writer, b"> line")?;
    let read = writer.read_from(|_| Err(7));
    ensure(
        read == Err(ReadFromError::Reader(7)),
        "what it fails with is told",
    )?;
    let claims = NoRoom {
        asked: LEN - 5,
        room: LEN - 6,
    };
    let read = writer.read_from(|_| Ok::<_, ()>(LEN - 5));
    ensure(
        read == Err(ReadFromError::Claimed(claims)),
        "it claims no more than it was lent",
    )?;
    has(&writer, b"> line")?;
    // What a reader has left behind what it claimed is not there.
    pads(writer, b"> line")?;
    Ok(())
}

fn padded<R>(backend: &R) -> Outcome
where
    R: BackendRef + Clone,
    R::Backend: HostBackend,
{
    let bytes = *b"a padded segment";
    for len in [0, 1, 6, LEN - 1, LEN] {
        let some = bytes.get(..len).unwrap_or_default();
        let mut writer = fresh(backend)?;
        writer.append(some).ok().demand("room")?;
        pads(writer, some)?;
        // What was taken back is not there, either.
        let mut writer = fresh(backend)?;
        writer.append(&bytes).ok().demand("room")?;
        writer.truncate(len);
        pads(writer, some)?;
    }
    Ok(())
}

fn raw<R>(backend: &R) -> Outcome
where
    R: BackendRef + Clone,
    R::Backend: VendsUninit,
{
    let mut writer = fresh(backend)?;
    writer.append(b"raw ").ok().demand("room")?;
    let room = writer.unwritten();
    equal("the room", room.len(), LEN - 4)?;
    for (place, byte) in room.iter_mut().zip(b"memory") {
        place.write(*byte);
    }
    has(&writer, b"raw ")?;
    // SAFETY: they were just written.
    let advanced = unsafe { writer.advance(6) };
    advanced.ok().demand("room for what was written")?;
    has(&writer, b"raw memory")?;
    // What a reader was lent may lose its values again: the next one is lent zeros.
    let read = writer.read_from(|room| {
        room.fill(0xEE);
        Ok::<_, ()>(0)
    });
    ensure(read == Ok(0), "a reader that reads nothing")?;
    writer.unwritten().fill(MaybeUninit::uninit());
    let read = writer.read_from(|room| match room.iter().all(|&byte| byte == 0) {
        true => Ok(1),
        false => Err(()),
    });
    ensure(read == Ok(1), "the next reader is lent zeros again")?;
    pads(writer, b"raw memory\0")?;

    let mut segment = SegmentMut::alloc(backend.clone(), LEN).demand("a segment")?;
    segment
        .as_uninit_mut()
        .write_copy_of_slice(b"a whole segment!");
    // SAFETY: all of it was just written.
    let segment = unsafe { segment.assume_init() };
    let mut found = [0; LEN];
    segment.read(0, &mut found).demand("a read")?;
    ensure(found == *b"a whole segment!", "it has what was written")?;
    Ok(())
}
