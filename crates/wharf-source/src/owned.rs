//! An owned value in a block.
//!
//! Invariant of [`Place`]: `ptr` came from `source` with the layout of `T`, was not released, and no other
//! value owns it. Invariant of [`Owned`]: its place holds a `T`.
#![allow(unsafe_code, reason = "turns what a source vends into an owned value")]

use core::alloc::Layout;
use core::fmt;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::{Deref, DerefMut};
use core::ptr::{self, NonNull};

use crate::{BlockSource, SourceError};

/// Memory for a `T`: dropping it releases the memory, and does not look at the `T`.
struct Place<T, S: BlockSource> {
    ptr: NonNull<T>,
    source: S,
}

impl<T, S: BlockSource> Drop for Place<T, S> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: by the invariant; and after this nobody has the block.
        unsafe { self.source.release(self.ptr.cast(), Layout::new::<T>()) }
    }
}

/// A value that lives in a block of a source: a `Box` whose allocation can fail.
///
/// ```
/// use wharf_source::{NullSource, Owned, SourceError};
///
/// // The value comes back with the refusal.
/// let refused = Owned::new(NullSource, [7; 4]);
/// assert_eq!(refused.err(), Some((SourceError::Null { requested: 16 }, [7; 4])));
/// ```
pub struct Owned<T, S: BlockSource> {
    place: Place<T, S>,
}

// SAFETY: it owns a `T` and a handle; the memory is nobody else's, and the law of `BlockSource` lets it be
// released where the handle goes.
unsafe impl<T: Send, S: BlockSource + Send> Send for Owned<T, S> {}
// SAFETY: shared, it lends the `T` and the handle, shared.
unsafe impl<T: Sync, S: BlockSource + Sync> Sync for Owned<T, S> {}

impl<T, S: BlockSource> Owned<T, S> {
    /// Moves `value` into a block of `source`.
    ///
    /// # Errors
    /// The source's own account of why it refused, and the value.
    #[inline]
    pub fn new(source: S, value: T) -> Result<Self, (SourceError, T)> {
        match Self::uninit(source) {
            Ok(place) => Ok(place.write(value)),
            Err(error) => Err((error, value)),
        }
    }

    /// A block for a `T` that is yet to be filled, in place.
    ///
    /// # Errors
    /// The source's own account of why it refused.
    #[inline]
    pub fn uninit(source: S) -> Result<Owned<MaybeUninit<T>, S>, SourceError> {
        let layout = Layout::new::<T>();
        match source.try_alloc(layout) {
            // `MaybeUninit<T>` has the layout of `T`, and nothing is demanded of its bytes.
            Some(ptr) => Ok(Owned {
                place: Place {
                    ptr: ptr.cast(),
                    source,
                },
            }),
            None => Err(source.refusal(layout)),
        }
    }

    /// The source it goes back to. A function, not a method: `T` may have a method of this name.
    #[inline]
    #[must_use]
    pub const fn source(this: &Self) -> &S {
        &this.place.source
    }

    /// Takes the value out and releases the block.
    #[inline]
    #[must_use]
    pub fn into_inner(this: Self) -> T {
        let place = Self::into_place(this);
        // SAFETY: the place held a `T` and nobody looks at it again.
        unsafe { place.ptr.read() }
    }

    /// Takes it apart without dropping or releasing anything.
    #[inline]
    #[must_use = "what is not put together again is never dropped nor released"]
    pub fn into_raw(this: Self) -> (NonNull<T>, S) {
        let place = ManuallyDrop::new(Self::into_place(this));
        // SAFETY: `place` is not used or dropped after its handle was moved out.
        (place.ptr, unsafe { ptr::read(&place.source) })
    }

    /// Puts together again what [`into_raw`](Self::into_raw) took apart.
    ///
    /// # Safety
    /// `ptr` came from `source` with the layout of `T`, was not released, holds a `T`, and nobody else
    /// owns it.
    #[inline]
    pub const unsafe fn from_raw(ptr: NonNull<T>, source: S) -> Self {
        Self {
            place: Place { ptr, source },
        }
    }

    /// Gives up the value's invariant, and leaves the memory's.
    fn into_place(this: Self) -> Place<T, S> {
        let this = ManuallyDrop::new(this);
        // SAFETY: `this` is not used or dropped after its place was moved out.
        unsafe { ptr::read(&this.place) }
    }
}

impl<T, S: BlockSource> Owned<MaybeUninit<T>, S> {
    /// Fills it.
    #[inline]
    #[must_use]
    pub fn write(mut self, value: T) -> Owned<T, S> {
        (*self).write(value);
        // SAFETY: just written.
        unsafe { self.assume_init() }
    }

    /// Says that it was filled.
    ///
    /// # Safety
    /// It holds a `T`.
    #[inline]
    #[must_use]
    pub unsafe fn assume_init(self) -> Owned<T, S> {
        let (ptr, source) = Self::into_raw(self);
        // SAFETY: the caller's promise; `MaybeUninit<T>` has the layout of `T`.
        unsafe { Owned::from_raw(ptr.cast(), source) }
    }
}

impl<T, S: BlockSource> Deref for Owned<T, S> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: by the invariants, and by the law that nobody else touches the block.
        unsafe { self.place.ptr.as_ref() }
    }
}

impl<T, S: BlockSource> DerefMut for Owned<T, S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for `deref`; `&mut self` excludes other references.
        unsafe { self.place.ptr.as_mut() }
    }
}

impl<T, S: BlockSource> Drop for Owned<T, S> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: by the invariant there is a `T`, which nobody looks at again. Should its drop
        // unwind, the place is dropped all the same.
        unsafe { self.place.ptr.drop_in_place() }
    }
}

impl<T: fmt::Debug, S: BlockSource> fmt::Debug for Owned<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T: fmt::Display, S: BlockSource> fmt::Display for Owned<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}
