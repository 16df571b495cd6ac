//! Tensors over memory that nobody may write: weights in flash.
#![allow(
    unsafe_code,
    reason = "asks for writes past the fence, which are refused"
)]

use core::pin::pin;
use core::time::Duration;

use wharf_backend::{AllocError, BackendRef, Erases, ReadOnly, SegmentMut};
use wharf_sync::Clock;
use wharf_tensor::{Access, BatchError, LaunchError, Target, Tensor, TensorError, Tickets};

use super::tasks::poll;
use super::{Rig, id, settling, shows, stream, subject};
use crate::check::{Demand, ensure, equal, refused};
use crate::waker::Probe;
use crate::{Check, Failure, Outcome, Report, Tally, run};

/// Holds the tensors over a target's read-only memory to the behaviours of `wharf-tensor`: all that reads goes, all that writes is
/// refused, before anything is waited for.
///
/// `lend` lends this memory, again once it has come back, and it holds `bytes`, five or more. `memory` is one that may be written, and vends two
/// segments of as many bytes at a time; the source of the target has room for four control blocks.
///
/// ```
/// use std::sync::Arc;
/// use wharf_backend::{BorrowedBackend, Heap, SharedBytes};
/// use wharf_conformance::read_only;
/// use wharf_sync::Blocking;
/// use wharf_tensor::Hosted;
///
/// static WEIGHTS: [u8; 5] = [3, 1, 4, 1, 5];
/// let flash = Arc::new(BorrowedBackend::<_, Blocking>::fresh(SharedBytes::new(&WEIGHTS)));
/// let lend = || BorrowedBackend::lend_by(flash.clone());
/// let heap = Arc::new(Heap::<Blocking>::new());
/// assert!(read_only("mine", &Hosted::default(), heap, lend, &WEIGHTS, &mut ()).is_clean());
/// ```
pub fn read_only<T, M, R>(
    name: &'static str,
    target: &T,
    memory: M,
    lend: impl Fn() -> Result<SegmentMut<R, ReadOnly>, AllocError>,
    bytes: &[u8],
    report: &mut dyn Report,
) -> Tally
where
    T: Target,
    M: BackendRef<Policy = T::Policy>,
    R: BackendRef<Policy = T::Policy>,
    T::Memory: Erases<M> + Erases<R>,
{
    let table = || {
        let segment = lend().demand("read-only memory is lent")?;
        let tensor = Tensor::from_segment(target, segment);
        tensor
            .map_err(|refused| refused.error)
            .demand("a tensor of it")
    };
    let shelf = Shelf {
        rig: Rig::new(target, memory),
        table: &table,
        bytes,
    };
    run(subject::<T>("read only", name), &shelf, &checks(), report)
}

/// Read-only memory of a target.
struct Shelf<'r, T: Target> {
    rig: Rig<'r, T>,
    table: &'r dyn Fn() -> Result<Tensor<T>, Failure>,
    bytes: &'r [u8],
}

impl<T: Target> Shelf<'_, T> {
    fn settles(&self, check: fn(&Self) -> Outcome) -> Outcome {
        let rig = &self.rig;
        super::settles(|| rig.in_use(), || rig.blocks(), || check(self))
    }

    /// The memory, which holds what it should.
    #[inline(never)]
    fn table(&self) -> Result<Tensor<T>, Failure> {
        let table = (self.table)()?;
        shows(&table, self.bytes)?;
        Ok(table)
    }

    /// As much that may be written.
    #[inline(never)]
    fn scratch(&self) -> Result<Tensor<T>, Failure> {
        let tensor = self.rig.zeros(self.bytes.len())?;
        ensure(!tensor.is_read_only(), "it may be written")?;
        Ok(tensor)
    }
}

fn checks<'r, T: Target>() -> [Check<Shelf<'r, T>>; 5] {
    settling! {
        "what is read-only is read in every way" => reads,
        "what is read-only is not written" => not_written,
        "what is read-only is refused before anybody is waited for" => at_once,
        "a device reads what is read-only, and does not write it" => devices,
        "read-only memory comes out again as that" => comes_out,
    }
}

fn refusal<T: Target>(tensor: &Tensor<T>) -> Result<TensorError, Failure> {
    let storage = id(tensor)?;
    Ok(TensorError::ReadOnly { storage })
}

fn reads<T: Target>(shelf: &Shelf<'_, T>) -> Outcome {
    let (table, copy) = (shelf.table()?, shelf.scratch()?);
    ensure(table.is_read_only(), "it says that it is")?;
    copy.copy_from(&table).demand("a copy of it")?;
    shows(&copy, shelf.bytes)?;
    let part = table.slice(1..).demand("a slice")?;
    ensure(part.is_read_only(), "so does a slice")?;
    let behind = shelf.bytes.get(1..).unwrap_or_default();
    shows(&part, behind)?;
    let mut two = [0; 2];
    let (first, second) = two.split_at_mut(1);
    let mut ops = [part.read_op(0, first), table.read_op(0, second)];
    Tensor::read_batch(&mut ops).demand("a batch of reads")?;
    ensure(
        Some(&two[0]) == shelf.bytes.get(1) && Some(&two[1]) == shelf.bytes.first(),
        "each its own byte",
    )?;
    if shelf.rig.granule().is_none() {
        let (first, last) = table.split(2).demand("two parts")?;
        ensure(first.is_read_only() && last.is_read_only(), "so do parts")?;
        shows(&last, shelf.bytes.get(2..).unwrap_or_default())?;
        refused("a fill of a part", first.fill(0), refusal(&first)?)?;
    }
    if table.host_ptr().is_ok() {
        let guard = table.lend().demand("a loan")?;
        ensure(&*guard == shelf.bytes, "it lends the bytes")?;
    }
    shows(&table, shelf.bytes)?;
    Ok(())
}

