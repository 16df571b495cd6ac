//! The device's memory as a backend.
//!
//! Invariants of a [`Channel`]:
//! 1. a live segment is a [`Block`] of its own on the heap whose address is in the [`Books`]' `live`, and whose range is taken in
//!    their `ranges`; `address` is where that range starts, and it has room for the header's `len` bytes;
//! 2. so two live segments never share a granule, and what `vend` returned stays until `reclaim`.
#![allow(
    unsafe_code,
    reason = "implements the unsafe trait; allocates the headers"
)]

mod books;

use core::alloc::Layout;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use wharf_backend::usage::{
    Accounted, Allocation, ChannelId, Tag, Tagged, UsageBooks, UsageClass, UsageEvent,
    UsageEventKind,
};
use wharf_backend::wrap::{OwnsBytes, WaitQueue, Waits};
use wharf_backend::{
    AllocError, AllocHint, Caps, Census, DeviceAddress, Header, IoDirection, MemBackend, MemSpace,
    Piece, PieceError, Place, TransferError,
};
use wharf_engine::Operand;
use wharf_sync::Blocking;

use crate::arena::{Arena, GRANULE};
use crate::ranges::RangeId;
use crate::{ChannelConfig, Faults};
pub(crate) use books::Memory;
use books::{Books, Cause, Owner};

/// A memory of a [`SoftDma`](crate::SoftDma): a backend in device space, used through an `Arc`.
///
/// Segments start at multiples of 64 bytes, or of any larger power of two that is asked for, and take whole granules of 64.
/// Their bytes have values from the start: zero at first, later whatever the segment before left there (nothing is
/// scrubbed).
///
/// The host reaches the bytes by transfer only: [`read`](wharf_backend::SegmentMut::read),
/// [`write`](wharf_backend::SegmentMut::write) and [`fill`](wharf_backend::SegmentMut::fill) of a segment are
/// synchronous, and carried out by the calling CPU through a window; they do not pass the device's queue.
/// Kernels and copies run on the device's own thread.
///
/// It keeps account ([`Accounted`]) of what its memory is used for. Say so by asking through [`tagged`](Self::tagged):
///
/// ```
/// use wharf_backend::SegmentMut;
/// use wharf_backend::usage::UsageClass;
/// use wharf_softdma::{Config, SoftDma};
///
/// let device = SoftDma::<()>::open(Config::new(1 << 20))?;
/// let weights = device.channel().tagged("conv1.weight", UsageClass::WEIGHT).aligned(4096)?;
/// let segment = SegmentMut::alloc(weights, 1000)?;
/// let allocation = segment.allocation();
/// assert_eq!(allocation.address.get() % 4096, 0);
/// assert_eq!((allocation.asked, allocation.allocated, allocation.align_offset), (1000, 1024, 0));
/// assert_eq!(allocation.tag.to_string(), "conv1.weight");
/// assert_eq!(device.channel().ledger().usage.class(UsageClass::WEIGHT).in_use, 1024);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// Once the device is closed, nothing is vended and nothing moves. Live segments may still be dropped, also
/// when the device is gone: the memory is given back with the last `Arc`.
///
/// Its memory can be waited for, as a thread or a task ([`Waits`], whose methods it has): a segment that goes back wakes the first
/// waiter, whoever had it, and closing ends every wait with [`AllocError::Closed`]. Wrappers go around it by
/// [`Shared`](wharf_backend::Shared), and leave the other users as they are:
///
/// ```
/// use wharf_backend::wrap::{Scrub, Shared, Waits, alloc_wait};
/// use wharf_backend::{AllocHint, BackendExt};
/// use wharf_softdma::{Config, SoftDma};
/// use wharf_sync::NoClock;
/// # type Nothing = wharf_backend::SegmentMut<std::sync::Arc<wharf_softdma::Channel>>;
///
/// # let device = SoftDma::<Nothing>::open(Config::new(4096))?;
/// let keys = Scrub::new(Shared::new(device.channel())); // zeroed when they are freed
/// let key = keys.alloc(32)?.filled(7)?;
/// std::thread::scope(|scope| {
///     let all = scope.spawn(|| {
///         // All of the memory, as soon as the key is gone. It keeps the channel.
///         alloc_wait(device.channel(), 4096, AllocHint::NONE, &NoClock, None).map(|memory| memory.len())
///     });
///     drop(key);
///     assert_eq!(all.join().unwrap(), Ok(4096));
/// });
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct Channel {
    id: ChannelId,
    name: &'static str,
    reached: bool,
    on_host: bool,
    arena: Arena,
    faults: Faults,
    closed: AtomicBool,
    books: Mutex<Books>,
    waiters: WaitQueue<Blocking>,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    bytes_filled: AtomicU64,
    bytes_copied: AtomicU64,
    submissions: AtomicU64,
}

