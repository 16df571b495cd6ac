//! Which devices' memories there are: a bounded table, for look-up and composition.
//!
//! It is on no transfer's path: a segment knows its backend, and a backend carries its hook. So there is one thing per entry,
//! and nothing in it that could be out of step.

use core::cell::{Cell, RefCell};
use core::fmt;

use wharf_source::Census;
use wharf_sync::{ConstInit, Lock, SyncPolicy, Who, Word};

use crate::{BackendRef, MemBackend, MemSpace, Returned};

/// Names a registered backend. Issued by [`DeviceRegistry::register`], and never again for another: an id that outlives its
/// registration is [`Unknown`](RegistryError::Unknown), whatever is in its place by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct DeviceId {
    entry: u32,
    generation: u32,
}

impl DeviceId {
    /// As one number, for a foreign function or a trace.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        // Lossless; `From` is not `const`.
        ((self.generation as u64) << 32) | self.entry as u64
    }

    /// The id of a number. One that was never issued is as harmless as one that is stale.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "takes halves")]
    pub const fn from_bits(bits: u64) -> Self {
        Self {
            entry: bits as u32,
            generation: (bits >> 32) as u32,
        }
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.entry, self.generation)
    }
}

/// Why the registry did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum RegistryError {
    /// The backend is host memory, which needs no registration.
    NotADevice,
    /// Every entry is taken.
    Full {
        /// Entries there are.
        capacity: usize,
    },
    /// Nothing is registered under this id (any more).
    Unknown {
        /// The id.
        id: DeviceId,
    },
    /// The registry was called again from inside a call: by the `Clone` of a reference.
    Busy,
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotADevice => f.write_str("the backend is host memory, and no device's"),
            Self::Full { capacity } => write!(f, "all {capacity} entries are taken"),
            Self::Unknown { id } => write!(f, "nothing is registered as {id}"),
            Self::Busy => f.write_str("the registry was called from inside itself"),
        }
    }
}

impl core::error::Error for RegistryError {}

#[derive(Debug)]
struct Entry<R> {
    /// Of the registration that is there, or of the next one.
    generation: u32,
    backend: Option<R>,
}

impl<R> Entry<R> {
    const VACANT: Self = Self {
        generation: 0,
        backend: None,
    };

    /// A generation is never issued twice; where they run out, after four thousand million registrations, the entry is.
    const fn usable(&self) -> bool {
        self.backend.is_none() && self.generation != u32::MAX
    }
}

/// What the lock of a [`DeviceRegistry`] guards. Opaque; public because the bounds of a `const` one name it.
#[derive(Debug)]
pub struct Table<R, const N: usize> {
    entries: RefCell<[Entry<R>; N]>,
    in_use: Cell<usize>,
    peak: Cell<usize>,
    refused: Cell<usize>,
}

impl<R, const N: usize> ConstInit for Table<R, N> {
    const INIT: Self = Self {
        entries: RefCell::new([const { Entry::VACANT }; N]),
        in_use: Cell::new(0),
        peak: Cell::new(0),
        refused: Cell::new(0),
    };
}

/// The entry that `id` names, if that registration is still there.
fn find<R>(entries: &mut [Entry<R>], id: DeviceId) -> Option<&mut Entry<R>> {
    entries
        .get_mut(id.entry as usize)
        .filter(|entry| entry.generation == id.generation && entry.backend.is_some())
}

/// The memories of devices, by an id that the registry issues.
///
/// `R` is how the registry keeps a backend, and hands it out: `&'static dyn MemBackend<…>`, an `Arc` of one, a reference to a
/// [`backend_set!`](crate::backend_set).
///
/// It is cloned inside the policy's section: let that be short. It cannot be cloned outside. Whoever replaces or unregisters a
/// backend gets the very reference that was registered, at once; so nobody may be at it without the lock, and to take it
/// out for the time of a clone would make others miss it. A `Clone` that calls the registry is told
/// [`Busy`](RegistryError::Busy), and no hang, wherever the policy [can tell](SyncPolicy::who) that it is the same context or its
/// sections nest: everywhere but under `SpinMulticore`.
///
/// The id is issued and not derived from an address, because a backend can be of no size, and memory is used again.
///
/// ```
/// use wharf_backend::{BorrowedDevice, DeviceAddress, DeviceRange, DeviceRegistry, DeviceTransfer, MemBackend, TransferError};
/// use wharf_sync::Unsync;
///
/// /// Reached through some bus.
/// struct Bus;
/// impl DeviceTransfer for Bus {
///     fn write(&self, at: DeviceAddress, from: &[u8]) -> Result<(), TransferError> { Ok(()) }
///     fn read(&self, at: DeviceAddress, to: &mut [u8]) -> Result<(), TransferError> { Ok(()) }
/// }
///
/// let range = DeviceRange::new(DeviceAddress::new(0x8000_0000), 4096, Bus)?;
/// let memory = BorrowedDevice::<Bus, Unsync>::new(range);
/// let devices = DeviceRegistry::<&dyn MemBackend<Policy = Unsync>, 4>::new();
/// let id = devices.register(&memory).map_err(|refused| refused.error)?;
/// assert_eq!(devices.get(id)?.max_segment_size(), 4096);
/// devices.unregister(id)?;
/// assert!(devices.get(id).is_err());
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct DeviceRegistry<R: BackendRef, const N: usize> {
    table: <R::Policy as SyncPolicy>::Lock<Table<R, N>>,
    /// Who is in the `Clone` of a reference, inside of the section, by [`mark`]. Whoever reads his own mark wrote it himself.
    cloning: <R::Policy as SyncPolicy>::Word,
}

