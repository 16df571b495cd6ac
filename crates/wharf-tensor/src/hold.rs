//! Host access that the fence has granted, and what it allows.
//!
//! Invariants:
//! 1. a [`Hold`] exists only while its claim is granted, and keeps the storage by borrowing a reference to it; so invariants
//!    2 to 4 of [`storage`](crate::storage) say that nobody writes the storage meanwhile, and beside a hold to write nobody
//!    reads it either;
//! 2. all bytes of a storage have values.
#![allow(
    unsafe_code,
    reason = "lends bytes under a claim; the invariants above"
)]

use core::ptr::NonNull;

use wharf_backend::{MemBackend, Place, TransferError};

use crate::error::StorageId;
use crate::fence::Claim;
use crate::storage::{Patience, StorageRef};
use crate::trace::{Span, TraceEvent, TraceKind};
use crate::{Target, TensorError};

/// Host access that the fence has granted; dropping it ends it. `WRITE` says which kind.
pub(crate) struct Hold<'s, T: Target, const WRITE: bool> {
    storage: &'s StorageRef<T>,
    claim: Claim,
}

impl<T: Target> StorageRef<T> {
    /// Access to read, for the duration of a call.
    pub(crate) fn read(&self, patience: Patience) -> Result<Hold<'_, T, false>, TensorError> {
        self.hold(Claim::HostRead, patience)
    }

    /// Access to write, for the duration of a call.
    pub(crate) fn write(&self, patience: Patience) -> Result<Hold<'_, T, true>, TensorError> {
        self.hold(Claim::HostWrite, patience)
    }

    /// Access to read, for as long as the user likes.
    pub(crate) fn guard_read(&self, patience: Patience) -> Result<Hold<'_, T, false>, TensorError> {
        self.hold(Claim::GuardRead, patience)
    }

    /// Access to write, for as long as the user likes.
    pub(crate) fn guard_write(&self, patience: Patience) -> Result<Hold<'_, T, true>, TensorError> {
        self.hold(Claim::GuardWrite, patience)
    }

    /// [`read`](Self::read), in a task.
    pub(crate) async fn read_when_ready(&self) -> Result<Hold<'_, T, false>, TensorError> {
        self.hold_when_ready(Claim::HostRead).await
    }

    /// [`write`](Self::write), in a task.
    pub(crate) async fn write_when_ready(&self) -> Result<Hold<'_, T, true>, TensorError> {
        self.hold_when_ready(Claim::HostWrite).await
    }

    /// [`guard_read`](Self::guard_read), in a task.
    pub(crate) async fn guard_read_when_ready(&self) -> Result<Hold<'_, T, false>, TensorError> {
        self.hold_when_ready(Claim::GuardRead).await
    }

    /// [`guard_write`](Self::guard_write), in a task.
    pub(crate) async fn guard_write_when_ready(&self) -> Result<Hold<'_, T, true>, TensorError> {
        self.hold_when_ready(Claim::GuardWrite).await
    }

    /// As [`hold`](Self::hold). The claim is granted in the poll that makes the hold, so there is none without one.
    async fn hold_when_ready<const WRITE: bool>(
        &self,
        claim: Claim,
    ) -> Result<Hold<'_, T, WRITE>, TensorError> {
        self.begin_when_ready(claim).await?;
        Ok(Hold {
            storage: self,
            claim,
        })
    }

    /// `WRITE` must be what `claim` is; the functions above see to it.
    #[inline]
    fn hold<const WRITE: bool>(
        &self,
        claim: Claim,
        patience: Patience,
    ) -> Result<Hold<'_, T, WRITE>, TensorError> {
        self.begin(claim, patience)?;
        Ok(Hold {
            storage: self,
            claim,
        })
    }
}

