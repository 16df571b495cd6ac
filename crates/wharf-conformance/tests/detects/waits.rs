//! Memory that can be waited for, and breaks a promise each.
//!
//! No undefined behaviour arises from any of it: every segment is a sound pool's.
#![allow(unsafe_code, reason = "implements the unsafe trait, wrongly")]

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

use wharf_backend::wrap::{WaitQueue, Waits};
use wharf_backend::{
    AllocError, AllocHint, Caps, Census, Header, MemBackend, Place, StaticPool, Waitable,
};
use wharf_conformance::waits;
use wharf_sync::{ConstInit, Unsync};

use crate::Failures;

type H = NonNull<Header<Unsync>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    NeverWakes,
    TwoQueues,
    LargeIsExhausted,
    ExhaustedIsLarge,
    GivesLate,
    ForgetsRefusals,
}

struct Faulty {
    wrong: Wrong,
    pool: StaticPool<Unsync, 24, 3>,
    queues: [WaitQueue<Unsync>; 2],
    turn: Cell<usize>,
    late: RefCell<Vec<H>>,
}

impl Faulty {
    const fn new(wrong: Wrong) -> Self {
        Self {
            wrong,
            pool: StaticPool::new(),
            queues: [ConstInit::INIT, ConstInit::INIT],
            turn: Cell::new(0),
            late: RefCell::new(Vec::new()),
        }
    }
}

// SAFETY: the pool's segments, which go back to it, at the latest with it.
unsafe impl MemBackend for Faulty {
    type Policy = Unsync;

    fn vend(&self, size: usize, hint: AllocHint) -> Option<H> {
        if let Some(header) = self.late.borrow_mut().pop() {
            // Too late for who asks now.
            // SAFETY: as was promised when it came.
            unsafe { self.pool.reclaim(header) };
            return None;
        }
        self.pool.vend(size, hint)
    }
    fn refusal(&self, size: usize, hint: AllocHint) -> AllocError {
        match (self.wrong, self.pool.refusal(size, hint)) {
            (Wrong::LargeIsExhausted, AllocError::TooLarge { requested, max }) => {
                AllocError::Exhausted {
                    requested,
                    in_use: max,
                    capacity: max,
                }
            }
            (Wrong::ExhaustedIsLarge, AllocError::Exhausted { requested, .. }) => {
                AllocError::TooLarge { requested, max: 0 }
            }
            (_, refusal) => refusal,
        }
    }
    unsafe fn reclaim(&self, header: H) {
        if self.wrong == Wrong::GivesLate {
            self.late.borrow_mut().push(header);
        } else {
            // SAFETY: as the caller promises.
            unsafe { self.pool.reclaim(header) };
        }
        if self.wrong != Wrong::NeverWakes {
            self.recheck();
        }
    }
    unsafe fn place(&self, header: H) -> Place {
        // SAFETY: as the caller promises.
        unsafe { self.pool.place(header) }
    }
    fn may_own(&self, header: H) -> bool {
        self.pool.may_own(header)
    }
    fn caps(&self) -> Caps {
        self.pool.caps()
    }
    fn alignment(&self) -> usize {
        self.pool.alignment()
    }
    fn max_segment_size(&self) -> usize {
        self.pool.max_segment_size()
    }
    fn census(&self) -> Census {
        let mut census = self.pool.census();
        if self.wrong == Wrong::ForgetsRefusals {
            census.refused = 0;
        }
        census
    }
    fn name(&self) -> &'static str {
        "faulty"
    }
}

impl Waits for Faulty {
    fn waiters(&self) -> &WaitQueue<Unsync> {
        if self.wrong == Wrong::TwoQueues {
            self.turn.set(self.turn.get() + 1);
        }
        &self.queues[self.turn.get() % 2]
    }
}

#[test]
fn broken_waits_are_found() {
    let mut report = Failures::default();
    let good = Waitable::new(StaticPool::<Unsync, 24, 3>::new());
    let tally = waits("good", &good, &mut report);
    report.none();
    assert_eq!((tally.passed, tally.inapplicable), (8, 0));
    let mut report = Failures::default();
    let _ = waits("nothing wrong", &Faulty::new(Wrong::Nothing), &mut report);
    report.none();

    let laws = [
        (
            Wrong::NeverWakes,
            "a segment that goes back wakes who waits for it",
        ),
        (
            Wrong::NeverWakes,
            "those who wait are served in their order",
        ),
        (
            Wrong::NeverWakes,
            "a wake of who gives up is the next one's",
        ),
        (
            Wrong::GivesLate,
            "a segment that goes back wakes who waits for it",
        ),
        (Wrong::GivesLate, "who gives up leaves nothing behind"),
        (
            Wrong::LargeIsExhausted,
            "what waiting does not help is refused at once",
        ),
        (
            Wrong::ExhaustedIsLarge,
            "a segment that goes back wakes who waits for it",
        ),
        (Wrong::ForgetsRefusals, "a wait ends at its deadline"),
        (Wrong::TwoQueues, "who waits looks again when told to"),
    ];
    for (wrong, law) in laws {
        let mut report = Failures::default();
        let _ = waits("wrong", &Faulty::new(wrong), &mut report);
        report.name(law);
    }
    let seen = laws.map(|(_, law)| law);
    report.all_covered(&seen, &["who asks for what is there does not wait"]);
}
