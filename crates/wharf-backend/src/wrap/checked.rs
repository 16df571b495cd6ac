//! A backend that finds out who wrote where he must not, who freed twice, and who never did.
//!
//! Invariants of a [`Checked`]:
//! 1. a live header of `records` is a segment that was vended and not reclaimed, and its payload is a [`Record`], written
//!    before the header was handed out and not changed until it comes back;
//! 2. `Record::inner` is a live segment of the inner backend, which nobody else has. It is `front + size + rear` bytes long, of
//!    which the middle ones are the holder's and the others ours.
#![allow(
    unsafe_code,
    reason = "keeps records beside headers; the invariants above"
)]

use core::cell::Cell;
use core::fmt;
use core::ptr::NonNull;

use wharf_source::Census;
use wharf_sync::{ConstInit, Lock, SyncPolicy};

use super::hand_on::hand_on;
use super::{OwnsBytes, raw};
use crate::{
    AllocError, AllocHint, FreeList, Header, IoDirection, MemBackend, Place, StaticPool,
    TransferError,
};

/// Something that a [`Checked`] backend found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Finding {
    /// Somebody wrote in front of a segment.
    Underrun {
        /// Whose segment it was: the number of the hint with which it was asked for.
        tag: u32,
        /// Bytes of the segment.
        size: usize,
    },
    /// Somebody wrote behind a segment.
    Overrun {
        /// Whose segment it was.
        tag: u32,
        /// Bytes of the segment.
        size: usize,
    },
    /// The bytes around a segment could not be read: its device is closed.
    Unchecked {
        /// Whose segment it was.
        tag: u32,
        /// Bytes of the segment.
        size: usize,
    },
    /// A segment that had gone back already went back again. It was left alone.
    DoubleRelease {
        /// The address of the control block.
        address: usize,
    },
    /// Something went back that never came from here. It was left alone.
    ForeignRelease {
        /// The address that was taken for that of a control block.
        address: usize,
    },
    /// The backend ends, and a segment has not gone back.
    Leak {
        /// Whose segment it is.
        tag: u32,
        /// Bytes of the segment.
        size: usize,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Underrun { tag, size } => {
                write!(f, "written in front of the {size} bytes of holder {tag}")
            }
            Self::Overrun { tag, size } => {
                write!(f, "written behind the {size} bytes of holder {tag}")
            }
            Self::Unchecked { tag, size } => {
                write!(
                    f,
                    "around the {size} bytes of holder {tag} nothing could be read"
                )
            }
            Self::DoubleRelease { address } => write!(f, "{address:#x} was given back twice"),
            Self::ForeignRelease { address } => {
                write!(f, "{address:#x} was given back and never came from here")
            }
            Self::Leak { tag, size } => {
                write!(f, "the {size} bytes of holder {tag} never came back")
            }
        }
    }
}

/// Is told what a [`Checked`] backend finds, on whatever context it finds it, outside of any critical section. Panic in it, if
/// that is how you want to learn of it; but most findings are made in a drop.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be told what was found",
    note = "implement `FindingSink`, or pass a `Fn(Finding)`; for a `static`, a `fn(Finding)`"
)]
pub trait FindingSink {
    /// Something was found.
    fn found(&self, finding: Finding);
}

impl<F: Fn(Finding)> FindingSink for F {
    fn found(&self, finding: Finding) {
        self(finding);
    }
}

/// What lies around a payload.
const CANARY: u8 = 0xC5;
/// What an unused payload holds.
const VENDED: u8 = 0xA5;
/// What a freed payload holds.
const FREED: u8 = 0xDD;
/// Bytes of a canary, at least.
const GUARD: usize = 8;

/// What is known of a segment.
#[derive(Clone, Copy)]
struct Record {
    /// Its header in the inner backend.
    inner: NonNull<()>,
    front: usize,
    size: usize,
    rear: usize,
    tag: u32,
    /// Whether the canaries could be written.
    armed: bool,
}

const RECORD: usize = {
    assert!(
        align_of::<Record>() <= 8,
        "a record fits the slots' alignment"
    );
    size_of::<Record>()
};

