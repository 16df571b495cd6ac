//! What a policy's event does for all who wait.

use core::task::Waker;
use core::time::Duration;

use wharf_sync::{Clock, Event, SyncPolicy, Wake};

use super::Policy;
use crate::check::{ensure, equal};
use crate::waker::{Probe, TASKS};
use crate::{Failure, Outcome};

pub(super) fn epoch_counts<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let event = P::Event::new();
    let first = event.epoch();
    ensure(event.epoch() == first, "looking is no event")?;
    event.notify();
    let second = event.epoch();
    ensure(second != first, "an event moves the epoch")?;
    event.notify();
    let third = event.epoch();
    ensure(third != second && third != first, "and so does the next")?;
    Ok(())
}

/// A clock that says so much.
struct Stopped(Duration);

impl Clock for Stopped {
    fn now(&self) -> Duration {
        self.0
    }
}

pub(super) fn wait_ends<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let event = P::Event::new();
    let now = Duration::from_secs(5);
    for late in [Duration::ZERO, now] {
        let wake = event.wait(event.epoch(), &Stopped(now), Some(late));
        ensure(wake != Wake::Notified, "nothing happened")?;
    }
    Ok(())
}

pub(super) fn woken_once<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let (event, probe) = (P::Event::new(), Probe::claim()?);
    event.register(&probe.waker(0));
    equal("wakes before the event", probe.wakes(), 0)?;
    event.notify();
    equal("wakes by the event", probe.wakes(), 1)?;
    event.notify();
    equal("wakes after the next event", probe.wakes(), 1)?;
    equal("wakers that are kept", probe.alive(), 0)?;
    Ok(())
}

pub(super) fn registered_twice<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let (event, probe) = (P::Event::new(), Probe::claim()?);
    event.register(&probe.waker(0));
    event.register(&probe.waker(0));
    event.notify();
    ensure(probe.woken(0), "it is woken")?;
    equal("wakers that are kept", probe.alive(), 0)?;
    Ok(())
}

pub(super) fn displaced_woken<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let (event, probe) = (P::Event::new(), Probe::claim()?);
    for task in 0..TASKS {
        event.register(&probe.waker(task));
    }
    event.notify();
    for task in 0..TASKS {
        if !probe.woken(task) {
            return Err(Failure::numbers(
                "tasks woken, of all that registered",
                TASKS as u64,
                (0..TASKS).filter(|&task| probe.woken(task)).count() as u64,
            )
            .into());
        }
    }
    equal("wakers that are kept", probe.alive(), 0)?;
    Ok(())
}

/// What a waker's task may do when it is touched: come back to the event.
pub(super) struct Reentry<E> {
    pub(super) event: E,
    inner: Probe,
}

impl<E: Event> Reentry<E> {
    pub(super) fn new() -> Result<Self, Failure> {
        let (event, inner) = (E::new(), Probe::claim()?);
        Ok(Self { event, inner })
    }

    pub(super) fn waker(&self) -> Waker {
        self.inner.waker(0)
    }

    pub(super) fn is_woken(&self) -> bool {
        self.inner.woken(0)
    }
}

pub(super) fn come_back<E: Event>(scene: &Reentry<E>) {
    scene.event.register(&scene.waker());
    let _ = scene.event.epoch();
}

/// Whatever a waker runs may come back to the event: a task that polls again registers again.
pub(super) fn outside_of_sections<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let probe = Probe::claim()?;
    let scene = Reentry::<P::Event>::new()?;
    let registering = || {
        for task in 0..TASKS {
            scene.event.register(&probe.waker(task));
        }
    };
    #[allow(unsafe_code, reason = "the hook asks for a promise")]
    // SAFETY: the wakers are given to an event that this context alone uses. An event that is not
    // `Sync` is for one context by the law of `SyncPolicy`; one that is may be called from any.
    unsafe {
        probe.hooked(&scene, come_back, registering);
        // Not hooked, or who comes back would displace it.
        scene.event.register(&probe.waker(0));
        probe.hooked(&scene, come_back, || scene.event.notify());
    }
    scene.event.notify();
    ensure(scene.is_woken(), "who comes back is woken, too")?;
    for task in 0..TASKS {
        ensure(probe.woken(task), "every task is woken")?;
    }
    Ok(())
}

pub(super) fn wakers_dropped<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let (event, probe) = (P::Event::new(), Probe::claim()?);
    event.register(&probe.waker(0));
    drop(event);
    equal("wakers that are kept", probe.alive(), 0)?;
    Ok(())
}
