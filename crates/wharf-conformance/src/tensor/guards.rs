//! Bytes that are lent in place.

use wharf_tensor::{Access, Target, TensorError};

use super::{BYTES, DEVICE, LEN, Rig, id, is_free, shows, stream, would_block};
use crate::Outcome;
use crate::check::{Demand, applies, ensure, equal, refused};

pub(super) fn lends<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    applies(rig.on_host(), DEVICE)?;
    let tensor = rig.tensor()?;
    let slice = tensor.slice(12..17).demand("a slice")?;
    let guard = slice.lend().demand("a loan")?;
    ensure(&*guard == b"bytes", "it is the window")?;
    let base = slice.host_ptr().demand("its address")?;
    equal("its address", guard.as_ptr().addr(), base.addr().get())?;
    drop(guard);
    let mut guard = slice.try_lend_mut().demand("a loan to write")?;
    equal("its length", guard.len(), 5)?;
    guard.make_ascii_uppercase();
    drop(guard);
    shows(&tensor, b"tensors are BYTES behind a fence")?;
    // Beside a device that reads it may be read, and no more.
    let stream = stream()?;
    let ticket = tensor
        .try_begin(Access::Read, stream.id())
        .demand("a ticket")?;
    drop(tensor.try_lend().demand("a loan to read")?);
    let held = would_block(&tensor)?;
    refused("a loan to write", tensor.try_lend_mut().map(|_| ()), held)?;
    drop(ticket);
    Ok(())
}

/// The plain operations, which would wait for anything else.
pub(super) fn guarded<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    applies(rig.on_host(), DEVICE)?;
    let tensor = rig.tensor()?;
    let storage = id(&tensor)?;
    let stream = stream()?;
    let guarded = || TensorError::Guarded { storage };
    let mut byte = [0];

    let reads = (tensor.lend(), tensor.lend());
    let reads = (reads.0.demand("a loan")?, reads.1.demand("a second one")?);
    tensor.read(0, &mut byte).demand("a read beside it")?;
    let ticket = tensor.try_begin(Access::Read, stream.id());
    drop(ticket.demand("a device that reads beside it")?);
    refused("a write", tensor.write(0, b"X"), guarded())?;
    refused("a fill", tensor.fill(0), guarded())?;
    refused("a copy", tensor.copy_from(&tensor), guarded())?;
    refused("a loan to write", tensor.lend_mut().map(|_| ()), guarded())?;
    let ticket = tensor.try_begin(Access::Write, stream.id());
    refused("a device that writes", ticket, guarded())?;
    refused("a split", tensor.split(0), guarded())?;
    drop(reads.0);
    refused(
        "a write beside the second",
        tensor.write(0, b"X"),
        guarded(),
    )?;
    drop(reads.1);

    let write = tensor.lend_mut().demand("a loan to write")?;
    refused("a read", tensor.read(0, &mut byte), guarded())?;
    refused("a loan", tensor.lend().map(|_| ()), guarded())?;
    let ticket = tensor.try_begin(Access::Read, stream.id());
    refused("a device that reads", ticket, guarded())?;
    drop(write);
    shows(&tensor, &BYTES)?;
    is_free(&tensor)?;
    Ok(())
}

pub(super) fn not_lent<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    applies(!rig.on_host(), "it is host memory")?;
    let tensor = rig.zeros(LEN)?;
    let storage = id(&tensor)?;
    let stream = stream()?;
    let ticket = tensor
        .try_begin(Access::Write, stream.id())
        .demand("a ticket")?;
    // Whoever asks is not kept waiting for what cannot be.
    let none = || TensorError::NotHostAddressable { storage };
    refused("a loan", tensor.lend().map(|_| ()), none())?;
    refused("a loan to write", tensor.lend_mut().map(|_| ()), none())?;
    drop(ticket);
    refused("a loan", tensor.try_lend().map(|_| ()), none())?;
    is_free(&tensor)?;
    Ok(())
}
