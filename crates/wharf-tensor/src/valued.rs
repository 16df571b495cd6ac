//! Segments whose bytes have values: those that may be written, and those that may not.
#![allow(
    private_interfaces,
    reason = "the trait is sealed: nobody outside can name what its functions take"
)]

use core::ptr::NonNull;

use wharf_backend::usage::{Accounted, Allocation};
use wharf_backend::{
    BackendRef, DeviceAddress, Header, Init, Place, ReadOnly, SegmentMut, TransferError,
};

use crate::Target;
use crate::storage::Bytes;

mod sealed {
    use wharf_backend::{SegmentMut, State};

    use super::Bytes;
    use crate::Target;

    /// The way into a storage and out of it.
    pub trait Sealed: State + Sized {
        /// Nobody may write it.
        const READ_ONLY: bool;
        /// What a storage holds.
        fn hold<T: Target>(segment: SegmentMut<T::Memory, Self>) -> Bytes<T>;
        /// The segment again, if that is what it holds.
        fn release<T: Target>(bytes: Bytes<T>) -> Result<SegmentMut<T::Memory, Self>, Bytes<T>>;
    }
}

pub(crate) use sealed::Sealed as Kept;

/// The states of a segment that a tensor can be made of: [`Init`] and [`ReadOnly`].
///
/// ```compile_fail,E0277
/// # use wharf_backend::{Heap, SegmentMut};
/// # use wharf_source::HeapSource;
/// # use wharf_sync::Unsync;
/// # use wharf_tensor::{Parts, Tensor};
/// # let target = Parts::<Heap<Unsync>, HeapSource>::new(HeapSource);
/// let fresh = SegmentMut::alloc(Heap::new(), 64).unwrap();
/// let tensor = Tensor::from_segment(&target, fresh); // error: no values yet
/// ```
#[diagnostic::on_unimplemented(
    message = "the bytes of a segment in state `{Self}` have no values yet",
    note = "give them some first: by `init_from`, `filled`, or `initialised`"
)]
pub trait Valued: sealed::Sealed {}

impl Valued for Init {}
impl Valued for ReadOnly {}

impl sealed::Sealed for Init {
    const READ_ONLY: bool = false;
    fn hold<T: Target>(segment: SegmentMut<T::Memory>) -> Bytes<T> {
        Bytes::Whole(segment)
    }
    fn release<T: Target>(bytes: Bytes<T>) -> Result<SegmentMut<T::Memory>, Bytes<T>> {
        match bytes {
            Bytes::Whole(segment) => Ok(segment),
            other => Err(other),
        }
    }
}

impl sealed::Sealed for ReadOnly {
    const READ_ONLY: bool = true;
    fn hold<T: Target>(segment: SegmentMut<T::Memory, Self>) -> Bytes<T> {
        Bytes::Fixed(segment)
    }
    fn release<T: Target>(bytes: Bytes<T>) -> Result<SegmentMut<T::Memory, Self>, Bytes<T>> {
        match bytes {
            Bytes::Fixed(segment) => Ok(segment),
            other => Err(other),
        }
    }
}

/// The segment under a storage.
pub(crate) enum SegmentRef<'s, T: Target> {
    Writable(&'s SegmentMut<T::Memory>),
    Fixed(&'s SegmentMut<T::Memory, ReadOnly>),
}

/// The same of both.
macro_rules! either {
    ($this:expr, $segment:ident => $what:expr) => {
        match $this {
            SegmentRef::Writable($segment) => $what,
            SegmentRef::Fixed($segment) => $what,
        }
    };
}

impl<'s, T: Target> SegmentRef<'s, T> {
    pub(crate) fn backend(&self) -> &'s <T::Memory as BackendRef>::Backend {
        either!(self, segment => segment.backend())
    }

    pub(crate) fn header_ptr(&self) -> NonNull<Header<T::Policy>> {
        either!(self, segment => segment.header_ptr())
    }

    pub(crate) fn len(&self) -> usize {
        either!(self, segment => segment.len())
    }

    pub(crate) fn place(&self) -> Place {
        either!(self, segment => segment.place())
    }

    /// Where `len` bytes at `offset` are for whoever moves them by their device address.
    pub(crate) fn by_address(&self, offset: usize, len: usize) -> Option<DeviceAddress> {
        either!(self, segment => segment.by_address(offset, len))
    }

    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), TransferError> {
        either!(self, segment => segment.read(offset, bytes))
    }

    /// The handle, if the bytes may be written.
    pub(crate) const fn writable(&self) -> Result<&'s SegmentMut<T::Memory>, TransferError> {
        match *self {
            Self::Writable(segment) => Ok(segment),
            Self::Fixed(_) => Err(TransferError::ReadOnly),
        }
    }

    pub(crate) fn allocation(&self) -> Allocation
    where
        <T::Memory as BackendRef>::Backend: Accounted,
    {
        either!(self, segment => segment.allocation())
    }
}