/// A segment's control block. The header is first, so that a pointer to it is one to the block.
#[repr(C)]
struct Block {
    header: Header<Blocking>,
    address: DeviceAddress,
    range: RangeId,
}

/// Room for a block, freed when dropped.
struct Room(NonNull<Block>);

impl Room {
    fn new() -> Option<Self> {
        // SAFETY: a block is not of zero size.
        let room = unsafe { std::alloc::alloc(Layout::new::<Block>()) };
        NonNull::new(room.cast()).map(Self)
    }

    /// Moves `block` in.
    fn keep(self, block: Block) -> NonNull<Header<Blocking>> {
        let room = ManuallyDrop::new(self).0;
        // SAFETY: ours, large enough and aligned.
        unsafe { room.write(block) };
        room.cast()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and freed nowhere else.
        unsafe { std::alloc::dealloc(self.0.as_ptr().cast(), Layout::new::<Block>()) };
    }
}

impl Channel {
    pub(crate) fn new(
        id: ChannelId,
        config: &ChannelConfig,
        Memory { arena, ranges }: Memory,
        faults: Faults,
    ) -> Self {
        Self {
            id,
            name: config.name,
            reached: config.reached && arena.has_bytes(),
            on_host: config.on_host,
            faults,
            closed: AtomicBool::new(false),
            books: Mutex::new(Books::new(ranges, arena.len())),
            arena,
            waiters: WaitQueue::new(),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            bytes_filled: AtomicU64::new(0),
            bytes_copied: AtomicU64::new(0),
            submissions: AtomicU64::new(0),
        }
    }

    /// Which channel it is, in errors and reports.
    #[must_use]
    pub const fn id(&self) -> ChannelId {
        self.id
    }

    /// The address of the first byte. No two live channels of a program have an address in common, so a segment of
    /// one device is never mistaken for memory of another.
    #[must_use]
    pub const fn base(&self) -> DeviceAddress {
        self.arena.base()
    }

    /// Bytes there are.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.arena.len()
    }

    /// Whether the device's queue reaches it.
    #[must_use]
    pub const fn is_reached(&self) -> bool {
        self.reached
    }

    /// Whether it lies in the host's DRAM, and so refuses classes that are not for there.
    #[must_use]
    pub const fn is_on_host(&self) -> bool {
        self.on_host
    }

    /// Whether the device was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// A reference to this channel for memory of one class, that its owner calls `tag`.
    #[must_use]
    pub fn tagged(self: &Arc<Self>, tag: impl Into<Tag>, class: UsageClass) -> Tagged<Arc<Self>> {
        Tagged::new(Arc::clone(self), tag, class)
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // Whoever waits for memory learns that none will come.
        self.waiters.wake();
    }

    /// Where the worker finds an operand, if all of it is memory of this channel and has bytes.
    pub(crate) fn locate(&self, operand: &Operand) -> Option<NonNull<u8>> {
        match operand.place {
            Place::Device(address) => self.arena.locate(address, operand.len),
            Place::Host(_) => None,
        }
    }

    /// Counts a submission of the host, before it is known how it ends.
    fn submitted(&self) {
        // A count for people: nothing is ordered by it.
        self.submissions.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a range can move now.
    fn gate(&self) -> Result<(), TransferError> {
        self.faults.transfer()?;
        if self.is_closed() {
            return Err(TransferError::Closed);
        }
        if !self.arena.has_bytes() {
            return Err(BYTELESS);
        }
        Ok(())
    }

    /// Moves one range of a submission.
    ///
    /// # Safety
    /// As for [`MemBackend::transfer_all`].
    unsafe fn transfer_piece(
        &self,
        direction: IoDirection,
        Piece { address, host, len }: Piece,
    ) -> Result<(), TransferError> {
        self.gate()?;
        let (counter, done) = match direction {
            // SAFETY: as the caller promises.
            IoDirection::CpuToDevice => (&self.bytes_in, unsafe {
                self.arena.copy_in(address, host, len)
            }),
            // SAFETY: as the caller promises.
            IoDirection::DeviceToCpu => (&self.bytes_out, unsafe {
                self.arena.copy_out(address, host, len)
            }),
        };
        counted(counter, done, len)
    }

    /// Where byte `offset` of the segment is, while the device is open.
    ///
    /// # Safety
    /// As for [`MemBackend::copy_in`].
    unsafe fn window(
        &self,
        header: NonNull<Header<Blocking>>,
        offset: usize,
    ) -> Result<DeviceAddress, TransferError> {
        self.submitted();
        self.gate()?;
        // SAFETY: a live header, so invariant 1.
        let address = unsafe { header.cast::<Block>().as_ref() }.address;
        // No wrap: the offset lies in the segment, and the arena's addresses do not wrap.
        Ok(DeviceAddress::new(
            address.get().wrapping_add(offset as u64),
        ))
    }
}

