//! `cargo xtask figures`: what wharf costs in instructions and bytes, beside the goals. A report: a goal
//! that is not met is printed as such and fails nothing; only what could not be measured does.

mod counts;
mod image;
mod table;

use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::failure::Failure;
use crate::figures::table::Section;
use crate::process;
use crate::setup::Setup;
use crate::suite;
use crate::toolchain::Toolchain;
use crate::workspace::Workspace;

/// The package of everything that is measured.
pub(crate) const PACKAGE: &str = "wharf-bench";

/// Weighed always.
const MCU: &str = "thumbv6m-none-eabi";
/// Weighed too where a toolchain for it is found; none is installed for it.
const MCU_IF_FOUND: &str = "riscv32imac-unknown-none-elf";

/// One build, or one run under an instruction counter.
const WATCHDOG: Duration = Duration::from_secs(1800);

/// What was measured, and what could not be.
#[derive(Debug, Default)]
struct Report {
    sections: Vec<Section>,
    missing: Vec<String>,
}

impl Report {
    fn take(&mut self, what: &str, outcome: Result<Vec<Section>, String>) {
        match outcome {
            Ok(sections) => self.sections.extend(sections),
            Err(reason) => self.missing.push(format!("{what}: {reason}")),
        }
    }
}

/// Measures everything, prints it, and writes it to `json`.
pub(crate) fn run(workspace: &Workspace, json: Option<&Path>) -> Result<ExitCode, Failure> {
    let mut file = json
        .map(|path| suite::create(path).map(|file| (file, path)))
        .transpose()?;
    let setup = Setup::new(workspace);
    let mut report = Report::default();

    report.take("the host", counts::measure(workspace, &setup));
    let weighed = setup.toolchain(MCU);
    let weighed = weighed.and_then(|toolchain| image::measure(workspace, &toolchain, MCU));
    report.take(MCU, weighed);
    if let Ok(toolchain) = Toolchain::find(workspace, MCU_IF_FOUND) {
        let weighed = image::measure(workspace, &toolchain, MCU_IF_FOUND);
        report.take(MCU_IF_FOUND, weighed);
    }

    for section in &report.sections {
        process::say(&format!("\n{}", section.table().trim_end()));
    }
    if let Some((file, path)) = &mut file {
        let written = file.write_all(table::json(&report.sections, &report.missing).as_bytes());
        written.map_err(|error| suite::unwritable(path, &error))?;
    }
    if report.missing.is_empty() {
        Ok(ExitCode::SUCCESS)
    } else {
        let missing = report.missing.join("; ");
        Err(Failure::failed(format!("not measured: {missing}")))
    }
}

/// Runs a build whose output is shown aside.
pub(crate) fn build(command: &mut Command) -> Result<(), String> {
    let built =
        process::run(command, WATCHDOG, process::echo_aside).map_err(|failure| failure.message)?;
    if built.succeeded() {
        Ok(())
    } else {
        Err(format!("{PACKAGE} does not build: {}", built.complaint()))
    }
}
