//! `cargo xtask bench`: times beside floors and peers. A report, as `figures` is.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::failure::Failure;
use crate::figures::{PACKAGE, build};
use crate::process;
use crate::workspace::Workspace;

/// The program that measures, and the feature that it is behind. It has the same name.
pub(crate) const PROGRAM: &str = "time";

/// It stops by itself long before.
const WATCHDOG: Duration = Duration::from_secs(300);

/// Builds the program, and runs it with its progress and its table shown; it writes `json` itself.
pub(crate) fn run(workspace: &Workspace, json: Option<&Path>) -> Result<ExitCode, Failure> {
    let mut command = workspace.cargo("build");
    command.args(["--locked", "--release", "-p", PACKAGE]);
    build(command.args(["--features", PROGRAM, "--bin", PROGRAM])).map_err(Failure::failed)?;
    let mut command = Command::new(workspace.target_dir.join("release").join(PROGRAM));
    if let Some(path) = json {
        command.arg("--json").arg(path);
    }
    let ran = process::run(&mut command, WATCHDOG, process::echo)?;
    if ran.succeeded() {
        Ok(ExitCode::SUCCESS)
    } else {
        Err(Failure::failed(format!("{PROGRAM}: {}", ran.complaint())))
    }
}
