//! Waits that end.

use core::time::Duration;

use wharf_sync::Clock;
use wharf_tensor::{Access, BatchError, Target, Tensor, TensorError};

use super::{BYTES, LEN, Rig, id, is_alone, is_free, shows, stream};
use crate::Outcome;
use crate::check::{Demand, applies, refused};

pub(super) fn passed<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let clock = rig.target.clock();
    applies(clock.tells_time(), "its clock does not tell the time")?;
    let (tensor, other) = (rig.tensor()?, rig.zeros(LEN)?);
    let storage = id(&tensor)?;
    let (one, two) = (stream()?, stream()?);
    let ticket = tensor
        .try_begin(Access::Write, one.id())
        .demand("a ticket")?;
    let late = || match is_alone::<T::Policy>() {
        true => TensorError::WouldDeadlock { storage },
        false => TensorError::TimedOut { storage },
    };
    let zero = || tensor.within(Duration::ZERO);
    let mut byte = [7];
    refused("a read", zero().read(0, &mut byte), late())?;
    refused("a write", zero().write(0, b"X"), late())?;
    refused("a fill", zero().fill(0), late())?;
    refused("a copy to it", zero().copy_from(&other), late())?;
    let from = other.within(Duration::ZERO).copy_from(&tensor);
    refused("a copy from it", from, late())?;
    refused(
        "another device",
        zero().begin(Access::Read, two.id()),
        late(),
    )?;
    let moment = tensor.until(clock.now());
    refused("a read until now", moment.read(0, &mut byte), late())?;
    let ops = [other.write_op(0, b"X"), tensor.write_op(0, b"X")];
    let batch = Tensor::write_batch_within(Duration::ZERO, &ops);
    let at = |error| BatchError::Refused { op: 1, error };
    refused("a batch", batch, at(late()))?;
    drop(ticket);
    // Nobody who gave up left anything.
    is_free(&tensor)?;
    zero()
        .write(0, &BYTES)
        .demand("a write that need not wait")?;
    zero()
        .read(0, &mut byte)
        .demand("a read that need not wait")?;
    shows(&tensor, &BYTES)?;
    Ok(())
}

pub(super) fn no_clock<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let clock = rig.target.clock();
    applies(!clock.tells_time(), "its clock tells the time")?;
    let tensor = rig.tensor()?;
    let storage = id(&tensor)?;
    let none = || TensorError::NoClock { storage };
    // Whether or not there is something to wait for.
    let limit = tensor.within(Duration::MAX);
    refused("a read", limit.read(0, &mut [0]), none())?;
    refused("a write", limit.write(0, b"X"), none())?;
    let ops = [tensor.write_op(0, b"X")];
    let batch = Tensor::write_batch_within(Duration::ZERO, &ops);
    let at = |error| BatchError::Refused { op: 0, error };
    refused("a batch", batch, at(none()))?;
    shows(&tensor, &BYTES)?;
    Ok(())
}
