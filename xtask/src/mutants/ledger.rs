//! What is known of each mutant, over all runs.
//!
//! The tool keeps only its last run, and of the ones before only which mutants need no test again. So
//! its lists are copied here after a run, and before one too: a run that was killed left them behind.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// What became of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// A test failed.
    Caught,
    /// A test did not end in time, which nobody would overlook.
    TimedOut,
    /// Nothing noticed.
    Missed,
    /// It does not compile.
    Unviable,
}

impl Verdict {
    /// Each with the list of the tool that names such mutants, and its name in the ledger.
    const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::Caught, "caught.txt", "caught"),
        (Self::TimedOut, "timeout.txt", "timed out"),
        (Self::Missed, "missed.txt", "missed"),
        (Self::Unviable, "unviable.txt", "unviable"),
    ];
}

/// The verdicts on the mutants of one crate.
#[derive(Debug)]
pub(crate) struct Ledger {
    folder: PathBuf,
    verdicts: BTreeMap<String, Verdict>,
}

impl Ledger {
    /// Opens the ledger in `folder`, with what a run that was ended left there.
    pub(crate) fn open(folder: &Path, fresh: bool) -> Result<Self, String> {
        let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
        if fresh && folder.is_dir() {
            fs::remove_dir_all(folder).map_err(wrong)?;
        }
        fs::create_dir_all(folder).map_err(wrong)?;
        let mut ledger = Self {
            verdicts: fs::read_to_string(folder.join("ledger.json"))
                .map(|text| read(&text))
                .unwrap_or_default(),
            folder: folder.to_owned(),
        };
        ledger.absorb()?;
        Ok(ledger)
    }

    /// Takes over what the last run of the tool found.
    pub(crate) fn absorb(&mut self) -> Result<(), String> {
        for (verdict, list, _) in Verdict::ALL {
            let path = self.folder.join("mutants.out").join(list);
            for name in fs::read_to_string(path).unwrap_or_default().lines() {
                self.verdicts.insert(name.to_owned(), verdict);
            }
        }
        let path = self.folder.join("ledger.json");
        fs::write(&path, self.write()).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Tells the tool that those of its last run that did not end in time are caught. It would test them again otherwise,
    /// and the tests of another round may well end, and see nothing.
    pub(crate) fn keep_timeouts(&self) -> Result<(), String> {
        let run = self.folder.join("mutants.out");
        let names = |list| fs::read_to_string(run.join(list)).unwrap_or_default();
        let all = names("caught.txt") + &names("timeout.txt");
        let path = run.join("caught.txt");
        fs::write(&path, all).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Whether there is an earlier run to go on from.
    pub(crate) fn resumes(&self) -> bool {
        !self.verdicts.is_empty()
    }

    fn write(&self) -> String {
        let entry = |(name, verdict): (&String, &Verdict)| {
            let mut words = Verdict::ALL.iter();
            let word = words.find(|(known, _, _)| known == verdict);
            (
                name.clone(),
                Value::from(word.map_or("", |(_, _, word)| *word)),
            )
        };
        let entries: serde_json::Map<String, Value> = self.verdicts.iter().map(entry).collect();
        Value::Object(entries).to_string()
    }

    /// The verdicts on the mutants in `known`, which are those of the code as it is now.
    pub(crate) fn verdicts(&self, known: &[String]) -> Verdicts {
        let mut sum = Verdicts::default();
        for name in known {
            match self.verdicts.get(name) {
                Some(Verdict::Caught) => sum.caught += 1,
                Some(Verdict::TimedOut) => {
                    sum.caught += 1;
                    sum.timed_out += 1;
                }
                Some(Verdict::Missed) => sum.missed.push(name.clone()),
                Some(Verdict::Unviable) => sum.unviable += 1,
                None => sum.untested += 1,
            }
        }
        sum
    }
}

/// What a ledger on file says. Whatever it does not understand is to be tested again.
fn read(text: &str) -> BTreeMap<String, Verdict> {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    let entries = value.as_object().into_iter().flatten();
    entries
        .filter_map(|(name, word)| {
            let mut words = Verdict::ALL.iter();
            let (verdict, _, _) = words.find(|(_, _, known)| word == known)?;
            Some((name.clone(), *verdict))
        })
        .collect()
}

/// What came of a crate's mutants.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdicts {
    /// A test failed, or did not end.
    pub(crate) caught: usize,
    /// Those of the caught ones whose tests did not end.
    pub(crate) timed_out: usize,
    /// No test noticed them.
    pub(crate) missed: Vec<String>,
    /// They do not compile, and so are nothing to catch.
    pub(crate) unviable: usize,
    /// Not judged yet.
    pub(crate) untested: usize,
}

impl Verdicts {
    fn viable(&self) -> usize {
        self.caught + self.missed.len()
    }

