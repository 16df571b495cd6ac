//! Counters and words over atomics, shared by every policy whose contexts run at the same time.
#![allow(
    unsafe_code,
    reason = "implements the unsafe traits; contains no unsafe operation"
)]

#[cfg(target_has_atomic = "32")]
use core::sync::atomic::{AtomicU32, Ordering};
// Cores without compare-and-swap. Which critical section makes the operation atomic is the choice of
// whoever links the image; "one core, so mask interrupts" would be a guess (RP2040 has two).
#[cfg(not(target_has_atomic = "32"))]
use portable_atomic::{AtomicU32, Ordering};

use crate::{ConstInit, Count, Word};

/// The counter and the word over the `AtomicU32` and `Ordering` in scope. One text for the shipped
/// atomics and for loom's: what is model-checked is what is shipped.
macro_rules! over_atomics {
    ($(#[$about_count:meta])* $count:ident, $(#[$about_word:meta])* $word:ident) => {
        $(#[$about_count])*
        #[derive(Debug)]
        pub struct $count(AtomicU32);

        // SAFETY: an atomic read-modify-write gives zero to exactly one caller; the orderings below give
        // the happens-before that the law asks for.
        unsafe impl Count for $count {
            fn new(count: u32) -> Self {
                Self(AtomicU32::new(count.min(Self::LIMIT)))
            }

            #[inline]
            fn increment(&self) {
                // Relaxed: a new reference is made from one that the caller holds, so nothing is learnt
                // or published by counting it.
                if self.0.fetch_add(1, Ordering::Relaxed) >= Self::LIMIT {
                    self.park();
                }
            }

            #[inline]
            fn decrement(&self) -> bool {
                // The only holder needs no read-modify-write: nobody is left who could change the count.
                // Acquire: pairs with the Release below of the holders who went before.
                if self.0.load(Ordering::Acquire) == 1 {
                    return true;
                }
                // Release: what this holder did to the memory happens before whoever frees it.
                // One test on the way that is nearly always taken, of what the subtraction has found anyway: as signed
                // numbers, one and the saturated half are all that is not above one.
                if self.0.fetch_sub(1, Ordering::Release).cast_signed() > 1 {
                    return false;
                }
                self.was_last()
            }

            #[inline]
            fn is_unique(&self) -> bool {
                // Acquire: the caller is about to write where former holders read.
                self.0.load(Ordering::Acquire) == 1
            }

            fn get(&self) -> u32 {
                // Relaxed: a number for a report.
                self.0.load(Ordering::Relaxed)
            }
        }

        impl $count {
            /// Where a saturated count stays: far enough from both ends that the increments and decrements
            /// under way on other cores can never carry it out of the saturated half.
            const PARKED: u32 = Self::LIMIT + (Self::LIMIT >> 1);

            /// Whether a decrement that found one, or the saturated half, has found one. It looks again instead of
            /// being told, so that what it found need not be kept: after the last holder the count is zero for good,
            /// and a saturated one never comes near.
            #[cold]
            fn was_last(&self) -> bool {
                // Acquire: the other half of the pair. What is read was left by the decrement above, which
                // continues what the holders before it have released.
                if self.0.load(Ordering::Acquire) == 0 {
                    return true;
                }
                self.park();
                false
            }

            #[cold]
            fn park(&self) {
                // Relaxed: nothing is published; the memory is never freed again.
                self.0.store(Self::PARKED, Ordering::Relaxed);
            }
        }

        $(#[$about_word])*
        #[derive(Debug)]
        pub struct $word(AtomicU32);

        // SAFETY: compare-and-swap.
        unsafe impl Word for $word {
            fn new(value: u32) -> Self {
                Self(AtomicU32::new(value))
            }

            #[inline]
            fn load(&self) -> u32 {
                // Acquire: whoever sees a state may rely on what was done before it was entered.
                self.0.load(Ordering::Acquire)
            }

            #[inline]
            fn update(&self, step: impl FnMut(u32) -> Option<u32>) -> Result<u32, u32> {
                // Success AcqRel: entering a state sees what the last one released (Acquire), leaving one
                // publishes what was done in it (Release). Failure Acquire: as for `load`.
                self.0
                    .fetch_update(Ordering::AcqRel, Ordering::Acquire, step)
            }
        }
    };
}
#[cfg(feature = "loom")]
pub(crate) use over_atomics;

over_atomics! {
    /// A reference counter over an atomic, for every policy whose contexts run at the same time.
    AtomicCount,
    /// A state word over an atomic, for every policy whose contexts run at the same time.
    AtomicWord
}

impl ConstInit for AtomicCount {
    const INIT: Self = Self(AtomicU32::new(0));
}

impl ConstInit for AtomicWord {
    const INIT: Self = Self(AtomicU32::new(0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_at_the_limit_sticks_and_never_reaches_zero() {
        let count = AtomicCount::new(AtomicCount::LIMIT - 1);
        count.increment();
        assert_eq!(count.get(), 0x8000_0000);
        count.increment();
        assert_eq!(count.get(), 0xC000_0000, "parked");
        for _ in 0..1000 {
            assert!(!count.decrement());
        }
        assert_eq!(count.get(), 0xC000_0000, "and it stays there");
    }
}
