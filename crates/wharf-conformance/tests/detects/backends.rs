//! Backends that break a law each.
//!
//! No undefined behaviour arises from any of them: every place that they give is inside of the slab of a
//! sound pool, whose slots are larger than what they claim to vend; where segments overlap, the suite
//! moves bytes by transfers, and borrows no two of them at once.
#![allow(unsafe_code, reason = "implements the unsafe trait, wrongly")]

use std::cell::Cell;
use std::ptr::NonNull;

use wharf_backend::{
    AllocError, AllocHint, Caps, Census, DeviceAddress, Header, IoDirection, MemBackend, MemSpace,
    Piece, PieceError, Place, StaticPool, TransferError,
};
use wharf_conformance::{backend, segment};
use wharf_sync::Unsync;

use crate::Failures;

type H = NonNull<Header<Unsync>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    Nothing,
    Overlapping,
    HalfAStride,
    Wanders,
    Misaligned,
    Longer,
    NoRefusals,
    RoundedRefusals,
    LastRefusal,
    NeverFalls,
    PeakFalls,
    LargeIsExhausted,
    ExhaustedIsLarge,
    TooMuch,
    NoneEmpty,
    AskingCounts,
    NeverAgain,
    ReadsNothing,
    WritesOneFurther,
    FillsAll,
    FillsLess,
    FillsOnes,
    /// At the next transfer.
    FillsLater,
    OtherSpace,
    Disowns,
    Wavers,
    OddAlignment,
    NoName,
    HooksSpoil,
    HooksSpoilBeside,
    /// Only that it is device memory, which moves by address.
    Far,
    CopiesUpwards,
    CopiesLess,
    ReachesAll,
    SubmitsBackwards,
    SubmitsLess,
    SubmitsElsewhere,
}

/// What it claims to vend; the slots are four times as large.
const PAYLOAD: usize = 32;

pub(crate) struct Faulty {
    wrong: Wrong,
    pool: StaticPool<Unsync, { 4 * PAYLOAD }, 6>,
    /// The start of the slab, once a segment was vended.
    start: Cell<Option<NonNull<u8>>>,
    vended: Cell<usize>,
    refused: Cell<usize>,
    largest_refused: Cell<usize>,
    asked: Cell<usize>,
    placed: Cell<usize>,
    wavered: Cell<bool>,
    /// A fill that is put off: where, how much, and of what.
    later: Cell<Option<(NonNull<u8>, usize, u8)>>,
}

impl Faulty {
    pub(crate) fn new(wrong: Wrong) -> Self {
        Self {
            wrong,
            pool: StaticPool::new(),
            start: Cell::new(None),
            vended: Cell::new(0),
            refused: Cell::new(0),
            largest_refused: Cell::new(0),
            asked: Cell::new(0),
            placed: Cell::new(0),
            wavered: Cell::new(false),
            later: Cell::new(None),
        }
    }

    const fn is_far(&self) -> bool {
        matches!(
            self.wrong,
            Wrong::Far
                | Wrong::CopiesUpwards
                | Wrong::CopiesLess
                | Wrong::ReachesAll
                | Wrong::SubmitsBackwards
                | Wrong::SubmitsLess
                | Wrong::SubmitsElsewhere
        )
    }

    /// Does the fill that was put off.
    fn catch_up(&self) {
        if let Some((base, len, byte)) = self.later.take() {
            // SAFETY: in a slot, and done before that goes back.
            unsafe { base.write_bytes(byte, len) };
        }
    }

    /// Where the host finds an address of the slab.
    fn find(&self, address: DeviceAddress) -> NonNull<u8> {
        let start = self.start.get().unwrap();
        let offset = usize::try_from(address.get()).unwrap() - start.addr().get();
        assert!(offset <= 6 * 4 * PAYLOAD);
        // SAFETY: in the slab, or its end.
        unsafe { start.add(offset) }
    }

