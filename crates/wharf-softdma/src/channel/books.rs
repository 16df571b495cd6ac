//! A channel's books: which ranges are taken, by whom, and what is told about it. Nothing here touches the bytes.

use core::ptr::NonNull;
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use wharf_backend::usage::{
    Allocation, ChannelId, EventRing, Tag, UsageBooks, UsageClass, UsageEvent, UsageEventKind,
};
use wharf_backend::{AllocError, AllocHint, Census, DeviceAddress, Header};
use wharf_sync::Blocking;

use super::{Block, Channel, Room};
use crate::arena::{Arena, GRANULE};
use crate::ranges::{Ranges, Refused};
use crate::{ChannelConfig, Ledger, OpenError};

/// Events that can be read.
const EVENTS: usize = 64;

/// What a channel needs of the host: bytes, addresses, and the table of ranges.
pub(crate) struct Memory {
    pub(super) arena: Arena,
    pub(super) ranges: Ranges<Owner>,
}

impl Memory {
    pub(crate) fn new(id: ChannelId, config: &ChannelConfig) -> Result<Self, OpenError> {
        let arena = Arena::new(id, config)?;
        let requested = config.memory;
        let ranges =
            Ranges::new(arena.len() / GRANULE).map_err(|_| OpenError::Memory { requested })?;
        Ok(Self { arena, ranges })
    }
}

/// What a channel knows of its segments, behind its lock.
pub(super) struct Books {
    pub(super) ranges: Ranges<Owner>,
    /// The addresses of the live headers.
    pub(super) live: HashSet<usize>,
    /// In bytes, in whole granules.
    pub(super) usage: UsageBooks,
    pub(super) events: EventRing<EVENTS>,
    /// Why the last request was refused, if the books do not tell, until somebody asks.
    pub(super) cause: Option<Cause>,
    pub(super) segments_peak: usize,
    pub(super) allocations: u64,
    pub(super) frees: u64,
}

/// Who has a range.
pub(super) struct Owner {
    pub(super) asked: usize,
    pub(super) class: UsageClass,
    pub(super) tag: Tag,
}

/// A refusal that is not for want of room.
#[derive(Clone, Copy)]
pub(super) struct Cause {
    pub(super) size: usize,
    pub(super) hint: AllocHint,
    pub(super) error: AllocError,
}

impl Books {
    pub(super) fn new(ranges: Ranges<Owner>, capacity: usize) -> Self {
        Self {
            ranges,
            live: HashSet::new(),
            usage: UsageBooks::new(capacity),
            events: EventRing::new(),
            cause: None,
            segments_peak: 0,
            allocations: 0,
            frees: 0,
        }
    }
}

