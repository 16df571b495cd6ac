//! What the tasks need on a machine, whether it is there, and how to get it: by rustup, or by the
//! distribution's packages.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::emulator::{BOARDS, Board};
use crate::failure::Failure;
use crate::process;
use crate::toolchain::{MCU_TARGETS, Toolchain};
use crate::workspace::Workspace;

/// The compiler and its sources as Debian and Ubuntu package them.
const CROSS_PACKAGES: [&str; 2] = ["rustc-web", "rust-web-src"];

/// A download that takes longer than this has stalled.
const WATCHDOG: Duration = Duration::from_secs(900);

/// Something that a task needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// A toolchain that builds for this target.
    Target(&'static str),
    /// A program of QEMU's, with the package that brings it.
    Emulator {
        program: &'static str,
        package: &'static str,
    },
    /// Any other program, which distributions package under its own name.
    Program(&'static str),
    /// A component of rustup's toolchain, with the cargo subcommand that it brings.
    Component {
        name: &'static str,
        subcommand: &'static str,
    },
}

/// Counts instructions.
pub(crate) const VALGRIND: Need = Need::Program("valgrind");
/// rustfmt, as `cargo fmt`.
pub(crate) const RUSTFMT: Need = Need::Component {
    name: "rustfmt",
    subcommand: "fmt",
};
/// clippy, as `cargo clippy`.
pub(crate) const CLIPPY: Need = Need::Component {
    name: "clippy",
    subcommand: "clippy",
};

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(triple) => write!(f, "a toolchain for {triple}"),
            Self::Emulator { program, .. } => write!(f, "the emulator {program}"),
            Self::Program(program) => write!(f, "the program {program}"),
            Self::Component { name, .. } => write!(f, "the component {name}"),
        }
    }
}

impl Need {
    /// What runs a board.
    pub(crate) const fn emulator(board: &Board) -> Self {
        Self::Emulator {
            program: board.program,
            package: board.package,
        }
    }

    /// `None` if it is there, otherwise what is missing.
    fn missing(self, workspace: &Workspace) -> Option<String> {
        match self {
            Self::Target(triple) => Toolchain::find(workspace, triple).err(),
            Self::Emulator { program, .. } | Self::Program(program) => {
                let answer = process::ask(Command::new(program).arg("--version"));
                answer
                    .is_none()
                    .then(|| format!("{program} is not installed"))
            }
            Self::Component { name, subcommand } => {
                let answer = process::ask(workspace.cargo(subcommand).arg("--version"));
                answer.is_none().then(|| format!("{name} is not installed"))
            }
        }
    }

    /// What is missing, and what to type.
    fn plea(self, missing: &str) -> String {
        format!("{missing}; to get it: {}", self.advice())
    }

    /// What a person types to get it.
    fn advice(self) -> String {
        match self {
            Self::Target(triple) => format!(
                "`rustup target add {triple}`, or on Debian and Ubuntu `{}`",
                apt_advice(&CROSS_PACKAGES)
            ),
            Self::Emulator { program, package } => format!(
                "on Debian and Ubuntu `{}`, elsewhere the {program} of QEMU",
                apt_advice(&[package])
            ),
            Self::Program(program) => format!(
                "on Debian and Ubuntu `{}`, elsewhere by the system's own packages",
                apt_advice(&[program])
            ),
            Self::Component { name, .. } => format!("`rustup component add {name}`"),
        }
    }
}

fn apt_advice(packages: &[&str]) -> String {
    format!(
        "sudo apt-get update && sudo apt-get install --no-install-recommends {}",
        packages.join(" ")
    )
}

/// Installs what is missing, each thing tried once a run.
#[derive(Debug)]
pub(crate) struct Setup<'a> {
    workspace: &'a Workspace,
    tried: RefCell<BTreeMap<Need, Result<(), String>>>,
    /// apt's lists have been brought up to date.
    updated: Cell<bool>,
}

impl<'a> Setup<'a> {
    pub(crate) fn new(workspace: &'a Workspace) -> Self {
        Self {
            workspace,
            tried: RefCell::default(),
            updated: Cell::new(false),
        }
    }

    /// Makes sure that `need` is met. Silent when it already is; everything it says goes to
    /// stderr. The error says what is missing and what to type.
    pub(crate) fn ensure(&self, need: Need) -> Result<(), String> {
        if let Some(outcome) = self.tried.borrow().get(&need) {
            return outcome.clone();
        }
        let outcome = match need.missing(self.workspace) {
            None => Ok(()),
            Some(missing) => {
                process::note(&format!("setup: {missing}"));
                self.install(need);
                match need.missing(self.workspace) {
                    None => Ok(()),
                    Some(missing) => Err(need.plea(&missing)),
                }
            }
        };
        self.tried.borrow_mut().insert(need, outcome.clone());
        outcome
    }

    /// Makes sure of a toolchain for `triple`, and hands it out.
    pub(crate) fn toolchain(&self, triple: &'static str) -> Result<Toolchain, String> {
        self.ensure(Need::Target(triple))?;
        Toolchain::find(self.workspace, triple)
    }