    /// # Safety
    /// As for [`MemBackend::place`].
    unsafe fn found(&self, header: H) -> NonNull<u8> {
        // SAFETY: as the caller promises.
        match unsafe { self.place(header) } {
            Place::Host(base) => base,
            Place::Device(address) => self.find(address),
        }
    }

    /// # Safety
    /// As for [`MemBackend::place`].
    unsafe fn base(&self, header: H) -> NonNull<u8> {
        // SAFETY: as the caller promises.
        match unsafe { self.pool.place(header) } {
            Place::Host(base) => base,
            Place::Device(_) => unreachable!("a pool is host memory"),
        }
    }
}

// SAFETY: it keeps none of the laws, but every place is inside of a slot of the pool (see above), and
// every header is the pool's.
unsafe impl MemBackend for Faulty {
    type Policy = Unsync;

    fn vend(&self, size: usize, hint: AllocHint) -> Option<H> {
        let refuse = match self.wrong {
            // Within the slot still.
            Wrong::TooMuch => size > PAYLOAD + 1,
            Wrong::NoneEmpty => size == 0 || size > PAYLOAD,
            Wrong::NeverAgain => size > PAYLOAD || self.vended.get() >= 6,
            _ => size > PAYLOAD,
        };
        let peak = self.pool.census().peak;
        let longer = size.saturating_add(usize::from(self.wrong == Wrong::Longer));
        let vended = if refuse {
            None
        } else {
            self.pool.vend(longer, hint)
        };
        let Some(header) = vended else {
            self.refused.set(self.refused.get() + 1);
            let largest = self.largest_refused.get().max(size);
            let last = self.wrong == Wrong::LastRefusal;
            self.largest_refused.set(if last { size } else { largest });
            return None;
        };
        self.vended.set(self.vended.get() + 1);
        if self.pool.census().peak > peak {
            // A fresh slot: it gets values, so that reading in the wrong place finds some.
            // SAFETY: just vended, and nobody's yet.
            let base = unsafe { self.base(header) };
            // SAFETY: the slot has so many bytes.
            unsafe { base.write_bytes(0xA5, 4 * PAYLOAD) };
            if peak == 0 {
                // Fresh slots come in ascending order.
                self.start.set(Some(base));
            }
        }
        Some(header)
    }

    fn refusal(&self, size: usize, _: AllocHint) -> AllocError {
        self.asked.set(self.asked.get() + 1);
        let large = match self.wrong {
            Wrong::LargeIsExhausted => false,
            Wrong::ExhaustedIsLarge => true,
            _ => size > PAYLOAD,
        };
        if large {
            AllocError::TooLarge {
                requested: size,
                max: PAYLOAD,
            }
        } else {
            AllocError::Exhausted {
                requested: size,
                in_use: self.pool.census().in_use,
                capacity: 6,
            }
        }
    }

    unsafe fn reclaim(&self, header: H) {
        self.catch_up();
        // SAFETY: as the caller promises.
        unsafe { self.pool.reclaim(header) }
    }

    unsafe fn place(&self, header: H) -> Place {
        // SAFETY: as the caller promises.
        let base = unsafe { self.base(header) };
        let start = self.start.get().unwrap_or(base);
        let slot = (base.addr().get() - start.addr().get()) / (4 * PAYLOAD);
        self.placed.set(self.placed.get() + 1);
        let (base, skip) = match self.wrong {
            Wrong::Overlapping => (start, 0),
            // The last of six ends 112 bytes after the start, within the first slot.
            Wrong::HalfAStride => (start, slot * PAYLOAD / 2),
            Wrong::Wanders => (base, 8 * (self.placed.get() % 2)),
            Wrong::Misaligned => (base, 1),
            _ => (base, 0),
        };
        // SAFETY: after so many bytes of a slot, a payload fits and some more.
        let place = unsafe { base.add(skip) };
        if self.is_far() {
            return Place::Device(DeviceAddress::new(place.addr().get() as u64));
        }
        Place::Host(place)
    }

