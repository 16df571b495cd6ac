//! Two segments, and the descriptors that use them.
//!
//! Invariant of a [`Scene`]: its two segments are touched by the engine alone until every parcel of its ledger
//! has landed; if one never does, they leak.
#![allow(unsafe_code, reason = "submits descriptors")]

use core::mem::ManuallyDrop;
use core::task::Poll;

use wharf_backend::SegmentMut;
use wharf_engine::{Command, Completion, Descriptor, MAX_OPERANDS, Operand, Sequence, SubmitError};
use wharf_sync::SyncPolicy;

use super::{Memory, Rig};
use crate::check::{Demand, ensure, equal};
use crate::parcel::Ledger;
use crate::patience::wait_for;
use crate::{Failure, Outcome, Parcel};

pub(super) const LEN: usize = 16;

/// One of a scene's two segments.
#[derive(Clone, Copy)]
pub(super) enum Part {
    A,
    B,
}

/// What a descriptor does with a segment.
#[derive(Clone, Copy)]
pub(super) enum Use {
    Read(Part),
    Write(Part),
    /// None of its bytes.
    Nothing(Part),
}

/// Two segments, and the parcels of the descriptors that use them.
pub(super) struct Scene<'r, P: SyncPolicy, Q: SyncPolicy> {
    pub(super) rig: &'r Rig<'r, P, Q>,
    pub(super) ledger: Ledger,
    pub(super) a: ManuallyDrop<SegmentMut<Memory<'r, Q>>>,
    pub(super) b: ManuallyDrop<SegmentMut<Memory<'r, Q>>>,
}

impl<P: SyncPolicy, Q: SyncPolicy> Drop for Scene<'_, P, Q> {
    fn drop(&mut self) {
        if self.ledger.landed() == self.ledger.made() {
            // SAFETY: the engine has let go of both (the invariant), and they are not used again.
            unsafe {
                ManuallyDrop::drop(&mut self.a);
                ManuallyDrop::drop(&mut self.b);
            }
        } else {
            self.rig.stuck.set(true);
        }
    }
}

impl<'r, P: SyncPolicy, Q: SyncPolicy> Scene<'r, P, Q> {
    #[inline(never)]
    pub(super) fn new(rig: &'r Rig<'r, P, Q>) -> Result<Self, Failure> {
        let segment = |byte| {
            SegmentMut::alloc(rig.memory, LEN)
                .demand("a segment of 16 bytes")?
                .filled(byte)
                .demand("its bytes")
        };
        Ok(Self {
            rig,
            ledger: Ledger::open()?,
            a: ManuallyDrop::new(segment(0)?),
            b: ManuallyDrop::new(segment(0)?),
        })
    }