/// A wrapper around a backend that finds what safe code cannot do and everything else does: writes beyond a segment's end,
/// releases that are doubled or foreign, and leaks.
///
/// ```
/// use std::cell::RefCell;
/// use wharf_backend::wrap::{Checked, Finding};
/// use wharf_backend::{AllocHint, SegmentMut, StaticPool};
/// use wharf_sync::Unsync;
///
/// let found = RefCell::new(Vec::new());
/// let pool = StaticPool::<Unsync, 96, 4>::new();
/// let pool = Checked::<_, _, 4>::new(pool, |finding| found.borrow_mut().push(finding));
/// const RECEIVER: AllocHint = AllocHint(7);
///
/// let frame = SegmentMut::alloc_with(&pool, 64, RECEIVER)?;
/// std::mem::forget(frame);
/// drop(pool);
/// assert_eq!(*found.borrow(), [Finding::Leak { tag: 7, size: 64 }]);
/// assert_eq!(found.borrow()[0].to_string(), "the 64 bytes of holder 7 never came back");
/// # Ok::<(), wharf_backend::AllocError>(())
/// ```
///
/// # What it does
/// * *Canaries.* It asks the inner backend for more than it was asked for, and fills what is in front of the payload (as many
///   bytes as the alignment asks for, at least 8) and behind it (8). A write there is found when the segment goes back. Where the
///   inner backend has no segment that large, only what is behind is guarded, and where even that does not fit, nothing is: give
///   a pool slots with 16 bytes to spare.
/// * *Poison.* A vended payload is filled with `A5`, a freed one with `DD`. So nothing reads as zero by luck, and who reads on after
///   the end sees it.
/// * *Tags.* The number of the [`AllocHint`] names the holder. The inner backend gets the hint, too.
/// * *Releases.* Every segment has its control block in a table of `N`, here, so that what goes back is known to come from here and
///   to be alive, over the heap too. What is not is told and left alone. (Of two releases at the very same moment only one may
///   be found; and [`SegmentMut::from_raw`](crate::SegmentMut::from_raw) refuses such a pointer, so that nothing is released.)
/// * *Leaks* are told when the wrapper is dropped, with tag and size. (A `static` is never dropped.)
///
/// # What it costs
/// Two passes over the payload and two over the canaries, outside of any critical section; a table of `N` control blocks with five
/// words each; of `N + 1` segments one is refused, as exhaustion.
pub struct Checked<B: OwnsBytes, F: FindingSink, const N: usize> {
    inner: B,
    sink: F,
    records: StaticPool<B::Policy, RECORD, N>,
    largest_refused: <B::Policy as SyncPolicy>::Lock<Cell<usize>>,
}

impl<B: OwnsBytes, F: FindingSink, const N: usize> Checked<B, F, N> {
    /// Around `inner`; `sink` is told what is found.
    pub fn new(inner: B, sink: F) -> Self {
        Self {
            inner,
            sink,
            records: StaticPool::fresh(),
            largest_refused: Lock::new(Cell::new(0)),
        }
    }

    /// [`new`](Self::new) for a `static`.
    pub const fn new_const(inner: B, sink: F) -> Self
    where
        <B::Policy as SyncPolicy>::Lock<FreeList>: ConstInit,
        <B::Policy as SyncPolicy>::Lock<Cell<usize>>: ConstInit,
        <B::Policy as SyncPolicy>::Count: ConstInit,
    {
        Self {
            inner,
            sink,
            records: StaticPool::new(),
            largest_refused: ConstInit::INIT,
        }
    }

    /// What is inside.
    #[must_use]
    pub const fn inner(&self) -> &B {
        &self.inner
    }

    /// Who holds a segment, and of how many bytes: a leak report ahead of time.
    pub fn holders(&mut self, mut holder: impl FnMut(AllocHint, usize)) {
        self.records.each_live(|header| {
            // SAFETY: live; and while we have `&mut self` nobody reclaims it.
            let Record { tag, size, .. } = unsafe { self.record(header) };
            holder(AllocHint(tag), size);
        });
    }

    /// # Safety
    /// `header` is a live header of `records`.
    #[inline]
    unsafe fn place_of_record(&self, header: NonNull<Header<B::Policy>>) -> NonNull<Record> {
        // SAFETY: as the caller promises.
        match unsafe { self.records.place(header) } {
            Place::Host(record) => record.cast(),
            // SAFETY: a `StaticPool` is a `HostBackend`.
            Place::Device(_) => unsafe { core::hint::unreachable_unchecked() },
        }
    }

    /// # Safety
    /// `header` is that of a live segment.
    #[inline]
    unsafe fn record(&self, header: NonNull<Header<B::Policy>>) -> Record {
        // SAFETY: invariant 1.
        unsafe { self.place_of_record(header).read() }
    }

    /// Where byte `offset` of a segment is in the inner backend.
    ///
    /// # Safety
    /// `header` is that of a live segment, and `offset` is not behind its end.
    #[inline]
    unsafe fn within(
        &self,
        header: NonNull<Header<B::Policy>>,
        offset: usize,
    ) -> (NonNull<Header<B::Policy>>, usize) {
        // SAFETY: as the caller promises.
        let record = unsafe { self.record(header) };
        // No wrap: the inner segment is longer than that.
        (record.inner.cast(), record.front + offset)
    }

