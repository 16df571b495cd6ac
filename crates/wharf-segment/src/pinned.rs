//! What views keep alive, beside what they show.
#![forbid(unsafe_code)]

use core::fmt;
use core::ops::Add;

use wharf_backend::BackendRef;

use crate::View;

/// A census of views: a small one keeps a large segment, and this says how much that comes to.
///
/// ```
/// # use wharf_backend::{BackendExt, StaticPool};
/// # use wharf_segment::{Pinned, View};
/// # use wharf_sync::Unsync;
/// let frames = StaticPool::<Unsync, 1024, 4>::new();
/// let frame = View::from(frames.alloc(1000)?.filled(0)?);
/// let names = [frame.slice(6..12)?, frame.slice(20..28)?];
/// drop(frame);
///
/// let pinned = Pinned::of(&names);
/// assert_eq!(pinned, Pinned { shown: 14, kept: 1000, sole: 1000, segments: 1 });
/// assert_eq!(pinned.hidden(), 986);
/// assert_eq!(pinned.to_string(), "14 bytes shown of 1000 kept in 1 segment, 1000 of them by these alone");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// Bytes are those that were asked for, not those of the slots. A sum that would not fit stays at `usize::MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Pinned {
    /// Bytes that the views show. Where two show the same byte, it counts twice.
    pub shown: usize,
    /// Bytes of the segments that they keep, each segment counted once.
    pub kept: usize,
    /// Those among [`kept`](Self::kept) that nobody else holds: what dropping these views would give back. Of the moment,
    /// because another context may clone or drop a handle at once.
    pub sole: usize,
    /// Segments that they keep.
    pub segments: usize,
}

impl Pinned {
    /// Nothing.
    pub const NONE: Self = Self {
        shown: 0,
        kept: 0,
        sole: 0,
        segments: 0,
    };

    /// The census of all `views`: of one, an array of them, a rope's links, the links of many ropes.
    ///
    /// Segments are told apart by comparing each view with those before it: time grows with the square of their number, and
    /// nothing is allocated.
    ///
    /// ```
    /// # use wharf_backend::{BackendRef, MemBackend};
    /// # use wharf_segment::{Pinned, Rope};
    /// fn queued<R: BackendRef>(queue: &[Rope<R>]) -> Pinned {
    ///     Pinned::of(queue.iter().flatten())
    /// }
    /// ```
    #[must_use]
    pub fn of<'a, R: BackendRef + 'a, I>(views: I) -> Self
    where
        I: IntoIterator<Item = &'a View<R>, IntoIter: Clone>,
    {
        let mut rest = views.into_iter();
        let all = rest.clone();
        let mut census = Self::NONE;
        let mut seen = 0;
        while let Some(view) = rest.next() {
            census.shown = census.shown.saturating_add(view.len());
            let same = |other: &&View<R>| view.segment().ptr_eq(other.segment());
            if all.clone().take(seen).all(|before| !same(&before)) {
                let bytes = view.segment().len();
                // A handle each, and they are all of them if the segment counts no more.
                let handles = rest.clone().filter(same).count().saturating_add(1);
                census.kept = census.kept.saturating_add(bytes);
                census.segments = census.segments.saturating_add(1);
                if u32::try_from(handles).is_ok_and(|handles| handles == view.segment().holders()) {
                    census.sole = census.sole.saturating_add(bytes);
                }
            }
            seen += 1;
        }
        census
    }

    /// Bytes that are kept and do not show; none where views overlap so much that they show more than they keep.
    #[must_use]
    pub const fn hidden(&self) -> usize {
        self.kept.saturating_sub(self.shown)
    }
}

impl Add for Pinned {
    type Output = Self;

    /// The census of both, for views of different types. They must not share a segment, or it counts twice.
    fn add(self, other: Self) -> Self {
        Self {
            shown: self.shown.saturating_add(other.shown),
            kept: self.kept.saturating_add(other.kept),
            sole: self.sole.saturating_add(other.sole),
            segments: self.segments.saturating_add(other.segments),
        }
    }
}

impl fmt::Display for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes shown of {} kept in {} segment{}, {} of them by these alone",
            self.shown,
            self.kept,
            self.segments,
            if self.segments == 1 { "" } else { "s" },
            self.sole,
        )
    }
}
