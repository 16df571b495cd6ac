//! `digits --trace PATH`: the program itself, and the file that it writes.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn digits(trace: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_digits"));
    command.arg("--json").arg("--trace").arg(trace);
    command.output().expect("the program starts")
}

/// The value of `key`, a number.
fn number(event: &Value, key: &str) -> u64 {
    event[key].as_u64().expect("a number")
}

#[test]
fn the_trace_of_a_run_balances_and_shows_every_launch() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a \"trace\".json");
    let ran = digits(&path);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    let line: Value = serde_json::from_slice(&ran.stdout).expect("a line of JSON");
    let images = number(&line, "images");

    let text = std::fs::read_to_string(&path).expect("the trace");
    let events: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    let mut rows = BTreeMap::<_, Vec<&str>>::new();
    let mut calls = BTreeMap::<&str, u64>::new();
    let (mut runs, mut launched, mut moved) = (0, 0, [0, 0]);
    for event in &events {
        let row = (number(event, "pid"), number(event, "tid"));
        let name = event["name"].as_str().expect("a name");
        match event["ph"].as_str().expect("a phase") {
            "B" => {
                rows.entry(row).or_default().push(name);
                *calls.entry(name).or_default() += 1;
                match name {
                    "copy in" => moved[0] += number(&event["args"], "bytes"),
                    "copy out" => moved[1] += number(&event["args"], "bytes"),
                    _ => {}
                }
            }
            "E" => assert_eq!(rows.entry(row).or_default().pop(), Some(name)),
            "X" => runs += 1,
            "i" if name.starts_with("launched") => launched += 1,
            _ => {}
        }
    }
    assert!(rows.values().all(Vec::is_empty), "a begin without an end");
    assert!(rows.len() == 1, "the device only runs kernels");
    // Two layers for each image.
    assert_eq!((images, runs, launched), (360, 720, 720));
    // Four pieces of weights and fifteen batches; the scores of each image.
    assert_eq!((calls["write"], calls["read"]), (4 + 15, 360));
    let counted = ["bytes_to_device", "bytes_from_device"].map(|key| number(&line, key));
    assert_eq!(moved, counted);
    // What was allocated went.
    let curve: Vec<_> = events.iter().filter(|event| event["ph"] == "C").collect();
    let peak = curve.iter().map(|event| number(&event["args"], "device"));
    // 9,640 bytes of weights; 24 images, of 64 pixels, 32 hidden values and 10 scores.
    assert_eq!(peak.max(), Some(9_640 + 24 * (64 + 4 * 32 + 4 * 10)));
    let last = curve.last().expect("a curve");
    assert_eq!(number(&last["args"], "device"), 0);
}

#[test]
fn a_path_that_cannot_be_written_is_named_before_anything_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    for path in [folder.path().join("no/such/out.json"), folder.path().into()] {
        let ran = digits(&path);
        assert_eq!(ran.status.code(), Some(2));
        assert_eq!(ran.stdout, b"");
        let said = String::from_utf8_lossy(&ran.stderr);
        let expected = format!("digits: --trace: cannot write {}: ", path.display());
        assert!(said.starts_with(&expected), "{said}");
        assert_eq!(said.lines().count(), 1);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_disk_that_is_full_is_an_error_of_the_run() {
    let ran = digits(Path::new("/dev/full"));
    assert_eq!(ran.status.code(), Some(1));
    let said = String::from_utf8_lossy(&ran.stderr);
    let expected = "digits: --trace: cannot write /dev/full: No space left on device";
    assert!(
        said.lines().any(|line| line.starts_with(expected)),
        "{said}"
    );
}
