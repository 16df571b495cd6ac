//! Device memory that breaks a law each.
//!
//! No undefined behaviour arises from any of it: its addresses are numbers, and all that it moves stays inside of the slots of a sound
//! pool, which are larger than what it vends.
#![allow(unsafe_code, reason = "implements the unsafe trait, wrongly")]

use std::cell::Cell;
use std::ptr::NonNull;

use wharf_backend::{
    AllocError, AllocHint, Caps, Census, DeviceAddress, Header, IoDirection, MemBackend, MemSpace,
    Place, StaticPool, TransferError,
};
use wharf_sync::SyncPolicy;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    Nothing,
    ReadsNothing,
    ReadsOneFurther,
    WritesNothing,
    WritesOneFurther,
    WritesInPlaceOfTheFirst,
    LosesTheEnd,
    FillsAll,
    FillsLess,
    NeverAgain,
    NeverFalls,
    Wanders,
    OtherSpace,
    Lends,
    ReadHooksSpoil,
    WriteHooksSpoil,
}

const PAYLOAD: usize = 300;
const SLOTS: usize = 6;

pub(crate) struct Faulty<P: SyncPolicy> {
    wrong: Wrong,
    pool: StaticPool<P, 320, SLOTS>,
    placed: Cell<u64>,
    /// Transfers that succeed before it is closed.
    left: Cell<usize>,
}

impl<P: SyncPolicy> Faulty<P> {
    /// For ever, because what is broken may never come back.
    pub(crate) fn new(wrong: Wrong) -> &'static Self {
        let pool = StaticPool::fresh();
        let placed = Cell::new(0);
        let left = Cell::new(usize::MAX);
        Box::leak(Box::new(Self {
            wrong,
            pool,
            placed,
            left,
        }))
    }

    /// Transfers fail, after so many.
    pub(crate) fn breaks(&self, after: usize) {
        self.left.set(after);
    }

    fn transfers(&self) -> Result<(), TransferError> {
        let left = self.left.get();
        self.left
            .set(left.saturating_sub(usize::from(left != usize::MAX)));
        if left == 0 {
            Err(TransferError::Closed)
        } else {
            Ok(())
        }
    }

    /// # Safety
    /// As for [`MemBackend::place`].
    unsafe fn base(&self, header: NonNull<Header<P>>) -> NonNull<u8> {
        // SAFETY: as the caller promises.
        match unsafe { self.pool.place(header) } {
            Place::Host(base) => base,
            Place::Device(_) => unreachable!("a pool is host memory"),
        }
    }
}

// SAFETY: it keeps none of the laws, but moves bytes inside of the slots of the pool alone (see above), whose headers they are.
unsafe impl<P: SyncPolicy> MemBackend for Faulty<P> {
    type Policy = P;

    fn vend(&self, size: usize, hint: AllocHint) -> Option<NonNull<Header<P>>> {
        if size > PAYLOAD {
            return None;
        }
        let vended = self.pool.vend(size, hint);
        if let Some(header) = vended {
            // SAFETY: just vended, and nobody's yet.
            unsafe { self.base(header).write_bytes(0xA5, 320) };
        }
        vended
    }

    fn refusal(&self, requested: usize, _: AllocHint) -> AllocError {
        AllocError::Exhausted {
            requested,
            in_use: self.pool.census().in_use,
            capacity: SLOTS,
        }
    }

    unsafe fn reclaim(&self, header: NonNull<Header<P>>) {
        if self.wrong == Wrong::NeverAgain {
            return;
        }
        // SAFETY: as the caller promises.
        unsafe { self.pool.reclaim(header) }
    }

    unsafe fn place(&self, header: NonNull<Header<P>>) -> Place {
        // SAFETY: as the caller promises.
        let base = unsafe { self.base(header) };
        if self.wrong == Wrong::Lends {
            return Place::Host(base);
        }
        self.placed.set(self.placed.get() + 1);
        let moved = if self.wrong == Wrong::Wanders {
            8 * self.placed.get()
        } else {
            0
        };
        Place::Device(DeviceAddress::new(base.addr().get() as u64 + moved))
    }

    fn may_own(&self, header: NonNull<Header<P>>) -> bool {
        self.pool.may_own(header)
    }

    fn caps(&self) -> Caps {
        match self.wrong {
            Wrong::ReadHooksSpoil | Wrong::WriteHooksSpoil => Caps::NEEDS_CACHE_OPS,
            _ => Caps::empty(),
        }
    }

    fn space(&self) -> MemSpace {
        match self.wrong {
            Wrong::OtherSpace => MemSpace::Host,
            _ => MemSpace::Device,
        }
    }

    fn alignment(&self) -> usize {
        8
    }

    fn max_segment_size(&self) -> usize {
        PAYLOAD
    }

    fn census(&self) -> Census {
        let mut census = self.pool.census();
        if self.wrong == Wrong::NeverFalls {
            census.in_use = census.peak;
        }
        census
    }

    fn name(&self) -> &'static str {
        "faulty device"
    }

    unsafe fn after_io(
        &self,
        header: NonNull<Header<P>>,
        offset: usize,
        len: usize,
        direction: IoDirection,
    ) {
        let spoils = match self.wrong {
            Wrong::ReadHooksSpoil => direction == IoDirection::CpuToDevice,
            Wrong::WriteHooksSpoil => direction == IoDirection::DeviceToCpu,
            _ => false,
        };
        if spoils && len > 0 {
            // SAFETY: within the segment, which the caller has.
            unsafe { self.base(header).add(offset).write(0x99) };
        }
    }

    unsafe fn copy_in(
        &self,
        header: NonNull<Header<P>>,
        offset: usize,
        source: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        self.transfers()?;
        let (offset, len) = match self.wrong {
            Wrong::WritesNothing => (offset, 0),
            Wrong::WritesOneFurther => (offset + 1, len),
            Wrong::WritesInPlaceOfTheFirst => (0, len),
            // Of what is long alone.
            Wrong::LosesTheEnd => (offset, len.min(100)),
            _ => (offset, len),
        };
        // SAFETY: as the caller promises; some bytes further is still within the slot.
        unsafe {
            let to = self.base(header).add(offset);
            to.copy_from_nonoverlapping(source, len);
        }
        Ok(())
    }

    unsafe fn copy_out(
        &self,
        header: NonNull<Header<P>>,
        offset: usize,
        destination: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        self.transfers()?;
        let (offset, len) = match self.wrong {
            Wrong::ReadsNothing => (offset, 0),
            Wrong::ReadsOneFurther => (offset + 1, len),
            _ => (offset, len),
        };
        // SAFETY: as in `copy_in`.
        unsafe {
            let from = self.base(header).add(offset);
            from.copy_to_nonoverlapping(destination, len);
        }
        Ok(())
    }

    unsafe fn fill(
        &self,
        header: NonNull<Header<P>>,
        offset: usize,
        len: usize,
        byte: u8,
    ) -> Result<(), TransferError> {
        self.transfers()?;
        let (offset, len) = match self.wrong {
            Wrong::FillsAll => (0, PAYLOAD),
            Wrong::FillsLess if offset > 0 => (offset, len.saturating_sub(1)),
            _ => (offset, len),
        };
        // SAFETY: as in `copy_in`.
        unsafe { self.base(header).add(offset).write_bytes(byte, len) };
        Ok(())
    }
}