    /// Bytes around a payload of `size`: in front, and behind.
    fn guards(&self, size: usize) -> (usize, usize) {
        let front = self.inner.alignment().max(GUARD);
        let max = self.inner.max_segment_size();
        let fits = |(front, rear): &(usize, usize)| {
            let total = size
                .checked_add(*front)
                .and_then(|sum| sum.checked_add(*rear));
            total.is_some_and(|total| total <= max)
        };
        [(front, GUARD), (0, GUARD)]
            .into_iter()
            .find(fits)
            .unwrap_or((0, 0))
    }

    fn refuse<T>(&self, size: usize) -> Option<T> {
        self.largest_refused
            .with(|largest| largest.set(largest.get().max(size)));
        None
    }

    /// The canaries are set, and the payload is poisoned.
    ///
    /// # Safety
    /// The record is of a live inner segment that is ours.
    unsafe fn arm(&self, record: &Record) -> Result<(), TransferError> {
        let &Record {
            front, size, rear, ..
        } = record;
        let inner = record.inner.cast();
        let fill = |range, byte| {
            // SAFETY: invariant 2: ours, and the ranges are parts of it.
            unsafe { raw::fill(&self.inner, inner, range, byte) }
        };
        fill((0, front), CANARY)?;
        fill((front, size), VENDED)?;
        fill((front + size, rear), CANARY)
    }

    /// # Safety
    /// The record is of a live inner segment, and its holder is gone.
    unsafe fn inspect(&self, record: &Record) {
        let &Record {
            front,
            size,
            rear,
            tag,
            armed,
            ..
        } = record;
        let inner = record.inner.cast();
        let holds = |range| {
            // SAFETY: invariant 2: ours, and initialised, because it is armed.
            unsafe { raw::holds(&self.inner, inner, range, CANARY) }
        };
        let found = if armed {
            let before =
                holds((0, front)).map(|whole| (!whole).then_some(Finding::Underrun { tag, size }));
            let behind = holds((front + size, rear))
                .map(|whole| (!whole).then_some(Finding::Overrun { tag, size }));
            let unchecked = |_| Some(Finding::Unchecked { tag, size });
            [
                before.unwrap_or_else(unchecked),
                behind.unwrap_or_else(unchecked),
            ]
        } else {
            [Some(Finding::Unchecked { tag, size }), None]
        };
        // SAFETY: as above; nobody reads what a closed device does not take.
        let _ = unsafe { raw::fill(&self.inner, inner, (front, size), FREED) };
        for finding in found.into_iter().flatten() {
            self.sink.found(finding);
        }
    }
}

impl<B: OwnsBytes, F: FindingSink, const N: usize> Drop for Checked<B, F, N> {
    fn drop(&mut self) {
        self.records.each_live(|header| {
            // SAFETY: live; and while we have `&mut self` nobody reclaims it.
            let Record { tag, size, .. } = unsafe { self.record(header) };
            self.sink.found(Finding::Leak { tag, size });
        });
    }
}

impl<B: OwnsBytes, F: FindingSink, const N: usize> fmt::Debug for Checked<B, F, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checked")
            .field("backend", &self.inner.name())
            .field("segments", &self.records.census().in_use)
            .field("most", &N)
            .finish_non_exhaustive()
    }
}

// SAFETY: a vended header is one of the table's, and stays there while it lives; behind it is a segment of `inner` of which the
// place and the ranges that are handed on are a part that is the holder's alone. Handles keep the table where it is.
unsafe impl<B: OwnsBytes, F: FindingSink, const N: usize> MemBackend for Checked<B, F, N> {
    type Policy = B::Policy;

    hand_on! {
        [inner];
        except vend refusal reclaim place may_own census before_io after_io copy_in copy_out fill
    }

    fn vend(&self, size: usize, hint: AllocHint) -> Option<NonNull<Header<B::Policy>>> {
        let Some(header) = self.records.vend(RECORD, AllocHint::NONE) else {
            return self.refuse(size);
        };
        let (front, rear) = self.guards(size);
        // No wrap: without guards there is nothing to add, and guards were found to fit.
        let Some(inner) = self.inner.vend(front + size + rear, hint) else {
            // SAFETY: just vended, and not handed out.
            unsafe { self.records.reclaim(header) };
            return self.refuse(size);
        };
        let mut record = Record {
            inner: inner.cast(),
            front,
            size,
            rear,
            tag: hint.0,
            armed: false,
        };
        // SAFETY: just vended, so it is ours.
        record.armed = unsafe { self.arm(&record) }.is_ok();
        // SAFETY: just vended by the table, so header and record are ours to write until we return. The table does not
        // read the length of a live header.
        unsafe {
            self.place_of_record(header).write(record);
            header.write(Header::new(size));
        }
        Some(header)
    }

