//! What every synchronisation policy does.

use core::cell::Cell;
use core::marker::PhantomData;
use core::time::Duration;

use wharf_sync::{Clock, ConstInit, Count, Event, Lock, NoClock, SyncPolicy, Wake, Word};

use crate::check::{applies, ensure, equal};
use crate::waker::{Probe, TASKS};
use crate::{Check, Outcome, Report, Subject, Tally, run};

/// Whether a section of a policy's lock may be entered again inside itself.
///
/// [`Lock`] leaves that to the policy, so the suite must be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nesting {
    /// Sections nest, as under `Unsync` and `Critical`, and under every `IsrSafe` policy.
    Allowed,
    /// Entering again is a deadlock, as under `Blocking`.
    Forbidden,
}

struct Policy<P> {
    nesting: Nesting,
    policy: PhantomData<fn() -> P>,
}

/// Holds the policy `P` to the laws of `wharf-sync`, as far as one context can see them. What several
/// contexts do to each other is for a model checker.
///
/// One law cannot be broken quietly: under a policy that runs a waker inside a section, `wakers run
/// outside of sections` panics or hangs.
pub fn policy<P: SyncPolicy>(nesting: Nesting, report: &mut dyn Report) -> Tally {
    let subject = Subject {
        policy: P::NAME,
        name: "policy",
    };
    let policy = PhantomData;
    run(subject, &Policy::<P> { nesting, policy }, &checks(), report)
}

/// Holds the constants of the policy `P` to what its constructors make.
pub fn constants<P: SyncPolicy>(report: &mut dyn Report) -> Tally
where
    P::Lock<Cell<u32>>: ConstInit,
    P::Count: ConstInit,
    P::Word: ConstInit,
    P::Event: ConstInit,
{
    let checks: [Check<PhantomData<fn() -> P>>; 3] = [
        Check {
            name: "a constant lock holds a constant",
            run: |_| {
                let lock = <P::Lock<Cell<u32>> as ConstInit>::INIT;
                equal("its value", lock.with(|value| value.replace(9)), 0)?;
                Ok(equal("its value", lock.with(Cell::get), 9)?)
            },
        },
        Check {
            name: "a constant count and word are zero",
            run: |_| {
                equal("the count", <P::Count as ConstInit>::INIT.get(), 0)?;
                Ok(equal("the word", <P::Word as ConstInit>::INIT.load(), 0)?)
            },
        },
        Check {
            name: "a constant event has not happened",
            run: |_| {
                let event = <P::Event as ConstInit>::INIT;
                let before = event.epoch();
                event.notify();
                Ok(ensure(event.epoch() != before, "the epoch advances")?)
            },
        },
    ];
    let subject = Subject {
        policy: P::NAME,
        name: "constants",
    };
    run(subject, &PhantomData, &checks, report)
}

fn checks<P: SyncPolicy>() -> [Check<Policy<P>>; 16] {
    [
        Check {
            name: "a lock lends its value",
            run: lock_lends,
        },
        Check {
            name: "sections nest",
            run: sections_nest,
        },
        Check {
            name: "a count gives the last to one",
            run: last_to_one,
        },
        Check {
            name: "a count tells the only holder",
            run: only_holder,
        },
        Check {
            name: "a count at its limit sticks",
            run: count_sticks,
        },
        Check {
            name: "a word moves",
            run: word_moves,
        },
        Check {
            name: "a refused word stays",
            run: word_refuses,
        },
        Check {
            name: "a context is itself",
            run: |_| {
                let same = P::who() == P::who();
                Ok(ensure(same, "the same context has the same identity")?)
            },
        },
        Check {
            name: "an epoch counts events",
            run: epoch_counts,
        },
        Check {
            name: "a past event is not waited for",
            run: |_| {
                let event = P::Event::new();
                let seen = event.epoch();
                event.notify();
                let wake = event.wait(seen, &NoClock, None);
                Ok(ensure(wake == Wake::Notified, "the wait ends at once")?)
            },
        },
        Check {
            name: "a wait ends at its deadline",
            run: wait_ends,
        },
        Check {
            name: "a registered waker is woken once",
            run: woken_once,
        },
        Check {
            name: "a task that registers twice is woken",
            run: registered_twice,
        },
        Check {
            name: "a displaced waker is woken",
            run: displaced_woken,
        },
        Check {
            name: "wakers run outside of sections",
            run: outside_of_sections,
        },
        Check {
            name: "an event that ends lets its wakers go",
            run: wakers_dropped,
        },
    ]
}

fn lock_lends<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let mut lock = P::Lock::new(Cell::new(3_u32));
    let before = lock.with(|value| value.replace(4));
    equal("what a section returns", before, 3)?;
    equal("what the next one finds", lock.with(Cell::get), 4)?;
    lock.get_mut().set(5);
    equal("what `get_mut` left", lock.with(Cell::get), 5)?;
    Ok(())
}

