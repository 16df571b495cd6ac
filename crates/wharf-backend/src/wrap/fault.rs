//! A backend that fails when told to: the tool of every exhaustion sweep.
#![allow(
    unsafe_code,
    reason = "implements the unsafe traits by handing everything on"
)]

use core::cell::Cell;
use core::fmt;
use core::ops::{Bound, RangeBounds};
use core::ptr::NonNull;

use wharf_source::Census;
use wharf_sync::{ConstInit, Lock, SyncPolicy, Who};

use super::hand_on::hand_on;
use crate::{AllocError, AllocHint, Header, MemBackend};

/// A wrapper around a backend that refuses the allocations it is told to.
///
/// ```
/// use wharf_backend::{AllocError, BackendExt, FaultInject, StaticPool};
/// use wharf_sync::Unsync;
///
/// let pool = FaultInject::new(StaticPool::<Unsync, 64, 4>::new());
/// pool.fail_nth(2);
/// let first = pool.alloc(8)?;
/// assert_eq!(pool.alloc(8).unwrap_err(), AllocError::Injected { call: 2 });
/// let third = pool.alloc(8)?;
///
/// // Every second one; and all that are larger than a word.
/// pool.fail_every(2);
/// pool.fail_sizes(9..);
/// # Ok::<(), AllocError>(())
/// ```
///
/// There is one plan at a time. Each way to set one replaces the one before and counts calls from one again.
///
/// # Which refusal had which cause
/// A `vend` says no in one word, and its cause is a second call ([`MemBackend::refusal`]). Every refusal, injected or the
/// inner backend's own, leaves a note of who asked for what, and whoever asks for the cause takes his newest note. So the
/// cause is right for threads that the policy tells apart ([`SyncPolicy::who`]), and for an interrupt that allocates
/// between the two calls of what it interrupted. What remains: contexts that a policy does *not* tell apart, that do not
/// nest (two cores under `Critical`), and that are refused the same size with the same hint at the same moment may get each
/// other's cause; and of more than eight refusals whose cause is still to be asked for, the oldest is told as the inner
/// backend's.
pub struct FaultInject<B: MemBackend> {
    inner: B,
    plan: <B::Policy as SyncPolicy>::Lock<Plan>,
}

/// The plan of a [`FaultInject`]. Opaque; public because it is behind the policy's lock.
#[derive(Debug)]
pub struct Plan {
    calls: Cell<u64>,
    rule: Cell<Rule>,
    /// Calls that are left until the rule refuses one. (Counted down, so that no small core divides by 64 bits.)
    left: Cell<u64>,
    notes: [Cell<Note>; NOTES],
    injected: Cell<usize>,
    largest: Cell<usize>,
}

const NOTES: usize = 8;

#[derive(Clone, Copy, Debug)]
enum Rule {
    Never,
    Nth,
    Every(u64),
    Sizes { first: usize, last: usize },
}

/// A refusal whose cause nobody has asked for yet.
#[derive(Clone, Copy, Debug)]
struct Note {
    who: Who,
    size: usize,
    hint: AllocHint,
    cause: Cause,
}

#[derive(Clone, Copy, Debug)]
enum Cause {
    /// There is no note.
    None,
    Inner,
    Injected(u64),
}

impl Note {
    const NONE: Self = Self {
        who: Who::SOLE,
        size: 0,
        hint: AllocHint::NONE,
        cause: Cause::None,
    };
}

impl ConstInit for Plan {
    const INIT: Self = Self {
        calls: Cell::new(0),
        rule: Cell::new(Rule::Never),
        left: Cell::new(0),
        notes: [const { Cell::new(Note::NONE) }; NOTES],
        injected: Cell::new(0),
        largest: Cell::new(0),
    };
}

impl Plan {
    fn set(&self, rule: Rule, left: u64) {
        self.calls.set(0);
        self.rule.set(rule);
        self.left.set(left);
    }

    /// Counts a call. The number of the call, if it is to be refused.
    fn call(&self, size: usize) -> Option<u64> {
        let call = self.calls.get().wrapping_add(1);
        self.calls.set(call);
        let due = || {
            let left = self.left.get().wrapping_sub(1);
            self.left.set(left);
            left == 0
        };
        let refuse = match self.rule.get() {
            Rule::Never => false,
            Rule::Nth => due(),
            Rule::Every(calls) => {
                let due = due();
                if due {
                    self.left.set(calls);
                }
                due
            }
            Rule::Sizes { first, last } => (first..=last).contains(&size),
        };
        refuse.then_some(call)
    }

    /// The newest note first; the oldest is forgotten.
    fn note(&self, note: Note) {
        let mut note = note;
        for place in &self.notes {
            note = place.replace(note);
            if matches!(note.cause, Cause::None) {
                return;
            }
        }
    }

