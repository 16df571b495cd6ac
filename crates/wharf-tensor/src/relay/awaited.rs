//! The same copy, as a task awaits it.

use wharf_engine::{Access, Command};

use super::{CopyError, CopyFault, Route};
use crate::storage::Patience;
use crate::{Launch, Launching, Submission, Target, Tensor, TensorError, Ticket};

impl<T: Target> Tensor<T> {
    /// [`copy_through`](Self::copy_through), awaited.
    ///
    /// It waits for one of the two tensors at a time, and has neither meanwhile. From then on until it is ready it has both, and the
    /// engines work while it is suspended; it has to be polled for the next piece to start.
    ///
    /// # Cancelling
    /// It may be dropped at any poll. Before it has both tensors, nothing has happened. Later, no piece starts any more, and those
    /// under way, two at most, run to their ends: the engines keep the memory that they need, and the fences keep others
    /// out of it. Then the first bytes of the destination are those of the source, up to the end of some piece, those behind it as
    /// they were; and `bounce` is whole again. So the next access to the destination, awaited or not, sees whole pieces. How many
    /// is not told to who drops it: write all of it again.
    ///
    /// # Errors
    /// As of [`copy_through`](Self::copy_through). What is under way it waits for first.
    pub async fn copy_through_when_ready<R, W>(
        &self,
        source: &Self,
        bounce: &Self,
        reader: &R,
        writer: &W,
    ) -> Result<(), CopyError>
    where
        R: Launch<T> + ?Sized,
        W: Launch<T> + ?Sized,
    {
        let (mut done, len) = (0, self.len());
        let engines = (reader, writer);
        let relayed = self.relay_when_ready(source, bounce, engines, &mut done);
        let relayed = relayed.await;
        relayed.map_err(|cause| CopyError { done, len, cause })
    }

    async fn relay_when_ready<R, W>(
        &self,
        source: &Self,
        bounce: &Self,
        (reader, writer): (&R, &W),
        done: &mut usize,
    ) -> Result<(), CopyFault>
    where
        R: Launch<T> + ?Sized,
        W: Launch<T> + ?Sized,
    {
        self.ends(source, bounce)?;
        let held = both((source, reader), (self, writer)).await?;
        let (halves, most) = bounce.halves_for(self.len())?;
        let route = Route {
            source,
            destination: self,
            most,
        };
        let mut last = None;
        let relayed = pieces(&route, halves, (reader, writer), &held, &mut last, done).await;
        // Also where something else has failed, which is what the caller is told then.
        let settled = settle(&mut last, done).await;
        relayed.and(settled)
    }
}

/// The piece that is set down, and where it ends.
type Last<'e, W, T> = Option<(Submission<'e, W, T>, usize)>;

/// All pieces; the last one is still under way.
async fn pieces<'e, T, R, W>(
    route: &Route<'_, T>,
    [mut this, mut other]: [Tensor<T>; 2],
    (reader, writer): (&'e R, &'e W),
    [reads, writes]: &[Ticket<T>; 2],
    last: &mut Last<'e, W, T>,
    done: &mut usize,
) -> Result<(), CopyFault>
where
    T: Target,
    R: Launch<T> + ?Sized,
    W: Launch<T> + ?Sized,
{
    let len = route.source.len();
    let mut at = 0;
    let mut taken_up = None;
    if len > 0 {
        taken_up = Some(take_up(route, at, &this, reader, reads).await?);
    }
    while let Some(submission) = taken_up.take() {
        submission.await?;
        settle(last, done).await?;
        let end = route.range(at).end;
        let [half, piece] = route.down(at, &this)?;
        let uses = [half.input(), piece.output()];
        let launching = Launching::new(writer, Command::Copy, &uses, Some((1, writes)));
        let submission = launching.await?;
        *last = Some((submission, end));
        at = end;
        core::mem::swap(&mut this, &mut other);
        if at < len {
            if this.is_uncut(&other) {
                settle(last, done).await?;
            }
            taken_up = Some(take_up(route, at, &this, reader, reads).await?);
        }
    }
    Ok(())
}

async fn take_up<'e, T, R>(
    route: &Route<'_, T>,
    at: usize,
    half: &Tensor<T>,
    reader: &'e R,
    reads: &Ticket<T>,
) -> Result<Submission<'e, R, T>, CopyFault>
where
    T: Target,
    R: Launch<T> + ?Sized,
{
    let [piece, half] = route.up(at, half)?;
    let uses = [piece.input(), half.output()];
    Ok(Launching::new(reader, Command::Copy, &uses, Some((0, reads))).await?)
}

/// Until it has arrived.
async fn settle<T: Target, W: Launch<T> + ?Sized>(
    last: &mut Last<'_, W, T>,
    done: &mut usize,
) -> Result<(), CopyFault> {
    if let Some((submission, end)) = last.take() {
        submission.await?;
        *done = end;
    }
    Ok(())
}

/// The one tensor to read and the other to write. Waits for one at a time; while it does, it does not have the other, so two of these
/// the opposite way do not wait for each other in a circle.
async fn both<T, R, W>(
    (source, reader): (&Tensor<T>, &R),
    (destination, writer): (&Tensor<T>, &W),
) -> Result<[Ticket<T>; 2], TensorError>
where
    T: Target,
    R: Launch<T> + ?Sized,
    W: Launch<T> + ?Sized,
{
    let (reads, writes) = (reader.stream(), writer.stream());
    loop {
        let begun = destination.when_ready().begin(Access::Write, writes);
        let write = begun.await?;
        match source.ticket(Access::Read, reads, Patience::None) {
            Ok(read) => return Ok([read, write]),
            Err(TensorError::WouldBlock { .. }) => drop(write),
            Err(error) => return Err(error),
        }
        let read = source.when_ready().begin(Access::Read, reads).await?;
        match destination.ticket(Access::Write, writes, Patience::None) {
            Ok(write) => return Ok([read, write]),
            Err(TensorError::WouldBlock { .. }) => drop(read),
            Err(error) => return Err(error),
        }
    }
}
