//! The device's memory as a backend.
//!
//! Invariants of a [`Channel`]:
//! 1. a live segment is a [`Block`] of its own on the heap whose address is in `live`, and whose range is taken in
//!    `ranges`; `address` is where that range starts, and it has room for the header's `len` bytes;
//! 2. so two live segments never share a granule, and what `vend` returned stays until `reclaim`.
#![allow(
    unsafe_code,
    reason = "implements the unsafe trait; allocates the headers"
)]

use core::alloc::Layout;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use wharf_backend::wrap::{OwnsBytes, WaitQueue, Waits};
use wharf_backend::{
    AllocError, AllocHint, Caps, Census, DeviceAddress, Header, MemBackend, MemSpace, Place,
    TransferError,
};
use wharf_engine::Operand;
use wharf_sync::Blocking;

use crate::arena::{Arena, GRANULE};
use crate::ranges::{RangeId, Ranges, Refused};
use crate::{Ledger, OpenError};

/// The memory of a [`SoftDma`](crate::SoftDma): a backend in device space, used through an `Arc`.
///
/// Segments start at multiples of 64 bytes and take whole granules of 64. Their bytes have values from the start:
/// zero at first, later whatever the segment before left there (nothing is scrubbed).
///
/// The host reaches the bytes by transfer only: [`read`](wharf_backend::SegmentMut::read),
/// [`write`](wharf_backend::SegmentMut::write) and [`fill`](wharf_backend::SegmentMut::fill) of a segment are
/// synchronous, and carried out by the calling CPU through a window; they do not pass the device's queue.
/// Kernels and copies run on the device's own thread.
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
    name: &'static str,
    arena: Arena,
    closed: AtomicBool,
    state: Mutex<State>,
    waiters: WaitQueue<Blocking>,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    bytes_filled: AtomicU64,
}

struct State {
    ranges: Ranges,
    /// The addresses of the live headers.
    live: HashSet<usize>,
    /// In bytes, in whole granules.
    in_use: usize,
    peak: usize,
    refused: usize,
    largest_refused: usize,
    /// The size whose refusal was the fault of the host's heap, until somebody asks for the cause.
    heap_refused: Option<usize>,
    segments_peak: usize,
    allocations: u64,
    frees: u64,
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
    pub(crate) fn new(name: &'static str, memory: usize) -> Result<Self, OpenError> {
        let arena = Arena::new(memory)?;
        let ranges = Ranges::new(arena.len() / GRANULE)
            .map_err(|_| OpenError::Memory { requested: memory })?;
        Ok(Self {
            name,
            arena,
            closed: AtomicBool::new(false),
            state: Mutex::new(State {
                ranges,
                live: HashSet::new(),
                in_use: 0,
                peak: 0,
                refused: 0,
                largest_refused: 0,
                heap_refused: None,
                segments_peak: 0,
                allocations: 0,
                frees: 0,
            }),
            waiters: WaitQueue::new(),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            bytes_filled: AtomicU64::new(0),
        })
    }

    /// The address of the first byte. No two channels of a program have an address in common, so a segment of
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

    /// Whether the device was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// What it holds, and what moved.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        let state = self.state();
        Ledger {
            census: self.count(&state),
            segments: state.live.len(),
            segments_peak: state.segments_peak,
            largest_free: state.ranges.largest() * GRANULE,
            allocations: state.allocations,
            frees: state.frees,
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
            bytes_filled: self.bytes_filled.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // Whoever waits for memory learns that none will come.
        self.waiters.wake();
    }

    /// Where the worker finds an operand, if all of it is device memory of this channel.
    pub(crate) fn locate(&self, operand: &Operand) -> Option<NonNull<u8>> {
        match operand.place {
            Place::Device(address) => self.arena.locate(address, operand.len),
            Place::Host(_) => None,
        }
    }

