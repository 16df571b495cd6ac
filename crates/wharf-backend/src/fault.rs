//! A backend that fails when told to: the tool of every exhaustion sweep.
#![allow(
    unsafe_code,
    reason = "implements the unsafe traits by handing everything on"
)]

use core::cell::Cell;
use core::fmt;
use core::ptr::NonNull;

use wharf_source::Census;
use wharf_sync::{Lock, SyncPolicy};

use crate::{
    AllocError, AllocHint, Caps, Header, HostBackend, IoDirection, MemBackend, MemSpace, OwnLines,
    Place, TransferError,
};

/// A wrapper around a backend that refuses the allocation it is told to.
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
/// # Ok::<(), AllocError>(())
/// ```
pub struct FaultInject<B: MemBackend> {
    inner: B,
    plan: <B::Policy as SyncPolicy>::Lock<Plan>,
}

/// The plan of a [`FaultInject`]. Opaque; public because it is behind the policy's lock.
#[derive(Debug)]
struct Plan {
    calls: Cell<u64>,
    /// The call to refuse; zero: none.
    nth: Cell<u64>,
    /// The call that was refused last; zero: none.
    failed: Cell<u64>,
    injected: Cell<usize>,
    largest: Cell<usize>,
}

impl<B: MemBackend> FaultInject<B> {
    /// Around `inner`; nothing fails yet.
    pub fn new(inner: B) -> Self {
        Self {
            inner,
            plan: Lock::new(Plan {
                calls: Cell::new(0),
                nth: Cell::new(0),
                failed: Cell::new(0),
                injected: Cell::new(0),
                largest: Cell::new(0),
            }),
        }
    }

    /// Refuses the `nth` allocation from now on, counted from one; zero: none.
    pub fn fail_nth(&self, nth: u64) {
        self.plan.with(|plan| {
            plan.calls.set(0);
            plan.failed.set(0);
            plan.nth.set(nth);
        });
    }

    /// Allocations tried since the last [`fail_nth`](Self::fail_nth).
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

impl<B: MemBackend + fmt::Debug> fmt::Debug for FaultInject<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultInject")
            .field("inner", &self.inner)
            .field("calls", &self.calls())
            .finish()
    }
}

// SAFETY: every header comes from `inner` and goes back to it, and the wrapper moves only with it.
unsafe impl<B: MemBackend> MemBackend for FaultInject<B> {
    type Policy = B::Policy;

    fn vend(&self, size: usize, hint: AllocHint) -> Option<NonNull<Header<B::Policy>>> {
        let refuse = self.plan.with(|plan| {
            let call = plan.calls.get().wrapping_add(1);
            plan.calls.set(call);
            let refuse = call == plan.nth.get();
            if refuse {
                plan.failed.set(call);
                plan.injected.set(plan.injected.get().saturating_add(1));
                plan.largest.set(plan.largest.get().max(size));
            }
            refuse
        });
        if refuse {
            return None;
        }
        self.inner.vend(size, hint)
    }

    fn refusal(&self, size: usize, hint: AllocHint) -> AllocError {
        match self.plan.with(|plan| plan.failed.replace(0)) {
            0 => self.inner.refusal(size, hint),
            call => AllocError::Injected { call },
        }
    }

    unsafe fn reclaim(&self, header: NonNull<Header<B::Policy>>) {
        // SAFETY: as the caller promises.
        unsafe { self.inner.reclaim(header) }
    }
    unsafe fn place(&self, header: NonNull<Header<B::Policy>>) -> Place {
        // SAFETY: as the caller promises.
        unsafe { self.inner.place(header) }
    }
    fn may_own(&self, header: NonNull<Header<B::Policy>>) -> bool {
        self.inner.may_own(header)
    }
    fn caps(&self) -> Caps {
        self.inner.caps()
    }
    fn space(&self) -> MemSpace {
        self.inner.space()
    }
    fn alignment(&self) -> usize {
        self.inner.alignment()
    }
    fn max_segment_size(&self) -> usize {
        self.inner.max_segment_size()
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
    unsafe fn before_io(
        &self,
        header: NonNull<Header<B::Policy>>,
        offset: usize,
        len: usize,
        direction: IoDirection,
    ) {
        // SAFETY: as the caller promises.
        unsafe { self.inner.before_io(header, offset, len, direction) }
    }
    unsafe fn after_io(
        &self,
        header: NonNull<Header<B::Policy>>,
        offset: usize,
        len: usize,
        direction: IoDirection,
    ) {
        // SAFETY: as the caller promises.
        unsafe { self.inner.after_io(header, offset, len, direction) }
    }
    unsafe fn copy_in(
        &self,
        header: NonNull<Header<B::Policy>>,
        offset: usize,
        source: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        // SAFETY: as the caller promises.
        unsafe { self.inner.copy_in(header, offset, source, len) }
    }
    unsafe fn copy_out(
        &self,
        header: NonNull<Header<B::Policy>>,
        offset: usize,
        destination: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        // SAFETY: as the caller promises.
        unsafe { self.inner.copy_out(header, offset, destination, len) }
    }
    unsafe fn fill(
        &self,
        header: NonNull<Header<B::Policy>>,
        offset: usize,
        len: usize,
        byte: u8,
    ) -> Result<(), TransferError> {
        // SAFETY: as the caller promises.
        unsafe { self.inner.fill(header, offset, len, byte) }
    }
}

// SAFETY: the places are the inner ones.
unsafe impl<B: HostBackend> HostBackend for FaultInject<B> {}

// SAFETY: the segments are the inner ones.
unsafe impl<B: OwnLines> OwnLines for FaultInject<B> {
    fn granule(&self) -> usize {
        self.inner.granule()
    }
}
