//! Parts of a rope.
#![forbid(unsafe_code)]

use core::ops::RangeBounds;

use wharf_backend::BackendRef;
use wharf_source::{BlockSource, SourceError};

use crate::bounds::{bounds, position};
use crate::{OutOfBounds, Rope, SliceError, View};

/// The links before byte `at`, and the bytes of the next one that lie before it: fewer than it has.
fn find<R: BackendRef>(links: &[View<R>], mut at: usize) -> (usize, usize) {
    for (index, link) in links.iter().enumerate() {
        match at.checked_sub(link.len()) {
            Some(behind) => at = behind,
            None => return (index, at),
        }
    }
    (links.len(), 0)
}

impl<R: BackendRef, S: BlockSource, const N: usize> Rope<R, S, N> {
    /// A part as a rope of its own, which shares the bytes. Time and room grow with the links that it touches.
    ///
    /// # Errors
    /// The range leaves the rope, or ends before it starts; or there is no room for the part's links.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Self, SliceError>
    where
        S: Clone,
    {
        let (start, end) = bounds(range, self.len())?;
        let (first, skipped) = find(self.links(), start);
        let (last, within) = find(self.links(), end);
        // One more where the end lies in a link; and none for no bytes, wherever they are.
        let links = match end - start {
            0 => None,
            _ => self.links().get(first..last + usize::from(within > 0)),
        };
        let links = links.unwrap_or_default();
        let mut part = self.part(links.len())?;
        let (mut skipped, mut left) = (skipped, end - start);
        for link in links {
            // In bounds: `find` skips fewer bytes than the link has, and the last one is cut where the range ends.
            let end = link.len().min(skipped.saturating_add(left));
            part.push_cut(link.slice(skipped..end)?);
            left -= end - skipped;
            skipped = 0;
        }
        Ok(part)
    }

    /// Takes the first `at` bytes away, as a rope of their own. What is left starts behind them, and moves to the front.
    ///
    /// # Errors
    /// There are fewer, or there is no room for their links; nothing has changed.
    pub fn split_to(&mut self, at: usize) -> Result<Self, SliceError>
    where
        S: Clone,
    {
        position(at, self.len())?;
        let (whole, within) = find(self.links(), at);
        let mut head = self.part(whole + usize::from(within > 0))?;
        let cut = match self.links.as_mut_slice().get_mut(whole) {
            Some(link) if within > 0 => Some(link.split_to(within)?),
            _ => None,
        };
        self.links.as_mut_slice().rotate_left(whole);
        self.links.move_back(whole, &mut head.links);
        head.len = at - within;
        if let Some(cut) = cut {
            head.push_cut(cut);
        }
        self.len -= at;
        Ok(head)
    }

    /// Takes everything behind the first `at` bytes away, as a rope of its own.
    ///
    /// # Errors
    /// There are fewer, or there is no room for the links of the rest; nothing has changed.
    pub fn split_off(&mut self, at: usize) -> Result<Self, SliceError>
    where
        S: Clone,
    {
        position(at, self.len())?;
        let (whole, within) = find(self.links(), at);
        let moved = self.links().len() - whole;
        let mut tail = self.part(moved)?;
        if let Some(link) = self.links.as_mut_slice().get_mut(whole)
            && within > 0
        {
            // Ours is the part before the cut, and stays; the rest of it is the first link of the tail.
            let cut = link.split_off(within)?;
            tail.push_cut(cut);
            self.links.move_back(moved - 1, &mut tail.links);
        } else {
            self.links.move_back(moved, &mut tail.links);
        }
        tail.len = self.len - at;
        self.len = at;
        Ok(tail)
    }

    /// Leaves out the first `bytes`: after a write that took some of them. Links that are used up are dropped, the others move to
    /// the front.
    ///
    /// # Errors
    /// There are fewer; nothing has changed.
    pub fn advance(&mut self, bytes: usize) -> Result<(), OutOfBounds> {
        position(bytes, self.len())?;
        let (whole, within) = find(self.links(), bytes);
        if let Some(link) = self.links.as_mut_slice().get_mut(whole) {
            link.advance(within)?;
        }
        self.len -= bytes;
        self.links.drop_front(whole);
        Ok(())
    }

    /// Leaves out all but the first `len` bytes.
    ///
    /// # Errors
    /// There are fewer; nothing has changed.
    pub fn truncate(&mut self, len: usize) -> Result<(), OutOfBounds> {
        position(len, self.len())?;
        let (whole, within) = find(self.links(), len);
        if let Some(link) = self.links.as_mut_slice().get_mut(whole)
            && within > 0
        {
            link.truncate(within)?;
        }
        self.len = len;
        self.links.truncate(whole + usize::from(within > 0));
        Ok(())
    }

    /// An empty rope like this one, with room for so many links.
    fn part(&self, links: usize) -> Result<Self, SliceError>
    where
        S: Clone,
    {
        let mut part = Rope::with_inline(self.source().clone());
        let no_room = |refusal: SourceError| SliceError::NoRoom { links, refusal };
        part.links.reserve(links).map_err(no_room)?;
        Ok(part)
    }

    /// Appends a link that there is room for.
    fn push_cut(&mut self, link: View<R>) {
        let pushed = self.push(link);
        debug_assert!(pushed.is_ok(), "there is room");
    }
}
