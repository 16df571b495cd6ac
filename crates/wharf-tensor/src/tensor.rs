//! The tensor: a window on a shared storage.

use core::alloc::Layout;
use core::fmt;
use core::ops::{Bound, RangeBounds};

use wharf_backend::{BackendRef, Caps, Erases, MemBackend, MemSpace, Place, Returned, SegmentMut};
use wharf_engine::{Access, StreamId};

use crate::error::StorageId;
use crate::identity::IdentityRef;
use crate::io::FOREVER;
use crate::storage::{Patience, StorageRef, offset};
use crate::ticket::TicketTurn;
use crate::trace::{Span, TraceDetail, TraceEvent, TraceKind};
use crate::{Target, TensorError, Ticket, Valued};

/// Bytes on a host or a device, shared by whoever holds a clone or a slice.
///
/// A tensor is a handle: a counted storage, an offset and a length. It knows no type and no shape. Everything that touches
/// the bytes goes through the fence of the storage, so host and device never meet there; see the [crate](crate) page.
///
/// It may have a [name](Self::named), and a [completion count](Self::completions) with it, which its clones share. Slices are
/// anonymous, share the storage and its fence, and cost a count. One fence per storage means that while a device
/// writes one half, the host waits for the other half too: buffers that alternate are two tensors.
///
/// ```
/// # use wharf_backend::Heap;
/// # use wharf_source::HeapSource;
/// # use wharf_sync::Unsync;
/// # use wharf_tensor::{Parts, Tensor};
/// # let target = Parts::<Heap<Unsync>, HeapSource>::new(HeapSource);
/// let rows = Tensor::alloc(&target, Heap::new(), 3 * 4)?;
/// let second = rows.slice(4..8)?;
/// second.write(0, b"2222")?;
/// let mut all = [0; 12];
/// rows.read(0, &mut all)?;
/// assert_eq!(&all, b"\0\0\0\x002222\0\0\0\0");
/// # Ok::<(), wharf_tensor::TensorError>(())
/// ```
pub struct Tensor<T: Target> {
    /// Before the storage: it is dropped first (invariant 3 of [`identity`](crate::identity)).
    identity: Option<IdentityRef<T>>,
    storage: Option<StorageRef<T>>,
    offset: usize,
    len: usize,
}

impl<T: Target> Tensor<T> {
    /// A tensor without storage. Everything that needs bytes answers [`TensorError::NoStorage`].
    #[must_use]
    pub const fn empty() -> Self {
        Self {
            identity: None,
            storage: None,
            offset: 0,
            len: 0,
        }
    }

    /// `len` bytes of `memory`: zeros, or on a device that always has values, those.
    ///
    /// `memory` is the target's own reference or one that can become it, such as `&POOL` where the target
    /// holds `&'static dyn MemBackend`.
    ///
    /// # Errors
    /// The memory or the block source refused; whatever was taken until then went back.
    pub fn alloc<R: BackendRef>(target: &T, memory: R, len: usize) -> Result<Self, TensorError>
    where
        T::Memory: Erases<R>,
    {
        let memory = <T::Memory as Erases<R>>::erase(memory);
        let asked = Span::start(target.trace(), || {
            TraceEvent::instant(TraceKind::MemoryAlloc, 0, len as u64)
                .with(TraceDetail::Memory(memory.backend().space()))
        });
        let segment = SegmentMut::alloc(memory, len);
        drop(asked);
        let segment = segment?.initialised()?;
        Self::over(target, segment).map_err(|refused| refused.error)
    }

    /// Where the control block of a storage comes from the target's block source: its size and alignment. A source of `n` storages
    /// needs `n` times as much, and one size class.
    pub const CONTROL_BLOCK: Layout = StorageRef::<T>::CONTROL_BLOCK;

