//! A source that only ever moves forward through a buffer.
//!
//! Invariant of [`BumpSource`]: every block of the buffer that is live lies below `carved` and was vended
//! since the last reset, in ascending order, so no two overlap. `carved` never passes the slab's length.
#![allow(unsafe_code, reason = "implements the unsafe trait")]

use core::alloc::Layout;
use core::cell::Cell;
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use crate::slab::Slab;
use crate::{BlockSource, Census, NullSource, SourceError, empty_block};

/// Blocks from a slab of bytes, one behind the other, all given back at once.
///
/// A request moves a mark forward: nothing is faster. Releasing a block of the buffer does nothing. All of the
/// buffer comes back together, by [`reset`](Self::reset): use it for what begins and ends together, such as the
/// scratch of one message, one inference, one start-up.
///
/// ```
/// use core::mem::MaybeUninit;
/// use wharf_source::{BlockArray, BumpSource};
///
/// let mut scratch = [MaybeUninit::uninit(); 256];
/// let mut source = BumpSource::new(&mut scratch);
/// for message in [&b"one"[..], b"two", b"three"] {
///     let mut bytes = BlockArray::with_capacity(&source, message.len())?;
///     bytes.extend_from_slice(message)?;
///     drop(bytes);
///     source.reset();
/// }
/// assert_eq!((source.used(), source.census().peak), (0, 5));
/// # Ok::<(), wharf_source::SourceError>(())
/// ```
///
/// # Not for what comes and goes
/// A bump source as the memory of a long-lived receiver fills up, however promptly each frame is
/// released: with 9216 bytes for frames of 1500, six frames are served and the other 194 of the first 200 refused.
/// A [`PoolSource`](crate::PoolSource) over the same buffer serves all of them, because it hands a block that came back
/// to the next request of its shape. Not even the block that was vended last is given back: that would help
/// strictly nested use only, and cost every release a comparison.
///
/// # Resetting
/// It needs `&mut`, so no block of the buffer can outlive it:
///
/// ```compile_fail,E0502
/// use core::{alloc::Layout, mem::MaybeUninit};
/// use wharf_source::{Block, BumpSource};
///
/// let mut scratch = [MaybeUninit::uninit(); 64];
/// let mut source = BumpSource::new(&mut scratch);
/// let block = Block::new(&source, Layout::new::<u64>());
/// source.reset();
/// drop(block);
/// ```
///
/// # Upstream
/// What the buffer has no room for is asked of `U`. That is [`NullSource`] unless another is named, and
/// then the buffer is a hard limit; [`with_upstream`](BumpSource::with_upstream) names one, and a spill is visible in the type.
/// Upstream blocks go back to the upstream one by one, and a reset does not touch them.
///
/// # Contexts
/// One: it is not `Sync`. It may be sent elsewhere while no block is out.
///
/// ```compile_fail,E0277
/// use core::mem::MaybeUninit;
/// use wharf_source::BumpSource;
///
/// let mut scratch = [MaybeUninit::uninit(); 64];
/// let source = BumpSource::new(&mut scratch);
/// std::thread::scope(|scope| {
///     scope.spawn(|| source.used());
/// });
/// ```
///
/// # Census
/// In bytes, of the buffer alone: `capacity` is its length, `in_use` the mark, which includes bytes skipped to align a
/// block, and `peak` the highest mark that any round before or after a reset came to. A request that the
/// upstream met is not a refusal; [`spilled`](Self::spilled) counts those.
pub struct BumpSource<'s, U: BlockSource = NullSource> {
    slab: Slab<'s>,
    carved: Cell<usize>,
    /// The highest mark of the rounds before this one.
    past_peak: usize,
    spilled: Cell<usize>,
    refused: Cell<usize>,
    largest_refused: Cell<usize>,
    upstream: U,
}

impl<'s> BumpSource<'s> {
    /// A source over `slab` and nothing else.
    #[must_use]
    pub fn new(slab: &'s mut [MaybeUninit<u8>]) -> Self {
        Self::with_upstream(slab, NullSource)
    }
}

impl<'s, U: BlockSource> BumpSource<'s, U> {
    /// A source over `slab` that turns to `upstream` for what does not fit.
    #[must_use]
    pub fn with_upstream(slab: &'s mut [MaybeUninit<u8>], upstream: U) -> Self {
        Self {
            slab: Slab::new(slab),
            carved: Cell::new(0),
            past_peak: 0,
            spilled: Cell::new(0),
            refused: Cell::new(0),
            largest_refused: Cell::new(0),
            upstream,
        }
    }

