//! Copying between tensors, wherever they are.

use wharf_backend::TransferError;

use crate::hold::Hold;
use crate::io::FOREVER;
use crate::storage::Patience;
use crate::trace::TraceKind;
use crate::{Target, Tensor, TensorError};

/// Bytes of the stack that a copy between two devices goes through.
const BOUNCE: usize = 256;

impl<T: Target> Tensor<T> {
    /// Copies all of `source` into all of this tensor, wherever the two are: host or device, in one storage (also overlapping) or
    /// two. Slice both to copy a part.
    ///
    /// Between host and device the bytes move in one transfer, and so they do where the backend of this tensor
    /// [reaches](wharf_backend::MemBackend::reaches) the source, as inside of one device: nothing was written if that fails. Elsewhere
    /// they go through 256 bytes of the stack, piece by piece, which every device can, whatever it reaches. For many bytes there is
    /// [`copy_through`](Self::copy_through); and an engine that reaches both does it by itself: [launch](crate::Launch::launch)
    /// [`Command::Copy`](wharf_engine::Command::Copy).
    ///
    /// Blocks while a device writes the source, or reads or writes this one. A placeholder, on either side, leaves everything as
    /// it is.
    ///
    /// # Errors
    /// The lengths differ, this memory is [read-only](TensorError::ReadOnly), the fence cannot grant the access, or a device was
    /// closed. Nothing was written then, but for [`TensorError::Partial`], which says how much.
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

    pub(crate) fn copy_with(&self, source: &Self, patience: Patience) -> Result<(), TensorError> {
        let (to, from) = (self.storage()?, source.storage()?);
        if self.len() != source.len() {
            return Err(TensorError::LengthMismatch {
                destination: self.len(),
                source: source.len(),
            });
        }
        // Before the source is waited for.
        to.writable()?;
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
}

/// Copies between two storages. What is copied from or to a placeholder leaves everything as it is.
pub(crate) fn copy_across<T: Target>(
    from: &Hold<'_, T, false>,
    from_offset: usize,
    to: &mut Hold<'_, T, true>,
    to_offset: usize,
    len: usize,
) -> Result<(), TensorError> {
    if from.is_placeholder() || to.is_placeholder() {
        return Ok(());
    }
    if let Ok(bytes) = from.host((from_offset, len)) {
        return Ok(to.write(to_offset, bytes)?);
    }
    if let Ok(bytes) = to.host_mut((to_offset, len)) {
        return Ok(from.read(from_offset, bytes)?);
    }
    if len > 0
        && let Some(moved) = to.copy_on_device(to_offset, (Some(from), from_offset), len)
    {
        return Ok(moved?);
    }
    in_pieces(len, BOUNCE, |done, piece| {
        let mut bounce = [0; BOUNCE];
        let bytes = &mut bounce[..piece];
        from.read(from_offset + done, bytes)?;
        to.write(to_offset + done, bytes)
    })
}

/// Copies inside one storage, as `memmove` does.
pub(crate) fn copy_within<T: Target>(
    hold: &mut Hold<'_, T, true>,
    from: usize,
    to: usize,
    len: usize,
) -> Result<(), TensorError> {
    // However long it is, it takes no time.
    if hold.is_placeholder() {
        return Ok(());
    }
    // From the first byte of either to the last of either. In bounds: both windows lie in the storage.
    let (first, last) = (from.min(to), from.max(to) + len);
    if let Ok(bytes) = hold.host_mut((first, last - first)) {
        bytes.copy_within(from - first..from - first + len, to - first);
        return Ok(());
    }
    if len > 0
        && let Some(moved) = hold.copy_on_device(to, (None, from), len)
    {
        return Ok(moved?);
    }
    in_pieces(len, BOUNCE, |done, piece| {
        // Towards higher addresses from the end, so that nothing is overwritten before it was read.
        let at = if to > from { len - done - piece } else { done };
        let mut bounce = [0; BOUNCE];
        let bytes = &mut bounce[..piece];
        hold.read(from + at, bytes)?;
        hold.write(to + at, bytes)
    })
}

/// Runs `step` with what is done and the next piece, of at most `most` bytes, until `len` are done.
fn in_pieces(
    len: usize,
    most: usize,
    mut step: impl FnMut(usize, usize) -> Result<(), TransferError>,
) -> Result<(), TensorError> {
    let mut done = 0;
    while done < len {
        let piece = most.min(len - done);
        step(done, piece).map_err(|error| match done {
            0 => TensorError::Transfer(error),
            _ => TensorError::Partial { done, len, error },
        })?;
        done += piece;
    }
    Ok(())
}
