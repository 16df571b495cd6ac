//! Who may touch the bytes of a storage: one state word for host and device together.
//!
//! The word counts everybody who has access. Host and device exclude each other unless both only read. Device accesses of
//! one stream may overlap, because the stream runs them one after the other; those of different streams exclude
//! each other unless both only read. Begin and end are one atomic update each while nobody waits.
//!
//! ```text
//!  31..30  29      28..23   22..17    16..11    10     9      8..5     4..0
//!  pending waiters stream   device    device    guard  host   guard    host
//!  writers                  writers   readers   writer writer readers  readers
//! ```
//! *Guards* are host accesses that user code holds for as long as it likes; they are counted apart, because
//! waiting for one may be waiting for oneself. Everything else ends by itself, so it may be waited for.
//!
//! *Pending* are writers that wait: while there is one, newcomers queue behind it, so that readers coming and going cannot
//! starve it. Three are counted; further ones wait without a mark until there is room. Which of several goes first is open.
//!
//! *Waiters* is set by everybody who waits; the next access to end clears it and wakes all. Who stops waiting leaves it
//! there: it may be somebody else's, and costs one wake that nobody needs.
//!
//! Two states have bits that exclude each other otherwise. A guard writer with guard readers is neither: the storage is
//! *split*, and the readers' field counts its parts. A guard writer with a host writer: the storage is *deserted*, the last
//! tensor is gone. From then on the device accesses alone keep it, and whoever takes the last of them away is told so:
//! [`End::Last`].

mod turn;

use wharf_engine::StreamId;
use wharf_sync::{Event, SyncPolicy, Word};

pub(crate) use turn::Turn;

/// What one holder does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// A copy out of the storage, inside one call.
    HostRead,
    /// A copy into the storage, inside one call.
    HostWrite,
    /// A guard that lends `&[u8]`.
    GuardRead,
    /// A guard that lends `&mut [u8]`.
    GuardWrite,
    /// A descriptor that reads.
    DeviceRead(StreamId),
    /// A descriptor that writes.
    DeviceWrite(StreamId),
}

/// Why a claim was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Someone has conflicting access that ends by itself.
    Held,
    /// A guard is held.
    Guarded,
    /// The storage is split: its parts have the access.
    Split,
    /// A field of the word is full.
    Full(u32),
    /// Waiting would be for ever.
    Never,
    /// The deadline passed.
    TimedOut,
}

/// Who has access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Busy {
    /// Devices; so many reads and writes.
    Devices { reads: u32, writes: u32 },
    /// The parts of a storage that is split.
    Split,
    /// The host: a call that is under way, or a guard.
    Host,
}

/// What the end of a device access left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Somebody still keeps the storage.
    Kept,
    /// Nobody does: the caller frees it.
    Last,
    /// Nothing ended, because somebody waits for it.
    Waited,
}

impl End {
    const fn after(word: u32) -> Self {
        if word & DESERTED == DESERTED && !devices(word) {
            Self::Last
        } else {
            Self::Kept
        }
    }
}

/// A counter inside the word.
#[derive(Clone, Copy)]
struct Field {
    shift: u32,
    bits: u32,
}

impl Field {
    const fn one(self) -> u32 {
        1 << self.shift
    }
    const fn max(self) -> u32 {
        (1 << self.bits) - 1
    }
    const fn mask(self) -> u32 {
        self.max() << self.shift
    }
    const fn get(self, word: u32) -> u32 {
        (word >> self.shift) & self.max()
    }
    const fn with(self, word: u32, value: u32) -> u32 {
        (word & !self.mask()) | (value << self.shift)
    }
    const fn is_full(self, word: u32) -> bool {
        word & self.mask() == self.mask()
    }
    /// One more, if there is room.
    const fn more(self, word: u32) -> Option<u32> {
        if self.is_full(word) {
            None
        } else {
            Some(word + self.one())
        }
    }
    /// Whether it counts accesses of devices.
    const fn is_device(self) -> bool {
        matches!(self.shift, 11 | 17)
    }
}

const HOST_READERS: Field = Field { shift: 0, bits: 5 };
const GUARD_READERS: Field = Field { shift: 5, bits: 4 };
const HOST_WRITER: Field = Field { shift: 9, bits: 1 };
const GUARD_WRITER: Field = Field { shift: 10, bits: 1 };
const DEVICE_READERS: Field = Field { shift: 11, bits: 6 };
const DEVICE_WRITERS: Field = Field { shift: 17, bits: 6 };
const STREAM: Field = Field { shift: 23, bits: 6 };
const WAITERS: u32 = 1 << 29;
const PENDING: Field = Field { shift: 30, bits: 2 };
const DESERTED: u32 = HOST_WRITER.mask() | GUARD_WRITER.mask();

