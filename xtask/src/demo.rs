//! `cargo xtask demo`: the digit classifier, on the host or as firmware in an emulator.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

use crate::emulator::{Board, LM3S6965EVB};
use crate::failure::Failure;
use crate::process::{self, Stream};
use crate::setup::{Need, Setup};
use crate::workspace::Workspace;

/// The package and binary of the demonstration's firmware.
pub(crate) const FIRMWARE: &str = "digits-firmware";

/// The boards that the firmware knows.
const BOARDS: [&Board; 1] = [&LM3S6965EVB];

/// By which the firmware's build script learns of another model than the repository's.
const MODEL: &str = "WHARF_DIGITS_MODEL";

const BUILD_LIMIT: Duration = Duration::from_secs(1800);

/// Runs the demonstration on `target`.
pub(crate) fn run(
    workspace: &Workspace,
    target: &str,
    model: Option<&Path>,
    trace: Option<&Path>,
    json: bool,
) -> Result<ExitCode, Failure> {
    let board = choose(target, &workspace.host)?;
    let model = model.map(readable).transpose()?;
    match board {
        None => {
            let trace = trace.map(writable).transpose()?;
            on_host(workspace, model.as_deref(), trace.as_deref(), json)
        }
        Some(_) if trace.is_some() => Err(Failure::bad_input(format!(
            "--trace: {target} has no file system; a timeline is written on the host only"
        ))),
        Some(board) => on_board(workspace, board, model.as_deref(), json),
    }
}

/// The board that a `--target` asks for, or `None` for the host.
fn choose(target: &str, host: &str) -> Result<Option<&'static Board>, Failure> {
    if target == "host" || target == host {
        return Ok(None);
    }
    match BOARDS.into_iter().find(|board| board.triple == target) {
        Some(board) => Ok(Some(board)),
        None => {
            let boards: Vec<_> = BOARDS.iter().map(|board| board.triple).collect();
            Err(Failure::bad_input(format!(
                "--target: `{target}` is unknown; the known ones are host, {host}, {}",
                boards.join(", ")
            )))
        }
    }
}

/// The model's absolute path (what we start runs in another folder), if it can be read at all.
fn readable(model: &Path) -> Result<PathBuf, Failure> {
    let wrong =
        |error| Failure::bad_input(format!("--model: cannot read {}: {error}", model.display()));
    let file = std::fs::File::open(model).map_err(wrong)?;
    if file.metadata().map_err(wrong)?.is_dir() {
        return Err(Failure::bad_input(format!(
            "--model: {} is a folder",
            model.display()
        )));
    }
    std::path::absolute(model).map_err(wrong)
}

/// The trace's absolute path, if it can be written: asked before minutes of building. What is there stays for now.
fn writable(trace: &Path) -> Result<PathBuf, Failure> {
    let wrong = |error| {
        Failure::bad_input(format!(
            "--trace: cannot write {}: {error}",
            trace.display()
        ))
    };
    let mut options = std::fs::OpenOptions::new();
    options
        .create(true)
        .append(true)
        .open(trace)
        .map_err(wrong)?;
    std::path::absolute(trace).map_err(wrong)
}

/// Hands over to the hosted binary, terminal and exit code included.
fn on_host(
    workspace: &Workspace,
    model: Option<&Path>,
    trace: Option<&Path>,
    json: bool,
) -> Result<ExitCode, Failure> {
    let mut command = workspace.cargo("run");
    command.args([
        "--release",
        "-p",
        "digits",
        "--features",
        "cli",
        "--bin",
        "digits",
        "--",
    ]);
    if let Some(model) = model {
        command.arg("--model").arg(model);
    }
    if let Some(trace) = trace {
        command.arg("--trace").arg(trace);
    }
    if json {
        command.arg("--json");
    }
    let status = command
        .status()
        .map_err(|error| Failure::failed(format!("cargo: {error}")))?;
    match status.code() {
        Some(code) => Ok(exit_code(code)),
        None => Err(Failure::failed(format!(
            "the demonstration ended by {status}"
        ))),
    }
}

