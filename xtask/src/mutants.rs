//! `cargo xtask mutants`: changes the libraries' code in one place at a time and sees whether a test of
//! the host suites fails. A run that is ended goes on where it was when the task is called again.

mod ledger;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::mutants::ledger::{Ledger, Verdicts};
use crate::process;
use crate::suite;
use crate::suites::conformance;
use crate::workspace::{Package, Workspace};

/// What to run, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Mutate this crate only (may be given again); otherwise every library crate, one after the other
    #[arg(long = "crate", value_name = "NAME")]
    crates: Vec<String>,
    /// Also write what came of each crate to this file
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
    /// Build and test this many mutants at a time, each in a folder of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    jobs: u32,
    /// How long the tests of one mutant may take, in seconds; otherwise a multiple of what they take
    /// without one
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..))]
    timeout: Option<u32>,
    /// Forget what earlier runs found: needed after tests were taken away
    #[arg(long)]
    fresh: bool,
    /// Run nothing: report what earlier runs found
    #[arg(long, conflicts_with = "fresh")]
    report: bool,
}

/// The tool's package and program.
const TOOL: &str = "cargo-mutants";

/// Building the tool takes minutes.
const INSTALL_LIMIT: Duration = Duration::from_secs(1800);
/// Building and running the tests once.
const BASELINE_LIMIT: Duration = Duration::from_secs(1800);

/// The tool's exit codes for a run that came to its end: all caught, some missed, some too slow.
const ENDED: [i32; 3] = [0, 2, 3];

/// The tests of a mutant may take this many times as long as those of the code as it is, and the least
/// that they are given: another task may want the machine meanwhile.
const PATIENCE: u32 = 5;
const LEAST_TIMEOUT: Duration = Duration::from_secs(20);

/// Examples in the documentation are slow to build, and have a suite of their own.
const KINDS: [&str; 2] = ["--lib", "--tests"];

/// Runs, prints a summary, writes the JSON. Mutants that no test noticed are a finding, not a failure.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<ExitCode, Failure> {
    let packages = choose(workspace, &args.crates)?;
    let mut file = args
        .json
        .as_deref()
        .map(|path| suite::create(path).map(|file| (file, path)))
        .transpose()?;
    let folder = workspace.target_dir.join("mutants");
    let tool = Tool::get(workspace, &folder)?;

    let mut crates = Vec::new();
    let mut unfinished = Vec::new();
    for (index, package) in packages.iter().enumerate() {
        process::say(&format!(
            "\n=== crate {} of {}: {}",
            index + 1,
            packages.len(),
            package.name
        ));
        let place = folder.join(&package.name);
        let mut ledger = Ledger::open(&place, args.fresh).map_err(Failure::failed)?;
        let ended = if args.report {
            Ok(())
        } else {
            tool.mutate(workspace, package, &place, &mut ledger, args)
        };
        let known = tool.list(workspace, package)?;
        let verdicts = ledger.verdicts(&known);
        process::say(&verdicts.summary(&package.name));
        if let Err(reason) = ended {
            unfinished.push(format!("{}: {reason}", package.name));
        }
        crates.push((package.name.clone(), verdicts));
    }

    process::say("");
    for (name, verdicts) in &crates {
        process::say(&verdicts.summary(name));
    }
    if let Some((file, path)) = &mut file {
        let written = file.write_all(json(&crates).as_bytes());
        written.map_err(|error| suite::unwritable(path, &error))?;
    }
    if unfinished.is_empty() {
        Ok(ExitCode::SUCCESS)
    } else {
        Err(Failure::failed(unfinished.join("; ")))
    }
}

fn choose<'a>(workspace: &'a Workspace, names: &[String]) -> Result<Vec<&'a Package>, Failure> {
    let libraries: Vec<&Package> = workspace.libraries().collect();
    if names.is_empty() {
        return Ok(libraries);
    }
    names
        .iter()
        .map(|name| {
            let found = libraries.iter().find(|package| package.name == *name);
            found.copied().ok_or_else(|| {
                let known: Vec<&str> = libraries.iter().map(|p| p.name.as_str()).collect();
                Failure::bad_input(format!(
                    "--crate: `{name}` is no library crate; they are {}",
                    known.join(", ")
                ))
            })
        })
        .collect()
}

