//! A segment that a device has.
//!
//! Invariants of an [`InFlight`]:
//! 1. the range lies in the segment;
//! 2. the hooks before the access have run for it, where the backend has any, and those after it run exactly once: when it
//!    lands or is dropped.
#![allow(
    unsafe_code,
    reason = "calls the backend's unsafe hooks with a range it has checked"
)]

use core::fmt;
use core::mem::ManuallyDrop;

use crate::{
    BackendRef, Caps, DeviceAddress, Init, IoDirection, MemBackend, Place, Returned, SegmentMut,
    State, TransferError, transfer,
};

/// A segment that was handed over to a device, with a range of bytes that the device may touch.
///
/// The CPU reaches the bytes again only when the access has [landed](Self::land), so nothing dirties a cache line that
/// the device writes beside. Where the backend maintains caches ([`Caps::NEEDS_CACHE_OPS`]) the hooks run at both ends, also
/// when the work failed: landing and dropping run the second half.
///
/// Keep it where the descriptor is. Dropping it gives the memory back, as dropping the segment would: whoever has
/// programmed a device with the [`place`](Self::place) stops the device first.
///
/// ```
/// use wharf_backend::{BackendExt, IoDirection, StaticPool};
/// use wharf_sync::Unsync;
///
/// let pool = StaticPool::<Unsync, 64, 4>::new();
/// let frame = pool.alloc(5)?.init_from(b"hello")?;
/// let frame = frame.hand_over(0, 5, IoDirection::CpuToDevice).map_err(|refused| refused.error)?;
/// // … the device reads `frame.len()` bytes at `frame.place()` …
/// let frame = frame.land();
/// assert_eq!(&*frame, b"hello");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// Meanwhile it has no bytes:
///
/// ```compile_fail,E0599
/// # use wharf_backend::{BackendExt, IoDirection, StaticPool};
/// # use wharf_sync::Unsync;
/// # let pool = StaticPool::<Unsync, 64, 4>::new();
/// # let frame = pool.alloc(5).unwrap().filled(0).unwrap();
/// let mut frame = frame.hand_over(0, 5, IoDirection::DeviceToCpu).unwrap();
/// frame.host_mut(); // error: no method named `host_mut`
/// ```
#[must_use = "dropping it ends the device's access and gives the memory back"]
pub struct InFlight<R: BackendRef, S: State = Init> {
    segment: ManuallyDrop<SegmentMut<R, S>>,
    offset: usize,
    len: usize,
    direction: IoDirection,
}

/// Which ways bytes may move. A device that writes may write only a part, or be stopped before it starts: what the CPU
/// had written must then still be there, so it is cleaned before an invalidation would throw it away.
const fn directions<S: State>(direction: IoDirection) -> &'static [IoDirection] {
    use IoDirection::{CpuToDevice, DeviceToCpu};
    match direction {
        CpuToDevice => &[CpuToDevice],
        DeviceToCpu if S::VALUES => &[CpuToDevice, DeviceToCpu],
        DeviceToCpu => &[DeviceToCpu],
    }
}

impl<R: BackendRef, S: State> SegmentMut<R, S> {
    /// Hands bytes `offset..offset + len` over to a device, which will move them in `direction`.
    ///
    /// # Errors
    /// The range leaves the segment, or a device is to write what is read-only. The segment comes back, and no hook ran.
    pub fn hand_over(
        self,
        offset: usize,
        len: usize,
        direction: IoDirection,
    ) -> Result<InFlight<R, S>, Returned<Self, TransferError>> {
        if let Err(error) = transfer::check(offset, len, self.len()) {
            return Err(Returned::new(error, self));
        }
        if direction == IoDirection::DeviceToCpu && !S::WRITABLE {
            return Err(Returned::new(TransferError::ReadOnly, self));
        }
        let backend = self.backend();
        if backend.caps().contains(Caps::NEEDS_CACHE_OPS) {
            for &direction in directions::<S>(direction) {
                // SAFETY: the header of a live handle, and a range in it.
                unsafe { backend.before_io(self.header_ptr(), offset, len, direction) };
            }
        }
        Ok(InFlight {
            segment: ManuallyDrop::new(self),
            offset,
            len,
            direction,
        })
    }
}

impl<R: BackendRef, S: State> InFlight<R, S> {
    /// The device is done, or has failed: the CPU may have the bytes again.
    pub fn land(self) -> SegmentMut<R, S> {
        // First, so that a hook that panics is not run again.
        let mut this = ManuallyDrop::new(self);
        this.after();
        // SAFETY: `this` is never used again, so the segment is moved out once.
        unsafe { ManuallyDrop::take(&mut this.segment) }
    }

    /// Where the first byte of the range is.
    #[must_use]
    pub fn place(&self) -> Place {
        match self.segment.place() {
            // SAFETY: the offset lies in the segment (invariant 1).
            Place::Host(base) => Place::Host(unsafe { base.add(self.offset) }),
            // No wrap: the segment's memory does not wrap, and the offset lies in it.
            Place::Device(base) => Place::Device(DeviceAddress::new(
                base.get().wrapping_add(self.offset as u64),
            )),
        }
    }

    /// Bytes of the range.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether the range has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Which way the device moves them.
    #[must_use]
    pub const fn direction(&self) -> IoDirection {
        self.direction
    }

    fn after(&self) {
        let backend = self.segment.backend();
        if backend.caps().contains(Caps::NEEDS_CACHE_OPS) {
            let header = self.segment.header_ptr();
            for &direction in directions::<S>(self.direction).iter().rev() {
                // SAFETY: the header of a live handle, and a range in it (invariant 1).
                unsafe { backend.after_io(header, self.offset, self.len, direction) };
            }
        }
    }
}

impl<R: BackendRef, S: State> Drop for InFlight<R, S> {
    fn drop(&mut self) {
        self.after();
        // SAFETY: dropped once, here; `land` does not come here.
        unsafe { ManuallyDrop::drop(&mut self.segment) };
    }
}

impl<R: BackendRef, S: State> fmt::Debug for InFlight<R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlight")
            .field("segment", &*self.segment)
            .field("offset", &self.offset)
            .field("len", &self.len)
            .field("direction", &self.direction)
            .finish()
    }
}