const _: () = assert!(STREAM.max() == StreamId::MAX as u32);

/// The stream number of readers of several streams.
const MIXED: u32 = 0;

const fn any(word: u32, field: Field) -> bool {
    word & field.mask() != 0
}

const fn devices(word: u32) -> bool {
    any(word, DEVICE_READERS) || any(word, DEVICE_WRITERS)
}

/// The word without one access of `field`, and without the mark of those who wait.
const fn retire(word: u32, field: Field) -> u32 {
    let word = (word - field.one()) & !WAITERS;
    // The stream goes with the last access of a device, so the end of a host's need not look.
    if !field.is_device() || devices(word) {
        word
    } else {
        STREAM.with(word, MIXED)
    }
}

/// Whether device accesses are under way that `stream` does not order itself with.
const fn foreign(word: u32, stream: StreamId) -> bool {
    STREAM.get(word) != stream.get() as u32
}

impl Claim {
    pub(crate) const fn writes(self) -> bool {
        matches!(
            self,
            Self::HostWrite | Self::GuardWrite | Self::DeviceWrite(_)
        )
    }

    /// The word with this claim granted. `pending`: the caller is one of the pending writers.
    #[inline]
    fn grant(self, word: u32, pending: bool) -> Result<u32, Refusal> {
        match self.refusal(word, pending) {
            Some(refusal) => Err(refusal),
            None => Ok(self.granted(word)),
        }
    }

    /// Why this claim is not granted, if it is not.
    #[inline]
    fn refusal(self, word: u32, pending: bool) -> Option<Refusal> {
        if any(word, GUARD_WRITER) && any(word, GUARD_READERS) {
            return Some(Refusal::Split);
        }
        if any(word, GUARD_WRITER) || (self.writes() && any(word, GUARD_READERS)) {
            return Some(Refusal::Guarded);
        }
        if any(word, HOST_WRITER) || (any(word, PENDING) && !pending) {
            return Some(Refusal::Held);
        }
        let device_reads = any(word, DEVICE_READERS);
        let device_writes = any(word, DEVICE_WRITERS);
        let device = device_reads || device_writes;
        let held = match self {
            Self::HostRead | Self::GuardRead => device_writes,
            Self::HostWrite | Self::GuardWrite => device || any(word, HOST_READERS),
            Self::DeviceRead(stream) => device_writes && foreign(word, stream),
            Self::DeviceWrite(stream) => {
                any(word, HOST_READERS) || (device && foreign(word, stream))
            }
        };
        if held {
            return Some(Refusal::Held);
        }
        let field = self.field();
        field.is_full(word).then(|| Refusal::Full(field.max()))
    }

    /// The word with this claim in it, which nothing [refuses](Self::refusal).
    #[inline]
    fn granted(self, before: u32) -> u32 {
        let word = before + self.field().one();
        match self {
            // Beside a write there are no others, so it is right already where it need not be set.
            Self::DeviceWrite(stream) => STREAM.with(word, stream.get().into()),
            Self::DeviceRead(stream) if !devices(before) => STREAM.with(word, stream.get().into()),
            Self::DeviceRead(stream) if foreign(word, stream) => STREAM.with(word, MIXED),
            _ => word,
        }
    }

    const fn field(self) -> Field {
        match self {
            Self::HostRead => HOST_READERS,
            Self::HostWrite => HOST_WRITER,
            Self::GuardRead => GUARD_READERS,
            Self::GuardWrite => GUARD_WRITER,
            Self::DeviceRead(_) => DEVICE_READERS,
            Self::DeviceWrite(_) => DEVICE_WRITERS,
        }
    }
}

/// The fence of one storage.
#[derive(Debug)]
pub(crate) struct Fence<P: SyncPolicy> {
    word: P::Word,
    event: P::Event,
}

impl<P: SyncPolicy> Fence<P> {
    pub(crate) fn new() -> Self {
        Self {
            word: P::Word::new(0),
            event: P::Event::new(),
        }
    }

    /// Grants `claim` now or not at all.
    #[inline]
    pub(crate) fn try_begin(&self, claim: Claim) -> Result<(), Refusal> {
        // In two steps, so that the word on its way through is no `Result` to be packed and unpacked.
        let step = |word| match claim.refusal(word, false) {
            Some(_) => None,
            None => Some(claim.granted(word)),
        };
        match self.word.update(step) {
            Ok(_) => Ok(()),
            Err(word) => claim.grant(word, false).map(|_| ()),
        }
    }