/// By any call that may be made, with nobody else about.
fn not_written<T: Target>(shelf: &Shelf<'_, T>) -> Outcome {
    let (table, source) = (shelf.table()?, shelf.scratch()?);
    let read_only = refusal(&table)?;
    refused("a write", table.write(0, b"X"), read_only)?;
    refused("a fill", table.fill(0), read_only)?;
    refused("a copy to it", table.copy_from(&source), read_only)?;
    let (first, last) = (table.slice(..2), table.slice(2..4));
    let (first, last) = (first.demand("a slice")?, last.demand("a slice")?);
    refused("a copy inside of it", first.copy_from(&last), read_only)?;
    refused("a loan to write", table.lend_mut().map(|_| ()), read_only)?;
    let ops = [source.write_op(0, b"X"), table.write_op(0, b"X")];
    let at = BatchError::Refused {
        op: 1,
        error: read_only,
    };
    refused("a batch of writes", Tensor::write_batch(&ops), at)?;
    // SAFETY: the tensors are this check's; and it is refused.
    let (write, fill, batch) = unsafe {
        (
            table.write_unfenced(0, b"X"),
            table.fill_unfenced(0),
            Tensor::write_batch_unfenced(&ops),
        )
    };
    refused("a write past the fence", write, read_only)?;
    refused("a fill past the fence", fill, read_only)?;
    refused("a batch past the fence", batch, at)?;
    let mut byte = [7];
    source.read(0, &mut byte).demand("a read")?;
    ensure(byte == [0], "nor what comes before it in a batch")?;
    shows(&table, shelf.bytes)?;
    Ok(())
}

/// A device reads it, for which whoever writes would wait.
fn at_once<T: Target>(shelf: &Shelf<'_, T>) -> Outcome {
    let probe = Probe::claim()?;
    let (table, source) = (shelf.table()?, shelf.scratch()?);
    let read_only = refusal(&table)?;
    let stream = stream()?;
    let reads = table
        .try_begin(Access::Read, stream.id())
        .demand("a ticket")?;
    refused("a write", table.try_write(0, b"X"), read_only)?;
    refused("a fill", table.try_fill(0), read_only)?;
    refused("a copy to it", table.try_copy_from(&source), read_only)?;
    refused("a write that would wait", table.write(0, b"X"), read_only)?;
    if shelf.rig.target.clock().tells_time() {
        let zero = table.within(Duration::ZERO);
        refused("a write with a deadline", zero.write(0, b"X"), read_only)?;
    }
    let mut write = pin!(table.when_ready().write(0, b"X"));
    let polled = poll(write.as_mut(), &probe, 0);
    let core::task::Poll::Ready(polled) = polled else {
        return Err(Failure::new("a task need not wait").into());
    };
    refused("a write that is awaited", polled, read_only)?;
    drop(reads);
    shows(&table, shelf.bytes)?;
    Ok(())
}

fn devices<T: Target>(shelf: &Shelf<'_, T>) -> Outcome {
    let (table, result) = (shelf.table()?, shelf.scratch()?);
    let (one, other) = (stream()?, stream()?);
    let error = refusal(&table)?;
    let uses = [table.input(), result.output()];
    let tickets = Tickets::begin(one.id(), &uses).demand("tickets")?;
    let second = table.try_begin(Access::Read, other.id());
    let second = second.demand("a second device that reads")?;
    ensure(table.in_flight() == (2, 0), "both read")?;
    drop(second);
    tickets.land(Ok(()));

    let uses = [result.input(), table.output()];
    let at = LaunchError::Operand { operand: 1, error };
    let begin = table.begin(Access::Write, one.id());
    refused("a device that writes", begin.map(drop), error)?;
    let begin = Tickets::begin(one.id(), &uses);
    refused("tickets to write", begin.map(drop), at)?;
    let begin = Tickets::try_begin(one.id(), &uses);
    refused("tickets to write", begin.map(drop), at)?;
    ensure(result.in_flight() == (0, 0), "none is kept")?;
    ensure(table.in_flight() == (0, 0), "none is kept")?;
    shows(&table, shelf.bytes)?;
    Ok(())
}

fn comes_out<T: Target>(shelf: &Shelf<'_, T>) -> Outcome {
    let table = shelf.table()?;
    let read_only = refusal(&table)?;
    let refusal = table.into_segment().err().demand("it may not be written")?;
    refused("the segment", Err::<(), _>(refusal.error), read_only)?;
    let segment = refusal.value.into_read_only_segment();
    let segment = segment.map_err(|refused| refused.error);
    let segment = segment.demand("the segment, to be read")?;
    equal("its length", segment.len(), shelf.bytes.len())?;
    drop(segment);
    // It is back, and lent again.
    drop(shelf.table()?);
    let other = shelf.scratch()?;
    let storage = id(&other)?;
    let refusal = other.into_read_only_segment().err();
    let refusal = refusal.demand("it may be written")?;
    let writable = TensorError::NotReadOnly { storage };
    refused("the segment", Err::<(), _>(refusal.error), writable)?;
    Ok(())
}