    /// A tensor over a segment that somebody filled, or over read-only memory: weights in flash, a file that is mapped.
    ///
    /// What is [`ReadOnly`](wharf_backend::ReadOnly) can be read, lent, sliced, copied from, and be the input of a launch. Whatever would
    /// write it answers [`TensorError::ReadOnly`], at once, whoever else has access.
    ///
    /// ```
    /// # #[cfg(feature = "critical-section")] {
    /// use wharf_backend::{BorrowedShared, MemBackend};
    /// # use wharf_source::HeapSource;
    /// use wharf_sync::Critical;
    /// use wharf_tensor::{Parts, Tensor, TensorError};
    ///
    /// // On a microcontroller a `static` without interior mutability stays in flash; only the backend beside it is RAM.
    /// static WEIGHTS: [u8; 8] = [3, 1, 4, 1, 5, 9, 2, 6];
    /// static FLASH: BorrowedShared<'static, Critical> = BorrowedShared::shared(&WEIGHTS);
    ///
    /// type Board = Parts<&'static (dyn MemBackend<Policy = Critical> + Sync), HeapSource>;
    /// # let board = Board::new(HeapSource);
    /// let weights = Tensor::from_segment(&board, FLASH.lend()?).map_err(|refused| refused.error)?;
    /// let second_row = weights.slice(4..)?;
    /// assert_eq!(*second_row.lend()?, WEIGHTS[4..], "no copy");
    /// assert!(matches!(weights.fill(0), Err(TensorError::ReadOnly { .. })));
    /// # }
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The block source refused; the segment comes back.
    pub fn from_segment<R: BackendRef<Policy = T::Policy>, S: Valued>(
        target: &T,
        segment: SegmentMut<R, S>,
    ) -> Result<Self, Returned<SegmentMut<T::Memory, S>, TensorError>>
    where
        T::Memory: Erases<R>,
    {
        Self::over(target, segment.erase::<T::Memory>())
    }

    fn over<S: Valued>(
        target: &T,
        segment: SegmentMut<T::Memory, S>,
    ) -> Result<Self, Returned<SegmentMut<T::Memory, S>, TensorError>> {
        let len = segment.len();
        let (error, bytes) = match StorageRef::new(target, S::hold::<T>(segment), len) {
            Ok(storage) => return Ok(Self::all_of(storage)),
            Err(refused) => refused,
        };
        match S::release::<T>(bytes) {
            Ok(segment) => Err(Returned::new(error, segment)),
            // What was given comes back.
            Err(_) => unreachable!(),
        }
    }

    /// The window that shows all of a storage.
    pub(crate) fn all_of(storage: StorageRef<T>) -> Self {
        let len = storage.len();
        Self::window(storage, 0, len)
    }

    /// `offset..offset + len` lies in the storage.
    pub(crate) const fn window(storage: StorageRef<T>, offset: usize, len: usize) -> Self {
        Self {
            identity: None,
            storage: Some(storage),
            offset,
            len,
        }
    }

    /// Bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes (a slice of nothing, or no storage).
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it starts in its storage.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// Which storage it is a window on.
    #[must_use]
    pub fn storage_id(&self) -> Option<StorageId> {
        self.storage.as_ref().map(StorageRef::id)
    }

    /// The address space of its bytes; none where it has no bytes.
    #[must_use]
    pub fn space(&self) -> Option<MemSpace> {
        let place = self.storage.as_ref()?.place()?;
        Some(place.space())
    }

