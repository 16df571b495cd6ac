//! The suite sees what is wrong: implementations that break one law each must fail the check of that
//! law. A check that passes whatever happens would be found here.

mod backends;
mod chains;
mod devices;
mod engines;
mod launches;
mod lent;
mod policies;
mod shorter;
mod sources;
mod tensors;
mod waits;

use wharf_conformance::{Outcome, Report, Stop, Subject, Tally};

/// Remembers which checks were tried, which failed, and how.
#[derive(Debug, Default)]
struct Failures {
    tried: Vec<&'static str>,
    failed: Vec<(&'static str, String)>,
}

impl Report for Failures {
    fn check(&mut self, _: Subject, check: &'static str, outcome: &Outcome) {
        self.tried.push(check);
        if let Err(Stop::Failed(failure)) = outcome {
            self.failed.push((check, failure.to_string()));
        }
    }
    fn subject(&mut self, _: Subject, _: Tally) {}
}

impl Failures {
    fn fails(&self, check: &str) -> bool {
        self.failed.iter().any(|(failed, _)| *failed == check)
    }

    /// The check of the broken law is among those that failed.
    #[track_caller]
    fn name(&self, check: &str) {
        let named = self.fails(check);
        assert!(named, "`{check}` did not fail, but {:#?}", self.failed);
    }

    #[track_caller]
    fn none(&self) {
        assert!(self.failed.is_empty(), "{:#?}", self.failed);
    }

    /// Every check is either seen to fail for somebody, or one that no implementation of the trait can
    /// fail, because it is about what the layer makes of one.
    #[track_caller]
    fn all_covered(&self, seen: &[&str], layer: &[&str]) {
        for check in &self.tried {
            let (seen, layer) = (seen.contains(check), layer.contains(check));
            assert!(
                seen != layer,
                "`{check}`: seen to fail {seen}, layer {layer}"
            );
        }
    }
}
