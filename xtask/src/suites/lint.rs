//! Suite `lint`: the code is formatted, and clippy has nothing to say about any of it: what runs on
//! the host, the loom models, the firmware.

use crate::demo;
use crate::emulator::LM3S6965EVB;
use crate::figures;
use crate::report::Tally;
use crate::setup::{CLIPPY, RUSTFMT};
use crate::suite::Context;
use crate::suites::{check, firmware};
use crate::toolchain::Toolchain;
use crate::workspace::{Package, Workspace};

/// The packages whose code is there only when built for a microcontroller.
const FIRMWARE: [&str; 2] = [demo::FIRMWARE, firmware::PACKAGE];

pub(crate) fn run(context: &Context<'_>) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let mut add = |outcome: Result<Tally, String>| {
        tally.add(outcome.unwrap_or_else(Tally::could_not_run));
    };
    add(format(context));
    match context.setup.ensure(CLIPPY) {
        Ok(()) => {
            add(on_host(context));
            add(on_models(context));
            add(on_figures(context));
            add(on_firmware(context));
        }
        Err(reason) => add(Err(reason)),
    }
    Ok(tally)
}

fn format(context: &Context<'_>) -> Result<Tally, String> {
    context.setup.ensure(RUSTFMT)?;
    check(
        "rustfmt",
        context.workspace.cargo("fmt").args(["--all", "--check"]),
    )
}

fn on_host(context: &Context<'_>) -> Result<Tally, String> {
    let workspace = context.workspace;
    let features = Workspace::host_features(&workspace.packages);
    let mut command = workspace.cargo("clippy");
    command.args(["--workspace", "--all-targets", "--features", &features]);
    check("clippy", command.args(["--", "-D", "warnings"]))
}

/// The programs that are measured, which no build of the whole workspace includes.
fn on_figures(context: &Context<'_>) -> Result<Tally, String> {
    let mut command = context.workspace.cargo("clippy");
    command.args(["-p", figures::PACKAGE, "--features", "count,size"]);
    command.args(["--all-targets", "--", "-D", "warnings"]);
    check("clippy of the figures", &mut command)
}

/// The models, and the code of the libraries that only they see.
fn on_models(context: &Context<'_>) -> Result<Tally, String> {
    let workspace = context.workspace;
    let modelled = |package: &&Package| package.features.contains_key("loom");
    let packages: Vec<&Package> = workspace.libraries().filter(modelled).collect();
    if packages.is_empty() {
        return Err("no library crate has the feature `loom`".to_owned());
    }
    let mut command = workspace.cargo("clippy");
    for package in &packages {
        command.args([
            "-p",
            &package.name,
            "--features",
            &format!("{}/loom", package.name),
        ]);
    }
    command.args(["--features", &Workspace::host_features(packages)]);
    command.args(["--all-targets", "--", "-D", "warnings"]);
    check("clippy of the loom models", &mut command)
}

fn on_firmware(context: &Context<'_>) -> Result<Tally, String> {
    let workspace = context.workspace;
    let triple = LM3S6965EVB.triple;
    let mut tally = Tally::default();
    if context.host_only {
        tally.skip(1, "clippy of the firmware: --host-only");
        return Ok(tally);
    }
    // clippy is a compiler: it reads only the standard library that was built by its own.
    let toolchain = match Toolchain::find(workspace, triple) {
        Ok(toolchain) if toolchain.is_pinned() => toolchain,
        _ => {
            tally.skip(
                1,
                format!("clippy of the firmware: only rustup's own {triple} would do"),
            );
            return Ok(tally);
        }
    };
    let mut command = toolchain.cargo(workspace, "clippy");
    for package in FIRMWARE {
        command.args(["-p", package, "--bin", package]);
    }
    tally.add(check(
        "clippy of the firmware",
        command.args(["--", "-D", "warnings"]),
    )?);
    let mut command = toolchain.cargo(workspace, "clippy");
    command.args(["-p", figures::PACKAGE, "--features", "size", "--bins"]);
    tally.add(check(
        "clippy of the images that are weighed",
        command.args(["--", "-D", "warnings"]),
    )?);
    Ok(tally)
}
