//! A rope that a device reads.
//!
//! Invariant of a [`RopeInFlight`]: the hooks before the access have run for every link, where its backend has any, and those
//! after it run exactly once: when the rope lands or is dropped.
#![allow(
    unsafe_code,
    reason = "calls the backend's unsafe hooks with the range of a view"
)]

use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::Deref;

use wharf_backend::{BackendRef, Caps, IoDirection, MemBackend};
use wharf_source::{BlockSource, NullSource};

use crate::{Rope, View};

/// A rope that was handed over to a device, which reads it. So may everybody else meanwhile: nobody writes shared bytes.
///
/// Where the backend of a link maintains caches ([`Caps::NEEDS_CACHE_OPS`]) its hooks run at both ends, also when the work
/// failed: landing and dropping run the second half. Its links and its bytes are read as those of the rope; they cannot be
/// changed.
///
/// Keep it where the descriptors are. Dropping it may give the memory back, as dropping the rope would: whoever has programmed a
/// device with its [`places`](Rope::places) stops the device first.
///
/// ```
/// # use wharf_backend::{BackendExt, StaticPool};
/// # use wharf_segment::Rope;
/// # use wharf_sync::Unsync;
/// # let pool = StaticPool::<Unsync, 64, 4>::new();
/// let mut frame = Rope::new();
/// # let _ =
/// frame.push(pool.alloc(5)?.init_from(b"hello")?);
/// let frame = frame.hand_over();
/// for (place, len) in frame.places() {
///     // … one descriptor each …
/// }
/// assert_eq!(frame.len(), 5);
/// let mut frame = frame.land();
/// frame.clear();
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[must_use = "dropping it ends the device's access and may give memory back"]
pub struct RopeInFlight<R: BackendRef, S: BlockSource = NullSource, const N: usize = 2> {
    rope: ManuallyDrop<Rope<R, S, N>>,
}

impl<R: BackendRef, S: BlockSource, const N: usize> Rope<R, S, N> {
    /// Hands the bytes over to a device that will read them: what the CPU wrote is brought to where the device finds it.
    pub fn hand_over(self) -> RopeInFlight<R, S, N> {
        for link in self.links() {
            if let Some(backend) = maintained(link) {
                let header = link.segment().header_ptr();
                // SAFETY: the header of a live handle, and the range of a view of it.
                unsafe {
                    backend.before_io(header, link.offset(), link.len(), IoDirection::CpuToDevice);
                }
            }
        }
        RopeInFlight {
            rope: ManuallyDrop::new(self),
        }
    }
}

/// The backend of a link, if it has hooks.
fn maintained<R: BackendRef>(link: &View<R>) -> Option<&R::Backend> {
    let backend = link.segment().backend();
    let maintained = backend.caps().contains(Caps::NEEDS_CACHE_OPS);
    maintained.then_some(backend)
}

impl<R: BackendRef, S: BlockSource, const N: usize> RopeInFlight<R, S, N> {
    /// The device is done, or has failed: the rope may be changed again.
    pub fn land(self) -> Rope<R, S, N> {
        // First, so that a hook that panics is not run again.
        let mut this = ManuallyDrop::new(self);
        this.after();
        // SAFETY: `this` is never used again, so the rope is moved out once.
        unsafe { ManuallyDrop::take(&mut this.rope) }
    }

    fn after(&self) {
        for link in self.rope.links() {
            if let Some(backend) = maintained(link) {
                let header = link.segment().header_ptr();
                // SAFETY: the header of a live handle, and the range of a view of it.
                unsafe {
                    backend.after_io(header, link.offset(), link.len(), IoDirection::CpuToDevice);
                }
            }
        }
    }
}

impl<R: BackendRef, S: BlockSource, const N: usize> Drop for RopeInFlight<R, S, N> {
    fn drop(&mut self) {
        self.after();
        // SAFETY: dropped once, here; `land` does not come here.
        unsafe { ManuallyDrop::drop(&mut self.rope) };
    }
}

impl<R: BackendRef, S: BlockSource, const N: usize> Deref for RopeInFlight<R, S, N> {
    type Target = Rope<R, S, N>;
    fn deref(&self) -> &Rope<R, S, N> {
        &self.rope
    }
}

impl<R: BackendRef, S: BlockSource, const N: usize> fmt::Debug for RopeInFlight<R, S, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RopeInFlight").field(&**self).finish()
    }
}
