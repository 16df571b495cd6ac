//! The bytes that tensors share, and the only way to them: a hold, which the fence has granted.
//!
//! Invariants:
//! 1. a [`StorageRef`] is counted in `holders`; the block lives until the last one is dropped;
//! 2. the segment in its cell is touched only by a [`Hold`], whose claim the fence has granted, by a ticket under a
//!    device claim (shared reference, cache hooks only), or by the last `StorageRef`. A read hold makes shared references to it, a write
//!    hold an exclusive one; the fence never grants a write beside another claim that touches it;
//! 3. a device that has a ticket touches the bytes through their place, never the segment's handle;
//! 4. the block came from the source handle that lies in it, and goes back through that very handle. (A handle that the target
//!    answers later need not be the same: [`Target`] is a safe trait.)
#![allow(
    unsafe_code,
    reason = "shares one segment between holds; the invariants above"
)]

use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::fmt;
use core::ptr::NonNull;
use core::time::Duration;

use wharf_backend::{BackendRef, Caps, IoDirection, MemBackend, Place, SegmentMut, TransferError};
use wharf_engine::{Access, StreamId};
use wharf_source::Block;
use wharf_sync::{Count, SyncPolicy};

use crate::error::StorageId;
use crate::fence::{Claim, Fence, Refusal};
use crate::trace::{Span, TraceEvent, TraceKind, TracePhase, TraceSink};
use crate::{Target, TensorError};

/// The control block.
struct Storage<T: Target> {
    holders: <T::Policy as SyncPolicy>::Count,
    fence: Fence<T::Policy>,
    segment: UnsafeCell<SegmentMut<T::Memory>>,
    place: Place,
    len: usize,
    source: T::Source,
    clock: T::Clock,
    trace: T::Trace,
}

/// A counted reference to a storage.
pub(crate) struct StorageRef<T: Target> {
    block: NonNull<Storage<T>>,
}

// SAFETY: another thread may count, fence, wait and trace, use the segment under a hold, and free: so everything in
// the block that a shared reference reaches must be usable from there, shared and owned. The source is reached by
// the last reference alone, so it is sent and never shared.
unsafe impl<T: Target> Send for StorageRef<T>
where
    T::Memory: Send + Sync,
    T::Source: Send,
    T::Clock: Send + Sync,
    T::Trace: Send + Sync,
    <T::Policy as SyncPolicy>::Count: Send + Sync,
    <T::Policy as SyncPolicy>::Word: Send + Sync,
    <T::Policy as SyncPolicy>::Event: Send + Sync,
{
}
// SAFETY: `&StorageRef` can be cloned, so as above.
unsafe impl<T: Target> Sync for StorageRef<T>
where
    T::Memory: Send + Sync,
    T::Source: Send,
    T::Clock: Send + Sync,
    T::Trace: Send + Sync,
    <T::Policy as SyncPolicy>::Count: Send + Sync,
    <T::Policy as SyncPolicy>::Word: Send + Sync,
    <T::Policy as SyncPolicy>::Event: Send + Sync,
{
}

/// How long to wait for the fence.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// Not at all.
    None,
    /// Until it is granted, or the deadline of the target's clock.
    Until(Option<Duration>),
}

impl<T: Target> StorageRef<T> {
    pub(crate) const CONTROL_BLOCK: Layout = Layout::new::<Storage<T>>();

    /// Puts a segment under a fence. Where the block source refuses, the segment comes back.
    pub(crate) fn new(
        target: &T,
        segment: SegmentMut<T::Memory>,
    ) -> Result<Self, (TensorError, SegmentMut<T::Memory>)> {
        // Cloned first: a clone may answer for another source than the original, but never for another than itself.
        let source = target.source().clone();
        let block = match Block::new(source, Self::CONTROL_BLOCK) {
            Ok(block) => block,
            Err(refusal) => return Err((TensorError::Alloc(refusal.into()), segment)),
        };
        let (clock, trace) = (target.clock().clone(), target.trace().clone());
        let (block, _, source) = block.into_raw();
        let block = block.cast::<Storage<T>>();
        let storage = Storage {
            holders: Count::new(1),
            fence: Fence::new(),
            place: segment.place(),
            len: segment.len(),
            segment: UnsafeCell::new(segment),
            source,
            clock,
            trace,
        };
        // SAFETY: a fresh block of this layout, which is ours.
        unsafe { block.write(storage) };
        let this = Self { block };
        this.trace().record(this.event(TraceKind::Alloc));
        Ok(this)
    }

