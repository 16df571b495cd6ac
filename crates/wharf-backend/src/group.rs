//! Segments that come one by one and go all at once.

use core::fmt;

use wharf_source::{BlockArray, BlockSource, SourceError};

use crate::{AllocError, BackendRef, MemBackend, Returned, SegmentMut, TransferError};

/// Segments of one backend that go together: those of a model, of a request, of a frame.
///
/// The group *owns* what it lists. Dropping or [`clear`](Self::clear)ing it gives every segment back; nothing that it lent can
/// be there any more, because all of it borrows the group, and what was [taken out](Self::take) is not part of it. Its list lies
/// in a block of a source, and a refusal by either leaves the group as it was.
///
/// ```
/// use wharf_backend::{Group, StaticPool};
/// use wharf_source::HeapSource;
/// use wharf_sync::Unsync;
///
/// let pool = StaticPool::<Unsync, 64, 8>::new();
/// let mut layer = Group::new(&pool, HeapSource);
/// let weights = layer.alloc(48)?;
/// let bias = layer.alloc(16)?;
/// layer.get_mut(bias).unwrap().write(0, &[1; 16])?;
/// assert_eq!((layer.len(), layer.bytes()), (2, 64));
///
/// layer.clear();
/// assert!(layer.get(weights).is_none(), "a member of former times");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// What it lends ends before it does:
///
/// ```compile_fail,E0502
/// # use wharf_backend::{Group, StaticPool};
/// # use wharf_source::HeapSource;
/// # use wharf_sync::Unsync;
/// # let pool = StaticPool::<Unsync, 64, 8>::new();
/// # let mut layer = Group::new(&pool, HeapSource);
/// # let weights = layer.alloc(48).unwrap();
/// let lent = layer.get(weights).unwrap();
/// layer.clear(); // error: cannot borrow as mutable
/// lent.len();
/// ```
pub struct Group<R: BackendRef, S: BlockSource> {
    backend: R,
    members: BlockArray<Option<SegmentMut<R>>, S>,
    /// How often it was cleared: members of former times are told apart.
    generation: u32,
}

/// Which member of a [`Group`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Member {
    index: usize,
    generation: u32,
}

impl<R: BackendRef + Clone, S: BlockSource> Group<R, S> {
    /// A group without members, which takes nothing yet. Its segments come from `backend`, its list from `source`.
    pub const fn new(backend: R, source: S) -> Self {
        Self {
            backend,
            members: BlockArray::new(source),
            generation: 0,
        }
    }

    /// Another member, of `size` bytes: zeros, or what the backend's memory holds where that always has values.
    ///
    /// # Errors
    /// The list or the backend refused, or the device is closed. The group is as it was.
    pub fn alloc(&mut self, size: usize) -> Result<Member, GroupError> {
        // First, so that no segment is without a place.
        self.members.try_reserve(1).map_err(AllocError::Source)?;
        let segment = SegmentMut::alloc(self.backend.clone(), size)?.initialised()?;
        self.adopt(segment)
            .map_err(|refused| AllocError::Source(refused.error).into())
    }

    /// Makes a segment a member. It need not be of the group's own backend.
    ///
    /// # Errors
    /// The list refused; the segment comes back.
    pub fn adopt(
        &mut self,
        segment: SegmentMut<R>,
    ) -> Result<Member, Returned<SegmentMut<R>, SourceError>> {
        let (index, generation) = (self.members.len(), self.generation);
        if let Err(error) = self.members.try_reserve(1) {
            return Err(Returned::new(error, segment));
        }
        match self.members.push(Some(segment)) {
            Ok(()) => Ok(Member { index, generation }),
            // There is room. If there were none, a segment would come back.
            Err((error, Some(segment))) => Err(Returned::new(error, segment)),
            Err((_, None)) => unreachable!("what was pushed has a value"),
        }
    }
}

impl<R: BackendRef, S: BlockSource> Group<R, S> {
    fn index(&self, member: Member) -> Option<usize> {
        (member.generation == self.generation).then_some(member.index)
    }

    /// A member, if it is there.
    #[must_use]
    pub fn get(&self, member: Member) -> Option<&SegmentMut<R>> {
        self.members.get(self.index(member)?)?.as_ref()
    }

    /// A member, if it is there, to be written.
    #[must_use]
    pub fn get_mut(&mut self, member: Member) -> Option<&mut SegmentMut<R>> {
        let index = self.index(member)?;
        self.members.get_mut(index)?.as_mut()
    }

    /// Takes a member out, if it is there: to be freed alone, to be shared, or to be handed to a device. Its place in the
    /// list is not used again before the group is cleared, so that nobody takes another member for it.
    #[must_use]
    pub fn take(&mut self, member: Member) -> Option<SegmentMut<R>> {
        let index = self.index(member)?;
        self.members.get_mut(index)?.take()
    }

    /// The members, in the order in which they came.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &SegmentMut<R>> {
        self.members.iter().flatten()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Bytes of all members, as they were asked for. Stops at the end of the numbers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.iter()
            .map(SegmentMut::len)
            .fold(0, usize::saturating_add)
    }

    /// Where members come from.
    #[must_use]
    pub fn backend(&self) -> &R::Backend {
        self.backend.backend()
    }

    /// Gives every member back. The block of the list stays for those that come next.
    pub fn clear(&mut self) {
        // First: should a backend panic, nobody finds the members that are left.
        self.generation = self.generation.wrapping_add(1);
        self.members.clear();
    }
}

impl<R: BackendRef, S: BlockSource> fmt::Debug for Group<R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("backend", &self.backend().name())
            .field("len", &self.len())
            .field("bytes", &self.bytes())
            .finish()
    }
}

/// Why a [`Group`] did not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum GroupError {
    /// The backend had no segment, or the source no room for the list.
    Alloc(AllocError),
    /// The segment could not be given values; it went back.
    Transfer(TransferError),
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alloc(error) => error.fmt(f),
            Self::Transfer(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for GroupError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Alloc(error) => Some(error),
            Self::Transfer(error) => Some(error),
        }
    }
}

impl From<AllocError> for GroupError {
    fn from(error: AllocError) -> Self {
        Self::Alloc(error)
    }
}

impl From<TransferError> for GroupError {
    fn from(error: TransferError) -> Self {
        Self::Transfer(error)
    }
}
