//! How a descriptor ends, and who is told.

use core::task::Poll;
use core::time::Duration;

use wharf_engine::{Command, Fault, KernelFault, Lent, Sequence, SubmitError};
use wharf_sync::{Event, SyncPolicy, Wake};

use super::scene::{Part, Scene, Use};
use super::{INLINE, Rig};
use crate::check::{applies, ensure, equal, refused};
use crate::parcel::Gate;
use crate::waker::Probe;
use crate::{Outcome, Stop};

pub(super) fn taken_once<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let scene = Scene::new(rig)?;
    let sequence = scene.submit(Command::Fill(1), &[Use::Write(Part::A)])?;
    scene.succeed(sequence)?;
    for _ in 0..2 {
        let again = rig.engine.poll(sequence, None);
        ensure(matches!(again, Poll::Ready(None)), "it is gone")?;
    }
    // To let go of what is gone is harmless.
    rig.engine.detach(sequence);
    rig.engine.abort(sequence);
    scene.close()
}

/// Also when nobody can ask for its completion any more: whoever detached it may wait for the end of it.
pub(super) fn over_when_landed<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let mut scene = Scene::new(rig)?;
    let gate = Gate::closed()?;
    scene.write(Part::B, gate.number())?;
    if !rig.claims.apart {
        // Who submits would wait at the gate for itself.
        gate.open();
    }
    let sequence = scene.submit(AT_GATE, &[Use::Read(Part::B)])?;
    rig.engine.detach(sequence);
    // In this order: it may land in between.
    let poll = || {
        let polled = rig.engine.poll(sequence, None);
        (polled, scene.ledger.landed())
    };
    let early = poll();
    gate.open();
    let (taken, landed) = match early {
        (Poll::Ready(taken), landed) => (taken, landed),
        (Poll::Pending, _) => rig.wait_for(|| match poll() {
            (Poll::Ready(taken), landed) => Some((taken, landed)),
            (Poll::Pending, _) => None,
        })?,
    };
    // Whatever it said, the operands are the engine's until then.
    rig.wait_for(|| (scene.ledger.landed() == 1).then_some(()))?;
    equal("parcels that had landed when it said so", landed, 1)?;
    ensure(taken.is_none(), "nobody can ask for what was detached")?;
    // It may be dropped a moment after it has landed.
    rig.wait_for(|| (scene.ledger.dropped() == 1).then_some(()))?;
    scene.close()
}

pub(super) fn event<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let scene = Scene::new(rig)?;
    let before = rig.engine.completed().epoch();
    scene.do_now(Command::Fill(1), &[Use::Write(Part::A)])?;
    // The completion may be seen a moment before its event.
    let deadline = rig.clock.now().saturating_add(Duration::from_secs(10));
    let wake = rig
        .engine
        .completed()
        .wait(before, rig.clock, Some(deadline));
    ensure(wake == Wake::Notified, "it happens")?;
    scene.close()
}

/// More slots than this, and the queue is not filled.
pub(super) const MOST_SLOTS: usize = 64;

/// Submits until the queue is full, and tells how many it took.
pub(super) fn fill_queue<P: SyncPolicy, Q: SyncPolicy>(
    scene: &Scene<'_, P, Q>,
    submitted: &mut [Option<Sequence>; MOST_SLOTS],
) -> Result<usize, Stop> {
    for (taken, place) in submitted.iter_mut().enumerate() {
        match scene.try_submit(Command::Fill(1), &[Use::Write(Part::A)])? {
            Ok(sequence) => *place = Some(sequence),
            Err(error) => {
                let expected = SubmitError::QueueFull { slots: taken };
                refused("one too many", Err::<(), _>(error), expected)?;
                return Ok(taken);
            }
        }
    }
    Err(Stop::Inapplicable("it has more than 64 slots"))
}

pub(super) fn queue_full<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let scene = Scene::new(rig)?;
    let mut submitted = [None; MOST_SLOTS];
    let taken = fill_queue(&scene, &mut submitted);
    let mut finished = submitted
        .iter()
        .flatten()
        .map(|&sequence| scene.succeed(sequence));
    // One slot more, one submission more.
    let first = finished.next();
    if taken.is_ok() && first.is_some() {
        scene.do_now(Command::Fill(2), &[Use::Write(Part::A)])?;
    }
    finished.collect::<Result<(), _>>()?;
    first.transpose()?;
    ensure(taken? > 0, "it takes at least one")?;
    scene.close()
}

