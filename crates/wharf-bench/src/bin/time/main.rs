//! Times of wharf beside its floors and peers: `time [--json PATH] [--only PART]`.
//!
//! What is compared runs in one process, by turns, in many short rounds; a figure is the median of the rounds' ratios. So
//! whatever else the machine does meets all alike, and the ratios repeat where nanoseconds do not. It is a report: a goal
//! that is not met is printed as such, and the exit code stays 0.
#![allow(
    unsafe_code,
    reason = "assumes values in bytes that nobody reads, and lends a peer its statics"
)]

mod alone;
mod contest;
mod growth;
mod pairs;
mod table;
mod tensors;
mod together;

use std::process::ExitCode;

use crate::table::Row;

/// Measures, and adds its rows.
type Part = fn(&mut Vec<Row>);

/// What there is to measure, in the order of the table.
const PARTS: [(&str, Part); 4] = [
    ("alone", alone::measure),
    ("growth", growth::measure),
    ("tensors", tensors::measure),
    ("pairs", pairs::measure),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (mut path, mut only) = (None, None);
    for pair in arguments.chunks(2) {
        match pair {
            [option, value] if option == "--json" => path = Some(value),
            [option, part] if option == "--only" && PARTS.iter().any(|(name, _)| name == part) => {
                only = Some(part);
            }
            _ => {
                eprintln!("usage: time [--json PATH] [--only alone|growth|tensors|pairs]");
                return ExitCode::from(2);
            }
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    for (name, measure) in PARTS {
        if only.is_none_or(|only| only == name) {
            measure(&mut rows);
        }
    }
    print!("{}", table::text(&rows));
    match path.map(|path| (path, std::fs::write(path, table::json(&rows)))) {
        Some((path, Err(error))) => {
            eprintln!("error: {path}: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
