//! What a device is told, and when: first the descriptor, then the doorbell.
//!
//! Invariant: nothing calls the closure that rings but [`Doorbell`], and always directly behind a barrier.
#![allow(
    unsafe_code,
    reason = "declares and implements an unsafe trait; one instruction that `core` has no function for"
)]

use core::fmt;

/// Orders memory for a device that shares it.
///
/// # Safety
/// All accesses that this context made to memory before [`order`](Self::order) are visible to the device before any
/// access that it makes afterwards, to memory or to the device's registers; and the compiler moves none across.
pub unsafe trait Barrier {
    /// Orders what came before it against what comes after it.
    fn order(&self);
}

/// The barrier of this processor's architecture.
///
/// | architecture | instruction | orders memory against registers |
/// |---|---|---|
/// | Arm, all profiles | `dmb` (`dmb ish` on AArch64) | yes, where the device is in the same shareability domain |
/// | RISC-V | `fence iorw, iorw` | yes; `core`'s own fence (`rw, rw`) would not |
/// | x86 | `mfence` or a locked instruction | yes |
/// | others | what `core::sync::atomic::fence(SeqCst)` is | see there |
///
/// It orders; it does not wait. What a data memory barrier leaves open:
///
/// * **caches**: where the device does not snoop, the descriptor must be cleaned from the cache as well, which is the business of
///   the backend that the descriptor's memory comes from;
/// * **instead of a register write, an instruction is the doorbell** (`sev`, `wfi`, a system register), or the device is to have
///   seen everything before a clock is gated: these need the completion of the accesses (`dsb` on Arm), not their order;
/// * **write buffers of a bus bridge** between the processor and the device: read the register back after the ring;
/// * **write-combining memory** behind a bridge, and AArch64 devices outside of the inner domain (`dmb osh`).
///
/// For those implement [`Barrier`] yourself, three lines around the instruction:
///
/// ```
/// use wharf_engine::{Barrier, Doorbell};
///
/// struct Completed;
/// // SAFETY: the strongest barrier that there is.
/// unsafe impl Barrier for Completed {
///     fn order(&self) {
///         #[cfg(target_arch = "arm")]
///         // SAFETY: a barrier changes nothing. Without `nomem`, so that the compiler keeps the order too.
///         unsafe { core::arch::asm!("dsb sy", options(nostack, preserves_flags)) };
///         #[cfg(not(target_arch = "arm"))]
///         core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
///     }
/// }
/// let doorbell = Doorbell::with_barrier(|| { /* write the register */ }, Completed);
/// doorbell.ring();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct DataBarrier;

// SAFETY: the table above.
unsafe impl Barrier for DataBarrier {
    #[inline]
    fn order(&self) {
        // SAFETY: a barrier changes nothing. Without `nomem`, so that the compiler keeps the order too.
        #[cfg(any(target_arch = "riscv32", target_arch = "riscv64"))]
        unsafe {
            core::arch::asm!("fence iorw, iorw", options(nostack, preserves_flags));
        }
        #[cfg(not(any(target_arch = "riscv32", target_arch = "riscv64")))]
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
    }
}

/// The way to tell a device that a descriptor is in memory. It owns the order, so that a driver cannot forget the
/// barrier: the closure that rings is reached through it alone.
///
/// ```
/// # use core::cell::Cell;
/// use wharf_engine::Doorbell;
///
/// # let (ring, kick) = (Cell::new(0_u32), Cell::new(false));
/// // In a driver: a volatile write to the register.
/// let doorbell = Doorbell::new(|| kick.set(true));
/// doorbell.publish(|| ring.set(0x2000_0000));
/// # assert!(kick.get());
/// ```
///
/// The device is outside of Rust's memory model: write the descriptor with volatile or atomic stores, or through a raw pointer
/// to memory that nothing in the program borrows, so that the compiler does write it.
pub struct Doorbell<F: Fn(), B: Barrier = DataBarrier> {
    ring: F,
    barrier: B,
}

impl<F: Fn()> Doorbell<F> {
    /// A doorbell that `ring` rings, behind the barrier of the architecture.
    #[must_use]
    pub const fn new(ring: F) -> Self {
        Self::with_barrier(ring, DataBarrier)
    }
}

impl<F: Fn(), B: Barrier> Doorbell<F, B> {
    /// A doorbell that `ring` rings, behind a barrier of your own.
    #[must_use]
    pub const fn with_barrier(ring: F, barrier: B) -> Self {
        Self { ring, barrier }
    }

    /// Writes descriptors, then rings. If `write` panics the device is told nothing.
    pub fn publish<T>(&self, write: impl FnOnce() -> T) -> T {
        let written = write();
        self.ring();
        written
    }

    /// [`publish`](Self::publish) for a write that may find no room: it rings for a success only.
    ///
    /// # Errors
    /// That of `write`; the device is told nothing.
    pub fn try_publish<T, E>(&self, write: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let written = write()?;
        self.ring();
        Ok(written)
    }

    /// Rings for what was written before.
    pub fn ring(&self) {
        self.barrier.order();
        (self.ring)();
    }

    /// The way back: looks whether the device says that it is done (a status register, an owner bit in memory), and if so
    /// orders what it says before the reading of what it wrote.
    pub fn observe<T>(&self, look: impl FnOnce() -> Option<T>) -> Option<T> {
        let said = look()?;
        self.barrier.order();
        Some(said)
    }
}

impl<F: Fn(), B: Barrier> fmt::Debug for Doorbell<F, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doorbell").finish_non_exhaustive()
    }
}
