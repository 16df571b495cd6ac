//! A device's access to a storage.
//!
//! Invariant of a [`Ticket`]: the fence of its storage has granted its claim, to a device, and it ends with the ticket. So the
//! block lives (invariant 1 of [`storage`](crate::storage)), although the ticket is not a holder: begin and end are one update of
//! the fence each, and nothing else is counted.
#![allow(
    unsafe_code,
    reason = "keeps a storage by the fence's count of device accesses"
)]

use core::fmt;
use core::ptr::NonNull;
use core::task::{Poll, Waker, ready};

use wharf_backend::{BackendRef, Header, IoDirection, MemBackend, Place};
use wharf_engine::{Access, StreamId};

use crate::error::StorageId;
use crate::fence::{Claim, Turn};
use crate::storage::{Patience, Storage, StorageRef, end_device, offset};
use crate::{Target, TensorError};

/// A device's access to a storage, which it keeps alive. Dropping it ends the access.
///
/// A driver that is no [`Engine`](wharf_engine::Engine) gets one by [`Tensor::begin`](crate::Tensor::begin), programs its device with
/// [`place`](Self::place) and [`len`](Self::len), and keeps the ticket where the interrupt handler finds it. Where the backend maintains
/// caches, that is done at both ends.
///
/// # Two buffers by turns
/// Parts of a [split](crate::Tensor::split) tensor have fences of their own: the host has the one while the device has the other.
///
/// ```
/// # #[cfg(feature = "critical-section")] {
/// use core::cell::Cell;
/// # use wharf_backend::{Place, StaticPool};
/// use wharf_engine::{Stream, StreamId};
/// # use wharf_source::{HeapSource, StaticPoolSource};
/// use wharf_sync::{ConstInit, Critical, Lock, SyncPolicy};
/// use wharf_tensor::{Access, Firmware, Tensor, TensorError, Ticket};
///
/// type Blocks = StaticPoolSource<Critical, 1024, 3>;
/// type Board = Firmware<Critical, Blocks>;
/// static BLOCKS: Blocks = StaticPoolSource::new();
/// static SAMPLES: StaticPool<Critical, 64, 1> = StaticPool::new();
///
/// /// What the device has: one half. (A board has this in a `static`.)
/// struct Adc {
///     busy: <Critical as SyncPolicy>::Lock<Cell<Option<Ticket<Board>>>>,
/// }
///
/// impl Adc {
///     /// Has the device fill `half`.
///     fn start(&self, half: &Tensor<Board>, stream: StreamId) -> Result<(), TensorError> {
///         // Cleans and invalidates the half's cache lines, where there are any.
///         let ticket = half.try_begin(Access::Write, stream)?;
///         let (Some(Place::Host(base)), len) = (ticket.place(), ticket.len()) else {
///             return Err(TensorError::NoStorage);
///         };
/// #       // SAFETY: the ticket.
/// #       unsafe { base.write_bytes(0xAD, len) };
///         // … write `base` and `len` to the controller's registers, and enable it …
///         self.busy.with(|busy| busy.set(Some(ticket)));
///         Ok(())
///     }
///
///     /// The interrupt: the half is full. Dropping the ticket lets the host at it, and wakes who waits.
///     fn on_interrupt(&self) {
///         drop(self.busy.with(Cell::take));
///     }
/// }
///
/// let adc = Adc { busy: Lock::new(Cell::new(None)) };
/// let stream = Stream::claim()?;
/// let ring = Tensor::alloc(&Board::new(&BLOCKS), &SAMPLES, 64)?;
/// let (ping, pong) = ring.split(32)?;
/// let (mut filling, mut full) = (&ping, &pong);
/// adc.start(filling, stream.id())?;
/// for _ in 0..4 {
/// #   let early = filling.try_lend().err();
/// #   assert!(matches!(early, Some(TensorError::WouldBlock { .. })));
///     adc.on_interrupt(); // whenever it comes
///     (filling, full) = (full, filling);
///     adc.start(filling, stream.id())?;
///     let samples = full.lend()?; // while the device is at the other half
///     assert_eq!(*samples, [0xAD; 32]);
/// }
/// # adc.on_interrupt();
/// # }
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// # One stream
/// Several accesses of one [stream](StreamId), of which some write, may be held at a time: a queue of transfers that the device carries
/// out in order, each of which may read what the one before wrote. Those of other streams, and the host, wait for all of them.
///
/// ```
/// # use wharf_backend::Heap;
/// # use wharf_source::HeapSource;
/// # use wharf_sync::Unsync;
/// # use wharf_tensor::{Access, Parts, Tensor, TensorError};
/// # let target = Parts::<Heap<Unsync>, HeapSource>::new(HeapSource);
/// use wharf_engine::Stream;
///
/// let line = Tensor::alloc(&target, Heap::new(), 320)?;
/// let (blitter, display) = (Stream::claim().unwrap(), Stream::claim().unwrap());
/// let clear = line.begin(Access::Write, blitter.id())?;
/// let draw = line.begin(Access::Write, blitter.id())?; // granted: it is behind `clear` in the same queue
/// let other = line.try_begin(Access::Read, display.id());
/// assert!(matches!(other, Err(TensorError::WouldBlock { .. })));
/// drop(clear);
/// drop(draw);
/// let scan = line.begin(Access::Read, display.id())?;
/// assert_eq!((scan.len(), scan.place()), (320, line.place()));
/// # Ok::<(), TensorError>(())
/// ```
///
/// # Contexts
/// It may be dropped on any context that the policy lets it reach, an interrupt handler included, and never
/// blocks. Forgetting it leaks the access: nothing dangles, but the host waits for ever.
///
/// Begin and end cost one atomic read-modify-write each while nobody waits; without compare-and-swap one short section each.
#[must_use = "dropping a ticket ends the device's access"]
pub struct Ticket<T: Target> {
    block: NonNull<Storage<T>>,
    stream: StreamId,
    access: Access,
    /// Which bytes of the storage the device may touch, for the cache hooks.
    range: (usize, usize),
}

