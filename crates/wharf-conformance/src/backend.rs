//! What every backend does.
//!
//! Bytes are moved by transfers wherever the segments are, so that the same checks hold a device's memory to
//! account; slices are borrowed only where the backend says that it is host memory.
#![allow(unsafe_code, reason = "puts segments together again")]

use core::ptr::NonNull;

use wharf_backend::{
    AllocError, AllocHint, BackendRef, Caps, Header, MemBackend, MemSpace, Place, SegmentMut,
    State, TransferError, Uninit,
};
use wharf_sync::SyncPolicy;

use crate::check::{Demand, applies, ensure, equal, refused};
use crate::{Check, Failure, Outcome, Report, Stop, Subject, Tally, run};

/// Holds a backend to the laws of `wharf-backend`.
///
/// `backend` is however its segments keep it: a borrow, a `&'static`, an `Arc`. Give it one that nobody else
/// uses meanwhile; every segment goes back to it, and the suite says so if one does not. What a backend does not
/// claim (a census, host memory, segments at all) is inapplicable and counts neither way.
///
/// Exhaustion is tried with segments of the largest size, as long as fewer than 64 of them exhaust it.
pub fn backend<R>(name: &'static str, backend: R, report: &mut dyn Report) -> Tally
where
    R: BackendRef + Clone,
    R::Backend: Sized,
{
    let policy = <R::Policy as SyncPolicy>::NAME;
    // Through `dyn`, so that an image holds the suite once a policy and not once a backend.
    let target = Target {
        backend: backend.backend() as Erased<'_, R::Policy>,
        typed: &|| typed(&backend),
    };
    run(Subject { policy, name }, &target, &checks(), report)
}

type Erased<'b, P> = &'b dyn MemBackend<Policy = P>;

struct Target<'b, P> {
    backend: Erased<'b, P>,
    /// The same backend with its type known, on the way that its users take.
    typed: &'b dyn Fn() -> Outcome,
}

fn checks<'b, P: SyncPolicy>() -> [Check<Target<'b, P>>; 20] {
    [
        Check {
            name: "it says what it is",
            run: |target| facts(&target.backend),
        },
        Check {
            name: "who vends nothing says so",
            run: |target| vends_nothing(&target.backend),
        },
        Check {
            name: "it vends every size",
            run: |target| every_size(&target.backend),
        },
        Check {
            name: "a larger segment is refused as too large",
            run: |target| too_large(&target.backend),
        },
        Check {
            name: "asking why counts nothing",
            run: |target| asking_why(&target.backend),
        },
        Check {
            name: "segments are aligned",
            run: |target| aligned(&target.backend),
        },
        Check {
            name: "segments do not overlap",
            run: |target| apart(&target.backend),
        },
        Check {
            name: "a segment keeps its bytes while others come and go",
            run: |target| undisturbed(&target.backend),
        },
        Check {
            name: "a dropped segment goes back",
            run: |target| drop_returns(&target.backend),
        },
        Check {
            name: "segments are used again",
            run: |target| recycled(&target.backend),
        },
        Check {
            name: "a peak never falls",
            run: |target| peak(&target.backend),
        },
        Check {
            name: "exhaustion is a value",
            run: |target| exhaustion(&target.backend),
        },
        Check {
            name: "a transfer moves its range and no other",
            run: |target| ranges(&target.backend),
        },
        Check {
            name: "a transfer out of bounds moves nothing",
            run: |target| out_of_bounds(&target.backend),
        },
        Check {
            name: "a segment is filled by exactly its bytes",
            run: |target| exact_fill(&target.backend),
        },
        Check {
            name: "initialised bytes can be read",
            run: |target| initialised(&target.backend),
        },
        Check {
            name: "host memory is where it says",
            run: |target| host_agrees(&target.backend),
        },
        Check {
            name: "a segment is taken apart and put together",
            run: |target| raw_round_trip(&target.backend),
        },
        Check {
            name: "a foreign pointer is refused",
            run: |target| foreign(&target.backend),
        },
        Check {
            name: "it is the same with its type known",
            run: |target| (target.typed)(),
        },
    ]
}

