//! Instructions by callgrind, and the sizes of types, on the host.
//!
//! A case runs twice, a different number of times; what the runs differ by, divided by the difference of
//! the numbers, is one time. So starting, ending and preparing cancel, and the count repeats on every
//! machine of the same architecture.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::figures::table::{Row, Section};
use crate::figures::{PACKAGE, WATCHDOG, build, image};
use crate::process;
use crate::setup::{Setup, VALGRIND};
use crate::workspace::{Workspace, rustc};

/// The program that runs the cases.
const PROGRAM: &str = "count";

/// How often a case runs: a few times and many times.
const TIMES: (u64, u64) = (1_000, 11_000);

/// How a case is judged.
#[derive(Debug, Clone, Copy)]
enum Goal {
    /// The design sets none.
    No,
    /// At most so many instructions.
    AtMost(u64),
    /// At most so many more than the floor.
    Above(u64),
    /// At most so many hundredths more than the floor.
    Percent(u64),
}

impl Goal {
    fn most(self, floor: Option<u64>) -> Option<u64> {
        match self {
            Self::No => None,
            Self::AtMost(most) => Some(most),
            Self::Above(more) => floor.map(|floor| floor + more),
            Self::Percent(percent) => floor.map(|floor| floor + floor * percent / 100),
        }
    }
}

/// A case, its floor or peer, and its goal. A case that is not here is printed without either.
const JUDGED: [(&str, &str, Goal); 13] = [
    ("unique/unsync", "floor/lifo", Goal::Above(12)),
    ("unique/critical", "floor/lifo-critical", Goal::No),
    ("shared/unsync", "floor/lifo", Goal::Above(17)),
    ("shared/unsync-erased", "floor/lifo", Goal::Above(42)),
    ("shared/spin", "floor/lifo-spin", Goal::No),
    ("shared/spin-sharded", "floor/lifo-spin", Goal::No),
    ("clone+drop/unsync", "clone+drop/arc", Goal::Percent(5)),
    ("clone+drop/critical", "clone+drop/arc", Goal::Percent(5)),
    ("view-slice+drop/unsync", "floor/window", Goal::AtMost(30)),
    ("view-slice+drop/critical", "floor/window", Goal::AtMost(30)),
    ("tensor-write-64/critical", "floor/memcpy-64", Goal::No),
    (
        "tensor-write-64/critical-erased",
        "floor/memcpy-64",
        Goal::No,
    ),
    ("tensor-read-64/critical", "floor/memcpy-64", Goal::No),
];

/// Builds the program, counts every case of it, and asks it for the sizes of types.
pub(crate) fn measure(workspace: &Workspace, setup: &Setup<'_>) -> Result<Vec<Section>, String> {
    setup.ensure(VALGRIND)?;
    let mut command = workspace.cargo("build");
    command.args(["--locked", "--release", "-p", PACKAGE]);
    // An incremental build is cut into other units, and counts otherwise.
    command.env("CARGO_INCREMENTAL", "0");
    build(command.args(["--features", "count", "--bin", PROGRAM]))?;
    let program = workspace.target_dir.join("release").join(PROGRAM);
    let compiler = process::ask(rustc().arg("--version").current_dir(&workspace.root))
        .ok_or("`rustc --version` failed")?;

    let cases = process::ask(Command::new(&program).arg("list"))
        .ok_or_else(|| format!("{PROGRAM} does not list its cases"))?;
    let mut counts = Vec::new();
    for (index, case) in cases.lines().enumerate() {
        let all = cases.lines().count();
        process::note(&format!("[{} of {all}] {case}", index + 1));
        counts.push((case, count(&program, case)?));
    }
    let sizes = process::ask(Command::new(&program).arg("sizes"))
        .ok_or_else(|| format!("{PROGRAM} does not say the sizes of types"))?;
    let section = |kind, unit, rows| Section {
        kind,
        unit,
        target: workspace.host.clone(),
        compiler: compiler.clone(),
        rows,
    };
    let word = size_of::<usize>() as u64;
    Ok(vec![
        section("instructions", "instructions", rows(&counts)),
        section("types", "bytes", image::types(&read_sizes(&sizes), word)?),
    ])
}

