//! A backend that others use, too.
#![allow(
    unsafe_code,
    reason = "implements the unsafe trait by handing everything on"
)]

use core::fmt;

use super::hand_on::hand_on;
use super::{OwnsBytes, WaitQueue, Waits};
use crate::{BackendRef, MemBackend};

/// A reference to a backend as a backend: what the other wrappers are put around where the backend is not theirs to own.
/// A device hands out its memory by `Arc`, and everybody who has one may wrap his:
///
/// ```
/// # #[cfg(feature = "std")] {
/// use std::sync::Arc;
/// use wharf_backend::{BackendExt, FaultInject, MemBackend, Scrub, SegmentMut, Shared, StaticPool};
/// use wharf_sync::Blocking;
///
/// let memory = Arc::new(StaticPool::<Blocking, 64, 4>::new()); // everybody's
/// let secrets = Scrub::new(Shared::new(Arc::clone(&memory)));
/// let flaky = FaultInject::new(Shared::new(&*memory));
/// flaky.fail_every(1);
///
/// let key = secrets.alloc(6)?.init_from(b"secret")?;
/// let plain = SegmentMut::alloc(Arc::clone(&memory), 64)?;
/// assert!(flaky.alloc(1).is_err());
/// assert_eq!(memory.census().in_use, 2);
/// # }
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// `R` is any reference that a handle may keep: `&'static B`, `&'b B`, `Arc<B>`, of a `dyn` backend too. A wrapper affects what is
/// taken through *it*; the others' segments go past it. So only those fit around it for which that is enough:
///
/// * [`FaultInject`](super::FaultInject), [`Traced`](super::Traced), [`Scrub`](super::Scrub), [`Checked`](super::Checked) and
///   [`Maintained`](crate::Maintained) do.
/// * [`Waitable`](super::Waitable) does not: memory that others give back would wake nobody. A backend that many use is waited for
///   where all of them give back: put the `Waitable` (or the `Quota`) inside of the `Arc`, or, where the device makes the
///   `Arc`, have the device implement [`Waits`]. What is waited for like that stays so through a `Shared`.
/// * [`Quota`](super::Quota) does not: what others take would break its promises.
#[derive(Clone, Copy)]
pub struct Shared<R> {
    reference: R,
}

impl<R: BackendRef> Shared<R> {
    /// The backend behind `reference`.
    pub const fn new(reference: R) -> Self {
        Self { reference }
    }

    /// What is behind the reference.
    #[must_use]
    #[inline]
    pub fn inner(&self) -> &R::Backend {
        self.reference.backend()
    }

    /// The reference.
    #[must_use]
    pub const fn reference(&self) -> &R {
        &self.reference
    }

    /// The reference again.
    #[must_use]
    pub fn into_reference(self) -> R {
        self.reference
    }
}

impl<R: BackendRef> fmt::Debug for Shared<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("backend", &self.inner().name())
            .field("census", &self.inner().census())
            .finish()
    }
}

// SAFETY: every header comes from the one backend that the reference refers to for as long as it lives, and goes back to it; that
// one stays where it is, wherever this is moved. Between threads: by the reference, whose law that is.
unsafe impl<R: BackendRef> MemBackend for Shared<R> {
    type Policy = R::Policy;

    hand_on! { [inner()]; except }
}

impl<R: BackendRef> OwnsBytes for Shared<R> where R::Backend: OwnsBytes {}

impl<R: BackendRef> Waits for Shared<R>
where
    R::Backend: Waits,
{
    fn waiters(&self) -> &WaitQueue<R::Policy> {
        self.inner().waiters()
    }
}