    fn may_own(&self, header: H) -> bool {
        match self.wrong {
            Wrong::Disowns => false,
            // No and yes. (What is made of a foreign pointer, the suite forgets.)
            Wrong::Wavers if !self.pool.may_own(header) => {
                self.wavered.set(!self.wavered.get());
                !self.wavered.get()
            }
            _ => self.pool.may_own(header),
        }
    }

    fn caps(&self) -> Caps {
        match self.wrong {
            Wrong::HooksSpoil | Wrong::HooksSpoilBeside => self.pool.caps() | Caps::NEEDS_CACHE_OPS,
            _ if self.is_far() => self.pool.caps() | Caps::ENGINE_ADDRESSED,
            _ => self.pool.caps(),
        }
    }

    unsafe fn after_io(&self, header: H, offset: usize, len: usize, direction: IoDirection) {
        let at = match self.wrong {
            Wrong::HooksSpoil if len > 0 => offset,
            Wrong::HooksSpoilBeside if offset > 0 => offset - 1,
            _ => return,
        };
        if direction == IoDirection::DeviceToCpu {
            // SAFETY: within the segment, which the caller has.
            unsafe { self.base(header).add(at).write(0x99) };
        }
    }

    fn space(&self) -> MemSpace {
        match self.wrong {
            Wrong::OtherSpace => MemSpace::Device,
            _ if self.is_far() => MemSpace::Device,
            _ => MemSpace::Host,
        }
    }

    fn alignment(&self) -> usize {
        match self.wrong {
            Wrong::OddAlignment => 3,
            _ => 8,
        }
    }

    fn max_segment_size(&self) -> usize {
        PAYLOAD
    }

    fn census(&self) -> Census {
        let mut census = self.pool.census();
        census.refused = self.refused.get();
        census.largest_refused = self.largest_refused.get();
        match self.wrong {
            Wrong::NoRefusals => census.refused = 0,
            Wrong::RoundedRefusals => census.largest_refused |= 7,
            Wrong::NeverFalls => census.in_use = census.peak,
            Wrong::PeakFalls => census.peak = census.in_use,
            Wrong::AskingCounts => census.refused += self.asked.get(),
            _ => {}
        }
        census
    }

