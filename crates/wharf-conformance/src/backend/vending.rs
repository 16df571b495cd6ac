//! What is vended: how large, where, and apart from everything else.

use wharf_backend::{AllocError, BackendRef, MemBackend, Place, SegmentMut, State};

use super::bytes::{stamp, verify};
use super::{MOST_STAMPED, alloc, held, max, small, vends};
use crate::check::{applies, ensure, equal, refused};
use crate::{Failure, Outcome, Stop};

pub(super) fn facts<R: BackendRef>(backend: &R) -> Outcome {
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

pub(super) fn vends_nothing<R: BackendRef + Clone>(backend: &R) -> Outcome {
    applies(max(backend) == 0, "it vends segments")?;
    for size in [0, 1, 64] {
        let answer = SegmentMut::alloc(backend.clone(), size);
        refused("a segment", answer, AllocError::Unsupported)?;
    }
    Ok(())
}

pub(super) fn every_size<R: BackendRef + Clone>(backend: &R) -> Outcome {
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

pub(super) fn address(place: Place) -> u64 {
    match place {
        Place::Host(base) => base.addr().get() as u64,
        Place::Device(base) => base.get(),
    }
}

#[inline(never)]
pub(super) fn placed<R: BackendRef, S: State>(segment: &SegmentMut<R, S>) -> Result<(), Failure> {
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

pub(super) fn aligned<R: BackendRef + Clone>(backend: &R) -> Outcome {
    vends(backend)?;
    for segment in held(backend)?.iter().flatten() {
        placed(segment)?;
    }
    Ok(())
}

pub(super) fn apart<R: BackendRef + Clone>(backend: &R) -> Outcome {
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

pub(super) fn undisturbed<R: BackendRef + Clone>(backend: &R) -> Outcome {
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

pub(super) fn recycled<R: BackendRef + Clone>(backend: &R) -> Outcome {
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
