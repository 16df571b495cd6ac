//! A source that fails when told to: the tool of every exhaustion sweep.
#![allow(
    unsafe_code,
    reason = "implements the unsafe trait by handing everything on"
)]

use core::alloc::Layout;
use core::cell::Cell;
use core::fmt;
use core::ptr::NonNull;

use wharf_sync::{ConstInit, Lock, SyncPolicy, Unsync};

use crate::{BlockSource, Census, SourceError};

/// A wrapper around a source that refuses the requests it is told to. `P` protects its plan, for sources
/// that are shared.
///
/// ```
/// use wharf_source::{BlockArray, FaultSource, SourceError, StaticPoolSource};
/// use wharf_sync::Unsync;
///
/// let pool = StaticPoolSource::<Unsync, 1024, 4>::new();
/// let source = FaultSource::<_>::new(&pool);
/// source.fail_nth(2);
/// let mut array = BlockArray::new(&source);
/// for n in 0..8 {
///     array.push(n).unwrap();
/// }
/// // The ninth needs a second block. The value comes back, and the array is as it was.
/// let (error, value) = array.push(8).unwrap_err();
/// assert_eq!(error, SourceError::Injected { requested: 64, call: 2 });
/// assert_eq!((value, array.len()), (8, 8));
/// array.push(value).unwrap();
/// ```
///
/// The sweep runs a piece of code once to learn its number of [`calls`](Self::calls), then once for each call with
/// [`fail_nth`](Self::fail_nth), and looks each time whether anything is lost.
///
/// Requests for no bytes are neither counted nor refused: no source may refuse them.
pub struct FaultSource<S: BlockSource, P: SyncPolicy = Unsync> {
    inner: S,
    plan: P::Lock<Plan>,
}

/// What the lock of a [`FaultSource`] guards.
#[derive(Debug)]
struct Plan {
    calls: Cell<u64>,
    /// The call to refuse; zero: none.
    nth: Cell<u64>,
    /// Calls that are multiples of this are refused; zero: none.
    every: Cell<u64>,
    /// Requests for more bytes are refused.
    above: Cell<usize>,
    /// The call that was refused last, until somebody asked why; zero: none.
    failed: Cell<u64>,
    injected: Cell<usize>,
    largest: Cell<usize>,
}

impl ConstInit for Plan {
    const INIT: Self = Self {
        calls: Cell::new(0),
        nth: Cell::new(0),
        every: Cell::new(0),
        above: Cell::new(usize::MAX),
        failed: Cell::new(0),
        injected: Cell::new(0),
        largest: Cell::new(0),
    };
}

impl Plan {
    /// Counts a call; whether to refuse it.
    fn refuses(&self, size: usize) -> bool {
        let call = self.calls.get().saturating_add(1);
        self.calls.set(call);
        let every = self.every.get();
        let refuses = call == self.nth.get()
            || (every != 0 && call.is_multiple_of(every))
            || size > self.above.get();
        if refuses {
            self.injected.set(self.injected.get().saturating_add(1));
            self.largest.set(self.largest.get().max(size));
        }
        // Also where the inner source refuses afterwards, whose cause must not be taken for ours.
        self.failed.set(if refuses { call } else { 0 });
        refuses
    }

    fn restart(&self) {
        self.calls.set(0);
        self.failed.set(0);
        self.nth.set(0);
        self.every.set(0);
        self.above.set(usize::MAX);
    }
}

impl<S: BlockSource, P: SyncPolicy> FaultSource<S, P> {
    /// Around `inner`; nothing fails yet.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            plan: Lock::new(Plan::INIT),
        }
    }

    /// Refuses the `nth` request from now on, counted from one, and nothing else; zero: nothing.
    pub fn fail_nth(&self, nth: u64) {
        self.plan.with(|plan| {
            plan.restart();
            plan.nth.set(nth);
        });
    }

    /// Refuses every `k`th request from now on, and nothing else; zero: nothing.
    pub fn fail_every(&self, k: u64) {
        self.plan.with(|plan| {
            plan.restart();
            plan.every.set(k);
        });
    }

    /// Refuses requests for more than `bytes` from now on, and nothing else.
    pub fn fail_above(&self, bytes: usize) {
        self.plan.with(|plan| {
            plan.restart();
            plan.above.set(bytes);
        });
    }

    /// Requests since it was last told what to refuse, met or not.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.plan.with(|plan| plan.calls.get())
    }

    /// Requests that it refused itself, ever.
    #[must_use]
    pub fn injected(&self) -> usize {
        self.plan.with(|plan| plan.injected.get())
    }

    /// What is inside.
    #[must_use]
    pub const fn inner(&self) -> &S {
        &self.inner
    }
}

// SAFETY: every block comes from `inner` and goes back to it, and the wrapper moves only with it.
unsafe impl<S: BlockSource, P: SyncPolicy> BlockSource for FaultSource<S, P> {
    fn try_alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        if layout.size() != 0 && self.plan.with(|plan| plan.refuses(layout.size())) {
            return None;
        }
        self.inner.try_alloc(layout)
    }
    unsafe fn release(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { self.inner.release(block, layout) }
    }
    fn refusal(&self, layout: Layout) -> SourceError {
        match self.plan.with(|plan| plan.failed.get()) {
            0 => self.inner.refusal(layout),
            call => SourceError::Injected {
                requested: layout.size(),
                call,
            },
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
    fn name(&self) -> &'static str {
        self.inner.name()
    }
}

impl<S: BlockSource, P: SyncPolicy> fmt::Debug for FaultSource<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the numbers: printing must not enter a section.
        f.debug_struct("FaultSource")
            .field("inner", &self.inner.name())
            .field("policy", &P::NAME)
            .finish_non_exhaustive()
    }
}
