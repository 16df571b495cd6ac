//! The tickets of one operation of a device that is no engine.

use core::pin::pin;
use core::time::Duration;

use wharf_engine::{DescriptorError, Fault, KernelFault, MAX_OPERANDS};
use wharf_sync::Clock;
use wharf_tensor::{Access, LaunchError, Target, Tensor, TensorError, Tickets, Use};

use super::names::named;
use super::tasks::{ends, waits};
use super::{BYTES, Rig, id, is_alone, is_free, shows, stream, would_block};
use crate::Outcome;
use crate::check::{Demand, ensure, equal, refused};
use crate::waker::Probe;

const fn operand(operand: usize, error: TensorError) -> LaunchError {
    LaunchError::Operand { operand, error }
}

pub(super) fn all_or_none<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let (a, b, empty) = (rig.tensor()?, rig.tensor()?, Tensor::empty());
    let later = rig.placeholder()?;
    let (one, other) = (stream()?, stream()?);
    let begin = |uses: &[Use<'_, T>]| Tickets::try_begin(one.id(), uses).map(drop);
    let reads = b.try_begin(Access::Read, other.id()).demand("a ticket")?;
    let held = operand(1, would_block(&b)?);
    let uses = [a.output(), b.output()];
    refused("what another device reads", begin(&uses), held)?;
    ensure(a.in_flight() == (0, 0), "the first is not had either")?;
    shows(&a, &BYTES)?;
    is_free(&a)?;
    drop(reads);

    let nothing = operand(1, TensorError::NoStorage);
    refused("nothing", begin(&[a.output(), empty.input()]), nothing)?;
    // Who has no bytes yet is had, and says so.
    let uses = [a.input(), later.input()];
    let tickets = Tickets::begin(one.id(), &uses).demand("tickets")?;
    let mut placed = tickets.iter().map(|ticket| ticket.place().is_some());
    let placed = [placed.next(), placed.next(), placed.next()];
    ensure(
        placed == [Some(true), Some(false), None],
        "a placeholder is nowhere",
    )?;
    drop(tickets);
    let too_many = DescriptorError::TooManyOperands {
        operands: MAX_OPERANDS + 1,
    };
    let uses = [a.input(); MAX_OPERANDS + 1];
    refused("one too many", begin(&uses), too_many.into())?;
    let most = uses.get(1..).demand("as many as there may be")?;
    begin(most).demand("as many as there may be")?;
    begin(&[]).demand("tickets for nothing")?;
    ensure(a.in_flight() == (0, 0), "none is kept")?;
    is_free(&a)?;
    is_free(&b)?;
    shows(&a, &BYTES)?;
    shows(&b, &BYTES)?;
    Ok(())
}

pub(super) fn in_order<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let (a, b) = (rig.tensor()?, rig.tensor()?);
    let (one, other) = (stream()?, stream()?);
    let part = a.slice(12..17).demand("a slice")?;
    // The third and the fourth lie in the first.
    let uses = [a.output(), b.input(), part.output(), a.input()];
    let expected = [
        (&a, Access::Write),
        (&b, Access::Read),
        (&part, Access::Write),
        (&a, Access::Read),
    ];
    let tickets = Tickets::begin(one.id(), &uses).demand("tickets")?;
    equal("how many", tickets.iter().len(), uses.len())?;
    for (ticket, (tensor, access)) in tickets.iter().zip(expected) {
        ensure(ticket.access() == access, "it says what for")?;
        ensure(ticket.stream() == one.id(), "it says for whom")?;
        ensure(ticket.storage_id() == id(tensor)?, "it says to what")?;
        equal("its bytes", ticket.len(), tensor.len())?;
        ensure(ticket.place() == tensor.place(), "it says where")?;
    }
    ensure(a.in_flight() == (1, 2), "all of them are under way")?;
    ensure(b.in_flight() == (1, 0), "all of them are under way")?;
    let held = would_block(&a)?;
    refused("a read meanwhile", a.try_read(0, &mut [0]), held)?;
    let again = Tickets::try_begin(other.id(), &[b.input(), a.input()]);
    refused("another device", again.map(drop), operand(1, held))?;
    tickets.land(Ok(()));
    shows(&a, &BYTES)?;
    is_free(&a)?;
    is_free(&b)?;
    drop(Tickets::try_begin(other.id(), &[b.output(), a.output()]).demand("tickets")?);
    is_free(&a)?;
    Ok(())
}

