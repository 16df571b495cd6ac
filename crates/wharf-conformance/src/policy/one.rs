//! What a policy's event does for those who wait in turn.
//!
//! An event may wake more than it must: all of them, or an older one to make room. So these checks ask who is woken at
//! least, and the answers are the same whatever room there is.

use core::cell::Cell;
use core::task::{Context, Poll};

use wharf_sync::{Event, NoClock, SyncPolicy, Turn, Wake, WakerPlace};

use super::Policy;
use super::events::{Reentry, come_back};
use crate::Outcome;
use crate::check::{Demand, ensure, equal};
use crate::waker::{Probe, TASKS};

pub(super) fn is_an_event<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let event = P::Event::new();
    let seen = event.epoch();
    event.notify_one();
    ensure(event.epoch() != seen, "it moves the epoch")?;
    let wake = event.wait(seen, &NoClock, None);
    ensure(wake == Wake::Notified, "it is not waited for afterwards")?;
    Ok(())
}

pub(super) fn first_in_line<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let (event, probe) = (P::Event::new(), Probe::claim()?);
    let mut places = [const { WakerPlace::new() }; 2];
    for (task, place) in places.iter_mut().enumerate() {
        event.queue(place, &probe.waker(task));
    }
    event.notify_one();
    ensure(probe.woken(0), "the first is woken")?;
    event.notify_one();
    ensure(probe.woken(1), "and then the second")?;
    equal("wakers that are kept", probe.alive(), 0)?;
    equal("wakes", probe.wakes(), 2)?;
    Ok(())
}

pub(super) fn nobody_is_forgotten<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let (event, probe) = (P::Event::new(), Probe::claim()?);
    let mut places = [const { WakerPlace::new() }; TASKS];
    for (task, place) in places.iter_mut().enumerate() {
        event.queue(place, &probe.waker(task));
    }
    for _ in 0..TASKS {
        event.notify_one();
    }
    let woken = (0..TASKS).filter(|&task| probe.woken(task)).count();
    equal("tasks woken, of all that queued", woken, TASKS)?;
    Ok(())
}

pub(super) fn without_a_place<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let (event, probe) = (P::Event::new(), Probe::claim()?);
    let mut place = WakerPlace::new();
    event.register(&probe.waker(0));
    event.queue(&mut place, &probe.waker(1));
    event.notify_one();
    ensure(probe.woken(0), "who has no place is woken")?;
    ensure(probe.woken(1), "and so is the first of those who have")?;
    Ok(())
}

pub(super) fn keeps_its_place<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let (event, probe) = (P::Event::new(), Probe::claim()?);
    let (mut first, mut second) = (WakerPlace::new(), WakerPlace::new());
    event.queue(&mut first, &probe.waker(0));
    event.queue(&mut second, &probe.waker(1));
    // The same waiter, polled by another task.
    event.queue(&mut first, &probe.waker(2));
    event.notify_one();
    ensure(probe.woken(2), "the first is still the first")?;
    Ok(())
}

pub(super) fn leaves_its_place<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let (event, probe) = (P::Event::new(), Probe::claim()?);
    let (mut first, mut second) = (WakerPlace::new(), WakerPlace::new());
    event.queue(&mut first, &probe.waker(0));
    event.queue(&mut second, &probe.waker(1));
    // Whether a wake was spent on it depends on the room there was.
    let _ = event.withdraw(&mut first);
    event.notify_one();
    ensure(probe.woken(1), "no wake is spent on who has left")?;
    let _ = event.withdraw(&mut second);
    ensure(
        event.withdraw(&mut WakerPlace::new()),
        "no wake was spent on who never queued",
    )?;
    Ok(())
}

pub(super) fn passed_on<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let (event, probe) = (P::Event::new(), Probe::claim()?);
    let nothing = || None::<()>;
    let poll = |turn: &mut Turn<'_, P::Event>, task| {
        let waker = probe.waker(task);
        turn.poll(&mut Context::from_waker(&waker), nothing)
    };
    let (mut first, mut second) = (Turn::new(&event), Turn::new(&event));
    let pending = poll(&mut first, 0).is_pending() && poll(&mut second, 1).is_pending();
    ensure(pending, "they wait")?;
    event.notify_one();
    // Given up after the wake, which is then the other one's.
    drop(first);
    ensure(probe.woken(1), "the next one is woken instead")?;
    drop(second);
    Ok(())
}

pub(super) fn served_in_turn<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let (event, probe, left) = (P::Event::new(), Probe::claim()?, Cell::new(0_u32));
    let take = || left.get().checked_sub(1).map(|less| left.set(less));
    let poll = |turn: &mut Turn<'_, P::Event>, task| -> Poll<()> {
        let waker = probe.waker(task);
        turn.poll(&mut Context::from_waker(&waker), take)
    };
    let mut waiting = [0, 1, 2].map(|task| (task, Turn::new(&event), false));
    for (task, turn, _) in &mut waiting {
        ensure(poll(turn, *task).is_pending(), "it waits")?;
    }
    // Things are handed out one by one; whoever is woken looks, and nobody else does.
    for _ in 0..waiting.len() {
        left.set(1);
        event.notify_one();
        let mut woken = waiting.iter_mut();
        let woken = woken.find(|(task, _, served)| !served && probe.woken(*task));
        let (task, turn, served) = woken.demand("somebody who still waits is woken")?;
        *served = poll(turn, *task).is_ready();
    }
    let all = waiting.iter().all(|(_, _, served)| *served);
    ensure(all, "each is served")?;
    drop(waiting);
    Ok(())
}

fn queue_again<E: Event>(scene: &Reentry<E>) {
    let mut place = WakerPlace::new();
    scene.event.queue(&mut place, &scene.waker());
    let _ = scene.event.withdraw(&mut place);
    come_back(scene);
}

/// As `outside_of_sections`, for those who queue.
pub(super) fn outside_of_sections<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let probe = Probe::claim()?;
    let scene = Reentry::<P::Event>::new()?;
    let event = &scene.event;
    let mut places = [const { WakerPlace::new() }; TASKS];
    let queueing = || {
        for (task, place) in places.iter_mut().enumerate() {
            event.queue(place, &probe.waker(task));
        }
    };
    let mut left = WakerPlace::new();
    #[allow(unsafe_code, reason = "the hook asks for a promise")]
    // SAFETY: the wakers are given to an event that this context alone uses. An event that is not
    // `Sync` is for one context by the law of `SyncPolicy`; one that is may be called from any.
    unsafe {
        probe.hooked(&scene, queue_again, queueing);
        // Not hooked, or who comes back would displace it.
        event.queue(&mut left, &probe.waker(0));
        probe.hooked(&scene, queue_again, || {
            let _ = event.withdraw(&mut left);
        });
        event.queue(&mut left, &probe.waker(0));
        probe.hooked(&scene, queue_again, || event.notify_one());
    }
    for place in &mut places {
        let _ = event.withdraw(place);
    }
    event.notify();
    ensure(scene.is_woken(), "who comes back is woken, too")?;
    Ok(())
}
