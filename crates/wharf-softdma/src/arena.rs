//! The bytes of the device.
//!
//! Invariants of an [`Arena`]:
//! 1. `start` is the first of `len` bytes of one live allocation, `allocation`, made with `layout`. They are all
//!    initialised: they start as zero, and only bytes with values are written to them;
//! 2. `base + len` does not wrap, and no other arena of the program has, or had, an address in `base..base + len`;
//! 3. no reference to the bytes is formed here: they move through raw pointers. References exist only on the
//!    device's worker, to the operands of the one descriptor that runs.
#![allow(unsafe_code, reason = "owns the allocation and copies to and from it")]

use core::alloc::Layout;
use core::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use wharf_backend::DeviceAddress;

use crate::OpenError;

/// What addresses and sizes are multiples of.
pub(crate) const GRANULE: usize = 64;

/// The alignment for which the platform's heap has zeroed pages at hand. For a larger one it would write all of
/// them, which for gigabytes that are never used is a long time.
const HEAP_ALIGN: usize = 16;

/// The most bytes of an arena: whole granules, of which the allocation has one more.
const MAX: usize = (isize::MAX.unsigned_abs() - HEAP_ALIGN) / GRANULE * GRANULE - GRANULE;

/// The address of the first device's first byte. Far from zero, so that a mere offset is never an address.
const FIRST_ADDRESS: u64 = 0x1000_0000_0000;
/// Address ranges start at multiples of this, and at least as much stays unused behind each.
const ADDRESS_STEP: u64 = 1 << 32;

static NEXT_ADDRESS: Mutex<u64> = Mutex::new(FIRST_ADDRESS);

