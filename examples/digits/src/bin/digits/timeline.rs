//! The run as a timeline in a file.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wharf_source::HeapSource;
use wharf_sync::StdClock;
use wharf_tensor::{ChromeTrace, Hosted, Parts, Target};

type Trace = Arc<ChromeTrace<BufWriter<File>>>;

/// [`Hosted`], where perhaps somebody watches.
pub(crate) type Watched = Parts<<Hosted as Target>::Memory, HeapSource, StdClock, Option<Trace>>;

/// A target whose tensors are on `timeline`, if there is one.
pub(crate) fn target(timeline: Option<&Timeline>) -> Watched {
    let trace = timeline.map(|timeline| timeline.trace.clone());
    Watched::with(HeapSource, StdClock::new(), trace)
}

/// The file, and what writes it.
pub(crate) struct Timeline {
    path: PathBuf,
    trace: Trace,
}

impl Timeline {
    pub(crate) fn create(path: &Path) -> Result<Self, Unwritable> {
        match File::create(path) {
            Ok(file) => Ok(Self {
                path: path.to_owned(),
                trace: Arc::new(ChromeTrace::new(BufWriter::new(file), "digits")),
            }),
            Err(error) => Err(Unwritable {
                path: path.to_owned(),
                error,
            }),
        }
    }

    pub(crate) fn finish(self) -> Result<(), Unwritable> {
        match self.trace.finish() {
            Ok(summary) => {
                let path = self.path.display();
                eprintln!("trace             {} events in {path}", summary.events);
                Ok(())
            }
            Err(error) => Err(Unwritable {
                path: self.path,
                error,
            }),
        }
    }
}

/// The timeline was not written.
#[derive(Debug)]
pub(crate) struct Unwritable {
    path: PathBuf,
    error: io::Error,
}

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, error } = self;
        write!(f, "--trace: cannot write {}: {error}", path.display())
    }
}

impl std::error::Error for Unwritable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