/// Segments that a check holds at most.
const MOST_HELD: usize = 64;

/// No segment is filled beyond this size: some backends vend more than the host has.
const MOST_STAMPED: usize = 4096;

const VENDS_NOTHING: &str = "it vends nothing";

fn vends<R: BackendRef>(backend: &R) -> Outcome {
    applies(max(backend) > 0, VENDS_NOTHING)
}

fn max<R: BackendRef>(backend: &R) -> usize {
    backend.backend().max_segment_size()
}

fn small<R: BackendRef>(backend: &R) -> usize {
    max(backend).min(24)
}

fn counts<R: BackendRef>(backend: &R) -> bool {
    backend.backend().census().unit != 0
}

#[inline(never)]
fn alloc<R: BackendRef + Clone>(
    backend: &R,
    size: usize,
) -> Result<SegmentMut<R, Uninit>, Failure> {
    let segment = SegmentMut::alloc(backend.clone(), size).demand("a segment")?;
    equal("its length", segment.len(), size)?;
    Ok(segment)
}

/// The bytes that belong at `offset` of a segment stamped with `seed`.
fn pattern(seed: u8, offset: usize) -> u8 {
    // Its period is prime, so that no power of two hides a shift.
    let [low, ..] = (offset % 251).to_le_bytes();
    low.wrapping_mul(3).wrapping_add(seed.wrapping_mul(67))
}

const CHUNK: usize = 32;

/// Offsets and lengths that cover `len` bytes in pieces.
fn pieces(len: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..len)
        .step_by(CHUNK)
        .map(move |offset| (offset, CHUNK.min(len.saturating_sub(offset))))
}

fn expected(seed: u8, offset: usize) -> [u8; CHUNK] {
    core::array::from_fn(|index| pattern(seed, offset.wrapping_add(index)))
}

/// Fills a segment with what only this seed leaves there.
#[inline(never)]
fn stamp<R: BackendRef>(
    segment: SegmentMut<R, Uninit>,
    seed: u8,
) -> Result<SegmentMut<R>, Failure> {
    let mut segment = segment.filled(0).demand("a fill")?;
    write_pattern(&mut segment, seed)?;
    Ok(segment)
}

#[inline(never)]
fn write_pattern<R: BackendRef>(segment: &mut SegmentMut<R>, seed: u8) -> Result<(), Failure> {
    for (offset, len) in pieces(segment.len()) {
        let bytes = expected(seed, offset);
        let bytes = bytes.get(..len).unwrap_or_default();
        segment.write(offset, bytes).demand("a write")?;
    }
    Ok(())
}

#[inline(never)]
fn verify<R: BackendRef>(segment: &SegmentMut<R>, seed: u8) -> Result<(), Failure> {
    for (offset, len) in pieces(segment.len()) {
        let mut found = [!pattern(seed, offset); CHUNK];
        let found = found.get_mut(..len).unwrap_or_default();
        segment.read(offset, found).demand("a read")?;
        for (&mut found, expected) in found.iter_mut().zip(expected(seed, offset)) {
            equal("a byte that only its owner wrote", found, expected)?;
        }
    }
    Ok(())
}

fn address(place: Place) -> u64 {
    match place {
        Place::Host(base) => base.addr().get() as u64,
        Place::Device(base) => base.get(),
    }
}

#[inline(never)]
fn placed<R: BackendRef, S: State>(segment: &SegmentMut<R, S>) -> Result<(), Failure> {
    let backend = segment.backend();
    let place = segment.place();
    ensure(
        place.space() == backend.space(),
        "it is in the backend's space",
    )?;
    let align = backend.alignment().max(1) as u64;
    equal("its misalignment", address(place) % align, 0)?;
    Ok(())
}

fn facts<R: BackendRef>(backend: &R) -> Outcome {
    let backend = backend.backend();
    ensure(!backend.name().is_empty(), "the name has letters")?;
    let align = backend.alignment();
    ensure(align.is_power_of_two(), "the alignment is a power of two")?;
    let same = backend.caps() == backend.caps() && backend.space() == backend.space();
    ensure(same, "facts do not change")?;
    let census = backend.census();
    let within = census.capacity == 0 || census.peak <= census.capacity;
    ensure(within, "the peak is within the capacity")?;
    ensure(
        census.in_use <= census.peak,
        "the peak is never below the use",
    )?;
    Ok(())
}

