//! Suite `lint`: the code is formatted, and clippy has nothing to say about any of it: what runs on
//! the host, the loom models, the firmware.

use std::process::Command;

use crate::demo;
use crate::emulator::{Board, LM3S6965EVB, RISCV_VIRT};
use crate::figures;
use crate::report::Tally;
use crate::setup::{CLIPPY, RUSTFMT};
use crate::suite::Context;
use crate::suites::{check, conformance};
use crate::toolchain::Toolchain;
use crate::workspace::{Package, Workspace};

/// The packages whose code is there only when built for a microcontroller, by the kinds of core that
/// they have code for: one board for each.
const FIRMWARE: [(&Board, &[&str]); 2] = [
    (&LM3S6965EVB, &[demo::FIRMWARE, conformance::FIRMWARE]),
    (&RISCV_VIRT, &[conformance::FIRMWARE]),
];

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
            for (board, packages) in FIRMWARE {
                add(on_firmware(context, board, packages));
            }
            add(on_weighed(context));
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
    command.args(["-p", figures::PACKAGE, "--features", "count,size-spin,time"]);
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

fn on_firmware(context: &Context<'_>, board: &Board, packages: &[&str]) -> Result<Tally, String> {
    let what = format!("clippy of the firmware for {}", board.triple);
    on_bare_metal(context, board.triple, &what, |command| {
        for package in packages {
            command.args(["-p", package]);
        }
        command.args(["--lib", "--bins"]);
        let declares = |package: &&str, feature: &str| {
            let package = context.workspace.package(package);
            package.is_ok_and(|package| package.features.contains_key(feature))
        };
        for feature in board.features {
            for package in packages.iter().filter(|package| declares(package, feature)) {
                command.args(["--features", &format!("{package}/{feature}")]);
            }
        }
    })
}

fn on_weighed(context: &Context<'_>) -> Result<Tally, String> {
    let what = "clippy of the images that are weighed";
    on_bare_metal(context, LM3S6965EVB.triple, what, |command| {
        command.args(["-p", figures::PACKAGE, "--features", "size", "--bins"]);
    })
}

fn on_bare_metal(
    context: &Context<'_>,
    triple: &'static str,
    what: &str,
    choose: impl FnOnce(&mut Command),
) -> Result<Tally, String> {
    let mut tally = Tally::default();
    if context.host_only {
        tally.skip(1, format!("{what}: --host-only"));
        return Ok(tally);
    }
    // clippy is a compiler: it reads only the standard library that was built by its own.
    let toolchain = match Toolchain::find(context.workspace, triple) {
        Ok(toolchain) if toolchain.is_pinned() => toolchain,
        _ => {
            tally.skip(1, format!("{what}: only rustup's own {triple} would do"));
            return Ok(tally);
        }
    };
    let mut command = toolchain.cargo(context.workspace, "clippy");
    choose(&mut command);
    check(what, command.args(["--", "-D", "warnings"]))
}
