//! What every synchronisation policy does.

mod events;
mod one;
mod sections;

use core::cell::Cell;
use core::marker::PhantomData;

use wharf_sync::{ConstInit, Count, Event, Lock, NoClock, SyncPolicy, Wake, Word};

use crate::check::{ensure, equal};
use crate::{Check, Report, Subject, Tally, run};

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
    policy: PhantomData<P>,
}

/// Holds the policy `P` to the laws of `wharf-sync`, as far as one context can see them. What several
/// contexts do to each other is for a model checker.
///
/// One law cannot be broken quietly: under a policy that runs a waker inside a section, the two checks of
/// wakers *outside of sections* panic or hang.
pub fn policy<P: SyncPolicy>(nesting: Nesting, report: &mut dyn Report) -> Tally {
    let subject = Subject {
        policy: P::NAME,
        suite: "policy",
        name: P::NAME,
    };
    let policy = PhantomData;
    run(subject, &Policy::<P> { nesting, policy }, &checks(), report)
}

fn checks<P: SyncPolicy>() -> [Check<Policy<P>>; 25] {
    [
        Check {
            name: "a lock lends its value",
            run: sections::lock_lends,
        },
        Check {
            name: "sections nest",
            run: sections::sections_nest,
        },
        Check {
            name: "a count gives the last to one",
            run: sections::last_to_one,
        },
        Check {
            name: "a count tells the only holder",
            run: sections::only_holder,
        },
        Check {
            name: "a count at its limit sticks",
            run: sections::count_sticks,
        },
        Check {
            name: "a word moves",
            run: sections::word_moves,
        },
        Check {
            name: "a refused word stays",
            run: sections::word_refuses,
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
            run: events::epoch_counts,
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
            run: events::wait_ends,
        },
        Check {
            name: "a registered waker is woken once",
            run: events::woken_once,
        },
        Check {
            name: "a task that registers twice is woken",
            run: events::registered_twice,
        },
        Check {
            name: "a displaced waker is woken",
            run: events::displaced_woken,
        },
        Check {
            name: "wakers run outside of sections",
            run: events::outside_of_sections,
        },
        Check {
            name: "waking one is an event",
            run: one::is_an_event,
        },
        Check {
            name: "of those who queue the first is woken",
            run: one::first_in_line,
        },
        Check {
            name: "nobody who queues is forgotten",
            run: one::nobody_is_forgotten,
        },
        Check {
            name: "waking one wakes who has no place",
            run: one::without_a_place,
        },
        Check {
            name: "who queues again keeps the place",
            run: one::keeps_its_place,
        },
        Check {
            name: "who leaves the queue is not waited for",
            run: one::leaves_its_place,
        },
        Check {
            name: "a wait that is given up passes its wake on",
            run: one::passed_on,
        },
        Check {
            name: "those who wait are served one by one",
            run: one::served_in_turn,
        },
        Check {
            name: "wakers of a queue run outside of sections",
            run: one::outside_of_sections,
        },
        Check {
            name: "an event that ends lets its wakers go",
            run: events::wakers_dropped,
        },
    ]
}

/// Holds the constants of the policy `P` to what its constructors make.
pub fn constants<P: SyncPolicy>(report: &mut dyn Report) -> Tally
where
    P::Lock<Cell<u32>>: ConstInit,
    P::Count: ConstInit,
    P::Word: ConstInit,
    P::Event: ConstInit,
{
    let checks: [Check<PhantomData<P>>; 3] = [
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
        suite: "constants",
        name: P::NAME,
    };
    run(subject, &PhantomData, &checks, report)
}