    /// One line for a person.
    pub(crate) fn summary(&self, name: &str) -> String {
        let viable = self.viable();
        let mut line = format!("mutants: {name}: {} of {viable} caught", self.caught);
        // In tenths of a percent, rounded down: nothing is called better than it is.
        if let Some(tenths) = (self.caught * 1000).checked_div(viable) {
            line.push_str(&format!(" ({}.{} %)", tenths / 10, tenths % 10));
        }
        for (count, what) in [
            (self.timed_out, "of them by time"),
            (self.unviable, "do not compile"),
            (self.untested, "not tested yet"),
        ] {
            if count > 0 {
                line.push_str(&format!(", {count} {what}"));
            }
        }
        line
    }

    /// One object of JSON, its keys in the order people read them in.
    pub(crate) fn json(&self, name: &str) -> String {
        format!(
            r#"{{"crate":{},"viable":{},"caught":{},"missed":{},"timed_out":{},"unviable":{},"untested":{}}}"#,
            Value::from(name),
            self.viable(),
            self.caught,
            Value::from(self.missed.clone()),
            self.timed_out,
            self.unviable,
            self.untested,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("wharf-ledger-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    fn run_left(folder: &Path, list: &str, names: &str) {
        let run = folder.join("mutants.out");
        fs::create_dir_all(&run).unwrap();
        fs::write(run.join(list), names).unwrap();
    }

    fn known(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn verdicts_of_several_runs_add_up_and_the_last_one_holds() {
        let folder = folder("add_up");
        let mut ledger = Ledger::open(&folder, false).unwrap();
        assert!(!ledger.resumes());
        run_left(&folder, "caught.txt", "a\nb\n");
        run_left(&folder, "missed.txt", "c\nd\n");
        run_left(&folder, "unviable.txt", "e\n");
        ledger.absorb().unwrap();
        // The next run tests the missed ones again, with better tests, and leaves its own lists.
        fs::remove_dir_all(folder.join("mutants.out")).unwrap();
        run_left(&folder, "caught.txt", "c\n");
        run_left(&folder, "timeout.txt", "f\n");

        let ledger = Ledger::open(&folder, false).unwrap();
        assert!(ledger.resumes());
        let verdicts = ledger.verdicts(&known(&["a", "b", "c", "d", "e", "f", "g"]));
        let expected = Verdicts {
            caught: 4,
            timed_out: 1,
            missed: known(&["d"]),
            unviable: 1,
            untested: 1,
        };
        assert_eq!(verdicts, expected);
        assert_eq!(verdicts.viable(), 5);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_did_not_end_is_not_tested_again_and_counts_as_before() {
        let folder = folder("timeouts");
        run_left(&folder, "caught.txt", "a\n");
        run_left(&folder, "timeout.txt", "b\n");
        run_left(&folder, "missed.txt", "c\n");
        let mut ledger = Ledger::open(&folder, false).unwrap();
        ledger.keep_timeouts().unwrap();
        let caught = fs::read_to_string(folder.join("mutants.out/caught.txt")).unwrap();
        assert_eq!(caught, "a\nb\n", "what the tool goes by");
        ledger.absorb().unwrap();
        let verdicts = ledger.verdicts(&known(&["a", "b", "c"]));
        assert_eq!((verdicts.caught, verdicts.timed_out), (2, 1));
        assert_eq!(verdicts.missed, ["c"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn mutants_of_code_that_is_gone_do_not_count() {
        let folder = folder("gone");
        run_left(&folder, "caught.txt", "old\nnew\n");
        let ledger = Ledger::open(&folder, false).unwrap();
        assert_eq!(ledger.verdicts(&known(&["new"])).caught, 1);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_fresh_ledger_knows_nothing() {
        let folder = folder("fresh");
        run_left(&folder, "caught.txt", "a\n");
        assert!(Ledger::open(&folder, false).unwrap().resumes());
        assert!(!Ledger::open(&folder, true).unwrap().resumes());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_damaged_ledger_is_tested_again() {
        assert!(read("{\"a\":").is_empty());
        let read = read("{\"a\":\"caught\",\"b\":\"perhaps\"}");
        assert_eq!(
            read.into_iter().collect::<Vec<_>>(),
            [("a".to_owned(), Verdict::Caught)]
        );
    }

    #[test]
    fn a_summary_rounds_down() {
        let verdicts = Verdicts {
            caught: 1999,
            missed: known(&["a"]),
            untested: 7,
            ..Verdicts::default()
        };
        assert_eq!(
            verdicts.summary("wharf-sync"),
            "mutants: wharf-sync: 1999 of 2000 caught (99.9 %), 7 not tested yet"
        );
        assert_eq!(
            Verdicts::default().summary("x"),
            "mutants: x: 0 of 0 caught"
        );
    }
}
