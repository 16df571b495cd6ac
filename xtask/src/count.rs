//! Reading counts out of what test programs print: libtest's closing lines, trybuild's cases and
//! the lines of the conformance suite.

/// What a libtest run came to, over all its binaries.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Libtest {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
    /// The names of the tests that failed, in order.
    pub(crate) failures: Vec<String>,
}

impl Libtest {
    /// Adds up every `test result:` line.
    pub(crate) fn read(lines: &[String]) -> Self {
        let mut sum = Self::default();
        for line in lines {
            if let Some(result) = line.strip_prefix("test result: ") {
                // "ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in …"
                let counts = result.split_once(". ").map_or("", |(_, counts)| counts);
                for part in counts.split("; ") {
                    match number_and_word(part) {
                        Some((n, "passed")) => sum.passed += n,
                        Some((n, "failed")) => sum.failed += n,
                        Some((n, "ignored")) => sum.ignored += n,
                        _ => {}
                    }
                }
            } else if let Some(name) = line
                .strip_prefix("test ")
                .and_then(|rest| rest.strip_suffix(" ... FAILED"))
            {
                sum.failures.push(name.to_owned());
            }
        }
        sum
    }
}

/// One case of a trybuild run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) path: String,
    pub(crate) passed: bool,
}

/// The cases that trybuild reported: `test tests/compile-fail/x.rs ... ok`, where another word than
/// `ok` stands for a case that went wrong.
pub(crate) fn trybuild_cases(lines: &[String]) -> Vec<Case> {
    let case = |line: &String| {
        let (head, outcome) = line.trim().strip_prefix("test ")?.split_once(" ... ")?;
        // A mixed suite says what it expected: `x.rs [should fail to compile]`.
        let path = head.split_once(" [").map_or(head, |(path, _)| path);
        let is_case = path.ends_with(".rs");
        is_case.then(|| Case {
            path: path.to_owned(),
            passed: outcome == "ok",
        })
    };
    lines.iter().filter_map(case).collect()
}

/// What one subject of the conformance suite came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Conformance {
    /// `<policy>/<suite>/<thing>`, of which only the policy means anything here.
    pub(crate) subject: String,
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

/// The lines `conformance: <policy>/<suite>/<thing>: N passed, M failed`.
///
/// libtest leaves its `test name ... ` open while a test prints, so that such a line may begin in
/// the middle of one.
pub(crate) fn conformance(lines: &[String]) -> Vec<Conformance> {
    let subject = |line: &String| {
        let (_, rest) = line.split_once("conformance: ")?;
        let (subject, counts) = rest.trim_end().rsplit_once(": ")?;
        let (passed, failed) = counts.split_once(", ")?;
        let (Some((passed, "passed")), Some((failed, "failed"))) =
            (number_and_word(passed), number_and_word(failed))
        else {
            return None;
        };
        Some(Conformance {
            subject: subject.to_owned(),
            passed,
            failed,
        })
    };
    lines.iter().filter_map(subject).collect()
}

/// `"3 passed"` as `(3, "passed")`.
fn number_and_word(text: &str) -> Option<(u64, &str)> {
    let (number, word) = text.split_once(' ')?;
    Some((number.parse().ok()?, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn libtest_results_are_summed_over_binaries() {
        let text = "\
running 3 tests
test pool::lifo ... ok
test pool::exhausted ... FAILED
test pool::slow ... ignored
test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

running 40 tests
test result: ok. 40 passed; 0 failed; 2 ignored; 0 measured; 7 filtered out; finished in 1.02s";
        let expected = Libtest {
            passed: 41,
            failed: 1,
            ignored: 3,
            failures: vec!["pool::exhausted".to_owned()],
        };
        assert_eq!(Libtest::read(&lines(text)), expected);
    }

    #[test]
    fn a_run_without_a_closing_line_counts_nothing() {
        let text = "running 2 tests\ntest a ... ok\nthe process died";
        assert_eq!(Libtest::read(&lines(text)), Libtest::default());
    }

    #[test]
    fn trybuild_cases_are_told_from_plain_tests() {
        let text = "\
running 1 test
test tests/compile-fail/send.rs ... ok
test tests/compile-fail/double_use.rs [should fail to compile] ... mismatch
test tests/compile-fail/new.rs ... wip
test compile_fail ... FAILED";
        let case = |path: &str, passed| Case {
            path: path.to_owned(),
            passed,
        };
        let expected = [
            case("tests/compile-fail/send.rs", true),
            case("tests/compile-fail/double_use.rs", false),
            case("tests/compile-fail/new.rs", false),
        ];
        assert_eq!(trybuild_cases(&lines(text)), expected);
    }

    #[test]
    fn conformance_lines_are_found_even_behind_libtest() {
        let text = "\
test host ... conformance: unsync/backend/pool: 12 passed, 0 failed
conformance: critical/pool: 11 passed, 1 failed
conformance: critical/pool: the header's reserve is lost
conformance: blocking/heap: many passed, 0 failed
ok";
        let expected = [
            Conformance {
                subject: "unsync/backend/pool".to_owned(),
                passed: 12,
                failed: 0,
            },
            Conformance {
                subject: "critical/pool".to_owned(),
                passed: 11,
                failed: 1,
            },
        ];
        assert_eq!(conformance(&lines(text)), expected);
    }
}
