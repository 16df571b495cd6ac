//! Operations that a task awaits, polled by hand.
//!
//! Tensors are made after the probe: a waker may stay with a storage.

use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};

use wharf_tensor::{Access, Target, Tensor};

use super::{BYTES, LEN, Rig, is_all, is_free, shows, stream, would_block};
use crate::check::{Demand, ensure, refused};
use crate::waker::Probe;
use crate::{Cause, Failure, Outcome};

/// Polls as a task whose waker is this probe's.
pub(crate) fn poll<F: Future>(future: Pin<&mut F>, probe: &Probe, task: usize) -> Poll<F::Output> {
    let waker = probe.waker(task);
    future.poll(&mut Context::from_waker(&waker))
}

/// It is not ready.
pub(crate) fn waits<F: Future>(
    future: Pin<&mut F>,
    probe: &Probe,
    task: usize,
) -> Result<(), Failure> {
    let polled = poll(future, probe, task);
    ensure(polled.is_pending(), "it waits while the access lasts")
}

/// It is ready, and well.
pub(crate) fn ends<F, V, E>(future: Pin<&mut F>, probe: &Probe, task: usize) -> Result<V, Failure>
where
    F: Future<Output = Result<V, E>>,
    E: Into<Cause>,
{
    match poll(future, probe, task) {
        Poll::Ready(outcome) => outcome.demand("what was waited for"),
        Poll::Pending => Err(Failure::new("it is ready when the access has ended")),
    }
}

pub(super) fn woken<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let probe = Probe::claim()?;
    let (tensor, other) = (rig.tensor()?, rig.zeros(LEN)?);
    let (one, two) = (stream()?, stream()?);
    let device = |access| tensor.try_begin(access, one.id()).demand("a ticket");

    let mut bytes = [0; 5];
    {
        let ticket = device(Access::Write)?;
        let part = tensor.slice(12..).demand("a slice")?;
        let mut read = pin!(part.when_ready().read(0, &mut bytes));
        waits(read.as_mut(), &probe, 0)?;
        drop(ticket);
        ensure(probe.woken(0), "who reads is woken")?;
        ends(read.as_mut(), &probe, 0)?;
    }
    ensure(bytes == *b"bytes", "it has the bytes")?;
    {
        let ticket = device(Access::Read)?;
        let mut write = pin!(tensor.when_ready().write(12, b"BYTES"));
        waits(write.as_mut(), &probe, 1)?;
        drop(ticket);
        ensure(probe.woken(1), "who writes is woken")?;
        ends(write.as_mut(), &probe, 1)?;
    }
    shows(&tensor, b"tensors are BYTES behind a fence")?;
    {
        let ticket = device(Access::Write)?;
        let mut copy = pin!(other.when_ready().copy_from(&tensor));
        waits(copy.as_mut(), &probe, 2)?;
        drop(ticket);
        ensure(probe.woken(2), "who copies is woken")?;
        ends(copy.as_mut(), &probe, 2)?;
    }
    shows(&other, b"tensors are BYTES behind a fence")?;
    {
        let ticket = device(Access::Write)?;
        let mut begin = pin!(tensor.when_ready().begin(Access::Read, two.id()));
        waits(begin.as_mut(), &probe, 3)?;
        drop(ticket);
        ensure(probe.woken(3), "another device is woken")?;
        let ticket = ends(begin.as_mut(), &probe, 3)?;
        refused(
            "a write meanwhile",
            tensor.try_fill(0),
            would_block(&tensor)?,
        )?;
        drop(ticket);
    }
    {
        let ticket = device(Access::Write)?;
        let ops = [other.write_op(0, b"T"), tensor.write_op(0, b"T")];
        let mut batch = pin!(Tensor::write_batch_when_ready(&ops));
        waits(batch.as_mut(), &probe, 4)?;
        drop(ticket);
        ensure(probe.woken(4), "a batch is woken")?;
        ends(batch.as_mut(), &probe, 4)?;
    }
    shows(&tensor, b"Tensors are BYTES behind a fence")?;
    shows(&other, b"Tensors are BYTES behind a fence")?;
    Ok(())
}

/// At its first poll, at a later one, and before any.
pub(super) fn dropped<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let probe = Probe::claim()?;
    let (tensor, other) = (rig.tensor()?, rig.zeros(LEN)?);
    let stream = stream()?;
    let mut bytes = [7; 5];
    for polls in 0..3 {
        let ticket = tensor
            .try_begin(Access::Read, stream.id())
            .demand("a ticket")?;
        {
            let mut write = pin!(tensor.when_ready().write(0, b"late"));
            let mut fill = pin!(tensor.when_ready().fill(0));
            let mut copy = pin!(tensor.when_ready().copy_from(&other));
            for _ in 0..polls {
                waits(write.as_mut(), &probe, 0)?;
                waits(fill.as_mut(), &probe, 0)?;
                waits(copy.as_mut(), &probe, 0)?;
            }
        }
        // The places in the queue were given up: who reads is not behind them.
        tensor
            .try_read(0, &mut [0])
            .demand("a read beside the device")?;
        drop(ticket);
        is_free(&tensor)?;

        let ticket = tensor
            .try_begin(Access::Write, stream.id())
            .demand("a ticket")?;
        {
            let mut read = pin!(tensor.when_ready().read(0, &mut bytes));
            for _ in 0..polls {
                waits(read.as_mut(), &probe, 1)?;
            }
        }
        drop(ticket);
        is_free(&tensor)?;
    }
    ensure(bytes == [7; 5], "a read that was dropped leaves the buffer")?;
    shows(&tensor, &BYTES)?;
    is_all(&other, 0)?;

    // Who reads queues behind who waits to write, and is woken when that one gives up.
    let ticket = tensor
        .try_begin(Access::Read, stream.id())
        .demand("a ticket")?;
    let mut read = pin!(tensor.when_ready().read(0, &mut bytes));
    {
        let mut write = pin!(tensor.when_ready().fill(0));
        waits(write.as_mut(), &probe, 2)?;
        waits(read.as_mut(), &probe, 3)?;
    }
    ensure(probe.woken(3), "who is behind one that gives up is woken")?;
    ends(read.as_mut(), &probe, 3)?;
    drop(ticket);
    Ok(())
}

pub(super) fn at_once<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let probe = Probe::claim()?;
    let tensor = rig.tensor()?;
    let stream = stream()?;
    let when = || tensor.when_ready();
    ends(pin!(when().write(0, b"T")), &probe, 0)?;
    ends(pin!(when().copy_from(&tensor)), &probe, 0)?;
    let mut byte = [0];
    ends(pin!(when().read(0, &mut byte)), &probe, 0)?;
    ensure(byte == *b"T", "it has the byte")?;
    drop(ends(
        pin!(when().begin(Access::Write, stream.id())),
        &probe,
        0,
    )?);
    let mut ops = [tensor.read_op(1, &mut byte)];
    ends(pin!(Tensor::read_batch_when_ready(&mut ops)), &probe, 0)?;
    ensure(byte == *b"e", "it has the byte")?;
    if rig.on_host() {
        let guard = ends(pin!(when().lend()), &probe, 0)?;
        ensure(guard.first() == Some(&b'T'), "it lends the bytes")?;
        drop(guard);
        drop(ends(pin!(when().lend_mut()), &probe, 0)?);
    }
    Ok(())
}
