//! How storages come and go beside plain allocation: placeholders, parts, exchange, and the way back to a segment.

use wharf_backend::{BackendRef, Erases, ReadOnly, Returned, SegmentMut};

use crate::storage::{Bytes, StorageRef};
use crate::{Target, Tensor, TensorError, Valued};

impl<T: Target> Tensor<T> {
    /// A length and a fence, and no bytes: for laying out and rehearsing a program before the memory is there.
    ///
    /// Reads, writes and copies are checked, fenced and traced as ever, and succeed; what is read *from* it leaves the
    /// destination as it was. It cannot be lent or given to a device.
    ///
    /// ```
    /// # use wharf_backend::Heap;
    /// # use wharf_source::HeapSource;
    /// # use wharf_sync::Unsync;
    /// # use wharf_tensor::{Parts, Tensor, TensorError};
    /// # let target = Parts::<Heap<Unsync>, HeapSource>::new(HeapSource);
    /// let later = Tensor::placeholder(&target, 1 << 20)?;
    /// let mut bytes = [7; 4];
    /// later.slice(1024..)?.read(0, &mut bytes)?;
    /// assert_eq!(bytes, [7; 4]);
    /// assert!(later.write(usize::MAX, &bytes).is_err(), "bounds are those of the real thing");
    /// # Ok::<(), TensorError>(())
    /// ```
    ///
    /// # Errors
    /// The block source refused.
    pub fn placeholder(target: &T, len: usize) -> Result<Self, TensorError> {
        let storage = StorageRef::new(target, Bytes::Placeholder, len);
        Ok(Self::all_of(storage.map_err(|(error, _)| error)?))
    }

    /// Two tensors in place of this one, each with a storage and a fence of its own: one may be read while a device writes the
    /// other. For buffers that alternate.
    ///
    /// Until both are gone this tensor, and everything else on its storage, answers [`TensorError::Split`]. Parts may be split
    /// again; every level costs a step on each access. `at` may be `0` or the length.
    ///
    /// ```
    /// # use wharf_backend::Heap;
    /// # use wharf_source::HeapSource;
    /// # use wharf_sync::Unsync;
    /// # use wharf_tensor::{Parts, Tensor, TensorError};
    /// # let target = Parts::<Heap<Unsync>, HeapSource>::new(HeapSource);
    /// let ring = Tensor::alloc(&target, Heap::new(), 8)?;
    /// let (ping, pong) = ring.split(4)?;
    /// let being_filled = ping.lend_mut()?;
    /// pong.write(0, b"pong")?; // with slices this would be `Guarded`
    /// assert!(matches!(ring.fill(0), Err(TensorError::Split { .. })));
    /// drop(being_filled);
    /// drop((ping, pong));
    /// let mut bytes = [0; 8];
    /// ring.read(0, &mut bytes)?;
    /// assert_eq!(&bytes, b"\0\0\0\0pong");
    /// # Ok::<(), TensorError>(())
    /// ```
    ///
    /// # Errors
    /// `at` leaves the tensor, somebody has access (nothing is waited for), the block source refused one of two control
    /// blocks, or the backend maintains caches and a cut between bytes is not at a multiple of its alignment.
    pub fn split(&self, at: usize) -> Result<(Self, Self), TensorError> {
        let storage = self.storage()?;
        self.span(at, 0)?;
        let (first, second) = storage.split((self.offset(), self.len()), at)?;
        Ok((Self::all_of(first), Self::all_of(second)))
    }

    /// Gives this handle another storage, over `segment`, which may be read-only, as in [`from_segment`](Self::from_segment). Its
    /// clones and slices keep the old one, and its name stays with those clones: the handle is anonymous afterwards. Waits for nobody.
    ///
    /// # Errors
    /// A device has access to the old storage, or the block source refused. The segment comes back, and the tensor is as it was.
    pub fn attach<R: BackendRef<Policy = T::Policy>, S: Valued>(
        &mut self,
        target: &T,
        segment: SegmentMut<R, S>,
    ) -> Result<(), Returned<SegmentMut<T::Memory, S>, TensorError>>
    where
        T::Memory: Erases<R>,
    {
        let (reads, writes) = self.in_flight();
        if let (Some(storage), true) = (self.storage_id(), reads > 0 || writes > 0) {
            let error = TensorError::InFlight {
                storage,
                reads,
                writes,
            };
            return Err(Returned::new(error, segment.erase::<T::Memory>()));
        }
        *self = Self::from_segment(target, segment)?;
        Ok(())
    }

    /// The segment under this tensor, all of it, if nobody else holds the storage: no clone, no other slice, no device. The inverse of
    /// [`from_segment`](Self::from_segment). The last slice of a storage gives all of its segment back.
    ///
    /// ```
    /// # use wharf_backend::Heap;
    /// # use wharf_source::HeapSource;
    /// # use wharf_sync::Unsync;
    /// # use wharf_tensor::{Parts, Tensor, TensorError};
    /// # let target = Parts::<Heap<Unsync>, HeapSource>::new(HeapSource);
    /// let frame = Tensor::alloc(&target, Heap::new(), 64)?;
    /// let header = frame.slice(..14)?;
    /// let refused = frame.into_segment().unwrap_err();
    /// assert!(matches!(refused.error, TensorError::Held { others: 1, .. }));
    /// let frame = refused.value;
    /// drop(header);
    /// assert_eq!(frame.into_segment().map_err(|refused| refused.error)?.len(), 64);
    /// # Ok::<(), TensorError>(())
    /// ```
    ///
    /// # Errors
    /// The tensor comes back, as it was, with who is in the way:
    ///
    /// | | |
    /// |---|---|
    /// | [`Held`](TensorError::Held) | so many others hold the storage |
    /// | [`InFlight`](TensorError::InFlight) | so many device accesses are under way |
    /// | [`Split`](TensorError::Split) | its parts have it |
    /// | [`Part`](TensorError::Part) | it is one, and the segment is that of the whole |
    /// | [`ReadOnly`](TensorError::ReadOnly) | for that there is [`into_read_only_segment`](Self::into_read_only_segment) |
    /// | [`Guarded`](TensorError::Guarded) | a guard on it was forgotten |
    /// | [`Placeholder`](TensorError::Placeholder), [`NoStorage`](TensorError::NoStorage) | there is none |
    pub fn into_segment(self) -> Result<SegmentMut<T::Memory>, Returned<Self, TensorError>> {
        self.taken_out()
    }

    /// [`into_segment`](Self::into_segment), of read-only memory.
    ///
    /// # Errors
    /// As there, but that memory which may be written is [`NotReadOnly`](TensorError::NotReadOnly).
    pub fn into_read_only_segment(
        self,
    ) -> Result<SegmentMut<T::Memory, ReadOnly>, Returned<Self, TensorError>> {
        self.taken_out()
    }

    fn taken_out<S: Valued>(
        mut self,
    ) -> Result<SegmentMut<T::Memory, S>, Returned<Self, TensorError>> {
        match self.take_segment() {
            Ok(segment) => Ok(segment),
            Err(error) => Err(Returned::new(error, self)),
        }
    }
}