pub(super) fn landed<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let (read, written) = (named(rig, "in")?, named(rig, "out")?);
    let stream = stream()?;
    let count = |tensor: &Tensor<T>| {
        let completions = tensor.completions().demand("its completions")?;
        Ok::<_, crate::Failure>(completions.count())
    };
    let begin = || {
        let uses = [read.input(), written.output()];
        Tickets::try_begin(stream.id(), &uses).demand("tickets")
    };
    begin()?.land(Ok(()));
    equal("completions of what was written", count(&written)?, 1)?;
    equal("completions of what was read", count(&read)?, 0)?;
    begin()?.land(Err(Fault::Kernel(KernelFault(7))));
    equal("completions: a fault is none", count(&written)?, 1)?;
    drop(begin()?);
    equal(
        "completions: tickets that were dropped",
        count(&written)?,
        1,
    )?;
    begin()?.land(Ok(()));
    equal("completions of what was written", count(&written)?, 2)?;
    is_free(&read)?;
    is_free(&written)?;
    Ok(())
}

pub(super) fn awaited<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let probe = Probe::claim()?;
    let (a, b) = (rig.tensor()?, rig.tensor()?);
    let (one, other) = (stream()?, stream()?);
    let uses = [a.input(), b.output()];
    let writes = a.try_begin(Access::Write, other.id()).demand("a ticket")?;
    let reads = b.try_begin(Access::Read, other.id()).demand("a ticket")?;
    {
        let mut begin = pin!(Tickets::begin_when_ready(one.id(), &uses));
        waits(begin.as_mut(), &probe, 0)?;
        drop(writes);
        ensure(probe.woken(0), "it is woken for the first")?;
        waits(begin.as_mut(), &probe, 1)?;
        ensure(a.in_flight() == (0, 0), "it has none while it waits")?;
        drop(reads);
        ensure(probe.woken(1), "it is woken for the second")?;
        let tickets = ends(begin.as_mut(), &probe, 0)?;
        ensure(a.in_flight() == (1, 0), "it has the first")?;
        ensure(b.in_flight() == (0, 1), "it has the second")?;
        tickets.land(Ok(()));
    }
    is_free(&a)?;
    is_free(&b)?;
    Ok(())
}

/// Before its first poll, at that, and at a later one.
pub(super) fn dropped<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let probe = Probe::claim()?;
    let (a, b) = (rig.tensor()?, rig.tensor()?);
    let (one, other) = (stream()?, stream()?);
    let uses = [a.output(), b.output()];
    for polls in 0..3 {
        let reads = b.try_begin(Access::Read, other.id()).demand("a ticket")?;
        {
            let mut begin = pin!(Tickets::begin_when_ready(one.id(), &uses));
            for _ in 0..polls {
                waits(begin.as_mut(), &probe, 0)?;
                ensure(a.in_flight() == (0, 0), "it has none while it waits")?;
            }
        }
        b.try_read(0, &mut [0])
            .demand("a read, nobody waits to write")?;
        drop(reads);
        is_free(&a)?;
        is_free(&b)?;
    }
    // And when it was ready.
    {
        let mut begin = pin!(Tickets::begin_when_ready(one.id(), &uses));
        drop(ends(begin.as_mut(), &probe, 0)?);
    }
    is_free(&a)?;
    shows(&b, &BYTES)?;
    Ok(())
}

pub(super) fn deadline<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let (a, b) = (rig.tensor()?, rig.tensor()?);
    let (one, other) = (stream()?, stream()?);
    let uses = [a.output(), b.output()];
    let within = |limit| Tickets::begin_within(limit, one.id(), &uses);
    if !rig.target.clock().tells_time() {
        let none = operand(0, TensorError::NoClock { storage: id(&a)? });
        let begun = within(Duration::MAX).map(drop);
        refused("a deadline without a clock", begun, none)?;
        is_free(&a)?;
        return Ok(());
    }
    let reads = b.try_begin(Access::Read, other.id()).demand("a ticket")?;
    let storage = id(&b)?;
    let late = if is_alone::<T::Policy>() {
        TensorError::WouldDeadlock { storage }
    } else {
        TensorError::TimedOut { storage }
    };
    let begun = within(Duration::ZERO).map(drop);
    refused(
        "tickets that are waited for in vain",
        begun,
        operand(1, late),
    )?;
    ensure(a.in_flight() == (0, 0), "the first is not had either")?;
    drop(reads);
    is_free(&b)?;
    drop(within(Duration::ZERO).demand("tickets that need no wait")?);
    is_free(&a)?;
    Ok(())
}
