//! Host and device do not meet.

use wharf_tensor::{Access, Target, TensorError};

use super::{BYTES, LEN, Rig, id, is_alone, is_free, shows, stream, would_block};
use crate::Outcome;
use crate::check::{Demand, applies, ensure, equal, refused};

pub(super) fn device_reads<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let (tensor, other) = (rig.tensor()?, rig.zeros(LEN)?);
    let stream = stream()?;
    let ticket = tensor
        .try_begin(Access::Read, stream.id())
        .demand("a ticket")?;
    ensure(ticket.access() == Access::Read, "it says what for")?;
    ensure(ticket.stream() == stream.id(), "it says for whom")?;
    ensure(ticket.storage_id() == id(&tensor)?, "it says to what")?;
    ensure(tensor.in_flight() == (1, 0), "one device reads")?;
    let held = would_block(&tensor)?;
    let mut byte = [0];
    tensor.try_read(1, &mut byte).demand("a read")?;
    other.try_copy_from(&tensor).demand("a copy from it")?;
    refused("a write", tensor.try_write(0, b"X"), held)?;
    refused("a fill", tensor.try_fill(0), held)?;
    refused("a copy to it", tensor.try_copy_from(&other), held)?;
    // The fence is that of the storage.
    let slice = tensor.slice(20..).demand("a slice")?;
    refused("a write through a slice", slice.try_write(0, b"X"), held)?;
    refused("a write through a clone", tensor.clone().try_fill(0), held)?;
    drop(ticket);
    shows(&tensor, &BYTES)?;
    is_free(&tensor)?;
    Ok(())
}

pub(super) fn device_writes<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let (tensor, other) = (rig.tensor()?, rig.zeros(LEN)?);
    let stream = stream()?;
    let slice = tensor.slice(..4).demand("a slice")?;
    let ticket = slice
        .try_begin(Access::Write, stream.id())
        .demand("a ticket")?;
    ensure(tensor.in_flight() == (0, 1), "one device writes")?;
    let held = would_block(&tensor)?;
    let mut byte = [7];
    refused("a read", tensor.try_read(9, &mut byte), held)?;
    ensure(byte == [7], "a read that was refused leaves the buffer")?;
    refused("a copy from it", other.try_copy_from(&tensor), held)?;
    refused("a write", tensor.try_write(9, b"X"), held)?;
    refused("a fill", tensor.try_fill(0), held)?;
    drop(ticket);
    shows(&tensor, &BYTES)?;
    is_free(&tensor)?;
    Ok(())
}

pub(super) fn two_readers<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let tensor = rig.tensor()?;
    let (one, other) = (stream()?, stream()?);
    let ticket = |access, stream: &wharf_engine::Stream| tensor.try_begin(access, stream.id());
    let first = ticket(Access::Read, &one).demand("a ticket")?;
    let second = ticket(Access::Read, &other).demand("a ticket of another stream")?;
    ensure(tensor.in_flight() == (2, 0), "two devices read")?;
    let held = would_block(&tensor)?;
    for stream in [&one, &other] {
        let write = ticket(Access::Write, stream);
        refused("a device that writes beside another's read", write, held)?;
    }
    drop(first);
    ensure(tensor.in_flight() == (1, 0), "one of them is done")?;
    refused("a write while the other reads", tensor.try_fill(0), held)?;
    drop(second);
    shows(&tensor, &BYTES)?;
    is_free(&tensor)?;
    Ok(())
}

pub(super) fn one_stream<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let tensor = rig.tensor()?;
    let (one, other) = (stream()?, stream()?);
    let ticket = |access, stream: &wharf_engine::Stream| tensor.try_begin(access, stream.id());
    let tickets = [
        ticket(Access::Write, &one).demand("a ticket")?,
        ticket(Access::Read, &one).demand("a read behind a write of one stream")?,
        ticket(Access::Write, &one).demand("a second write of one stream")?,
    ];
    ensure(tensor.in_flight() == (1, 2), "all of them are under way")?;
    let held = would_block(&tensor)?;
    for access in [Access::Read, Access::Write] {
        refused("another stream", ticket(access, &other), held)?;
    }
    drop(tickets);
    drop(ticket(Access::Write, &other).demand("another stream, when they are done")?);
    shows(&tensor, &BYTES)?;
    is_free(&tensor)?;
    Ok(())
}

pub(super) fn outlives<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let before = rig.in_use();
    let tensor = rig.tensor()?;
    let stream = stream()?;
    let during = rig.in_use();
    let first = tensor
        .try_begin(Access::Read, stream.id())
        .demand("a ticket")?;
    let second = tensor
        .try_begin(Access::Write, stream.id())
        .demand("a ticket")?;
    ensure(rig.in_use() == during, "a ticket takes no memory")?;
    drop(tensor);
    ensure(rig.in_use() == during, "it keeps the memory")?;
    drop(first);
    ensure(rig.in_use() == during, "so does each of them")?;
    drop(second);
    equal(
        "units of memory in use after the last one",
        rig.in_use(),
        before,
    )?;
    Ok(())
}

pub(super) fn for_ever<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    applies(is_alone::<T::Policy>(), "another context may end it")?;
    let (tensor, other) = (rig.tensor()?, rig.zeros(LEN)?);
    let stream = stream()?;
    let ticket = tensor
        .try_begin(Access::Write, stream.id())
        .demand("a ticket")?;
    let storage = id(&tensor)?;
    let never = || TensorError::WouldDeadlock { storage };
    refused("a read", tensor.read(0, &mut [0]), never())?;
    refused("a write", tensor.write(0, b"X"), never())?;
    refused("a fill", tensor.fill(0), never())?;
    refused("a copy", other.copy_from(&tensor), never())?;
    drop(ticket);
    is_free(&tensor)?;
    Ok(())
}
