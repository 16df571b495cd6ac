//! Slices that somebody lends.
//!
//! Invariant of [`ExclusiveBytes`]: `base` and `len` are those of a `&'b mut [u8]` that nobody else has.
#![allow(
    unsafe_code,
    reason = "keeps an exclusive borrow as a pointer, and copies"
)]

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use super::LentMemory;
use crate::{Caps, Init, Place, ReadOnly, TransferError};

/// `&'b [u8]`, lent to a [`BorrowedBackend`](super::BorrowedBackend).
#[derive(Clone, Copy, Debug)]
pub struct SharedBytes<'b>(&'b [u8]);

impl<'b> SharedBytes<'b> {
    /// These.
    #[must_use]
    pub const fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }
}

// SAFETY: a shared borrow: initialised, at one place, and written by nobody.
unsafe impl LentMemory for SharedBytes<'_> {
    type Access = ReadOnly;
    const VENDS: bool = false;

    fn len(&self) -> usize {
        self.0.len()
    }
    #[inline]
    fn place(&self) -> Place {
        Place::Host(NonNull::from(self.0).cast())
    }
    fn caps(&self) -> Caps {
        Caps::PLAIN_COPIES
    }
    fn name(&self) -> &'static str {
        "borrowed, shared"
    }
    unsafe fn copy_in(&self, _: usize, _: NonNull<u8>, _: usize) -> Result<(), TransferError> {
        Err(TransferError::ReadOnly)
    }
    unsafe fn copy_out(
        &self,
        offset: usize,
        destination: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        let base = NonNull::from(self.0).cast::<u8>();
        // SAFETY: the range lies in the bytes, and the caller promises the rest.
        unsafe { base.add(offset).copy_to_nonoverlapping(destination, len) };
        Ok(())
    }
    unsafe fn fill(&self, _: usize, _: usize, _: u8) -> Result<(), TransferError> {
        Err(TransferError::ReadOnly)
    }
}

/// `&'b mut [u8]`, lent to a [`BorrowedBackend`](super::BorrowedBackend).
pub struct ExclusiveBytes<'b> {
    base: NonNull<u8>,
    len: usize,
    lent: PhantomData<&'b mut [u8]>,
}

// SAFETY: a `&mut [u8]` may go anywhere.
unsafe impl Send for ExclusiveBytes<'_> {}
// SAFETY: through `&self` bytes are reached by the laws of `LentMemory` alone, which order the accesses.
unsafe impl Sync for ExclusiveBytes<'_> {}

impl<'b> ExclusiveBytes<'b> {
    /// These.
    #[must_use]
    pub const fn new(bytes: &'b mut [u8]) -> Self {
        let len = bytes.len();
        Self {
            // SAFETY: a reference is not null.
            base: unsafe { NonNull::new_unchecked(bytes.as_mut_ptr()) },
            len,
            lent: PhantomData,
        }
    }

    /// The borrow again.
    #[must_use]
    pub const fn into_slice(self) -> &'b mut [u8] {
        // SAFETY: the invariant; and `self` is gone.
        unsafe { core::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }
}

impl fmt::Debug for ExclusiveBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExclusiveBytes")
            .field("base", &self.base)
            .field("len", &self.len)
            .finish()
    }
}

// SAFETY: an exclusive borrow: initialised, at one place, and nobody else's.
unsafe impl LentMemory for ExclusiveBytes<'_> {
    type Access = Init;
    const VENDS: bool = true;

    fn len(&self) -> usize {
        self.len
    }
    #[inline]
    fn place(&self) -> Place {
        Place::Host(self.base)
    }
    fn caps(&self) -> Caps {
        Caps::PLAIN_COPIES
    }
    fn name(&self) -> &'static str {
        "borrowed, exclusive"
    }
    unsafe fn copy_in(
        &self,
        offset: usize,
        source: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        // SAFETY: the range lies in the bytes, and the caller promises the rest.
        unsafe { self.base.add(offset).copy_from_nonoverlapping(source, len) };
        Ok(())
    }
    unsafe fn copy_out(
        &self,
        offset: usize,
        destination: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        // SAFETY: as above, the other way round.
        unsafe {
            self.base
                .add(offset)
                .copy_to_nonoverlapping(destination, len);
        };
        Ok(())
    }
    unsafe fn fill(&self, offset: usize, len: usize, byte: u8) -> Result<(), TransferError> {
        // SAFETY: the range lies in the bytes.
        unsafe { self.base.add(offset).write_bytes(byte, len) };
        Ok(())
    }
}