/// What moves bytes, whoever has seen to the access. Ranges lie in the storage; one that leaves the segment is refused there.
impl<T: Target> StorageRef<T> {
    /// Bytes go to device memory, or come from it. On the host nobody is told: there a read or a write is that very copy.
    #[inline]
    pub(crate) fn copies(&self, kind: TraceKind, bytes: usize) -> Span<'_, T::Trace> {
        match self.place() {
            Some(Place::Device(_)) => Span::start(self.trace(), || {
                TraceEvent::instant(kind, self.id().get(), bytes as u64)
            }),
            _ => Span::silent(self.trace()),
        }
    }

    /// Copies bytes at `at` into `bytes`. A placeholder leaves them as they are.
    ///
    /// # Safety
    /// Until the return nobody writes the range.
    #[inline]
    pub(crate) unsafe fn copy_out(&self, at: usize, bytes: &mut [u8]) -> Result<(), TransferError> {
        let Some(base) = self.plain(at, bytes.len()) else {
            return self.moved_out(at, bytes);
        };
        // SAFETY: invariant 5 of `storage`: valid for reads of the range, which nobody writes until the return; the destination is
        // exclusively borrowed, so elsewhere.
        unsafe { base.copy_to_nonoverlapping(NonNull::from(&mut *bytes).cast(), bytes.len()) };
        Ok(())
    }

    /// [`copy_out`](Self::copy_out), by the backend.
    #[cold]
    #[inline(never)]
    fn moved_out(&self, at: usize, bytes: &mut [u8]) -> Result<(), TransferError> {
        match self.get().segment() {
            // No wrap: the storage lies in the segment.
            Some((segment, start)) => segment.read(start.saturating_add(at), bytes),
            None => Ok(()),
        }
    }

    /// Copies `bytes` to `at`. A placeholder takes them and keeps nothing.
    ///
    /// # Safety
    /// Until the return nobody else reads or writes the range, and no reference to its bytes is in use. The storage is
    /// [writable](Self::writable).
    #[inline]
    pub(crate) unsafe fn copy_in(&self, at: usize, bytes: &[u8]) -> Result<(), TransferError> {
        let Some(base) = self.plain(at, bytes.len()) else {
            // SAFETY: the caller's promise.
            return unsafe { self.moved_in(at, bytes) };
        };
        // SAFETY: invariant 5 of `storage`: valid for writes of the range, of which the source is no part, because no reference to
        // it is in use.
        unsafe { base.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        Ok(())
    }

    /// [`copy_in`](Self::copy_in), by the backend.
    ///
    /// # Safety
    /// As there.
    #[cold]
    #[inline(never)]
    unsafe fn moved_in(&self, at: usize, bytes: &[u8]) -> Result<(), TransferError> {
        match self.get().segment() {
            // SAFETY: the caller's promise.
            Some((segment, start)) => unsafe {
                let segment = segment.writable()?;
                segment.write_shared(start.saturating_add(at), bytes)
            },
            None => Ok(()),
        }
    }

    /// Copies `len` bytes at `from.1` of one storage to `at`, as `memmove` does, in one transfer of the device that has both.
    /// `None`: there is no such device, and nothing was done.
    ///
    /// # Safety
    /// Until the return nobody else writes the source, or reads or writes the destination.
    pub(crate) unsafe fn copy_on_device(
        &self,
        at: usize,
        (source, from): (&Self, usize),
        len: usize,
    ) -> Option<Result<(), TransferError>> {
        let (segment, start) = self.get().segment()?;
        let writable = segment.writable().ok()?;
        let to = writable.by_address(start.saturating_add(at), len)?;
        let (other, start) = source.get().segment()?;
        let from = other.by_address(start.saturating_add(from), len)?;
        let backend = segment.backend();
        if !backend.reaches(from, len) {
            return None;
        }
        let _read = source.copies(TraceKind::CopyOut, len);
        let _written = self.copies(TraceKind::CopyIn, len);
        // SAFETY: the handles live in the storages, their ranges were checked, may be moved by address, and are reached; the rest
        // is the caller's promise.
        Some(unsafe { backend.copy_on_device(from, to, len) })
    }

    /// Sets `len` bytes from `at` on.
    ///
    /// # Safety
    /// As for [`copy_in`](Self::copy_in).
    #[inline]
    pub(crate) unsafe fn set(&self, at: usize, len: usize, byte: u8) -> Result<(), TransferError> {
        if let Some(base) = self.plain(at, len) {
            // SAFETY: invariant 5 of `storage`: valid for writes of the range, which is the caller's alone.
            unsafe { base.write_bytes(byte, len) };
            return Ok(());
        }
        match self.get().segment() {
            // SAFETY: the caller's promise.
            Some((segment, start)) => unsafe {
                let segment = segment.writable()?;
                segment.fill_shared(start.saturating_add(at), len, byte)
            },
            None => Ok(()),
        }
    }
}

