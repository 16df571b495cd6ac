//! Handles compared by the bytes that they show.
//!
//! A segment and a view are equal, ordered and hashed as the slices that they dereference to, so that a map keyed by
//! views is looked up by `&[u8]`. Only host memory that the type knows as such: an erased handle is compared by
//! `host()`, which may say no.
#![forbid(unsafe_code)]

use core::borrow::Borrow;
use core::cmp::Ordering;
use core::hash::{Hash, Hasher};

use wharf_backend::{BackendRef, ReadableBackend};
use wharf_source::BlockSource;

use crate::{Rope, Segment, View};

macro_rules! as_bytes {
    ($handle:ident) => {
        impl<R: BackendRef, Q: BackendRef> PartialEq<$handle<Q>> for $handle<R>
        where
            R::Backend: ReadableBackend,
            Q::Backend: ReadableBackend,
        {
            fn eq(&self, other: &$handle<Q>) -> bool {
                **self == **other
            }
        }

        impl<R: BackendRef> Eq for $handle<R> where R::Backend: ReadableBackend {}

        impl<R: BackendRef> PartialEq<[u8]> for $handle<R>
        where
            R::Backend: ReadableBackend,
        {
            fn eq(&self, other: &[u8]) -> bool {
                **self == *other
            }
        }

        impl<R: BackendRef, const N: usize> PartialEq<[u8; N]> for $handle<R>
        where
            R::Backend: ReadableBackend,
        {
            fn eq(&self, other: &[u8; N]) -> bool {
                **self == *other
            }
        }

        impl<'a, R: BackendRef, T: ?Sized> PartialEq<&'a T> for $handle<R>
        where
            Self: PartialEq<T>,
        {
            fn eq(&self, other: &&'a T) -> bool {
                *self == **other
            }
        }

        impl<R: BackendRef> PartialEq<$handle<R>> for [u8]
        where
            R::Backend: ReadableBackend,
        {
            fn eq(&self, other: &$handle<R>) -> bool {
                *self == **other
            }
        }

        impl<R: BackendRef> PartialOrd for $handle<R>
        where
            R::Backend: ReadableBackend,
        {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl<R: BackendRef> Ord for $handle<R>
        where
            R::Backend: ReadableBackend,
        {
            fn cmp(&self, other: &Self) -> Ordering {
                (**self).cmp(&**other)
            }
        }

        impl<R: BackendRef> Hash for $handle<R>
        where
            R::Backend: ReadableBackend,
        {
            fn hash<H: Hasher>(&self, state: &mut H) {
                (**self).hash(state);
            }
        }

        impl<R: BackendRef> Borrow<[u8]> for $handle<R>
        where
            R::Backend: ReadableBackend,
        {
            fn borrow(&self) -> &[u8] {
                self
            }
        }
    };
}

as_bytes!(Segment);
as_bytes!(View);

/// Whether two sequences of pieces, none of them empty and as many bytes together, are the same bytes.
fn same<'a>(
    mut these: impl Iterator<Item = &'a [u8]>,
    mut those: impl Iterator<Item = &'a [u8]>,
) -> bool {
    let (mut this, mut that): (&[u8], &[u8]) = (&[], &[]);
    loop {
        if this.is_empty() {
            this = these.next().unwrap_or_default();
        }
        if that.is_empty() {
            that = those.next().unwrap_or_default();
        }
        let len = this.len().min(that.len());
        let ((a, rest_a), (b, rest_b)) = (this.split_at(len), that.split_at(len));
        if len == 0 {
            // Both have ended.
            return true;
        }
        if a != b {
            return false;
        }
        (this, that) = (rest_a, rest_b);
    }
}

/// By the bytes, however they are divided into links.
impl<R, S, const N: usize, Q, T, const M: usize> PartialEq<Rope<Q, T, M>> for Rope<R, S, N>
where
    R: BackendRef<Backend: ReadableBackend>,
    S: BlockSource,
    Q: BackendRef<Backend: ReadableBackend>,
    T: BlockSource,
{
    fn eq(&self, other: &Rope<Q, T, M>) -> bool {
        self.len() == other.len() && same(self.chunks(), other.chunks())
    }
}

impl<R, S, const N: usize> Eq for Rope<R, S, N>
where
    R: BackendRef<Backend: ReadableBackend>,
    S: BlockSource,
{
}

impl<R, S, const N: usize> PartialEq<[u8]> for Rope<R, S, N>
where
    R: BackendRef<Backend: ReadableBackend>,
    S: BlockSource,
{
    fn eq(&self, other: &[u8]) -> bool {
        self.len() == other.len() && same(self.chunks(), core::iter::once(other))
    }
}

impl<R, S, const N: usize, const M: usize> PartialEq<[u8; M]> for Rope<R, S, N>
where
    R: BackendRef<Backend: ReadableBackend>,
    S: BlockSource,
{
    fn eq(&self, other: &[u8; M]) -> bool {
        *self == other[..]
    }
}

impl<'a, R, S, const N: usize, T: ?Sized> PartialEq<&'a T> for Rope<R, S, N>
where
    R: BackendRef,
    S: BlockSource,
    Self: PartialEq<T>,
{
    fn eq(&self, other: &&'a T) -> bool {
        *self == **other
    }
}