    /// The newest note of this refusal, and closes the gap.
    fn take(&self, who: Who, size: usize, hint: AllocHint) -> Cause {
        let of_this = |note: &Note| {
            !matches!(note.cause, Cause::None)
                && (note.who, note.size, note.hint) == (who, size, hint)
        };
        let Some(index) = self.notes.iter().position(|note| of_this(&note.get())) else {
            return Cause::None;
        };
        let (_, rest) = self.notes.split_at(index);
        let mut next = Note::NONE;
        for place in rest.iter().rev() {
            next = place.replace(next);
        }
        next.cause
    }
}

impl<B: MemBackend> FaultInject<B> {
    /// Around `inner`; nothing fails yet.
    pub fn new(inner: B) -> Self {
        Self {
            inner,
            plan: Lock::new(Plan::INIT),
        }
    }

    /// [`new`](Self::new) for a `static`.
    pub const fn new_const(inner: B) -> Self
    where
        <B::Policy as SyncPolicy>::Lock<Plan>: ConstInit,
    {
        Self {
            inner,
            plan: ConstInit::INIT,
        }
    }

    /// Refuses the `nth` allocation from now on, counted from one; zero: none.
    pub fn fail_nth(&self, nth: u64) {
        let rule = if nth == 0 { Rule::Never } else { Rule::Nth };
        self.plan.with(|plan| plan.set(rule, nth));
    }

    /// Refuses every `kth` allocation from now on: with 3 the third, the sixth, and so on; with 1 all; zero: none.
    pub fn fail_every(&self, kth: u64) {
        let rule = if kth == 0 {
            Rule::Never
        } else {
            Rule::Every(kth)
        };
        self.plan.with(|plan| plan.set(rule, kth));
    }

    /// Refuses every allocation of a size in `sizes` from now on.
    pub fn fail_sizes(&self, sizes: impl RangeBounds<usize>) {
        let first = match sizes.start_bound() {
            Bound::Included(&first) => Some(first),
            Bound::Excluded(&before) => before.checked_add(1),
            Bound::Unbounded => Some(0),
        };
        let last = match sizes.end_bound() {
            Bound::Included(&last) => Some(last),
            Bound::Excluded(&after) => after.checked_sub(1),
            Bound::Unbounded => Some(usize::MAX),
        };
        let rule = match (first, last) {
            (Some(first), Some(last)) => Rule::Sizes { first, last },
            // There is no such size.
            _ => Rule::Never,
        };
        self.plan.with(|plan| plan.set(rule, 0));
    }

    /// Refuses none from now on.
    pub fn fail_none(&self) {
        self.plan.with(|plan| plan.set(Rule::Never, 0));
    }

    /// Allocations tried since the plan was last set.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.plan.with(|plan| plan.calls.get())
    }

    /// What is inside.
    #[must_use]
    pub const fn inner(&self) -> &B {
        &self.inner
    }
}

impl<B: MemBackend> fmt::Debug for FaultInject<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultInject")
            .field("backend", &self.inner.name())
            .field("calls", &self.calls())
            .finish()
    }
}

// SAFETY: every header comes from `inner` and goes back to it, and the wrapper moves only with it.
unsafe impl<B: MemBackend> MemBackend for FaultInject<B> {
    type Policy = B::Policy;

    hand_on! { [inner]; except vend refusal census }

    fn vend(&self, size: usize, hint: AllocHint) -> Option<NonNull<Header<B::Policy>>> {
        let injected = self.plan.with(|plan| {
            let call = plan.call(size);
            if call.is_some() {
                plan.injected.set(plan.injected.get().saturating_add(1));
                plan.largest.set(plan.largest.get().max(size));
            }
            call
        });
        let cause = match injected {
            Some(call) => Cause::Injected(call),
            None => match self.inner.vend(size, hint) {
                Some(header) => return Some(header),
                None => Cause::Inner,
            },
        };
        let who = <B::Policy as SyncPolicy>::who();
        let note = Note {
            who,
            size,
            hint,
            cause,
        };
        self.plan.with(|plan| plan.note(note));
        None
    }

    fn refusal(&self, size: usize, hint: AllocHint) -> AllocError {
        let who = <B::Policy as SyncPolicy>::who();
        match self.plan.with(|plan| plan.take(who, size, hint)) {
            Cause::Injected(call) => AllocError::Injected { call },
            Cause::None | Cause::Inner => self.inner.refusal(size, hint),
        }
    }

    /// The inner census, with the injected refusals added.
    fn census(&self) -> Census {
        let mut census = self.inner.census();
        self.plan.with(|plan| {
            census.refused = census.refused.saturating_add(plan.injected.get());
            census.largest_refused = census.largest_refused.max(plan.largest.get());
        });
        census
    }
}
