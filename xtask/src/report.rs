//! What the suites came to: the tally of one suite, the table for people, the JSON for machines and
//! the closing line for both.

use std::fmt::Write;
use std::time::Duration;

use serde_json::Value;

/// The counts of one suite, with the reasons behind every failure and every skip.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    reasons: Vec<String>,
}

impl Tally {
    /// A suite that could not run at all, which is a failure.
    pub(crate) fn could_not_run(reason: impl Into<String>) -> Self {
        let mut tally = Self::default();
        tally.fail(1, reason);
        tally
    }

    pub(crate) fn pass(&mut self, count: u64) {
        self.passed += count;
    }

    pub(crate) fn fail(&mut self, count: u64, reason: impl Into<String>) {
        self.failed += count;
        self.reasons.push(reason.into());
    }

    pub(crate) fn skip(&mut self, count: u64, reason: impl Into<String>) {
        self.skipped += count;
        self.reasons.push(reason.into());
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.reasons.extend(other.reasons);
    }

    /// Every reason, on one line.
    fn reason(&self) -> String {
        self.reasons
            .join("; ")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// One suite of a run.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) tally: Tally,
    pub(crate) time: Duration,
}

/// How many characters of a reason the table shows; the JSON has all of it.
const REASON_WIDTH: usize = 160;

/// The table that closes a run.
pub(crate) fn table(rows: &[Row]) -> String {
    let width = rows
        .iter()
        .map(|row| row.name.len())
        .max()
        .unwrap_or(0)
        .max("suite".len());
    let mut table = format!(
        "{:width$}  {:>6}  {:>6}  {:>7}  {:>9}  reason\n",
        "suite", "passed", "failed", "skipped", "time"
    );
    for Row { name, tally, time } in rows {
        let Tally {
            passed,
            failed,
            skipped,
            ..
        } = tally;
        let time = format!("{:.1} s", time.as_secs_f64());
        let reason = cut(&tally.reason(), REASON_WIDTH);
        let line =
            format!("{name:width$}  {passed:>6}  {failed:>6}  {skipped:>7}  {time:>9}  {reason}");
        table.push_str(line.trim_end());
        table.push('\n');
    }
    table
}

/// The closing line: `wharf: N passed, N failed, N skipped`.
pub(crate) fn closing_line(rows: &[Row]) -> String {
    let sum = |count: fn(&Tally) -> u64| rows.iter().map(|row| count(&row.tally)).sum::<u64>();
    let (passed, failed, skipped) = (sum(|t| t.passed), sum(|t| t.failed), sum(|t| t.skipped));
    format!("wharf: {passed} passed, {failed} failed, {skipped} skipped")
}

/// `{"suites":[…]}`, one suite a line, its keys in the order people read them in.
pub(crate) fn json(rows: &[Row]) -> String {
    let mut json = String::from("{\"suites\":[");
    for (index, Row { name, tally, .. }) in rows.iter().enumerate() {
        let separator = if index == 0 { "\n" } else { ",\n" };
        let (name, reason) = (Value::from(*name), Value::from(tally.reason()));
        let Tally {
            passed,
            failed,
            skipped,
            ..
        } = tally;
        // Writing to a string cannot fail.
        let _ = write!(
            json,
            r#"{separator}{{"name":{name},"passed":{passed},"failed":{failed},"skipped":{skipped},"reason":{reason}}}"#
        );
    }
    json.push_str("\n]}\n");
    json
}

fn cut(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let mut host = Tally::default();
        host.pass(41);
        host.skip(2, "2 ignored");
        let mut features = Tally::default();
        features.pass(7);
        features.fail(1, "wharf-sync:\n error \"x\"");
        features.skip(4, "--host-only");
        vec![
            Row {
                name: "host",
                tally: host,
                time: Duration::from_millis(3_140),
            },
            Row {
                name: "features",
                tally: features,
                time: Duration::from_secs(100),
            },
        ]
    }

    #[test]
    fn the_table_is_aligned_and_keeps_a_reason_on_its_line() {
        let expected = "\
suite     passed  failed  skipped       time  reason
host          41       0        2      3.1 s  2 ignored
features       7       1        4    100.0 s  wharf-sync: error \"x\"; --host-only
";
        assert_eq!(table(&rows()), expected);
    }

    #[test]
    fn a_row_without_reasons_has_no_trailing_blanks() {
        let mut tally = Tally::default();
        tally.pass(1);
        let table = table(&[Row {
            name: "doc",
            tally,
            time: Duration::ZERO,
        }]);
        assert_eq!(
            table.lines().nth(1),
            Some("doc         1       0        0      0.0 s")
        );
    }

    #[test]
    fn the_closing_line_sums_the_suites() {
        assert_eq!(
            closing_line(&rows()),
            "wharf: 48 passed, 1 failed, 6 skipped"
        );
        assert_eq!(closing_line(&[]), "wharf: 0 passed, 0 failed, 0 skipped");
    }

    #[test]
    fn the_json_has_its_keys_in_order_and_escapes_reasons() {
        let expected = r#"{"suites":[
{"name":"host","passed":41,"failed":0,"skipped":2,"reason":"2 ignored"},
{"name":"features","passed":7,"failed":1,"skipped":4,"reason":"wharf-sync: error \"x\"; --host-only"}
]}
"#;
        assert_eq!(json(&rows()), expected);
        let parsed: Value = serde_json::from_str(&json(&rows())).unwrap();
        assert_eq!(parsed["suites"][1]["failed"], 1);
    }

    #[test]
    fn tallies_add_up() {
        let mut sum = Tally::could_not_run("no emulator");
        let mut other = Tally::default();
        other.pass(2);
        other.skip(3, "later");
        sum.add(other);
        assert_eq!((sum.passed, sum.failed, sum.skipped), (2, 1, 3));
        assert_eq!(sum.reason(), "no emulator; later");
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        assert_eq!(cut("äöü", 2), "äö…");
        assert_eq!(cut("äöü", 3), "äöü");
    }
}