impl Channel {
    /// What it holds, and what moved.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        let books = self.books();
        Ledger {
            channel: self.id,
            name: self.name,
            census: self.told(books.usage.total()),
            usage: books.usage,
            segments: books.live.len(),
            segments_peak: books.segments_peak,
            largest_free: books.ranges.largest() * GRANULE,
            allocations: books.allocations,
            frees: books.frees,
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
            bytes_filled: self.bytes_filled.load(Ordering::Relaxed),
            bytes_copied: self.bytes_copied.load(Ordering::Relaxed),
            submissions: self.submissions.load(Ordering::Relaxed),
            events_dropped: books.events.dropped(),
        }
    }

    /// Refusals that somebody was told of: who waits asks again, and is refused in between.
    pub(super) fn told(&self, census: Census) -> Census {
        Census {
            refused: census.refused.wrapping_sub(self.waiters.untold()),
            ..census
        }
    }

    /// The live segments, in the order of their addresses, as they are now.
    ///
    /// # Errors
    /// The host's heap has no room for the list.
    pub fn allocations(&self) -> Result<impl ExactSizeIterator<Item = Allocation>, AllocError> {
        let mut list = Vec::new();
        let books = self.books();
        let requested = books.live.len().saturating_mul(size_of::<Allocation>());
        list.try_reserve_exact(books.live.len())
            .map_err(|_| AllocError::Heap { requested })?;
        list.extend(books.ranges.owners().map(|taken| self.describe(taken)));
        Ok(list.into_iter())
    }

    /// The live segment that has this address: the one behind a tensor's
    /// [`place`](wharf_backend::Place), say.
    #[must_use]
    pub fn allocation_at(&self, address: DeviceAddress) -> Option<Allocation> {
        let granule = self.arena.offset(address, 1)? / GRANULE;
        let books = self.books();
        let mut owners = books.ranges.owners();
        owners
            .find(|&(_, start, len)| (start..start + len).contains(&granule))
            .map(|taken| self.describe(taken))
    }

    pub(super) fn describe(&self, (owner, start, len): (&Owner, usize, usize)) -> Allocation {
        Allocation {
            channel: self.id,
            address: self.address(start),
            asked: owner.asked,
            allocated: len * GRANULE,
            // What lies before an aligned segment is free.
            align_offset: 0,
            class: owner.class,
            tag: owner.tag,
        }
    }

    /// Where a granule starts.
    const fn address(&self, granule: usize) -> DeviceAddress {
        // No wrap: it lies in the arena, whose addresses do not wrap.
        DeviceAddress::new(self.base().get().wrapping_add((granule * GRANULE) as u64))
    }

    /// No section panics, so a poisoned lock (it cannot be) guards a whole books.
    pub(super) fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why no request like this one is ever served here.
    pub(super) fn never(&self, size: usize, hint: AllocHint) -> Option<AllocError> {
        if self.is_closed() {
            return Some(AllocError::Closed);
        }
        let class = hint.class();
        if self.on_host && class.is_device_only() {
            let channel = self.id;
            return Some(AllocError::NotOnHost { class, channel });
        }
        let requested = size;
        match self.room_for(hint) {
            0 => Some(AllocError::TooAligned {
                requested,
                alignment: hint.alignment(),
            }),
            max if size > max => Some(AllocError::TooLarge { requested, max }),
            _ => None,
        }
    }

    /// Bytes from the first address on that is aligned as a hint asks.
    pub(super) fn room_for(&self, hint: AllocHint) -> usize {
        let (first, align) = self.alignment_of(hint);
        let skipped = usize::try_from(first.wrapping_neg() & (align - 1)).unwrap_or(usize::MAX);
        self.capacity()
            .saturating_sub(skipped.saturating_mul(GRANULE))
    }

    /// The number of the first granule, and the multiples of granules that a hint asks for.
    const fn alignment_of(&self, hint: AllocHint) -> (u64, u64) {
        let granule = GRANULE as u64;
        let align = hint.alignment() / granule;
        (
            self.base().get() / granule,
            if align == 0 { 1 } else { align },
        )
    }

    /// Vends, or says why not, if that is not for want of room. Counts no refusal.
    pub(super) fn try_vend(
        &self,
        books: &mut Books,
        room: Option<Room>,
        (size, hint): (usize, AllocHint),
        tag: &Tag,
    ) -> Result<NonNull<Header<Blocking>>, Option<AllocError>> {
        if let Some(never) = self.never(size, hint) {
            return Err(Some(never));
        }
        if let Some(call) = self.faults.alloc() {
            return Err(Some(AllocError::Injected { call }));
        }
        let heap = Some(AllocError::Heap { requested: size });
        let room = room.ok_or(heap)?;
        books.live.try_reserve(1).map_err(|_| heap)?;
        let class = hint.class();
        let owner = Owner {
            asked: size,
            class,
            tag: *tag,
        };
        let taken = books
            .ranges
            .take(granules(size), self.alignment_of(hint), owner);
        let (range, start) = taken.map_err(|refused| match refused {
            Refused::Space => None,
            Refused::Heap => heap,
        })?;
        let address = self.address(start);
        let header = room.keep(Block {
            header: Header::new(size),
            address,
            range,
        });
        books.live.insert(header.addr().get());
        books.usage.take(class, granules(size) * GRANULE);
        books.segments_peak = books.segments_peak.max(books.live.len());
        books.allocations += 1;
        books.events.push(UsageEvent {
            kind: UsageEventKind::Alloc,
            class,
            bytes: size,
            address: Some(address),
            tag: *tag,
        });
        Ok(header)
    }
}

/// How many granules a segment takes: one also for no bytes.
pub(super) fn granules(size: usize) -> usize {
    size.max(1).div_ceil(GRANULE)
}
