//! Access to many storages at once, without a list of them.
//!
//! The storages of a batch are those of its operations, each once, in the order of their addresses: the next one is found by
//! looking through the operations for the next larger address. That needs no memory, whatever the number, and costs a look at
//! every operation for each storage.
//!
//! Invariants of a [`Holds`] that `acquire` or `acquire_when_ready` gave out:
//! 1. the claim of their [way](Way) is granted, once, by the fence of every storage of the operations, and ends with it;
//! 2. no operation leaves its tensor, and each has a storage.
#![allow(unsafe_code, reason = "moves bytes under claims; the invariants above")]

use core::ops::{Deref, DerefMut};

use super::{BatchOp, ReadOp, WriteOp, move_all};
use crate::fence::Claim;
use crate::storage::{Patience, StorageRef};
use crate::{BatchError, Target, TensorError};

/// Which way the bytes move: told by the buffer on the host.
pub(crate) trait Way: AsRef<[u8]> {
    /// What they need of a storage.
    const CLAIM: Claim;
}
impl Way for &mut [u8] {
    const CLAIM: Claim = Claim::HostRead;
}
impl Way for &[u8] {
    const CLAIM: Claim = Claim::HostWrite;
}

/// Host access to every storage of a batch; dropping it ends it.
pub(super) struct Holds<'o, T, B, O>
where
    T: Target + 'o,
    B: Way + 'o,
    O: Deref<Target = [BatchOp<'o, T, B>]>,
{
    ops: O,
    /// Granted are the storages with addresses above this one,
    above: usize,
    /// up to this one,
    through: usize,
    /// and this one.
    kept: Option<usize>,
}

impl<'o, T, B, O> Holds<'o, T, B, O>
where
    T: Target + 'o,
    B: Way + 'o,
    O: Deref<Target = [BatchOp<'o, T, B>]>,
{
    /// `ops` are [checked](super::check). Storages are waited for in the order of their addresses, as by every blocking call
    /// that holds one while it waits for another: so no two of them wait for each other in a circle.
    pub(super) fn acquire(ops: O, patience: Patience) -> Result<Self, BatchError> {
        let mut holds = Self::none(ops);
        match holds.take(patience) {
            Ok(()) => Ok(holds),
            Err((op, error)) => Err(BatchError::Refused { op, error }),
        }
    }

    /// [`acquire`](Self::acquire), in a task. Nothing is held while it is suspended: all is granted in the last poll.
    pub(super) async fn acquire_when_ready(ops: O) -> Result<Self, BatchError> {
        let mut holds = Self::none(ops);
        loop {
            match holds.take(Patience::None) {
                Ok(()) => return Ok(holds),
                Err((op, TensorError::WouldBlock { .. })) => {
                    holds.release();
                    let refused = |error| BatchError::Refused { op, error };
                    let storage = holds.ops[op].tensor.storage().map_err(refused)?;
                    storage.begin_when_ready(B::CLAIM).await.map_err(refused)?;
                    holds.kept = Some(storage.id().0);
                }
                Err((op, error)) => return Err(BatchError::Refused { op, error }),
            }
        }
    }

    pub(super) fn ops(&self) -> &[BatchOp<'o, T, B>] {
        &self.ops
    }

    const fn none(ops: O) -> Self {
        Self {
            ops,
            above: 0,
            through: 0,
            kept: None,
        }
    }

    /// Takes what is missing. Where that fails, what it has stays.
    fn take(&mut self, patience: Patience) -> Result<(), (usize, TensorError)> {
        while let Some((op, storage)) = next(&self.ops, self.through) {
            let id = storage.id().0;
            if self.kept != Some(id) {
                let granted = storage.begin(B::CLAIM, patience);
                granted.map_err(|error| (op, error))?;
            }
            self.kept.take_if(|kept| *kept == id);
            self.through = id;
        }
        Ok(())
    }

    fn release(&mut self) {
        while self.release_one() {}
        (self.above, self.through) = (0, 0);
    }

    /// `false`: there was nothing left. What ends is struck off first, because the end of an access runs code that is not ours.
    fn release_one(&mut self) -> bool {
        let (through, kept) = (self.through, self.kept);
        let storage = match next(&self.ops, self.above) {
            Some((_, storage)) if storage.id().0 <= through => {
                self.above = storage.id().0;
                storage
            }
            _ => {
                let mut storages = self.ops.iter().filter_map(|op| op.tensor.storage().ok());
                let is_kept = |storage: &&StorageRef<T>| kept == Some(storage.id().0);
                let Some(storage) = storages.find(is_kept) else {
                    return false;
                };
                self.kept = None;
                storage
            }
        };
        storage.get().fence().end(B::CLAIM);
        true
    }
}

/// The storage with the smallest address above `above`, and the first operation on it.
fn next<'s, T: Target, B>(
    ops: &'s [BatchOp<'_, T, B>],
    above: usize,
) -> Option<(usize, &'s StorageRef<T>)> {
    let storages = ops
        .iter()
        .enumerate()
        .filter_map(|(op, one)| Some((op, one.tensor.storage().ok()?)));
    storages
        .filter(|(_, storage)| storage.id().0 > above)
        .min_by_key(|(_, storage)| storage.id().0)
}

impl<'o, T, O> Holds<'o, T, &'o mut [u8], O>
where
    T: Target + 'o,
    O: DerefMut<Target = [ReadOp<'o, T>]>,
{
    /// Moves all.
    pub(super) fn read(&mut self) -> Result<(), BatchError> {
        // SAFETY: invariants 1 and 2: nobody writes any of the storages.
        unsafe { move_all(&mut *self.ops) }
    }
}

impl<'o, T, O> Holds<'o, T, &'o [u8], O>
where
    T: Target + 'o,
    O: Deref<Target = [WriteOp<'o, T>]>,
{
    /// Moves all.
    pub(super) fn write(&mut self) -> Result<(), BatchError> {
        // SAFETY: invariants 1 and 2: the storages are ours alone, and lent to nobody.
        unsafe { move_all(&*self.ops) }
    }
}

impl<'o, T, B, O> Drop for Holds<'o, T, B, O>
where
    T: Target + 'o,
    B: Way + 'o,
    O: Deref<Target = [BatchOp<'o, T, B>]>,
{
    fn drop(&mut self) {
        // Released while a waker's panic unwinds, what is left goes all the same.
        struct Rest<'h, 'o, T, B, O>(&'h mut Holds<'o, T, B, O>)
        where
            T: Target + 'o,
            B: Way + 'o,
            O: Deref<Target = [BatchOp<'o, T, B>]>;
        impl<'o, T, B, O> Drop for Rest<'_, 'o, T, B, O>
        where
            T: Target + 'o,
            B: Way + 'o,
            O: Deref<Target = [BatchOp<'o, T, B>]>,
        {
            fn drop(&mut self) {
                self.0.release();
            }
        }
        Rest(self).0.release();
    }
}