    #[inline]
    fn get(&self) -> &Storage<T> {
        // SAFETY: invariant 1. What is not behind the cell is never written after `new`.
        unsafe { self.block.as_ref() }
    }

    pub(crate) fn id(&self) -> StorageId {
        StorageId(self.block.addr().get())
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.get().len
    }

    #[inline]
    pub(crate) fn place(&self) -> Place {
        self.get().place
    }

    pub(crate) fn clock(&self) -> &T::Clock {
        &self.get().clock
    }

    pub(crate) fn trace(&self) -> &T::Trace {
        &self.get().trace
    }

    pub(crate) fn in_flight(&self) -> (u32, u32) {
        self.get().fence.in_flight()
    }

    pub(crate) fn holders(&self) -> u32 {
        self.get().holders.get()
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.block == other.block
    }

    /// Something that happens to the whole storage in an instant.
    fn event(&self, kind: TraceKind) -> TraceEvent {
        TraceEvent {
            kind,
            phase: TracePhase::Instant,
            storage: self.id().get(),
            bytes: self.len() as u64,
        }
    }

    /// Begins `claim`.
    #[inline]
    fn begin(&self, claim: Claim, patience: Patience) -> Result<(), TensorError> {
        let storage = self.get();
        let granted = match (storage.fence.try_begin(claim), patience) {
            (Err(Refusal::Held), Patience::Until(deadline)) => {
                let blocked = Span::start(
                    &storage.trace,
                    TraceKind::Blocked,
                    self.id().get(),
                    storage.len,
                );
                let granted = storage.fence.begin(claim, &storage.clock, deadline);
                // A sink that panics at the stop does not leave the access behind.
                let ended = granted.map(|()| Ended(&storage.fence, claim));
                drop(blocked);
                ended.map(core::mem::forget)
            }
            (granted, _) => granted,
        };
        granted.map_err(|refusal| self.refused(refusal))
    }

    #[cold]
    fn refused(&self, refusal: Refusal) -> TensorError {
        let storage = self.id();
        match refusal {
            Refusal::Held => TensorError::WouldBlock { storage },
            Refusal::Guarded => TensorError::Guarded { storage },
            Refusal::Full(limit) => TensorError::Busy { storage, limit },
            Refusal::Never => TensorError::WouldDeadlock { storage },
            Refusal::TimedOut => TensorError::TimedOut { storage },
        }
    }

    /// Access to read, for the duration of a call.
    pub(crate) fn read(&self, patience: Patience) -> Result<Hold<'_, T, false>, TensorError> {
        self.hold(Claim::HostRead, patience)
    }

    /// Access to write, for the duration of a call.
    pub(crate) fn write(&self, patience: Patience) -> Result<Hold<'_, T, true>, TensorError> {
        self.hold(Claim::HostWrite, patience)
    }

    /// Access to read, for as long as the user likes.
    pub(crate) fn guard_read(&self, patience: Patience) -> Result<Hold<'_, T, false>, TensorError> {
        self.hold(Claim::GuardRead, patience)
    }

    /// Access to write, for as long as the user likes.
    pub(crate) fn guard_write(&self, patience: Patience) -> Result<Hold<'_, T, true>, TensorError> {
        self.hold(Claim::GuardWrite, patience)
    }

    /// `WRITE` must be what `claim` is; the four functions above see to it.
    #[inline]
    fn hold<const WRITE: bool>(
        &self,
        claim: Claim,
        patience: Patience,
    ) -> Result<Hold<'_, T, WRITE>, TensorError> {
        self.begin(claim, patience)?;
        Ok(Hold {
            storage: self,
            claim,
        })
    }
}

impl<T: Target> Clone for StorageRef<T> {
    #[inline]
    fn clone(&self) -> Self {
        self.get().holders.increment();
        Self { block: self.block }
    }
}

