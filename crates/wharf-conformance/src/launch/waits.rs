//! Launches that wait, and those that are waited for.

use core::pin::pin;
use core::task::Poll;
use core::time::Duration;

use wharf_engine::Command;
use wharf_sync::Clock;
use wharf_tensor::{Access, Launch, LaunchError, Target, TensorError};

use super::endings::AT_GATE;
use super::{INLINE, Scene};
use crate::Outcome;
use crate::check::{Demand, applies, ensure, refused};
use crate::parcel::Gate;
use crate::tensor::tasks::{ends, poll, waits};
use crate::tensor::{BYTES, LEN, id, is_all, is_alone, is_free, shows, stream, would_block};
use crate::waker::Probe;

pub(super) fn held<T: Target>(scene: &Scene<'_, T>) -> Outcome {
    applies(scene.claims.apart, INLINE)?;
    let (gate, probe) = (Gate::closed()?, Probe::claim()?);
    let (at, a) = (scene.rig.zeros(LEN)?, scene.rig.zeros(LEN)?);
    at.fill(gate.number()).demand("a fill")?;
    let running = scene.launch(AT_GATE, &[at.input()])?;
    let waiting = scene.try_launch(Command::Fill(9), &[a.output()]);
    // Looked at while the gate is closed, judged once it is open again.
    let held = (would_block(&at)?, would_block(&a)?);
    let seen = (
        at.try_read(0, &mut [0]),
        at.try_write(1, b"X"),
        a.try_read(0, &mut [0]),
        at.in_flight(),
    );
    let mut byte = [0];
    let mut read = pin!(a.when_ready().read(0, &mut byte));
    let polled = poll(read.as_mut(), &probe, 0).is_pending();
    gate.open();
    let waiting = waiting.demand("a second launch")?;
    scene.succeed(running)?;
    scene.succeed(waiting)?;
    seen.0.demand("a read of what it reads")?;
    refused("a write to what it reads", seen.1, held.0)?;
    refused("a read of what it writes", seen.2, held.1)?;
    ensure(seen.3 == (1, 0), "it is one device that reads")?;
    ensure(polled, "who wants to read what it writes waits")?;
    ensure(probe.woken(0), "and is woken")?;
    ends(read.as_mut(), &probe, 0)?;
    is_all(&a, 9)?;
    is_free(&at)?;
    Ok(())
}

pub(super) fn when_ready<T: Target>(scene: &Scene<'_, T>) -> Outcome {
    let probe = Probe::claim()?;
    let (a, b) = (scene.rig.tensor()?, scene.rig.zeros(LEN)?);
    let stream = stream()?;
    let operands = [a.input(), b.output()];
    let writes = a.try_begin(Access::Write, stream.id()).demand("a ticket")?;
    let reads = b.try_begin(Access::Read, stream.id()).demand("a ticket")?;
    let mut launch = pin!(scene.engine.launch_when_ready(Command::Copy, &operands));
    waits(launch.as_mut(), &probe, 0)?;
    drop(writes);
    ensure(probe.woken(0), "it is woken for the first operand")?;
    waits(launch.as_mut(), &probe, 1)?;
    // While it waits for the second it holds none.
    ensure(
        a.in_flight() == (0, 0),
        "it holds no operand while it waits",
    )?;
    drop(reads);
    ensure(probe.woken(1), "it is woken for the second operand")?;
    let copy = ends(launch.as_mut(), &probe, 0)?;
    scene.succeed(copy)?;
    shows(&b, &BYTES)?;
    // A submission is awaited itself.
    let fill = scene.launch(Command::Fill(3), &[a.output()])?;
    let mut fill = pin!(fill);
    let ended = scene.wait_for(|| match poll(fill.as_mut(), &probe, 2) {
        Poll::Ready(ended) => Some(ended),
        Poll::Pending => None,
    })?;
    ended.demand("it ends well")?;
    is_all(&a, 3)?;
    Ok(())
}

pub(super) fn dropped<T: Target>(scene: &Scene<'_, T>) -> Outcome {
    let probe = Probe::claim()?;
    let (a, b) = (scene.rig.tensor()?, scene.rig.zeros(LEN)?);
    let stream = stream()?;
    let operands = [a.input(), b.output()];
    for polls in 0..3 {
        let reads = b.try_begin(Access::Read, stream.id()).demand("a ticket")?;
        {
            let mut launch = pin!(scene.engine.launch_when_ready(Command::Copy, &operands));
            for _ in 0..polls {
                waits(launch.as_mut(), &probe, 0)?;
            }
        }
        ensure(a.in_flight() == (0, 0), "it holds no operand")?;
        b.try_read(0, &mut [0])
            .demand("a read, nobody waits to write")?;
        drop(reads);
        is_free(&b)?;
        b.fill(0).demand("a fill")?;
    }
    is_all(&b, 0)?;
    is_free(&a)?;
    Ok(())
}

pub(super) fn deadline<T: Target>(scene: &Scene<'_, T>) -> Outcome {
    let (a, b) = (scene.rig.tensor()?, scene.rig.zeros(LEN)?);
    let stream = stream()?;
    let operands = [a.input(), b.output()];
    let within = |limit| {
        let launched = scene.engine.launch_within(limit, Command::Copy, &operands);
        launched.map(drop)
    };
    let storage = id(&a)?;
    if !scene.rig.target.clock().tells_time() {
        let error = TensorError::NoClock { storage };
        let none = LaunchError::Operand { operand: 0, error };
        refused("a deadline without a clock", within(Duration::MAX), none)?;
        is_free(&a)?;
        return Ok(());
    }
    let ticket = b.try_begin(Access::Read, stream.id()).demand("a ticket")?;
    let storage = id(&b)?;
    let error = if is_alone::<T::Policy>() {
        TensorError::WouldDeadlock { storage }
    } else {
        TensorError::TimedOut { storage }
    };
    let late = LaunchError::Operand { operand: 1, error };
    refused("a launch that waits in vain", within(Duration::ZERO), late)?;
    ensure(a.in_flight() == (0, 0), "it holds no operand")?;
    drop(ticket);
    is_free(&b)?;
    let copy = scene
        .engine
        .launch_within(Duration::ZERO, Command::Copy, &operands);
    scene.succeed(copy.demand("a launch that need not wait")?)?;
    shows(&b, &BYTES)?;
    Ok(())
}
