//! An owned block of bytes.
//!
//! Invariant of [`Block`]: `ptr` came from `source` with `layout`, was not released, and no other value
//! owns it.
#![allow(unsafe_code, reason = "turns what a source vends into an owned value")]

use core::alloc::Layout;
use core::fmt;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr::{self, NonNull};
use core::slice;

use crate::{BlockSource, SourceError};

/// A block and the way back to its source: dropping it releases it.
///
/// It is a unique owner: not `Clone`, and `Send` exactly where its source handle is. Its bytes are
/// uninitialised until they are written.
pub struct Block<S: BlockSource> {
    ptr: NonNull<u8>,
    layout: Layout,
    source: S,
}

// SAFETY: a block is memory that nobody else touches (the law of `BlockSource`), so it may go where
// its handle may go; the law lets it be released there.
unsafe impl<S: BlockSource + Send> Send for Block<S> {}
// SAFETY: a shared block gives out an address, a layout and a shared handle.
unsafe impl<S: BlockSource + Sync> Sync for Block<S> {}

impl<S: BlockSource> Block<S> {
    /// Takes a block from `source`.
    ///
    /// # Errors
    /// The source's own account of why it refused.
    #[inline]
    pub fn new(source: S, layout: Layout) -> Result<Self, SourceError> {
        match source.try_alloc(layout) {
            Some(ptr) => Ok(Self {
                ptr,
                layout,
                source,
            }),
            None => Err(source.refusal(layout)),
        }
    }

    /// Where it begins. Through the pointer one context at a time may write, and read what was written, for as long as
    /// the block lives and no reference from [`as_uninit_mut`](Self::as_uninit_mut) is in use.
    #[inline]
    #[must_use]
    pub const fn as_ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    /// The layout it was asked for with.
    #[inline]
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// The source it goes back to.
    #[inline]
    #[must_use]
    pub const fn source(&self) -> &S {
        &self.source
    }

    /// Its bytes.
    #[inline]
    #[must_use]
    pub const fn as_uninit_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: by the invariant and the law of `BlockSource` the block is valid for that many
        // bytes and nobody else touches it; `&mut self` excludes other references made here.
        // `MaybeUninit` demands nothing of the bytes. A `Layout` is at most `isize::MAX` bytes.
        unsafe { slice::from_raw_parts_mut(self.ptr.as_ptr().cast(), self.layout.size()) }
    }

    /// Takes it apart without releasing it: for descriptor rings and foreign functions.
    #[inline]
    #[must_use = "what is not put together again is never released"]
    pub fn into_raw(self) -> (NonNull<u8>, Layout, S) {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used or dropped after its handle was moved out.
        (this.ptr, this.layout, unsafe { ptr::read(&this.source) })
    }

    /// Puts together again what [`into_raw`](Self::into_raw) took apart.
    ///
    /// # Safety
    /// `ptr` came from `source` with exactly `layout`, was not released, and nobody else owns it.
    #[inline]
    pub const unsafe fn from_raw(ptr: NonNull<u8>, layout: Layout, source: S) -> Self {
        Self {
            ptr,
            layout,
            source,
        }
    }
}

impl<S: BlockSource> Drop for Block<S> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: by the invariant; and after this nobody has the block.
        unsafe { self.source.release(self.ptr, self.layout) }
    }
}

impl<S: BlockSource> fmt::Debug for Block<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block")
            .field("ptr", &self.ptr)
            .field("layout", &self.layout)
            .field("source", &self.source.name())
            .finish()
    }
}
