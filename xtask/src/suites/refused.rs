//! The part of suite `compile-fail` that needs a microcontroller's target: programs which are refused there and only
//! there, each with the lines of the message on file.

use std::fs;
use std::path::Path;

use crate::emulator::LM3S6965EVB;
use crate::process::Finished;
use crate::report::Tally;
use crate::suite::Context;
use crate::suites::run as run_command;

/// The package whose programs are the cases, and the feature without which nobody builds them.
const PACKAGE: &str = "refused-firmware";
const FEATURE: &str = "refused";

/// A core with compare-and-swap, so that it is not the lack of that which refuses.
const TARGET: &str = LM3S6965EVB.triple;

pub(crate) fn run(context: &Context<'_>) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let package = context.workspace.package(PACKAGE)?;
    if package.bins.is_empty() {
        return Err(format!("{PACKAGE} has no programs"));
    }
    if context.host_only {
        tally.skip(package.bins.len() as u64, "--host-only");
        return Ok(tally);
    }
    let toolchain = context.setup.toolchain(TARGET)?;
    for (name, _) in &package.bins {
        let expected = on_file(&package.folder.join("src").join(format!("{name}.stderr")))?;
        let mut command = toolchain.cargo(context.workspace, "check");
        command.args(["-p", PACKAGE, "--bin", name, "--features", FEATURE]);
        let finished = run_command(&mut command)?;
        // Another compiler than the pinned one says the same in other words.
        let lines = if toolchain.is_pinned() {
            &expected[..]
        } else {
            &expected[..1]
        };
        match judge(lines, &finished) {
            Ok(()) => tally.pass(1),
            Err(reason) => tally.fail(1, format!("{name} on {TARGET}: {reason}")),
        }
    }
    Ok(tally)
}

/// The lines of the message; the first is the error itself.
fn on_file(path: &Path) -> Result<Vec<String>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    match lines.first() {
        Some(first) if first.starts_with("error[") => Ok(lines),
        _ => Err(format!("{}: no error in it", path.display())),
    }
}

/// Whether the compiler refused, for this one reason, with these lines in this order.
fn judge(expected: &[String], finished: &Finished) -> Result<(), String> {
    if finished.succeeded() {
        return Err("it compiles".to_owned());
    }
    let errors = finished
        .lines
        .iter()
        .filter(|line| line.starts_with("error["));
    let errors = errors.count();
    if errors != 1 {
        return Err(format!("{errors} errors: {}", finished.complaint()));
    }
    let mut said = finished.lines.iter();
    match expected
        .iter()
        .find(|&line| !said.by_ref().any(|other| other == line))
    {
        None => Ok(()),
        Some(missing) => Err(format!(
            "the message does not say `{missing}`: {}",
            finished.complaint()
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;
    use crate::process;

    fn said(script: &str) -> Finished {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        process::run(&mut command, Duration::from_secs(60), |_, _| {}).unwrap()
    }

    fn judged(script: &str) -> Result<(), String> {
        let expected = ["error[E0432]: no `Spin`", " = note: gated"].map(str::to_owned);
        judge(&expected, &said(script))
    }

    #[test]
    fn the_error_on_file_and_no_other_refuses() {
        let right = "echo 'error[E0432]: no `Spin`'; echo; echo ' = note: gated'";
        assert_eq!(judged(&format!("{right}; exit 101")), Ok(()));
        assert_eq!(judged(right), Err("it compiles".to_owned()));
        assert_eq!(
            judged(&format!("{right}; echo 'error[E0277]: more'; exit 101")),
            Err("2 errors: error[E0432]: no `Spin`".to_owned())
        );
        assert_eq!(
            judged("echo 'error: no target'; exit 101"),
            Err("0 errors: error: no target".to_owned())
        );
        assert_eq!(
            judged("echo ' = note: gated'; echo 'error[E0432]: no `Spin`'; exit 101"),
            Err("the message does not say ` = note: gated`: error[E0432]: no `Spin`".to_owned())
        );
    }
}
