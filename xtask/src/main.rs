//! The command line of the workspace's developer tasks: what can be asked for, and nothing of how it
//! is done.

#![forbid(unsafe_code)]

mod bench;
mod count;
mod demo;
mod emulator;
mod failure;
mod figures;
mod mutants;
mod nightly;
mod process;
mod report;
mod setup;
mod suite;
mod suites;
mod timeline;
mod toolchain;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};

use crate::failure::Failure;
use crate::workspace::Workspace;

/// Every developer task of wharf: run the demonstration, test everything, install what that needs.
///
/// Exit codes: 0 all is well; 1 a test, a build or an installation failed; 2 the command line or an
/// input file is wrong.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", verbatim_doc_comment)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Classify 360 handwritten digits with every tensor in the memory of a device
    ///
    /// On the host the device is the software DMA device. On a microcontroller target the same
    /// generic code is built into a firmware image and run in an emulator; what that needs is
    /// installed first, as `cargo xtask setup` would.
    #[command(verbatim_doc_comment)]
    Demo(DemoArgs),
    /// Run every suite, print one table, end with one exit code
    ///
    /// A suite runs whether or not the one before it passed. A suite that could not run (no
    /// toolchain, no emulator, no test found) counts as failed and says why.
    #[command(verbatim_doc_comment)]
    Test(TestArgs),
    /// Install the cross toolchains, the emulator and the components that the other tasks use
    ///
    /// Takes rustup's own targets where rustup can download them, otherwise the distribution's
    /// compiler and its sources (Debian, Ubuntu). Says each step before it takes it. Where it may
    /// not install, it prints what to type and exits 1. With nothing missing it changes nothing.
    #[command(verbatim_doc_comment)]
    Setup(SetupArgs),
    /// Count instructions and weigh images, and print them beside the goals
    ///
    /// Instructions are counted by valgrind on this machine, text is measured in images linked for a
    /// Cortex-M0. A goal that is not met is printed as such and fails nothing.
    #[command(verbatim_doc_comment)]
    Figures(FiguresArgs),
    /// Time the allocators beside their floors and peers, and print the ratios beside the goals
    ///
    /// Takes less than a minute. Cases run by turns in one process and a figure is the median of many ratios, so it
    /// also works on a busy machine; a goal that is not met is printed as such and fails nothing.
    #[command(verbatim_doc_comment)]
    Bench(BenchArgs),
    /// Change the libraries' code, one place at a time, and see whether a test fails
    ///
    /// By cargo-mutants, which is built first if it is not installed. Takes hours for all crates: end
    /// it at any time, and call it again to go on. A mutant that no test notices is printed as such
    /// and fails nothing; what is skipped is in .cargo/mutants.toml, with reasons.
    #[command(verbatim_doc_comment)]
    Mutants(mutants::Args),
    /// Draw a trace of `cargo xtask demo --trace` as a picture for a page
    Timeline(timeline::Args),
}

#[derive(Debug, clap::Args)]
struct DemoArgs {
    /// Where to run: `host`, or a microcontroller target such as `thumbv7m-none-eabi`
    #[arg(long, value_name = "TARGET", default_value = "host")]
    target: String,
    /// Take the weights from this `.safetensors` file instead of the ones in the repository
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Also write what happened, as a timeline for ui.perfetto.dev (see docs/tracing.md); on the host only
    #[arg(long, value_name = "PATH")]
    trace: Option<PathBuf>,
    /// End with one line of JSON on stdout; everything else goes to stderr
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct TestArgs {
    /// Leave out what needs a microcontroller toolchain or an emulator (counted as skipped)
    #[arg(long)]
    host_only: bool,
    /// Also write the counts of every suite to this file
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
    /// Run these suites only
    #[arg(
        long,
        value_name = "SUITE,...",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(suite::ALL.iter().map(|suite| suite.name)),
    )]
    only: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct SetupArgs {
    /// Install nothing: say what is missing and what to type, and exit 1 if anything is
    #[arg(long)]
    check: bool,
}

#[derive(Debug, clap::Args)]
struct FiguresArgs {
    /// Also write every figure to this file
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct BenchArgs {
    /// Also write every figure to this file
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match perform(cli.task) {
        Ok(code) => code,
        Err(failure) => {
            process::note(&format!("error: {}", failure.message));
            ExitCode::from(failure.code)
        }
    }
}

fn perform(task: Task) -> Result<ExitCode, Failure> {
    let workspace = Workspace::load()?;
    match task {
        Task::Demo(args) => {
            let (model, trace) = (args.model.as_deref(), args.trace.as_deref());
            demo::run(&workspace, &args.target, model, trace, args.json)
        }
        Task::Test(args) => {
            suite::run(&workspace, args.host_only, &args.only, args.json.as_deref())
        }
        Task::Setup(args) => setup::run(&workspace, args.check),
        Task::Mutants(args) => mutants::run(&workspace, &args),
        Task::Bench(args) => bench::run(&workspace, args.json.as_deref()),
        Task::Timeline(args) => timeline::run(&args),
        Task::Figures(args) => figures::run(&workspace, args.json.as_deref()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn only_takes_a_list_and_refuses_what_is_no_suite() {
        let cli = Cli::try_parse_from(["xtask", "test", "--only", "doc,conformance/host"]);
        let Ok(Cli {
            task: Task::Test(args),
        }) = cli
        else {
            panic!("{cli:?}")
        };
        assert_eq!(args.only, ["doc", "conformance/host"]);

        let refused = Cli::try_parse_from(["xtask", "test", "--only", "docs"]).unwrap_err();
        assert_eq!(refused.exit_code(), 2);
        assert!(
            refused.to_string().contains("conformance/host"),
            "lists the suites: {refused}"
        );
    }
}
