//! Any block source as a backend: header and payload in one block.
//!
//! Invariant: a header is the start of a live block of `source` with [`layout`]`(header.len())`, whose payload starts at
//! [`payload`].
#![allow(unsafe_code, reason = "takes blocks apart into headers and payloads")]

use core::alloc::Layout;
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use wharf_source::{BlockSource, Census, SourceError};
use wharf_sync::{ConstInit, Lock, SyncPolicy};

use crate::{
    Align16, Alignment, AllocError, AllocHint, Caps, ConstOwnLines, Header, HostBackend,
    MemBackend, OwnLines, Place,
};

/// What a [`SourceBackend`] counts. Opaque; public because the bounds of a `const` one name it.
#[derive(Debug)]
pub struct SourceLedger {
    in_use: Cell<usize>,
    peak: Cell<usize>,
    refused: Cell<usize>,
    largest_refused: Cell<usize>,
}

impl ConstInit for SourceLedger {
    const INIT: Self = Self {
        in_use: Cell::new(0),
        peak: Cell::new(0),
        refused: Cell::new(0),
        largest_refused: Cell::new(0),
    };
}

/// Segments from a block source: one block each, the header in front of the payload.
///
/// Payloads are aligned to `A`, and a block is a whole number of alignments, so with a cache line for `A` no payload shares a
/// line with a header, another payload, or another block of the source.
///
/// ```
/// use core::mem::MaybeUninit;
/// use wharf_backend::{Align64, BackendExt, MemBackend, SourceBackend};
/// use wharf_source::{PoolSource, SizeClass};
/// use wharf_sync::Unsync;
///
/// let mut slab = [MaybeUninit::<u8>::uninit(); 1024];
/// let mut classes = [SizeClass::EMPTY; 4];
/// let source = PoolSource::<Unsync>::new(&mut slab, &mut classes);
/// let memory = SourceBackend::<_, Unsync, Align64>::new(&source);
/// let segment = memory.alloc(100)?.filled(7)?;
/// assert_eq!(segment.as_ptr().addr() % 64, 0);
/// assert_eq!(memory.census().bytes_in_use(), 64 + 128, "the header's line, and two of payload");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// It refuses where the source does, and counts that in the bytes that were asked of *it*; so also over a source that counts
/// nothing.
pub struct SourceBackend<S, P: SyncPolicy, A = Align16> {
    source: S,
    ledger: P::Lock<SourceLedger>,
    caps: Caps,
    align: PhantomData<fn() -> A>,
}

impl<S, P: SyncPolicy, A: Alignment> SourceBackend<S, P, A> {
    /// Over `source`, by whatever handle: a reference, or a value without memory of its own.
    pub const fn new(source: S) -> Self
    where
        P::Lock<SourceLedger>: ConstInit,
    {
        Self {
            source,
            ledger: ConstInit::INIT,
            caps: Caps::OWNS_BYTES.union(Caps::PLAIN_COPIES),
            align: PhantomData,
        }
    }

    /// [`new`](Self::new) for policies without constants.
    pub fn fresh(source: S) -> Self {
        Self {
            source,
            ledger: Lock::new(SourceLedger::INIT),
            caps: Caps::OWNS_BYTES.union(Caps::PLAIN_COPIES),
            align: PhantomData,
        }
    }

    /// Says what the source is, which the source itself does not: [`Caps::NONBLOCKING`] and [`Caps::ISR_SAFE`]. Other
    /// capabilities are not for the asking, and ignored.
    #[must_use]
    pub const fn with_caps(self, caps: Caps) -> Self {
        let said = Caps::NONBLOCKING.union(Caps::ISR_SAFE).intersection(caps);
        // Destructuring would demand that `S` has no drop glue in a `const`.
        let mut this = self;
        this.caps = this.caps.union(said);
        this
    }

    /// The source.
    pub const fn source(&self) -> &S {
        &self.source
    }

    /// What every block is aligned to and a multiple of.
    const ALIGN: usize = {
        let header = align_of::<Header<P>>();
        if A::BYTES > header { A::BYTES } else { header }
    };
    /// Offset of the payload.
    const PAYLOAD: usize = size_of::<Header<P>>().next_multiple_of(Self::ALIGN);
    /// The largest payload that a block can have.
    const MOST: usize = (isize::MAX.unsigned_abs() & !(Self::ALIGN - 1)) - Self::PAYLOAD;

    /// The block of a segment of `size` bytes, unless it is larger than any can be.
    const fn layout(size: usize) -> Option<Layout> {
        if size > Self::MOST {
            return None;
        }
        // No wrap: within `isize::MAX`, also rounded up.
        let bytes = (Self::PAYLOAD + size).next_multiple_of(Self::ALIGN);
        match Layout::from_size_align(bytes, Self::ALIGN) {
            Ok(layout) => Some(layout),
            Err(_) => None,
        }
    }

    #[cold]
    fn refuse(&self, size: usize) {
        self.ledger.with(|ledger| {
            ledger.refused.set(ledger.refused.get().saturating_add(1));
            let largest = ledger.largest_refused.get().max(size);
            ledger.largest_refused.set(largest);
        });
    }
}

