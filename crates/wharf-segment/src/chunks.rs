//! A view in pieces, and two views as one.
#![forbid(unsafe_code)]

use core::fmt;
use core::iter::FusedIterator;
use core::num::NonZeroUsize;

use wharf_backend::BackendRef;

use crate::View;

/// Why two views were not joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum JoinError {
    /// They are windows on two segments. A rope holds both; gathering it copies.
    OtherSegment,
    /// The second one does not start where the first one ends.
    Apart {
        /// Where the first one ends in their segment.
        end: usize,
        /// Where the second one starts.
        start: usize,
    },
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherSegment => f.write_str("the views show two segments"),
            Self::Apart { end, start } => write!(
                f,
                "the first view ends at {end} of the segment, the second starts at {start}"
            ),
        }
    }
}

impl core::error::Error for JoinError {}

/// The pieces of a view: see [`View::chunks`]. Each is a handle of its own, and counts when it is made.
#[must_use = "iterators do nothing until they are used"]
pub struct Chunks<'a, R: BackendRef> {
    view: &'a View<R>,
    /// At most the length of the view.
    at: usize,
    size: NonZeroUsize,
}

impl<'a, R: BackendRef> Chunks<'a, R> {
    pub(crate) const fn new(view: &'a View<R>, size: NonZeroUsize) -> Self {
        Self { view, at: 0, size }
    }

    const fn left(&self) -> usize {
        self.view.len() - self.at
    }
}

impl<R: BackendRef> Iterator for Chunks<'_, R> {
    type Item = View<R>;

    fn next(&mut self) -> Option<View<R>> {
        let len = self.size.get().min(self.left());
        if len == 0 {
            return None;
        }
        // No wrap, and in bounds: at most what is left.
        let end = self.at + len;
        let chunk = self.view.slice(self.at..end).ok();
        self.at = end;
        chunk
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.left().div_ceil(self.size.get());
        (left, Some(left))
    }
}

impl<R: BackendRef> ExactSizeIterator for Chunks<'_, R> {}
impl<R: BackendRef> FusedIterator for Chunks<'_, R> {}

impl<R: BackendRef> Clone for Chunks<'_, R> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<R: BackendRef> fmt::Debug for Chunks<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunks")
            .field("view", self.view)
            .field("at", &self.at)
            .field("size", &self.size)
            .finish()
    }
}