/// What a context writes down of itself; 0 if it has no name of its own, or none that fits.
fn mark<P: SyncPolicy>() -> u32 {
    let who = P::who();
    if who == Who::SOLE {
        return 0;
    }
    u32::try_from(who.id()).unwrap_or(0)
}

/// A reference is being cloned. Dropped when it is, or by a panic.
struct Cloning<'r, W: Word>(&'r W);

impl<'r, W: Word> Cloning<'r, W> {
    fn by(mark: u32, word: &'r W) -> Self {
        let _ = word.update(|_| Some(mark));
        Self(word)
    }
}

impl<W: Word> Drop for Cloning<'_, W> {
    fn drop(&mut self) {
        let _ = self.0.update(|_| Some(0));
    }
}

impl<R: BackendRef, const N: usize> DeviceRegistry<R, N> {
    /// Nothing is registered.
    #[must_use]
    pub const fn new() -> Self
    where
        <R::Policy as SyncPolicy>::Lock<Table<R, N>>: ConstInit,
        <R::Policy as SyncPolicy>::Word: ConstInit,
    {
        Self {
            table: ConstInit::INIT,
            cloning: ConstInit::INIT,
        }
    }

    /// [`new`](Self::new) for policies without constants.
    #[must_use]
    pub fn fresh() -> Self {
        Self {
            table: Lock::new(Table::INIT),
            cloning: Word::new(0),
        }
    }

    /// Whether the caller is in the `Clone` of a reference: it has the lock, and must not ask for it.
    fn is_inside(&self) -> bool {
        let mark = mark::<R::Policy>();
        mark != 0 && self.cloning.load() == mark
    }

    fn device(backend: R) -> Result<R, Returned<R, RegistryError>> {
        match backend.backend().space() {
            MemSpace::Device => Ok(backend),
            MemSpace::Host => Err(Returned::new(RegistryError::NotADevice, backend)),
        }
    }

    /// Registers the memory of a device.
    ///
    /// # Errors
    /// It is host memory, or every entry is taken; it comes back.
    pub fn register(&self, backend: R) -> Result<DeviceId, Returned<R, RegistryError>> {
        let backend = Self::device(backend)?;
        if self.is_inside() {
            return Err(Returned::new(RegistryError::Busy, backend));
        }
        self.table.with(|table| {
            let Ok(mut entries) = table.entries.try_borrow_mut() else {
                return Err(Returned::new(RegistryError::Busy, backend));
            };
            // An index that does not fit an id is never issued.
            let mut entries = entries.iter_mut().zip(0_u32..);
            let Some((entry, index)) = entries.find(|(entry, _)| entry.usable()) else {
                table.refused.set(table.refused.get().saturating_add(1));
                let full = RegistryError::Full { capacity: N };
                return Err(Returned::new(full, backend));
            };
            entry.backend = Some(backend);
            table.in_use.set(table.in_use.get() + 1);
            table.peak.set(table.peak.get().max(table.in_use.get()));
            Ok(DeviceId {
                entry: index,
                generation: entry.generation,
            })
        })
    }