fn vends_nothing<R: BackendRef + Clone>(backend: &R) -> Outcome {
    applies(max(backend) == 0, "it vends segments")?;
    for size in [0, 1, 64] {
        let answer = SegmentMut::alloc(backend.clone(), size);
        refused("a segment", answer, AllocError::Unsupported)?;
    }
    Ok(())
}

fn every_size<R: BackendRef + Clone>(backend: &R) -> Outcome {
    vends(backend)?;
    let most = max(backend).min(MOST_STAMPED);
    let edges = (6..=12).flat_map(|bits| {
        let power = 1_usize << bits;
        [power - 1, power, power + 1]
    });
    for size in (0..=64).chain(edges).chain([most]) {
        if size > most {
            continue;
        }
        let segment = alloc(backend, size)?;
        ensure(segment.is_empty() == (size == 0), "no bytes are none")?;
        placed(&segment)?;
        let segment = stamp(segment, 1)?;
        verify(&segment, 1)?;
    }
    Ok(())
}

/// A refusal is counted once, in the bytes that were asked for.
fn counted<R: BackendRef + Clone>(
    backend: &R,
    size: usize,
    answer: impl FnOnce() -> Result<SegmentMut<R, Uninit>, AllocError>,
) -> Result<AllocError, Failure> {
    let before = backend.backend().census();
    let Err(error) = answer() else {
        return Err(Failure::new("it is refused"));
    };
    let after = backend.backend().census();
    if counts(backend) {
        equal("refusals", after.refused, before.refused.saturating_add(1))?;
        let largest = before.largest_refused.max(size);
        equal("the largest refused", after.largest_refused, largest)?;
    }
    equal("units in use", after.in_use, before.in_use)?;
    equal("most units in use", after.peak, before.peak)?;
    Ok(error)
}

fn too_large<R: BackendRef + Clone>(backend: &R) -> Outcome {
    vends(backend)?;
    let max = max(backend);
    let one_more = max.saturating_add(1);
    // The largest of them is neither the first nor the last.
    let sizes = [usize::MAX / 2 + 1, usize::MAX - 15, usize::MAX, one_more];
    for requested in sizes {
        if requested <= max {
            continue;
        }
        let vend = || SegmentMut::alloc(backend.clone(), requested);
        let error = counted(backend, requested, vend)?;
        let expected = AllocError::TooLarge { requested, max };
        refused("the refusal", Err::<(), _>(error), expected)?;
    }
    drop(alloc(backend, small(backend))?);
    Ok(())
}

fn asking_why<R: BackendRef>(backend: &R) -> Outcome {
    let backend = backend.backend();
    let before = backend.census();
    for size in [usize::MAX, backend.max_segment_size(), 1] {
        let _ = backend.refusal(size, AllocHint::NONE);
    }
    ensure(backend.census() == before, "the census stays")?;
    Ok(())
}

/// Up to eight segments of odd sizes at once; as many as there are, at least one.
#[inline(never)]
fn held<R: BackendRef + Clone>(backend: &R) -> Result<[Option<SegmentMut<R, Uninit>>; 8], Failure> {
    let mut held = [const { None }; 8];
    for (place, size) in held.iter_mut().zip([1, 3, 13, 24, 31, 40, 57, 64]) {
        match SegmentMut::alloc(backend.clone(), size.min(max(backend))) {
            Ok(segment) => *place = Some(segment),
            Err(refusal) if refusal.may_pass() => break,
            Err(error) => return Err(Failure::refused("a small segment", error.into())),
        }
    }
    ensure(
        held.iter().flatten().count() > 0,
        "at least one segment fits",
    )?;
    Ok(held)
}

fn aligned<R: BackendRef + Clone>(backend: &R) -> Outcome {
    vends(backend)?;
    for segment in held(backend)?.iter().flatten() {
        placed(segment)?;
    }
    Ok(())
}

