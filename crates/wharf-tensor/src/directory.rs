//! Which names there are, and what for.

use core::fmt;

use wharf_backend::MemSpace;
use wharf_source::BlockSource;
use wharf_sync::{ConstInit, SyncPolicy};

use crate::chain::{Chain, Found, Roll};
use crate::error::StorageId;
use crate::explain::{Explain, Explained};
use crate::identity::{Keep, Window};

/// The named tensors of a program: from the id in an error to a name, and all of them as a table.
///
/// A tensor enters when it is [named](crate::Tensor::named), and leaves when the last of its clones is gone. Nothing is allocated for
/// it (the links are in the identity blocks), so a directory is never full, and anonymous tensors never meet it.
///
/// It is a part of the target, as `&'static` or, on hosts, `Arc`: `Hosted` has one, a firmware adds one where it is wanted,
/// and with [`NoDirectory`] none of this is in the image. Under an [`IsrSafe`](wharf_sync::IsrSafe) policy all of it may be used in an
/// interrupt handler. A step through it is a section of a few instructions, and two updates of a count outside of it; no code that is
/// not ours runs inside.
///
/// ```
/// # use wharf_backend::Heap;
/// # use wharf_source::HeapSource;
/// # use wharf_sync::{Blocking, NoClock};
/// use std::sync::Arc;
/// use wharf_tensor::{Directory, NoTrace, Parts, Tensor};
///
/// type Names = Arc<Directory<Blocking, HeapSource>>;
/// let names = Names::default();
/// let target = Parts::<Heap<Blocking>, _, _, _, Names>::with_directory(HeapSource, NoClock, NoTrace, names.clone());
/// let weights = Tensor::alloc(&target, Heap::new(), 4096)?.named(&target, "conv1.weight")?;
///
/// let guard = weights.lend_mut()?;
/// let error = weights.try_read(0, &mut [0]).unwrap_err();
/// let told = names.explain(error).to_string();
/// assert!(told.starts_with("a host guard is held on conv1.weight (storage 0x"), "{told}");
/// assert!(told.ends_with(", 4096 bytes in host memory)"), "{told}");
///
/// println!("{names}");
/// # assert!(names.to_string().ends_with("conv1.weight\n1 name, 4096 bytes\n"), "{names}");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct Directory<P: SyncPolicy, S: BlockSource> {
    roll: Roll<P, S>,
}

impl<P: SyncPolicy, S: BlockSource> Directory<P, S> {
    /// An empty one, for a `static`: zeros, without start-up code.
    #[must_use]
    pub const fn new() -> Self
    where
        P::Lock<Chain<P, S>>: ConstInit,
    {
        Self { roll: Roll::new() }
    }

    /// [`new`](Self::new) for policies without constants.
    #[must_use]
    pub fn fresh() -> Self {
        Self {
            roll: Roll::fresh(),
        }
    }

    /// Everything that has a name, in the order in which it got it.
    ///
    /// What comes or goes meanwhile may be among it; what is there all the time is, once. Each step is a section of its own, of a few
    /// instructions, unless the tensor before it has just gone: then it is found again from the start.
    pub const fn iter(&self) -> Entries<'_, P, S> {
        Entries {
            directory: self,
            last: None,
            serial: 0,
        }
    }

    /// The names of windows on a storage. Goes through all of them.
    pub fn find(&self, storage: StorageId) -> impl Iterator<Item = DirectoryEntry<P, S>> {
        self.iter()
            .filter(move |entry| entry.storage_id() == storage)
    }

    /// An error, told with the names of the storage that it is about in place of its number.
    ///
    /// The names are looked up when it is displayed. A storage that has none keeps its number.
    pub const fn explain<E: Explain>(&self, error: E) -> Explained<'_, P, S, E> {
        Explained::new(self, error)
    }

    /// Bytes of memory that have a name: every segment counts once, and whole, however many names there are on parts of it.
    ///
    /// For reports: it takes a time that is quadratic in the number of names.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let first = |entry: &DirectoryEntry<P, S>| {
            let same = |other: &DirectoryEntry<P, S>| {
                other.window().memory.map(|memory| memory.0)
                    == entry.window().memory.map(|memory| memory.0)
            };
            self.iter()
                .find(same)
                .is_none_or(|first| first.serial == entry.serial)
        };
        let bytes =
            |entry: DirectoryEntry<P, S>| entry.window().memory.map_or(0, |memory| memory.1);
        self.iter()
            .filter(first)
            .map(bytes)
            .fold(0, usize::saturating_add)
    }

    pub(crate) const fn roll(&self) -> &Roll<P, S> {
        &self.roll
    }
}

