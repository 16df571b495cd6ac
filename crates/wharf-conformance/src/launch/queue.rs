//! The places of an engine's queue, as launches have them.

use wharf_engine::{Command, Sequence, SubmitError};
use wharf_tensor::{LaunchError, Target};

use super::Scene;
use crate::check::{Demand, ensure, refused};
use crate::patience::wait_for;
use crate::tensor::{LEN, is_all, is_free};
use crate::{Failure, Outcome, Stop};

/// More slots than this, and the queue is not filled.
const MOST_SLOTS: usize = 64;

pub(super) fn full<T: Target>(scene: &Scene<'_, T>) -> Outcome {
    let (a, b) = (scene.rig.zeros(LEN)?, scene.rig.zeros(LEN)?);
    let mut numbers: [Option<Sequence>; MOST_SLOTS] = [None; MOST_SLOTS];
    let filled = fill(scene, &a, &mut numbers);
    let held = match &filled {
        Ok(_) => {
            let refusal = scene.try_launch(Command::Fill(2), &[b.output()]);
            ensure(refusal.is_err(), "a full queue takes no more")?;
            is_free(&b)
        }
        Err(_) => Ok(()),
    };
    let mut ends = numbers.iter().flatten().map(|&number| taken(scene, number));
    // One place more, one launch more.
    let first = ends.next();
    if filled.is_ok() && first.is_some() {
        scene.succeed(scene.launch(Command::Fill(2), &[b.output()])?)?;
    }
    ends.collect::<Result<(), _>>()?;
    first.transpose()?;
    held?;
    ensure(filled? > 0, "it takes at least one")?;
    is_all(&a, 1)?;
    is_all(&b, 2)?;
    Ok(())
}

/// Launches until the queue is full, and tells how many it took.
#[inline(never)]
fn fill<T: Target>(
    scene: &Scene<'_, T>,
    tensor: &wharf_tensor::Tensor<T>,
    numbers: &mut [Option<Sequence>; MOST_SLOTS],
) -> Result<usize, Stop> {
    for (slots, place) in numbers.iter_mut().enumerate() {
        match scene.try_launch(Command::Fill(1), &[tensor.output()]) {
            Ok(submission) => *place = Some(submission.into_sequence()),
            Err(error) => {
                let full = LaunchError::Submit(SubmitError::QueueFull { slots });
                refused("one too many", Err::<(), _>(error), full)?;
                return Ok(slots);
            }
        }
    }
    Err(Stop::Inapplicable("it has more than 64 slots"))
}

/// Takes the completion of this number, which is a good one.
#[inline(never)]
fn taken<T: Target>(scene: &Scene<'_, T>, number: Sequence) -> Result<(), Failure> {
    let test = || match scene.engine.poll(number, None) {
        core::task::Poll::Ready(taken) => Some(taken),
        core::task::Poll::Pending => None,
    };
    let clock = scene.rig.target.clock();
    let taken = wait_for(scene.engine.completed(), clock, scene.claims.apart, test)?;
    let ended = taken.demand("it is there to be taken")?;
    ended
        .map(drop)
        .map_err(|refused| refused.error)
        .demand("it ends well")
}

pub(super) fn detached<T: Target>(scene: &Scene<'_, T>) -> Outcome {
    let a = scene.rig.zeros(LEN)?;
    // More of them than there are places.
    for byte in 1..=65 {
        let fill = scene.launch(Command::Fill(byte), &[a.output()])?;
        let number = fill.sequence();
        drop(fill);
        scene.is_over(number)?;
        let mut first = [0];
        a.try_read(0, &mut first).demand("a read when it is over")?;
        ensure(first == [byte], "it has run")?;
    }
    is_free(&a)?;
    Ok(())
}

pub(super) fn numbered<T: Target>(scene: &Scene<'_, T>) -> Outcome {
    let a = scene.rig.zeros(LEN)?;
    let mut last = None;
    for byte in 1..=3 {
        let fill = scene.launch(Command::Fill(byte), &[a.output()])?;
        let number = fill.into_sequence();
        ensure(last < Some(number), "numbers rise")?;
        last = Some(number);
        taken(scene, number)?;
        is_all(&a, byte)?;
    }
    is_free(&a)?;
    Ok(())
}
