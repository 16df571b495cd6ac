//! Handles that are taken apart, put together, and erased.
#![allow(unsafe_code, reason = "puts segments together again")]

use core::ptr::NonNull;

use wharf_backend::{AllocError, BackendRef, Header, MemBackend, SegmentMut, Uninit};

use super::bytes::{stamp, verify};
use super::vending::placed;
use super::{Erased, alloc, counts, max, small, vends};
use crate::check::{Demand, applies, ensure, equal, refused};
use crate::{Failure, Outcome};

pub(super) fn raw_round_trip<R: BackendRef + Clone>(backend: &R) -> Outcome {
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
pub(super) fn foreign<R: BackendRef + Clone>(backend: &R) -> Outcome {
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

pub(super) fn typed<R>(backend: &R) -> Outcome
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
