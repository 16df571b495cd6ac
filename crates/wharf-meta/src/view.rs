//! Bytes seen as elements in place, and moved as elements in one transfer.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use wharf_tensor::{ReadGuard, Target, TensorError, WriteGuard};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::{Element, Typed, TypedError};

/// `bytes` as elements, in place.
///
/// # Errors
/// The bytes are not aligned as elements are, or are no whole number of them.
pub fn view<E: FromBytes + Immutable>(bytes: &[u8]) -> Result<&[E], TypedError> {
    fits::<E>(bytes)?;
    // Both causes for which this fails were seen to.
    Ok(<[E]>::ref_from_bytes(bytes).unwrap_or_default())
}

/// `bytes` as elements, in place, to be written.
///
/// # Errors
/// As for [`view`].
pub fn view_mut<E: FromBytes + IntoBytes + Immutable>(
    bytes: &mut [u8],
) -> Result<&mut [E], TypedError> {
    fits::<E>(bytes)?;
    Ok(<[E]>::mut_from_bytes(bytes).unwrap_or_default())
}

fn fits<E>(bytes: &[u8]) -> Result<(), TypedError> {
    let (size, align) = const {
        assert!(size_of::<E>() > 0, "elements have bytes");
        (size_of::<E>(), align_of::<E>())
    };
    let (address, len) = (bytes.as_ptr().addr(), bytes.len());
    if !address.is_multiple_of(align) {
        return Err(TypedError::Misaligned { address, align });
    }
    if !len.is_multiple_of(size) {
        return Err(TypedError::Uneven { len, size });
    }
    Ok(())
}

/// Lends the elements of a host tensor as `&[E]`; like the [`ReadGuard`] in it.
pub struct TypedReadGuard<'t, T: Target, E> {
    guard: ReadGuard<'t, T>,
    elements: PhantomData<fn() -> E>,
}

/// Lends the elements of a host tensor as `&mut [E]`; like the [`WriteGuard`] in it.
pub struct TypedWriteGuard<'t, T: Target, E> {
    guard: WriteGuard<'t, T>,
    elements: PhantomData<fn() -> E>,
}

/// In place, elements are in the order of the CPU, so all of this is for little-endian ones.
impl<T: Target> Typed<T> {
    /// Lends the elements in place. Blocks as [`Tensor::lend`](wharf_tensor::Tensor::lend) does.
    ///
    /// # Errors
    /// They are of another type, or not aligned; or the tensor refused, for instance because it is on a device.
    pub fn lend<E: Element + FromBytes + Immutable>(
        &self,
    ) -> Result<TypedReadGuard<'_, T, E>, TypedError> {
        self.check::<E>()?;
        let guard = self.tensor().lend().map_err(refused)?;
        view::<E>(&guard)?;
        Ok(TypedReadGuard {
            guard,
            elements: PhantomData,
        })
    }

    /// Lends the elements in place, to be written. Blocks as [`Tensor::lend_mut`](wharf_tensor::Tensor::lend_mut) does.
    ///
    /// # Errors
    /// As for [`lend`](Self::lend).
    pub fn lend_mut<E: Element + FromBytes + IntoBytes + Immutable>(
        &self,
    ) -> Result<TypedWriteGuard<'_, T, E>, TypedError> {
        self.check::<E>()?;
        let guard = self.tensor().lend_mut().map_err(refused)?;
        view::<E>(&guard)?;
        Ok(TypedWriteGuard {
            guard,
            elements: PhantomData,
        })
    }

    /// Reads the elements from index `first` on in one transfer, straight to where they shall be. Nothing is written
    /// between the first and the last of them. Blocks as [`Tensor::read`](wharf_tensor::Tensor::read) does.
    ///
    /// # Errors
    /// The elements are of another type or leave the tensor, or the tensor refused. `values` is untouched.
    pub fn read_whole<E: Element + FromBytes + IntoBytes>(
        &self,
        first: usize,
        values: &mut [E],
    ) -> Result<(), TypedError> {
        let offset = self.span::<E>(first, values.len())?;
        self.tensor()
            .read(offset, values.as_mut_bytes())
            .map_err(refused)
    }

    /// Writes elements from index `first` on in one transfer. Blocks as [`Tensor::write`](wharf_tensor::Tensor::write) does.
    ///
    /// # Errors
    /// The elements are of another type or leave the tensor, or the tensor refused. Nothing was written.
    pub fn write_whole<E: Element + IntoBytes + Immutable>(
        &self,
        first: usize,
        values: &[E],
    ) -> Result<(), TypedError> {
        let offset = self.span::<E>(first, values.len())?;
        self.tensor()
            .write(offset, values.as_bytes())
            .map_err(refused)
    }
}

fn refused(error: TensorError) -> TypedError {
    TypedError::Tensor { done: 0, error }
}

// The constructors have seen that the bytes are elements, and they do not move: the fallbacks are never taken.

impl<T: Target, E: FromBytes + Immutable> Deref for TypedReadGuard<'_, T, E> {
    type Target = [E];
    fn deref(&self) -> &[E] {
        view(&self.guard).unwrap_or_default()
    }
}

impl<T: Target, E: FromBytes + Immutable> Deref for TypedWriteGuard<'_, T, E> {
    type Target = [E];
    fn deref(&self) -> &[E] {
        view(&self.guard).unwrap_or_default()
    }
}

impl<T: Target, E: FromBytes + IntoBytes + Immutable> DerefMut for TypedWriteGuard<'_, T, E> {
    fn deref_mut(&mut self) -> &mut [E] {
        view_mut(&mut self.guard).unwrap_or_default()
    }
}

impl<T: Target, E> fmt::Debug for TypedReadGuard<'_, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedReadGuard").field(&self.guard).finish()
    }
}

impl<T: Target, E> fmt::Debug for TypedWriteGuard<'_, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedWriteGuard").field(&self.guard).finish()
    }
}