    /// Does what this machine allows; whether that was enough, the caller finds out by looking.
    fn install(&self, need: Need) {
        match need {
            Need::Target(triple) => {
                self.step(Command::new("rustup").args(["target", "add", triple]));
                if need.missing(self.workspace).is_some() {
                    self.apt(&CROSS_PACKAGES);
                }
            }
            Need::Emulator { package, .. } | Need::Program(package) => self.apt(&[package]),
            Need::Component { name, .. } => {
                self.step(Command::new("rustup").args(["component", "add", name]));
            }
        }
    }

    /// Installs packages, where there is apt and the right to use it.
    fn apt(&self, packages: &[&str]) {
        let Some(privilege) = privilege() else {
            process::note("setup: no right to install packages here (not root, no `sudo -n`)");
            return;
        };
        let apt = |arguments: &[&str]| {
            let words: Vec<&str> = privilege.iter().copied().chain(["apt-get"]).collect();
            let mut command = Command::new(words[0]);
            command
                .args(&words[1..])
                .args(arguments)
                .env("DEBIAN_FRONTEND", "noninteractive");
            self.step(&mut command)
        };
        // Old lists name packages that the mirrors no longer have. If they cannot be brought up to
        // date, the package may still be in a cache.
        if !self.updated.replace(true) {
            apt(&["update"]);
        }
        let install = ["install", "--yes", "--no-install-recommends"];
        apt(&[&install, packages].concat());
    }

    /// Says what it is about to run, and runs it.
    fn step(&self, command: &mut Command) -> bool {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let line: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        process::note(&format!("setup: {}", line.join(" ")));
        command.current_dir(&self.workspace.root);
        match process::run(command, WATCHDOG, process::echo_aside) {
            Ok(finished) if finished.succeeded() => true,
            Ok(finished) => {
                process::note(&format!("setup: that failed: {}", finished.complaint()));
                false
            }
            Err(failure) => {
                process::note(&format!("setup: that failed: {}", failure.message));
                false
            }
        }
    }
}

/// What to put before a command that only root may run: nothing as root, `sudo` where it asks no
/// password, `None` where neither holds.
fn privilege() -> Option<&'static [&'static str]> {
    if process::ask(Command::new("id").arg("-u")).as_deref() == Some("0") {
        return Some(&[]);
    }
    process::ask(Command::new("sudo").args(["-n", "true"]))?;
    Some(&["sudo", "-n"])
}

/// Everything that any task needs.
fn everything() -> Vec<Need> {
    let targets = MCU_TARGETS.into_iter().map(Need::Target);
    let mut emulators: Vec<Need> = BOARDS.into_iter().map(Need::emulator).collect();
    emulators.dedup();
    [RUSTFMT, CLIPPY]
        .into_iter()
        .chain(targets)
        .chain(emulators)
        .chain([VALGRIND])
        .collect()
}

/// `cargo xtask setup`.
pub(crate) fn run(workspace: &Workspace, check: bool) -> Result<ExitCode, Failure> {
    let setup = Setup::new(workspace);
    let mut complete = true;
    for need in everything() {
        let outcome = if check {
            let missing = need.missing(workspace);
            missing.map_or(Ok(()), |missing| Err(need.plea(&missing)))
        } else {
            setup.ensure(need)
        };
        match outcome {
            Ok(()) => process::say(&format!("{need}: there")),
            Err(reason) => {
                complete = false;
                process::say(&format!("{need}: missing: {reason}"));
            }
        }
    }
    if complete {
        Ok(ExitCode::SUCCESS)
    } else {
        Err(Failure::failed(
            "not everything that the tasks need is there: see above",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::RISCV_VIRT;

    #[test]
    fn advice_can_be_typed() {
        assert_eq!(
            Need::Target("thumbv6m-none-eabi").advice(),
            "`rustup target add thumbv6m-none-eabi`, or on Debian and Ubuntu `sudo apt-get update \
             && sudo apt-get install --no-install-recommends rustc-web rust-web-src`"
        );
        assert_eq!(
            Need::emulator(&RISCV_VIRT).advice(),
            "on Debian and Ubuntu `sudo apt-get update && sudo apt-get install \
             --no-install-recommends qemu-system-misc`, elsewhere the qemu-system-riscv32 of QEMU"
        );
        assert_eq!(CLIPPY.advice(), "`rustup component add clippy`");
        assert_eq!(
            VALGRIND.advice(),
            "on Debian and Ubuntu `sudo apt-get update && sudo apt-get install \
             --no-install-recommends valgrind`, elsewhere by the system's own packages"
        );
    }

    #[test]
    fn setup_covers_every_target_and_every_board() {
        let everything = everything();
        for triple in MCU_TARGETS {
            assert!(everything.contains(&Need::Target(triple)), "{triple}");
        }
        for board in BOARDS {
            let emulators = everything
                .iter()
                .filter(|need| **need == Need::emulator(board));
            assert_eq!(emulators.count(), 1, "{}", board.program);
            assert!(
                everything.contains(&Need::Target(board.triple)),
                "{}",
                board.triple
            );
        }
    }
}