impl<T: Target> Drop for StorageRef<T> {
    #[inline]
    fn drop(&mut self) {
        if self.get().holders.decrement() {
            let event = self.event(TraceKind::Free);
            // SAFETY: the last reference: holds and tickets have one of their own or borrow one, so none is left. The
            // block is moved out of and not touched again but to be released.
            let storage = unsafe { self.block.read() };
            let Storage {
                segment,
                source,
                trace,
                ..
            } = storage;
            let layout = Self::CONTROL_BLOCK;
            // SAFETY: invariant 4, and nothing uses the block any more.
            let block = unsafe { Block::from_raw(self.block.cast(), layout, source) };
            // A sink that panics here leaks nothing: both are owned by then.
            trace.record(event);
            // The bytes first: whoever waits for the control block's memory may want both.
            drop(segment);
            drop(block);
        }
    }
}

impl<T: Target> fmt::Debug for StorageRef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage")
            .field("id", &self.id())
            .field("len", &self.len())
            .field("space", &self.place().space())
            .field("holders", &self.holders())
            .field("in_flight", &self.in_flight())
            .finish()
    }
}

/// Ends an access when dropped.
struct Ended<'f, P: SyncPolicy>(&'f Fence<P>, Claim);

impl<P: SyncPolicy> Drop for Ended<'_, P> {
    fn drop(&mut self) {
        self.0.end(self.1);
    }
}

/// Host access that the fence has granted; dropping it ends it. `WRITE` says which kind.
pub(crate) struct Hold<'s, T: Target, const WRITE: bool> {
    storage: &'s StorageRef<T>,
    claim: Claim,
}

impl<T: Target, const WRITE: bool> Hold<'_, T, WRITE> {
    #[inline]
    fn segment(&self) -> &SegmentMut<T::Memory> {
        // SAFETY: invariant 2: our claim is granted, so nobody has an exclusive reference but
        // perhaps this very hold, which is borrowed shared here.
        unsafe { &*self.storage.get().segment.get() }
    }

    pub(crate) fn id(&self) -> StorageId {
        self.storage.id()
    }

    /// Whether the CPU's own copies must go around the backend's transfers: in host memory with maintained caches. There
    /// tickets maintain, and the CPU reads and writes through its cache; the invalidation before a transfer would throw away
    /// what a guard has written.
    #[inline]
    fn through_cache(&self) -> bool {
        let host = matches!(self.storage.place(), Place::Host(_));
        host && self
            .segment()
            .backend()
            .caps()
            .contains(Caps::NEEDS_CACHE_OPS)
    }

    #[inline]
    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), TransferError> {
        if self.through_cache() {
            let here = self.segment().host().unwrap_or_default();
            let (size, len) = (here.len(), bytes.len());
            let from = within(offset, len).and_then(|range| here.get(range));
            let from = from.ok_or(TransferError::OutOfBounds { offset, len, size })?;
            bytes.copy_from_slice(from);
            return Ok(());
        }
        self.segment().read(offset, bytes)
    }

    #[inline]
    pub(crate) fn host(&self) -> Result<&[u8], TensorError> {
        let not_host = |_| TensorError::NotHostAddressable { storage: self.id() };
        self.segment().host().map_err(not_host)
    }
}

impl<T: Target> Hold<'_, T, true> {
    #[inline]
    fn segment_mut(&mut self) -> &mut SegmentMut<T::Memory> {
        // SAFETY: invariant 2: our claim to write is granted, so nobody else has any reference; and this
        // hold is borrowed exclusively here.
        unsafe { &mut *self.storage.get().segment.get() }
    }

    #[inline]
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), TransferError> {
        if self.through_cache() {
            self.here(offset, bytes.len())?.copy_from_slice(bytes);
            return Ok(());
        }
        self.segment_mut().write(offset, bytes)
    }

    #[inline]
    pub(crate) fn fill(
        &mut self,
        offset: usize,
        len: usize,
        byte: u8,
    ) -> Result<(), TransferError> {
        if self.through_cache() {
            self.here(offset, len)?.fill(byte);
            return Ok(());
        }
        self.segment_mut().fill(offset, len, byte)
    }

    /// A range of host memory.
    fn here(&mut self, offset: usize, len: usize) -> Result<&mut [u8], TransferError> {
        let here = self.segment_mut().host_mut().unwrap_or_default();
        let size = here.len();
        within(offset, len)
            .and_then(|range| here.get_mut(range))
            .ok_or(TransferError::OutOfBounds { offset, len, size })
    }

    #[inline]
    pub(crate) fn host_mut(&mut self) -> Result<&mut [u8], TensorError> {
        let storage = self.id();
        let not_host = |_| TensorError::NotHostAddressable { storage };
        self.segment_mut().host_mut().map_err(not_host)
    }
}

