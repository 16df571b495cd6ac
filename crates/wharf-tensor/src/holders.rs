//! How many tensors keep a storage.
//!
//! Not a [`Count`](wharf_sync::Count): one of those may say "that was the last" without writing it down, because
//! nobody is left to read it. Here somebody may be: a device access that ends asks whether a tensor is left.

use wharf_sync::{SyncPolicy, Word};

/// The number of [`StorageRef`](crate::storage::StorageRef)s. At the limit it sticks, and the storage leaks.
#[derive(Debug)]
pub(crate) struct Holders<P: SyncPolicy>(P::Word);

/// From here on nothing is counted.
const LIMIT: u32 = u32::MAX;

impl<P: SyncPolicy> Holders<P> {
    /// One.
    pub(crate) fn one() -> Self {
        Self(P::Word::new(1))
    }

    /// One more, beside the one that the caller is.
    #[inline]
    pub(crate) fn join(&self) {
        // Refuses only at the limit, where the number stays.
        let _ = self.0.update(|holders| holders.checked_add(1));
    }

    /// One more, unless there is none.
    pub(crate) fn join_others(&self) -> bool {
        let more = |holders: u32| (holders != 0).then(|| holders.saturating_add(1));
        self.0.update(more).is_ok()
    }

    /// One less; `true` when that was the last.
    #[inline]
    #[must_use]
    pub(crate) fn leave(&self) -> bool {
        let less = |holders: u32| (holders != LIMIT).then(|| holders.wrapping_sub(1));
        self.0.update(less) == Ok(1)
    }

    /// The number, for reports; and, where the caller is one of them, whether it is the only one.
    pub(crate) fn get(&self) -> u32 {
        self.0.load()
    }
}

#[cfg(test)]
mod tests {
    use wharf_sync::Unsync;

    use super::*;

    #[test]
    fn at_the_limit_the_number_sticks_and_nobody_is_the_last() {
        let holders = Holders::<Unsync>(Word::new(LIMIT - 1));
        holders.join();
        holders.join();
        assert!(holders.join_others());
        assert_eq!(holders.get(), LIMIT);
        assert!(!holders.leave());
        assert_eq!(holders.get(), LIMIT);
    }

    #[test]
    fn nobody_joins_an_empty_house() {
        let holders = Holders::<Unsync>::one();
        assert!(holders.join_others());
        assert!(!holders.leave());
        assert!(holders.leave());
        assert_eq!(holders.get(), 0);
        assert!(!holders.join_others());
        assert_eq!(holders.get(), 0);
    }
}