fn apart<R: BackendRef + Clone>(backend: &R) -> Outcome {
    vends(backend)?;
    let mut stamped = [const { None }; 8];
    for ((place, segment), seed) in stamped.iter_mut().zip(held(backend)?).zip(0..) {
        if let Some(segment) = segment {
            *place = Some(stamp(segment, seed)?);
        }
    }
    for (segment, seed) in stamped.iter().zip(0..) {
        if let Some(segment) = segment {
            verify(segment, seed)?;
        }
    }
    // And by the numbers, which also tell of an overlap that the pattern would hide.
    for (index, one) in stamped.iter().enumerate() {
        for other in stamped.iter().skip(index + 1) {
            if let (Some(one), Some(other)) = (one, other) {
                let span = |segment: &SegmentMut<R>| {
                    let start = address(segment.place());
                    (start, start.saturating_add(segment.len() as u64))
                };
                let ((start, end), (other_start, other_end)) = (span(one), span(other));
                let apart = end <= other_start || other_end <= start;
                ensure(apart, "their places do not overlap")?;
            }
        }
    }
    Ok(())
}

fn undisturbed<R: BackendRef + Clone>(backend: &R) -> Outcome {
    vends(backend)?;
    let kept = stamp(alloc(backend, small(backend))?, 99)?;
    for seed in 0..8 {
        match SegmentMut::alloc(backend.clone(), max(backend).min(MOST_STAMPED)) {
            Ok(passing) => drop(stamp(passing, seed)?),
            Err(refusal) if refusal.may_pass() => {
                return Err(Stop::Inapplicable("it vends one segment"));
            }
            Err(error) => return Err(Failure::refused("a second segment", error.into()).into()),
        }
    }
    verify(&kept, 99)?;
    Ok(())
}

fn drop_returns<R: BackendRef + Clone>(backend: &R) -> Outcome {
    vends(backend)?;
    applies(counts(backend), "it counts nothing")?;
    let before = backend.backend().census();
    let uninit = alloc(backend, small(backend))?;
    let during = backend.backend().census();
    ensure(during.in_use > before.in_use, "a segment is in use")?;
    let bytes = during.bytes_in_use().saturating_sub(before.bytes_in_use());
    ensure(
        bytes >= uninit.len(),
        "the bytes in use are at least those of the segment",
    )?;
    ensure(
        during.peak >= during.in_use,
        "the peak is never below the use",
    )?;
    drop(uninit);
    let back = backend.backend().census().in_use;
    equal(
        "units in use, after one was dropped unused",
        back,
        before.in_use,
    )?;
    drop(stamp(alloc(backend, 0)?, 0)?);
    let back = backend.backend().census().in_use;
    equal(
        "units in use, after an empty one was dropped",
        back,
        before.in_use,
    )?;
    let all = held(backend)?;
    let during = backend.backend().census();
    let live = all.iter().flatten().count();
    let taken = during.in_use.saturating_sub(before.in_use);
    ensure(taken >= live, "every live segment is in use")?;
    drop(all);
    let after = backend.backend().census();
    equal(
        "units in use, after all were dropped",
        after.in_use,
        before.in_use,
    )?;
    equal("the capacity", after.capacity, before.capacity)?;
    Ok(())
}

fn recycled<R: BackendRef + Clone>(backend: &R) -> Outcome {
    vends(backend)?;
    let before = backend.backend().census();
    let rounds = before.capacity.saturating_mul(2).clamp(32, 512);
    for _ in 0..rounds {
        drop(alloc(backend, small(backend))?);
    }
    let after = backend.backend().census();
    equal("units in use", after.in_use, before.in_use)?;
    equal("refusals", after.refused, before.refused)?;
    Ok(())
}

fn peak<R: BackendRef + Clone>(backend: &R) -> Outcome {
    vends(backend)?;
    applies(counts(backend), "it counts nothing")?;
    let all = held(backend)?;
    let high = backend.backend().census();
    drop(all);
    for _ in 0..8 {
        drop(alloc(backend, small(backend))?);
    }
    let after = backend.backend().census();
    equal("the peak, after fewer were in use", after.peak, high.peak)?;
    drop(held(backend)?);
    let after = backend.backend().census();
    equal("the peak, after as many were in use", after.peak, high.peak)?;
    Ok(())
}

