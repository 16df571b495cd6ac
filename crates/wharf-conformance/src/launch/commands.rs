//! Which commands run, on what, and when.

use wharf_engine::{Command, DescriptorError, KernelFault, Lent};
use wharf_tensor::{Access, LaunchError, Target, Tensor, TensorError};

use super::Scene;
use crate::Outcome;
use crate::check::{Demand, refused};
use crate::tensor::{BYTES, LEN, id, is_all, is_free, shows, stream, would_block};

/// Adds what is read to what is written, byte by byte.
pub(super) const ADD: Command = Command::Kernel(|operands| match operands {
    [Lent::Read(from), Lent::Write(to)] => {
        for (to, from) in to.iter_mut().zip(from.iter()) {
            *to = to.wrapping_add(*from);
        }
        Ok(())
    }
    _ => Err(KernelFault::OPERANDS),
});

pub(super) fn kernel<T: Target>(scene: &Scene<'_, T>) -> Outcome {
    let (a, b) = (scene.rig.zeros(LEN)?, scene.rig.zeros(LEN)?);
    let ramp: [u8; LEN] = core::array::from_fn(|at| at.to_le_bytes()[0]);
    a.write(0, &ramp).demand("a write")?;
    b.fill(100).demand("a fill")?;
    scene.succeed(scene.launch(ADD, &[a.input(), b.output()])?)?;
    shows(&b, &ramp.map(|byte| 100 + byte))?;
    shows(&a, &ramp)?;
    is_free(&a)?;
    is_free(&b)?;
    Ok(())
}

pub(super) fn windows<T: Target>(scene: &Scene<'_, T>) -> Outcome {
    let (a, b) = (scene.rig.tensor()?, scene.rig.zeros(LEN)?);
    let slice = |tensor: &Tensor<T>, start, end| tensor.slice(start..end).demand("a slice");
    let (from, to) = (slice(&a, 12, 17)?, slice(&b, 3, 8)?);
    scene.succeed(scene.launch(Command::Copy, &[from.input(), to.output()])?)?;
    let mut expected = [0; LEN];
    for (byte, from) in expected.iter_mut().skip(3).zip(b"bytes") {
        *byte = *from;
    }
    shows(&b, &expected)?;
    scene.succeed(scene.launch(Command::Fill(b'-'), &[slice(&a, 7, 8)?.output()])?)?;
    shows(&a, b"tensors-are bytes behind a fence")?;
    // Two windows of one storage that do not meet.
    let (from, to) = (slice(&a, 0, 7)?, slice(&a, 12, 19)?);
    scene.succeed(scene.launch(Command::Copy, &[from.input(), to.output()])?)?;
    shows(&a, b"tensors-are tensorsehind a fence")?;
    Ok(())
}

/// Without a wait in between: each one uses what the one before it writes.
pub(super) fn order<T: Target>(scene: &Scene<'_, T>) -> Outcome {
    let (a, b) = (scene.rig.zeros(LEN)?, scene.rig.zeros(LEN)?);
    let fill = scene.launch(Command::Fill(3), &[a.output()])?;
    let copy = scene.launch(Command::Copy, &[a.input(), b.output()]);
    // A queue of one slot is emptied first.
    let (fill, copy) = match copy {
        Ok(copy) => (Some(fill), copy),
        Err(_) => {
            scene.succeed(fill)?;
            (None, scene.launch(Command::Copy, &[a.input(), b.output()])?)
        }
    };
    scene.succeed(copy)?;
    fill.map_or(Ok(()), |fill| scene.succeed(fill))?;
    scene.succeed(scene.launch(ADD, &[b.input(), a.output()])?)?;
    is_all(&a, 6)?;
    is_all(&b, 3)?;
    Ok(())
}

pub(super) fn refused_whole<T: Target>(scene: &Scene<'_, T>) -> Outcome {
    let (a, b, empty) = (scene.rig.tensor()?, scene.rig.zeros(LEN)?, Tensor::empty());
    let later = scene.rig.placeholder()?;
    let operand = |operand, error| LaunchError::Operand { operand, error };
    let copy = |from: &Tensor<T>, to: &Tensor<T>| {
        scene
            .try_launch(Command::Copy, &[from.input(), to.output()])
            .map(drop)
    };
    refused(
        "nothing as an operand",
        copy(&a, &empty),
        operand(1, TensorError::NoStorage),
    )?;
    let storage = id(&later)?;
    let none = TensorError::Placeholder { storage };
    refused(
        "a placeholder as an operand",
        copy(&later, &b),
        operand(0, none),
    )?;
    let first = a.slice(..20).demand("a slice")?;
    let second = a.slice(12..).demand("a slice")?;
    let meet = DescriptorError::Overlap {
        first: 0,
        second: 1,
    };
    refused("operands that meet", copy(&first, &second), meet.into())?;
    let lengths = DescriptorError::Lengths { from: 20, to: LEN };
    refused("a copy to more bytes", copy(&first, &b), lengths.into())?;
    let fill = scene.try_launch(Command::Fill(1), &[a.output(), b.output()]);
    let shape = DescriptorError::Shape { operands: 2 };
    refused("a fill of two", fill.map(drop), shape.into())?;
    is_free(&a)?;
    is_free(&b)?;
    shows(&a, &BYTES)?;
    Ok(())
}

pub(super) fn other_streams<T: Target>(scene: &Scene<'_, T>) -> Outcome {
    let (a, b) = (scene.rig.tensor()?, scene.rig.zeros(LEN)?);
    let stream = stream()?;
    let copy = || {
        let operands = [a.input(), b.output()];
        scene.try_launch(Command::Copy, &operands)
    };
    let operand = |operand, error| LaunchError::Operand { operand, error };
    let writes = a.try_begin(Access::Write, stream.id()).demand("a ticket")?;
    let held = operand(0, would_block(&a)?);
    refused(
        "an operand that another stream writes",
        copy().map(drop),
        held,
    )?;
    is_free(&b)?;
    drop(writes);
    let reads = b.try_begin(Access::Read, stream.id()).demand("a ticket")?;
    let held = operand(1, would_block(&b)?);
    refused(
        "an output that another stream reads",
        copy().map(drop),
        held,
    )?;
    is_free(&a)?;
    drop(reads);
    // Both may read.
    let reads = a.try_begin(Access::Read, stream.id()).demand("a ticket")?;
    scene.succeed(copy().demand("a launch beside who reads")?)?;
    drop(reads);
    shows(&b, &BYTES)?;
    if scene.rig.on_host() {
        let guard = b.lend().demand("a loan")?;
        let guarded = TensorError::Guarded { storage: id(&b)? };
        refused(
            "an output that is lent",
            copy().map(drop),
            operand(1, guarded),
        )?;
        drop(guard);
        is_free(&a)?;
    }
    Ok(())
}
