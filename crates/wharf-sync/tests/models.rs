//! Every part of every policy against a plain model of what it is.

mod support;

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};
use wharf_sync::{Count, Event, SyncPolicy, WakerPlace, Word};

use support::{Task, under_every_policy};

fn check<S: Strategy>(strategy: &S, test: impl Fn(S::Value) -> TestCaseResult) {
    let config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    if let Err(failure) = TestRunner::new(config).run(strategy, test) {
        panic!("{failure}");
    }
}

const LIMIT: u32 = 1 << 31;

fn a_count<P: SyncPolicy, const PLACES: usize>() {
    // What is done to it: `true` is one holder more, `false` is one less.
    let start = prop_oneof![1..6_u32, LIMIT - 4..LIMIT + 4];
    let steps = proptest::collection::vec(any::<bool>(), 0..40);
    check(&(start, steps), |(start, steps)| {
        let count = P::Count::new(start);
        prop_assert_eq!(<P::Count as Count>::LIMIT, LIMIT);
        let mut holders = start;
        for more in steps {
            let saturated = holders >= LIMIT;
            if more {
                count.increment();
                holders += u32::from(!saturated);
            } else {
                let last = count.decrement();
                prop_assert_eq!(last, holders == 1);
                if last {
                    break;
                }
                holders -= u32::from(!saturated);
            }
            if holders < LIMIT {
                prop_assert_eq!(count.get(), holders);
            } else {
                prop_assert!(count.get() >= LIMIT);
            }
            prop_assert_eq!(count.is_unique(), holders == 1);
        }
        Ok(())
    });
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Add(u32),
    Xor(u32),
    /// Refuses an odd word, and moves an even one on.
    OddUp,
    Refuse,
}

impl Step {
    fn of(self, word: u32) -> Option<u32> {
        match self {
            Self::Add(by) => Some(word.wrapping_add(by)),
            Self::Xor(by) => Some(word ^ by),
            Self::OddUp => word.is_multiple_of(2).then(|| word + 1),
            Self::Refuse => None,
        }
    }
}

fn a_word<P: SyncPolicy, const PLACES: usize>() {
    let step = prop_oneof![
        any::<u32>().prop_map(Step::Add),
        any::<u32>().prop_map(Step::Xor),
        Just(Step::OddUp),
        Just(Step::Refuse),
    ];
    let steps = proptest::collection::vec(step, 0..40);
    check(&(any::<u32>(), steps), |(start, steps)| {
        let word = P::Word::new(start);
        let mut model = start;
        prop_assert_eq!(word.load(), model);
        for step in steps {
            let expected = match step.of(model) {
                Some(next) => Ok((model, next)),
                None => Err(model),
            };
            prop_assert_eq!(
                word.update(|word| step.of(word)),
                expected.map(|(before, _)| before)
            );
            model = expected.map_or(model, |(_, next)| next);
            prop_assert_eq!(word.load(), model);
        }
        Ok(())
    });
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Register { task: usize },
    Queue { waiter: usize, task: usize },
    Withdraw { waiter: usize },
    Notify,
    NotifyOne,
}

const TASKS: usize = 3;
const WAITERS: usize = 6;

/// Wakers in the order in which they came: for whom they wait (nobody, if they only registered), and whom they wake.
struct Model<const PLACES: usize>(Vec<(Option<usize>, usize)>);

impl<const PLACES: usize> Model<PLACES> {
    /// A waker comes; the task that had to make room is returned.
    fn come(&mut self, waiter: Option<usize>, task: usize) -> Option<usize> {
        let full = self.0.len() == PLACES;
        let displaced = full.then(|| self.0.remove(0).1);
        self.0.push((waiter, task));
        displaced
    }

    /// Who is woken by an act, and what a withdrawal answers.
    fn act(&mut self, act: Act, queued: &mut [bool; WAITERS]) -> (Vec<usize>, bool) {
        match act {
            Act::Register { task } if self.0.contains(&(None, task)) => (vec![], true),
            Act::Register { task } => (self.come(None, task).into_iter().collect(), true),
            Act::Queue { waiter, task } => {
                queued[waiter] = true;
                match self.0.iter_mut().find(|known| known.0 == Some(waiter)) {
                    Some(known) => {
                        known.1 = task;
                        (vec![], true)
                    }
                    None => (self.come(Some(waiter), task).into_iter().collect(), true),
                }
            }
            Act::Withdraw { waiter } => {
                let before = self.0.len();
                self.0.retain(|known| known.0 != Some(waiter));
                let unspent = !queued[waiter] || self.0.len() < before;
                queued[waiter] = false;
                (vec![], unspent)
            }
            Act::Notify => (self.0.drain(..).map(|known| known.1).collect(), true),
            Act::NotifyOne => {
                let first = self.0.iter().find_map(|known| known.0);
                let (woken, rest) = self
                    .0
                    .iter()
                    .partition(|known| known.0.is_none() || known.0 == first);
                self.0 = rest;
                (
                    woken.iter().map(|known: &(_, usize)| known.1).collect(),
                    true,
                )
            }
        }
    }
}

fn an_event<P: SyncPolicy, const PLACES: usize>() {
    let act = prop_oneof![
        (0..TASKS).prop_map(|task| Act::Register { task }),
        (0..WAITERS, 0..TASKS).prop_map(|(waiter, task)| Act::Queue { waiter, task }),
        (0..WAITERS, 0..TASKS).prop_map(|(waiter, task)| Act::Queue { waiter, task }),
        (0..WAITERS).prop_map(|waiter| Act::Withdraw { waiter }),
        Just(Act::Notify),
        Just(Act::NotifyOne),
    ];
    check(&proptest::collection::vec(act, 0..40), |acts| {
        let event = P::Event::new();
        let tasks: [Arc<Task>; TASKS] = core::array::from_fn(|_| Task::new());
        let mut places: [WakerPlace; WAITERS] = core::array::from_fn(|_| WakerPlace::new());
        let mut model = Model::<PLACES>(Vec::new());
        let mut queued = [false; WAITERS];
        let mut wakes = [0; TASKS];
        for act in acts {
            let (woken, unspent) = model.act(act, &mut queued);
            woken.into_iter().for_each(|task| wakes[task] += 1);
            let seen = event.epoch();
            match act {
                Act::Register { task } => event.register(&tasks[task].waker()),
                Act::Queue { waiter, task } => {
                    event.queue(&mut places[waiter], &tasks[task].waker());
                }
                Act::Withdraw { waiter } => {
                    prop_assert_eq!(event.withdraw(&mut places[waiter]), unspent);
                }
                Act::Notify => event.notify(),
                Act::NotifyOne => event.notify_one(),
            }
            let happens = matches!(act, Act::Notify | Act::NotifyOne);
            prop_assert_eq!(event.epoch() != seen, happens);
            for (waiter, place) in places.iter().enumerate() {
                prop_assert_eq!(place.is_none(), !queued[waiter]);
            }
            for (task, wakes) in tasks.iter().zip(wakes) {
                prop_assert_eq!(task.wakes(), wakes, "wakes of all tasks: {:?}", tasks);
            }
            for (index, task) in tasks.iter().enumerate() {
                let kept = model.0.iter().filter(|known| known.1 == index).count();
                prop_assert_eq!(task.wakers(), kept, "wakers that are kept");
            }
        }
        drop(event);
        for task in &tasks {
            prop_assert_eq!(task.wakers(), 0, "an event that ends lets go");
        }
        Ok(())
    });
}

under_every_policy!(a_count, a_word, an_event);