impl<P: SyncPolicy, S: BlockSource> Default for Directory<P, S> {
    fn default() -> Self {
        Self::fresh()
    }
}

impl<P: SyncPolicy, S: BlockSource> fmt::Debug for Directory<P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

/// A table: a line for each name, and the sum.
impl<P: SyncPolicy, S: BlockSource> fmt::Display for Directory<P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("       bytes  space   holders  reads  writes  storage  name\n")?;
        let mut names = 0_usize;
        for entry in self {
            names += 1;
            writeln!(f, "{entry}")?;
        }
        let plural = if names == 1 { "" } else { "s" };
        writeln!(f, "{names} name{plural}, {} bytes", self.bytes())
    }
}

impl<'d, P: SyncPolicy, S: BlockSource> IntoIterator for &'d Directory<P, S> {
    type Item = DirectoryEntry<P, S>;
    type IntoIter = Entries<'d, P, S>;
    fn into_iter(self) -> Entries<'d, P, S> {
        self.iter()
    }
}

/// The iterator of [`Directory::iter`].
pub struct Entries<'d, P: SyncPolicy, S: BlockSource> {
    directory: &'d Directory<P, S>,
    last: Option<Keep<P, S>>,
    serial: u64,
}

impl<P: SyncPolicy, S: BlockSource> Iterator for Entries<'_, P, S> {
    type Item = DirectoryEntry<P, S>;
    fn next(&mut self) -> Option<Self::Item> {
        let (serial, last) = (self.serial, self.last.as_ref());
        let found = self.directory.roll.next(serial, last)?;
        self.serial = found.serial;
        self.last = Some(found.identity.clone());
        Some(DirectoryEntry::new(found))
    }
}

impl<P: SyncPolicy, S: BlockSource> fmt::Debug for Entries<'_, P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entries")
            .field("seen", &self.serial)
            .finish_non_exhaustive()
    }
}

/// A named window on a storage, as it was when the directory was asked.
///
/// It keeps the name, and not the tensor: the storage may be gone meanwhile.
pub struct DirectoryEntry<P: SyncPolicy, S: BlockSource> {
    identity: Keep<P, S>,
    serial: u64,
    holders: u32,
    in_flight: (u32, u32),
}

impl<P: SyncPolicy, S: BlockSource> DirectoryEntry<P, S> {
    fn new(found: Found<P, S>) -> Self {
        let Found {
            identity,
            serial,
            holders,
            in_flight,
        } = found;
        Self {
            identity,
            serial,
            holders,
            in_flight,
        }
    }

    const fn window(&self) -> &Window<P> {
        self.identity.get().window()
    }

    /// The name, as it was given.
    #[must_use]
    pub const fn name(&self) -> &str {
        self.identity.get().name()
    }

    /// The storage that it is a window on.
    #[must_use]
    pub const fn storage_id(&self) -> StorageId {
        self.window().storage
    }

    /// Where the window starts in the storage, in bytes.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.window().offset
    }

    /// Bytes of the window.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a size, not a collection")]
    pub const fn len(&self) -> usize {
        self.window().len
    }

    /// Bytes of the whole storage.
    #[must_use]
    pub const fn storage_len(&self) -> usize {
        self.window().storage_len
    }

    /// The address space of the bytes; none where there are none, in a placeholder.
    #[must_use]
    pub const fn space(&self) -> Option<MemSpace> {
        self.window().space
    }

    /// How many tensors keep the storage: clones and slices, named or not.
    #[must_use]
    pub const fn holders(&self) -> u32 {
        self.holders
    }

    /// Device reads and device writes that were under way on the storage.
    #[must_use]
    pub const fn in_flight(&self) -> (u32, u32) {
        self.in_flight
    }

    /// What was completed so far: see [`Completions::count`](crate::Completions::count).
    #[must_use]
    pub fn completions(&self) -> u32 {
        self.identity.get().completed().count()
    }
}