pub(crate) struct Arena {
    start: NonNull<u8>,
    len: usize,
    base: DeviceAddress,
    allocation: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the arena owns its allocation, and a heap allocation may be used and freed from any thread.
unsafe impl Send for Arena {}
// SAFETY: the bytes are reached through `unsafe` functions only, whose callers keep conflicting accesses apart.
unsafe impl Sync for Arena {}

/// Takes the next range of addresses for `len` bytes.
fn claim_addresses(next: &mut u64, len: usize) -> Option<DeviceAddress> {
    let base = *next;
    let end = base.checked_add(u64::try_from(len).ok()?)?;
    *next = end
        .checked_next_multiple_of(ADDRESS_STEP)?
        .checked_add(ADDRESS_STEP)?;
    Some(DeviceAddress::new(base))
}

impl Arena {
    /// `requested` bytes, rounded up to whole granules, of value zero.
    pub(crate) fn new(requested: usize) -> Result<Self, OpenError> {
        if requested == 0 {
            return Err(OpenError::NoMemory);
        }
        if requested > MAX {
            let max = MAX;
            return Err(OpenError::TooLarge { requested, max });
        }
        let len = requested.next_multiple_of(GRANULE);
        let layout = Layout::from_size_align(len + GRANULE, HEAP_ALIGN)
            .map_err(|_| OpenError::Memory { requested })?;
        // SAFETY: the layout is not of zero size.
        let allocation = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
            .ok_or(OpenError::Memory { requested })?;
        let skipped = allocation.addr().get().next_multiple_of(GRANULE) - allocation.addr().get();
        let mut arena = Self {
            // SAFETY: less than a granule, of which there is one to spare.
            start: unsafe { allocation.add(skipped) },
            len,
            base: DeviceAddress::new(0),
            allocation,
            layout,
        };
        let mut next = NEXT_ADDRESS.lock().unwrap_or_else(PoisonError::into_inner);
        arena.base = claim_addresses(&mut next, len).ok_or(OpenError::NoAddresses { requested })?;
        Ok(arena)
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn base(&self) -> DeviceAddress {
        self.base
    }

    /// Where the host finds `len` bytes at `address`, if all of them are here. The pointer has provenance over the
    /// arena; following it is up to the caller.
    pub(crate) fn locate(&self, address: DeviceAddress, len: usize) -> Option<NonNull<u8>> {
        let offset = address.get().checked_sub(self.base.get())?;
        let offset = usize::try_from(offset).ok()?;
        if offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: at most one past the last byte, by invariant 1.
        Some(unsafe { self.start.add(offset) })
    }

    /// Copies from host memory. `false` if the range is not here.
    ///
    /// # Safety
    /// `source` is valid for reads of `len` initialised bytes outside of the arena, and nobody else accesses the range
    /// meanwhile.
    pub(crate) unsafe fn copy_in(
        &self,
        address: DeviceAddress,
        source: NonNull<u8>,
        len: usize,
    ) -> bool {
        let Some(destination) = self.locate(address, len) else {
            return false;
        };
        // SAFETY: invariant 1 for the destination; the rest as the caller promises.
        unsafe { destination.copy_from_nonoverlapping(source, len) };
        true
    }

    /// Copies to host memory. `false` if the range is not here.
    ///
    /// # Safety
    /// `destination` is valid for writes of `len` bytes outside of the arena, and nobody else writes the range
    /// meanwhile.
    pub(crate) unsafe fn copy_out(
        &self,
        address: DeviceAddress,
        destination: NonNull<u8>,
        len: usize,
    ) -> bool {
        let Some(source) = self.locate(address, len) else {
            return false;
        };
        // SAFETY: invariant 1 for the source; the rest as the caller promises.
        unsafe { source.copy_to_nonoverlapping(destination, len) };
        true
    }

    /// Sets bytes. `false` if the range is not here.
    ///
    /// # Safety
    /// Nobody else accesses the range meanwhile.
    pub(crate) unsafe fn fill(&self, address: DeviceAddress, len: usize, byte: u8) -> bool {
        let Some(destination) = self.locate(address, len) else {
            return false;
        };
        // SAFETY: invariant 1, and as the caller promises.
        unsafe { destination.write_bytes(byte, len) };
        true
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: invariant 1; nobody can reach the bytes any more without the arena.
        unsafe { std::alloc::dealloc(self.allocation.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_ranges_are_apart_and_end() {
        let mut next = FIRST_ADDRESS;
        let claimed = [1, GRANULE, 5 << 20].map(|len| claim_addresses(&mut next, len));
        let at = |step: u64| Some(DeviceAddress::new(FIRST_ADDRESS + step * ADDRESS_STEP));
        assert_eq!(claimed, [at(0), at(2), at(4)]);
        let mut next = u64::MAX - 100;
        assert_eq!(claim_addresses(&mut next, 128), None, "would wrap");
        assert_eq!(claim_addresses(&mut next, 64), None, "leaves no gap");
    }

    #[test]
    fn ranges_are_located_exactly() {
        let arena = Arena::new(100).unwrap();
        assert_eq!(arena.len(), 128);
        let base = arena.base();
        let at = |offset: u64| base.checked_add(offset).unwrap();
        let start = arena.locate(base, 128).unwrap();
        assert_eq!(start.addr().get() % GRANULE, 0);
        let inner = arena.locate(at(65), 63).unwrap();
        assert_eq!(inner.addr().get() - start.addr().get(), 65);
        assert!(arena.locate(at(128), 0).is_some(), "no bytes at the end");
        assert!(arena.locate(at(128), 1).is_none());
        assert!(arena.locate(at(65), 64).is_none());
        assert!(arena.locate(at(1), usize::MAX).is_none(), "would wrap");
        assert!(
            arena
                .locate(DeviceAddress::new(base.get() - 1), 1)
                .is_none()
        );
        assert!(arena.locate(DeviceAddress::new(0), 1).is_none());
        assert!(arena.locate(DeviceAddress::new(u64::MAX), 1).is_none());
    }

    #[test]
    fn memory_starts_as_zero_and_sizes_are_checked() {
        let arena = Arena::new(200).unwrap();
        let mut bytes = [1_u8; 200];
        // SAFETY: a live array of that length; nobody else knows the arena.
        assert!(unsafe { arena.copy_out(arena.base(), NonNull::from(&mut bytes).cast(), 200) });
        assert_eq!(bytes, [0; 200]);
        assert_eq!(Arena::new(0).err(), Some(OpenError::NoMemory));
        for requested in [usize::MAX, isize::MAX.unsigned_abs(), MAX + 1] {
            let refused = OpenError::TooLarge {
                requested,
                max: MAX,
            };
            assert_eq!(Arena::new(requested).err(), Some(refused));
        }
        for requested in [MAX, MAX - 1] {
            let refused = OpenError::Memory { requested };
            assert_eq!(Arena::new(requested).err(), Some(refused));
        }
    }
}