    /// One more of what was granted as `claim` and has not ended. Behind nobody: who waits, waits for that one too.
    pub(crate) fn again(&self, claim: Claim) -> Result<(), Refusal> {
        let field = claim.field();
        match self.word.update(|word| field.more(word)) {
            Ok(_) => Ok(()),
            Err(_) => Err(Refusal::Full(field.max())),
        }
    }

    /// Ends what was granted as `claim`, and wakes who waits. The caller keeps the fence alive by something else than the
    /// claim: a wake comes after the end.
    #[inline]
    pub(crate) fn end(&self, claim: Claim) {
        let field = claim.field();
        let (Ok(before) | Err(before)) = self.word.update(|word| Some(retire(word, field)));
        if before & WAITERS != 0 {
            self.event.notify();
        }
    }

    /// The word, for those whose claim may be all that keeps the fence: see [`end_unless_waited`].
    #[inline]
    pub(crate) const fn word(&self) -> &P::Word {
        &self.word
    }

    /// That nobody has access, or who does. Who waits has none.
    pub(crate) fn idle(&self) -> Result<(), Busy> {
        const ACCESS: u32 = !(WAITERS | PENDING.mask());
        let word = self.word.load();
        if word & ACCESS == 0 {
            return Ok(());
        }
        Err(if devices(word) {
            let (reads, writes) = (DEVICE_READERS.get(word), DEVICE_WRITERS.get(word));
            Busy::Devices { reads, writes }
        } else if any(word, GUARD_WRITER) && any(word, GUARD_READERS) {
            Busy::Split
        } else {
            Busy::Host
        })
    }

    /// Gives the storage to two parts, at once or not at all.
    pub(crate) fn split(&self) -> Result<(), Refusal> {
        const PARTS: u32 = 2;
        let split = |word| {
            let granted = Claim::GuardWrite.grant(word, false);
            granted.map(|word| GUARD_READERS.with(word, PARTS))
        };
        match self.word.update(|word| split(word).ok()) {
            Ok(_) => Ok(()),
            Err(word) => split(word).map(|_| ()),
        }
    }

    /// A part is gone. With the last one the storage is whole again.
    pub(crate) fn rejoin(&self) {
        let step = |word: u32| {
            let word = word - GUARD_READERS.one();
            Some(if any(word, GUARD_READERS) {
                word
            } else {
                retire(word, GUARD_WRITER)
            })
        };
        let (Ok(before) | Err(before)) = self.word.update(step);
        if GUARD_READERS.get(before) == 1 && before & WAITERS != 0 {
            self.event.notify();
        }
    }

    /// Device reads and device writes under way.
    pub(crate) fn in_flight(&self) -> (u32, u32) {
        let word = self.word.load();
        (DEVICE_READERS.get(word), DEVICE_WRITERS.get(word))
    }
}

/// Ends a device access that may be all that keeps the fence. Where somebody waits nothing has happened, and the answer
/// is [`End::Waited`]: find something else that keeps the fence, and [`end`](Fence::end); or, if nothing does, nobody waits
/// any more, and [`end_unseen`] is the way.
///
/// A function of the word alone: somebody else may free the fence as soon as the word has changed, and a reference to all of
/// it, as an argument, would have to stay valid until the return. A word is all cell, of which that is not asked.
#[inline]
pub(crate) fn end_unless_waited<W: Word>(fence: &W, claim: Claim) -> End {
    let field = claim.field();
    let step = |word: u32| (word & WAITERS == 0).then(|| retire(word, field));
    match fence.update(step) {
        Ok(before) => End::after(retire(before, field)),
        Err(_) => End::Waited,
    }
}

/// Ends a device access when nobody can be waiting, because no tensor is left.
#[cold]
pub(crate) fn end_unseen<W: Word>(fence: &W, claim: Claim) -> End {
    let field = claim.field();
    let (Ok(before) | Err(before)) = fence.update(|word| Some(retire(word, field)));
    End::after(retire(before, field))
}

/// The last tensor is gone, so nobody begins or waits any more. [`End::Last`]: and no device has access.
#[inline]
pub(crate) fn desert<W: Word>(fence: &W) -> End {
    let (Ok(before) | Err(before)) = fence.update(|word| Some(word | DESERTED));
    End::after(before | DESERTED)
}

#[cfg(all(test, feature = "std", feature = "critical-section"))]
mod tests;