impl<S: BlockSource, P: SyncPolicy, A: Alignment> fmt::Debug for SourceBackend<S, P, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceBackend")
            .field("policy", &P::NAME)
            .field("source", &self.source.name())
            .field("align", &A::BYTES)
            .field("census", &self.census())
            .finish()
    }
}

// SAFETY: every segment is a block of its own, laid out by `layout`; the source keeps blocks apart, where they are, and valid
// while its handle lives, on every thread that may have the handle.
unsafe impl<S: BlockSource, P: SyncPolicy, A: Alignment> MemBackend for SourceBackend<S, P, A> {
    type Policy = P;

    fn vend(&self, size: usize, _: AllocHint) -> Option<NonNull<Header<P>>> {
        let taken = Self::layout(size).and_then(|layout| {
            let block = self.source.try_alloc(layout)?;
            Some((block.cast::<Header<P>>(), layout.size()))
        });
        let Some((header, bytes)) = taken else {
            self.refuse(size);
            return None;
        };
        // SAFETY: a fresh block, large enough and aligned for a header.
        unsafe { header.write(Header::new(size)) };
        self.ledger.with(|ledger| {
            // No wrap: the blocks are in memory together.
            let in_use = ledger.in_use.get() + bytes;
            ledger.in_use.set(in_use);
            ledger.peak.set(ledger.peak.get().max(in_use));
        });
        Some(header)
    }

    fn refusal(&self, size: usize, _: AllocHint) -> AllocError {
        let max = self.max_segment_size();
        let layout = match Self::layout(size) {
            Some(layout) if size <= max => layout,
            _ => {
                return AllocError::TooLarge {
                    requested: size,
                    max,
                };
            }
        };
        let why = match self.source.refusal(layout) {
            SourceError::Exhausted { requested, .. } => {
                let source = self.source.census();
                AllocError::Exhausted {
                    requested,
                    in_use: source.bytes_in_use(),
                    capacity: source.bytes_capacity(),
                }
            }
            SourceError::HeapExhausted { requested } => AllocError::Heap { requested },
            other => AllocError::Source(other),
        };
        // In the bytes that were asked of us, not in those of the block.
        why.of_a_request_for(size)
    }

    unsafe fn reclaim(&self, header: NonNull<Header<P>>) {
        // SAFETY: a live header, which nobody else holds.
        let len = unsafe { header.as_ref() }.len();
        if let Some(layout) = Self::layout(len) {
            // SAFETY: the header is dropped once, and the block was asked for with this very layout.
            unsafe {
                header.drop_in_place();
                self.source.release(header.cast(), layout);
            }
            self.ledger.with(|ledger| {
                ledger.in_use.set(ledger.in_use.get() - layout.size());
            });
        }
    }

    #[inline]
    unsafe fn place(&self, header: NonNull<Header<P>>) -> Place {
        // SAFETY: the payload starts there, in the same block.
        Place::Host(unsafe { header.cast::<u8>().add(Self::PAYLOAD) })
    }

    /// A source keeps no record of what it vended, so it can refute nothing.
    fn may_own(&self, _: NonNull<Header<P>>) -> bool {
        true
    }

    fn caps(&self) -> Caps {
        self.caps
    }

    fn alignment(&self) -> usize {
        Self::ALIGN
    }

    /// By the source's capacity, where it says one. A source may refuse less, because of the shapes that it is in.
    fn max_segment_size(&self) -> usize {
        match self.source.census().bytes_capacity() {
            0 => Self::MOST,
            bytes => (bytes & !(Self::ALIGN - 1))
                .saturating_sub(Self::PAYLOAD)
                .min(Self::MOST),
        }
    }

    /// In bytes of blocks, the header's and the padding included: what *this* backend has of the source. Capacity and
    /// what was dropped are the source's own.
    fn census(&self) -> Census {
        let source = self.source.census();
        self.ledger.with(|ledger| Census {
            unit: 1,
            capacity: source.bytes_capacity(),
            in_use: ledger.in_use.get(),
            peak: ledger.peak.get(),
            refused: ledger.refused.get(),
            dropped: source.dropped,
            largest_refused: ledger.largest_refused.get(),
        })
    }

    fn name(&self) -> &'static str {
        self.source.name()
    }
}

// SAFETY: blocks are memory.
unsafe impl<S: BlockSource, P: SyncPolicy, A: Alignment> HostBackend for SourceBackend<S, P, A> {}

// SAFETY: a block starts at a multiple of `ALIGN`, is as many of it as it is long, and so is the payload's offset.
unsafe impl<S: BlockSource, P: SyncPolicy, A: Alignment> OwnLines for SourceBackend<S, P, A> {
    fn granule(&self) -> usize {
        Self::ALIGN
    }
}

// SAFETY: the same number.
unsafe impl<S: BlockSource, P: SyncPolicy, A: Alignment> ConstOwnLines for SourceBackend<S, P, A> {
    const GRANULE: usize = Self::ALIGN;
}
