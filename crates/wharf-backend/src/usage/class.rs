//! What memory is used for.

use core::fmt;

/// What a piece of memory is used for: the line of the books that it counts on.
///
/// The set is open. A device crate names classes of its own:
///
/// ```
/// use wharf_backend::usage::UsageClass;
///
/// /// Microcode, wherever it is.
/// const MICROCODE: UsageClass = UsageClass::custom(0).unwrap();
/// /// The lookup tables of the activation unit, which reads them in device memory only.
/// const TABLES: UsageClass = UsageClass::custom_device_only(0).unwrap();
///
/// assert!(!MICROCODE.is_device_only() && TABLES.is_device_only());
/// assert_eq!(UsageClass::WEIGHT.to_string(), "weight");
/// ```
///
/// Some classes make no sense in the host's memory. Memory that a device uses in the host's DRAM refuses those
/// ([`AllocError::NotOnHost`](crate::AllocError::NotOnHost)).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct UsageClass(u8);

/// Numbers from here on are of device crates.
const CUSTOM: u8 = 16;
/// Of those, from here on not on the host.
const CUSTOM_DEVICE_ONLY: u8 = 24;

const NAMES: [&str; UsageClass::COUNT] = [
    "generic",
    "tensor",
    "weight",
    "io",
    "instructions",
    "spill",
    "scratchpad",
    "collective",
    "ring",
    "notification",
    "class-10",
    "class-11",
    "class-12",
    "class-13",
    "class-14",
    "class-15",
    "custom-0",
    "custom-1",
    "custom-2",
    "custom-3",
    "custom-4",
    "custom-5",
    "custom-6",
    "custom-7",
    "device-0",
    "device-1",
    "device-2",
    "device-3",
    "device-4",
    "device-5",
    "device-6",
    "device-7",
];

impl UsageClass {
    /// How many classes there are, those of device crates included. Books have one line for each, so that counting
    /// allocates nothing.
    pub const COUNT: usize = 32;

    /// Nothing in particular: what a request without a class is.
    pub const GENERIC: Self = Self(0);
    /// The values of a tensor.
    pub const TENSOR: Self = Self(1);
    /// The constants of a model.
    pub const WEIGHT: Self = Self(2);
    /// Inputs and outputs.
    pub const IO: Self = Self(3);
    /// What the device executes.
    pub const INSTRUCTIONS: Self = Self(4);
    /// What did not fit into the memory nearer to the device.
    pub const SPILL: Self = Self(5);
    /// Intermediate results. Not on the host.
    pub const SCRATCHPAD: Self = Self(6);
    /// What devices exchange among each other. Not on the host.
    pub const COLLECTIVE: Self = Self(7);
    /// Descriptor rings.
    pub const RING: Self = Self(8);
    /// What the device writes to tell of events.
    pub const NOTIFICATION: Self = Self(9);

    /// A device crate's own class: eight of them, from zero.
    #[must_use]
    pub const fn custom(index: u8) -> Option<Self> {
        if index < CUSTOM_DEVICE_ONLY - CUSTOM {
            Some(Self(CUSTOM + index))
        } else {
            None
        }
    }

    /// A device crate's own class that is not for the host's memory: eight of them, from zero.
    #[must_use]
    pub const fn custom_device_only(index: u8) -> Option<Self> {
        if index < 8 {
            Some(Self(CUSTOM_DEVICE_ONLY + index))
        } else {
            None
        }
    }

    /// The class with this number, below [`COUNT`](Self::COUNT).
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        if (number as usize) < Self::COUNT {
            Some(Self(number))
        } else {
            None
        }
    }

    /// Its number, below [`COUNT`](Self::COUNT).
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Whether it is refused in the host's memory.
    #[must_use]
    pub const fn is_device_only(self) -> bool {
        self.0 == Self::SCRATCHPAD.0 || self.0 == Self::COLLECTIVE.0 || self.0 >= CUSTOM_DEVICE_ONLY
    }

    /// A word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        NAMES[self.0 as usize]
    }

    /// Every class, in the order of their numbers.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        // Counts to 32.
        (0..32_u8).map(Self)
    }
}

impl fmt::Debug for UsageClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UsageClass({})", self.name())
    }
}

impl fmt::Display for UsageClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_names_and_places_are_worked_out() {
        assert_eq!(UsageClass::all().len(), UsageClass::COUNT);
        for (number, class) in (0..).zip(UsageClass::all()) {
            assert_eq!(class.number(), number);
            assert_eq!(UsageClass::from_number(number), Some(class));
        }
        assert_eq!(UsageClass::from_number(32), None);
        let device_only: std::vec::Vec<_> = UsageClass::all()
            .filter(|class| class.is_device_only())
            .map(UsageClass::number)
            .collect();
        assert_eq!(device_only, [6, 7, 24, 25, 26, 27, 28, 29, 30, 31]);
        assert_eq!(UsageClass::custom(7).map(UsageClass::number), Some(23));
        assert_eq!(UsageClass::custom(8), None);
        let last = UsageClass::custom_device_only(7);
        assert_eq!(last.map(UsageClass::name), Some("device-7"));
        assert_eq!(UsageClass::custom_device_only(8), None);
        assert_eq!(UsageClass::default(), UsageClass::GENERIC);
        assert_eq!(std::format!("{:>12}|", UsageClass::RING), "        ring|");
    }
}
