//! Suites `conformance/host` and `conformance/<target>`: the behaviours that every policy, source,
//! backend and engine must have, over all of them that exist there. They are the same checks
//! everywhere, and so what runs in two places must come to the same counts in both.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::count::Conformance;
use crate::emulator::{Board, LM3S6965EVB, MICROBIT, MPS2_AN505, RISCV_VIRT};
use crate::process;
use crate::report::Tally;
use crate::setup::Need;
use crate::suite::Context;
use crate::suites::{count_conformance, run as run_command};
use crate::workspace::Workspace;

/// Where the suite is run on what exists on a host: package and test.
pub(crate) const TESTS: [(&str, &str); 5] = [
    ("wharf-conformance", "host"),
    ("wharf-conformance", "sharded"),
    ("wharf-conformance", "tensors"),
    ("wharf-conformance", "wrappers"),
    ("wharf-softdma", "conformance"),
];

/// The package of the suite's firmware. Each of its programs is an image.
pub(crate) const FIRMWARE: &str = "conformance-firmware";

/// What the host is called among the places.
const HOST: &str = "the host";

pub(crate) fn host(context: &Context<'_>) -> Result<Tally, String> {
    let mut command = context.workspace.cargo("test");
    let mut packages = Vec::new();
    for (name, test) in TESTS {
        command.args(["-p", name, "--test", test]);
        packages.push(context.workspace.package(name)?);
    }
    command.args([
        "--features",
        &Workspace::host_features(packages),
        "--",
        "--nocapture",
    ]);
    let (tally, subjects) = count_conformance(&run_command(&mut command)?);
    context.counts.record(HOST, &subjects);
    Ok(tally)
}

pub(crate) fn thumbv6m(context: &Context<'_>) -> Result<Tally, String> {
    in_firmware(context, &MICROBIT)
}

pub(crate) fn thumbv7m(context: &Context<'_>) -> Result<Tally, String> {
    in_firmware(context, &LM3S6965EVB)
}

pub(crate) fn thumbv8m(context: &Context<'_>) -> Result<Tally, String> {
    in_firmware(context, &MPS2_AN505)
}

pub(crate) fn riscv32imac(context: &Context<'_>) -> Result<Tally, String> {
    in_firmware(context, &RISCV_VIRT)
}

/// Builds every image for a board, runs them, and compares what they counted with the other places.
fn in_firmware(context: &Context<'_>, board: &Board) -> Result<Tally, String> {
    let mut tally = Tally::default();
    if context.host_only {
        tally.skip(1, "--host-only");
        return Ok(tally);
    }
    let package = context.workspace.package(FIRMWARE)?;
    context.setup.ensure(Need::emulator(board))?;
    let toolchain = context.setup.toolchain(board.triple)?;

    let mut build = toolchain.cargo(context.workspace, "build");
    build.args(["--release", "-p", FIRMWARE, "--bins"]);
    build.args(["--features", &board.features.join(",")]);
    let built = run_command(&mut build)?;
    if !built.succeeded() {
        return Err(format!("{FIRMWARE} does not build: {}", built.complaint()));
    }

    let mut subjects = Vec::new();
    for (image, needs) in &package.bins {
        if !needs
            .iter()
            .all(|need| board.features.contains(&need.as_str()))
        {
            continue;
        }
        process::say(&format!("--- {image} in {}", board.program));
        let ran = board
            .run(&toolchain.image(context.workspace, image), process::echo)
            .map_err(|failure| failure.message)?;
        let (counted, mut its) = count_conformance(&ran);
        tally.add(counted);
        subjects.append(&mut its);
    }
    for difference in context.counts.differences(board.triple, &subjects) {
        tally.fail(1, difference);
    }
    context.counts.record(board.triple, &subjects);
    Ok(tally)
}

