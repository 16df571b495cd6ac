//! How a handle keeps its backend.
//!
//! Invariant: a handle owns one value of its reference type. Shared handles to one segment hold bit
//! copies of that one value, and only the last of them drops it.
#![allow(
    unsafe_code,
    reason = "declares and implements the unsafe trait; no unsafe operation"
)]

#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
use alloc::sync::Arc;

use wharf_sync::SyncPolicy;

use crate::MemBackend;

/// A reference to a backend: it stays alive and where it is for as long as the reference lives.
///
/// | reference | for | work in flight |
/// |---|---|---|
/// | `&'b B` | scoped use: the borrow checker proves that the backend outlives its segments | no |
/// | `&'static B` | firmware | yes |
/// | `Arc<B>` | hosted devices, which may be closed while handles live | yes |
///
/// `B` may be a `dyn MemBackend<Policy = P>`, with `+ Sync` where handles cross threads.
///
/// # Safety
/// * `backend` refers to the same backend for as long as the value lives, wherever it is moved.
/// * A bit copy of the value may be used through a shared reference while the value lives, from every
///   thread that `Self: Sync` allows.
pub unsafe trait BackendRef: Sized {
    /// The policy of the backend.
    type Policy: SyncPolicy;
    /// The backend.
    type Backend: MemBackend<Policy = Self::Policy> + ?Sized;
    /// The backend.
    fn backend(&self) -> &Self::Backend;
}

// SAFETY: a shared reference is what the law describes, and it is `Copy`.
unsafe impl<B: MemBackend + ?Sized> BackendRef for &B {
    type Policy = B::Policy;
    type Backend = B;
    #[inline]
    fn backend(&self) -> &B {
        self
    }
}

// SAFETY: a bit copy of an `Arc` derefs like the original while that one keeps the count up.
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
unsafe impl<B: MemBackend + ?Sized> BackendRef for Arc<B> {
    type Policy = B::Policy;
    type Backend = B;
    #[inline]
    fn backend(&self) -> &B {
        self
    }
}

/// A reference that a reference of type `R` can become, by forgetting which backend it refers to: a `&StaticPool` becomes
/// a `&dyn MemBackend`, an `Arc<Channel>` an `Arc<dyn MemBackend>`, and every reference becomes itself.
///
/// # Safety
/// `erase` refers to the same backend as its argument did, and keeps it as long. (So the policy is the same too; it is not
/// a bound here, because two such bounds on one type would not be told apart.)
pub unsafe trait Erases<R: BackendRef>: BackendRef {
    /// Forgets the type.
    fn erase(reference: R) -> Self;
}

// SAFETY: nothing changes.
unsafe impl<R: BackendRef> Erases<R> for R {
    fn erase(reference: R) -> Self {
        reference
    }
}

// SAFETY: unsizing keeps the referent.
unsafe impl<'b, 'o: 'b, B: MemBackend + 'o> Erases<&'b B>
    for &'b (dyn MemBackend<Policy = B::Policy> + 'o)
{
    fn erase(reference: &'b B) -> Self {
        reference
    }
}

// SAFETY: unsizing keeps the referent.
unsafe impl<'b, 'o: 'b, B: MemBackend + Sync + 'o> Erases<&'b B>
    for &'b (dyn MemBackend<Policy = B::Policy> + Sync + 'o)
{
    fn erase(reference: &'b B) -> Self {
        reference
    }
}

// SAFETY: unsizing keeps the referent and the count.
#[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
unsafe impl<B: MemBackend + Send + Sync + 'static> Erases<Arc<B>>
    for Arc<dyn MemBackend<Policy = B::Policy> + Send + Sync>
{
    fn erase(reference: Arc<B>) -> Self {
        reference
    }
}