    fn part(&self, part: Part) -> &SegmentMut<Memory<'r, Q>> {
        match part {
            Part::A => &self.a,
            Part::B => &self.b,
        }
    }

    pub(super) fn operand(&self, operand: Use) -> Operand {
        match operand {
            Use::Read(part) => Operand::read(self.part(part).place(), LEN),
            Use::Write(part) => Operand::write(self.part(part).place(), LEN),
            Use::Nothing(part) => Operand::write(self.part(part).place(), 0),
        }
    }

    /// Whether the segments are the host's to read and write.
    fn at_rest(&self) -> Result<(), Failure> {
        equal(
            "parcels that landed",
            self.ledger.landed(),
            self.ledger.made(),
        )
    }

    #[inline(never)]
    pub(super) fn write(&mut self, part: Part, byte: u8) -> Result<(), Failure> {
        self.at_rest()?;
        let segment = match part {
            Part::A => &mut self.a,
            Part::B => &mut self.b,
        };
        segment.write(0, &[byte; LEN]).demand("a write")
    }

    #[inline(never)]
    pub(super) fn holds(&self, part: Part, expected: u8) -> Result<(), Failure> {
        self.at_rest()?;
        let mut bytes = [!expected; LEN];
        self.part(part).read(0, &mut bytes).demand("a read")?;
        for found in bytes {
            equal("a byte of an operand", found, expected)?;
        }
        Ok(())
    }

    #[inline(never)]
    pub(super) fn try_submit(
        &self,
        command: Command,
        operands: &[Use],
    ) -> Result<Result<Sequence, SubmitError>, Failure> {
        let mut named = [self.operand(Use::Nothing(Part::A)); MAX_OPERANDS];
        for (place, &operand) in named.iter_mut().zip(operands) {
            *place = self.operand(operand);
        }
        let named = named.get(..operands.len()).demand("few operands")?;
        let descriptor = Descriptor::new(command, named).demand("a descriptor")?;
        let parcel = self.ledger.parcel();
        // SAFETY: the operands are within the scene's segments, initialised, and nobody else's until
        // every parcel has landed: the invariant, which `at_rest` and `drop` keep.
        match unsafe { self.rig.engine.submit(descriptor, parcel) } {
            Ok(sequence) => Ok(Ok(sequence)),
            Err(returned) => {
                let landed = returned.value.landed_times();
                self.ledger.returned(returned.value);
                equal("landings of a parcel that was refused", landed, 0)?;
                Ok(Err(returned.error))
            }
        }
    }

    pub(super) fn submit(&self, command: Command, operands: &[Use]) -> Result<Sequence, Failure> {
        self.try_submit(command, operands)?.demand("a submission")
    }

    /// Waits for a completion and takes it.
    #[inline(never)]
    pub(super) fn finish(&self, sequence: Sequence) -> Result<Completion<Parcel>, Failure> {
        let taken = self
            .rig
            .wait_for(|| match self.rig.engine.poll(sequence, None) {
                Poll::Ready(taken) => Some(taken),
                Poll::Pending => None,
            })?;
        let completion = taken.demand("a completion is there to be taken")?;
        let (parcel, told) = match &completion {
            Ok(parcel) => (parcel, Ok(())),
            Err(returned) => (&returned.value, Err(returned.error)),
        };
        equal("landings of a parcel", parcel.landed_times(), 1)?;
        let same = parcel.outcome() == Some(told);
        ensure(same, "a parcel lands with the outcome of its descriptor")?;
        Ok(completion)
    }

    #[inline(never)]
    pub(super) fn succeed(&self, sequence: Sequence) -> Result<(), Failure> {
        self.finish(sequence)?
            .map(drop)
            .map_err(|returned| returned.error)
            .demand("it runs to its end")
    }

    /// One descriptor, from beginning to end.
    #[inline(never)]
    pub(super) fn do_now(&self, command: Command, operands: &[Use]) -> Result<(), Failure> {
        let sequence = self.submit(command, operands)?;
        self.succeed(sequence)
    }

    /// Parcels that landed, and that were dropped.
    #[cfg(feature = "std")]
    pub(super) fn counts(&self) -> (u32, u32) {
        (self.ledger.landed(), self.ledger.dropped())
    }

    /// A submission unwound: its parcel was not taken, or it has landed, since `before`.
    #[cfg(feature = "std")]
    pub(super) fn let_go_since(&self, (landed, dropped): (u32, u32)) -> Result<(), Failure> {
        let has_landed = self.ledger.landed() != landed;
        let was_dropped = self.ledger.dropped() != dropped;
        ensure(
            has_landed || was_dropped,
            "what unwinds was not taken, or has landed",
        )?;
        if !has_landed {
            self.ledger.never_taken();
        }
        Ok(())
    }

    /// Nothing is in flight, and no parcel was lost or kept.
    #[inline(never)]
    pub(super) fn close(self) -> Outcome {
        self.at_rest()?;
        let (made, dropped) = (self.ledger.made(), self.ledger.dropped());
        equal("parcels that came back", dropped, made)?;
        Ok(())
    }
}

impl<P: SyncPolicy, Q> Rig<'_, P, Q> {
    /// Waits on the engine's event until `test` has an answer.
    pub(super) fn wait_for<T>(&self, test: impl FnMut() -> Option<T>) -> Result<T, Failure> {
        wait_for(self.engine.completed(), self.clock, self.claims.apart, test)
    }
}
