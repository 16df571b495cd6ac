//! The control block of one segment.
//!
//! Invariant of a [`Slot`]: the header is written only under the lock, by whoever turns `out`. While it is out it belongs to
//! the handles.
#![allow(unsafe_code, reason = "owns a header in a cell")]

use core::cell::{Cell, UnsafeCell};
use core::ptr::NonNull;

use wharf_source::Census;
use wharf_sync::{ConstInit, Lock, SyncPolicy};

use crate::{AllocError, Header};

/// Whether the one segment of a [`BorrowedBackend`](super::BorrowedBackend) is out. Opaque; public because the bounds of a
/// `const` one name it.
#[derive(Debug)]
pub struct Loan {
    out: Cell<bool>,
    ever: Cell<bool>,
    refused: Cell<usize>,
    largest_refused: Cell<usize>,
}

impl ConstInit for Loan {
    const INIT: Self = Self {
        out: Cell::new(false),
        ever: Cell::new(false),
        refused: Cell::new(0),
        largest_refused: Cell::new(0),
    };
}

pub(super) struct Slot<P: SyncPolicy> {
    header: UnsafeCell<Header<P>>,
    loan: P::Lock<Loan>,
}

// SAFETY: through `&self` the header changes owner only under the lock.
unsafe impl<P: SyncPolicy> Sync for Slot<P>
where
    P::Lock<Loan>: Sync,
    P::Count: Sync,
{
}

impl<P: SyncPolicy> ConstInit for Slot<P>
where
    P::Lock<Loan>: ConstInit,
    P::Count: ConstInit,
{
    const INIT: Self = Self {
        header: UnsafeCell::new(Header::INIT),
        loan: ConstInit::INIT,
    };
}

impl<P: SyncPolicy> Slot<P> {
    pub(super) fn fresh() -> Self {
        Self {
            header: UnsafeCell::new(Header::parked(0)),
            loan: Lock::new(Loan::INIT),
        }
    }

    fn header(&self) -> NonNull<Header<P>> {
        // SAFETY: the pointer of a cell is never null.
        unsafe { NonNull::new_unchecked(self.header.get()) }
    }

    /// The header, for a segment of `size` bytes, unless it is out. A refusal is counted.
    pub(super) fn take(&self, size: usize) -> Option<NonNull<Header<P>>> {
        self.loan.with(|loan| {
            if loan.out.replace(true) {
                loan.refuse(size);
                return None;
            }
            loan.ever.set(true);
            let header = self.header();
            // SAFETY: it was not out, so it is ours (the invariant).
            unsafe { header.write(Header::new(size)) };
            Some(header)
        })
    }

    #[cold]
    pub(super) fn refuse(&self, size: usize) -> Option<NonNull<Header<P>>> {
        self.loan.with(|loan| loan.refuse(size));
        None
    }

    #[cold]
    pub(super) fn exhausted(&self, requested: usize, capacity: usize) -> AllocError {
        let out = self.loan.with(|loan| loan.out.get());
        AllocError::Exhausted {
            requested,
            in_use: if out { capacity } else { 0 },
            capacity,
        }
    }

    /// # Safety
    /// It is out, and no handle is left.
    pub(super) unsafe fn give(&self) {
        self.loan.with(|loan| {
            // SAFETY: out and without handles, so the header is ours.
            unsafe { self.header().write(Header::parked(0)) };
            loan.out.set(false);
        });
    }

    /// Whether `header` is this one, and out.
    pub(super) fn owns(&self, header: NonNull<Header<P>>) -> bool {
        header == self.header() && self.loan.with(|loan| loan.out.get())
    }

    /// In units of `len` bytes, of which there is one.
    pub(super) fn census(&self, len: usize) -> Census {
        self.loan.with(|loan| Census {
            // A unit of no bytes would say that nothing is counted.
            unit: len.max(1),
            capacity: 1,
            in_use: loan.out.get().into(),
            peak: loan.ever.get().into(),
            refused: loan.refused.get(),
            largest_refused: loan.largest_refused.get(),
            ..Census::NOTHING
        })
    }
}

impl Loan {
    fn refuse(&self, size: usize) {
        self.refused.set(self.refused.get().saturating_add(1));
        self.largest_refused
            .set(self.largest_refused.get().max(size));
    }
}
