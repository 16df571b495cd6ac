//! What every device understands of a hint: a class and an alignment.
//!
//! Bits 0 to 4 are the class, bits 8 to 13 the binary logarithm of the alignment; the upper half is the backend's own.

use core::fmt;

use super::UsageClass;
use crate::AllocHint;

const CLASS: u32 = 0x1F;
const ALIGNMENT: u32 = 0x3F << ALIGNMENT_AT;
const ALIGNMENT_AT: u32 = 8;

impl AllocHint {
    /// For memory of this class.
    #[must_use]
    pub const fn of(class: UsageClass) -> Self {
        Self(class.number() as u32)
    }

    /// The class. Every hint has one, so one made for another backend counts on some line or other.
    #[must_use]
    pub const fn class(self) -> UsageClass {
        let number = (self.0 & CLASS) as u8;
        match UsageClass::from_number(number) {
            Some(class) => class,
            None => UsageClass::GENERIC,
        }
    }

    /// The same, at a device address that is a multiple of `alignment` bytes. An alignment that every segment of the
    /// backend has is met by itself.
    ///
    /// # Errors
    /// It is no power of two.
    pub const fn aligned(self, alignment: u64) -> Result<Self, BadAlignment> {
        if !alignment.is_power_of_two() {
            return Err(BadAlignment { alignment });
        }
        let power = alignment.trailing_zeros() << ALIGNMENT_AT;
        Ok(Self(self.0 & !ALIGNMENT | power))
    }

    /// The alignment asked for, in bytes; 1 if none was.
    #[must_use]
    pub const fn alignment(self) -> u64 {
        1 << ((self.0 & ALIGNMENT) >> ALIGNMENT_AT)
    }
}

/// An alignment is a power of two, and this is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct BadAlignment {
    /// What was asked for.
    pub alignment: u64,
}

impl fmt::Display for BadAlignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an alignment of {} is no power of two", self.alignment)
    }
}

impl core::error::Error for BadAlignment {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn class_and_alignment_share_a_hint() {
        let own = AllocHint(0xABCD_0000 | u32::from(UsageClass::RING.number()));
        for power in 0..64 {
            let hint = own.aligned(1 << power).unwrap();
            assert_eq!(hint.alignment(), 1 << power);
            assert_eq!(hint.class(), UsageClass::RING);
            assert_eq!(hint.0 >> 16, 0xABCD);
            assert_eq!(hint.aligned(1), Ok(own), "the last word counts");
        }
        assert_eq!(AllocHint::of(UsageClass::GENERIC), AllocHint::NONE);
        assert_eq!(AllocHint::NONE.alignment(), 1);
        for alignment in [0, 3, 96, u64::MAX] {
            assert_eq!(own.aligned(alignment), Err(BadAlignment { alignment }));
        }
        assert_eq!(
            BadAlignment { alignment: 3 }.to_string(),
            "an alignment of 3 is no power of two"
        );
        for class in UsageClass::all() {
            assert_eq!(AllocHint::of(class).class(), class);
        }
    }
}
