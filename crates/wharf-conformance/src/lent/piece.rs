//! A segment that is out.
//!
//! Invariant of a [`Piece`]: its header is that of a live segment which nobody else has, so its bytes may be moved by the
//! backend's own transfers, within its length.
#![allow(
    unsafe_code,
    reason = "moves bytes as the layer above does, where a read-only segment has no method for it"
)]

use core::ptr::NonNull;

use wharf_backend::{
    AllocError, BackendRef, Caps, Header, MemBackend, Place, SegmentMut, State, TransferError,
};
use wharf_sync::SyncPolicy;

use super::MOST;
use crate::check::{Demand, ensure, equal};
use crate::{Failure, Outcome};

/// A segment that is out.
pub(super) struct Piece<'p, P: SyncPolicy> {
    pub(super) backend: &'p dyn MemBackend<Policy = P>,
    pub(super) header: NonNull<Header<P>>,
    pub(super) len: usize,
    pub(super) place: Place,
}

/// Lends a segment for a look at it.
pub(super) fn with<R, S>(
    lend: impl Fn() -> Result<SegmentMut<R, S>, AllocError>,
    look: &mut dyn FnMut(&Piece<'_, R::Policy>),
) -> Result<(), AllocError>
where
    R: BackendRef,
    R::Backend: Sized,
    S: State,
{
    let segment = lend()?;
    // It lives, and is not used, until the look is over: the invariant.
    look(&Piece {
        backend: segment.backend(),
        header: segment.header_ptr(),
        len: segment.len(),
        place: segment.place(),
    });
    Ok(())
}

impl<P: SyncPolicy> Piece<'_, P> {
    pub(super) fn place_again(&self) -> Place {
        // SAFETY: live (the invariant).
        unsafe { self.backend.place(self.header) }
    }

    /// Within the piece, or it is not asked.
    pub(super) fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), Failure> {
        self.try_read(offset, into)?.demand("a read")
    }

    pub(super) fn try_read(
        &self,
        offset: usize,
        into: &mut [u8],
    ) -> Result<Result<(), TransferError>, Failure> {
        self.within(offset, into.len())?;
        let (into, len) = (NonNull::from(&mut *into).cast(), into.len());
        // SAFETY: live, in range, and nobody else's (the invariant); what is lent has values; the destination is ours.
        Ok(unsafe { self.backend.copy_out(self.header, offset, into, len) })
    }

    pub(super) fn try_write(
        &self,
        offset: usize,
        from: &[u8],
    ) -> Result<Result<(), TransferError>, Failure> {
        self.within(offset, from.len())?;
        let (from, len) = (NonNull::from(from).cast(), from.len());
        // SAFETY: as above; a backend that may not write refuses.
        Ok(unsafe { self.backend.copy_in(self.header, offset, from, len) })
    }

    pub(super) fn try_fill(
        &self,
        offset: usize,
        len: usize,
        byte: u8,
    ) -> Result<Result<(), TransferError>, Failure> {
        self.within(offset, len)?;
        // SAFETY: as above.
        Ok(unsafe { self.backend.fill(self.header, offset, len, byte) })
    }

    fn within(&self, offset: usize, len: usize) -> Result<(), Failure> {
        let end = offset.checked_add(len);
        ensure(
            end.is_some_and(|end| end <= self.len),
            "a range is within it",
        )
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.backend.caps().contains(Caps::READ_ONLY)
    }

    #[inline(never)]
    pub(super) fn holds(&self, expected: &[u8]) -> Result<(), Failure> {
        let mut found = [0xAA; MOST];
        let found = found.get_mut(..expected.len()).unwrap_or_default();
        self.read(0, found)?;
        for (&mut found, &expected) in found.iter_mut().zip(expected) {
            equal("a byte of what was lent", found, expected)?;
        }
        Ok(())
    }
}

/// Takes a segment apart and puts it together.
pub(super) fn typed<R, S>(lend: impl Fn() -> Result<SegmentMut<R, S>, AllocError>) -> Outcome
where
    R: BackendRef,
    S: State,
{
    let segment = lend().demand("it is lent")?;
    let (place, len) = (segment.place(), segment.len());
    let (header, reference) = segment.into_raw();
    // SAFETY: the parts of the segment that was just taken apart, put together once.
    let segment = unsafe { SegmentMut::<R, S>::from_raw(header, reference) };
    let segment = segment.ok().demand("it is put together")?;
    ensure(segment.place() == place, "it is where it was")?;
    equal("its length", segment.len(), len)?;
    Ok(())
}
