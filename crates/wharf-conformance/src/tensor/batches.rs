//! Many reads or writes at once.

use wharf_tensor::{Access, BatchError, Target, Tensor, TensorError};

use super::{BYTES, LEN, Rig, is_all, shows, stream, would_block};
use crate::Outcome;
use crate::check::{Demand, ensure, refused};

pub(super) fn moves<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let (a, b) = (rig.tensor()?, rig.zeros(LEN)?);
    let part = a.slice(12..).demand("a slice")?;
    Tensor::write_batch(&[
        a.write_op(0, b"TENSORS"),
        b.write_op(LEN - 2, b"yz"),
        part.write_op(0, b"BYTES"),
        // Where two meet the later one stays.
        a.write_op(1, b"ensor"),
    ])
    .demand("a batch of writes")?;
    shows(&a, b"TensorS are BYTES behind a fence")?;
    let (mut first, mut second, mut third) = ([0; 3], [0; 5], [0; 2]);
    Tensor::try_read_batch(&mut [
        part.read_op(0, &mut second),
        b.read_op(LEN - 2, &mut third),
        a.read_op(5, &mut first),
    ])
    .demand("a batch of reads")?;
    ensure(first == *b"rS ", "each buffer has the bytes of its range")?;
    ensure(
        second == *b"BYTES",
        "each buffer has the bytes of its range",
    )?;
    ensure(third == *b"yz", "each buffer has the bytes of its range")?;
    Tensor::<T>::write_batch(&[]).demand("a batch of nothing")?;
    Tensor::<T>::read_batch(&mut []).demand("a batch of nothing")?;
    Ok(())
}

pub(super) fn all_or_nothing<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let (a, b, empty) = (rig.tensor()?, rig.zeros(LEN)?, Tensor::empty());
    let bad = |error| BatchError::Refused { op: 1, error };
    let out = |offset, len| {
        bad(TensorError::OutOfBounds {
            offset,
            len,
            size: LEN,
        })
    };
    let writes = |middle| Tensor::write_batch(&[a.write_op(0, b"X"), middle, b.write_op(0, b"X")]);
    refused(
        "one that leaves its tensor",
        writes(b.write_op(31, b"XX")),
        out(31, 2),
    )?;
    for offset in [LEN + 1, usize::MAX - 1, usize::MAX] {
        let middle = b.write_op(offset, b"XX");
        refused("one that wraps", writes(middle), out(offset, 2))?;
    }
    let nothing = bad(TensorError::NoStorage);
    refused("one of nothing", writes(empty.write_op(0, b"")), nothing)?;
    let stream = stream()?;
    let ticket = b.try_begin(Access::Read, stream.id()).demand("a ticket")?;
    let held = bad(would_block(&b)?);
    let ops = [a.write_op(0, b"X"), b.write_op(0, b"X")];
    refused(
        "one that a device reads",
        Tensor::try_write_batch(&ops),
        held,
    )?;
    drop(ticket);
    shows(&a, &BYTES)?;
    is_all(&b, 0)?;

    let (mut first, mut second, mut third) = ([1; 2], [2; 2], [3; 2]);
    let read = Tensor::read_batch(&mut [
        a.read_op(0, &mut first),
        b.read_op(usize::MAX, &mut second),
        a.read_op(2, &mut third),
    ]);
    refused("a read that wraps", read, out(usize::MAX, 2))?;
    let untouched = (first, second, third) == ([1; 2], [2; 2], [3; 2]);
    ensure(untouched, "no buffer was touched")?;
    Ok(())
}

pub(super) fn fenced<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let (a, b) = (rig.tensor()?, rig.zeros(LEN)?);
    let stream = stream()?;
    let mut bytes = [0; 2];
    let reads = b.try_begin(Access::Read, stream.id()).demand("a ticket")?;
    let (one, other) = bytes.split_at_mut(1);
    let mut ops = [a.read_op(0, one), b.read_op(0, other)];
    Tensor::try_read_batch(&mut ops).demand("reads beside a device that reads")?;
    let held = |error| BatchError::Refused { op: 1, error };
    let ops = [a.write_op(0, b"X"), b.write_op(0, b"X")];
    let batch = Tensor::try_write_batch(&ops);
    refused(
        "writes beside a device that reads",
        batch,
        held(would_block(&b)?),
    )?;
    // The access to the first was given back.
    a.try_fill(5).demand("a write to the other tensor")?;
    drop(reads);
    let writes = b.try_begin(Access::Write, stream.id()).demand("a ticket")?;
    let (one, other) = bytes.split_at_mut(1);
    let mut ops = [a.read_op(0, one), b.read_op(0, other)];
    let batch = Tensor::try_read_batch(&mut ops);
    refused(
        "reads beside a device that writes",
        batch,
        held(would_block(&b)?),
    )?;
    drop(writes);
    let ops = [a.write_op(0, &[6; LEN]), b.write_op(0, &[7; LEN])];
    Tensor::try_write_batch(&ops).demand("writes, once it has ended")?;
    is_all(&a, 6)?;
    is_all(&b, 7)?;
    Ok(())
}