impl<T: Target, const WRITE: bool> Hold<'_, T, WRITE> {
    /// Whether there is a length and no bytes.
    pub(crate) fn is_placeholder(&self) -> bool {
        self.storage.get().segment().is_none()
    }

    pub(crate) fn id(&self) -> StorageId {
        self.storage.id()
    }

    /// Copies bytes at `offset` of the storage into `bytes`. A placeholder leaves them as they are.
    #[inline]
    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), TransferError> {
        let _copies = self.storage.copies(TraceKind::CopyOut, bytes.len());
        // SAFETY: invariant 1.
        unsafe { self.storage.copy_out(offset, bytes) }
    }

    /// Bytes of the storage in place. Out of range there are none.
    #[inline]
    pub(crate) fn host(&self, (start, len): (usize, usize)) -> Result<&[u8], TensorError> {
        let base = self.base()?;
        if !self.contains(start, len) {
            return Ok(&[]);
        }
        // SAFETY: the range lies in the storage, whose bytes are the CPU's, have values (invariant 2), and are written by nobody
        // while the hold lives (invariant 1), or by this hold, which is borrowed.
        Ok(unsafe { core::slice::from_raw_parts(base.as_ptr().add(start), len) })
    }

    #[inline]
    fn base(&self) -> Result<NonNull<u8>, TensorError> {
        match self.storage.place() {
            Some(Place::Host(base)) => Ok(base),
            Some(Place::Device(_)) | None => {
                Err(TensorError::NotHostAddressable { storage: self.id() })
            }
        }
    }

    #[inline]
    fn contains(&self, start: usize, len: usize) -> bool {
        let end = start.checked_add(len);
        end.is_some_and(|end| end <= self.storage.len())
    }
}

impl<T: Target> Hold<'_, T, true> {
    /// Copies `bytes` to `offset` of the storage. A placeholder takes them and keeps nothing.
    #[inline]
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), TransferError> {
        let _copies = self.storage.copies(TraceKind::CopyIn, bytes.len());
        // SAFETY: the caller has checked that the range lies in the storage, which is this hold's alone (invariant 1).
        // What it has lent of the bytes is not in use, because it is borrowed exclusively.
        unsafe { self.storage.copy_in(offset, bytes) }
    }

    /// Copies `len` bytes at `from` of `source`, or of this storage where there is none, to `offset` of this one, in one transfer of the
    /// device that has both. `None`: there is no such device, and nothing was done.
    pub(crate) fn copy_on_device(
        &mut self,
        offset: usize,
        (source, from): (Option<&Hold<'_, T, false>>, usize),
        len: usize,
    ) -> Option<Result<(), TransferError>> {
        let source = source.map_or(self.storage, |source| source.storage);
        // SAFETY: invariant 1, of both; what this hold has lent is not in use, because it is borrowed exclusively.
        unsafe { self.storage.copy_on_device(offset, (source, from), len) }
    }

    /// Sets `len` bytes from `offset` of the storage.
    #[inline]
    pub(crate) fn fill(
        &mut self,
        offset: usize,
        len: usize,
        byte: u8,
    ) -> Result<(), TransferError> {
        let _copies = self.storage.copies(TraceKind::CopyIn, len);
        // SAFETY: as in `write`.
        unsafe { self.storage.set(offset, len, byte) }
    }

    /// Bytes of the storage in place, to be written. Out of range there are none.
    #[inline]
    pub(crate) fn host_mut(
        &mut self,
        (start, len): (usize, usize),
    ) -> Result<&mut [u8], TensorError> {
        let base = self.base()?;
        if !self.contains(start, len) {
            return Ok(&mut []);
        }
        // SAFETY: as in `host`; nobody else has any access (invariant 1), and this hold is borrowed exclusively.
        Ok(unsafe { core::slice::from_raw_parts_mut(base.as_ptr().add(start), len) })
    }
}

impl<T: Target, const WRITE: bool> Drop for Hold<'_, T, WRITE> {
    #[inline]
    fn drop(&mut self) {
        self.storage.get().fence().end(self.claim);
    }
}

#[cfg(all(test, feature = "std"))]
mod tests;
