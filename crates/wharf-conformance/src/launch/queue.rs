//! The places of an engine's queue, as launches have them.

use core::task::Poll;

use wharf_engine::{Command, Sequence, SubmitError};
use wharf_tensor::{LaunchError, Target, Tensor};

use super::Scene;
use crate::check::{Demand, ensure, refused};
use crate::tensor::{LEN, is_all, is_free};
use crate::{Failure, Outcome, Stop};

/// More slots than this, and the queue is not filled.
const MOST_SLOTS: usize = 64;

/// The numbers of what was launched, small enough for a small stack: the first, and how much higher each of the others is.
struct Numbers {
    first: Option<Sequence>,
    above: [u32; MOST_SLOTS],
    count: usize,
}

impl Numbers {
    fn push(&mut self, number: Sequence) -> Result<(), Failure> {
        let first = self.first.get_or_insert(number).get();
        let above = number
            .get()
            .checked_sub(first)
            .and_then(|above| above.try_into().ok());
        let place = self.above.get_mut(self.count);
        *place.demand("a place for a number")? = above.demand("numbers rise, by little")?;
        self.count += 1;
        Ok(())
    }

    fn iter(&self) -> impl Iterator<Item = Sequence> {
        let first = self.first.map_or(0, Sequence::get);
        let above = self.above.iter().take(self.count);
        above.map(move |&above| Sequence::new(first.saturating_add(above.into())))
    }
}

pub(super) fn full<T: Target>(scene: &Scene<'_, T>) -> Outcome {
    let (a, b) = (scene.rig.zeros(LEN)?, scene.rig.zeros(LEN)?);
    let mut numbers = Numbers {
        first: None,
        above: [0; MOST_SLOTS],
        count: 0,
    };
    let filled = fill(scene, &a, &mut numbers);
    let held = match &filled {
        Ok(()) => one_too_many(scene, &b),
        Err(_) => Ok(()),
    };
    let mut ends = numbers.iter().map(|number| taken(scene, number));
    // One place more, one launch more.
    let first = ends.next();
    if filled.is_ok() && first.is_some() {
        scene.succeed(scene.launch(Command::Fill(2), &[b.output()])?)?;
    }
    ends.collect::<Result<(), _>>()?;
    ensure(first.transpose()?.is_some(), "it takes at least one")?;
    held?;
    filled?;
    is_all(&a, 1)?;
    is_all(&b, 2)?;
    Ok(())
}

#[inline(never)]
fn one_too_many<T: Target>(scene: &Scene<'_, T>, tensor: &Tensor<T>) -> Result<(), Failure> {
    let refusal = scene.try_launch(Command::Fill(2), &[tensor.output()]);
    ensure(refusal.is_err(), "a full queue takes no more")?;
    is_free(tensor)
}

/// Launches until the queue is full.
#[inline(never)]
fn fill<T: Target>(scene: &Scene<'_, T>, tensor: &Tensor<T>, numbers: &mut Numbers) -> Outcome {
    for slots in 0..MOST_SLOTS {
        match scene.try_launch(Command::Fill(1), &[tensor.output()]) {
            Ok(submission) => numbers.push(submission.into_sequence())?,
            Err(error) => {
                let full = LaunchError::Submit(SubmitError::QueueFull { slots });
                return Ok(refused("one too many", Err::<(), _>(error), full)?);
            }
        }
    }
    Err(Stop::Inapplicable("it has more than 64 slots"))
}

/// Takes the completion of this number, which is a good one.
#[inline(never)]
fn taken<T: Target>(scene: &Scene<'_, T>, number: Sequence) -> Result<(), Failure> {
    let taken = scene.wait_for(|| match scene.engine.poll(number, None) {
        Poll::Ready(taken) => Some(taken),
        Poll::Pending => None,
    })?;
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