/// The packages that run the conformance suite on a crate, itself aside. Their tests judge the mutants that
/// its own let through.
fn judges<'a>(workspace: &'a Workspace, package: &'a Package) -> Vec<&'a Package> {
    let runs_suite = |other: &&Package| {
        let suite = conformance::TESTS
            .iter()
            .any(|(name, _)| *name == other.name);
        suite && other.name != package.name && workspace.depends(other, &package.name)
    };
    workspace.packages.iter().filter(runs_suite).collect()
}

/// cargo-mutants, wherever it is.
#[derive(Debug)]
struct Tool(PathBuf);

impl Tool {
    /// Finds the tool, or installs it beside what it will build.
    fn get(workspace: &Workspace, folder: &Path) -> Result<Self, Failure> {
        let works = |program: &Path| {
            process::ask(Command::new(program).args(["mutants", "--version"])).is_some()
        };
        let own = folder.join("tool/bin").join(TOOL);
        for program in [PathBuf::from(TOOL), own.clone()] {
            if works(&program) {
                return Ok(Self(program));
            }
        }
        process::note(&format!(
            "mutants: {TOOL} is not installed: building it into {}",
            folder.join("tool").display()
        ));
        let mut install = workspace.cargo("install");
        install
            .args([TOOL, "--locked", "--root"])
            .arg(folder.join("tool"))
            .arg("--target-dir")
            .arg(folder.join("tool/build"));
        let installed = process::run(&mut install, INSTALL_LIMIT, process::echo_aside)?;
        if works(&own) {
            // Only the program is wanted.
            let _ = fs::remove_dir_all(folder.join("tool/build"));
            Ok(Self(own))
        } else {
            Err(Failure::failed(format!(
                "{TOOL} cannot be installed: {}; to get it: `cargo install {TOOL} --locked`",
                installed.complaint()
            )))
        }
    }

    fn command(&self, workspace: &Workspace, package: &Package) -> Command {
        let mut command = Command::new(&self.0);
        command
            .args(["mutants", "--package", &package.name])
            .current_dir(&workspace.root);
        command
    }

    /// The names of every mutant of a crate as it is now.
    fn list(&self, workspace: &Workspace, package: &Package) -> Result<Vec<String>, Failure> {
        let mut command = self.command(workspace, package);
        let listed = process::ask(command.args(["--list", "--colors", "never"]));
        let listed = listed.ok_or_else(|| {
            Failure::failed(format!(
                "{TOOL} cannot list the mutants of {}",
                package.name
            ))
        })?;
        Ok(listed.lines().map(str::to_owned).collect())
    }

    /// Tests every mutant of a crate that is not known to be caught: with the crate's own tests, which are built
    /// fast, and those that they let through once more, with the conformance suite.
    fn mutate(
        &self,
        workspace: &Workspace,
        package: &Package,
        place: &Path,
        ledger: &mut Ledger,
        args: &Args,
    ) -> Result<(), String> {
        self.round(workspace, package, &[package], place, ledger, args)?;
        let judges = judges(workspace, package);
        let known = self
            .list(workspace, package)
            .map_err(|failure| failure.message)?;
        let missed = ledger.verdicts(&known).missed.len();
        if judges.is_empty() || missed == 0 {
            return Ok(());
        }
        process::note(&format!(
            "mutants: {missed} missed so far: again, with the conformance suite"
        ));
        ledger.keep_timeouts()?;
        self.round(workspace, package, &judges, place, ledger, args)
    }