/// `offset..offset + len`, unless that wraps.
fn within(offset: usize, len: usize) -> Option<core::ops::Range<usize>> {
    Some(offset..offset.checked_add(len)?)
}

impl<T: Target, const WRITE: bool> Drop for Hold<'_, T, WRITE> {
    #[inline]
    fn drop(&mut self) {
        self.storage.get().fence.end(self.claim);
    }
}

/// A device's access to a storage, which it keeps alive. Dropping it ends the access.
///
/// It may be dropped on any context that the policy lets it reach, an interrupt handler included, and never
/// blocks. Forgetting it leaks the access: nothing dangles, but the host waits for ever.
#[must_use = "dropping a ticket ends the device's access"]
pub struct Ticket<T: Target> {
    storage: StorageRef<T>,
    stream: StreamId,
    access: Access,
    /// Which bytes the device may touch, for the cache hooks.
    range: (usize, usize),
}

impl<T: Target> Ticket<T> {
    /// `range` lies in the storage.
    pub(crate) fn begin(
        storage: StorageRef<T>,
        stream: StreamId,
        access: Access,
        range: (usize, usize),
        patience: Patience,
    ) -> Result<Self, TensorError> {
        storage.begin(Self::claim(stream, access), patience)?;
        let ticket = Self {
            storage,
            stream,
            access,
            range,
        };
        ticket.maintain(|backend, header, (offset, len), directions| {
            for &direction in directions {
                // SAFETY: a live segment, and a range in it.
                unsafe { backend.before_io(header, offset, len, direction) };
            }
        });
        Ok(ticket)
    }

    /// What the device may do.
    #[must_use]
    pub const fn access(&self) -> Access {
        self.access
    }

    /// Which stream the device is on.
    #[must_use]
    pub const fn stream(&self) -> StreamId {
        self.stream
    }

    const fn claim(stream: StreamId, access: Access) -> Claim {
        match access {
            Access::Read => Claim::DeviceRead(stream),
            Access::Write => Claim::DeviceWrite(stream),
        }
    }

    /// Which ways bytes may move. A device that writes may read first, write only a part, or be taken back before it starts:
    /// so what the CPU wrote must reach the memory before an invalidation throws it away.
    const fn directions(&self) -> &'static [IoDirection] {
        match self.access {
            Access::Read => &[IoDirection::CpuToDevice],
            Access::Write => &[IoDirection::CpuToDevice, IoDirection::DeviceToCpu],
        }
    }

    /// Runs a cache hook, where the backend has any.
    fn maintain(
        &self,
        hook: impl FnOnce(
            &<T::Memory as BackendRef>::Backend,
            NonNull<wharf_backend::Header<T::Policy>>,
            (usize, usize),
            &[IoDirection],
        ),
    ) {
        // SAFETY: invariant 2: our device claim is granted, so no write hold exists; this reference
        // is shared, and the device does not touch the handle.
        let segment = unsafe { &*self.storage.get().segment.get() };
        if segment.backend().caps().contains(Caps::NEEDS_CACHE_OPS) {
            hook(
                segment.backend(),
                segment.header_ptr(),
                self.range,
                self.directions(),
            );
        }
    }
}

impl<T: Target> Drop for Ticket<T> {
    fn drop(&mut self) {
        self.maintain(|backend, header, (offset, len), directions| {
            for &direction in directions.iter().rev() {
                // SAFETY: a live segment, and a range in it.
                unsafe { backend.after_io(header, offset, len, direction) };
            }
        });
        let claim = Self::claim(self.stream, self.access);
        self.storage.get().fence.end(claim);
    }
}

impl<T: Target> fmt::Debug for Ticket<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("storage", &self.storage)
            .field("stream", &self.stream)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}
