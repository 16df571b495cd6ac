//! The links of a rope: some inline, or all of them in a block.
//!
//! Invariant of [`Links`]: `inline` or `spilled` is empty. So they are one slice, wherever they are.
#![forbid(unsafe_code)]

use core::alloc::Layout;
use core::mem;

use heapless::Vec;
use wharf_source::{BlockArray, BlockSource, NullSource, SourceError};

pub(super) struct Links<T, S: BlockSource, const N: usize> {
    inline: Vec<T, N>,
    spilled: BlockArray<T, S>,
}

impl<T, S: BlockSource, const N: usize> Links<T, S, N> {
    pub(super) const fn new(source: S) -> Self {
        Self {
            inline: Vec::new(),
            spilled: BlockArray::new(source),
        }
    }

    /// What `spilled` asks for first.
    pub(super) const fn block(links: usize) -> Option<Layout> {
        BlockArray::<T, S>::first_block(links)
    }

    pub(super) const fn source(&self) -> &S {
        self.spilled.source()
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[T] {
        if self.spilled.is_empty() {
            &self.inline
        } else {
            &self.spilled
        }
    }

    #[inline]
    pub(super) fn as_mut_slice(&mut self) -> &mut [T] {
        if self.spilled.is_empty() {
            &mut self.inline
        } else {
            &mut self.spilled
        }
    }

    /// Makes room for `additional` more: that many pushes are not refused.
    pub(super) fn reserve(&mut self, additional: usize) -> Result<(), SourceError> {
        if !self.spilled.is_empty() {
            return self.spilled.try_reserve(additional);
        }
        let len = self.inline.len();
        if additional <= N - len {
            return Ok(());
        }
        self.spilled.try_reserve(len.saturating_add(additional))?;
        // As many as there is room for. They are moved: the invariant holds before and after.
        for link in mem::take(&mut self.inline) {
            let pushed = self.spilled.push(link);
            debug_assert!(pushed.is_ok(), "there is room");
        }
        Ok(())
    }

    #[inline]
    pub(super) fn push(&mut self, link: T) -> Result<(), (SourceError, T)> {
        if let Err(error) = self.reserve(1) {
            return Err((error, link));
        }
        if self.spilled.is_empty() {
            match self.inline.push(link) {
                Ok(()) => Ok(()),
                // There is room, so it is in the block: `N` is zero.
                Err(link) => self.spilled.push(link),
            }
        } else {
            self.spilled.push(link)
        }
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        if self.spilled.is_empty() {
            self.inline.pop()
        } else {
            self.spilled.pop()
        }
    }

    /// Takes the last `count` away and puts them, in their order, behind those of `to`, which has room for them.
    pub(super) fn move_back<Q: BlockSource, const M: usize>(
        &mut self,
        count: usize,
        to: &mut Links<T, Q, M>,
    ) {
        let before = to.as_slice().len();
        for _ in 0..count {
            let Some(link) = self.pop() else { break };
            let pushed = to.push(link);
            debug_assert!(pushed.is_ok(), "there is room");
        }
        if let Some(moved) = to.as_mut_slice().get_mut(before..) {
            moved.reverse();
        }
    }

    /// Drops the first `count`, at most all.
    pub(super) fn drop_front(&mut self, count: usize) {
        let links = self.as_mut_slice();
        let left = links.len().saturating_sub(count);
        links.rotate_left(links.len() - left);
        self.truncate(left);
    }

    /// Drops all but the first `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        self.inline.truncate(len);
        self.spilled.truncate(len);
    }

    pub(super) fn into_iter(
        self,
    ) -> (
        heapless::vec::IntoIter<T, N, usize>,
        wharf_source::ArrayIntoIter<T, S>,
    ) {
        (self.inline.into_iter(), self.spilled.into_iter())
    }
}

/// What never spills is cloned without asking anybody.
impl<T: Clone, const N: usize> Clone for Links<T, NullSource, N> {
    fn clone(&self) -> Self {
        Self {
            inline: self.inline.clone(),
            spilled: BlockArray::new(NullSource),
        }
    }
}