pub(super) fn detached<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let scene = Scene::new(rig)?;
    let mut submitted = [None; MOST_SLOTS];
    let taken = fill_queue(&scene, &mut submitted);
    for &sequence in submitted.iter().flatten() {
        rig.engine.detach(sequence);
    }
    let all_dropped = || (scene.ledger.dropped() == scene.ledger.made()).then_some(());
    rig.wait_for(all_dropped)?;
    for &sequence in submitted.iter().flatten() {
        let gone = matches!(rig.engine.poll(sequence, None), Poll::Ready(None));
        ensure(gone, "nobody can ask for it any more")?;
    }
    let taken = taken?;
    let again = fill_queue(&scene, &mut submitted);
    for &sequence in submitted.iter().flatten() {
        // Those of the first time are gone, which is harmless.
        rig.engine.detach(sequence);
    }
    rig.wait_for(all_dropped)?;
    equal("slots, once all were detached", again?, taken)?;
    scene.close()
}

pub(super) fn outstanding<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let scene = Scene::new(rig)?;
    ensure(rig.engine.outstanding().is_none(), "nothing is, at first")?;
    let asked = scene.submit(Command::Fill(1), &[Use::Write(Part::A)])?;
    let range = rig.engine.outstanding();
    let idle = || rig.engine.outstanding().is_none().then_some(());
    let ended = rig.wait_for(idle);
    let landed = scene.ledger.landed();
    // Also where nobody will ask, and before anybody has asked for the first.
    let detached = scene.submit(Command::Fill(2), &[Use::Write(Part::A)]);
    if let Ok(detached) = detached {
        rig.engine.detach(detached);
    }
    let ended = ended.and_then(|()| rig.wait_for(idle));
    let both = scene.ledger.landed();
    scene.succeed(asked)?;
    ended?;
    detached?;
    ensure(
        range.is_none_or(|range| range == (asked..=asked)),
        "it is the one that was submitted",
    )?;
    equal("landed, once none is outstanding", landed, 1)?;
    equal("landed, with the detached one", both, 2)?;
    scene.close()
}

pub(super) fn abort_late<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let scene = Scene::new(rig)?;
    let sequence = scene.submit(Command::Fill(4), &[Use::Write(Part::A)])?;
    rig.wait_for(|| (scene.ledger.landed() == 1).then_some(()))?;
    rig.engine.abort(sequence);
    scene.succeed(sequence)?;
    scene.holds(Part::A, 4)?;
    scene.close()
}

/// Waits at the gate that the first byte of its operand names.
const AT_GATE: Command = Command::Kernel(|operands| match operands {
    [Lent::Read([gate, ..])] => {
        Gate::pass(*gate);
        Ok(())
    }
    _ => Err(KernelFault(1)),
});

pub(super) fn abort_early<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    applies(rig.claims.apart, INLINE)?;
    let mut scene = Scene::new(rig)?;
    let gate = Gate::closed()?;
    scene.write(Part::B, gate.number())?;
    let running = scene.submit(AT_GATE, &[Use::Read(Part::B)])?;
    let waiting = scene.submit(Command::Fill(1), &[Use::Write(Part::A)]);
    if let Ok(waiting) = waiting {
        rig.engine.abort(waiting);
    }
    gate.open();
    scene.succeed(running)?;
    let told = scene.finish(waiting?)?.map(drop);
    let told = told.map_err(|returned| returned.error);
    refused("its completion", told, Fault::Aborted)?;
    scene.holds(Part::A, 0)?;
    scene.close()
}

pub(super) fn wakes<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    applies(rig.claims.apart, INLINE)?;
    let mut scene = Scene::new(rig)?;
    let (gate, probe) = (Gate::closed()?, Probe::claim()?);
    scene.write(Part::B, gate.number())?;
    let running = scene.submit(AT_GATE, &[Use::Read(Part::B)])?;
    let waker = probe.waker(0);
    let pending = rig.engine.poll(running, Some(&waker)).is_pending();
    drop(waker);
    let early = probe.wakes();
    gate.open();
    scene.succeed(running)?;
    ensure(pending, "it is pending while it runs")?;
    equal("wakes while it runs", early, 0)?;
    // The completion may be seen a moment before its wakers run.
    let deadline = rig.clock.now().saturating_add(Duration::from_secs(10));
    while !probe.woken(0) && rig.clock.now() < deadline {
        rig.clock.idle();
    }
    ensure(probe.woken(0), "it is woken")?;
    scene.close()
}