    fn name(&self) -> &'static str {
        match self.wrong {
            Wrong::NoName => "",
            _ => "faulty",
        }
    }

    unsafe fn copy_in(
        &self,
        header: H,
        offset: usize,
        source: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        self.catch_up();
        let further = usize::from(self.wrong == Wrong::WritesOneFurther);
        // SAFETY: as the caller promises; one byte further is still within the slot.
        unsafe {
            let base = self.found(header);
            base.add(offset + further)
                .copy_from_nonoverlapping(source, len);
        }
        Ok(())
    }

    unsafe fn copy_out(
        &self,
        header: H,
        offset: usize,
        destination: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        self.catch_up();
        if self.wrong == Wrong::ReadsNothing {
            return Ok(());
        }
        // SAFETY: as the caller promises.
        unsafe {
            let base = self.found(header);
            base.add(offset).copy_to_nonoverlapping(destination, len);
        }
        Ok(())
    }

    unsafe fn fill(
        &self,
        header: H,
        offset: usize,
        len: usize,
        byte: u8,
    ) -> Result<(), TransferError> {
        self.catch_up();
        let (offset, len) = match self.wrong {
            Wrong::FillsAll => (0, PAYLOAD),
            // The last byte of a whole fill has a value all the same, for it must not be read
            // uninitialised.
            Wrong::FillsLess if offset > 0 => (offset, len.saturating_sub(1)),
            _ => (offset, len),
        };
        let byte = byte | u8::from(self.wrong == Wrong::FillsOnes);
        // SAFETY: as the caller promises; the whole payload is within the slot.
        let at = unsafe { self.found(header).add(offset) };
        if self.wrong == Wrong::FillsLater {
            self.later.set(Some((at, len, byte)));
            return Ok(());
        }
        // SAFETY: as above.
        unsafe { at.write_bytes(byte, len) };
        Ok(())
    }

    fn reaches(&self, address: DeviceAddress, len: usize) -> bool {
        let Some(start) = self.start.get() else {
            return false;
        };
        let offset = address.get().wrapping_sub(start.addr().get() as u64);
        let end = offset.checked_add(len as u64);
        self.is_far()
            && (self.wrong == Wrong::ReachesAll
                || end.is_some_and(|end| end <= 6 * 4 * PAYLOAD as u64))
    }

    unsafe fn copy_on_device(
        &self,
        from: DeviceAddress,
        to: DeviceAddress,
        len: usize,
    ) -> Result<(), TransferError> {
        let (from, to) = (self.find(from), self.find(to));
        let len = len.saturating_sub(usize::from(self.wrong == Wrong::CopiesLess));
        // SAFETY: as the caller promises.
        unsafe {
            if self.wrong == Wrong::CopiesUpwards {
                (0..len).for_each(|at| to.add(at).write(from.add(at).read()));
            } else {
                from.copy_to(to, len);
            }
        }
        Ok(())
    }

    unsafe fn transfer_all(
        &self,
        direction: IoDirection,
        pieces: &mut dyn Iterator<Item = Piece>,
    ) -> Result<(), PieceError> {
        let mut pieces: Vec<Piece> = pieces.collect();
        match self.wrong {
            Wrong::SubmitsBackwards => pieces.reverse(),
            Wrong::SubmitsLess => drop(pieces.pop()),
            _ => {}
        }
        for piece in pieces {
            let mut at = self.find(piece.address);
            if self.wrong == Wrong::SubmitsElsewhere && direction == IoDirection::DeviceToCpu {
                at = self.start.get().unwrap();
            }
            // SAFETY: as the caller promises; a payload fits at the start of the slab.
            unsafe {
                match direction {
                    IoDirection::CpuToDevice => at.copy_from_nonoverlapping(piece.host, piece.len),
                    IoDirection::DeviceToCpu => at.copy_to_nonoverlapping(piece.host, piece.len),
                }
            }
        }
        Ok(())
    }
}

#[test]
fn a_backend_that_breaks_no_law_passes() {
    let mut report = Failures::default();
    let tally = backend("right", &Faulty::new(Wrong::Nothing), &mut report);
    report.none();
    // The last two are for memory that moves by address.
    assert_eq!((tally.passed, tally.failed, tally.inapplicable), (21, 0, 3));
    let tally = backend("right", &Faulty::new(Wrong::Far), &mut report);
    report.none();
    assert_eq!((tally.passed, tally.failed, tally.inapplicable), (22, 0, 2));
}

const COPIED: &str = "a copy inside the memory is as if by way of the host";
const AT_ONCE: &str = "many ranges at once are as if one by one";

