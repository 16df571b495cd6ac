//! A chain of views.
//!
//! Invariants of a [`Rope`]:
//! 1. no link is empty, and none starts where the one before it ends in the same segment;
//! 2. `len` is the sum of the links' lengths, and does not wrap.
mod cursor;
mod cut;
mod error;
#[cfg(feature = "std")]
mod hosted;
mod in_flight;
mod iter;
mod links;

use core::alloc::Layout;
use core::fmt;

use wharf_backend::{BackendRef, Place, Returned, SegmentMut};
use wharf_source::{BlockSource, NullSource, SourceError};

use self::links::Links;
use crate::gather::gather;
use crate::{GatherError, Pinned, View};

pub use self::cursor::Cursor;
pub use self::error::{PushError, ReadError, SliceError};
pub use self::in_flight::RopeInFlight;
pub use self::iter::RopeIntoIter;

/// Bytes that lie in several places: a chain of [`View`]s that is read, cut and sent as one, without copying.
///
/// `N` links, two if nothing else is said, have their place in the rope itself. Where there are more, all of them move into a
/// block of the source `S` that the rope was bound to when it was made. By default that is the
/// [`NullSource`], which has none: a rope never turns to a heap that nobody named. What does not fit comes back.
///
/// ```
/// # use wharf_backend::{BackendExt, MemBackend, StaticPool};
/// # use wharf_segment::{PushError, Rope, View};
/// # use wharf_source::StaticPoolSource;
/// # use wharf_sync::Unsync;
/// # let pool = StaticPool::<Unsync, 8, 4>::new();
/// # let piece = |bytes: &[u8; 2]| View::from(pool.alloc(2).unwrap().init_from(bytes).unwrap());
/// let mut rope = Rope::new();
/// rope.push(piece(b"ab"))?;
/// rope.push(piece(b"cd"))?;
/// let refused = rope.push(piece(b"ef")).unwrap_err();
/// assert!(matches!(refused.error, PushError::NoRoom { links: 3, .. }));
/// assert_eq!(refused.value, b"ef");
///
/// let blocks = StaticPoolSource::<Unsync, 512, 1>::new();
/// let mut longer = Rope::with_source(&blocks);
/// longer.append(&mut rope)?;
/// longer.push(refused.value)?;
/// assert_eq!(longer, b"abcdef");
/// # Ok::<(), PushError>(())
/// ```
///
/// # Host and device in one rope
/// All links are of one type. To mix memories, erase it (`R = &dyn MemBackend<Policy = P>`), or
/// take a `backend_set!`. [`read`](Self::read), the [`cursor`](Self::cursor) and [`gather`](Self::gather) get at the bytes of
/// both; [`places`](Self::places) tells a DMA controller where they are.
///
/// # Its links
/// None is empty: an empty view that is pushed is dropped, so that no descriptor made of a rope has a length of zero, which some
/// controllers take for the most there is. A link that starts where the one before it ends, in the same
/// segment, becomes one with it.
///
/// # What the compiler refuses
/// A rope whose memory is gone:
///
/// ```compile_fail,E0597
/// # use wharf_backend::{BackendExt, StaticPool};
/// # use wharf_segment::Rope;
/// # use wharf_sync::Unsync;
/// let mut rope = Rope::new();
/// {
///     let pool = StaticPool::<Unsync, 8, 4>::new();
///     let _ = rope.push(pool.alloc(2).unwrap().init_from(b"ab").unwrap());
/// } // error: `pool` does not live long enough
/// assert_eq!(rope.len(), 2);
/// ```
///
/// or whose source is:
///
/// ```compile_fail,E0597
/// # use wharf_backend::StaticPool;
/// # use wharf_segment::Rope;
/// # use wharf_source::StaticPoolSource;
/// # use wharf_sync::Unsync;
/// let mut rope: Rope<&'static StaticPool<Unsync, 8, 4>, _>;
/// {
///     let blocks = StaticPoolSource::<Unsync, 512, 1>::new();
///     rope = Rope::with_source(&blocks);
/// } // error: `blocks` does not live long enough
/// rope.clear();
/// ```
///
/// A rope of one context's memory on another thread:
///
/// ```compile_fail,E0277
/// # use wharf_backend::StaticPool;
/// # use wharf_segment::Rope;
/// # use wharf_sync::Unsync;
/// fn sent<T: Send>() {}
/// sent::<Rope<&'static StaticPool<Unsync, 8, 4>>>();
/// ```
///
/// And a comparison of bytes that may be a device's:
///
/// ```compile_fail,E0277
/// # use wharf_backend::MemBackend;
/// # use wharf_segment::Rope;
/// # use wharf_sync::Unsync;
/// fn compared<T: PartialEq<[u8]>>() {}
/// compared::<Rope<&'static dyn MemBackend<Policy = Unsync>>>(); // error: not known to be host memory
/// ```
#[must_use = "dropping a rope may give memory back"]
pub struct Rope<R: BackendRef, S: BlockSource = NullSource, const N: usize = 2> {
    links: Links<View<R>, S, N>,
    len: usize,
}

