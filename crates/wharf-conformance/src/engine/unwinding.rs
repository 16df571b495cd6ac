//! What an engine owes while kernels panic. For hosts: firmware does not unwind.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::prelude::v1::*;

use core::task::Poll;

use wharf_engine::{Command, Completion, Fault, Lent, Sequence};
use wharf_sync::SyncPolicy;

use super::Rig;
use super::completion::fill_queue;
use super::scene::{Part, Scene, Use};
use crate::check::{Demand, applies, ensure, equal, refused};
use crate::{Check, Failure, Outcome, Parcel, Stop};

pub(super) fn checks<'r, P: SyncPolicy, Q: SyncPolicy>() -> [Check<Rig<'r, P, Q>>; 2] {
    [
        Check {
            name: "a kernel that panics lets go of its operands",
            run: lets_go,
        },
        Check {
            name: "a kernel that panics gives its slot back",
            run: gives_back,
        },
    ]
}

/// Writes sevens, and panics; without a word to the terminal.
const PANICS: Command = Command::Kernel(|operands| {
    if let [Lent::Write(bytes)] = operands {
        bytes.fill(7);
    }
    resume_unwind(Box::new("a kernel of the conformance suite"))
});

fn unwinds() -> Outcome {
    applies(cfg!(panic = "unwind"), "panics do not unwind here")
}

/// The panic goes through `submit` or through a `poll`, or the engine keeps it to itself; which, is its own affair.
#[inline(never)]
fn panic_once<P: SyncPolicy, Q: SyncPolicy>(scene: &Scene<'_, P, Q>) -> Result<(), Failure> {
    let before = scene.counts();
    let submit = || scene.submit(PANICS, &[Use::Write(Part::A)]);
    match catch_unwind(AssertUnwindSafe(submit)) {
        Ok(sequence) => told(scene, sequence?),
        Err(_) => scene.let_go_since(before),
    }
}

fn told<P: SyncPolicy, Q: SyncPolicy>(
    scene: &Scene<'_, P, Q>,
    sequence: Sequence,
) -> Result<(), Failure> {
    let poll = || match scene.rig.engine.poll(sequence, None) {
        Poll::Ready(taken) => Some(taken),
        Poll::Pending => None,
    };
    let poll = || catch_unwind(AssertUnwindSafe(poll)).unwrap_or(None);
    let taken: Option<Completion<Parcel>> = scene.rig.wait_for(poll)?;
    let told = taken.demand("a completion is there to be taken")?;
    let told = told.map(drop).map_err(|returned| returned.error);
    refused("its completion", told, Fault::Panicked)
}

fn lets_go<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    unwinds()?;
    let mut scene = Scene::new(rig)?;
    panic_once(&scene)?;
    scene.write(Part::A, 9)?;
    scene.do_now(Command::Fill(1), &[Use::Write(Part::B)])?;
    scene.holds(Part::B, 1)?;
    scene.holds(Part::A, 9)?;
    scene.close()
}

fn gives_back<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    unwinds()?;
    let slots = || -> Result<usize, Stop> {
        let scene = Scene::new(rig)?;
        let mut submitted = [None; super::completion::MOST_SLOTS];
        let taken = fill_queue(&scene, &mut submitted);
        let mut finished = Ok(());
        for &sequence in submitted.iter().flatten() {
            finished = finished.and(scene.succeed(sequence));
        }
        finished?;
        scene.close()?;
        taken
    };
    let before = slots()?;
    ensure(before > 0, "it takes at least one")?;
    let scene = Scene::new(rig)?;
    for _ in 0..=before {
        panic_once(&scene)?;
    }
    scene.close()?;
    Ok(equal("slots, after as many panics", slots()?, before)?)
}