    fn refusal(&self, size: usize, hint: AllocHint) -> AllocError {
        let inner = self.inner.census();
        if size <= self.max_segment_size() && self.records.census().in_use >= N {
            // Slots: as many as the table has places. What counts bytes knows how many of them are out; more cannot be.
            let held = if self.inner.max_segment_size() <= inner.unit {
                N.saturating_mul(inner.unit)
            } else {
                inner.bytes_in_use()
            };
            return AllocError::Exhausted {
                requested: size,
                in_use: held,
                capacity: held,
            };
        }
        let (front, rear) = self.guards(size);
        let why = self.inner.refusal(front + size + rear, hint);
        why.of_a_request_for(size)
    }

    unsafe fn reclaim(&self, header: NonNull<Header<B::Policy>>) {
        if !self.records.may_own(header) {
            let address = header.addr().get();
            self.sink.found(if self.records.is_slot(header) {
                Finding::DoubleRelease { address }
            } else {
                Finding::ForeignRelease { address }
            });
            return;
        }
        // SAFETY: live, as just found, and the holder is gone, as the caller promises.
        let record = unsafe { self.record(header) };
        // SAFETY: as above. The record first, so that whoever releases it again is found.
        unsafe { self.records.reclaim(header) };
        // SAFETY: invariant 2.
        unsafe { self.inspect(&record) };
        // SAFETY: invariant 2; the record is gone, so it is handed on once.
        unsafe { self.inner.reclaim(record.inner.cast()) }
    }

    #[inline]
    unsafe fn place(&self, header: NonNull<Header<B::Policy>>) -> Place {
        // SAFETY: as the caller promises.
        let record = unsafe { self.record(header) };
        // SAFETY: invariant 2.
        match unsafe { self.inner.place(record.inner.cast()) } {
            // SAFETY: invariant 2: that many bytes in front are ours.
            Place::Host(base) => Place::Host(unsafe { base.add(record.front) }),
            Place::Device(base) => {
                // Neither the sum nor the conversion wraps: the segment is that long.
                let front = record.front as u64;
                Place::Device(base.checked_add(front).unwrap_or(base))
            }
        }
    }

    /// Exact, over every inner backend.
    fn may_own(&self, header: NonNull<Header<B::Policy>>) -> bool {
        self.records.may_own(header)
    }

    /// The inner census. A capacity in slots is at most `N`; refusals are all that were told here, in the bytes that were asked for.
    fn census(&self) -> Census {
        let mut census = self.inner.census();
        // A unit is a slot if no segment is larger: one of bytes may be a slot of one byte, of which the table caps the number.
        if self.inner.max_segment_size() <= census.unit {
            census.capacity = census.capacity.min(N);
        }
        let full = self.records.census().refused;
        // Wraps: an inner `Waitable` takes off what is not told, of both.
        census.refused = census.refused.wrapping_add(full);
        census.largest_refused = self.largest_refused.with(Cell::get);
        census
    }

    unsafe fn before_io(
        &self,
        header: NonNull<Header<B::Policy>>,
        offset: usize,
        len: usize,
        direction: IoDirection,
    ) {
        // SAFETY: as the caller promises, and invariant 2.
        unsafe {
            let (inner, offset) = self.within(header, offset);
            self.inner.before_io(inner, offset, len, direction);
        }
    }

    unsafe fn after_io(
        &self,
        header: NonNull<Header<B::Policy>>,
        offset: usize,
        len: usize,
        direction: IoDirection,
    ) {
        // SAFETY: as the caller promises, and invariant 2.
        unsafe {
            let (inner, offset) = self.within(header, offset);
            self.inner.after_io(inner, offset, len, direction);
        }
    }

    unsafe fn copy_in(
        &self,
        header: NonNull<Header<B::Policy>>,
        offset: usize,
        host: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        // SAFETY: as the caller promises, and invariant 2.
        unsafe {
            let (inner, offset) = self.within(header, offset);
            self.inner.copy_in(inner, offset, host, len)
        }
    }

    unsafe fn copy_out(
        &self,
        header: NonNull<Header<B::Policy>>,
        offset: usize,
        host: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        // SAFETY: as the caller promises, and invariant 2.
        unsafe {
            let (inner, offset) = self.within(header, offset);
            self.inner.copy_out(inner, offset, host, len)
        }
    }

    unsafe fn fill(
        &self,
        header: NonNull<Header<B::Policy>>,
        offset: usize,
        len: usize,
        byte: u8,
    ) -> Result<(), TransferError> {
        // SAFETY: as the caller promises, and invariant 2.
        unsafe {
            let (inner, offset) = self.within(header, offset);
            self.inner.fill(inner, offset, len, byte)
        }
    }
}