fn exhaustion<R: BackendRef + Clone>(backend: &R) -> Outcome {
    vends(backend)?;
    let max = max(backend);
    let fill = || {
        let mut held = [const { None::<SegmentMut<R, Uninit>> }; MOST_HELD];
        let mut count = 0_usize;
        for place in &mut held {
            let Ok(segment) = SegmentMut::alloc(backend.clone(), max) else {
                break;
            };
            *place = Some(segment);
            count += 1;
        }
        (held, count)
    };
    let before = backend.backend().census();
    let (mut all, count) = fill();
    if count == MOST_HELD {
        return Err(Stop::Inapplicable(
            "64 of its largest segments do not exhaust it",
        ));
    }
    let vend = || SegmentMut::alloc(backend.clone(), max);
    let error = counted(backend, max, vend)?;
    let named = match error {
        AllocError::Exhausted {
            requested,
            in_use,
            capacity,
        } => {
            ensure(in_use <= capacity, "no more is in use than there is")?;
            requested
        }
        AllocError::OutOfMemory {
            requested,
            available,
            largest_free,
            ..
        } => {
            let part = largest_free <= available;
            ensure(part, "no free range is longer than all of them")?;
            ensure(largest_free < max, "no free range would have done")?;
            requested
        }
        AllocError::Heap { requested } => requested,
        error => {
            return Err(Failure::refused("exhaustion is told by its name", error.into()).into());
        }
    };
    equal("the bytes it names", named, max)?;
    let served = count > 0 || matches!(error, AllocError::Heap { .. });
    ensure(served, "at least one segment of the largest size fits")?;
    if counts(backend) {
        let census = backend.backend().census();
        let within = census.capacity == 0 || census.in_use <= census.capacity;
        ensure(within, "no more is in use than there is")?;
        ensure(
            census.peak >= census.in_use,
            "the peak is never below the use",
        )?;
    }
    if let Some(first) = all.first_mut().and_then(Option::take) {
        drop(first);
        drop(alloc(backend, max)?);
    }
    // Every other one first, so that they do not come back in the order in which they went.
    for place in all.iter_mut().step_by(2) {
        *place = None;
    }
    drop(all);
    equal(
        "units in use",
        backend.backend().census().in_use,
        before.in_use,
    )?;
    let (all, again) = fill();
    drop(all);
    equal("segments, once all have come back", again, count)?;
    Ok(())
}

fn ranges<R: BackendRef + Clone>(backend: &R) -> Outcome {
    vends(backend)?;
    let size = max(backend).min(40);
    let mut segment = stamp(alloc(backend, size)?, 7)?;
    let (start, len) = (size / 4, size / 2);
    segment.fill(start, len, 0xEE).demand("a fill")?;
    let mut bytes = [0_u8; 40];
    let bytes = bytes.get_mut(..size).unwrap_or_default();
    segment.read(0, bytes).demand("a read")?;
    for (index, &mut found) in bytes.iter_mut().enumerate() {
        let filled = index >= start && index - start < len;
        let expected = if filled { 0xEE } else { pattern(7, index) };
        equal("a byte around a fill", found, expected)?;
    }
    // Byte by byte from the end: every offset, and lengths of one and none.
    for offset in (0..size).rev() {
        segment
            .write(offset, &[pattern(9, offset)])
            .demand("a write")?;
        segment.write(offset, &[]).demand("a write of nothing")?;
        segment.fill(offset, 0, 1).demand("a fill of nothing")?;
    }
    verify(&segment, 9)?;
    for offset in 0..=size {
        let mut rest = [0_u8; 40];
        let rest = rest.get_mut(..size - offset).unwrap_or_default();
        segment.read(offset, rest).demand("a read up to the end")?;
        for (index, &mut found) in rest.iter_mut().enumerate() {
            equal("a byte of the rest", found, pattern(9, offset + index))?;
        }
    }
    Ok(())
}

