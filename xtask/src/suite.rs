//! The registry of suites and the runner: every suite in order, whatever became of the one before.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use crate::failure::Failure;
use crate::process;
use crate::report::{self, Row, Tally};
use crate::setup::Setup;
use crate::suites;
use crate::suites::conformance::Counts;
use crate::workspace::Workspace;

/// What a suite has at hand.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) setup: &'a Setup<'a>,
    pub(crate) host_only: bool,
    /// What the conformance suites counted so far.
    pub(crate) counts: Counts,
}

/// A suite. Its error is the reason why it could not run.
#[derive(Debug)]
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    /// What it shows, for the heading.
    about: &'static str,
    /// Needs what not every machine has, and is left out where it lacks.
    optional: bool,
    run: fn(&Context<'_>) -> Result<Tally, String>,
}

/// Every suite, in the order in which they run.
pub(crate) const ALL: [Suite; 14] = [
    Suite {
        name: "host",
        about: "unit and integration tests",
        optional: false,
        run: suites::host::run,
    },
    Suite {
        name: "doc",
        about: "examples in the documentation",
        optional: false,
        run: suites::doc::run,
    },
    Suite {
        name: "loom",
        about: "every interleaving of the protocols",
        optional: false,
        run: suites::loom::run,
    },
    Suite {
        name: "asan",
        about: "the tests of the libraries, under the AddressSanitizer",
        optional: true,
        run: suites::asan::run,
    },
    Suite {
        name: "miri",
        about: "tests of the libraries, interpreted",
        optional: true,
        run: suites::miri::run,
    },
    Suite {
        name: "compile-fail",
        about: "misuse that the compiler refuses",
        optional: false,
        run: suites::compile_fail::run,
    },
    Suite {
        name: "conformance/host",
        about: "the required behaviours, on the host",
        optional: false,
        run: suites::conformance::host,
    },
    Suite {
        name: "conformance/thumbv6m-none-eabi",
        about: "the required behaviours, on a core without compare-and-swap",
        optional: false,
        run: suites::conformance::thumbv6m,
    },
    Suite {
        name: "conformance/thumbv7m-none-eabi",
        about: "the required behaviours, on a Cortex-M3",
        optional: false,
        run: suites::conformance::thumbv7m,
    },
    Suite {
        name: "conformance/thumbv8m.main-none-eabi",
        about: "the required behaviours, on a Cortex-M33",
        optional: false,
        run: suites::conformance::thumbv8m,
    },
    Suite {
        name: "conformance/riscv32imac-unknown-none-elf",
        about: "the required behaviours, on RISC-V",
        optional: false,
        run: suites::conformance::riscv32imac,
    },
    // The name that the suite on this board had when it was the only one. It builds nothing new.
    Suite {
        name: "firmware/thumbv7m-none-eabi",
        about: "conformance/thumbv7m-none-eabi by its first name",
        optional: false,
        run: suites::conformance::thumbv7m,
    },
    Suite {
        name: "lint",
        about: "rustfmt and clippy",
        optional: false,
        run: suites::lint::run,
    },
    Suite {
        name: "features",
        about: "each library crate alone, with no features and with all",
        optional: false,
        run: suites::features::run,
    },
];

/// `cargo xtask test`: runs the suites named in `only`, or all of them.
pub(crate) fn run(
    workspace: &Workspace,
    host_only: bool,
    only: &[String],
    json: Option<&Path>,
) -> Result<ExitCode, Failure> {
    // A path that cannot be written is better known now than after half an hour.
    let mut file = json
        .map(|path| create(path).map(|file| (file, path)))
        .transpose()?;

    let setup = Setup::new(workspace);
    let context = Context {
        workspace,
        setup: &setup,
        host_only,
        counts: Counts::default(),
    };
    let chosen = |suite: &&Suite| only.is_empty() || only.iter().any(|name| name == suite.name);
    let suites: Vec<&Suite> = ALL.iter().filter(chosen).collect();
    let mut rows = Vec::new();
    for (index, suite) in suites.iter().enumerate() {
        let (number, count) = (index + 1, suites.len());
        process::say(&format!(
            "\n=== suite {number} of {count}: {} ({})",
            suite.name, suite.about
        ));
        let start = Instant::now();
        let tally = settle((suite.run)(&context), host_only || suite.optional);
        rows.push(Row {
            name: suite.name,
            tally,
            time: start.elapsed(),
        });
    }

    process::say("");
    process::say(&report::table(&rows));
    if let Some((file, path)) = &mut file {
        let written = file.write_all(report::json(&rows).as_bytes());
        written.map_err(|error| unwritable(path, &error))?;
    }
    process::say(&report::closing_line(&rows));
    let failed = rows.iter().any(|row| row.tally.failed > 0);
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Turns what a suite returned into its counts. A suite that tested nothing has failed, unless it
/// says that it was left out and may be.
fn settle(outcome: Result<Tally, String>, may_be_left_out: bool) -> Tally {
    let mut tally = outcome.unwrap_or_else(Tally::could_not_run);
    let left_out = may_be_left_out && tally.skipped > 0;
    if tally.passed == 0 && tally.failed == 0 && !left_out {
        tally.fail(1, "no test ran");
    }
    tally
}

/// The file of a `--json`.
pub(crate) fn create(path: &Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| unwritable(path, &error))
}

pub(crate) fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::bad_input(format!("--json: cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suites_come_in_their_order() {
        let names: Vec<_> = ALL.iter().map(|suite| suite.name).collect();
        assert_eq!(
            names,
            [
                "host",
                "doc",
                "loom",
                "asan",
                "miri",
                "compile-fail",
                "conformance/host",
                "conformance/thumbv6m-none-eabi",
                "conformance/thumbv7m-none-eabi",
                "conformance/thumbv8m.main-none-eabi",
                "conformance/riscv32imac-unknown-none-elf",
                "firmware/thumbv7m-none-eabi",
                "lint",
                "features",
            ]
        );
    }

    #[test]
    fn a_suite_that_tested_nothing_has_failed() {
        assert_eq!(settle(Ok(Tally::default()), false).failed, 1);
        assert_eq!(settle(Ok(Tally::default()), true).failed, 1);
        assert_eq!(
            settle(Err("no emulator".to_owned()), false),
            Tally::could_not_run("no emulator")
        );
    }

    #[test]
    fn a_suite_that_skipped_everything_needs_an_excuse() {
        let skipped = || {
            let mut tally = Tally::default();
            tally.skip(3, "left out");
            Ok(tally)
        };
        assert_eq!(settle(skipped(), false).failed, 1);
        assert_eq!(settle(skipped(), true).failed, 0);
    }
}