    /// Tests every mutant of a crate that is not known to be caught, with the tests of `judges`. The tool has the
    /// terminal to itself: it draws its progress there.
    fn round(
        &self,
        workspace: &Workspace,
        package: &Package,
        judges: &[&Package],
        place: &Path,
        ledger: &mut Ledger,
        args: &Args,
    ) -> Result<(), String> {
        let features = Workspace::host_features(judges.iter().copied());
        let build = place.with_file_name("build");
        let took = baseline(workspace, judges, &features, &build)?;
        let timeout = args.timeout.map_or_else(
            || (took * PATIENCE * args.jobs).max(LEAST_TIMEOUT),
            |seconds| Duration::from_secs(seconds.into()),
        );

        let mut command = self.command(workspace, package);
        command.arg("--output").arg(place);
        // Its own would leave out the tests of the other packages.
        command.args(["--baseline", "skip"]);
        command.args(["--timeout", &timeout.as_secs().to_string()]);
        for judge in judges {
            command.args(["--test-package", &judge.name]);
        }
        command.args(["--features", &features]);
        for kind in KINDS {
            command.args(["--cargo-test-arg", kind]);
        }
        command.args(["--jobs", &args.jobs.to_string()]);
        if ledger.resumes() {
            command.arg("--iterate");
        }
        command.env(NO_SYMBOLS.0, NO_SYMBOLS.1);
        if args.jobs == 1 {
            // Dependencies are built once for all crates and runs.
            command.env("CARGO_TARGET_DIR", build);
        } else {
            command.env_remove("CARGO_TARGET_DIR");
        }
        let status = command
            .status()
            .map_err(|error| format!("{TOOL}: {error}"))?;
        ledger.absorb()?;
        match status.code() {
            Some(code) if ENDED.contains(&code) => Ok(()),
            _ => Err(format!(
                "{TOOL} ended by {status}; the next call goes on from here"
            )),
        }
    }
}

/// Mutants are many, and nobody debugs one.
const NO_SYMBOLS: (&str, &str) = ("CARGO_PROFILE_DEV_DEBUG", "none");

/// Runs the tests on the code as it is, which must pass; how long they took, building aside.
fn baseline(
    workspace: &Workspace,
    judges: &[&Package],
    features: &str,
    build: &Path,
) -> Result<Duration, String> {
    let test = |more: &[&str]| {
        let mut command = workspace.cargo("test");
        for judge in judges {
            command.args(["-p", &judge.name]);
        }
        command
            .args(KINDS)
            .args(["--features", features])
            .args(more)
            .env(NO_SYMBOLS.0, NO_SYMBOLS.1)
            .env("CARGO_TARGET_DIR", build);
        let finished = process::run(&mut command, BASELINE_LIMIT, process::echo_aside)
            .map_err(|failure| failure.message)?;
        if finished.succeeded() {
            Ok(())
        } else {
            Err(format!("without any mutant: {}", finished.complaint()))
        }
    };
    process::note("mutants: first the tests of the code as it is");
    forget_mutants(workspace, build)?;
    test(&["--no-run"])?;
    let start = Instant::now();
    test(&["--quiet"])?;
    Ok(start.elapsed())
}

/// Throws away what is built of the libraries: it may be that of the last mutant. The tool mutates copies with the
/// same names and newer times, so cargo takes what is built of them for what is here.
fn forget_mutants(workspace: &Workspace, build: &Path) -> Result<(), String> {
    let mut command = workspace.cargo("clean");
    for package in workspace.libraries() {
        command.args(["-p", &package.name]);
    }
    command.env("CARGO_TARGET_DIR", build);
    let cleaned = process::run(&mut command, BASELINE_LIMIT, process::echo_aside)
        .map_err(|failure| failure.message)?;
    if cleaned.succeeded() {
        Ok(())
    } else {
        Err(format!("what mutants left: {}", cleaned.complaint()))
    }
}

/// `{"crates":[…]}`, one crate a line.
fn json(crates: &[(String, Verdicts)]) -> String {
    let lines: Vec<String> = crates
        .iter()
        .map(|(name, verdicts)| verdicts.json(name))
        .collect();
    format!("{{\"crates\":[\n{}\n]}}\n", lines.join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_has_a_line_for_each_crate() {
        let verdicts = Verdicts {
            caught: 3,
            missed: vec!["a.rs:1:2: replace \"x\"".to_owned()],
            ..Verdicts::default()
        };
        let json = json(&[("wharf-sync".to_owned(), verdicts)]);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["crates"][0]["crate"], "wharf-sync");
        assert_eq!(value["crates"][0]["viable"], 4);
        assert_eq!(value["crates"][0]["caught"], 3);
        assert_eq!(value["crates"][0]["missed"][0], "a.rs:1:2: replace \"x\"");
    }
}
