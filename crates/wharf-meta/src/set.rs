//! Tensors by name.

use core::fmt;
use core::iter::FusedIterator;

use wharf_backend::Returned;
use wharf_source::{BlockArray, SourceError};
use wharf_tensor::{Target, Tensor};

use crate::name::NAME_MAX;
use crate::{BindError, NameTooLong, ShortName, TensorInfo, UnknownName};

/// Tensors by name: what a model is run with.
///
/// A set *owns* a handle to each of its tensors, so nothing that it names can go away. Its memory is two blocks of a block
/// source, the target's own as a rule: one for the names, which take as many bytes as they have, one for the handles. A set
/// of a firmware is as large as its source allows, and grows nowhere else.
///
/// Names are looked up one after the other: sets are small.
///
/// ```
/// # use wharf_backend::Heap;
/// # use wharf_source::HeapSource;
/// # use wharf_sync::Unsync;
/// # use wharf_tensor::{Parts, Tensor};
/// use wharf_meta::TensorSet;
///
/// # let target = Parts::<Heap<Unsync>, HeapSource>::new(HeapSource);
/// let mut inputs = TensorSet::new(&target);
/// let first = Tensor::alloc(&target, Heap::new(), 64)?;
/// assert!(inputs.insert("image", first.clone())?.is_none());
///
/// // The one that was replaced comes back.
/// let second = Tensor::alloc(&target, Heap::new(), 64)?;
/// let replaced = inputs.insert("image", second)?;
/// assert_eq!(replaced.unwrap().storage_id(), first.storage_id());
///
/// assert_eq!(inputs.get("img").unwrap_err().to_string(), "there is no tensor `img`");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct TensorSet<T: Target> {
    /// The names, in the order of `entries`, without gaps.
    names: BlockArray<u8, T::Source>,
    entries: BlockArray<Entry<T>, T::Source>,
}

struct Entry<T: Target> {
    /// Where its name starts in `names`.
    start: usize,
    /// The bytes of its name.
    len: usize,
    tensor: Tensor<T>,
}

impl<T: Target> TensorSet<T> {
    /// An empty set, which will take its memory from the target's block source. Allocates nothing yet.
    #[must_use]
    pub fn new(target: &T) -> Self {
        Self::in_source(target.source().clone())
    }

    /// An empty set that will take its memory from `source`. Allocates nothing yet.
    #[must_use]
    pub fn in_source(source: T::Source) -> Self {
        Self {
            names: BlockArray::new(source.clone()),
            entries: BlockArray::new(source),
        }
    }

    /// Makes room for so many more tensors, whose names take so many bytes together: in one block each.
    ///
    /// # Errors
    /// The source refused. The set is as it was; if it was the second block, the first stays with it as room.
    pub fn try_reserve(&mut self, tensors: usize, name_bytes: usize) -> Result<(), SourceError> {
        self.names.try_reserve_exact(name_bytes)?;
        self.entries.try_reserve_exact(tensors)
    }

    /// Adds a tensor under `name`, or puts it in the place of the one that is there, which is returned.
    ///
    /// # Errors
    /// The name is too long, or the source refused. The tensor comes back, and the set is as it was; room that it had got for the name
    /// by then stays with it. Replacing asks the source for nothing.
    pub fn insert(
        &mut self,
        name: &str,
        tensor: Tensor<T>,
    ) -> Result<Option<Tensor<T>>, Returned<Tensor<T>, SetError>> {
        if let Some(index) = self.position(name) {
            return Ok(self
                .entries
                .get_mut(index)
                .map(|entry| core::mem::replace(&mut entry.tensor, tensor)));
        }
        if name.len() > NAME_MAX {
            let error = NameTooLong { len: name.len() };
            return Err(Returned::new(error.into(), tensor));
        }
        let (start, len) = (self.names.len(), name.len());
        if let Err(error) = self.names.extend_from_slice(name.as_bytes()) {
            return Err(Returned::new(error.into(), tensor));
        }
        self.entries
            .push(Entry { start, len, tensor })
            .map(|()| None)
            .map_err(|(error, entry)| {
                // The name of nothing.
                self.names.truncate(start);
                Returned::new(error.into(), entry.tensor)
            })
    }

