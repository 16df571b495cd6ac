//! Suite `asan`: the tests of the libraries under the AddressSanitizer of nightly, which sees what a
//! passing test does not: use after free, writes past an allocation, memory lost.

use crate::nightly;
use crate::process::{self, Finished};
use crate::report::Tally;
use crate::suite::Context;
use crate::suites::{compile_fail, run as run_command, tally_libtest};
use crate::workspace::{Package, Workspace};

/// What may leak, each with its reason.
const MAY_LEAK: &str = include_str!("leaks.supp");

pub(crate) fn run(context: &Context<'_>) -> Result<Tally, String> {
    let workspace = context.workspace;
    let mut tally = Tally::default();
    if let Err(reason) = nightly::address_sanitizer(workspace) {
        tally.skip(1, reason);
        return Ok(tally);
    }
    let folder = workspace.target_dir.join("asan");
    let suppressions = folder.join("leaks.supp");
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(&suppressions, MAY_LEAK))
        .map_err(|error| format!("cannot write {}: {error}", suppressions.display()))?;

    for packages in groups(workspace) {
        let mut command = nightly::cargo(workspace, &["test", "--no-fail-fast"], "asan");
        command.args(["--target", &workspace.host, "--lib"]);
        tests(&packages, |argument| {
            command.arg(argument);
        });
        command
            .args(["--features", &Workspace::host_features(packages)])
            .env("RUSTFLAGS", "-Zsanitizer=address")
            // Requests that no heap can meet are tested: they are refused, not fatal.
            .env("ASAN_OPTIONS", "allocator_may_return_null=1")
            .env(
                "LSAN_OPTIONS",
                format!(
                    "suppressions='{}':print_suppressions=0",
                    suppressions.display()
                ),
            );
        tally.add(judge(&run_command(&mut command)?));
    }
    Ok(tally)
}

/// The libraries in as few commands as possible: cargo leaves a test out only by naming the others, and
/// a compiler's messages are nothing to check under a sanitizer.
pub(crate) fn groups(workspace: &Workspace) -> Vec<Vec<&Package>> {
    let (apart, together): (Vec<&Package>, Vec<&Package>) = workspace
        .libraries()
        .partition(|package| package.name == compile_fail::TEST.0);
    vec![together, apart]
}

/// The arguments that choose packages and their tests.
pub(crate) fn tests(packages: &[&Package], mut argument: impl FnMut(&str)) {
    for package in packages {
        argument("-p");
        argument(&package.name);
    }
    for package in packages {
        for test in &package.tests {
            if (package.name.as_str(), test.as_str()) != compile_fail::TEST {
                argument("--test");
                argument(test);
            }
        }
    }
}

/// Counts the tests, and each report of the sanitizer as a failure: it ends the process, and so no
/// test of it counts.
fn judge(finished: &Finished) -> Tally {
    let reports: Vec<&str> = finished
        .lines
        .iter()
        .filter_map(|line| report(line))
        .collect();
    if reports.is_empty() {
        return tally_libtest(finished);
    }
    for report in &reports {
        process::note(&format!("asan: {report}"));
    }
    let mut tally = Tally::default();
    let counts = crate::count::Libtest::read(&finished.lines);
    tally.pass(counts.passed);
    tally.fail(counts.failed + reports.len() as u64, reports.join("; "));
    tally
}

/// What a sanitizer found, if a line says so: `==1234==ERROR: AddressSanitizer: heap-use-after-free …`.
fn report(line: &str) -> Option<&str> {
    let (process, report) = line.split_once("==ERROR: ")?;
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let is_report = process.strip_prefix("==").is_some_and(is_number)
        && ["AddressSanitizer: ", "LeakSanitizer: "]
            .iter()
            .any(|sanitizer| report.starts_with(sanitizer));
    is_report.then_some(report)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    fn shell(script: &str) -> Finished {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        process::run(&mut command, Duration::from_secs(60), |_, _| {}).unwrap()
    }

    #[test]
    fn a_report_is_told_from_a_warning() {
        let found = "==1177==ERROR: LeakSanitizer: detected memory leaks";
        assert_eq!(report(found), Some("LeakSanitizer: detected memory leaks"));
        assert_eq!(
            report("==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x5020"),
            Some("AddressSanitizer: heap-use-after-free on address 0x5020")
        );
        let refused =
            "==2246==WARNING: AddressSanitizer failed to allocate 0x7ffffffffffffff0 bytes";
        assert_eq!(report(refused), None);
        assert_eq!(report("a test prints ==ERROR: of its own"), None);
    }

    #[test]
    fn a_leak_after_passed_tests_is_a_failure() {
        let leaked = shell(
            "echo 'test result: ok. 15 passed; 0 failed; 0 ignored'; \
             echo '==11==ERROR: LeakSanitizer: detected memory leaks'; \
             echo 'error: test failed, to rerun pass `-p x`'; exit 101",
        );
        let mut expected = Tally::default();
        expected.pass(15);
        expected.fail(1, "LeakSanitizer: detected memory leaks");
        assert_eq!(judge(&leaked), expected);

        let clean = shell("echo 'test result: ok. 15 passed; 0 failed; 0 ignored'");
        let mut expected = Tally::default();
        expected.pass(15);
        assert_eq!(judge(&clean), expected);
    }

    #[test]
    fn the_compiler_s_messages_are_left_out() {
        let package = |name: &str| Package {
            name: name.to_owned(),
            tests: vec!["compile_fail".to_owned(), "slices".to_owned()],
            ..Package::default()
        };
        let (facade, other) = (package("wharf"), package("wharf-sync"));
        let chosen = |package| {
            let mut arguments = Vec::new();
            tests(&[package], |argument| arguments.push(argument.to_owned()));
            arguments.join(" ")
        };
        assert_eq!(chosen(&facade), "-p wharf --test slices");
        assert_eq!(
            chosen(&other),
            "-p wharf-sync --test compile_fail --test slices"
        );
    }
}