fn out_of_bounds<R: BackendRef + Clone>(backend: &R) -> Outcome {
    vends(backend)?;
    let size = small(backend);
    let mut segment = stamp(alloc(backend, size)?, 3)?;
    let mut host = [0xAA_u8; 32];
    let beyond = [
        (size, 1),
        (size - 1, 2),
        (0, size + 1),
        (size + 1, 0),
        (usize::MAX, 0),
        (usize::MAX, 1),
        (usize::MAX, 2),
        (usize::MAX - size + 1, size),
    ];
    for (offset, len) in beyond {
        let expected = TransferError::OutOfBounds { offset, len, size };
        let bytes = host.get_mut(..len).demand("room for the test")?;
        refused("a write", segment.write(offset, bytes), expected)?;
        refused("a read", segment.read(offset, bytes), expected)?;
        refused("a fill", segment.fill(offset, len, 0xBB), expected)?;
    }
    // What no host slice is long enough for.
    for (offset, len) in [
        (1, usize::MAX),
        (size, usize::MAX - size + 1),
        (0, usize::MAX),
    ] {
        let expected = TransferError::OutOfBounds { offset, len, size };
        refused("a fill", segment.fill(offset, len, 0xBB), expected)?;
    }
    ensure(host == [0xAA; 32], "a refused read leaves the host's bytes")?;
    verify(&segment, 3)?;
    Ok(())
}

fn exact_fill<R: BackendRef + Clone>(backend: &R) -> Outcome {
    vends(backend)?;
    let segment = small(backend);
    let bytes = expected(5, 0);
    for host in [0, segment - 1, segment + 1] {
        let short = bytes.get(..host).demand("room for the test")?;
        let answer = alloc(backend, segment)?.init_from(short);
        refused(
            "a fill",
            answer,
            TransferError::LengthMismatch { segment, host },
        )?;
    }
    let exact = bytes.get(..segment).demand("room for the test")?;
    let filled = alloc(backend, segment)?.init_from(exact).demand("a fill")?;
    verify(&filled, 5)?;
    Ok(())
}

fn initialised<R: BackendRef + Clone>(backend: &R) -> Outcome {
    vends(backend)?;
    // So that there is something other than zero to be found.
    drop(stamp(alloc(backend, small(backend))?, 8)?);
    let segment = alloc(backend, small(backend))?
        .initialised()
        .demand("bytes")?;
    let mut bytes = [0xAA_u8; 24];
    let bytes = bytes.get_mut(..segment.len()).demand("room for the test")?;
    segment.read(0, bytes).demand("a read")?;
    if !backend.backend().caps().contains(Caps::VENDS_INITIALISED) {
        ensure(bytes.iter().all(|&byte| byte == 0), "they are zero")?;
    }
    Ok(())
}

fn host_agrees<R: BackendRef + Clone>(backend: &R) -> Outcome {
    vends(backend)?;
    let mut segment = stamp(alloc(backend, small(backend))?, 4)?;
    placed(&segment)?;
    let device = backend.backend().space() == MemSpace::Device;
    if device {
        let lends = segment.host().is_ok() || segment.host_mut().is_ok();
        ensure(!lends, "device memory lends no bytes to the host")?;
        return Ok(());
    }
    let host = segment.host().ok().demand("host memory lends its bytes")?;
    equal("their number", host.len(), segment.len())?;
    for (offset, &found) in host.iter().enumerate() {
        equal(
            "a byte that was written by transfer",
            found,
            pattern(4, offset),
        )?;
    }
    let host = segment
        .host_mut()
        .ok()
        .demand("host memory lends its bytes")?;
    for (offset, byte) in host.iter_mut().enumerate() {
        *byte = pattern(6, offset);
    }
    verify(&segment, 6)?;
    Ok(())
}

