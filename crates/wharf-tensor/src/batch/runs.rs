//! Moving the bytes of a batch: operations that follow each other on one device as one submission, the others one by one.
//!
//! Invariant: `Ops` are those of a batch that was [checked](super::check): no operation leaves its tensor.
#![allow(
    unsafe_code,
    reason = "moves bytes; whoever calls vouches for the access to them"
)]

use core::ptr::NonNull;

use wharf_backend::{BackendRef, DeviceAddress, IoDirection, MemBackend, Piece, TransferError};

use crate::storage::StorageRef;
use crate::trace::{Span, TraceKind};
use crate::{BatchError, ReadOp, Target, Tensor, TensorError, WriteOp};

type Backend<T> = <<T as Target>::Memory as BackendRef>::Backend;

/// The operations of a batch, whichever way they move.
pub(crate) trait Ops<'o, T: Target + 'o> {
    const DIRECTION: IoDirection;
    const TRACE: TraceKind;

    /// Which tensor, where in its storage, and how many bytes. `None`: so many there are not.
    fn target(&self, op: usize) -> Option<(&'o Tensor<T>, usize, usize)>;

    /// Where its bytes are on the host.
    fn host(&mut self, op: usize) -> Option<NonNull<u8>>;

    /// Moves the bytes of one.
    ///
    /// # Safety
    /// As for [`Tensor::write_unfenced`] or [`Tensor::read_unfenced`].
    unsafe fn step(
        &mut self,
        op: usize,
        at: usize,
        storage: &StorageRef<T>,
    ) -> Result<(), TransferError>;
}

impl<'o, T: Target> Ops<'o, T> for &mut [ReadOp<'o, T>] {
    const DIRECTION: IoDirection = IoDirection::DeviceToCpu;
    const TRACE: TraceKind = TraceKind::CopyOutBatch;

    fn target(&self, op: usize) -> Option<(&'o Tensor<T>, usize, usize)> {
        let one = self.get(op)?;
        let (tensor, at) = one.target();
        Some((tensor, at, one.bytes.len()))
    }
    fn host(&mut self, op: usize) -> Option<NonNull<u8>> {
        let one = self.get_mut(op)?;
        Some(NonNull::from(&mut *one.bytes).cast())
    }
    unsafe fn step(
        &mut self,
        op: usize,
        at: usize,
        storage: &StorageRef<T>,
    ) -> Result<(), TransferError> {
        match self.get_mut(op) {
            // SAFETY: the caller's promise.
            Some(one) => unsafe { storage.copy_out(at, one.bytes) },
            None => Ok(()),
        }
    }
}

impl<'o, T: Target> Ops<'o, T> for &[WriteOp<'o, T>] {
    const DIRECTION: IoDirection = IoDirection::CpuToDevice;
    const TRACE: TraceKind = TraceKind::CopyInBatch;

    fn target(&self, op: usize) -> Option<(&'o Tensor<T>, usize, usize)> {
        let one = self.get(op)?;
        let (tensor, at) = one.target();
        Some((tensor, at, one.bytes.len()))
    }
    fn host(&mut self, op: usize) -> Option<NonNull<u8>> {
        Some(NonNull::from(self.get(op)?.bytes).cast())
    }
    unsafe fn step(
        &mut self,
        op: usize,
        at: usize,
        storage: &StorageRef<T>,
    ) -> Result<(), TransferError> {
        match self.get(op) {
            // SAFETY: the caller's promise.
            Some(one) => unsafe { storage.copy_in(at, one.bytes) },
            None => Ok(()),
        }
    }
}

/// Moves all, in their order, until one fails.
///
/// # Safety
/// For every operation, as for [`Tensor::write_unfenced`] or [`Tensor::read_unfenced`], until the return. The invariant.
pub(crate) unsafe fn move_all<'o, T: Target + 'o, O: Ops<'o, T>>(
    mut ops: O,
) -> Result<(), BatchError> {
    let mut op = 0;
    while let Some((tensor, at, len)) = ops.target(op) {
        let storage = match tensor.storage() {
            Ok(storage) => storage,
            Err(error) => return Err(ended(&ops, op, error)),
        };
        if let Some((backend, _)) = by_address(&ops, op) {
            let mut run = Run {
                ops: &mut ops,
                backend,
                next: op,
                span: None,
            };
            // SAFETY: the caller's promise; every piece lies in a live segment, whose handle the storage of its operation
            // keeps, may be moved by address, and is reached by this backend.
            let moved = unsafe { backend.transfer_all(O::DIRECTION, &mut run) };
            let next = run.next;
            drop(run);
            if let Err(stopped) = moved {
                let at = op.saturating_add(stopped.piece);
                return Err(ended(&ops, at, TensorError::Transfer(stopped.error)));
            }
            if next > op {
                op = next;
                continue;
            }
        }
        let _copies = storage.copies(O::TRACE, len);
        // SAFETY: the caller's promise, and the invariant.
        if let Err(error) = unsafe { ops.step(op, at, storage) } {
            return Err(ended(&ops, op, TensorError::Transfer(error)));
        }
        op += 1;
    }
    Ok(())
}

/// The batch ended with this operation: those before it have happened.
#[cold]
fn ended<'o, T: Target + 'o>(ops: &impl Ops<'o, T>, op: usize, error: TensorError) -> BatchError {
    let lengths = (0..op).map_while(|op| ops.target(op));
    let bytes = lengths.fold(0_u64, |sum, (_, _, len)| sum.saturating_add(len as u64));
    match error {
        TensorError::Transfer(error) if bytes > 0 => BatchError::Partial { op, bytes, error },
        error => BatchError::Refused { op, error },
    }
}

/// The backend of an operation, and the piece of it without the host's side, if its bytes may be moved by their device address.
#[inline]
fn by_address<'o, T: Target + 'o>(
    ops: &impl Ops<'o, T>,
    op: usize,
) -> Option<(&'o Backend<T>, Located<'o, T>)> {
    let (tensor, at, len) = ops.target(op)?;
    let storage = tensor.storage().ok()?;
    let (segment, start) = storage.get().segment()?;
    // No wrap: the storage lies in the segment.
    let address = segment.by_address(start.saturating_add(at), len)?;
    let located = Located {
        storage,
        address,
        len,
    };
    Some((segment.backend(), located))
}

/// The bytes of an operation on a device.
struct Located<'o, T: Target> {
    storage: &'o StorageRef<T>,
    address: DeviceAddress,
    len: usize,
}

/// Operations that follow each other on what one backend reaches.
struct Run<'r, 'o, T: Target, O> {
    ops: &'r mut O,
    backend: &'o Backend<T>,
    /// The first that was not asked for yet.
    next: usize,
    /// Of the last that was: it moves until the next one is asked for, or all have moved.
    span: Option<Span<'o, T::Trace>>,
}

impl<'o, T: Target, O: Ops<'o, T>> Iterator for Run<'_, 'o, T, O> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        self.span = None;
        let (_, located) = by_address(&*self.ops, self.next)?;
        if !self.backend.reaches(located.address, located.len) {
            return None;
        }
        let host = self.ops.host(self.next)?;
        self.span = Some(located.storage.copies(O::TRACE, located.len));
        self.next += 1;
        Some(Piece {
            address: located.address,
            host,
            len: located.len,
        })
    }
}
