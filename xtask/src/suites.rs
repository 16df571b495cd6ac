//! The suites, and what they share: running one cargo command, and counting what it came to.

pub(crate) mod asan;
pub(crate) mod compile_fail;
pub(crate) mod conformance;
pub(crate) mod doc;
pub(crate) mod features;
pub(crate) mod host;
pub(crate) mod lint;
pub(crate) mod loom;
pub(crate) mod miri;
pub(crate) mod refused;

use std::process::Command;
use std::time::Duration;

use crate::count::{self, Conformance, Libtest};
use crate::process::{self, Finished};
use crate::report::Tally;

/// A single command that runs longer than this is stuck: the longest takes a few minutes.
const WATCHDOG: Duration = Duration::from_secs(1800);

/// Shows a command and runs it, its output live.
fn run(command: &mut Command) -> Result<Finished, String> {
    process::say(&format!("--- {}", typed(command)));
    process::run(command, WATCHDOG, process::echo).map_err(|failure| failure.message)
}

/// The command as a person would type it, without its environment.
fn typed(command: &Command) -> String {
    let mut line = process::display(command.get_program());
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

/// Runs a command that is one check. `name` is for the reason.
fn check(name: &str, command: &mut Command) -> Result<Tally, String> {
    Ok(tally_check(name, &run(command)?))
}

/// One check: passed if it exited with 0.
fn tally_check(name: &str, finished: &Finished) -> Tally {
    let mut tally = Tally::default();
    if finished.succeeded() {
        tally.pass(1);
    } else {
        tally.fail(1, format!("{name}: {}", finished.complaint()));
    }
    tally
}

/// Runs `cargo test` and counts its tests.
fn libtest(command: &mut Command) -> Result<Tally, String> {
    Ok(tally_libtest(&run(command)?))
}

/// Counts the tests of a finished `cargo test`. One that failed without a failing test did not
/// build, or died: that is a failure too.
fn tally_libtest(finished: &Finished) -> Tally {
    let counts = Libtest::read(&finished.lines);
    let mut tally = Tally::default();
    tally.pass(counts.passed);
    if counts.failed > 0 {
        tally.fail(counts.failed, counts.failures.join(", "));
    } else if !finished.succeeded() {
        tally.fail(1, finished.complaint());
    }
    if counts.ignored > 0 {
        tally.skip(counts.ignored, format!("{} ignored", counts.ignored));
    }
    tally
}

/// Counts the conformance lines of a finished run, which must have exited with 0 and printed some.
/// Hands out what they said of each subject, too.
fn count_conformance(finished: &Finished) -> (Tally, Vec<Conformance>) {
    let subjects = count::conformance(&finished.lines);
    let mut tally = Tally::default();
    for subject in &subjects {
        tally.pass(subject.passed);
        if subject.failed > 0 {
            tally.fail(
                subject.failed,
                format!("{}: {} failed", subject.subject, subject.failed),
            );
        }
    }
    if tally.failed == 0 && !finished.succeeded() {
        tally.fail(1, finished.complaint());
    } else if subjects.is_empty() {
        tally.fail(1, "it printed no `conformance:` line");
    }
    (tally, subjects)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Finished {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        process::run(&mut command, Duration::from_secs(60), |_, _| {}).unwrap()
    }

    fn tally(passed: u64, failures: &[(u64, &str)]) -> Tally {
        let mut tally = Tally::default();
        tally.pass(passed);
        for (count, reason) in failures {
            tally.fail(*count, *reason);
        }
        tally
    }

    #[test]
    fn a_command_is_shown_as_typed() {
        let mut command = Command::new("/toolchain/bin/cargo");
        command
            .args(["test", "-p", "wharf"])
            .env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(typed(&command), "cargo test -p wharf");
    }

    #[test]
    fn a_failing_check_is_named() {
        let failed = shell("echo 'error: diff in lib.rs' >&2; exit 1");
        assert_eq!(
            tally_check("fmt", &failed),
            tally(0, &[(1, "fmt: error: diff in lib.rs")])
        );
        assert_eq!(tally_check("fmt", &shell("true")), tally(1, &[]));
    }

    #[test]
    fn a_test_run_that_dies_fails_even_with_tests_passed() {
        let died = shell("echo 'test result: ok. 4 passed; 0 failed; 0 ignored'; exit 101");
        assert_eq!(tally_libtest(&died), tally(4, &[(1, "exit status: 101")]));
        let failed = shell(
            "echo 'test a::b ... FAILED'; echo 'test result: FAILED. 3 passed; 1 failed; 0 ignored'; exit 101",
        );
        assert_eq!(tally_libtest(&failed), tally(3, &[(1, "a::b")]));
    }

    #[test]
    fn conformance_needs_lines_and_a_clean_exit() {
        let tally_conformance = |finished: &Finished| count_conformance(finished).0;
        let line = "echo 'conformance: unsync/pool: 5 passed, 0 failed'";
        assert_eq!(tally_conformance(&shell(line)), tally(5, &[]));
        assert_eq!(
            tally_conformance(&shell(&format!("{line}; exit 1"))),
            tally(5, &[(1, "exit status: 1")])
        );
        assert_eq!(
            tally_conformance(&shell("true")),
            tally(0, &[(1, "it printed no `conformance:` line")])
        );
        let failing = "echo 'conformance: critical/pool: 4 passed, 2 failed'; exit 1";
        assert_eq!(
            tally_conformance(&shell(failing)),
            tally(4, &[(2, "critical/pool: 2 failed")])
        );
    }
}