impl<R: BackendRef> Rope<R> {
    /// An empty rope of two links at most.
    pub const fn new() -> Self {
        Self::with_source(NullSource)
    }
}

impl<R: BackendRef, S: BlockSource> Rope<R, S> {
    /// An empty rope that takes a block of `source` for its third link.
    pub const fn with_source(source: S) -> Self {
        Self::with_inline(source)
    }

    /// An empty rope with the first `M` links inline: `Rope::with_inline::<8>(NullSource)`.
    pub const fn with_inline<const M: usize>(source: S) -> Rope<R, S, M> {
        Rope {
            links: Links::new(source),
            len: 0,
        }
    }
}

impl<R: BackendRef, S: BlockSource + Default, const N: usize> Default for Rope<R, S, N> {
    fn default() -> Self {
        Rope::with_inline(S::default())
    }
}

impl<R: BackendRef, S: BlockSource, const N: usize> Rope<R, S, N> {
    /// Bytes of all links together.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes, and therefore no links.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The links, in order. None is empty.
    pub fn links(&self) -> &[View<R>] {
        self.links.as_slice()
    }

    /// Where links beyond the inline ones are kept.
    #[must_use]
    pub const fn source(&self) -> &S {
        self.links.source()
    }

    /// The block that the rope takes of its source when it is told to hold so many links, more than it has places for inline: to size
    /// a pool for it. A rope that is told nothing takes that of 8 links, then one of 16 while it still has the first, and so on.
    ///
    /// `None` where no block could be so large.
    ///
    /// ```
    /// use wharf_backend::StaticPool;
    /// use wharf_segment::Rope;
    /// use wharf_source::StaticPoolSource;
    /// use wharf_sync::Unsync;
    ///
    /// type Frames = StaticPool<Unsync, 64, 12>;
    ///
    /// // Room for the links of one rope of up to twelve, and not a byte more.
    /// const BYTES: usize = Rope::<&'static Frames>::link_block(12).unwrap().size();
    /// let links = StaticPoolSource::<Unsync, BYTES, 1>::new();
    /// let mut message: Rope<&'static Frames, _> = Rope::with_source(&links);
    /// message.try_reserve(12)?;
    /// assert!(message.try_reserve(13).is_err());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn link_block(links: usize) -> Option<Layout> {
        Links::<View<R>, S, N>::block(links)
    }

    /// Makes room for `additional` more links, so that as many pushes are not refused.
    ///
    /// # Errors
    /// The source's own account of why not; nothing has changed.
    pub fn try_reserve(&mut self, additional: usize) -> Result<(), SourceError> {
        self.links.reserve(additional)
    }

    /// Appends a view, or what becomes one. An empty one is dropped, and never refused.
    ///
    /// # Errors
    /// There is no room for it, with the view.
    pub fn push(&mut self, link: impl Into<View<R>>) -> Result<(), Returned<View<R>, PushError>> {
        let link = link.into();
        if link.is_empty() {
            return Ok(());
        }
        let len = match self.longer_by(link.len()) {
            Ok(len) => len,
            Err(error) => return Err(Returned::new(error, link)),
        };
        if self.continued_by(&link) {
            if let Some(last) = self.links.as_mut_slice().last_mut() {
                last.absorb(link);
            }
        } else if let Err((refusal, link)) = self.links.push(link) {
            return Err(Returned::new(self.no_room(1, refusal), link));
        }
        self.len = len;
        Ok(())
    }

    /// Puts a view, or what becomes one, in front of the others: a header before its payload. An empty one is dropped, and
    /// never refused. Moves every link.
    ///
    /// # Errors
    /// There is no room for it, with the view.
    pub fn push_front(
        &mut self,
        link: impl Into<View<R>>,
    ) -> Result<(), Returned<View<R>, PushError>> {
        let mut link = link.into();
        if link.is_empty() {
            return Ok(());
        }
        let len = match self.longer_by(link.len()) {
            Ok(len) => len,
            Err(error) => return Err(Returned::new(error, link)),
        };
        if let Some(first) = self.links.as_mut_slice().first_mut()
            && link.borders(first).is_ok()
        {
            core::mem::swap(first, &mut link);
            first.absorb(link);
        } else if let Err((refusal, link)) = self.links.push(link) {
            return Err(Returned::new(self.no_room(1, refusal), link));
        } else {
            self.links.as_mut_slice().rotate_right(1);
        }
        self.len = len;
        Ok(())
    }

    /// Takes the first link away. Moves the others.
    pub fn pop_front(&mut self) -> Option<View<R>> {
        let links = self.links.as_mut_slice();
        if links.is_empty() {
            return None;
        }
        links.rotate_left(1);
        self.pop_back()
    }

    /// Takes the last link away.
    pub fn pop_back(&mut self) -> Option<View<R>> {
        let link = self.links.pop()?;
        // No wrap: invariant 2.
        self.len -= link.len();
        Some(link)
    }

    /// Moves all links of `other` behind those of this rope, or none.
    ///
    /// # Errors
    /// There is no room for them; both are as they were.
    pub fn append<Q: BlockSource, const M: usize>(
        &mut self,
        other: &mut Rope<R, Q, M>,
    ) -> Result<(), PushError> {
        let len = self.longer_by(other.len)?;
        self.make_room(other.links())?;
        // The first one may become one with the last of ours.
        let first = other.pop_front();
        let joined = first.map_or(Ok(()), |first| self.push(first));
        debug_assert!(joined.is_ok(), "there is room");
        let count = other.links().len();
        other.links.move_back(count, &mut self.links);
        other.len = 0;
        self.len = len;
        Ok(())
    }

    /// Appends all of `links`, as handles of their own, or none of them: `rope.extend_from_links(other.links())`.
    ///
    /// # Errors
    /// There is no room for them; nothing has changed.
    pub fn extend_from_links(&mut self, links: &[View<R>]) -> Result<(), PushError> {
        let mut lengths = links.iter().map(View::len);
        let Some(added) = lengths.try_fold(0_usize, usize::checked_add) else {
            let (len, added) = (self.len, usize::MAX);
            return Err(PushError::TooLong { len, added });
        };
        self.longer_by(added)?;
        self.make_room(links)?;
        for link in links {
            let pushed = self.push(link.clone());
            debug_assert!(pushed.is_ok(), "there is room");
        }
        Ok(())
    }

    /// Appends what `links` yields, until a refusal.
    ///
    /// # Errors
    /// There is no room for a link, which comes back. Those before it were appended; those behind it are still to be had from
    /// the iterator, if it was lent.
    pub fn try_extend<T: Into<View<R>>>(
        &mut self,
        links: impl IntoIterator<Item = T>,
    ) -> Result<(), Returned<View<R>, PushError>> {
        links.into_iter().try_for_each(|link| self.push(link))
    }

    /// Both ropes, one behind the other, as a new one, which shares the bytes. A rope may be concatenated with itself.
    ///
    /// # Errors
    /// There is no room for the links.
    pub fn concat<Q: BlockSource, const M: usize>(
        &self,
        other: &Rope<R, Q, M>,
    ) -> Result<Self, PushError>
    where
        S: Clone,
    {
        self.longer_by(other.len)?;
        let joined = other
            .links()
            .first()
            .is_some_and(|first| self.continued_by(first));
        // No wrap: as many views lie in memory. So one block is asked for, and the refusal tells of all links.
        let links = self.links().len() + other.links().len() - usize::from(joined);
        let mut both = Rope::with_inline(self.source().clone());
        let reserved = both.links.reserve(links);
        reserved.map_err(|refusal| PushError::NoRoom { links, refusal })?;
        both.extend_from_links(self.links())?;
        both.extend_from_links(other.links())?;
        Ok(both)
    }

    /// A rope of the same bytes, bound to the same source. (Where that is the [`NullSource`], `clone` does the same and is
    /// never refused.)
    ///
    /// # Errors
    /// The source's own account of why it had no block for the links.
    pub fn try_clone(&self) -> Result<Self, SourceError>
    where
        S: Clone,
    {
        let mut clone = Rope::with_inline(self.source().clone());
        clone.links.reserve(self.links().len())?;
        let cloned = clone.extend_from_links(self.links());
        debug_assert!(cloned.is_ok(), "there is room");
        Ok(clone)
    }

    /// Lets go of all links. A block that was taken for them stays for the next ones.
    pub fn clear(&mut self) {
        self.len = 0;
        self.links.truncate(0);
    }

    /// The bytes that show, and those that the links keep; each segment once.
    #[must_use]
    pub fn pinned(&self) -> Pinned {
        Pinned::of(self.links())
    }

    /// Where the links are, and how long each is, in order: what a scatter-gather list is made of. Addresses alone: whoever
    /// gives them to a device keeps the rope until it is done, and [hands it over](Self::hand_over) first, so that the device
    /// finds in memory what the CPU wrote.
    ///
    /// With the limits of a controller, as `wharf-engine` describes them, the whole rope becomes as many elements as it takes,
    /// and whether they fit is known before the first descriptor is written:
    ///
    /// ```
    /// # use wharf_backend::{BackendExt, StaticPool};
    /// # use wharf_segment::{Rope, View};
    /// # use wharf_sync::Unsync;
    /// use wharf_engine::{Limits, Operand, Rules};
    ///
    /// # let pool = StaticPool::<Unsync, 1024, 2>::new();
    /// # let mut rope = Rope::new();
    /// # let _ = rope.push(pool.alloc(14)?.filled(1)?);
    /// # let _ = rope.push(pool.alloc(1000)?.filled(2)?);
    /// let limits = Limits::new(Rules { max_bytes: 512, max_elements: 4, ..Rules::NONE })?;
    /// let extents = rope.places().map(|(place, len)| Operand::read(place, len).extent());
    /// let elements = limits.split_list(extents)?;
    /// assert_eq!(elements.len(), 3);
    /// assert!(elements.map(|element| element.len).eq([14, 512, 488]));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn places(&self) -> impl ExactSizeIterator<Item = (Place, usize)> + Clone + '_ {
        self.links().iter().map(|link| (link.place(), link.len()))
    }

    /// Copies the bytes into one segment of `backend`, which nobody else holds. The rope stays as it is.
    ///
    /// Bytes on a device are read, and those of another device are reached in pieces of 256 bytes by way of the stack. The
    /// segment is not zeroed first where all of it is host memory.
    ///
    /// # Errors
    /// Three causes that a caller treats differently: there are no bytes, which allocates nothing; there is no memory for
    /// them; or a device does not move them.
    pub fn gather<Q: BackendRef>(&self, backend: Q) -> Result<SegmentMut<Q>, GatherError> {
        gather(self.links(), self.len, backend)
    }

    /// The bytes as one view: of the only link without a copy, of several links [gathered](Self::gather) into a segment of
    /// `backend`.
    ///
    /// # Errors
    /// As for [`gather`](Self::gather).
    pub fn materialise(&self, backend: R) -> Result<View<R>, GatherError> {
        match self.links() {
            [link] => Ok(link.clone()),
            _ => self.gather(backend).map(View::from),
        }
    }

    /// The length with `added` bytes more.
    fn longer_by(&self, added: usize) -> Result<usize, PushError> {
        let len = self.len;
        len.checked_add(added)
            .ok_or(PushError::TooLong { len, added })
    }

    /// Whether `link` becomes one with the last link.
    fn continued_by(&self, link: &View<R>) -> bool {
        self.links()
            .last()
            .is_some_and(|last| last.borders(link).is_ok())
    }

    /// Makes room for `links`, of which those need none that are empty, or become one with the link before them.
    fn make_room(&mut self, links: &[View<R>]) -> Result<(), PushError> {
        let mut last = self.links().last();
        let mut needed = 0;
        for link in links.iter().filter(|link| !link.is_empty()) {
            if last.is_none_or(|last| last.borders(link).is_err()) {
                needed += 1;
            }
            last = Some(link);
        }
        self.links
            .reserve(needed)
            .map_err(|refusal| self.no_room(needed, refusal))
    }

    fn no_room(&self, added: usize, refusal: SourceError) -> PushError {
        PushError::NoRoom {
            links: self.links().len().saturating_add(added),
            refusal,
        }
    }
}

impl<R: BackendRef, const N: usize> Clone for Rope<R, NullSource, N> {
    fn clone(&self) -> Self {
        Self {
            links: self.links.clone(),
            len: self.len,
        }
    }
}

impl<R: BackendRef, S: BlockSource, const N: usize> fmt::Debug for Rope<R, S, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rope")
            .field("len", &self.len)
            .field("links", &self.links())
            .field("source", &self.source().name())
            .finish()
    }
}
