//! The bytes of a channel.
//!
//! Invariants of an [`Arena`]:
//! 1. the backing, if there is one, is the first of `len` bytes of one live allocation, made with `layout`. They are all
//!    initialised: they start as zero, and only bytes with values are written to them;
//! 2. `base + len` does not wrap, and while the claim lives no other arena of the program has an address of it;
//! 3. no reference to the bytes is formed here: they move through raw pointers. References exist only on the
//!    device's worker, to the operands of the one descriptor that runs.
#![allow(unsafe_code, reason = "owns the allocation and copies to and from it")]

use core::alloc::Layout;
use core::ptr::NonNull;

use wharf_backend::DeviceAddress;
use wharf_backend::usage::ChannelId;

use crate::addresses::Claim;
use crate::{ChannelConfig, OpenError};

/// What addresses and sizes are multiples of.
pub(crate) const GRANULE: usize = 64;

/// The alignment for which the platform's heap has zeroed pages at hand. For a larger one it would write all of
/// them, which for gigabytes that are never used is a long time.
const HEAP_ALIGN: usize = 16;

/// The most bytes of an arena with bytes: whole granules, of which the allocation has one more.
const MAX: usize = (isize::MAX.unsigned_abs() - HEAP_ALIGN) / GRANULE * GRANULE - GRANULE;
/// The most bytes of one without.
const MAX_PLANNED: usize = usize::MAX / GRANULE * GRANULE;

pub(crate) struct Arena {
    backing: Option<Backing>,
    len: usize,
    claim: Claim,
}

struct Backing {
    start: NonNull<u8>,
    allocation: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the arena owns its allocation, and a heap allocation may be used and freed from any thread.
unsafe impl Send for Arena {}
// SAFETY: the bytes are reached through `unsafe` functions only, whose callers keep conflicting accesses apart.
unsafe impl Sync for Arena {}

impl Backing {
    /// `len` bytes, at most [`MAX`] and not none, of value zero.
    fn new(len: usize) -> Result<Self, OpenError> {
        let refused = OpenError::Memory { requested: len };
        let layout = Layout::from_size_align(len + GRANULE, HEAP_ALIGN).map_err(|_| refused)?;
        // SAFETY: the layout is not of zero size.
        let allocation =
            NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).ok_or(refused)?;
        let skipped = allocation.addr().get().next_multiple_of(GRANULE) - allocation.addr().get();
        Ok(Self {
            // SAFETY: less than a granule, of which there is one to spare.
            start: unsafe { allocation.add(skipped) },
            allocation,
            layout,
        })
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        // SAFETY: invariant 1; nobody can reach the bytes any more without the arena.
        unsafe { std::alloc::dealloc(self.allocation.as_ptr(), self.layout) };
    }
}

impl Arena {
    /// As configured, rounded up to whole granules, of value zero.
    pub(crate) fn new(id: ChannelId, config: &ChannelConfig) -> Result<Self, OpenError> {
        let requested = config.memory;
        if requested == 0 {
            return Err(OpenError::NoMemory);
        }
        let max = if config.bytes { MAX } else { MAX_PLANNED };
        if requested > max {
            return Err(OpenError::TooLarge { requested, max });
        }
        if let Some(base) = config.base
            && !base.get().is_multiple_of(GRANULE as u64)
        {
            let granule = GRANULE;
            return Err(OpenError::BaseUnaligned { base, granule });
        }
        let len = requested.next_multiple_of(GRANULE);
        let backing = if config.bytes {
            // Told in the bytes that were asked for.
            let told = |_| OpenError::Memory { requested };
            Some(Backing::new(len).map_err(told)?)
        } else {
            None
        };
        let claim = Claim::new(id, config.base, len)?;
        Ok(Self {
            backing,
            len,
            claim,
        })
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn base(&self) -> DeviceAddress {
        self.claim.base()
    }

    /// Whether there are bytes behind the addresses.
    pub(crate) const fn has_bytes(&self) -> bool {
        self.backing.is_some()
    }

    /// Whether `len` bytes at `address` are all in here, with bytes behind them or not.
    pub(crate) fn offset(&self, address: DeviceAddress, len: usize) -> Option<usize> {
        let offset = address.get().checked_sub(self.base().get())?;
        let offset = usize::try_from(offset).ok()?;
        (offset.checked_add(len)? <= self.len).then_some(offset)
    }

    /// Where the host finds `len` bytes at `address`, if all of them are here. The pointer has provenance over the
    /// arena; following it is up to the caller.
    pub(crate) fn locate(&self, address: DeviceAddress, len: usize) -> Option<NonNull<u8>> {
        let backing = self.backing.as_ref()?;
        let offset = self.offset(address, len)?;
        // SAFETY: at most one past the last byte, by invariant 1.
        Some(unsafe { backing.start.add(offset) })
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

    /// Copies inside, as `memmove` does. `false` if one of the ranges is not here.
    ///
    /// # Safety
    /// Nobody else writes the first range, or reads or writes the second, meanwhile.
    pub(crate) unsafe fn copy(&self, from: DeviceAddress, to: DeviceAddress, len: usize) -> bool {
        let (Some(source), Some(destination)) = (self.locate(from, len), self.locate(to, len))
        else {
            return false;
        };
        // SAFETY: invariant 1 for both, and as the caller promises.
        unsafe { source.copy_to(destination, len) };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn arena(config: &ChannelConfig) -> Result<Arena, OpenError> {
        Arena::new(ChannelId::new(0, 0), config)
    }

    #[test]
    fn ranges_are_located_exactly() {
        let arena = arena(&ChannelConfig::new(100)).unwrap();
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
        let open = |memory| arena(&ChannelConfig::new(memory));
        let arena = open(200).unwrap();
        let mut bytes = [1_u8; 200];
        // SAFETY: a live array of that length; nobody else knows the arena.
        assert!(unsafe { arena.copy_out(arena.base(), NonNull::from(&mut bytes).cast(), 200) });
        assert_eq!(bytes, [0; 200]);
        assert_eq!(open(0).err(), Some(OpenError::NoMemory));
        for requested in [usize::MAX, isize::MAX.unsigned_abs(), MAX + 1] {
            let refused = OpenError::TooLarge {
                requested,
                max: MAX,
            };
            assert_eq!(open(requested).err(), Some(refused));
        }
        for requested in [MAX, MAX - 1] {
            let refused = OpenError::Memory { requested };
            assert_eq!(open(requested).err(), Some(refused));
        }
    }

    #[test]
    fn a_base_is_a_granules_and_addresses_need_no_bytes() {
        let base = DeviceAddress::new(0x5_0000_0020);
        let granule = GRANULE;
        assert_eq!(
            arena(&ChannelConfig::new(64).at(base)).err(),
            Some(OpenError::BaseUnaligned { base, granule })
        );
        let base = DeviceAddress::new(0x7_0000_0040);
        let planned = arena(&ChannelConfig::new(1 << 40).at(base).without_bytes()).unwrap();
        assert_eq!((planned.base(), planned.len()), (base, 1 << 40));
        let high = DeviceAddress::new(base.get() + (1 << 39));
        assert_eq!(planned.offset(high, 1 << 39), Some(1 << 39));
        assert_eq!(planned.offset(high, (1 << 39) + 1), None);
        assert!(planned.locate(high, 1).is_none());
        assert!(!planned.has_bytes());
        let refused = arena(&ChannelConfig::new(usize::MAX).without_bytes());
        assert_eq!(
            refused.err(),
            Some(OpenError::TooLarge {
                requested: usize::MAX,
                max: MAX_PLANNED
            })
        );
    }
}
