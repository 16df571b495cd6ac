//! Moving bytes between the host and a tensor, through its fence.
//!
//! Every operation has two fronts: the plain one waits for what ends by itself (device work, other calls), the `try_`
//! one answers [`TensorError::WouldBlock`] instead. Neither waits for a guard.

use crate::storage::{Hold, Patience, StorageRef};
use crate::trace::{Span, TraceKind};
use crate::{Target, Tensor, TensorError};

const FOREVER: Patience = Patience::Until(None);

/// Bytes of the stack that a copy between two devices goes through.
const BOUNCE: usize = 256;

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

    fn read_with(
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
    /// The range leaves the tensor, the fence cannot grant the access, or the device is closed. Nothing was written then.
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

    fn write_with(
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

    fn fill_with(&self, byte: u8, patience: Patience) -> Result<(), TensorError> {
        let storage = self.storage()?;
        let _traced = self.traced(storage, TraceKind::Write, self.len());
        let mut hold = storage.write(patience)?;
        Ok(hold.fill(self.offset(), self.len(), byte)?)
    }

    /// Copies all of `source` into all of this tensor, wherever the two are: host or device, in one storage (also overlapping) or
    /// two. Slice both to copy a part.
    ///
    /// Between host and device the bytes move in one transfer; between two storages of devices they go through 256
    /// bytes of the stack. Blocks while a device writes the source, or reads or writes this one.
    ///
    /// # Errors
    /// The lengths differ, the fence cannot grant the access (nothing was written then), or a device was closed
    /// (a part may have been written, if both are on devices).
    pub fn copy_from(&self, source: &Self) -> Result<(), TensorError> {
        self.copy_with(source, FOREVER)
    }

    /// [`copy_from`](Self::copy_from) without waiting.
    ///
    /// # Errors
    /// As there, and [`TensorError::WouldBlock`].
    pub fn try_copy_from(&self, source: &Self) -> Result<(), TensorError> {
        self.copy_with(source, Patience::None)
    }

    fn copy_with(&self, source: &Self, patience: Patience) -> Result<(), TensorError> {
        let (to, from) = (self.storage()?, source.storage()?);
        if self.len() != source.len() {
            return Err(TensorError::LengthMismatch {
                destination: self.len(),
                source: source.len(),
            });
        }
        let _traced = self.traced(to, TraceKind::Write, self.len());
        if to.is_same(from) {
            let mut hold = to.write(patience)?;
            return copy_within(&mut hold, source.offset(), self.offset(), self.len());
        }
        // Two storages are always taken in the same order, so that two copies the opposite way cannot
        // each wait for the other.
        let (mut write, read);
        if to.id().get() < from.id().get() {
            write = to.write(patience)?;
            read = from.read(patience)?;
        } else {
            read = from.read(patience)?;
            write = to.write(patience)?;
        }
        copy_across(
            &read,
            source.offset(),
            &mut write,
            self.offset(),
            self.len(),
        )
    }

    fn traced<'s>(
        &self,
        storage: &'s StorageRef<T>,
        kind: TraceKind,
        bytes: usize,
    ) -> Span<'s, T::Trace> {
        Span::start(storage.trace(), kind, storage.id().get(), bytes)
    }
}

/// Copies between two storages.
fn copy_across<T: Target>(
    from: &Hold<'_, T, false>,
    from_offset: usize,
    to: &mut Hold<'_, T, true>,
    to_offset: usize,
    len: usize,
) -> Result<(), TensorError> {
    if let Ok(bytes) = from.host() {
        // In bounds: the tensor's window lies in its storage.
        let bytes = bytes
            .get(from_offset..from_offset + len)
            .unwrap_or_default();
        return Ok(to.write(to_offset, bytes)?);
    }
    if let Ok(bytes) = to.host_mut() {
        let bytes = bytes
            .get_mut(to_offset..to_offset + len)
            .unwrap_or_default();
        return Ok(from.read(from_offset, bytes)?);
    }
    let mut bounce = [0; BOUNCE];
    let mut done = 0;
    while done < len {
        let chunk = BOUNCE.min(len - done);
        let bytes = &mut bounce[..chunk];
        from.read(from_offset + done, bytes)?;
        to.write(to_offset + done, bytes)?;
        done += chunk;
    }
    Ok(())
}

/// Copies inside one storage, as `memmove` does.
fn copy_within<T: Target>(
    hold: &mut Hold<'_, T, true>,
    from: usize,
    to: usize,
    len: usize,
) -> Result<(), TensorError> {
    if let Ok(bytes) = hold.host_mut() {
        // In bounds: both windows lie in the storage.
        if bytes.len() >= from + len && bytes.len() >= to + len {
            bytes.copy_within(from..from + len, to);
        }
        return Ok(());
    }
    let mut bounce = [0; BOUNCE];
    let mut done = 0;
    while done < len {
        let chunk = BOUNCE.min(len - done);
        // Towards higher addresses from the end, so that nothing is overwritten before it was read.
        let at = if to > from { len - done - chunk } else { done };
        let bytes = &mut bounce[..chunk];
        hold.read(from + at, bytes)?;
        hold.write(to + at, bytes)?;
        done += chunk;
    }
    Ok(())
}