/// Builds the firmware and runs it, its output shown as it comes.
fn on_board(
    workspace: &Workspace,
    board: &Board,
    model: Option<&Path>,
    json: bool,
) -> Result<ExitCode, Failure> {
    let setup = Setup::new(workspace);
    setup
        .ensure(Need::emulator(board))
        .map_err(Failure::failed)?;
    let toolchain = setup.toolchain(board.triple).map_err(Failure::failed)?;

    process::note(&format!(
        "demo: building {FIRMWARE} for {} with {}",
        board.triple,
        toolchain.describe()
    ));
    let mut build = toolchain.cargo(workspace, "build");
    build.args(["--release", "-p", FIRMWARE, "--bin", FIRMWARE]);
    if let Some(model) = model {
        build.env(MODEL, model);
    }
    let built = process::run(&mut build, BUILD_LIMIT, process::echo_aside)?;
    if !built.succeeded() {
        return Err(match (model, refusal(&built.lines)) {
            (Some(model), Some(refusal)) => {
                Failure::bad_input(format!("--model: {}: {refusal}", model.display()))
            }
            _ => Failure::failed(format!("{FIRMWARE} does not build: {}", built.complaint())),
        });
    }

    process::note(&format!("demo: running it in {}", board.program));
    let mut result = None;
    let ran = board.run(&toolchain.image(workspace, FIRMWARE), |stream, line| {
        if is_result(line) {
            result = Some(line.to_owned());
        } else if json || stream == Stream::Err {
            process::note(line);
        } else {
            process::say(line);
        }
    })?;
    match ran.code() {
        Some(0) => {}
        Some(code) => {
            process::note(&format!(
                "error: the firmware reported a failure (exit code {code})"
            ));
            return Ok(exit_code(code));
        }
        None => {
            return Err(Failure::failed(format!(
                "the firmware: {}",
                ran.complaint()
            )));
        }
    }
    let result = result.ok_or_else(|| {
        Failure::failed("the firmware ended without the line of JSON that closes it")
    })?;
    if json {
        process::say(&result);
    }
    Ok(ExitCode::SUCCESS)
}

/// What the firmware's build script said when it refused its input, if that is why a build failed.
fn refusal(lines: &[String]) -> Option<String> {
    let announced = format!("failed to run custom build command for `{FIRMWARE}");
    let mut lines = lines.iter().map(|line| line.trim()).skip_while(|line| {
        let ours = line.contains(&announced);
        !ours
    });
    lines.next()?;
    let said = lines
        .skip_while(|line| *line != "--- stderr")
        .skip(1)
        .find(|line| !line.is_empty());
    Some(said.unwrap_or("the build script refused it").to_owned())
}

/// Whether a line is the demonstration's result: an object of JSON that says so.
fn is_result(line: &str) -> bool {
    serde_json::from_str::<Value>(line).is_ok_and(|value| value["demo"].is_string())
}

fn exit_code(code: i32) -> ExitCode {
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "x86_64-unknown-linux-gnu";

    #[test]
    fn the_host_goes_by_two_names() {
        assert!(choose("host", HOST).unwrap().is_none());
        assert!(choose(HOST, HOST).unwrap().is_none());
        let board = choose("thumbv7m-none-eabi", HOST).unwrap().unwrap();
        assert_eq!(board.program, "qemu-system-arm");
    }

    #[test]
    fn an_unknown_target_lists_the_known_ones() {
        let failure = choose("thumbv9m-none-eabi", HOST).unwrap_err();
        assert_eq!(
            failure,
            Failure::bad_input(
                "--target: `thumbv9m-none-eabi` is unknown; the known ones are host, \
                 x86_64-unknown-linux-gnu, thumbv7m-none-eabi"
            )
        );
        assert_eq!(failure.code, 2);
    }

    #[test]
    fn a_model_that_cannot_be_read_is_bad_input() {
        let failure = readable(Path::new("/no/such/model.safetensors")).unwrap_err();
        assert_eq!(failure.code, 2);
        assert!(
            failure
                .message
                .starts_with("--model: cannot read /no/such/model.safetensors: ")
        );
        let failure = readable(Path::new("/")).unwrap_err();
        assert_eq!(failure, Failure::bad_input("--model: / is a folder"));
    }

    #[test]
    fn a_trace_that_cannot_be_written_is_bad_input() {
        for path in ["/no/such/out.json", "/"] {
            let failure = writable(Path::new(path)).unwrap_err();
            assert_eq!(failure.code, 2);
            let expected = format!("--trace: cannot write {path}: ");
            assert!(failure.message.starts_with(&expected), "{failure:?}");
        }
    }

    #[test]
    fn a_result_is_told_from_other_lines() {
        assert!(is_result(r#"{"demo":"digits","correct":353}"#));
        assert!(!is_result(r#"{"correct":353}"#));
        assert!(!is_result("demo: 353 of 360"));
        assert!(!is_result(r#"{"demo":"digits","#));
    }

    #[test]
    fn a_refusing_build_script_is_quoted() {
        let text = "\
   Compiling digits-firmware v0.1.0 (examples/digits-firmware)
error: failed to run custom build command for `digits-firmware v0.1.0 (/x/examples)`

Caused by:
  process didn't exit successfully: `build-script-build` (exit status: 2)
  --- stdout
  cargo:rerun-if-env-changed=WHARF_DIGITS_MODEL

  --- stderr
  w1: offset 80 lies past the end";
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        assert_eq!(
            refusal(&lines).as_deref(),
            Some("w1: offset 80 lies past the end")
        );
        assert_eq!(refusal(&lines[..1]), None);
        let other =
            ["error: failed to run custom build command for `cortex-m-rt v0.7.7`".to_owned()];
        assert_eq!(refusal(&other), None);
    }
}
