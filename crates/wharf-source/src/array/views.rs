//! An array seen as its elements.

use core::borrow::{Borrow, BorrowMut};
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::slice;

use crate::{BlockArray, BlockSource};

impl<T, S: BlockSource> BlockArray<T, S> {
    /// The first element.
    #[inline]
    #[must_use]
    pub const fn front(&self) -> Option<&T> {
        self.as_slice().first()
    }

    /// The first element, to be changed.
    #[inline]
    #[must_use]
    pub const fn front_mut(&mut self) -> Option<&mut T> {
        self.as_mut_slice().first_mut()
    }

    /// The last element.
    #[inline]
    #[must_use]
    pub const fn back(&self) -> Option<&T> {
        self.as_slice().last()
    }

    /// The last element, to be changed.
    #[inline]
    #[must_use]
    pub const fn back_mut(&mut self) -> Option<&mut T> {
        self.as_mut_slice().last_mut()
    }
}

impl<'a, T, S: BlockSource> IntoIterator for &'a BlockArray<T, S> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;
    fn into_iter(self) -> slice::Iter<'a, T> {
        self.iter()
    }
}

impl<'a, T, S: BlockSource> IntoIterator for &'a mut BlockArray<T, S> {
    type Item = &'a mut T;
    type IntoIter = slice::IterMut<'a, T>;
    fn into_iter(self) -> slice::IterMut<'a, T> {
        self.iter_mut()
    }
}

impl<T, S: BlockSource> AsRef<[T]> for BlockArray<T, S> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<T, S: BlockSource> AsMut<[T]> for BlockArray<T, S> {
    fn as_mut(&mut self) -> &mut [T] {
        self
    }
}

impl<T, S: BlockSource> Borrow<[T]> for BlockArray<T, S> {
    fn borrow(&self) -> &[T] {
        self
    }
}

impl<T, S: BlockSource> BorrowMut<[T]> for BlockArray<T, S> {
    fn borrow_mut(&mut self) -> &mut [T] {
        self
    }
}

impl<T: PartialEq<U>, U, S: BlockSource, R: BlockSource> PartialEq<BlockArray<U, R>>
    for BlockArray<T, S>
{
    fn eq(&self, other: &BlockArray<U, R>) -> bool {
        **self == **other
    }
}

impl<T: PartialEq<U>, U, S: BlockSource> PartialEq<[U]> for BlockArray<T, S> {
    fn eq(&self, other: &[U]) -> bool {
        **self == *other
    }
}

impl<T: PartialEq<U>, U, S: BlockSource, const N: usize> PartialEq<[U; N]> for BlockArray<T, S> {
    fn eq(&self, other: &[U; N]) -> bool {
        **self == *other
    }
}

impl<T: Eq, S: BlockSource> Eq for BlockArray<T, S> {}

impl<T: PartialOrd, S: BlockSource> PartialOrd for BlockArray<T, S> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (**self).partial_cmp(&**other)
    }
}

impl<T: Ord, S: BlockSource> Ord for BlockArray<T, S> {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl<T: Hash, S: BlockSource> Hash for BlockArray<T, S> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl<T: fmt::Debug, S: BlockSource> fmt::Debug for BlockArray<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
