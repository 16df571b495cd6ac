//! Moving bytes between the host and a tensor, through its fence.
//!
//! Every operation has four fronts: the plain one waits for what ends by itself (device work, other calls), the `try_`
//! one answers [`TensorError::WouldBlock`] instead, [`Tensor::within`] waits for so long, and [`Tensor::when_ready`] is
//! awaited. None waits for a guard.

use crate::storage::{Patience, StorageRef};
use crate::trace::{Span, TraceEvent, TraceKind};
use crate::{Target, Tensor, TensorError};

pub(crate) const FOREVER: Patience = Patience::Until(None);

impl<T: Target> Tensor<T> {
    /// Copies bytes at `offset` into `bytes`. Blocks while a device writes the storage.
    ///
    /// # Errors
    /// The range leaves the tensor, the fence cannot grant the access, or the device is closed. `bytes` is untouched then.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), TensorError> {
        self.read_with(offset, bytes, FOREVER)
    }

    /// [`read`](Self::read) without waiting.
    ///
    /// # Errors
    /// As there, and [`TensorError::WouldBlock`].
    pub fn try_read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), TensorError> {
        self.read_with(offset, bytes, Patience::None)
    }

    pub(crate) fn read_with(
        &self,
        offset: usize,
        bytes: &mut [u8],
        patience: Patience,
    ) -> Result<(), TensorError> {
        let storage = self.storage()?;
        let at = self.span(offset, bytes.len())?;
        let _traced = self.traced(storage, TraceKind::Read, bytes.len());
        Ok(storage.read(patience)?.read(at, bytes)?)
    }

    /// Copies `bytes` into the tensor at `offset`. Blocks while a device reads or writes the storage.
    ///
    /// # Errors
    /// The memory is [read-only](TensorError::ReadOnly), the range leaves the tensor, the fence cannot grant the access, or the device
    /// is closed. Nothing was written then.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), TensorError> {
        self.write_with(offset, bytes, FOREVER)
    }

    /// [`write`](Self::write) without waiting.
    ///
    /// # Errors
    /// As there, and [`TensorError::WouldBlock`].
    pub fn try_write(&self, offset: usize, bytes: &[u8]) -> Result<(), TensorError> {
        self.write_with(offset, bytes, Patience::None)
    }

    pub(crate) fn write_with(
        &self,
        offset: usize,
        bytes: &[u8],
        patience: Patience,
    ) -> Result<(), TensorError> {
        let storage = self.storage()?;
        let at = self.span(offset, bytes.len())?;
        let _traced = self.traced(storage, TraceKind::Write, bytes.len());
        Ok(storage.write(patience)?.write(at, bytes)?)
    }

    /// Sets every byte. Blocks as [`write`](Self::write) does.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn fill(&self, byte: u8) -> Result<(), TensorError> {
        self.fill_with(byte, FOREVER)
    }

    /// [`fill`](Self::fill) without waiting.
    ///
    /// # Errors
    /// As there, and [`TensorError::WouldBlock`].
    pub fn try_fill(&self, byte: u8) -> Result<(), TensorError> {
        self.fill_with(byte, Patience::None)
    }

    pub(crate) fn fill_with(&self, byte: u8, patience: Patience) -> Result<(), TensorError> {
        let storage = self.storage()?;
        let _traced = self.traced(storage, TraceKind::Write, self.len());
        let mut hold = storage.write(patience)?;
        Ok(hold.fill(self.offset(), self.len(), byte)?)
    }

    pub(crate) fn traced<'s>(
        &self,
        storage: &'s StorageRef<T>,
        kind: TraceKind,
        bytes: usize,
    ) -> Span<'s, T::Trace> {
        Span::start(storage.trace(), || {
            TraceEvent::instant(kind, storage.id().get(), bytes as u64)
        })
    }
}