fn raw_round_trip<R: BackendRef + Clone>(backend: &R) -> Outcome {
    vends(backend)?;
    let segment = stamp(alloc(backend, small(backend))?, 2)?;
    let place = segment.place();
    let before = backend.backend().census();
    let (header, reference) = segment.into_raw();
    let owned = reference.backend().may_own(header);
    let census = backend.backend().census();
    // SAFETY: the parts of the segment that was just taken apart, put together once. Should the
    // backend deny its own, nothing is left of it but a leak.
    let segment = unsafe { SegmentMut::<R>::from_raw(header, reference) };
    ensure(owned, "a live segment may be the backend's own")?;
    let segment = segment.ok().demand("it is put together")?;
    equal(
        "units in use while it was apart",
        census.in_use,
        before.in_use,
    )?;
    ensure(segment.place() == place, "it is where it was")?;
    equal("its length", segment.len(), small(backend))?;
    verify(&segment, 2)?;
    drop(segment);
    if counts(backend) {
        let after = backend.backend().census();
        ensure(
            after.in_use < before.in_use,
            "it goes back when it is dropped",
        )?;
    }
    Ok(())
}

/// What a backend denies, nobody can put together. (That it denies at all is asked of no backend.)
fn foreign<R: BackendRef + Clone>(backend: &R) -> Outcome {
    vends(backend)?;
    let elsewhere = Header::<R::Policy>::new(8);
    let elsewhere = NonNull::from(&elsewhere);
    let refutes = !backend.backend().may_own(elsewhere);
    applies(refutes, "it cannot tell its own segments from others")?;
    let before = backend.backend().census();
    let live = alloc(backend, small(backend))?;
    // SAFETY: the parts of the segment that is taken apart here, put together once.
    let (own, live) = unsafe {
        let (own, reference) = live.into_raw();
        (own, SegmentMut::<R, Uninit>::from_raw(own, reference))
    };
    let live = live.ok().demand("it owns what it vended")?;
    let size = size_of::<Header<R::Policy>>();
    let shifted = |by: usize| own.as_ptr().wrapping_byte_add(by);
    let around = [1, size / 2, size, size.wrapping_neg(), usize::MAX].map(shifted);
    let around = around.into_iter().filter_map(NonNull::new);
    for pointer in around.chain([elsewhere, NonNull::dangling()]) {
        denied(backend, pointer)?;
    }
    drop(live);
    denied(backend, own)?;
    let after = backend.backend().census();
    equal("units in use", after.in_use, before.in_use)?;
    equal("refusals", after.refused, before.refused)?;
    Ok(())
}

/// No segment is made of a pointer that the backend denies.
fn denied<R: BackendRef + Clone>(
    backend: &R,
    pointer: NonNull<Header<R::Policy>>,
) -> Result<(), Failure> {
    if backend.backend().may_own(pointer) {
        return Ok(());
    }
    // SAFETY: the backend refuses the pointer, which makes it harmless.
    let made = unsafe { SegmentMut::<R, Uninit>::from_raw(pointer, backend.clone()) };
    match made {
        Err(refused) => equal(
            "the address it names",
            refused.address,
            pointer.addr().get(),
        ),
        Ok(segment) => {
            // It is none, and so must not go back.
            core::mem::forget(segment);
            Err(Failure::new("a denied pointer is refused"))
        }
    }
}

fn typed<R>(backend: &R) -> Outcome
where
    R: BackendRef + Clone,
    R::Backend: Sized,
{
    vends(backend)?;
    let before = backend.backend().census();
    let segment = stamp(alloc(backend, small(backend))?, 12)?;
    placed(&segment)?;
    verify(&segment, 12)?;
    drop(segment);
    let borrowed: &R::Backend = backend.backend();
    let segment = stamp(alloc(&borrowed, small(backend))?, 13)?;
    let place = segment.place();
    let erased = segment.erase::<Erased<'_, R::Policy>>();
    ensure(erased.place() == place, "it is where it was")?;
    equal("its length", erased.len(), small(backend))?;
    verify(&erased, 13)?;
    drop(erased);
    let (requested, max) = (usize::MAX, max(backend));
    if requested > max {
        let expected = AllocError::TooLarge { requested, max };
        let answer = SegmentMut::alloc(backend.clone(), requested);
        refused("a segment that is too large", answer, expected)?;
    }
    let after = backend.backend().census();
    equal("units in use", after.in_use, before.in_use)?;
    if counts(backend) {
        equal("refusals", after.refused, before.refused.saturating_add(1))?;
    }
    Ok(())
}