impl<P: SyncPolicy, S: BlockSource> Clone for DirectoryEntry<P, S> {
    fn clone(&self) -> Self {
        Self {
            identity: self.identity.clone(),
            ..*self
        }
    }
}

pub(crate) const fn space_name(space: Option<MemSpace>) -> &'static str {
    match space {
        Some(MemSpace::Host) => "host",
        Some(MemSpace::Device) => "device",
        None => "none",
    }
}

/// A line of the directory's table. What in the name would break it is escaped.
impl<P: SyncPolicy, S: BlockSource> fmt::Display for DirectoryEntry<P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (reads, writes) = self.in_flight;
        write!(
            f,
            "{:>12}  {:<6}  {:>7}  {reads:>5}  {writes:>6}  {:#x}  {}",
            self.len(),
            space_name(self.space()),
            self.holders,
            self.storage_id().get(),
            self.name().escape_debug(),
        )
    }
}

impl<P: SyncPolicy, S: BlockSource> fmt::Debug for DirectoryEntry<P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectoryEntry")
            .field("name", &self.name())
            .field("storage", &self.storage_id())
            .field("offset", &self.offset())
            .field("len", &self.len())
            .field("space", &self.space())
            .field("holders", &self.holders)
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "defmt")]
impl<P: SyncPolicy, S: BlockSource> defmt::Format for DirectoryEntry<P, S> {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(
            f,
            "{=str}: {=usize} bytes of {}, {} holders, {} in flight",
            self.name(),
            self.len(),
            self.storage_id(),
            self.holders,
            self.in_flight,
        );
    }
}

mod sealed {
    pub trait Sealed {}
}

/// How a target keeps its directory: [`NoDirectory`], `&'static Directory`, or (with the feature `std`) `Arc<Directory>`.
///
/// Sealed, because an identity must leave the directory that it has entered: all clones of a handle are of one directory.
///
/// It is one of the target's policy and source, so that whoever drops an entry last may free it:
///
/// ```compile_fail,E0277
/// # use wharf_backend::Heap;
/// # use wharf_source::HeapSource;
/// # use wharf_sync::{Blocking, NoClock, Unsync};
/// # use wharf_tensor::{Directory, NoTrace, Parts, Target};
/// fn target<T: Target>() {}
/// // error: the directory is of one task, and the tensors are of several threads
/// target::<Parts<Heap<Blocking>, HeapSource, NoClock, NoTrace, &'static Directory<Unsync, HeapSource>>>();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a directory of this target",
    note = "take `NoDirectory`, or a `&'static` or an `Arc` of a `Directory` of the target's own policy and block source"
)]
pub trait DirectoryRef<P: SyncPolicy, S: BlockSource>: Clone + 'static + sealed::Sealed {
    /// The directory, if there is one.
    fn directory(&self) -> Option<&Directory<P, S>>;
}

/// Names are in no directory: costs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NoDirectory;

impl sealed::Sealed for NoDirectory {}
impl<P: SyncPolicy, S: BlockSource> DirectoryRef<P, S> for NoDirectory {
    #[inline]
    fn directory(&self) -> Option<&Directory<P, S>> {
        None
    }
}

impl<P: SyncPolicy, S: BlockSource> sealed::Sealed for &'static Directory<P, S> {}
impl<P: SyncPolicy, S: BlockSource> DirectoryRef<P, S> for &'static Directory<P, S> {
    #[inline]
    fn directory(&self) -> Option<&Directory<P, S>> {
        Some(self)
    }
}

#[cfg(feature = "std")]
impl<P: SyncPolicy, S: BlockSource> sealed::Sealed for std::sync::Arc<Directory<P, S>> {}
#[cfg(feature = "std")]
impl<P: SyncPolicy, S: BlockSource + 'static> DirectoryRef<P, S>
    for std::sync::Arc<Directory<P, S>>
{
    #[inline]
    fn directory(&self) -> Option<&Directory<P, S>> {
        Some(self)
    }
}
