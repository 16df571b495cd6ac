//! Who has which device addresses.
//!
//! A place is a number, and an engine tells by the number whose memory it is. So no two live channels of a program have
//! an address in common, whatever devices they belong to.

use std::sync::{Mutex, MutexGuard, PoisonError};

use wharf_backend::DeviceAddress;
use wharf_backend::usage::ChannelId;

use crate::OpenError;

/// The address of the first byte that is given without being asked for. Far from zero, so that a mere offset is never an
/// address.
const FIRST: u64 = 0x1000_0000_0000;
/// Ranges that are not asked for start at multiples of this, and at least as much stays unused behind each.
const STEP: u64 = 1 << 32;

static ADDRESSES: Mutex<Addresses> = Mutex::new(Addresses {
    next: FIRST,
    claims: Vec::new(),
});

struct Addresses {
    /// Where to look for a range that nobody asked for. It only grows.
    next: u64,
    /// The ranges that channels have.
    claims: Vec<Range>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    start: u64,
    /// One past the last.
    end: u64,
    channel: ChannelId,
}

impl Range {
    const fn overlaps(&self, start: u64, end: u64) -> bool {
        self.start < end && start < self.end
    }
}

impl Addresses {
    fn clash(&self, start: u64, end: u64) -> Option<&Range> {
        self.claims.iter().find(|range| range.overlaps(start, end))
    }

    /// `len` addresses from `base` on, or wherever there are some.
    fn claim(
        &mut self,
        channel: ChannelId,
        base: Option<DeviceAddress>,
        len: usize,
    ) -> Result<Range, OpenError> {
        let none = OpenError::NoAddresses { requested: len };
        let size = u64::try_from(len).map_err(|_| none)?;
        self.claims
            .try_reserve(1)
            .map_err(|_| OpenError::Memory { requested: len })?;
        let range = if let Some(base) = base {
            let start = base.get();
            let end = start
                .checked_add(size)
                .ok_or(OpenError::AddressesWrap { base, len })?;
            if let Some(taken) = self.clash(start, end) {
                let owner = taken.channel;
                return Err(OpenError::AddressesTaken { base, len, owner });
            }
            Range {
                start,
                end,
                channel,
            }
        } else {
            let mut start = self.next;
            let end = loop {
                let end = start.checked_add(size).ok_or(none)?;
                match self.clash(start, end) {
                    None => break end,
                    Some(taken) => start = behind(taken.end).ok_or(none)?,
                }
            };
            self.next = behind(end).ok_or(none)?;
            Range {
                start,
                end,
                channel,
            }
        };
        self.claims.push(range);
        Ok(range)
    }

    fn give_back(&mut self, range: Range) {
        self.claims.retain(|claim| *claim != range);
    }
}

/// The first start that leaves a gap behind `end`.
fn behind(end: u64) -> Option<u64> {
    end.checked_next_multiple_of(STEP)?.checked_add(STEP)
}

fn addresses() -> MutexGuard<'static, Addresses> {
    ADDRESSES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The right to a range of addresses, given back when dropped.
#[derive(Debug)]
pub(crate) struct Claim(Range);

impl Claim {
    pub(crate) fn new(
        channel: ChannelId,
        base: Option<DeviceAddress>,
        len: usize,
    ) -> Result<Self, OpenError> {
        addresses().claim(channel, base, len).map(Self)
    }

    pub(crate) const fn base(&self) -> DeviceAddress {
        DeviceAddress::new(self.0.start)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        addresses().give_back(self.0);
    }
}

/// The live channel that has this address.
pub(crate) fn owner(address: DeviceAddress) -> Option<ChannelId> {
    let address = address.get();
    let all = addresses();
    let mut having = all.claims.iter();
    having
        .find(|range| (range.start..range.end).contains(&address))
        .map(|range| range.channel)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ChannelId = ChannelId::new(9, 1);

    fn none_taken() -> Addresses {
        Addresses {
            next: FIRST,
            claims: Vec::new(),
        }
    }

    #[test]
    fn ranges_that_nobody_chose_are_apart_and_end() {
        let mut all = none_taken();
        let starts = [1, 64, 5 << 20].map(|len| all.claim(ID, None, len).map(|r| r.start));
        let at = |step: u64| Ok(FIRST + step * STEP);
        assert_eq!(starts, [at(0), at(2), at(4)]);
        all.next = u64::MAX - 100;
        for requested in [128, 64] {
            // The one would wrap, the other leaves no gap.
            let none = OpenError::NoAddresses { requested };
            assert_eq!(all.claim(ID, None, requested), Err(none));
        }
        assert_eq!(all.claims.len(), 3);
    }

    #[test]
    fn chosen_ranges_may_touch_and_not_overlap() {
        let mut all = none_taken();
        let at = |base: u64| Some(DeviceAddress::new(base));
        let first = all.claim(ID, at(0x1_0000_0000), 0x1000).unwrap();
        all.claim(ID, at(0x1_0000_1000), 64).unwrap();
        all.claim(ID, at(0xFFFF_FFC0), 64).unwrap();
        for base in [0x1_0000_0000, 0x1_0000_0FC0, 0xFFFF_FFC0] {
            let base = DeviceAddress::new(base);
            let taken = OpenError::AddressesTaken {
                base,
                len: 64,
                owner: ID,
            };
            assert_eq!(all.claim(ID, Some(base), 64), Err(taken));
        }
        let base = DeviceAddress::new(u64::MAX - 63);
        let wrap = OpenError::AddressesWrap { base, len: 64 };
        assert_eq!(all.claim(ID, Some(base), 64), Err(wrap));
        // Given back, they can be had again.
        all.give_back(first);
        assert!(all.claim(ID, at(0x1_0000_0000), 0x1000).is_ok());
        // And one that nobody chose goes round one that somebody did.
        all.claim(ID, at(FIRST + 0x100), 64).unwrap();
        assert_eq!(
            all.claim(ID, None, 0x1000).map(|r| r.start),
            Ok(FIRST + 2 * STEP)
        );
    }
}
