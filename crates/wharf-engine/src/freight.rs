//! Cargo that says itself which operands it is.
//!
//! Invariant of a [`Freight`]: while it is under way its segment is touched by the engine alone: nothing here lends it.
#![allow(
    unsafe_code,
    reason = "declares and implements the unsafe trait; calls the backend's cache hooks"
)]

use core::fmt;

use heapless::Vec;
use wharf_backend::{BackendRef, Caps, IoDirection, MemBackend, Place, SegmentMut};

use crate::{Access, Cargo, Fault, MAX_OPERANDS, Operand};

/// A list of operands under construction: see [`Manifest::list`].
#[derive(Debug, Default)]
pub struct Operands {
    list: Vec<Operand, MAX_OPERANDS>,
    count: usize,
    /// The first of which nobody says that engines find it where it is.
    unaddressed: Option<usize>,
}

impl Operands {
    /// One more. Those past [`MAX_OPERANDS`] are only counted, and make the submission fail.
    pub fn add(&mut self, operand: Operand) {
        self.count += 1;
        // Its failure is the count.
        let _ = self.list.push(operand);
    }

    /// What was added last has no address that an engine may be given.
    fn unaddressed(&mut self) {
        self.unaddressed = self.unaddressed.or(self.count.checked_sub(1));
    }

    /// The first operand that no engine reaches, if there is one.
    pub(crate) const fn unreachable(&self) -> Option<usize> {
        self.unaddressed
    }

    pub(crate) fn list(&self) -> Result<&[Operand], usize> {
        if self.count > self.list.len() {
            return Err(self.count);
        }
        Ok(&self.list)
    }
}

/// Cargo that owns every operand of its descriptor, so that submitting it is safe: what the engine touches cannot go away
/// before the engine has let go, because it *is* what the engine keeps.
///
/// Implemented for [`Freight`], and for options, arrays and pairs of such cargo; an engine whose cargo is
/// `[Option<Freight<R>>; 4]` takes any command on up to four segments.
///
/// # Safety
/// Each operand that [`list`](Self::list) adds is memory that this cargo keeps alive; it stays valid and where it is, its bytes
/// initialised, while the cargo lives, wherever the cargo is moved. While the cargo is under way nobody writes it but the engine. One
/// that is to be written ([`Access::Write`]) nobody else reads either, and no safe code reaches it through the cargo; what is
/// only read ([`Access::Read`]) others may read as well, such as those who share a segment. One in device space is of a
/// backend that says [`Caps::ENGINE_ADDRESSED`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which operands it is",
    note = "wrap owned segments: `Freight::read(segment)` or `Freight::write(segment)`; or use the unsafe `Engine::submit`"
)]
pub unsafe trait Manifest: Cargo {
    /// Adds its operands, in order.
    fn list(&self, operands: &mut Operands);

    /// The engine is about to get it: prepares caches. [`Cargo::landed`] is the other end, and is called by the front if the
    /// engine refuses.
    fn depart(&mut self);
}

/// A segment that an engine is to read or to write. While the engine has it, nobody else does: that is what makes
/// [`EngineExt::ship`](crate::EngineExt::ship) safe.
///
/// Where the segment's backend maintains caches, they are maintained when it departs and when it lands.
pub struct Freight<R: BackendRef> {
    segment: SegmentMut<R>,
    access: Access,
    under_way: bool,
}

impl<R: BackendRef> Freight<R> {
    /// To be read.
    #[must_use]
    pub const fn read(segment: SegmentMut<R>) -> Self {
        Self::new(segment, Access::Read)
    }

    /// To be written, and perhaps read first.
    #[must_use]
    pub const fn write(segment: SegmentMut<R>) -> Self {
        Self::new(segment, Access::Write)
    }

    const fn new(segment: SegmentMut<R>, access: Access) -> Self {
        Self {
            segment,
            access,
            under_way: false,
        }
    }

    /// The segment.
    pub fn into_segment(self) -> SegmentMut<R> {
        self.segment
    }

    /// What the engine does with it.
    #[must_use]
    pub const fn access(&self) -> Access {
        self.access
    }

    /// Which ways bytes may move. An engine that writes may write a part, or be taken back before it starts: so what the
    /// CPU wrote must reach the memory before an invalidation throws it away.
    const fn directions(&self) -> &'static [IoDirection] {
        match self.access {
            Access::Read => &[IoDirection::CpuToDevice],
            Access::Write => &[IoDirection::CpuToDevice, IoDirection::DeviceToCpu],
        }
    }

    fn maintained(&self) -> Option<&R::Backend> {
        let backend = self.segment.backend();
        let maintained = backend.caps().contains(Caps::NEEDS_CACHE_OPS);
        maintained.then_some(backend)
    }
}

impl<R: BackendRef> Cargo for Freight<R> {
    fn landed(&mut self, _: Result<(), Fault>) {
        if !core::mem::replace(&mut self.under_way, false) {
            return;
        }
        let Some(backend) = self.maintained() else {
            return;
        };
        let (header, len) = (self.segment.header_ptr(), self.segment.len());
        for &direction in self.directions().iter().rev() {
            // SAFETY: the header of a live handle, and all of its bytes.
            unsafe { backend.after_io(header, 0, len, direction) };
        }
    }
}

// SAFETY: a unique segment, initialised by its state. It points to its bytes, so they stay when it is moved. It is private,
// and comes out only by `into_segment`, which takes the cargo: an engine does not let go of one that is under way. One whose
// backend does not answer for its addresses makes the submission fail.
unsafe impl<R: BackendRef> Manifest for Freight<R> {
    fn list(&self, operands: &mut Operands) {
        let place = self.segment.place();
        operands.add(Operand {
            place,
            len: self.segment.len(),
            access: self.access,
        });
        let answers = || self.segment.backend().caps();
        if matches!(place, Place::Device(_)) && !answers().contains(Caps::ENGINE_ADDRESSED) {
            operands.unaddressed();
        }
    }

    fn depart(&mut self) {
        if let Some(backend) = self.maintained() {
            let (header, len) = (self.segment.header_ptr(), self.segment.len());
            for &direction in self.directions() {
                // SAFETY: the header of a live handle, and all of its bytes.
                unsafe { backend.before_io(header, 0, len, direction) };
            }
        }
        self.under_way = true;
    }
}

impl<R: BackendRef> fmt::Debug for Freight<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Freight")
            .field("segment", &self.segment)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

// SAFETY: no operand.
unsafe impl Manifest for () {
    fn list(&self, _: &mut Operands) {}
    fn depart(&mut self) {}
}

// SAFETY: as the one inside.
unsafe impl<M: Manifest> Manifest for Option<M> {
    fn list(&self, operands: &mut Operands) {
        if let Some(cargo) = self {
            cargo.list(operands);
        }
    }
    fn depart(&mut self) {
        if let Some(cargo) = self {
            cargo.depart();
        }
    }
}

// SAFETY: as those inside.
unsafe impl<M: Manifest, const N: usize> Manifest for [M; N] {
    fn list(&self, operands: &mut Operands) {
        for cargo in self {
            cargo.list(operands);
        }
    }
    fn depart(&mut self) {
        for cargo in self {
            cargo.depart();
        }
    }
}

// SAFETY: as those inside.
unsafe impl<A: Manifest, B: Manifest> Manifest for (A, B) {
    fn list(&self, operands: &mut Operands) {
        self.0.list(operands);
        self.1.list(operands);
    }
    fn depart(&mut self) {
        self.0.depart();
        self.1.depart();
    }
}
