//! What happened last.

use core::fmt;

use super::{Tag, UsageClass};
use crate::DeviceAddress;

/// What an allocator did. Numbered as in the trace of `wharf-tensor`, where that knows the same thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
#[non_exhaustive]
pub enum UsageEventKind {
    /// Memory was taken.
    Alloc = 34,
    /// Memory came back.
    Free = 35,
    /// Memory was refused.
    Refusal = 36,
}

/// Something that an allocator did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct UsageEvent {
    /// What.
    pub kind: UsageEventKind,
    /// What for.
    pub class: UsageClass,
    /// How many bytes, as they were asked for.
    pub bytes: usize,
    /// Where; nowhere if it was refused.
    pub address: Option<DeviceAddress>,
    /// What the owner calls it.
    pub tag: Tag,
}

impl fmt::Display for UsageEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            UsageEventKind::Alloc => "alloc",
            UsageEventKind::Free => "free",
            UsageEventKind::Refusal => "refusal",
        };
        write!(f, "{what} of {} bytes, {}", self.bytes, self.class)?;
        if let Some(address) = self.address {
            write!(f, ", at {address}")?;
        }
        if self.tag.is_none() {
            return Ok(());
        }
        write!(f, ", '{}'", self.tag)
    }
}

/// The last `N` events. Every event has a number, from zero; so a reader knows which he has seen, and how many
/// passed unseen.
///
/// It allocates nothing and takes no lock: whoever shares it protects it.
///
/// ```
/// use wharf_backend::usage::{EventRing, Tag, UsageClass, UsageEvent, UsageEventKind};
///
/// let mut ring = EventRing::<2>::new();
/// for bytes in [10, 20, 30] {
///     let kind = UsageEventKind::Alloc;
///     let (class, tag) = (UsageClass::IO, Tag::NONE);
///     ring.push(UsageEvent { kind, class, bytes, address: None, tag });
/// }
/// assert_eq!(ring.dropped(), 1);
/// let kept: Vec<_> = ring.iter().map(|(number, event)| (number, event.bytes)).collect();
/// assert_eq!(kept, [(1, 20), (2, 30)]);
/// ```
#[derive(Clone, Debug)]
pub struct EventRing<const N: usize> {
    slots: [Option<UsageEvent>; N],
    /// The slot that the next event goes to, below `N`. (So that no small core divides by 64 bits.)
    at: usize,
    /// The number of the next event.
    next: u64,
}

impl<const N: usize> EventRing<N> {
    /// Without events.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            slots: [None; N],
            at: 0,
            next: 0,
        }
    }

    /// Appends an event; the oldest one makes room if need be.
    pub fn push(&mut self, event: UsageEvent) {
        if let Some(slot) = self.slots.get_mut(self.at) {
            *slot = Some(event);
            self.at = if self.at + 1 == N { 0 } else { self.at + 1 };
        }
        self.next += 1;
    }

    /// The number of the next event: how many there were.
    #[must_use]
    pub const fn recorded(&self) -> u64 {
        self.next
    }

    /// Events that made room and can no longer be read.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.next.saturating_sub(N as u64)
    }

    /// The event with this number, if it is still there.
    #[must_use]
    pub fn get(&self, number: u64) -> Option<&UsageEvent> {
        // How many are newer, itself counted: from 1 to N.
        let back = usize::try_from(self.next.checked_sub(number)?).ok()?;
        if back == 0 || back > N {
            return None;
        }
        let index = if back <= self.at {
            self.at - back
        } else {
            self.at + N - back
        };
        self.slots.get(index)?.as_ref()
    }

    /// The events that are there with their numbers, oldest first.
    #[must_use]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &UsageEvent)> {
        (self.dropped()..self.next).filter_map(|number| Some((number, self.get(number)?)))
    }
}

impl<const N: usize> Default for EventRing<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn event(bytes: usize) -> UsageEvent {
        UsageEvent {
            kind: UsageEventKind::Free,
            class: UsageClass::WEIGHT,
            bytes,
            address: Some(DeviceAddress::new(0x40)),
            tag: Tag::new("conv1"),
        }
    }

    #[test]
    fn a_person_can_read_it() {
        assert_eq!(
            event(7).to_string(),
            "free of 7 bytes, weight, at 0x40, 'conv1'"
        );
        let refusal = UsageEvent {
            kind: UsageEventKind::Refusal,
            address: None,
            tag: Tag::NONE,
            ..event(9)
        };
        assert_eq!(refusal.to_string(), "refusal of 9 bytes, weight");
    }

    #[test]
    fn a_ring_without_room_counts_what_passes() {
        let mut ring = EventRing::<0>::default();
        ring.push(event(1));
        assert_eq!((ring.recorded(), ring.dropped()), (1, 1));
        assert_eq!(ring.iter().count(), 0);
        assert_eq!(ring.get(0), None);
    }
}
