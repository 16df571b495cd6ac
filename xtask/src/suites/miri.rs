//! Suite `miri`: tests of the libraries under Miri of nightly, which interprets them and sees undefined
//! behaviour that no machine shows: a pointer used beyond what it was made from, a value read before
//! it was written, a race.
//!
//! It is some hundred times slower than a machine, and so gets the unit tests and a few others. The
//! stress tests and the state machines run in the suite `asan`.

use std::process::Command;

use crate::count::Libtest;
use crate::nightly;
use crate::process::Finished;
use crate::report::Tally;
use crate::suite::Context;
use crate::suites::{run as run_command, tally_libtest};
use crate::workspace::{Package, Workspace};

/// The crates whose unit tests Miri gets through in a minute or so. The state machines among the unit tests of those
/// above did not end within minutes.
const UNIT: [&str; 5] = [
    "wharf-sync",
    "wharf-source",
    "wharf-backend",
    "wharf-engine",
    "wharf-segment",
];

/// Integration tests that it gets through as fast: package, test, and the module of it, if not the whole.
const TESTS: [(&str, &str, &str); 2] = [
    ("wharf-sync", "wakers_run_outside", ""),
    ("wharf-backend", "all", "raw_round_trip::"),
];

/// Tests that are left out, by a part of their names: they count through thousands of slots.
const TOO_LONG: [&str; 2] = ["a_full_table_is_not_slower", "a_home_is_inside_its_table"];

/// Tests that are left out, by a part of their names: they ask for more memory than there is, which Miri
/// does not refuse but ends at.
const TOO_LARGE: [&str; 2] = ["end_of_the_address_space", "too_large_for_the_allocator"];

/// How Miri says that it cannot go on: what it met is no fault of the program's.
const LIMITS: [&str; 2] = [
    "error: resource exhaustion: ",
    "error: unsupported operation: ",
];

pub(crate) fn run(context: &Context<'_>) -> Result<Tally, String> {
    let workspace = context.workspace;
    let mut tally = Tally::default();
    if let Err(reason) = nightly::miri() {
        tally.skip(1, reason);
        return Ok(tally);
    }
    let libraries = UNIT
        .iter()
        .map(|name| workspace.package(name))
        .collect::<Result<Vec<&Package>, _>>()?;
    let mut command = miri(workspace, &libraries);
    command.args(["--lib", "--"]);
    for name in TOO_LARGE.into_iter().chain(TOO_LONG) {
        command.args(["--skip", name]);
    }
    tally.add(judge(&run_command(&mut command)?));

    for (name, test, module) in TESTS {
        let package = workspace.package(name)?;
        if !package.tests.iter().any(|known| known == test) {
            tally.fail(1, format!("{name} has no test `{test}`"));
            continue;
        }
        let mut command = miri(workspace, &[package]);
        command.args(["--test", test, "--"]);
        if !module.is_empty() {
            command.arg(module);
        }
        let counts = judge(&run_command(&mut command)?);
        let empty = counts == Tally::default();
        tally.add(counts);
        if empty {
            tally.fail(1, format!("{name}: `{test}` has no test `{module}`"));
        }
    }
    Ok(tally)
}

/// Miri on these packages, as a host has them.
fn miri(workspace: &Workspace, packages: &[&Package]) -> Command {
    let mut command = nightly::cargo(workspace, &["miri", "test", "--no-fail-fast"], "miri");
    for package in packages {
        command.args(["-p", &package.name]);
    }
    command
        .args([
            "--features",
            &Workspace::host_features(packages.iter().copied()),
        ])
        // The clock is the machine's: some tests wait until a deadline.
        .env("MIRIFLAGS", "-Zmiri-disable-isolation");
    command
}

/// Counts the tests. Where Miri met a limit of its own, the tests after it did not run: they are
/// skipped, for that reason.
fn judge(finished: &Finished) -> Tally {
    let is_error = |line: &&String| line.contains("error: ");
    let limit = |line: &String| {
        let found = LIMITS.iter().find_map(|limit| line.find(limit))?;
        Some(line[found..].to_owned())
    };
    let limits: Vec<String> = finished.lines.iter().filter_map(limit).collect();
    let others = finished
        .lines
        .iter()
        .filter(is_error)
        .filter(|line| limit(line).is_none())
        // How cargo ends once a program of its failed, whatever for.
        .filter(|line| !line.starts_with("error: test failed") && !line.contains(" failed:"))
        .filter(|line| !line.starts_with("error: aborting due to"));
    let counts = Libtest::read(&finished.lines);
    if limits.is_empty() || counts.failed > 0 || others.count() > 0 {
        return tally_libtest(finished);
    }
    let mut tally = Tally::default();
    tally.pass(counts.passed);
    tally.skip(counts.ignored + limits.len() as u64, limits.join("; "));
    tally
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::process;

    fn shell(script: &str) -> Finished {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        process::run(&mut command, Duration::from_secs(60), |_, _| {}).unwrap()
    }

    #[test]
    fn a_limit_of_miri_is_no_failure_of_ours() {
        let limited = shell(
            "echo 'test result: ok. 4 passed; 0 failed; 0 ignored'; \
             echo 'test a ... error: resource exhaustion: tried to allocate more'; \
             echo 'error: aborting due to 1 previous error'; \
             echo 'error: test failed, to rerun pass `-p x --lib`'; \
             echo 'error: 1 target failed:'; exit 101",
        );
        let mut expected = Tally::default();
        expected.pass(4);
        expected.skip(1, "error: resource exhaustion: tried to allocate more");
        assert_eq!(judge(&limited), expected);
    }

    #[test]
    fn undefined_behaviour_is_a_failure_beside_any_limit() {
        let broken = shell(
            "echo 'test a ... error: unsupported operation: inline assembly'; \
             echo 'test b ... error: Undefined Behavior: reading uninitialized memory'; \
             echo 'error: test failed, to rerun pass `-p x --lib`'; exit 101",
        );
        let tally = judge(&broken);
        assert_eq!((tally.passed, tally.failed, tally.skipped), (0, 1, 0));
    }
}