/// There is nothing behind the addresses, or behind these.
const BYTELESS: TransferError = TransferError::Unsupported {
    space: MemSpace::Device,
};

/// Counts `len` bytes that moved by address.
fn counted(counter: &AtomicU64, in_arena: bool, len: usize) -> Result<(), TransferError> {
    if !in_arena {
        return Err(BYTELESS);
    }
    counter.fetch_add(len as u64, Ordering::Relaxed);
    Ok(())
}

/// Counts `len` bytes that moved, or explains why none did.
fn moved(
    counter: &AtomicU64,
    in_arena: bool,
    (offset, len): (usize, usize),
    header: NonNull<Header<Blocking>>,
) -> Result<(), TransferError> {
    if in_arena {
        counter.fetch_add(len as u64, Ordering::Relaxed);
        return Ok(());
    }
    // SAFETY: called by the transfers with the live header that they were given.
    let size = unsafe { header.as_ref() }.len();
    Err(TransferError::OutOfBounds { offset, len, size })
}

// SAFETY:
// * headers and ranges: invariants 1 and 2; the count starts at one and the length is what was asked;
// * every place is a device address, a multiple of the granule, because the base is; no two live channels of the program have
//   one in common (`addresses`), so whichever device takes it finds this segment, and what `reaches` answers is right;
// * the lists are behind a mutex, transfers and counters need none, so all of it holds between threads;
// * the arena's bytes are initialised from the start;
// * `may_own` looks its argument up in the set of live headers and does not follow it;
// * nothing points into the channel itself: moving it moves neither arena nor blocks.
unsafe impl MemBackend for Channel {
    type Policy = Blocking;

    fn vend(&self, size: usize, hint: AllocHint) -> Option<NonNull<Header<Blocking>>> {
        self.vend_tagged(size, hint, &Tag::NONE)
    }

    fn refusal(&self, size: usize, hint: AllocHint) -> AllocError {
        if let Some(never) = self.never(size, hint) {
            return never;
        }
        let mut books = self.books();
        let asked = |cause: &mut Cause| (cause.size, cause.hint) == (size, hint);
        if let Some(cause) = books.cause.take_if(asked) {
            return cause.error;
        }
        AllocError::OutOfMemory {
            requested: size,
            available: self.capacity() - books.usage.total().in_use,
            largest_free: books.ranges.largest() * GRANULE,
            channel: self.id,
            class: hint.class(),
        }
    }

    unsafe fn reclaim(&self, header: NonNull<Header<Blocking>>) {
        let room = Room(header.cast());
        // SAFETY: a live header, so a block by invariant 1, which nobody else holds; it is moved out once, and the
        // room is freed after this function.
        let block = unsafe { room.0.read() };
        {
            let mut books = self.books();
            books.live.remove(&header.addr().get());
            let (len, owner) = books.ranges.give(block.range);
            // By invariant 1 somebody had it.
            if let Some(Owner { asked, class, tag }) = owner {
                books.usage.give(class, len * GRANULE);
                books.events.push(UsageEvent {
                    kind: UsageEventKind::Free,
                    class,
                    bytes: asked,
                    address: Some(block.address),
                    tag,
                });
            }
            books.frees += 1;
        }
        // The room is freed first: whoever is woken may want it.
        drop(room);
        self.waiters.wake();
    }

    unsafe fn place(&self, header: NonNull<Header<Blocking>>) -> Place {
        // SAFETY: a live header, so a block by invariant 1.
        Place::Device(unsafe { header.cast::<Block>().as_ref() }.address)
    }

    fn may_own(&self, header: NonNull<Header<Blocking>>) -> bool {
        self.books().live.contains(&header.addr().get())
    }

    fn caps(&self) -> Caps {
        Caps::OWNS_BYTES | Caps::VENDS_INITIALISED | Caps::ENGINE_ADDRESSED
    }

    fn space(&self) -> MemSpace {
        MemSpace::Device
    }

    fn alignment(&self) -> usize {
        GRANULE
    }

    fn max_segment_size(&self) -> usize {
        self.capacity()
    }

    /// In bytes: what is really taken, in whole granules.
    fn census(&self) -> Census {
        self.told(self.books().usage.total())
    }

