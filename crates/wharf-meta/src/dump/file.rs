//! A file that appears when it is whole.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A file under a temporary name; dropped, it goes.
///
/// The temporary name begins with a dot, as no name of a tensor's file does, so it is nobody else's.
pub(super) struct Part {
    file: Option<File>,
    temporary: PathBuf,
    path: PathBuf,
}

impl Part {
    /// Begins the file `name` in `directory`.
    pub(super) fn create(directory: &Path, name: &str) -> io::Result<Self> {
        let temporary = directory.join(std::format!(".{name}.part"));
        let create = || {
            File::options()
                .write(true)
                .create_new(true)
                .open(&temporary)
        };
        // Only ever a new file: one that is there is what an earlier dump has left, or a link that
        // somebody has laid out. It goes, and is not followed.
        let file = match create() {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                fs::remove_file(&temporary)?;
                create()?
            }
            created => created?,
        };
        Ok(Self {
            file: Some(file),
            path: directory.join(name),
            temporary,
        })
    }

    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file
            .as_mut()
            .map_or(Ok(()), |file| file.write_all(bytes))
    }

    /// Gives the file its name.
    pub(super) fn appear(mut self) -> io::Result<()> {
        // Closed before it is renamed, which not every system does to an open file.
        self.file = None;
        fs::rename(&self.temporary, &self.path)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.file = None;
        // After `appear` there is nothing to remove.
        let _ = fs::remove_file(&self.temporary);
    }
}
