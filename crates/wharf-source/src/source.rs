//! The trait. It is `unsafe` because everything above writes into what it vends.
//!
//! Contains no unsafe operation of its own, save passing a call on to the source that a reference
//! stands for.
#![allow(
    unsafe_code,
    reason = "declares the unsafe trait, and implements it for references"
)]

use core::alloc::Layout;
use core::num::NonZero;
use core::ptr::NonNull;

use crate::{Census, SourceError};

/// Vends blocks of memory that have one owner each.
///
/// A source is named by a *handle*: a reference, a counted pointer, or a value without memory of its
/// own, such as `HeapSource`. [`Block`](crate::Block) keeps the handle by value and carries it along.
///
/// # Safety
/// From the moment [`try_alloc`](Self::try_alloc) returns a block until it is released or the source
/// ends, whichever comes first:
///
/// * the block is valid for reads and writes of `layout.size()` bytes and aligned to `layout.align()`;
/// * it overlaps no other live block, and nobody but its owner touches it;
/// * moving the handle changes none of this, nor does sending it where it is `Send`: a block may be
///   released through the same handle on another thread;
/// * a clone of the handle is a handle to the same source: either may release what the other vended,
///   and the source does not end before both have.
///
/// A source that keeps its memory inside itself therefore implements the trait for references to it,
/// as [`StaticPoolSource`](crate::StaticPoolSource) does. No method panics or unwinds.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a source of memory blocks",
    note = "the sources of wharf-source are `NullSource`, `HeapSource` (feature `alloc`), `BumpSource`, `PoolSource` and `&StaticPoolSource`"
)]
pub unsafe trait BlockSource {
    /// A block, or a refusal, which the source counts. The cause is asked for afterwards
    /// ([`refusal`](Self::refusal)), so that the answer fits in a register also when the source is behind `dyn`.
    ///
    /// A layout of no bytes is never refused: see [`empty_block`].
    fn try_alloc(&self, layout: Layout) -> Option<NonNull<u8>>;

    /// Takes a block back.
    ///
    /// # Safety
    /// `block` came from `try_alloc` of this source with exactly this `layout`, was not released
    /// since, and is not used any more.
    unsafe fn release(&self, block: NonNull<u8>, layout: Layout);

    /// Why a request for `layout` is refused: to be asked right after a refusal, on the cold path. The
    /// numbers are those of the moment of asking.
    fn refusal(&self, layout: Layout) -> SourceError;

    /// What the source counts. By default it counts nothing.
    fn census(&self) -> Census {
        Census::NOTHING
    }

    /// What to call the source in a report.
    fn name(&self) -> &'static str;
}

/// The block that answers a request for no bytes: aligned, dangling, never to be followed. `None`
/// where `layout` has bytes, and the source must find some.
///
/// ```
/// # use core::alloc::Layout;
/// let nothing = Layout::from_size_align(0, 64).unwrap();
/// assert_eq!(wharf_source::empty_block(nothing).unwrap().addr().get(), 64);
/// assert_eq!(wharf_source::empty_block(Layout::new::<u8>()), None);
/// ```
#[inline]
#[must_use]
pub const fn empty_block(layout: Layout) -> Option<NonNull<u8>> {
    match NonZero::new(layout.align()) {
        Some(addr) if layout.size() == 0 => Some(NonNull::without_provenance(addr)),
        _ => None,
    }
}

macro_rules! pass_on {
    ($(#[$attribute:meta])* $handle:ty) => {
        $(#[$attribute])*
        // SAFETY: the handle stands for a source that keeps the law, and moving the handle does not
        // move that source.
        unsafe impl<S: BlockSource + ?Sized> BlockSource for $handle {
            #[inline]
            fn try_alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
                (**self).try_alloc(layout)
            }
            #[inline]
            unsafe fn release(&self, block: NonNull<u8>, layout: Layout) {
                // SAFETY: the caller's promise about the handle is one about its source.
                unsafe { (**self).release(block, layout) }
            }
            fn refusal(&self, layout: Layout) -> SourceError {
                (**self).refusal(layout)
            }
            fn census(&self) -> Census {
                (**self).census()
            }
            fn name(&self) -> &'static str {
                (**self).name()
            }
        }
    };
}

pass_on!(&S);
pass_on!(
    #[cfg(feature = "alloc")]
    alloc::rc::Rc<S>
);
pass_on!(
    #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
    alloc::sync::Arc<S>
);