fn sections_nest<P: SyncPolicy>(policy: &Policy<P>) -> Outcome {
    let nest = policy.nesting == Nesting::Allowed;
    applies(nest, "entering a section again is a deadlock")?;
    let lock = P::Lock::new(Cell::new(1_u32));
    let seen = lock.with(|outer| {
        outer.set(2);
        lock.with(|inner| inner.set(inner.get() + 3));
        outer.get()
    });
    Ok(equal("what the outer section finds", seen, 5)?)
}

fn last_to_one<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let count = P::Count::new(1);
    for _ in 0..3 {
        count.increment();
    }
    equal("holders", count.get(), 4)?;
    for _ in 0..3 {
        ensure(!count.decrement(), "others hold it")?;
    }
    ensure(count.decrement(), "that was the last")?;
    Ok(())
}

fn only_holder<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let count = P::Count::new(1);
    ensure(count.is_unique(), "one holder is the only one")?;
    count.increment();
    ensure(!count.is_unique(), "one of two is not")?;
    ensure(!count.decrement(), "one is left")?;
    ensure(count.is_unique(), "it is the only one again")?;
    Ok(())
}

fn count_sticks<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let limit = <P::Count as Count>::LIMIT;
    let count = P::Count::new(limit - 1);
    for _ in 0..3 {
        count.increment();
    }
    for _ in 0..64 {
        ensure(!count.decrement(), "a saturated count has no last holder")?;
        ensure(!count.is_unique(), "a saturated count has no only holder")?;
    }
    ensure(count.get() >= limit, "it stays saturated")?;
    Ok(())
}

fn word_moves<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let word = P::Word::new(7);
    equal("its first value", word.load(), 7)?;
    let before = word.update(|value| Some(value ^ u32::MAX));
    ensure(before == Ok(7), "an update answers what it replaced")?;
    equal("its new value", word.load(), u32::MAX - 7)?;
    Ok(())
}

fn word_refuses<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let word = P::Word::new(7);
    let odd = |value: u32| (value % 2 == 0).then_some(value + 1);
    ensure(word.update(odd) == Err(7), "a refusal answers the value")?;
    equal("the value", word.load(), 7)?;
    Ok(())
}

fn epoch_counts<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
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

fn wait_ends<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let event = P::Event::new();
    let now = Duration::from_secs(5);
    for late in [Duration::ZERO, now] {
        let wake = event.wait(event.epoch(), &Stopped(now), Some(late));
        ensure(wake != Wake::Notified, "nothing happened")?;
    }
    Ok(())
}

fn woken_once<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
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

fn registered_twice<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let (event, probe) = (P::Event::new(), Probe::claim()?);
    event.register(&probe.waker(0));
    event.register(&probe.waker(0));
    event.notify();
    ensure(probe.woken(0), "it is woken")?;
    equal("wakers that are kept", probe.alive(), 0)?;
    Ok(())
}

fn displaced_woken<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let (event, probe) = (P::Event::new(), Probe::claim()?);
    for task in 0..TASKS {
        event.register(&probe.waker(task));
    }
    event.notify();
    for task in 0..TASKS {
        if !probe.woken(task) {
            return Err(crate::Failure::numbers(
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

/// Whatever a waker runs may come back to the event: a task that polls again registers again.
fn outside_of_sections<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    struct Scene<E> {
        event: E,
        inner: Probe,
    }
    let probe = Probe::claim()?;
    let scene = Scene {
        event: P::Event::new(),
        inner: Probe::claim()?,
    };
    let come_back = |scene: &Scene<P::Event>| {
        scene.event.register(&scene.inner.waker(0));
        let _ = scene.event.epoch();
    };
    let act = || {
        for task in 0..TASKS {
            scene.event.register(&probe.waker(task));
        }
        scene.event.notify();
    };
    #[allow(unsafe_code, reason = "the hook asks for a promise")]
    // SAFETY: the wakers are given to an event that this context alone uses. An event that is not
    // `Sync` is for one context by the law of `SyncPolicy`; one that is may be called from any.
    unsafe {
        probe.hooked(&scene, come_back, act);
    }
    scene.event.notify();
    ensure(scene.inner.woken(0), "who comes back is woken, too")?;
    for task in 0..TASKS {
        ensure(probe.woken(task), "every task is woken")?;
    }
    Ok(())
}

fn wakers_dropped<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let (event, probe) = (P::Event::new(), Probe::claim()?);
    event.register(&probe.waker(0));
    drop(event);
    equal("wakers that are kept", probe.alive(), 0)?;
    Ok(())
}
