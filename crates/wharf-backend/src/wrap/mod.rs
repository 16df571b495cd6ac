//! Wrappers: types around a backend that add one thing to it, and that compose.
//!
//! A bare backend carries none of it, and a program pays for the wrappers that it names. All of them are backends themselves,
//! hand on what they do not change (device memory, cache hooks, alignment), lend `&[u8]` where the inner backend does, and are
//! `Sync` where it is.
//!
//! | wrapper | adds | around |
//! |---|---|---|
//! | [`FaultInject`] | refusals on order | anything |
//! | [`Traced`] | a word to a sink about every vend, refusal, reclaim and transfer | anything |
//! | [`Scrub`] | freed bytes are overwritten | memory that [owns its bytes](OwnsBytes) |
//! | [`Checked`] | canaries, poison, double and foreign releases, leaks | memory that [owns its bytes](OwnsBytes) |
//! | [`Waitable`] | waiting for memory, as a thread or a task | what is [self-contained](SelfContained) |
//! | [`Quota`] | shares, of which none starves another, each of which can be waited for | [equal slots](Slotted) |
//! | [`Shared`] | nothing: a reference is a backend, too, so that the others go around what is not theirs to own | anything |
//!
//! ```
//! use wharf_backend::{BackendExt, StaticPool};
//! use wharf_backend::wrap::{BackendEvent, Checked, Finding, Scrub, Traced, Waitable};
//! use wharf_sync::Unsync;
//!
//! let pool = StaticPool::<Unsync, 96, 4>::new();
//! let pool = Checked::<_, _, 4>::new(pool, |finding: Finding| panic!("{finding}"));
//! let pool = Waitable::new(Traced::new(Scrub::new(pool), |event: BackendEvent| { /* log it */ }));
//! let segment = pool.alloc(5)?.init_from(b"cargo")?;
//! assert_eq!(*segment, *b"cargo");
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # In which order
//! What is outside sees what the user sees; what is inside sees what the memory sees. A [`Traced`] outside of a [`FaultInject`] tells
//! of injected refusals, inside it does not hear of them. A [`Scrub`] outside of a [`Checked`] overwrites the payload, and the
//! canaries are looked at afterwards; inside, it overwrites them, too. A [`Scrub`] goes around a
//! [`Maintained`](crate::Maintained), so that the overwritten bytes reach the memory.
//!
//! # What does not compose, and does not compile
//! Waiting for the heap: nothing of ours makes it have memory again.
//!
//! ```compile_fail,E0277
//! # use wharf_backend::{Heap, wrap::Waitable};
//! # use wharf_sync::Unsync;
//! let heap = Waitable::new(Heap::<Unsync>::new());
//! ```
//!
//! Waiting twice: a waiter of the outer queue would not stand behind those of the inner one.
//!
//! ```compile_fail,E0277
//! # use wharf_backend::{StaticPool, wrap::Waitable};
//! # use wharf_sync::Unsync;
//! let pool = Waitable::new(Waitable::new(StaticPool::<Unsync, 8, 1>::new()));
//! ```
//!
//! Waiting around a share: what it lacks may be freed by another share, and then nobody would be woken. A share can be
//! waited for [as it is](Waits).
//!
//! ```compile_fail,E0277
//! # use wharf_backend::{StaticPool, wrap::{Quota, Waitable}};
//! # use wharf_sync::Unsync;
//! # let quota = Quota::<_, 1>::new(StaticPool::<Unsync, 8, 1>::new());
//! let share = Waitable::new(quota.share(1, 1).unwrap());
//! ```
//!
//! Shares of what can be waited for: its waiters would be nobody's.
//!
//! ```compile_fail,E0277
//! # use wharf_backend::{StaticPool, wrap::{Quota, Waitable}};
//! # use wharf_sync::Unsync;
//! let quota = Quota::<_, 1>::new(Waitable::new(StaticPool::<Unsync, 8, 1>::new()));
//! ```
//!
//! Shares of the heap, which has no capacity to be promised, and shares of a share, which may have less than its limit.
//!
//! ```compile_fail,E0277
//! # use wharf_backend::{Heap, wrap::Quota};
//! # use wharf_sync::Unsync;
//! let quota = Quota::<_, 1>::new(Heap::<Unsync>::new());
//! ```
//! ```compile_fail,E0277
//! # use wharf_backend::{StaticPool, wrap::Quota};
//! # use wharf_sync::Unsync;
//! # let quota = Quota::<_, 1>::new(StaticPool::<Unsync, 8, 1>::new());
//! let nested = Quota::<_, 1>::new(quota.share(1, 1).unwrap());
//! ```
//!
//! Waiting for the blocks of a source, which others may use, and which come back for requests of their own shape alone.
//!
//! ```compile_fail,E0277
//! # use wharf_backend::{SourceBackend, wrap::Waitable};
//! # use wharf_source::NullSource;
//! # use wharf_sync::Unsync;
//! let memory = Waitable::new(SourceBackend::<_, Unsync>::new(NullSource));
//! ```
//!
//! Waiting, or promising, around what others use past the wrapper. Share the [`Waitable`] or the [`Quota`] instead.
//!
//! ```compile_fail,E0277
//! # use wharf_backend::{StaticPool, wrap::{Shared, Waitable}};
//! # use wharf_sync::Unsync;
//! # let pool = StaticPool::<Unsync, 8, 1>::new();
//! let mine = Waitable::new(Shared::new(&pool));
//! ```
//! ```compile_fail,E0277
//! # use wharf_backend::{StaticPool, wrap::{Quota, Shared}};
//! # use wharf_sync::Unsync;
//! # let pool = StaticPool::<Unsync, 8, 1>::new();
//! let mine = Quota::<_, 1>::new(Shared::new(&pool));
//! ```
//!
//! Maintaining the cache around a [`Scrub`]: what it overwrites would stay in the cache, and the secret in the memory.
//!
//! ```compile_fail,E0277
//! # use wharf_backend::{Align32, CacheOps, Maintained, StaticPool, wrap::Scrub};
//! # use wharf_sync::Unsync;
//! fn maintain<H: CacheOps>(pool: StaticPool<Unsync, 64, 4, Align32>, cache: H) {
//!     let pool = Maintained::new(Scrub::new(pool), cache);
//! }
//! ```
//!
//! Scrubbing or checking bytes that may still be somebody's: a backend that does not [own its bytes](OwnsBytes).
//!
//! ```compile_fail,E0277
//! # use wharf_backend::{MemBackend, wrap::Scrub};
//! fn scrub<B: MemBackend>(lent: B) -> Scrub<B> {
//!     Scrub::new(lent)
//! }
//! ```

mod checked;
mod compose;
mod fault;
pub(crate) mod hand_on;
mod host;
mod queue;
mod quota;
mod raw;
mod scrub;
mod shared;
mod traced;
mod wait;

pub use checked::{Checked, Finding, FindingSink};
pub use compose::{OwnsBytes, SelfContained, Slotted};
pub use fault::{FaultInject, Plan};
pub use queue::{WaitList, WaitQueue};
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
pub use quota::CountedShare;
pub use quota::{Book, Quota, QuotaError, QuotaRef, QuotaShare, Share};
pub use scrub::Scrub;
pub use shared::Shared;
pub use traced::{BackendEvent, BackendEventKind, BackendEventPhase, BackendSink, Traced};
pub use wait::{AllocAsync, AllocWaitError, Waitable, Waits, alloc_wait};
