//! Suite `compile-fail`: programs that misuse the library, each of which the compiler must refuse
//! with the message on file. What only a microcontroller's target refuses is in [`refused`].

use std::fs;
use std::path::Path;

use crate::count::{self, Case};
use crate::report::Tally;
use crate::suite::Context;
use crate::suites::{refused, run as run_command};
use crate::workspace::Workspace;

/// Where the suite lives: package and test.
pub(crate) const TEST: (&str, &str) = ("wharf", "compile_fail");

pub(crate) fn run(context: &Context<'_>) -> Result<Tally, String> {
    let workspace = context.workspace;
    let (name, test) = TEST;
    let package = workspace.package(name)?;
    let expected = cases_on_file(&package.folder.join("tests/compile-fail"));

    let mut command = workspace.cargo("test");
    command.args(["-p", name, "--test", test]);
    command.args([
        "--features",
        &Workspace::host_features([package]),
        "--",
        "--nocapture",
    ]);
    let finished = run_command(&mut command)?;

    let mut tally = tally(expected, &count::trybuild_cases(&finished.lines));
    if tally.failed == 0 && !finished.succeeded() {
        tally.fail(1, finished.complaint());
    }
    tally.add(refused::run(context).unwrap_or_else(Tally::could_not_run));
    Ok(tally)
}

/// Counts the cases that ran; those on file that did not run have failed.
fn tally(expected: u64, cases: &[Case]) -> Tally {
    let mut tally = Tally::default();
    for case in cases {
        if case.passed {
            tally.pass(1);
        } else {
            tally.fail(1, case.path.clone());
        }
    }
    // Beside the cases run programs that must compile; they do not stand in for one.
    let is_case = |case: &&Case| case.path.contains("compile-fail/");
    let missing = expected.saturating_sub(cases.iter().filter(is_case).count() as u64);
    if missing > 0 {
        tally.fail(
            missing,
            format!("{missing} of {expected} cases on file did not run"),
        );
    }
    tally
}

fn cases_on_file(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_case = |entry: &fs::DirEntry| entry.path().extension().is_some_and(|end| end == "rs");
    entries.filter(is_case).map(|_| 1).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(path: &str, passed: bool) -> Case {
        Case {
            path: path.to_owned(),
            passed,
        }
    }

    #[test]
    fn a_case_that_did_not_run_has_failed() {
        let cases = [
            case("tests/compile-fail/a.rs", true),
            case("tests/compile-fail/b.rs", false),
            case("tests/compile-pass/c.rs", true),
        ];
        let mut expected = Tally::default();
        expected.pass(2);
        expected.fail(1, "tests/compile-fail/b.rs");
        assert_eq!(tally(2, &cases), expected);
        expected.fail(2, "2 of 4 cases on file did not run");
        assert_eq!(tally(4, &cases), expected);
    }
}
