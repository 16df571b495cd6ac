//! Copies through other memory, by one engine or two.

use core::pin::pin;
use core::task::Poll;

use wharf_tensor::{Access, CopyError, CopyFault, Target, Tensor, TensorError};

use super::{Erased, Scene};
use crate::check::{Demand, ensure, refused};
use crate::tensor::tasks::{poll, waits};
use crate::tensor::{BYTES, LEN, id, is_all, is_free, shows, stream};
use crate::waker::Probe;
use crate::{Failure, Outcome};

/// Bytes of the bounces: one, an odd number, halves that go into the copy and such that do not, and more than all.
const BOUNCES: [usize; 6] = [1, 2, 7, 16, 20, LEN];

impl<'r, T: Target> Scene<'r, T> {
    fn through(&self, [to, from, bounce]: [&Tensor<T>; 3]) -> Result<(), CopyError> {
        let (reader, writer): (Erased<'r, T>, Erased<'r, T>) = (self.engine, self.second);
        to.copy_through(from, bounce, reader, writer)
    }

    /// The same, awaited to its end.
    #[inline(never)]
    fn through_when_ready(
        &self,
        [to, from, bounce]: [&Tensor<T>; 3],
        probe: &Probe,
    ) -> Result<Result<(), CopyError>, Failure> {
        let (reader, writer): (Erased<'r, T>, Erased<'r, T>) = (self.engine, self.second);
        let mut copy = pin!(to.copy_through_when_ready(from, bounce, reader, writer));
        self.wait_for(|| match poll(copy.as_mut(), probe, 0) {
            Poll::Ready(ended) => Some(ended),
            Poll::Pending => None,
        })
    }

    /// One that waits, and is dropped after so many polls.
    #[inline(never)]
    fn given_up(
        &self,
        [to, from, bounce]: [&Tensor<T>; 3],
        probe: &Probe,
        polls: usize,
    ) -> Result<(), Failure> {
        let (reader, writer): (Erased<'r, T>, Erased<'r, T>) = (self.engine, self.second);
        let mut copy = pin!(to.copy_through_when_ready(from, bounce, reader, writer));
        for _ in 0..polls {
            waits(copy.as_mut(), probe, 0)?;
            ensure(from.in_flight() == (0, 0), "it has no end while it waits")?;
        }
        Ok(())
    }
}

/// The first tensor has the bytes; the others are as if nobody had been there.
fn arrived<T: Target>([to, from, bounce]: [&Tensor<T>; 3]) -> Outcome {
    shows(to, &BYTES)?;
    shows(from, &BYTES)?;
    to.fill(0).demand("a fill, once all has arrived")?;
    let whole = bounce.try_fill(0);
    whole.demand("a fill of the bounce, which is whole again")?;
    is_free(from)?;
    Ok(())
}

pub(super) fn blocking<T: Target>(scene: &Scene<'_, T>) -> Outcome {
    let (from, to) = (scene.rig.tensor()?, scene.rig.zeros(LEN)?);
    for len in BOUNCES {
        let bounce = scene.rig.zeros(len)?;
        let all = [&to, &from, &bounce];
        scene.through(all).demand("a copy")?;
        arrived(all)?;
    }
    // Windows of both, and nothing beside them.
    let (bounce, window) = (scene.rig.zeros(2)?, to.slice(3..8).demand("a slice")?);
    let bytes = from.slice(12..17).demand("a slice")?;
    let copied = scene.through([&window, &bytes, &bounce]);
    copied.demand("a copy of a window")?;
    let mut expected = [0; LEN];
    for (byte, from) in expected.iter_mut().skip(3).zip(b"bytes") {
        *byte = *from;
    }
    shows(&to, &expected)?;
    let none = from.slice(..0).demand("a slice")?;
    let window = to.slice(..0).demand("a slice")?;
    let copied = scene.through([&window, &none, &bounce]);
    copied.demand("a copy of nothing")?;
    shows(&to, &expected)?;
    Ok(())
}

pub(super) fn awaited<T: Target>(scene: &Scene<'_, T>) -> Outcome {
    let probe = Probe::claim()?;
    let (from, to) = (scene.rig.tensor()?, scene.rig.zeros(LEN)?);
    for len in BOUNCES {
        let bounce = scene.rig.zeros(len)?;
        let all = [&to, &from, &bounce];
        let ended = scene.through_when_ready(all, &probe)?;
        ended.demand("a copy")?;
        arrived(all)?;
    }
    Ok(())
}

/// Of both calls.
pub(super) fn refused_whole<T: Target>(scene: &Scene<'_, T>) -> Outcome {
    let probe = Probe::claim()?;
    let (from, to) = (scene.rig.tensor()?, scene.rig.zeros(LEN)?);
    let bounce = scene.rig.zeros(8)?;
    let slice = |tensor: &Tensor<T>, start, end| tensor.slice(start..end).demand("a slice");
    let fault = |len, cause| {
        let done = 0;
        CopyError { done, len, cause }
    };
    let twice = |tensor| {
        let storage = id(tensor)?;
        Ok::<_, Failure>(CopyFault::SameStorage { storage })
    };
    let (head, tail) = (slice(&from, 0, 8)?, slice(&from, 8, 16)?);
    let (first, last) = (slice(&to, 0, 8)?, slice(&to, 8, 16)?);
    let none = slice(&bounce, 0, 0)?;
    let lengths = TensorError::LengthMismatch {
        destination: LEN,
        source: 8,
    };
    let room = TensorError::OutOfBounds {
        offset: 0,
        len: 1,
        size: 0,
    };
    let cases = [
        ([&first, &head, &tail], fault(8, twice(&from)?)),
        ([&first, &head, &last], fault(8, twice(&to)?)),
        ([&head, &tail, &bounce], fault(8, twice(&from)?)),
        ([&to, &head, &bounce], fault(LEN, lengths.into())),
        ([&to, &from, &none], fault(LEN, room.into())),
    ];
    for (all, error) in cases {
        refused("a copy", scene.through(all), error)?;
        let ended = scene.through_when_ready(all, &probe)?;
        refused("a copy that is awaited", ended, error)?;
    }
    shows(&from, &BYTES)?;
    is_all(&to, 0)?;
    is_free(&from)?;
    is_free(&to)?;
    Ok(())
}

/// Before its first poll, at that, and at a later one, while it waits for the destination.
pub(super) fn dropped<T: Target>(scene: &Scene<'_, T>) -> Outcome {
    let probe = Probe::claim()?;
    let (from, to) = (scene.rig.tensor()?, scene.rig.zeros(LEN)?);
    let bounce = scene.rig.zeros(7)?;
    let stream = stream()?;
    for polls in 0..3 {
        let reads = to.try_begin(Access::Read, stream.id()).demand("a ticket")?;
        scene.given_up([&to, &from, &bounce], &probe, polls)?;
        to.try_read(0, &mut [0])
            .demand("a read, nobody waits to write")?;
        drop(reads);
        is_free(&from)?;
        is_all(&to, 0)?;
        bounce.try_fill(0).demand("the bounce is free")?;
    }
    // The next one has all to do.
    let all = [&to, &from, &bounce];
    let ended = scene.through_when_ready(all, &probe)?;
    ended.demand("a copy")?;
    arrived(all)?;
    Ok(())
}
