//! A rope as its links, and as its bytes.
#![forbid(unsafe_code)]

use core::fmt;
use core::iter::{self, FusedIterator};
use core::slice;

use wharf_backend::{BackendRef, ReadableBackend};
use wharf_source::{ArrayIntoIter, BlockSource, NullSource};

use crate::{Rope, View};

impl<R: BackendRef, S: BlockSource, const N: usize> Rope<R, S, N>
where
    R::Backend: ReadableBackend,
{
    /// The bytes, one by one, across the links.
    pub fn bytes(&self) -> impl DoubleEndedIterator<Item = u8> + Clone + '_ {
        self.links().iter().flatten().copied()
    }

    /// The bytes, link by link.
    pub fn chunks(
        &self,
    ) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator + Clone + '_ {
        self.links().iter().map(|link| &**link)
    }
}

impl<'a, R: BackendRef, S: BlockSource, const N: usize> IntoIterator for &'a Rope<R, S, N> {
    type Item = &'a View<R>;
    type IntoIter = slice::Iter<'a, View<R>>;
    fn into_iter(self) -> Self::IntoIter {
        self.links().iter()
    }
}

impl<R: BackendRef, S: BlockSource, const N: usize> IntoIterator for Rope<R, S, N> {
    type Item = View<R>;
    type IntoIter = RopeIntoIter<R, S, N>;
    fn into_iter(self) -> Self::IntoIter {
        let (inline, spilled) = self.links.into_iter();
        RopeIntoIter {
            links: inline.chain(spilled),
        }
    }
}

/// Yields the links of a [`Rope`]. What is not taken is dropped with it.
#[must_use = "dropping a rope may give memory back"]
pub struct RopeIntoIter<R: BackendRef, S: BlockSource = NullSource, const N: usize = 2> {
    links: iter::Chain<heapless::vec::IntoIter<View<R>, N, usize>, ArrayIntoIter<View<R>, S>>,
}

impl<R: BackendRef, S: BlockSource, const N: usize> Iterator for RopeIntoIter<R, S, N> {
    type Item = View<R>;
    fn next(&mut self) -> Option<View<R>> {
        self.links.next()
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.links.size_hint()
    }
}

impl<R: BackendRef, S: BlockSource, const N: usize> DoubleEndedIterator for RopeIntoIter<R, S, N> {
    fn next_back(&mut self) -> Option<View<R>> {
        self.links.next_back()
    }
}

impl<R: BackendRef, S: BlockSource, const N: usize> ExactSizeIterator for RopeIntoIter<R, S, N> {}
impl<R: BackendRef, S: BlockSource, const N: usize> FusedIterator for RopeIntoIter<R, S, N> {}

impl<R: BackendRef, S: BlockSource, const N: usize> fmt::Debug for RopeIntoIter<R, S, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RopeIntoIter")
            .field("links", &self.len())
            .finish_non_exhaustive()
    }
}
