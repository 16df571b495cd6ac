//! Suite `host`: every unit and integration test that runs on the host and has no suite of its own.

use crate::bench;
use crate::figures;
use crate::report::Tally;
use crate::suite::Context;
use crate::suites::{compile_fail, conformance, libtest};
use crate::workspace::{Package, Workspace};

/// Integration tests that have suites of their own: package and test.
const ELSEWHERE: [(&str, &str); 5] = [
    compile_fail::TEST,
    conformance::TESTS[0],
    conformance::TESTS[1],
    conformance::TESTS[2],
    conformance::TESTS[3],
];

pub(crate) fn run(context: &Context<'_>) -> Result<Tally, String> {
    let workspace = context.workspace;
    let (apart, together): (Vec<&Package>, Vec<&Package>) = workspace
        .packages
        .iter()
        .partition(|package| ELSEWHERE.iter().any(|(name, _)| package.name == *name));

    let mut command = workspace.cargo("test");
    command.args([
        "--workspace",
        "--no-fail-fast",
        "--lib",
        "--bins",
        "--tests",
    ]);
    for package in &apart {
        command.args(["--exclude", &package.name]);
    }
    command.args(["--features", &Workspace::host_features(together)]);
    let mut tally = libtest(&mut command)?;

    // cargo takes tests of one package out only by naming all the others.
    for package in apart {
        let mut command = workspace.cargo("test");
        command.args(["-p", &package.name, "--no-fail-fast", "--lib"]);
        for test in remaining(package) {
            command.args(["--test", test]);
        }
        command.args(["--features", &Workspace::host_features([package])]);
        tally.add(libtest(&mut command)?);
    }

    // Behind a feature of its own, which no build of the whole workspace turns on.
    let mut command = workspace.cargo("test");
    command.args(["-p", figures::PACKAGE, "--no-fail-fast"]);
    command.args(["--features", bench::PROGRAM, "--bin", bench::PROGRAM]);
    tally.add(libtest(&mut command)?);
    Ok(tally)
}

/// A package's integration tests without those that have suites of their own.
fn remaining(package: &Package) -> impl Iterator<Item = &str> {
    let elsewhere = |test: &&str| ELSEWHERE.contains(&(package.name.as_str(), *test));
    package
        .tests
        .iter()
        .map(String::as_str)
        .filter(move |test| !elsewhere(test))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_left_out_of_its_own_package_only() {
        let package = |name: &str| Package {
            name: name.to_owned(),
            tests: ["compile_fail", "host", "slices"]
                .map(str::to_owned)
                .to_vec(),
            ..Package::default()
        };
        let left = |name| {
            remaining(&package(name))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(left("wharf"), ["host", "slices"]);
        assert_eq!(left("wharf-conformance"), ["compile_fail", "slices"]);
        assert_eq!(left("digits"), ["compile_fail", "host", "slices"]);
    }
}
