//! Moving bytes past the fence, for who keeps accesses apart by other means.
//!
//! Invariant: the functions that are `unsafe` here ask of their caller, for the duration of the call, what a claim of the fence
//! would have given: nobody meets them in the range.
#![allow(
    unsafe_code,
    reason = "moves bytes without a claim; whoever calls vouches for it"
)]

use crate::batch::{check, move_all, traced};
use crate::trace::TraceKind;
use crate::{BatchError, ReadOp, Target, Tensor, TensorError, WriteOp};

/// Past the fence: neither wait, nor keep anybody waiting. For a program that knows already that nobody is there: the halves of a
/// buffer that a device fills in turns without a [`split`](Tensor::split), say, or an interrupt handler that must not fail.
///
/// Bounds are checked as ever, and trace events are told. A placeholder has no bytes to move.
///
/// On a backend that maintains caches, *range* below means the cache lines that the bytes lie in: when a device lets go of the
/// rest of such a line, what the CPU wrote to it is lost.
impl<T: Target> Tensor<T> {
    /// [`read`](Self::read) past the fence.
    ///
    /// ```
    /// # use wharf_backend::Heap;
    /// # use wharf_source::HeapSource;
    /// # use wharf_sync::Unsync;
    /// # use wharf_tensor::{Parts, Tensor, TensorError};
    /// use wharf_engine::Stream;
    /// use wharf_tensor::Access;
    ///
    /// # let target = Parts::<Heap<Unsync>, HeapSource>::new(HeapSource);
    /// let samples = Tensor::alloc(&target, Heap::new(), 64)?;
    /// # let stream = Stream::claim().unwrap();
    /// // A converter writes the second half, and holds the storage meanwhile.
    /// let converter = samples.slice(32..)?.begin(Access::Write, stream.id())?;
    /// let mut half = [1; 32];
    /// assert!(matches!(samples.try_read(0, &mut half), Err(TensorError::WouldBlock { .. })));
    /// // SAFETY: it stays in its half.
    /// unsafe { samples.read_unfenced(0, &mut half) }?;
    /// assert_eq!(half, [0; 32]);
    /// # Ok::<(), TensorError>(())
    /// ```
    ///
    /// # Safety
    /// Until the return nobody writes the range: no device, no other call, and no [`WriteGuard`](crate::WriteGuard) lends it.
    ///
    /// # Errors
    /// There is no storage, the range leaves the tensor, or the device is closed. `bytes` is untouched then.
    pub unsafe fn read_unfenced(&self, offset: usize, bytes: &mut [u8]) -> Result<(), TensorError> {
        let storage = self.storage()?;
        let at = self.span(offset, bytes.len())?;
        let _traced = self.traced(storage, TraceKind::Read, bytes.len());
        let _copies = storage.copies(TraceKind::CopyOut, bytes.len());
        // SAFETY: the caller's promise, and a range of the storage.
        Ok(unsafe { storage.copy_out(at, bytes) }?)
    }

    /// [`write`](Self::write) past the fence.
    ///
    /// # Safety
    /// Until the return nobody else reads or writes the range: no device, no other call, and no guard lends it.
    ///
    /// # Errors
    /// There is no storage, the memory is [read-only](TensorError::ReadOnly), the range leaves the tensor, or the device is closed.
    /// Nothing was written then.
    pub unsafe fn write_unfenced(&self, offset: usize, bytes: &[u8]) -> Result<(), TensorError> {
        let storage = self.storage()?;
        storage.writable()?;
        let at = self.span(offset, bytes.len())?;
        let _traced = self.traced(storage, TraceKind::Write, bytes.len());
        let _copies = storage.copies(TraceKind::CopyIn, bytes.len());
        // SAFETY: the caller's promise, and a range of the storage.
        Ok(unsafe { storage.copy_in(at, bytes) }?)
    }

    /// [`fill`](Self::fill) past the fence.
    ///
    /// # Safety
    /// As for [`write_unfenced`](Self::write_unfenced), with all of the tensor as the range.
    ///
    /// # Errors
    /// There is no storage, the memory is [read-only](TensorError::ReadOnly), or the device is closed. Nothing was written then.
    pub unsafe fn fill_unfenced(&self, byte: u8) -> Result<(), TensorError> {
        let storage = self.storage()?;
        storage.writable()?;
        let _traced = self.traced(storage, TraceKind::Write, self.len());
        let _copies = storage.copies(TraceKind::CopyIn, self.len());
        // SAFETY: the caller's promise, and the range of the tensor, which lies in its storage.
        Ok(unsafe { storage.set(self.offset(), self.len(), byte) }?)
    }

    /// [`read_batch`](Self::read_batch) past the fences.
    ///
    /// # Safety
    /// As for [`read_unfenced`](Self::read_unfenced), for every operation, until the return.
    ///
    /// # Errors
    /// As of [`read_batch`](Self::read_batch), but for those of the fence.
    pub unsafe fn read_batch_unfenced(ops: &mut [ReadOp<'_, T>]) -> Result<(), BatchError> {
        check(ops)?;
        let _traced = traced(ops, TraceKind::ReadBatch);
        // SAFETY: the caller's promise; checked above.
        unsafe { move_all(ops) }
    }

    /// [`write_batch`](Self::write_batch) past the fences.
    ///
    /// # Safety
    /// As for [`write_unfenced`](Self::write_unfenced), for every operation, until the return.
    ///
    /// # Errors
    /// As of [`write_batch`](Self::write_batch), but for those of the fence.
    pub unsafe fn write_batch_unfenced(ops: &[WriteOp<'_, T>]) -> Result<(), BatchError> {
        check(ops)?;
        let _traced = traced(ops, TraceKind::WriteBatch);
        // SAFETY: the caller's promise; checked above.
        unsafe { move_all(ops) }
    }
}
