//! Calls past the fence, where nobody is in their way.
#![allow(unsafe_code, reason = "moves bytes that nobody else has access to")]

use wharf_tensor::{Access, BatchError, Target, Tensor, TensorError};

use super::{BYTES, LEN, Rig, is_all, is_free, shows, stream, would_block};
use crate::Outcome;
use crate::check::{Demand, ensure, refused};

const ALONE: (u32, u32) = (0, 0);

pub(super) fn alone<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let (a, b) = (rig.tensor()?, rig.zeros(LEN)?);
    let part = a.slice(12..17).demand("a slice")?;
    let (mut first, mut second) = ([0; 5], [0; 2]);
    // SAFETY: the tensors are this check's, and nobody else has access to them.
    unsafe {
        part.write_unfenced(1, b"YT").demand("a write")?;
        shows(&a, b"tensors are bYTes behind a fence")?;
        part.read_unfenced(0, &mut first).demand("a read")?;
        ensure(first == *b"bYTes", "it reads its range")?;
        part.fill_unfenced(b'-').demand("a fill")?;
        shows(&a, b"tensors are ----- behind a fence")?;
        b.write_unfenced(LEN, b"").demand("a write of nothing")?;
        // Where two meet the later one stays.
        let ops = [
            a.write_op(0, b"TENSORS"),
            b.write_op(LEN - 2, b"yz"),
            a.write_op(1, b"ensor"),
        ];
        Tensor::write_batch_unfenced(&ops).demand("a batch of writes")?;
        shows(&a, b"TensorS are ----- behind a fence")?;
        let mut ops = [a.read_op(5, &mut first), b.read_op(LEN - 2, &mut second)];
        Tensor::read_batch_unfenced(&mut ops).demand("a batch of reads")?;
        ensure(first == *b"rS ar" && second == *b"yz", "each its range")?;
        Tensor::<T>::write_batch_unfenced(&[]).demand("a batch of nothing")?;
        Tensor::<T>::read_batch_unfenced(&mut []).demand("a batch of nothing")?;
        b.fill_unfenced(9).demand("a fill")?;
    }
    is_all(&b, 9)?;
    ensure(a.in_flight() == ALONE, "nothing is under way")?;
    is_free(&a)?;
    is_free(&b)?;
    Ok(())
}

/// A device has the storage, but none of its bytes: the fence does not know that.
pub(super) fn beside<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let tensor = rig.tensor()?;
    let stream = stream()?;
    let held = would_block(&tensor)?;
    for access in [Access::Read, Access::Write] {
        let none = tensor.slice(..0).demand("a slice")?;
        let ticket = none.try_begin(access, stream.id()).demand("a ticket")?;
        let under_way = tensor.in_flight();
        let mut bytes = [0; 7];
        // SAFETY: the device has none of these bytes, and there is nobody else.
        unsafe {
            tensor.write_unfenced(0, b"Tensors").demand("a write")?;
            tensor.read_unfenced(0, &mut bytes).demand("a read")?;
            let ops = [tensor.write_op(0, b"tensors")];
            Tensor::write_batch_unfenced(&ops).demand("a batch of writes")?;
            let mut ops = [tensor.read_op(0, &mut bytes)];
            Tensor::read_batch_unfenced(&mut ops).demand("a batch of reads")?;
        }
        ensure(bytes == *b"tensors", "they have the bytes")?;
        ensure(
            tensor.in_flight() == under_way,
            "what is under way is as it was",
        )?;
        refused("a write at the fence", tensor.try_fill(0), held)?;
        drop(ticket);
        ensure(tensor.in_flight() == ALONE, "nothing is under way")?;
    }
    shows(&tensor, &BYTES)?;
    is_free(&tensor)?;
    Ok(())
}

pub(super) fn bounds<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let (tensor, empty) = (rig.tensor()?, Tensor::<T>::empty());
    let part = tensor.slice(12..17).demand("a slice")?;
    let mut bytes = [7; 2];
    for offset in [4, 5, 6, usize::MAX - 1, usize::MAX] {
        let error = TensorError::OutOfBounds {
            offset,
            len: 2,
            size: 5,
        };
        let at = BatchError::Refused { op: 1, error };
        let ops = [tensor.write_op(0, b"X"), part.write_op(offset, b"XX")];
        let mut reads = [part.read_op(offset, &mut bytes)];
        // SAFETY: as above; nothing moves.
        unsafe {
            let batch = Tensor::write_batch_unfenced(&ops);
            refused("a batch that leaves one", batch, at)?;
            let batch = Tensor::read_batch_unfenced(&mut reads);
            let at = BatchError::Refused { op: 0, error };
            refused("a batch that leaves one", batch, at)?;
            refused("a write", part.write_unfenced(offset, b"XX"), error)?;
            refused("a read", part.read_unfenced(offset, &mut bytes), error)?;
        }
    }
    // SAFETY: there is nothing that could move.
    let filled = unsafe { empty.fill_unfenced(0) };
    refused("a fill of nothing", filled, TensorError::NoStorage)?;
    ensure(bytes == [7; 2], "a read that was refused leaves the buffer")?;
    shows(&tensor, &BYTES)?;
    Ok(())
}
