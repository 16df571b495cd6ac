//! Errors, told with names.

use core::fmt;

use wharf_source::BlockSource;
use wharf_sync::SyncPolicy;

use crate::directory::{Directory, space_name};
use crate::error::StorageId;
use crate::{CompletionError, LaunchError, TensorError};

mod sealed {
    pub trait Sealed {}
}

/// An error that may be about a storage: [`TensorError`], [`LaunchError`], [`CompletionError`]. See [`Directory::explain`].
pub trait Explain: fmt::Display + sealed::Sealed {
    /// The storage that it is about.
    fn storage_id(&self) -> Option<StorageId>;

    /// The message, with `subject` in place of the storage.
    #[doc(hidden)]
    fn tell(&self, f: &mut fmt::Formatter<'_>, subject: &dyn fmt::Display) -> fmt::Result;
}

macro_rules! explain {
    ($($error:ty),+) => {$(
        impl sealed::Sealed for $error {}
        impl Explain for $error {
            fn storage_id(&self) -> Option<StorageId> {
                self.storage_id()
            }
            fn tell(&self, f: &mut fmt::Formatter<'_>, subject: &dyn fmt::Display) -> fmt::Result {
                self.about(f, subject)
            }
        }
    )+};
}
explain!(TensorError, LaunchError, CompletionError);

/// An error and the directory that knows the names: display it. Made by [`Directory::explain`].
pub struct Explained<'d, P: SyncPolicy, S: BlockSource, E> {
    directory: &'d Directory<P, S>,
    error: E,
}

impl<'d, P: SyncPolicy, S: BlockSource, E> Explained<'d, P, S, E> {
    pub(crate) const fn new(directory: &'d Directory<P, S>, error: E) -> Self {
        Self { directory, error }
    }

    /// The error.
    pub const fn error(&self) -> &E {
        &self.error
    }
}

impl<P: SyncPolicy, S: BlockSource, E: Explain> fmt::Display for Explained<'_, P, S, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error.storage_id() {
            Some(storage) => {
                let directory = self.directory;
                self.error.tell(f, &Subject { directory, storage })
            }
            None => self.error.fmt(f),
        }
    }
}

impl<P: SyncPolicy, S: BlockSource, E: fmt::Debug> fmt::Debug for Explained<'_, P, S, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Explained").field(&self.error).finish()
    }
}

impl<P: SyncPolicy, S: BlockSource, E: core::error::Error + Explain> core::error::Error
    for Explained<'_, P, S, E>
{
}

/// A storage by its names.
struct Subject<'d, P: SyncPolicy, S: BlockSource> {
    directory: &'d Directory<P, S>,
    storage: StorageId,
}

impl<P: SyncPolicy, S: BlockSource> fmt::Display for Subject<'_, P, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut found = None;
        for entry in self.directory.find(self.storage) {
            if found.is_some() {
                f.write_str(", ")?;
            }
            write!(f, "{}", entry.name().escape_debug())?;
            found = Some((entry.storage_len(), entry.space()));
        }
        let Some((len, space)) = found else {
            return self.storage.fmt(f);
        };
        write!(f, " ({}, {len} bytes", self.storage)?;
        match space {
            Some(_) => write!(f, " in {} memory)", space_name(space)),
            None => f.write_str(" without memory)"),
        }
    }
}