#[test]
fn every_broken_law_of_a_backend_is_found() {
    let laws = [
        (Wrong::Overlapping, "segments do not overlap"),
        (Wrong::HalfAStride, "segments do not overlap"),
        (
            Wrong::Overlapping,
            "a segment keeps its bytes while others come and go",
        ),
        (Wrong::Wanders, "it vends every size"),
        (Wrong::Misaligned, "segments are aligned"),
        (Wrong::Longer, "it vends every size"),
        (
            Wrong::NoRefusals,
            "a larger segment is refused as too large",
        ),
        (Wrong::NoRefusals, "exhaustion is a value"),
        (
            Wrong::RoundedRefusals,
            "a larger segment is refused as too large",
        ),
        (
            Wrong::LastRefusal,
            "a larger segment is refused as too large",
        ),
        (Wrong::NeverFalls, "a dropped segment goes back"),
        (Wrong::PeakFalls, "a peak never falls"),
        (
            Wrong::LargeIsExhausted,
            "a larger segment is refused as too large",
        ),
        (Wrong::ExhaustedIsLarge, "exhaustion is a value"),
        (Wrong::TooMuch, "a larger segment is refused as too large"),
        (Wrong::NoneEmpty, "it vends every size"),
        (Wrong::AskingCounts, "asking why counts nothing"),
        (Wrong::NeverAgain, "segments are used again"),
        (Wrong::ReadsNothing, "it vends every size"),
        (
            Wrong::WritesOneFurther,
            "a transfer moves its range and no other",
        ),
        (Wrong::FillsAll, "a transfer moves its range and no other"),
        (Wrong::FillsLess, "a transfer moves its range and no other"),
        (Wrong::FillsOnes, "initialised bytes can be read"),
        (
            Wrong::FillsLater,
            "the CPU's copies and its own see each other",
        ),
        (Wrong::Wavers, "a foreign pointer is refused"),
        (Wrong::OtherSpace, "host memory is where it says"),
        (
            Wrong::HooksSpoil,
            "what is handed to a device comes back as it was",
        ),
        (
            Wrong::HooksSpoilBeside,
            "what is handed to a device comes back as it was",
        ),
        (Wrong::CopiesUpwards, COPIED),
        (Wrong::CopiesLess, COPIED),
        (Wrong::ReachesAll, COPIED),
        (Wrong::SubmitsBackwards, AT_ONCE),
        (Wrong::SubmitsLess, AT_ONCE),
        (Wrong::SubmitsElsewhere, AT_ONCE),
        (Wrong::Disowns, "a segment is taken apart and put together"),
        (Wrong::OddAlignment, "it says what it is"),
        (Wrong::NoName, "it says what it is"),
    ];
    for (wrong, law) in laws {
        let mut report = Failures::default();
        let tally = backend("wrong", &Faulty::new(wrong), &mut report);
        assert!(!tally.is_clean(), "{wrong:?}");
        report.name(law);
    }

    let mut report = Failures::default();
    let _ = backend("wrong", &Nothing, &mut report);
    let vends_nothing = "who vends nothing says so";
    report.name(vends_nothing);

    let mut seen = laws.map(|(_, law)| law).to_vec();
    seen.push(vends_nothing);
    let layer = [
        "a transfer out of bounds moves nothing",
        "a segment is filled by exactly its bytes",
        "it is the same with its type known",
    ];
    report.all_covered(&seen, &layer);
}

/// Has nothing to vend, and calls that exhaustion.
struct Nothing;

// SAFETY: it vends no segment.
unsafe impl MemBackend for Nothing {
    type Policy = Unsync;
    fn vend(&self, _: usize, _: AllocHint) -> Option<H> {
        None
    }
    fn refusal(&self, requested: usize, _: AllocHint) -> AllocError {
        AllocError::Exhausted {
            requested,
            in_use: 0,
            capacity: 0,
        }
    }
    unsafe fn reclaim(&self, _: H) {}
    unsafe fn place(&self, _: H) -> Place {
        Place::Host(NonNull::dangling())
    }
    fn may_own(&self, _: H) -> bool {
        false
    }
    fn caps(&self) -> Caps {
        Caps::empty()
    }
    fn alignment(&self) -> usize {
        1
    }
    fn max_segment_size(&self) -> usize {
        0
    }
    fn census(&self) -> Census {
        Census::NOTHING
    }
    fn name(&self) -> &'static str {
        "nothing"
    }
}

#[test]
fn broken_segments_are_found() {
    let laws = [
        (Wrong::NeverFalls, "the last one gives the memory back"),
        (Wrong::Wanders, "freezing keeps the bytes in place"),
        (
            Wrong::Disowns,
            "a shared segment is taken apart and put together",
        ),
        (Wrong::OtherSpace, "freezing keeps the bytes in place"),
        (Wrong::ReadsNothing, "only the only holder may write"),
    ];
    for (wrong, law) in laws {
        let mut report = Failures::default();
        let tally = segment("wrong", &Faulty::new(wrong), &mut report);
        assert!(!tally.is_clean(), "{wrong:?}");
        report.name(law);
    }
}