// SAFETY: what a ticket does to the block, a `StorageRef` does too: it uses the segment, the fence, and may free.
unsafe impl<T: Target> Send for Ticket<T> where StorageRef<T>: Send {}
// SAFETY: as above; a shared ticket only tells its fields.
unsafe impl<T: Target> Sync for Ticket<T> where StorageRef<T>: Sync {}

impl<T: Target> Ticket<T> {
    /// `range` lies in the storage.
    pub(crate) fn begin(
        storage: &StorageRef<T>,
        stream: StreamId,
        access: Access,
        range: (usize, usize),
        patience: Patience,
    ) -> Result<Self, TensorError> {
        storage.begin(Self::claim(stream, access), patience)?;
        // SAFETY: just now.
        Ok(unsafe { Self::granted(storage, stream, access, range) })
    }

    /// Another one beside this one, which waits for nobody. `storage` is that of this ticket, and `range` lies in it.
    pub(crate) fn again(
        &self,
        storage: &StorageRef<T>,
        range: (usize, usize),
    ) -> Result<Self, TensorError> {
        let (stream, access) = (self.stream, self.access);
        let granted = storage.get().fence().again(Self::claim(stream, access));
        granted.map_err(|refusal| storage.refused(refusal))?;
        // SAFETY: this ticket's claim has not ended, and was granted once more just now.
        Ok(unsafe { Self::granted(storage, stream, access, range) })
    }

    /// [`begin`](Self::begin), in a task.
    pub(crate) async fn begin_when_ready(
        storage: &StorageRef<T>,
        stream: StreamId,
        access: Access,
        range: (usize, usize),
    ) -> Result<Self, TensorError> {
        let claim = Self::claim(stream, access);
        storage.begin_when_ready(claim).await?;
        // SAFETY: in this poll.
        Ok(unsafe { Self::granted(storage, stream, access, range) })
    }

    /// # Safety
    /// The fence of `storage` has granted [`claim`](Self::claim), and this ticket is to end it. `range` lies in the storage.
    pub(crate) unsafe fn granted(
        storage: &StorageRef<T>,
        stream: StreamId,
        access: Access,
        range: (usize, usize),
    ) -> Self {
        let ticket = Self {
            block: storage.block(),
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
        ticket
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

    /// Where the first byte is that the device may touch: what to program it with. None of a placeholder, or where the address
    /// [wraps](TensorError::AddressWraps).
    ///
    /// A host pointer is valid for [`len`](Self::len) bytes, as the [access](Self::access) says, until the ticket is dropped.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        // SAFETY: the invariant: the block lives.
        let storage = unsafe { self.block.as_ref() };
        offset(storage.place(), self.range.0)
    }

    /// Bytes that the device may touch.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.range.1
    }

    /// Whether it may touch none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.range.1 == 0
    }

    /// Whose storage it has access to.
    #[must_use]
    pub fn storage_id(&self) -> StorageId {
        StorageId(self.block.addr().get())
    }

    /// Whoever is told what happens to the storage, and how many bytes this is about.
    pub(crate) fn traced(&self) -> (&T::Trace, usize) {
        // SAFETY: the invariant: the block lives.
        let storage = unsafe { self.block.as_ref() };
        (storage.trace(), self.range.1)
    }

    pub(crate) const fn claim(stream: StreamId, access: Access) -> Claim {
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
            NonNull<Header<T::Policy>>,
            (usize, usize),
            &[IoDirection],
        ),
    ) {
        // SAFETY: the invariant: the block lives. The device does not touch the handle of the segment.
        let storage = unsafe { self.block.as_ref() };
        if !storage.is_maintained() {
            return;
        }
        if let Some((segment, base)) = storage.segment() {
            let (offset, len) = self.range;
            hook(
                segment.backend(),
                segment.header_ptr(),
                // No wrap: the storage lies in the segment.
                (base + offset, len),
                self.directions(),
            );
        }
    }
}

/// A ticket that a task waits for.
pub(crate) struct TicketTurn<'s, T: Target> {
    storage: &'s StorageRef<T>,
    turn: Turn<'s, T::Policy>,
    stream: StreamId,
    access: Access,
    range: (usize, usize),
}

impl<'s, T: Target> TicketTurn<'s, T> {
    /// `range` lies in the storage.
    pub(crate) fn new(
        storage: &'s StorageRef<T>,
        stream: StreamId,
        access: Access,
        range: (usize, usize),
    ) -> Self {
        let turn = storage.turn(Ticket::<T>::claim(stream, access));
        Self {
            storage,
            turn,
            stream,
            access,
            range,
        }
    }

    /// The ticket, or why there is none. Not polled after it was ready.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Result<Ticket<T>, TensorError>> {
        if let Err(refusal) = ready!(self.turn.poll(waker)) {
            return Poll::Ready(Err(self.storage.refused(refusal)));
        }
        let (stream, access, range) = (self.stream, self.access, self.range);
        // SAFETY: granted just now, which the turn says once, as the claim of this stream and access; the range is that of `new`.
        Poll::Ready(Ok(unsafe {
            Ticket::granted(self.storage, stream, access, range)
        }))
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
        // SAFETY: the invariant; and the ticket is gone.
        unsafe { end_device(self.block, claim) };
    }
}

impl<T: Target> fmt::Debug for Ticket<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("storage", &self.storage_id())
            .field("stream", &self.stream)
            .field("access", &self.access)
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}
