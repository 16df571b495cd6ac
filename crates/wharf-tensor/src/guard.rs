//! Bytes lent in place, for as long as a guard lives.

use core::fmt;
use core::ops::{Deref, DerefMut};

use wharf_backend::Place;

use crate::hold::Hold;
use crate::storage::{Patience, StorageRef};
use crate::{Target, Tensor, TensorError};

/// Lends the bytes of a host tensor as `&[u8]`. While it lives nobody writes the storage: other calls are answered
/// [`TensorError::Guarded`], and no call waits for it.
///
/// It keeps its tensor from going, and its bytes do not outlive it:
///
/// ```compile_fail,E0505
/// # use wharf_tensor::{Target, Tensor};
/// fn keep<T: Target>(tensor: Tensor<T>) -> u8 {
///     let guard = tensor.lend().unwrap();
///     drop(tensor); // error: the guard borrows it
///     guard[0]
/// }
/// ```
///
/// ```compile_fail,E0515
/// # use wharf_tensor::{Target, Tensor};
/// fn bytes<T: Target>(tensor: &Tensor<T>) -> &[u8] {
///     let guard = tensor.lend().unwrap();
///     &guard[..] // error: returns what the guard lends
/// }
/// ```
pub struct ReadGuard<'t, T: Target> {
    hold: Hold<'t, T, false>,
    range: (usize, usize),
}

/// Lends the bytes of a host tensor as `&mut [u8]`. While it lives nobody else touches the storage.
pub struct WriteGuard<'t, T: Target> {
    hold: Hold<'t, T, true>,
    range: (usize, usize),
}

impl<T: Target> Tensor<T> {
    /// Lends the bytes. Blocks while a device writes the storage.
    ///
    /// # Errors
    /// The bytes are in device memory, or the fence cannot grant the access; a sixteenth guard on one storage is
    /// [`TensorError::Busy`].
    pub fn lend(&self) -> Result<ReadGuard<'_, T>, TensorError> {
        self.lend_with(Patience::Until(None))
    }

    /// [`lend`](Self::lend) without waiting.
    ///
    /// # Errors
    /// As there, and [`TensorError::WouldBlock`].
    pub fn try_lend(&self) -> Result<ReadGuard<'_, T>, TensorError> {
        self.lend_with(Patience::None)
    }

    pub(crate) fn lend_with(&self, patience: Patience) -> Result<ReadGuard<'_, T>, TensorError> {
        ReadGuard::new(self, self.lendable()?.guard_read(patience)?)
    }

    /// The storage, if its bytes can be lent at all: before anything is waited for.
    pub(crate) fn lendable(&self) -> Result<&StorageRef<T>, TensorError> {
        let storage = self.storage()?;
        match storage.place() {
            Some(Place::Host(_)) => Ok(storage),
            _ => Err(TensorError::NotHostAddressable {
                storage: storage.id(),
            }),
        }
    }

    /// Lends the bytes to be written. Blocks while a device reads or writes the storage.
    ///
    /// # Errors
    /// The bytes are in device memory or [read-only](TensorError::ReadOnly), or the fence cannot grant the access.
    pub fn lend_mut(&self) -> Result<WriteGuard<'_, T>, TensorError> {
        self.lend_mut_with(Patience::Until(None))
    }

    /// [`lend_mut`](Self::lend_mut) without waiting.
    ///
    /// # Errors
    /// As there, and [`TensorError::WouldBlock`].
    pub fn try_lend_mut(&self) -> Result<WriteGuard<'_, T>, TensorError> {
        self.lend_mut_with(Patience::None)
    }

    pub(crate) fn lend_mut_with(
        &self,
        patience: Patience,
    ) -> Result<WriteGuard<'_, T>, TensorError> {
        WriteGuard::new(self, self.lendable()?.guard_write(patience)?)
    }
}

impl<'t, T: Target> ReadGuard<'t, T> {
    /// `hold` is on the storage of `tensor`.
    pub(crate) fn new(
        tensor: &'t Tensor<T>,
        hold: Hold<'t, T, false>,
    ) -> Result<Self, TensorError> {
        let range = (tensor.offset(), tensor.len());
        // Once, so that `deref` need not fail.
        hold.host(range)?;
        Ok(Self { hold, range })
    }
}

impl<'t, T: Target> WriteGuard<'t, T> {
    /// `hold` is on the storage of `tensor`.
    pub(crate) fn new(tensor: &'t Tensor<T>, hold: Hold<'t, T, true>) -> Result<Self, TensorError> {
        let range = (tensor.offset(), tensor.len());
        hold.host(range)?;
        Ok(Self { hold, range })
    }
}

// The constructors have seen host memory: the fallbacks to an empty slice are never taken.

impl<T: Target> Deref for ReadGuard<'_, T> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.hold.host(self.range).unwrap_or_default()
    }
}

impl<T: Target> Deref for WriteGuard<'_, T> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.hold.host(self.range).unwrap_or_default()
    }
}

impl<T: Target> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.hold.host_mut(self.range).unwrap_or_default()
    }
}

impl<T: Target> fmt::Debug for ReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadGuard")
            .field("storage", &self.hold.id())
            .field("range", &self.range)
            .finish()
    }
}

impl<T: Target> fmt::Debug for WriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteGuard")
            .field("storage", &self.hold.id())
            .field("range", &self.range)
            .finish()
    }
}
