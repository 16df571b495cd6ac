//! Many reads or many writes at once.
//!
//! Everything is checked before the first byte moves, and access to all of the storages is had by then, each once. There is no
//! limit to the number of operations, and no memory is taken: see [`holds`] for what that costs.

mod holds;
mod runs;

use core::fmt;
use core::time::Duration;

use crate::io::FOREVER;
use crate::storage::Patience;
use crate::trace::{Span, TraceEvent, TraceKind};
use crate::within::Limit;
use crate::{BatchError, Target, Tensor};
use holds::{Holds, Way};
pub(crate) use runs::move_all;

/// One operation of a batch: a tensor, where in it, and the bytes on the host. Made by [`Tensor::read_op`] and
/// [`Tensor::write_op`].
pub struct BatchOp<'o, T: Target, B> {
    tensor: &'o Tensor<T>,
    offset: usize,
    pub(crate) bytes: B,
}

impl<'o, T: Target, B> BatchOp<'o, T, B> {
    /// The tensor, and where in its storage the range begins, of a batch that was checked.
    pub(crate) const fn target(&self) -> (&'o Tensor<T>, usize) {
        // No wrap: it was checked, and the window lies in the storage.
        (self.tensor, self.tensor.offset().wrapping_add(self.offset))
    }
}

/// Copies bytes of a tensor to the host.
pub type ReadOp<'o, T> = BatchOp<'o, T, &'o mut [u8]>;

/// Copies bytes of the host into a tensor.
pub type WriteOp<'o, T> = BatchOp<'o, T, &'o [u8]>;

impl<T: Target> Tensor<T> {
    /// What [`read`](Self::read) does, as an operation of a batch.
    pub const fn read_op<'o>(&'o self, offset: usize, bytes: &'o mut [u8]) -> ReadOp<'o, T> {
        BatchOp {
            tensor: self,
            offset,
            bytes,
        }
    }

    /// What [`write`](Self::write) does, as an operation of a batch.
    #[must_use]
    pub const fn write_op<'o>(&'o self, offset: usize, bytes: &'o [u8]) -> WriteOp<'o, T> {
        BatchOp {
            tensor: self,
            offset,
            bytes,
        }
    }