/// What each place counted in this run.
#[derive(Debug, Default)]
pub(crate) struct Counts(RefCell<Vec<(&'static str, Subjects)>>);

/// How many checks ran on a subject, whatever came of them: a failure is counted where it happened.
type Subjects = BTreeMap<String, u64>;

/// The policy of a subject: what stands before the slash.
fn policy(subject: &str) -> &str {
    subject.split('/').next().unwrap_or(subject)
}

/// Whether anything ran in a place under the policy of `subject`.
fn shared(subject: &str, place: &Subjects) -> bool {
    place.keys().any(|other| policy(other) == policy(subject))
}

fn by_subject(list: &[Conformance]) -> Subjects {
    let mut subjects = Subjects::new();
    for Conformance {
        subject,
        passed,
        failed,
    } in list
    {
        *subjects.entry(subject.clone()).or_default() += passed + failed;
    }
    subjects
}

impl Counts {
    /// Keeps what `place` counted. Only the first time counts.
    fn record(&self, place: &'static str, list: &[Conformance]) {
        let mut places = self.0.borrow_mut();
        if !places.iter().any(|(known, _)| *known == place) {
            places.push((place, by_subject(list)));
        }
    }

    /// Where the counts of `place`, in firmware, differ from those of the places before it.
    ///
    /// A host may have what no firmware has, and the other way round. Two boards run the same subjects
    /// under each policy that both of them have.
    fn differences(&self, place: &'static str, list: &[Conformance]) -> Vec<String> {
        let here = by_subject(list);
        let mut differences = Vec::new();
        for (other, there) in self.0.borrow().iter() {
            for (subject, count) in &here {
                match there.get(subject) {
                    Some(expected) if expected != count => differences.push(format!(
                        "{subject}: {count} checks on {place}, {expected} on {other}"
                    )),
                    None if *other != HOST && shared(subject, there) => {
                        differences.push(format!("{subject}: on {place}, but not on {other}"));
                    }
                    _ => {}
                }
            }
            let lost = |subject: &&String| {
                !here.contains_key(*subject) && *other != HOST && shared(subject, &here)
            };
            differences.extend(
                there
                    .keys()
                    .filter(lost)
                    .map(|subject| format!("{subject}: on {other}, but not on {place}")),
            );
        }
        differences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects(counts: &[(&str, u64)]) -> Vec<Conformance> {
        let subject = |(subject, passed): &(&str, u64)| Conformance {
            subject: (*subject).to_owned(),
            passed: *passed,
            failed: 0,
        };
        counts.iter().map(subject).collect()
    }

    #[test]
    fn the_same_subject_comes_to_the_same_count_everywhere() {
        let counts = Counts::default();
        let host = subjects(&[
            ("Unsync/Pool", 19),
            ("Blocking/Pool", 19),
            ("Unsync/Heap", 4),
        ]);
        counts.record(HOST, &host);
        let first = subjects(&[("Unsync/Pool", 19), ("SpinMulticore/Pool", 19)]);
        let none: [&str; 0] = [];
        assert_eq!(counts.differences("thumbv6m", &first), none);
        counts.record("thumbv6m", &first);

        let short = subjects(&[("Unsync/Pool", 18), ("SpinMulticore/Pool", 19)]);
        assert_eq!(
            counts.differences("thumbv7m", &short),
            [
                "Unsync/Pool: 18 checks on thumbv7m, 19 on the host",
                "Unsync/Pool: 18 checks on thumbv7m, 19 on thumbv6m"
            ]
        );
    }

    #[test]
    fn boards_run_the_same_subjects() {
        let counts = Counts::default();
        counts.record(
            "thumbv6m",
            &subjects(&[("Unsync/Pool", 19), ("Unsync/Heap", 4)]),
        );
        // A core without compare-and-swap has no spinning policy.
        let other = subjects(&[
            ("Unsync/Pool", 19),
            ("Unsync/Source", 14),
            ("SpinMulticore/Pool", 19),
        ]);
        assert_eq!(
            counts.differences("thumbv7m", &other),
            [
                "Unsync/Source: on thumbv7m, but not on thumbv6m",
                "Unsync/Heap: on thumbv6m, but not on thumbv7m"
            ]
        );
    }

    #[test]
    fn a_subject_told_twice_is_one_subject_and_a_failed_check_is_a_check() {
        let mut list = subjects(&[("Unsync/Pool", 10), ("Unsync/Pool", 8)]);
        list[1].failed = 1;
        assert_eq!(by_subject(&list)["Unsync/Pool"], 19);
    }

    #[test]
    fn a_place_that_runs_twice_is_kept_once() {
        let counts = Counts::default();
        counts.record("thumbv7m", &subjects(&[("Unsync/Pool", 19)]));
        counts.record("thumbv7m", &[]);
        let same = subjects(&[("Unsync/Pool", 19)]);
        assert!(counts.differences("thumbv7m", &same).is_empty());
    }
}