    fn name(&self) -> &'static str {
        self.name
    }

    unsafe fn copy_in(
        &self,
        header: NonNull<Header<Blocking>>,
        offset: usize,
        source: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        // SAFETY: as the caller promises.
        let address = unsafe { self.window(header, offset) }?;
        // SAFETY: as the caller promises; the source is host memory, and so not in the arena.
        let done = unsafe { self.arena.copy_in(address, source, len) };
        moved(&self.bytes_in, done, (offset, len), header)
    }

    unsafe fn copy_out(
        &self,
        header: NonNull<Header<Blocking>>,
        offset: usize,
        destination: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        // SAFETY: as the caller promises.
        let address = unsafe { self.window(header, offset) }?;
        // SAFETY: as the caller promises; the destination is host memory, and so not in the arena.
        let done = unsafe { self.arena.copy_out(address, destination, len) };
        moved(&self.bytes_out, done, (offset, len), header)
    }

    unsafe fn fill(
        &self,
        header: NonNull<Header<Blocking>>,
        offset: usize,
        len: usize,
        byte: u8,
    ) -> Result<(), TransferError> {
        // SAFETY: as the caller promises.
        let address = unsafe { self.window(header, offset) }?;
        // SAFETY: as the caller promises.
        let done = unsafe { self.arena.fill(address, len, byte) };
        moved(&self.bytes_filled, done, (offset, len), header)
    }

    /// All that is this channel's.
    fn reaches(&self, address: DeviceAddress, len: usize) -> bool {
        self.arena.offset(address, len).is_some()
    }

    unsafe fn copy_on_device(
        &self,
        from: DeviceAddress,
        to: DeviceAddress,
        len: usize,
    ) -> Result<(), TransferError> {
        self.submitted();
        self.gate()?;
        // SAFETY: as the caller promises.
        let done = unsafe { self.arena.copy(from, to, len) };
        counted(&self.bytes_copied, done, len)
    }

    unsafe fn transfer_all(
        &self,
        direction: IoDirection,
        pieces: &mut dyn Iterator<Item = Piece>,
    ) -> Result<(), PieceError> {
        self.submitted();
        for (piece, one) in pieces.enumerate() {
            // SAFETY: as the caller promises.
            let moved = unsafe { self.transfer_piece(direction, one) };
            moved.map_err(|error| PieceError { piece, error })?;
        }
        Ok(())
    }
}

// SAFETY: headers and ranges as above; ranges are taken where the hint wants them.
unsafe impl Accounted for Channel {
    fn channel(&self) -> ChannelId {
        self.id
    }

    fn vend_tagged(
        &self,
        size: usize,
        hint: AllocHint,
        tag: &Tag,
    ) -> Option<NonNull<Header<Blocking>>> {
        let room = Room::new();
        let mut books = self.books();
        match self.try_vend(&mut books, room, (size, hint), tag) {
            Ok(header) => Some(header),
            Err(cause) => {
                books.cause = cause.map(|error| Cause { size, hint, error });
                books.usage.refuse(hint.class(), size);
                books.events.push(UsageEvent {
                    kind: UsageEventKind::Refusal,
                    class: hint.class(),
                    bytes: size,
                    address: None,
                    tag: *tag,
                });
                None
            }
        }
    }

    fn max_segment_size_for(&self, hint: AllocHint) -> usize {
        if self.on_host && hint.class().is_device_only() {
            return 0;
        }
        self.room_for(hint)
    }

    unsafe fn allocation(&self, header: NonNull<Header<Blocking>>) -> Allocation {
        // SAFETY: a live header, so a block by invariant 1. Nobody writes it while the header lives.
        let block = unsafe { header.cast::<Block>().as_ref() };
        let books = self.books();
        match books.ranges.owner(block.range) {
            Some(taken) => self.describe(taken),
            None => unreachable!("a live segment has its range"),
        }
    }

    fn usage(&self) -> UsageBooks {
        self.books().usage
    }

    fn largest_free(&self) -> usize {
        self.books().ranges.largest() * GRANULE
    }

    fn recorded(&self) -> u64 {
        self.books().events.recorded()
    }

    fn event(&self, number: u64) -> Option<UsageEvent> {
        self.books().events.get(number).copied()
    }
}

/// Device memory is the device's: nobody looks at it after the segment is gone.
impl OwnsBytes for Channel {}

/// Woken by every segment that goes back, whoever had it, and by closing.
impl Waits for Channel {
    fn waiters(&self) -> &WaitQueue<Blocking> {
        &self.waiters
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("base", &self.base())
            .field("closed", &self.is_closed())
            .field("ledger", &self.ledger())
            .finish()
    }
}
