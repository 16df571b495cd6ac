//! Children and terminals: runs a program with its output shown live *and* kept for counting, ends
//! it when its time is up, and prints without ever panicking on a closed pipe.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::Failure;

/// Where a line of a child came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Err,
}

/// How the line begins in which rustc, cargo or rustfmt says what is wrong.
const COMPLAINTS: [&str; 3] = ["error: ", "error[", "Diff in "];

/// A child that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    /// `None`: it was ended because its time was up.
    status: Option<ExitStatus>,
    limit: Duration,
    /// Everything it printed on either stream, in order of arrival, without colours.
    pub(crate) lines: Vec<String>,
}

impl Finished {
    pub(crate) fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// The exit code, where it ended by itself and not by a signal.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.and_then(|status| status.code())
    }

    /// Why it did not succeed, in a few words: its first line that says so, or how it ended.
    pub(crate) fn complaint(&self) -> String {
        let Some(status) = self.status else {
            return format!("ended by the watchdog after {} s", self.limit.as_secs());
        };
        let is_error = |line: &&String| COMPLAINTS.iter().any(|start| line.starts_with(start));
        match self.lines.iter().find(is_error) {
            Some(line) => line.clone(),
            None => status.to_string(),
        }
    }
}

/// Runs `command` to its end, or for `limit` at most, handing each line to `show` as it comes.
///
/// The child gets no standard input. Only the child itself is ended when its time is up, not what
/// it started.
pub(crate) fn run(
    command: &mut Command,
    limit: Duration,
    mut show: impl FnMut(Stream, &str),
) -> Result<Finished, Failure> {
    let program = command.get_program().to_owned();
    let lost = |error: io::Error| Failure::failed(format!("{}: {error}", display(&program)));

    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(lost)?;
    let (sender, receiver) = mpsc::channel();
    if let Some(pipe) = child.stdout.take() {
        forward(Stream::Out, pipe, sender.clone());
    }
    if let Some(pipe) = child.stderr.take() {
        forward(Stream::Err, pipe, sender.clone());
    }
    drop(sender);

    let deadline = Instant::now() + limit;
    let mut lines = Vec::new();
    let status = loop {
        match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((stream, line)) => {
                show(stream, &line);
                lines.push(strip_colours(&line));
            }
            Err(RecvTimeoutError::Disconnected) => break Some(child.wait().map_err(lost)?),
            Err(RecvTimeoutError::Timeout) => {
                child.kill().map_err(lost)?;
                child.wait().map_err(lost)?;
                break None;
            }
        }
    };
    Ok(Finished {
        status,
        limit,
        lines,
    })
}

/// Sends the lines of one pipe until it closes or nobody listens.
fn forward(stream: Stream, pipe: impl Read + Send + 'static, sender: Sender<(Stream, String)>) {
    thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        let mut bytes = Vec::new();
        while reader
            .read_until(b'\n', &mut bytes)
            .is_ok_and(|read| read > 0)
        {
            let line = String::from_utf8_lossy(&bytes);
            if sender
                .send((stream, line.trim_end_matches(['\n', '\r']).to_owned()))
                .is_err()
            {
                return;
            }
            bytes.clear();
        }
    });
}

/// Shows a child's line on the stream of ours that it came from.
pub(crate) fn echo(stream: Stream, line: &str) {
    match stream {
        Stream::Out => say(line),
        Stream::Err => note(line),
    }
}

/// Shows a child's line on our stderr, for tasks whose stdout is for machines.
pub(crate) fn echo_aside(_: Stream, line: &str) {
    note(line);
}

/// Prints a line to stdout. A reader that has gone away is not our failure.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stdout().lock(), "{line}");
}

/// Prints a line to stderr.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// What a program prints on stdout when run quietly, or `None` if it cannot be run or fails.
pub(crate) fn ask(command: &mut Command) -> Option<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A program's name as a person would type it.
pub(crate) fn display(program: &OsStr) -> String {
    let path = std::path::Path::new(program);
    path.file_name()
        .unwrap_or(program)
        .to_string_lossy()
        .into_owned()
}

/// Removes the escape sequences with which programs colour their output (`ESC [ … letter`).
fn strip_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        rest = after.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
        rest = rest.get(1..).unwrap_or("");
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn lines_are_shown_as_they_come_and_kept() {
        let mut shown = Vec::new();
        let script = "echo one; echo two >&2; printf 'three'; exit 7";
        let finished = run(&mut shell(script), SOON, |stream, line| {
            shown.push((stream, line.to_owned()));
        })
        .unwrap();
        assert_eq!(finished.code(), Some(7));
        assert!(!finished.succeeded());
        let of = |wanted| {
            let lines = shown.iter().filter(|(stream, _)| *stream == wanted);
            lines.map(|(_, line)| line.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(of(Stream::Out), ["one", "three"]);
        assert_eq!(of(Stream::Err), ["two"]);
        assert_eq!(finished.lines.len(), 3);
    }

    #[test]
    fn a_child_past_its_time_is_ended() {
        // `exec` so that the watchdog meets the sleeper itself.
        let mut command = shell("echo started; exec sleep 600");
        let finished = run(&mut command, Duration::from_millis(300), |_, _| {}).unwrap();
        assert_eq!(finished.code(), None);
        assert!(!finished.succeeded());
        assert_eq!(finished.complaint(), "ended by the watchdog after 0 s");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let failure = run(&mut Command::new("/no/such/emulator"), SOON, |_, _| {}).unwrap_err();
        assert!(
            failure.message.starts_with("emulator: "),
            "{}",
            failure.message
        );
        assert_eq!(failure.code, 1);
    }

    #[test]
    fn the_complaint_is_the_first_error_line() {
        let script = "echo 'warning: x'; echo 'error[E0432]: unresolved import'; echo 'error: could not compile'; exit 101";
        let finished = run(&mut shell(script), SOON, |_, _| {}).unwrap();
        assert_eq!(finished.complaint(), "error[E0432]: unresolved import");
        let finished = run(&mut shell("exit 3"), SOON, |_, _| {}).unwrap();
        assert_eq!(finished.complaint(), "exit status: 3");
    }

    #[test]
    fn colours_are_stripped() {
        assert_eq!(
            strip_colours("\u{1b}[1m\u{1b}[31merror\u{1b}[0m: x"),
            "error: x"
        );
        assert_eq!(strip_colours("plain [1m] text"), "plain [1m] text");
        assert_eq!(strip_colours("cut \u{1b}[3"), "cut ");
    }
}
