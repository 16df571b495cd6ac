//! The cargo that the suite's descriptors carry: it counts what becomes of it.

use core::fmt;

use wharf_engine::{Cargo, Fault};
use wharf_sync::Word;

use crate::Failure;
use crate::lease::{self, Lease, add, subtract};

/// Cargo that knows how often it landed. An engine under test is one with `Cargo = Parcel`; the suite
/// makes the parcels.
#[must_use = "a parcel that is dropped is counted as delivered"]
pub struct Parcel {
    ledger: usize,
    landed: u32,
    outcome: Option<Result<(), Fault>>,
}

impl Parcel {
    /// How often the engine said that it has let go of the operands.
    #[must_use]
    pub const fn landed_times(&self) -> u32 {
        self.landed
    }

    pub(crate) const fn outcome(&self) -> Option<Result<(), Fault>> {
        self.outcome
    }
}

impl Cargo for Parcel {
    fn landed(&mut self, outcome: Result<(), Fault>) {
        self.landed = self.landed.saturating_add(1);
        self.outcome = Some(outcome);
        if self.landed == 1
            && let Some([_, landed, ..]) = lease::words(self.ledger)
        {
            add(landed, 1);
        }
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        if let Some([_, _, dropped, _]) = lease::words(self.ledger) {
            add(dropped, 1);
        }
    }
}

impl fmt::Debug for Parcel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parcel")
            .field("landed", &self.landed)
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}

/// Counts parcels: those made, those landed, those dropped.
#[derive(Debug)]
pub(crate) struct Ledger {
    lease: Lease,
}

impl Ledger {
    pub(crate) fn open() -> Result<Self, Failure> {
        Lease::claim().map(|lease| Self { lease })
    }

    pub(crate) fn parcel(&self) -> Parcel {
        let [made, ..] = self.lease.words();
        add(made, 1);
        Parcel {
            ledger: self.lease.index(),
            landed: 0,
            outcome: None,
        }
    }

    /// One that was refused will not land.
    pub(crate) fn returned(&self, parcel: Parcel) {
        drop(parcel);
        self.never_taken();
    }

    /// One that was dropped will not land.
    pub(crate) fn never_taken(&self) {
        let [made, _, dropped, _] = self.lease.words();
        subtract(made, 1);
        subtract(dropped, 1);
    }

    pub(crate) fn made(&self) -> u32 {
        let [made, ..] = self.lease.words();
        made.load()
    }

    pub(crate) fn landed(&self) -> u32 {
        let [_, landed, ..] = self.lease.words();
        landed.load()
    }

    pub(crate) fn dropped(&self) -> u32 {
        let [_, _, dropped, _] = self.lease.words();
        dropped.load()
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        // A parcel that is still about will count in the lease.
        if self.dropped() != self.made() {
            self.lease.retire();
        }
    }
}

/// Holds a kernel back until it is opened. Dropping it opens it.
#[derive(Debug)]
pub(crate) struct Gate {
    lease: Lease,
}

impl Gate {
    pub(crate) fn closed() -> Result<Self, Failure> {
        Lease::claim().map(|lease| Self { lease })
    }

    /// By this number the kernel finds it.
    pub(crate) const fn number(&self) -> u8 {
        let [low, ..] = self.lease.index().to_le_bytes();
        low
    }

    pub(crate) fn open(&self) {
        let [open, ..] = self.lease.words();
        lease::set(open, 1);
    }

    /// For the kernel: waits at the gate with this number.
    pub(crate) fn pass(number: u8) {
        let Some([open, _, passed, _]) = lease::words(usize::from(number)) else {
            return;
        };
        while open.load() == 0 {
            core::hint::spin_loop();
        }
        add(passed, 1);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
        let [_, _, passed, _] = self.lease.words();
        if passed.load() == 0 {
            // A kernel may yet come and find it open.
            self.lease.retire();
        }
    }
}