/// The instructions of one time of a case.
fn count(program: &Path, case: &str) -> Result<u64, String> {
    let collect = |times: u64| {
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        command.arg(program).args([case, &times.to_string()]);
        let ran = process::run(&mut command, WATCHDOG, |_, _| {});
        let ran = ran.map_err(|failure| failure.message)?;
        let collected = collected(&ran.lines).filter(|_| ran.succeeded());
        collected.ok_or_else(|| format!("valgrind, {case}: {}", ran.complaint()))
    };
    let (few, many) = (collect(TIMES.0)?, collect(TIMES.1)?);
    once(few, many).ok_or_else(|| format!("{case}: {many} instructions in all, then {few}"))
}

/// What callgrind says it has collected: `==7== Collected : 292591`.
fn collected(lines: &[String]) -> Option<u64> {
    let number = |line: &String| line.split_once("Collected :")?.1.trim().parse().ok();
    lines.iter().rev().find_map(number)
}

/// One time, rounded to the nearest: a run in ten thousand more prints a digit more, or grows a table.
fn once(few: u64, many: u64) -> Option<u64> {
    let times = TIMES.1 - TIMES.0;
    Some((many.checked_sub(few)? + times / 2) / times)
}

fn rows(counts: &[(&str, u64)]) -> Vec<Row> {
    let known: BTreeMap<&str, u64> = counts.iter().copied().collect();
    let row = |&(name, value): &(&str, u64)| {
        let judged = JUDGED.iter().find(|(case, ..)| *case == name);
        let floor = judged.and_then(|(_, floor, _)| known.get(floor).copied());
        Row {
            name: name.to_owned(),
            value,
            floor,
            goal: judged.and_then(|(.., goal)| goal.most(floor)),
            note: judged.map_or(String::new(), |(_, floor, _)| format!("beside {floor}")),
        }
    };
    counts.iter().map(row).collect()
}

/// Lines of a name and a number.
fn read_sizes(text: &str) -> BTreeMap<String, u64> {
    let size = |line: &str| {
        let (name, size) = line.split_once(' ')?;
        Some((name.to_owned(), size.parse().ok()?))
    };
    text.lines().filter_map(size).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callgrind_is_read() {
        let lines: Vec<String> = [
            "==7== Callgrind, a call-graph generating cache profiler",
            "==7== Events    : Ir",
            "==7== Collected : 292591",
            "==7== I   refs:      292,591",
        ]
        .map(str::to_owned)
        .to_vec();
        assert_eq!(collected(&lines), Some(292_591));
        assert_eq!(collected(&lines[..2]), None);
    }

    #[test]
    fn one_time_is_the_difference_divided_and_rounded() {
        assert_eq!(once(292_591, 492_608), Some(20));
        assert_eq!(once(0, 289_983), Some(29));
        assert_eq!(once(0, 284_999), Some(28));
        assert_eq!(once(2, 1), None);
    }

    #[test]
    fn goals_are_over_the_floor_of_the_same_run() {
        let counts = [
            ("floor/lifo", 20),
            ("unique/unsync", 29),
            ("clone+drop/arc", 40),
            ("clone+drop/critical", 43),
            ("view-slice+drop/unsync", 31),
            ("ticket/critical", 74),
        ];
        let rows = rows(&counts);
        let judged: Vec<_> = rows.iter().map(|row| (row.floor, row.goal)).collect();
        assert_eq!(
            judged,
            [
                (None, None),
                (Some(20), Some(32)),
                (None, None),
                (Some(40), Some(42)),
                (None, Some(30)),
                (None, None),
            ]
        );
    }

    #[test]
    fn sizes_are_read_by_name() {
        let sizes = read_sizes("HEADER_UNSYNC 16\nWITH_ERASED 40\n\nnonsense");
        assert_eq!(sizes.len(), 2);
        assert_eq!(sizes["WITH_ERASED"], 40);
    }
}
