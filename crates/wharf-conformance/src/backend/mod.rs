//! What every backend does.
//!
//! Bytes are moved by transfers wherever the segments are, so that the same checks hold a device's memory to
//! account; slices are borrowed only where the backend says that it is host memory.

mod accounts;
mod bytes;
mod handles;
mod moving;
mod vending;

use wharf_backend::{AllocError, BackendRef, MemBackend, SegmentMut, Uninit};
use wharf_sync::SyncPolicy;

use crate::check::{Demand, applies, ensure, equal};
use crate::{Check, Failure, Outcome, Report, Subject, Tally, run};

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
        typed: &|| handles::typed(&backend),
    };
    run(
        Subject {
            policy,
            suite: "backend",
            name,
        },
        &target,
        &checks(),
        report,
    )
}

type Erased<'b, P> = &'b dyn MemBackend<Policy = P>;

struct Target<'b, P> {
    backend: Erased<'b, P>,
    /// The same backend with its type known, on the way that its users take.
    typed: &'b dyn Fn() -> Outcome,
}

fn checks<'b, P: SyncPolicy>() -> [Check<Target<'b, P>>; 24] {
    [
        Check {
            name: "it says what it is",
            run: |target| vending::facts(&target.backend),
        },
        Check {
            name: "who vends nothing says so",
            run: |target| vending::vends_nothing(&target.backend),
        },
        Check {
            name: "it vends every size",
            run: |target| vending::every_size(&target.backend),
        },
        Check {
            name: "a larger segment is refused as too large",
            run: |target| accounts::too_large(&target.backend),
        },
        Check {
            name: "asking why counts nothing",
            run: |target| accounts::asking_why(&target.backend),
        },
        Check {
            name: "segments are aligned",
            run: |target| vending::aligned(&target.backend),
        },
        Check {
            name: "segments do not overlap",
            run: |target| vending::apart(&target.backend),
        },
        Check {
            name: "a segment keeps its bytes while others come and go",
            run: |target| vending::undisturbed(&target.backend),
        },
        Check {
            name: "a dropped segment goes back",
            run: |target| accounts::drop_returns(&target.backend),
        },
        Check {
            name: "segments are used again",
            run: |target| vending::recycled(&target.backend),
        },
        Check {
            name: "a peak never falls",
            run: |target| accounts::peak(&target.backend),
        },
        Check {
            name: "exhaustion is a value",
            run: |target| accounts::exhaustion(&target.backend),
        },
        Check {
            name: "a transfer moves its range and no other",
            run: |target| moving::ranges(&target.backend),
        },
        Check {
            name: "a transfer out of bounds moves nothing",
            run: |target| moving::out_of_bounds(&target.backend),
        },
        Check {
            name: "a segment is filled by exactly its bytes",
            run: |target| moving::exact_fill(&target.backend),
        },
        Check {
            name: "initialised bytes can be read",
            run: |target| moving::initialised(&target.backend),
        },
        Check {
            name: "host memory is where it says",
            run: |target| moving::host_agrees(&target.backend),
        },
        Check {
            name: "the CPU's copies and its own see each other",
            run: |target| moving::plain_copies(&target.backend),
        },
        Check {
            name: "what is handed to a device comes back as it was",
            run: |target| moving::handed_over(&target.backend),
        },
        Check {
            name: "a copy inside the memory is as if by way of the host",
            run: |target| moving::copied_inside(&target.backend),
        },
        Check {
            name: "many ranges at once are as if one by one",
            run: |target| moving::all_at_once(&target.backend),
        },
        Check {
            name: "a segment is taken apart and put together",
            run: |target| handles::raw_round_trip(&target.backend),
        },
        Check {
            name: "a foreign pointer is refused",
            run: |target| handles::foreign(&target.backend),
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
