//! The place of an element that is not there yet.
//!
//! Invariant of [`ArraySlot`]: `place` is the place number `*len` of an array that is borrowed for `'a`, inside its
//! memory, and holds no counted element.
#![allow(unsafe_code, reason = "counts an element once it is there")]

use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// A place at the end of a [`BlockArray`](crate::BlockArray), claimed by [`push_slot`](crate::BlockArray::push_slot).
///
/// The element comes to be where it stays: a large one is never built elsewhere and moved.
///
/// ```
/// use wharf_source::{BlockArray, StaticPoolSource};
/// use wharf_sync::Unsync;
///
/// let pool = StaticPoolSource::<Unsync, 16384, 2>::new();
/// let mut frames = BlockArray::<[u8; 1500], _>::new(&pool);
///
/// // Not filled, not counted.
/// let _ = frames.push_slot()?;
/// core::mem::forget(frames.push_slot()?);
/// assert!(frames.is_empty());
///
/// let mut slot = frames.push_slot()?;
/// slot.as_uninit_mut().write([0x55; 1500]); // or by a receiver, through the pointer
/// // SAFETY: just written.
/// let frame = unsafe { slot.assume_init() };
/// frame[0] = 1;
/// assert_eq!(frames[0][..2], [1, 0x55]);
/// # Ok::<(), wharf_source::SourceError>(())
/// ```
#[must_use = "a slot that is not filled is not counted"]
pub struct ArraySlot<'a, T> {
    place: NonNull<MaybeUninit<T>>,
    len: &'a mut usize,
}

// SAFETY: it stands for an exclusive borrow of a place for a `T`, and of a number.
unsafe impl<T: Send> Send for ArraySlot<'_, T> {}
// SAFETY: shared, it gives out nothing but an address.
unsafe impl<T: Sync> Sync for ArraySlot<'_, T> {}

impl<'a, T> ArraySlot<'a, T> {
    /// # Safety
    /// The invariant, for the array that `len` belongs to.
    #[inline]
    pub(super) const unsafe fn new(place: NonNull<MaybeUninit<T>>, len: &'a mut usize) -> Self {
        Self { place, len }
    }

    /// Fills it, and counts it.
    #[inline]
    pub fn write(mut self, value: T) -> &'a mut T {
        self.as_uninit_mut().write(value);
        // SAFETY: just written.
        unsafe { self.assume_init() }
    }

    /// Its bytes, to be filled.
    #[inline]
    pub const fn as_uninit_mut(&mut self) -> &mut MaybeUninit<T> {
        // SAFETY: by the invariant, and `&mut self` excludes other references; nothing is demanded of the bytes.
        unsafe { self.place.as_mut() }
    }

    /// Says that it was filled, and counts it.
    ///
    /// # Safety
    /// It holds a `T`.
    #[inline]
    #[expect(
        clippy::must_use_candidate,
        reason = "most callers have no more to do with the element"
    )]
    pub unsafe fn assume_init(self) -> &'a mut T {
        // No wrap: the place is inside the memory, so `*len` is below its capacity.
        *self.len += 1;
        // SAFETY: the caller's promise; the array stays borrowed as long as the reference.
        unsafe { self.place.cast().as_mut() }
    }
}

impl<T> fmt::Debug for ArraySlot<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArraySlot")
            .field("index", &*self.len)
            .finish_non_exhaustive()
    }
}