    /// No section panics, so a poisoned lock (it cannot be) guards a whole state.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, state: &State) -> Census {
        Census {
            unit: 1,
            capacity: self.capacity(),
            in_use: state.in_use,
            peak: state.peak,
            refused: state.refused.wrapping_sub(self.waiters.untold()),
            dropped: 0,
            largest_refused: state.largest_refused,
        }
    }

    /// Vends, or says why not. Counts no refusal.
    fn try_vend(
        &self,
        state: &mut State,
        room: Option<Room>,
        size: usize,
    ) -> Result<NonNull<Header<Blocking>>, Refused> {
        if self.is_closed() || size > self.capacity() {
            return Err(Refused::Space);
        }
        let room = room.ok_or(Refused::Heap)?;
        state.live.try_reserve(1).map_err(|_| Refused::Heap)?;
        let granules = size.max(1).div_ceil(GRANULE);
        let (range, start) = state.ranges.take(granules)?;
        let header = room.keep(Block {
            header: Header::new(size),
            address: DeviceAddress::new(self.base().get() + (start * GRANULE) as u64),
            range,
        });
        state.live.insert(header.addr().get());
        state.in_use += granules * GRANULE;
        state.peak = state.peak.max(state.in_use);
        state.segments_peak = state.segments_peak.max(state.live.len());
        state.allocations += 1;
        Ok(header)
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
        if self.is_closed() {
            return Err(TransferError::Closed);
        }
        // SAFETY: a live header, so invariant 1.
        let address = unsafe { header.cast::<Block>().as_ref() }.address;
        // No wrap: the offset lies in the segment, and the arena's addresses do not wrap.
        Ok(DeviceAddress::new(
            address.get().wrapping_add(offset as u64),
        ))
    }
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
// * every place is a device address, a multiple of the granule, because the base is;
// * the lists are behind a mutex, transfers and counters need none, so all of it holds between threads;
// * the arena's bytes are initialised from the start;
// * `may_own` looks its argument up in the set of live headers and does not follow it;
// * nothing points into the channel itself: moving it moves neither arena nor blocks.
unsafe impl MemBackend for Channel {
    type Policy = Blocking;

    fn vend(&self, size: usize, _: AllocHint) -> Option<NonNull<Header<Blocking>>> {
        let room = Room::new();
        let mut state = self.state();
        match self.try_vend(&mut state, room, size) {
            Ok(header) => Some(header),
            Err(refused) => {
                state.refused += 1;
                state.largest_refused = state.largest_refused.max(size);
                state.heap_refused = (refused == Refused::Heap).then_some(size);
                None
            }
        }
    }

    fn refusal(&self, size: usize, _: AllocHint) -> AllocError {
        if self.is_closed() {
            return AllocError::Closed;
        }
        let capacity = self.capacity();
        if size > capacity {
            return AllocError::TooLarge {
                requested: size,
                max: capacity,
            };
        }
        let mut state = self.state();
        match state.heap_refused.take_if(|refused| *refused == size) {
            Some(requested) => AllocError::Heap { requested },
            None => AllocError::Exhausted {
                requested: size,
                in_use: state.in_use,
                capacity,
            },
        }
    }

    unsafe fn reclaim(&self, header: NonNull<Header<Blocking>>) {
        let room = Room(header.cast());
        // SAFETY: a live header, so a block by invariant 1, which nobody else holds; it is moved out once, and the
        // room is freed after this function.
        let block = unsafe { room.0.read() };
        {
            let mut state = self.state();
            state.live.remove(&header.addr().get());
            state.in_use -= state.ranges.give(block.range) * GRANULE;
            state.frees += 1;
        }
        self.waiters.wake();
    }

    unsafe fn place(&self, header: NonNull<Header<Blocking>>) -> Place {
        // SAFETY: a live header, so a block by invariant 1.
        Place::Device(unsafe { header.cast::<Block>().as_ref() }.address)
    }

    fn may_own(&self, header: NonNull<Header<Blocking>>) -> bool {
        self.state().live.contains(&header.addr().get())
    }

    fn caps(&self) -> Caps {
        Caps::OWNS_BYTES | Caps::VENDS_INITIALISED
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
        self.count(&self.state())
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
            .field("name", &self.name)
            .field("base", &self.base())
            .field("closed", &self.is_closed())
            .field("ledger", &self.ledger())
            .finish()
    }
}