    /// Whether its memory is read-only, so that whatever would write it is [refused](TensorError::ReadOnly).
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        let storage = self.storage.as_ref();
        storage.is_some_and(|storage| storage.writable().is_err())
    }

    /// Device reads and device writes under way on its storage; for reports.
    #[must_use]
    pub fn in_flight(&self) -> (u32, u32) {
        self.storage.as_ref().map_or((0, 0), StorageRef::in_flight)
    }

    /// A window on this window. Constant time, allocates nothing; an empty one is fine.
    ///
    /// # Errors
    /// The range leaves the tensor, or there is no storage.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Self, TensorError> {
        let storage = self.storage()?;
        let (start, len) = self.bounds(range)?;
        Ok(Self {
            identity: None,
            storage: Some(storage.clone()),
            // No wrap: the window lies in the storage.
            offset: self.offset + start,
            len,
        })
    }

    /// Begins a device access by hand, for a driver that is no [`Engine`](wharf_engine::Engine): the [`Ticket`] says what to program the
    /// device with, and dropping it ends the access. Blocks while the host, or a device of another stream, has conflicting access;
    /// an interrupt handler takes [`try_begin`](Self::try_begin).
    ///
    /// Accesses of one `stream` are granted beside each other, because whoever has the stream runs them one after the
    /// other: see [`Ticket`]. The [`Stream`](wharf_engine::Stream) must stay claimed until they have ended; nobody checks that.
    ///
    /// # Errors
    /// The fence cannot grant the access, the memory is [read-only](TensorError::ReadOnly) and to be written, or there is no storage.
    pub fn begin(&self, access: Access, stream: StreamId) -> Result<Ticket<T>, TensorError> {
        self.ticket(access, stream, FOREVER)
    }

    /// [`begin`](Self::begin) without waiting.
    ///
    /// # Errors
    /// As there, and [`TensorError::WouldBlock`].
    pub fn try_begin(&self, access: Access, stream: StreamId) -> Result<Ticket<T>, TensorError> {
        self.ticket(access, stream, Patience::None)
    }

    pub(crate) fn ticket(
        &self,
        access: Access,
        stream: StreamId,
        patience: Patience,
    ) -> Result<Ticket<T>, TensorError> {
        let storage = self.storage()?;
        Ticket::begin(storage, stream, access, (self.offset, self.len), patience)
    }

    /// Another ticket beside `held`, for this tensor, if that is one of the same storage. Waits for nobody.
    pub(crate) fn ticket_beside(&self, held: &Ticket<T>) -> Result<Ticket<T>, TensorError> {
        let storage = self.storage()?;
        if storage.id() != held.storage_id() {
            return self.ticket(held.access(), held.stream(), Patience::None);
        }
        held.again(storage, (self.offset, self.len))
    }

    pub(crate) fn ticket_turn(
        &self,
        access: Access,
        stream: StreamId,
    ) -> Result<TicketTurn<'_, T>, TensorError> {
        let storage = self.storage()?;
        let range = (self.offset, self.len);
        Ok(TicketTurn::new(storage, stream, access, range))
    }

    /// Where its first byte is: an address, and no more. Using it is up to you, a ticket in hand. Without bytes there is none.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        offset(self.storage.as_ref()?.place(), self.offset)
    }

    /// Whether an engine may be given the place: it is the host's, or the backend says that engines find this memory there.
    pub(crate) fn is_for_engines(&self) -> bool {
        let segment = self.storage.as_ref().and_then(|it| it.get().segment());
        segment.is_some_and(|(segment, _)| {
            matches!(segment.place(), Place::Host(_))
                || segment.backend().caps().contains(Caps::ENGINE_ADDRESSED)
        })
    }

    pub(crate) fn storage(&self) -> Result<&StorageRef<T>, TensorError> {
        self.storage.as_ref().ok_or(TensorError::NoStorage)
    }

    /// The segment of its own that is under it, if nobody else has the storage. What is left is empty then, and its name gone;
    /// otherwise it is as it was.
    pub(crate) fn take_segment<S: Valued>(
        &mut self,
    ) -> Result<SegmentMut<T::Memory, S>, TensorError> {
        let storage = self.storage.take().ok_or(TensorError::NoStorage)?;
        // Before the storage goes (invariant 3 of `identity`), and not unless it does.
        match storage.into_segment(|| self.identity = None) {
            Ok(segment) => Ok(segment),
            Err((storage, error)) => {
                self.storage = Some(storage);
                Err(error)
            }
        }
    }

    pub(crate) const fn identity(&self) -> Option<&IdentityRef<T>> {
        self.identity.as_ref()
    }

    /// `identity` is one for this window on this storage.
    pub(crate) fn identify(&mut self, identity: IdentityRef<T>) {
        self.identity = Some(identity);
    }

    /// Start and length of `range` in this tensor.
    pub(crate) fn bounds(
        &self,
        range: impl RangeBounds<usize>,
    ) -> Result<(usize, usize), TensorError> {
        let start = match range.start_bound() {
            Bound::Included(&start) => Some(start),
            Bound::Excluded(&before) => before.checked_add(1),
            Bound::Unbounded => Some(0),
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last.checked_add(1),
            Bound::Excluded(&end) => Some(end),
            Bound::Unbounded => Some(self.len),
        };
        match (start, end) {
            (Some(start), Some(end)) if start <= end && end <= self.len => Ok((start, end - start)),
            _ => Err(TensorError::OutOfBounds {
                offset: start.unwrap_or(usize::MAX),
                len: start
                    .zip(end)
                    .and_then(|(start, end)| end.checked_sub(start))
                    .unwrap_or(usize::MAX),
                size: self.len,
            }),
        }
    }

    /// `offset..offset + len`, checked.
    pub(crate) fn span(&self, offset: usize, len: usize) -> Result<usize, TensorError> {
        match offset.checked_add(len) {
            // No wrap: the window lies in the storage.
            Some(end) if end <= self.len => Ok(self.offset + offset),
            _ => Err(TensorError::OutOfBounds {
                offset,
                len,
                size: self.len,
            }),
        }
    }
}

impl<T: Target> Clone for Tensor<T> {
    /// Another handle to the same bytes, with the same name and completion count, if it has them.
    fn clone(&self) -> Self {
        // The storage first: it never counts fewer tensors than an identity on it.
        let storage = self.storage.clone();
        Self {
            identity: self.identity.clone(),
            storage,
            offset: self.offset,
            len: self.len,
        }
    }
}

impl<T: Target> Default for Tensor<T> {
    fn default() -> Self {
        Self::empty()
    }
}

impl<T: Target> fmt::Debug for Tensor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensor")
            .field("name", &self.name())
            .field("storage", &self.storage)
            .field("offset", &self.offset)
            .field("len", &self.len)
            .finish()
    }
}
