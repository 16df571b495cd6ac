//! The suite sees what is wrong: implementations that break one law each must fail the check of that
//! law. A check that passes whatever happens would be found here.

mod backends;
mod engines;
mod policies;
mod sources;

use wharf_conformance::{Outcome, Report, Stop, Subject, Tally};

/// Remembers which checks failed, and how.
#[derive(Debug, Default)]
struct Failures(Vec<(&'static str, String)>);

impl Report for Failures {
    fn check(&mut self, _: Subject, check: &'static str, outcome: &Outcome) {
        if let Err(Stop::Failed(failure)) = outcome {
            self.0.push((check, failure.to_string()));
        }
    }
    fn subject(&mut self, _: Subject, _: Tally) {}
}

impl Failures {
    /// The check of the broken law is among those that failed.
    #[track_caller]
    fn name(&self, check: &str) {
        let named = self.0.iter().any(|(failed, _)| *failed == check);
        assert!(named, "`{check}` did not fail, but {:#?}", self.0);
    }

    #[track_caller]
    fn none(&self) {
        assert!(self.0.is_empty(), "{:#?}", self.0);
    }
}