    /// Takes the whole buffer back. For blocks that were taken apart into raw parts, this is their release.
    pub fn reset(&mut self) {
        self.past_peak = self.peak();
        self.carved.set(0);
    }

    /// What the buffer counts, in bytes.
    #[must_use]
    pub fn census(&self) -> Census {
        Census {
            unit: 1,
            capacity: self.slab.len(),
            in_use: self.carved.get(),
            peak: self.peak(),
            refused: self.refused.get(),
            dropped: 0,
            largest_refused: self.largest_refused.get(),
        }
    }

    /// Bytes of the buffer that are taken, including those skipped to align a block.
    #[must_use]
    pub fn used(&self) -> usize {
        self.carved.get()
    }

    /// Bytes of the buffer that are left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.slab.len().saturating_sub(self.carved.get())
    }

    /// Requests that the upstream met.
    #[must_use]
    pub fn spilled(&self) -> usize {
        self.spilled.get()
    }

    /// Where it turns to for what does not fit.
    #[must_use]
    pub const fn upstream(&self) -> &U {
        &self.upstream
    }

    fn peak(&self) -> usize {
        self.past_peak.max(self.carved.get())
    }

    #[cold]
    fn spill(&self, layout: Layout) -> Option<NonNull<u8>> {
        let block = self.upstream.try_alloc(layout);
        let counter = if block.is_some() {
            &self.spilled
        } else {
            let largest = self.largest_refused.get().max(layout.size());
            self.largest_refused.set(largest);
            &self.refused
        };
        counter.set(counter.get().saturating_add(1));
        block
    }

    fn own_refusal(&self, layout: Layout) -> SourceError {
        let requested = layout.size();
        match self.slab.place(0, requested, layout.align()) {
            Some(_) => SourceError::Exhausted {
                requested,
                available: self.remaining(),
            },
            None => SourceError::TooLarge {
                requested,
                capacity: self.slab.len(),
            },
        }
    }
}

// SAFETY: blocks come from an exclusively borrowed slab that does not move with the source, or from
// the upstream, which keeps the law and whose handle moves along. By the invariant no two live ones
// overlap: `carved` falls in `reset` only, which needs `&mut`, and whoever holds a block of `&self`
// keeps `&self` borrowed, while whoever owns the source with its block lends it shared.
unsafe impl<U: BlockSource> BlockSource for BumpSource<'_, U> {
    #[inline]
    fn try_alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        if let Some(empty) = empty_block(layout) {
            return Some(empty);
        }
        let placed = self
            .slab
            .place(self.carved.get(), layout.size(), layout.align());
        let Some((start, end)) = placed else {
            return self.spill(layout);
        };
        self.carved.set(end);
        // SAFETY: `place` answers with offsets inside the slab, `start` below `end`.
        Some(unsafe { self.slab.at(start) })
    }
    #[inline]
    unsafe fn release(&self, block: NonNull<u8>, layout: Layout) {
        // The address of an empty block says nothing about where it came from.
        if layout.size() != 0 && self.slab.offset_of(block) >= self.slab.len() {
            // SAFETY: the block is live, by the caller's promise, and does not begin in the buffer. So
            // the upstream vended it, with this layout.
            unsafe { self.upstream.release(block, layout) }
        }
    }
    /// Why the buffer refused, unless the upstream has more to say: the cause that a wait, a release or a reset
    /// may mend wins over the one that nothing mends.
    fn refusal(&self, layout: Layout) -> SourceError {
        use SourceError::{Exhausted, Null, TooLarge};
        match (self.own_refusal(layout), self.upstream.refusal(layout)) {
            (own, Null { .. }) | (own @ Exhausted { .. }, TooLarge { .. }) => own,
            (
                TooLarge {
                    requested,
                    capacity: own,
                },
                TooLarge { capacity, .. },
            ) => TooLarge {
                requested,
                capacity: own.max(capacity),
            },
            (_, upstream) => upstream,
        }
    }
    fn census(&self) -> Census {
        self.census()
    }
    fn name(&self) -> &'static str {
        "bump"
    }
}

impl<U: BlockSource> fmt::Debug for BumpSource<'_, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BumpSource")
            .field("capacity", &self.slab.len())
            .field("used", &self.carved.get())
            .field("upstream", &self.upstream.name())
            .finish_non_exhaustive()
    }
}
