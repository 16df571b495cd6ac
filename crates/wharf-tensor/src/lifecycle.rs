//! How storages come and go beside plain allocation: placeholders, parts, exchange, and the way back to a segment.

use wharf_backend::{BackendRef, Erases, Returned, SegmentMut};

use crate::storage::{Bytes, StorageRef};
use crate::{Target, Tensor, TensorError};

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
    /// blocks, or the backend maintains caches and the cut is not at a multiple of its alignment.
    pub fn split(&self, at: usize) -> Result<(Self, Self), TensorError> {
        let storage = self.storage()?;
        self.span(at, 0)?;
        let (first, second) = storage.split((self.offset(), self.len()), at)?;
        Ok((Self::all_of(first), Self::all_of(second)))
    }

    /// Gives this handle another storage, over `segment`. Its clones and slices keep the old one, and so does its name: the handle
    /// is anonymous afterwards.
    ///
    /// # Errors
    /// A device has access to the old storage, or the block source refused. The segment comes back, and the tensor is as it was.
    pub fn attach<R: BackendRef<Policy = T::Policy>>(
        &mut self,
        target: &T,
        segment: SegmentMut<R>,
    ) -> Result<(), Returned<SegmentMut<T::Memory>, TensorError>>
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

    /// The segment under this tensor, all of it, if nobody else holds the storage: no clone, no slice, no device. The inverse of
    /// [`from_segment`](Self::from_segment).
    ///
    /// # Errors
    /// Somebody does, or there is no segment of its own under it: it is empty, a placeholder, or a part. The tensor comes back.
    pub fn into_segment(mut self) -> Result<SegmentMut<T::Memory>, Self> {
        let (offset, len) = (self.offset(), self.len());
        match self.take_sole_storage().map(StorageRef::into_segment) {
            Some(Ok(segment)) => Ok(segment),
            Some(Err(storage)) => Err(Self::window(storage, offset, len)),
            None => Err(self),
        }
    }
}