    /// Carries out many reads, in their order. The tensors may be of any storages, also several times of one. What is seen is of
    /// one moment: nobody writes any of them meanwhile.
    ///
    /// Operations that follow each other on one device are one submission, where its backend
    /// [takes them so](wharf_backend::MemBackend::transfer_all).
    ///
    /// Blocks while a device writes any of the storages, and keeps writers out of those that it has access to already. It takes
    /// no memory; to find the storages it looks at each operation once for each of them.
    ///
    /// ```
    /// # use wharf_backend::Heap;
    /// # use wharf_source::HeapSource;
    /// # use wharf_sync::Unsync;
    /// # use wharf_tensor::{BatchError, Parts, Tensor, TensorError};
    /// # let target = Parts::<Heap<Unsync>, HeapSource>::new(HeapSource);
    /// let boxes = Tensor::alloc(&target, Heap::new(), 64)?;
    /// let scores = Tensor::alloc(&target, Heap::new(), 16)?;
    /// Tensor::write_batch(&[boxes.write_op(4, &[1, 2, 3, 4]), scores.write_op(1, &[99])])?;
    ///
    /// let (mut corners, mut score) = ([0; 4], [0; 1]);
    /// Tensor::read_batch(&mut [boxes.read_op(4, &mut corners), scores.read_op(1, &mut score)])?;
    /// assert_eq!((corners, score), ([1, 2, 3, 4], [99]));
    ///
    /// // One that cannot be is named, and the others have not happened either.
    /// let refused = Tensor::write_batch(&[scores.write_op(1, &[0]), scores.write_op(16, &[0])]);
    /// assert!(matches!(refused, Err(BatchError::Refused { op: 1, error: TensorError::OutOfBounds { .. } })));
    /// scores.read(1, &mut score)?;
    /// assert_eq!(score, [99]);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// One of them cannot be ([`BatchError::Refused`]; no buffer was touched then), or a device was closed in the middle
    /// ([`BatchError::Partial`]).
    pub fn read_batch(ops: &mut [ReadOp<'_, T>]) -> Result<(), BatchError> {
        read(ops, FOREVER)
    }

    /// [`read_batch`](Self::read_batch) without waiting: all of the storages at once, or none.
    ///
    /// # Errors
    /// As there, and [`TensorError::WouldBlock`](crate::TensorError::WouldBlock).
    pub fn try_read_batch(ops: &mut [ReadOp<'_, T>]) -> Result<(), BatchError> {
        read(ops, Patience::None)
    }

    /// [`read_batch`](Self::read_batch), waiting so long and no longer for all of the storages together, by the clock of the
    /// first one's [`Target`].
    ///
    /// # Errors
    /// As there, and [`TensorError::TimedOut`](crate::TensorError::TimedOut) or [`TensorError::NoClock`](crate::TensorError::NoClock).
    pub fn read_batch_within(limit: Duration, ops: &mut [ReadOp<'_, T>]) -> Result<(), BatchError> {
        let patience = patience(ops, limit)?;
        read(ops, patience)
    }

    /// [`read_batch`](Self::read_batch), awaited.
    ///
    /// It waits for one storage at a time, and has access to none meanwhile. All bytes move in the last poll: dropped at any
    /// other, no buffer was touched. See [`WhenReady`](crate::WhenReady).
    ///
    /// # Errors
    /// As of [`read_batch`](Self::read_batch).
    pub async fn read_batch_when_ready(ops: &mut [ReadOp<'_, T>]) -> Result<(), BatchError> {
        check(ops)?;
        let mut holds = Holds::acquire_when_ready(ops).await?;
        let _traced = traced(holds.ops(), TraceKind::ReadBatch);
        holds.read()
    }

    /// Carries out many writes, in their order: where two of them meet, the later one stays. The tensors may be of any storages, also
    /// several times of one. Nobody else sees a part of it.
    ///
    /// Blocks while a device reads or writes any of the storages, and keeps everybody out of those that it has access to already.
    /// What it costs, and an example: [`read_batch`](Self::read_batch).
    ///
    /// # Errors
    /// One of them cannot be, [read-only](crate::TensorError::ReadOnly) memory among others ([`BatchError::Refused`]; nothing was written
    /// then), or a device was closed in the middle
    /// ([`BatchError::Partial`]).
    pub fn write_batch(ops: &[WriteOp<'_, T>]) -> Result<(), BatchError> {
        write(ops, FOREVER)
    }

    /// [`write_batch`](Self::write_batch) without waiting: all of the storages at once, or none.
    ///
    /// # Errors
    /// As there, and [`TensorError::WouldBlock`](crate::TensorError::WouldBlock).
    pub fn try_write_batch(ops: &[WriteOp<'_, T>]) -> Result<(), BatchError> {
        write(ops, Patience::None)
    }

    /// [`write_batch`](Self::write_batch), waiting so long and no longer for all of the storages together, by the clock of the
    /// first one's [`Target`].
    ///
    /// # Errors
    /// As there, and [`TensorError::TimedOut`](crate::TensorError::TimedOut) or [`TensorError::NoClock`](crate::TensorError::NoClock).
    pub fn write_batch_within(limit: Duration, ops: &[WriteOp<'_, T>]) -> Result<(), BatchError> {
        write(ops, patience(ops, limit)?)
    }

    /// [`write_batch`](Self::write_batch), awaited.
    ///
    /// It waits for one storage at a time, and has access to none meanwhile. All bytes move in the last poll: dropped at any
    /// other, nothing was written. See [`WhenReady`](crate::WhenReady).
    ///
    /// # Errors
    /// As of [`write_batch`](Self::write_batch).
    pub async fn write_batch_when_ready(ops: &[WriteOp<'_, T>]) -> Result<(), BatchError> {
        check(ops)?;
        let mut holds = Holds::acquire_when_ready(ops).await?;
        let _traced = traced(holds.ops(), TraceKind::WriteBatch);
        holds.write()
    }
}

fn read<T: Target>(ops: &mut [ReadOp<'_, T>], patience: Patience) -> Result<(), BatchError> {
    check(ops)?;
    let _traced = traced(ops, TraceKind::ReadBatch);
    Holds::acquire(ops, patience)?.read()
}

fn write<T: Target>(ops: &[WriteOp<'_, T>], patience: Patience) -> Result<(), BatchError> {
    check(ops)?;
    let _traced = traced(ops, TraceKind::WriteBatch);
    Holds::acquire(ops, patience)?.write()
}

/// Whether every operation has a storage, stays in its tensor, and may do with it what it is for.
pub(crate) fn check<T: Target, B: Way>(ops: &[BatchOp<'_, T, B>]) -> Result<(), BatchError> {
    for (op, one) in ops.iter().enumerate() {
        let len = one.bytes.as_ref().len();
        let storage = one.tensor.storage();
        storage
            .and_then(|storage| {
                if B::CLAIM.writes() {
                    storage.writable()?;
                }
                one.tensor.span(one.offset, len)
            })
            .map_err(|error| BatchError::Refused { op, error })?;
    }
    Ok(())
}

/// Tells of the batch to the sink of its first storage.
pub(crate) fn traced<'o, T: Target, B: AsRef<[u8]>>(
    ops: &[BatchOp<'o, T, B>],
    kind: TraceKind,
) -> Option<Span<'o, T::Trace>> {
    let storage = ops.first()?.tensor.storage().ok()?;
    Some(Span::start(storage.trace(), || {
        let lengths = ops.iter().map(|op| op.bytes.as_ref().len() as u64);
        let bytes = lengths.fold(0, u64::saturating_add);
        TraceEvent::instant(kind, storage.id().get(), bytes)
    }))
}

fn patience<T: Target, B>(
    ops: &[BatchOp<'_, T, B>],
    limit: Duration,
) -> Result<Patience, BatchError> {
    let refused = |error| BatchError::Refused { op: 0, error };
    match ops.first() {
        Some(first) => first.tensor.patience(Limit::In(limit)).map_err(refused),
        // Nothing to wait for.
        None => Ok(Patience::None),
    }
}

impl<T: Target, B: Clone> Clone for BatchOp<'_, T, B> {
    fn clone(&self) -> Self {
        Self {
            tensor: self.tensor,
            offset: self.offset,
            bytes: self.bytes.clone(),
        }
    }
}
impl<T: Target, B: Copy> Copy for BatchOp<'_, T, B> {}

impl<T: Target, B: AsRef<[u8]>> fmt::Debug for BatchOp<'_, T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchOp")
            .field("tensor", &self.tensor)
            .field("offset", &self.offset)
            .field("len", &self.bytes.as_ref().len())
            .finish()
    }
}
