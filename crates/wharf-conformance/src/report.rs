//! Who is told.

use core::fmt;

use crate::{Outcome, Stop};

/// What is under test, and over which policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// [`SyncPolicy::NAME`](wharf_sync::SyncPolicy::NAME).
    pub policy: &'static str,
    /// The function of this crate that holds it to its promises: `backend`, `segment`, `waits` and so on. One thing may be under
    /// test by several.
    pub suite: &'static str,
    /// The thing.
    pub name: &'static str,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.policy, self.suite, self.name)
    }
}

/// How many checks went which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "a failed check is only a number in here"]
pub struct Tally {
    /// The behaviour was seen.
    pub passed: u32,
    /// Another one was.
    pub failed: u32,
    /// The subject does not claim it.
    pub inapplicable: u32,
}

impl Tally {
    /// Whether nothing failed, and something passed.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.failed == 0 && self.passed > 0
    }

    /// Adds another one.
    pub const fn add(&mut self, other: Self) {
        self.passed = self.passed.saturating_add(other.passed);
        self.failed = self.failed.saturating_add(other.failed);
        self.inapplicable = self.inapplicable.saturating_add(other.inapplicable);
    }

    pub(crate) const fn count(&mut self, outcome: &Outcome) {
        let counter = match outcome {
            Ok(()) => &mut self.passed,
            Err(Stop::Failed(_)) => &mut self.failed,
            Err(Stop::Inapplicable(_)) => &mut self.inapplicable,
        };
        *counter = counter.saturating_add(1);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// Receives every result. `()` listens to none.
pub trait Report {
    /// A check was run.
    fn check(&mut self, subject: Subject, check: &'static str, outcome: &Outcome);
    /// All checks of a subject were run.
    fn subject(&mut self, subject: Subject, tally: Tally);
}

impl Report for () {
    fn check(&mut self, _: Subject, _: &'static str, _: &Outcome) {}
    fn subject(&mut self, _: Subject, _: Tally) {}
}

/// Writes a line for every subject, and before it one for every check that failed:
///
/// ```text
/// conformance: FAILED Unsync/backend/StaticPool/vends every size: its length: expected 3, found 4
/// conformance: Unsync/backend/StaticPool: 16 passed, 1 failed
/// ```
///
/// It needs no heap: `W` may be a serial port, or semihosting.
#[derive(Debug)]
pub struct Printer<W: fmt::Write> {
    out: W,
    written: fmt::Result,
}

impl<W: fmt::Write> Printer<W> {
    /// Writes to `out`.
    pub const fn new(out: W) -> Self {
        Self {
            out,
            written: Ok(()),
        }
    }

    /// What was written to.
    ///
    /// # Errors
    /// Something could not be written.
    pub fn finish(self) -> Result<W, fmt::Error> {
        self.written.map(|()| self.out)
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        let written = self.out.write_fmt(line);
        self.written = self.written.and(written);
    }
}

impl<W: fmt::Write> Report for Printer<W> {
    fn check(&mut self, subject: Subject, check: &'static str, outcome: &Outcome) {
        if let Err(Stop::Failed(failure)) = outcome {
            self.line(format_args!(
                "conformance: FAILED {subject}/{check}: {failure}\n"
            ));
        }
    }
    fn subject(&mut self, subject: Subject, tally: Tally) {
        self.line(format_args!("conformance: {subject}: {tally}\n"));
    }
}
