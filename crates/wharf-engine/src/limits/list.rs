//! Cutting a whole scatter-gather list.

use core::fmt;
use core::iter::FusedIterator;

use super::{Elements, Extent, Limits, SplitError};

impl Limits {
    /// How many elements the extents of a list take together, whether or not the engine has as many; `u64::MAX` if they are
    /// more than that. To size a ring, or to choose between a chain of descriptors and a copy into one piece.
    ///
    /// One step per extent, however long it is.
    ///
    /// # Errors
    /// The first extent that cannot be cut, and why.
    pub fn needed_list<I>(&self, extents: I) -> Result<u64, SplitListError>
    where
        I: IntoIterator<Item = Extent>,
    {
        let mut needed = 0_u64;
        for (index, extent) in extents.into_iter().enumerate() {
            let more = self.needed(extent);
            let more = more.map_err(|error| SplitListError::Extent { index, error })?;
            needed = needed.saturating_add(more);
        }
        Ok(needed)
    }

    /// The elements of a scatter-gather list: of every extent in turn, as [`split`](Self::split) cuts it. All of them are one
    /// transfer, so [`Rules::max_elements`](super::Rules::max_elements) bounds their sum. Extents without bytes give none, and
    /// neighbours are not merged.
    ///
    /// It needs no memory: it goes through the list twice, once to count, and again as the elements are taken. So the iterator is
    /// cloned, and its clone must yield the same extents; if it does not, the elements end early.
    ///
    /// ```
    /// use wharf_engine::{DeviceAddress, Extent, Limits, Rules, SplitListError};
    ///
    /// let limits = Limits::new(Rules { boundary: Some(0x1000), max_elements: 3, ..Rules::NONE })?;
    /// let header = Extent::new(DeviceAddress::new(0x2_0000), 14);
    /// let payload = Extent::new(DeviceAddress::new(0x8_0f00), 0x200);
    ///
    /// let elements = limits.split_list([header, payload])?;
    /// assert_eq!(elements.len(), 3, "descriptors to fill");
    /// let elements = elements.map(|element| (element.start.get(), element.len));
    /// assert!(elements.eq([(0x2_0000, 14), (0x8_0f00, 0x100), (0x8_1000, 0x100)]));
    ///
    /// // One more is one too many, and it is known before any descriptor is written.
    /// let refused = limits.split_list([header, payload, header]).unwrap_err();
    /// assert_eq!(refused, SplitListError::TooManyElements { needed: 4, max: 3 });
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// An extent cannot be cut, or there are more elements than the engine has. Nothing is found out half way: whoever has the
    /// iterator has them all.
    pub fn split_list<I>(&self, extents: I) -> Result<ListElements<I::IntoIter>, SplitListError>
    where
        I: IntoIterator<Item = Extent>,
        I::IntoIter: Clone,
    {
        let extents = extents.into_iter();
        let needed = self.needed_list(extents.clone())?;
        let max = self.rules().max_elements;
        match usize::try_from(needed) {
            // The largest number stands for all above it.
            Ok(left) if left <= max && needed < u64::MAX => Ok(ListElements {
                limits: *self,
                extents,
                present: None,
                left,
            }),
            _ => Err(SplitListError::TooManyElements { needed, max }),
        }
    }
}

/// The elements of one scatter-gather list: see [`Limits::split_list`].
#[derive(Clone, Debug)]
#[must_use = "an iterator does nothing until it is asked"]
pub struct ListElements<I> {
    limits: Limits,
    extents: I,
    /// What is left of the extent that is being cut.
    present: Option<Elements>,
    left: usize,
}

impl<I: Iterator<Item = Extent>> Iterator for ListElements<I> {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        // Also where a clone yields more than was counted: there is no descriptor for it.
        let left = self.left.checked_sub(1)?;
        loop {
            if let Some(element) = self.present.as_mut().and_then(Elements::next) {
                self.left = left;
                return Some(element);
            }
            let extent = self.extents.next();
            self.present = extent.and_then(|extent| self.limits.split(extent).ok());
            if self.present.is_none() {
                // Never again, whatever the extents say next.
                self.left = 0;
                return None;
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<I: Iterator<Item = Extent>> ExactSizeIterator for ListElements<I> {}
impl<I: Iterator<Item = Extent>> FusedIterator for ListElements<I> {}

/// Why an engine cannot transfer a scatter-gather list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SplitListError {
    /// One extent of it cannot be cut.
    Extent {
        /// Which one, from zero.
        index: usize,
        /// Why not.
        error: SplitError,
    },
    /// All together they take more elements than the engine has.
    TooManyElements {
        /// How many they take; `u64::MAX` stands for itself and for more.
        needed: u64,
        /// How many there are.
        max: usize,
    },
}

impl fmt::Display for SplitListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Extent { index, error } => write!(f, "extent {index}: {error}"),
            Self::TooManyElements { needed, max } => write!(
                f,
                "{needed} elements needed by the list, a transfer has at most {max}"
            ),
        }
    }
}

impl core::error::Error for SplitListError {}