    /// Puts `backend` in the place of the one registered as `id`, which keeps its id, and returns that one. Whoever looks it
    /// up meanwhile gets the one or the other, with its own hook.
    ///
    /// # Errors
    /// It is host memory, or nothing is registered as `id`; it comes back.
    pub fn replace(&self, id: DeviceId, backend: R) -> Result<R, Returned<R, RegistryError>> {
        let backend = Self::device(backend)?;
        if self.is_inside() {
            return Err(Returned::new(RegistryError::Busy, backend));
        }
        self.table.with(|table| {
            let Ok(mut entries) = table.entries.try_borrow_mut() else {
                return Err(Returned::new(RegistryError::Busy, backend));
            };
            match find(entries.as_mut_slice(), id).and_then(|entry| entry.backend.as_mut()) {
                Some(present) => Ok(core::mem::replace(present, backend)),
                None => Err(Returned::new(RegistryError::Unknown { id }, backend)),
            }
        })
    }

    /// Takes it out again. Its segments stay good: they keep their backend themselves.
    ///
    /// # Errors
    /// Nothing is registered as `id`.
    pub fn unregister(&self, id: DeviceId) -> Result<R, RegistryError> {
        if self.is_inside() {
            return Err(RegistryError::Busy);
        }
        self.table.with(|table| {
            let mut entries = table
                .entries
                .try_borrow_mut()
                .map_err(|_| RegistryError::Busy)?;
            let unknown = RegistryError::Unknown { id };
            let entry = find(entries.as_mut_slice(), id).ok_or(unknown)?;
            let taken = entry.backend.take().ok_or(unknown)?;
            // No wrap: the last generation is never used.
            entry.generation += 1;
            table.in_use.set(table.in_use.get() - 1);
            Ok(taken)
        })
    }

    /// The backend registered as `id`.
    ///
    /// # Errors
    /// Nothing is registered as `id`.
    pub fn get(&self, id: DeviceId) -> Result<R, RegistryError>
    where
        R: Clone,
    {
        if self.is_inside() {
            return Err(RegistryError::Busy);
        }
        self.table.with(|table| {
            // Not shared: a `get` inside of a `get` is as busy as everything else.
            let entries = table
                .entries
                .try_borrow_mut()
                .map_err(|_| RegistryError::Busy)?;
            let present = entries
                .get(id.entry as usize)
                .filter(|entry| entry.generation == id.generation)
                .and_then(|entry| entry.backend.as_ref())
                .ok_or(RegistryError::Unknown { id })?;
            let _cloning = Cloning::by(mark::<R::Policy>(), &self.cloning);
            Ok(present.clone())
        })
    }

    /// Entries: how many are taken, were at most, and how often there was none. Not to be called by the `Clone` of a reference.
    #[must_use]
    pub fn census(&self) -> Census {
        self.table.with(|table| Census {
            unit: size_of::<Entry<R>>(),
            capacity: N,
            in_use: table.in_use.get(),
            peak: table.peak.get(),
            refused: table.refused.get(),
            largest_refused: if table.refused.get() == 0 {
                0
            } else {
                size_of::<Entry<R>>()
            },
            ..Census::NOTHING
        })
    }
}

impl<R: BackendRef, const N: usize> Default for DeviceRegistry<R, N> {
    fn default() -> Self {
        Self::fresh()
    }
}

impl<R: BackendRef, const N: usize> fmt::Debug for DeviceRegistry<R, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceRegistry")
            .field("policy", &R::Policy::NAME)
            .field("census", &self.census())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BorrowedDevice, DeviceAddress, DeviceRange, DeviceTransfer, TransferError};
    use wharf_sync::Unsync;

    struct Nowhere;
    impl DeviceTransfer for Nowhere {
        fn write(&self, _: DeviceAddress, _: &[u8]) -> Result<(), TransferError> {
            Err(TransferError::Closed)
        }
        fn read(&self, _: DeviceAddress, _: &mut [u8]) -> Result<(), TransferError> {
            Err(TransferError::Closed)
        }
    }

    #[test]
    fn an_entry_whose_generations_are_used_up_is_too() {
        let range = DeviceRange::new(DeviceAddress::new(0), 1, Nowhere).unwrap();
        let memory = BorrowedDevice::<_, Unsync>::new(range);
        let registry = DeviceRegistry::<&BorrowedDevice<Nowhere, Unsync>, 1>::new();
        registry
            .table
            .with(|table| table.entries.borrow_mut()[0].generation = u32::MAX - 1);
        let last = registry.register(&memory).unwrap();
        assert_eq!(last.to_bits(), 0xFFFF_FFFE_0000_0000);
        registry.unregister(last).unwrap();
        let refused = registry.register(&memory).unwrap_err();
        assert_eq!(refused.error, RegistryError::Full { capacity: 1 });
        assert_eq!(
            registry.get(last).err(),
            Some(RegistryError::Unknown { id: last })
        );
    }
}
