//! Where the bytes of a tensor are: for descriptors, foreign functions and reports.

use core::fmt;
use core::ptr::NonNull;

use wharf_backend::usage::{Accounted, Allocation};
use wharf_backend::{BackendRef, DeviceAddress, MemBackend, MemSpace, Place};

use crate::{StorageId, Target, Tensor, TensorError};

/// Where the bytes of a tensor are, and in what: see [`Tensor::placement`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub struct Placement {
    /// The storage.
    pub storage: StorageId,
    /// The first byte of the tensor.
    pub place: Place,
    /// Bytes of the tensor.
    pub len: usize,
    /// The first byte of the segment that it lies in.
    pub segment: Place,
    /// Bytes of the segment.
    pub segment_len: usize,
    /// Bytes from the start of the segment to the tensor.
    pub segment_offset: usize,
    /// What the backend aligns segments to, in bytes: a power of two.
    pub alignment: usize,
    /// The backend.
    pub backend: &'static str,
}

impl Placement {
    /// The address space.
    #[must_use]
    pub const fn space(&self) -> MemSpace {
        self.place.space()
    }

    /// Bytes between the tensor and the multiple of [`alignment`](Self::alignment) before it. Zero: it is aligned as the segments
    /// of its backend.
    #[must_use]
    pub fn alignment_offset(&self) -> usize {
        let address = match self.place {
            Place::Host(base) => base.addr().get() as u64,
            Place::Device(base) => base.get(),
        };
        let past = address & (self.alignment as u64).wrapping_sub(1);
        // It fits: less than the alignment.
        usize::try_from(past).unwrap_or_default()
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            storage,
            len,
            segment_len,
            segment_offset,
            backend,
            ..
        } = self;
        write!(f, "{storage}: {len} bytes at ")?;
        match self.place {
            Place::Host(base) => write!(f, "{:#x} of the host", base.addr())?,
            Place::Device(base) => write!(f, "{base} of the device")?,
        }
        write!(f, ", {segment_offset} into {segment_len} of {backend}")
    }
}

impl<T: Target> Tensor<T> {
    /// Where its bytes are, and in what. Of a slice: those of the slice. Of a [part](Self::split): the segment is that of the whole.
    ///
    /// An address is not access: ask the fence for that, with a [ticket](Self::begin), a guard or a launch.
    ///
    /// ```
    /// # use wharf_backend::Heap;
    /// # use wharf_source::HeapSource;
    /// # use wharf_sync::Unsync;
    /// # use wharf_tensor::{Parts, Tensor, TensorError};
    /// # let target = Parts::<Heap<Unsync>, HeapSource>::new(HeapSource);
    /// let weights = Tensor::alloc(&target, Heap::new(), 256)?;
    /// let (_, second) = weights.split(128)?;
    /// let placement = second.slice(4..12)?.placement()?;
    /// assert_eq!((placement.segment_offset, placement.len, placement.segment_len), (132, 8, 256));
    /// assert_eq!(placement.alignment_offset(), 132 % placement.alignment);
    /// # Ok::<(), TensorError>(())
    /// ```
    ///
    /// # Errors
    /// It is [empty](TensorError::NoStorage) or a [placeholder](TensorError::Placeholder), or its address
    /// [wraps](TensorError::AddressWraps).
    pub fn placement(&self) -> Result<Placement, TensorError> {
        let storage = self.storage()?;
        let id = storage.id();
        let placeholder = TensorError::Placeholder { storage: id };
        let (segment, start) = storage.get().segment().ok_or(placeholder)?;
        // No wrap: the window lies in the storage, which lies in the segment.
        let offset = start + self.offset();
        let base = segment.place();
        let wraps = |base: DeviceAddress| TensorError::AddressWraps {
            storage: id,
            base: base.get(),
            offset,
        };
        let place = match base {
            Place::Host(_) => self.place().ok_or(placeholder)?,
            Place::Device(base) => {
                let address = base.checked_add(offset as u64);
                Place::Device(address.ok_or_else(|| wraps(base))?)
            }
        };
        let backend = segment.backend();
        Ok(Placement {
            storage: id,
            place,
            len: self.len(),
            segment: base,
            segment_len: segment.len(),
            segment_offset: offset,
            alignment: backend.alignment(),
            backend: backend.name(),
        })
    }

    /// Its first byte, for a foreign function: valid for reads and, unless it [is read-only](Self::is_read_only), writes of
    /// [`len`](Self::len) bytes while the storage lives. Reading through it is sound while nobody writes, writing while nobody else
    /// has access: hold a guard or a [ticket](Self::begin) meanwhile.
    ///
    /// # Errors
    /// It is empty or a placeholder, or its bytes are [in device memory](TensorError::NotHostAddressable).
    pub fn host_ptr(&self) -> Result<NonNull<u8>, TensorError> {
        match self.placed()? {
            Place::Host(base) => Ok(base),
            Place::Device(_) => Err(TensorError::NotHostAddressable {
                storage: self.storage()?.id(),
            }),
        }
    }

    /// The address of its first byte on the device, for a descriptor that is no [`Engine`](wharf_engine::Engine)'s.
    ///
    /// # Errors
    /// It is empty or a placeholder, its bytes are [in host memory](TensorError::NotOnDevice), or the address
    /// [wraps](TensorError::AddressWraps).
    pub fn device_address(&self) -> Result<DeviceAddress, TensorError> {
        match self.placed()? {
            Place::Device(address) => Ok(address),
            Place::Host(_) => Err(TensorError::NotOnDevice {
                storage: self.storage()?.id(),
            }),
        }
    }

    /// What the device's own allocator knows of the segment that it lies in: the channel, what it takes and what for. For a target with one
    /// memory that [keeps account](Accounted); where it is erased, ask the device.
    ///
    /// # Errors
    /// It is empty or a placeholder.
    pub fn allocation(&self) -> Result<Allocation, TensorError>
    where
        <T::Memory as BackendRef>::Backend: Accounted,
    {
        let storage = self.storage()?;
        let placeholder = TensorError::Placeholder {
            storage: storage.id(),
        };
        let (segment, _) = storage.get().segment().ok_or(placeholder)?;
        Ok(segment.allocation())
    }

    /// [`place`](Self::place), or why there is none.
    pub(crate) fn placed(&self) -> Result<Place, TensorError> {
        match self.place() {
            Some(place) => Ok(place),
            None => self.placement().map(|placement| placement.place),
        }
    }
}
