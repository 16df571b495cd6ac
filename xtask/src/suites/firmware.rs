//! Suite `firmware/thumbv7m-none-eabi`: the conformance suite in a firmware image, without heap or
//! operating system, on an emulated Cortex-M3.

use crate::emulator::LM3S6965EVB;
use crate::process;
use crate::report::Tally;
use crate::setup::Need;
use crate::suite::Context;
use crate::suites::{run as run_command, tally_conformance};

/// The package and binary of the suite's firmware.
pub(crate) const PACKAGE: &str = "conformance-firmware";

pub(crate) fn run(context: &Context<'_>) -> Result<Tally, String> {
    let mut tally = Tally::default();
    if context.host_only {
        tally.skip(1, "--host-only");
        return Ok(tally);
    }
    context.workspace.package(PACKAGE)?;
    let board = &LM3S6965EVB;
    context.setup.ensure(Need::Emulator(board.program))?;
    let toolchain = context.setup.toolchain(board.triple)?;

    let mut build = toolchain.cargo(context.workspace, "build");
    build.args(["--release", "-p", PACKAGE, "--bin", PACKAGE]);
    let built = run_command(&mut build)?;
    if !built.succeeded() {
        return Err(format!("{PACKAGE} does not build: {}", built.complaint()));
    }

    process::say(&format!("--- {PACKAGE} in {}", board.program));
    let image = toolchain.image(context.workspace, PACKAGE);
    let ran = board
        .run(&image, process::echo)
        .map_err(|failure| failure.message)?;
    tally.add(tally_conformance(&ran));
    Ok(tally)
}
