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

use wharf_backend::{BackendRef, Caps, Header, IoDirection, MemBackend};
use wharf_engine::{Access, StreamId};

use crate::error::StorageId;
use crate::fence::{Claim, Turn};
use crate::storage::{Patience, Storage, StorageRef, end_device};
use crate::{Target, TensorError};

/// A device's access to a storage, which it keeps alive. Dropping it ends the access.
///
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
        let Some((segment, base)) = storage.segment() else {
            return;
        };
        if segment.backend().caps().contains(Caps::NEEDS_CACHE_OPS) {
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
            .finish_non_exhaustive()
    }
}
