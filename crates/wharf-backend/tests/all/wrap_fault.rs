//! Which calls a `FaultInject` refuses, and that everybody is told his own cause.
#![cfg(all(feature = "std", feature = "critical-section"))]

use core::ptr::NonNull;
use std::sync::Barrier;

use wharf_backend::{
    AllocError, AllocHint, BackendExt, Caps, Census, FaultInject, Header, MemBackend, Place,
    StaticPool,
};
use wharf_sync::{Blocking, Critical, Unsync};

/// The calls that are refused, of ten of the sizes 1 to 10.
fn refused(plan: impl FnOnce(&FaultInject<StaticPool<Unsync, 16, 16>>)) -> Vec<u64> {
    let pool = FaultInject::new_const(StaticPool::new());
    // What was called before does not count.
    let _ = pool.alloc(1);
    plan(&pool);
    let mut refused = Vec::new();
    for call in 1..=10 {
        match pool.alloc(usize::try_from(call).unwrap()).err() {
            None => {}
            Some(error) => {
                assert_eq!(error, AllocError::Injected { call });
                refused.push(call);
            }
        }
    }
    assert_eq!(pool.calls(), 10);
    assert_eq!(pool.census().refused, refused.len());
    assert_eq!(
        pool.census().largest_refused as u64,
        refused.last().copied().unwrap_or(0)
    );
    refused
}

#[test]
fn the_nth_every_kth_and_by_size() {
    assert_eq!(refused(|pool| pool.fail_nth(3)), [3]);
    assert_eq!(refused(|pool| pool.fail_nth(0)), [0; 0]);
    assert_eq!(refused(|pool| pool.fail_nth(u64::MAX)), [0; 0]);
    assert_eq!(refused(|pool| pool.fail_every(4)), [4, 8]);
    assert_eq!(
        refused(|pool| pool.fail_every(1)),
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    );
    assert_eq!(refused(|pool| pool.fail_every(0)), [0; 0]);
    assert_eq!(refused(|pool| pool.fail_sizes(9..)), [9, 10]);
    assert_eq!(refused(|pool| pool.fail_sizes(..3)), [1, 2]);
    assert_eq!(refused(|pool| pool.fail_sizes(4..=5)), [4, 5]);
    assert_eq!(refused(|pool| pool.fail_sizes(..0)), [0; 0]);
    let after = (core::ops::Bound::Excluded(8), core::ops::Bound::Unbounded);
    assert_eq!(refused(|pool| pool.fail_sizes(after)), [9, 10]);
    let beyond = (
        core::ops::Bound::Excluded(usize::MAX),
        core::ops::Bound::Unbounded,
    );
    assert_eq!(refused(|pool| pool.fail_sizes(beyond)), [0; 0]);
    // One plan at a time.
    assert_eq!(
        refused(|pool| {
            pool.fail_every(1);
            pool.fail_nth(2);
        }),
        [2]
    );
    assert_eq!(
        refused(|pool| {
            pool.fail_sizes(..);
            pool.fail_none();
        }),
        [0; 0]
    );
}

/// A pool that runs something whenever it is asked for memory, such as an interrupt.
struct Interrupted<F>(StaticPool<Critical, 8, 1>, F);

// SAFETY: every header comes from the pool and goes back to it, and the wrapper moves only with it.
unsafe impl<F: Fn()> MemBackend for Interrupted<F> {
    type Policy = Critical;
    fn vend(&self, size: usize, hint: AllocHint) -> Option<NonNull<Header<Critical>>> {
        (self.1)();
        self.0.vend(size, hint)
    }
    fn refusal(&self, size: usize, hint: AllocHint) -> AllocError {
        self.0.refusal(size, hint)
    }
    unsafe fn reclaim(&self, header: NonNull<Header<Critical>>) {
        // SAFETY: as the caller promises.
        unsafe { self.0.reclaim(header) }
    }
    unsafe fn place(&self, header: NonNull<Header<Critical>>) -> Place {
        // SAFETY: as the caller promises.
        unsafe { self.0.place(header) }
    }
    fn may_own(&self, header: NonNull<Header<Critical>>) -> bool {
        self.0.may_own(header)
    }
    fn caps(&self) -> Caps {
        self.0.caps()
    }
    fn alignment(&self) -> usize {
        self.0.alignment()
    }
    fn max_segment_size(&self) -> usize {
        self.0.max_segment_size()
    }
    fn census(&self) -> Census {
        self.0.census()
    }
    fn name(&self) -> &'static str {
        "interrupted"
    }
}

#[test]
fn an_interrupt_between_a_refusal_and_its_cause_gets_its_own() {
    let exhausted = AllocError::Exhausted {
        requested: 8,
        in_use: 8,
        capacity: 8,
    };
    let pool = FaultInject::new(Interrupted(StaticPool::new(), || ()));
    let held = pool.alloc(8).unwrap();
    pool.fail_nth(1);
    // The thread is refused on order, and interrupted before it asks why.
    assert!(pool.vend(8, AllocHint::NONE).is_none());
    // The interrupt asks for the same, and the pool itself refuses.
    assert!(pool.vend(8, AllocHint::NONE).is_none());
    assert_eq!(pool.refusal(8, AllocHint::NONE), exhausted);
    assert_eq!(
        pool.refusal(8, AllocHint::NONE),
        AllocError::Injected { call: 1 }
    );
    assert_eq!(pool.refusal(8, AllocHint::NONE), exhausted, "told once");

    // The other way round, and told apart by size and hint.
    pool.fail_nth(2);
    assert!(pool.vend(8, AllocHint::NONE).is_none());
    assert!(pool.vend(8, AllocHint(1)).is_none());
    assert_eq!(pool.refusal(8, AllocHint::NONE), exhausted);
    assert_eq!(
        pool.refusal(8, AllocHint(1)),
        AllocError::Injected { call: 2 }
    );
    drop(held);

    // More refusals than there are notes: the oldest is forgotten.
    pool.fail_every(1);
    for size in 0..9 {
        assert!(pool.vend(size, AllocHint::NONE).is_none());
    }
    assert!(matches!(
        pool.refusal(0, AllocHint::NONE),
        AllocError::Exhausted { requested: 0, .. }
    ));
    for size in 1..9 {
        assert_eq!(
            pool.refusal(size, AllocHint::NONE),
            AllocError::Injected {
                call: size as u64 + 1
            }
        );
    }
}

#[test]
fn threads_are_told_their_own_cause() {
    let pool = FaultInject::new(StaticPool::<Blocking, 8, 1>::new());
    let held = pool.alloc(8).unwrap();
    let (vended, asked) = (Barrier::new(2), Barrier::new(2));
    pool.fail_nth(1);
    std::thread::scope(|scope| {
        // The first call, and so the injected refusal, is this thread's.
        assert!(pool.vend(8, AllocHint::NONE).is_none());
        let other = scope.spawn(|| {
            assert!(pool.vend(8, AllocHint::NONE).is_none());
            vended.wait();
            asked.wait();
            pool.refusal(8, AllocHint::NONE)
        });
        vended.wait();
        // Newer, and the other's: passed over.
        let here = pool.refusal(8, AllocHint::NONE);
        asked.wait();
        assert_eq!(here, AllocError::Injected { call: 1 });
        assert!(matches!(
            other.join().unwrap(),
            AllocError::Exhausted { .. }
        ));
    });
    drop(held);
}