    /// The tensor of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn get(&self, name: &str) -> Result<&Tensor<T>, UnknownName> {
        self.position(name)
            .and_then(|index| self.entries.get(index))
            .map(|entry| &entry.tensor)
            .ok_or_else(|| UnknownName::new(name))
    }

    /// Whether there is a tensor of this name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.position(name).is_some()
    }

    /// Takes the tensor of this name out. The others keep their order.
    ///
    /// # Errors
    /// There is none.
    pub fn remove(&mut self, name: &str) -> Result<Tensor<T>, UnknownName> {
        let unknown = || UnknownName::new(name);
        let index = self.position(name).ok_or_else(unknown)?;
        let removed = self.entries.remove(index).ok_or_else(unknown)?;
        // Closes the gap that its name leaves.
        if let Some(behind) = self.names.get_mut(removed.start..) {
            behind.rotate_left(removed.len);
        }
        self.names.truncate(self.names.len() - removed.len);
        for entry in self.entries.iter_mut().skip(index) {
            entry.start -= removed.len;
        }
        Ok(removed.tensor)
    }

    /// Drops all tensors, and keeps the memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.names.clear();
    }

    /// How many tensors there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The names and tensors, in the order in which they were added.
    pub fn iter(&self) -> SetIter<'_, T> {
        SetIter {
            names: &self.names,
            entries: self.entries.iter(),
        }
    }

    /// Whether the set has what a model wants: for each of `infos` a tensor of its name and size. Others may be there too.
    ///
    /// # Errors
    /// The first that is missing or of another size.
    pub fn check<'i>(
        &self,
        infos: impl IntoIterator<Item = &'i TensorInfo>,
    ) -> Result<(), BindError> {
        for info in infos {
            let (usage, expected) = (info.usage(), info.size());
            let name = || ShortName::new(info.name());
            let Ok(tensor) = self.get(info.name()) else {
                return Err(BindError::Missing {
                    name: name(),
                    usage,
                    expected,
                });
            };
            if tensor.len() != expected {
                return Err(BindError::Size {
                    name: name(),
                    usage,
                    expected,
                    found: tensor.len(),
                });
            }
        }
        Ok(())
    }

    fn position(&self, name: &str) -> Option<usize> {
        let named = |entry: &Entry<T>| entry.name(&self.names) == name.as_bytes();
        self.entries.iter().position(named)
    }
}

impl<T: Target> Entry<T> {
    fn name<'a>(&self, names: &'a [u8]) -> &'a [u8] {
        // No wrap: the name lies in `names`.
        names
            .get(self.start..self.start + self.len)
            .unwrap_or_default()
    }
}

impl<T: Target> fmt::Debug for TensorSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl<'a, T: Target> IntoIterator for &'a TensorSet<T> {
    type Item = (&'a str, &'a Tensor<T>);
    type IntoIter = SetIter<'a, T>;
    fn into_iter(self) -> SetIter<'a, T> {
        self.iter()
    }
}

/// The names and tensors of a [`TensorSet`], in the order in which they were added.
pub struct SetIter<'a, T: Target> {
    names: &'a [u8],
    entries: core::slice::Iter<'a, Entry<T>>,
}

impl<'a, T: Target> SetIter<'a, T> {
    fn item(names: &'a [u8], entry: &'a Entry<T>) -> (&'a str, &'a Tensor<T>) {
        // The bytes came from a `str`.
        let name = str::from_utf8(entry.name(names)).unwrap_or_default();
        (name, &entry.tensor)
    }
}

impl<'a, T: Target> Iterator for SetIter<'a, T> {
    type Item = (&'a str, &'a Tensor<T>);

    fn next(&mut self) -> Option<Self::Item> {
        self.entries
            .next()
            .map(|entry| Self::item(self.names, entry))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entries.size_hint()
    }
}

impl<T: Target> DoubleEndedIterator for SetIter<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.entries
            .next_back()
            .map(|entry| Self::item(self.names, entry))
    }
}

impl<T: Target> ExactSizeIterator for SetIter<'_, T> {}
impl<T: Target> FusedIterator for SetIter<'_, T> {}

impl<T: Target> Clone for SetIter<'_, T> {
    fn clone(&self) -> Self {
        Self {
            names: self.names,
            entries: self.entries.clone(),
        }
    }
}

impl<T: Target> fmt::Debug for SetIter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.clone()).finish()
    }
}

/// Why a tensor was not added to a set. The set is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum SetError {
    /// The name is too long.
    Name(NameTooLong),
    /// The block source refused.
    Refused(SourceError),
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => error.fmt(f),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SetError {}

impl From<NameTooLong> for SetError {
    fn from(error: NameTooLong) -> Self {
        Self::Name(error)
    }
}

impl From<SourceError> for SetError {
    fn from(error: SourceError) -> Self {
        Self::Refused(error)
    }
}
