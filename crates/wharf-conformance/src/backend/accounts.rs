//! What is refused, and what is counted.

use wharf_backend::{AllocError, AllocHint, BackendRef, MemBackend, SegmentMut, Uninit};

use super::bytes::stamp;
use super::{MOST_HELD, alloc, counted, counts, held, max, small, vends};
use crate::check::{applies, ensure, equal, refused};
use crate::{Failure, Outcome, Stop};

pub(super) fn too_large<R: BackendRef + Clone>(backend: &R) -> Outcome {
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

pub(super) fn asking_why<R: BackendRef>(backend: &R) -> Outcome {
    let backend = backend.backend();
    let before = backend.census();
    for size in [usize::MAX, backend.max_segment_size(), 1] {
        let _ = backend.refusal(size, AllocHint::NONE);
    }
    ensure(backend.census() == before, "the census stays")?;
    Ok(())
}

pub(super) fn drop_returns<R: BackendRef + Clone>(backend: &R) -> Outcome {
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

pub(super) fn peak<R: BackendRef + Clone>(backend: &R) -> Outcome {
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

pub(super) fn exhaustion<R: BackendRef + Clone>(backend: &R) -> Outcome {
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
