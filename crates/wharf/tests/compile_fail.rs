//! Programs that misuse the library, each of which the compiler must refuse with the message on file; and, beside each
//! group, the program that does the same thing the right way.
//!
//! A message changes with the signatures that it quotes: `TRYBUILD=overwrite cargo test -p wharf --features
//! std,critical-section,spin --test compile_fail` writes it anew. Read the difference as a user would.
//!
//! `docs/refusals.md` is for the users who meet such a message, so it is held to the files.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

const CASES: &str = "tests/compile-fail";
/// Those that only a microcontroller's target refuses; `cargo xtask test --only compile-fail` tries them.
const BARE_METAL: &str = "../../examples/refused-firmware/src";

#[test]
fn the_compiler_refuses_misuse_and_takes_the_remedy() {
    let tests = trybuild::TestCases::new();
    tests.compile_fail(format!("{CASES}/*.rs"));
    tests.pass("tests/compile-pass/*.rs");
}

#[test]
fn every_case_says_which_pitfall_it_is_and_what_to_do_instead() -> io::Result<()> {
    for (name, text) in files("rs")? {
        let opening: Vec<_> = text
            .lines()
            .map_while(|line| line.strip_prefix("//! "))
            .collect();
        assert!(
            opening
                .first()
                .is_some_and(|line| line.starts_with("Pitfall: ")),
            "{name} does not open with `//! Pitfall: `"
        );
        assert!(
            opening.iter().any(|line| line.starts_with("Instead: ")),
            "{name} does not say `//! Instead: `"
        );
    }
    Ok(())
}

#[test]
fn every_refusal_is_in_the_docs_with_the_compilers_words() -> io::Result<()> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/refusals.md");
    let docs = fs::read_to_string(docs)?;
    // Sections are named like the cases: `### \`segment_cloned\``.
    let sections: BTreeMap<_, _> = docs
        .split("\n### `")
        .skip(1)
        .filter_map(|section| section.split_once("`\n"))
        .collect();

    let cases = files("stderr")?;
    for (name, message) in &cases {
        let section = sections.get(name.as_str());
        let section = section.unwrap_or_else(|| panic!("docs/refusals.md has no section `{name}`"));
        let first = message.lines().next().unwrap_or_default();
        assert!(
            section.lines().any(|line| line == first),
            "docs/refusals.md, `{name}`, does not quote: {first}"
        );
    }
    for name in sections.keys() {
        assert!(
            cases.contains_key(*name),
            "docs/refusals.md: there is no case `{name}`"
        );
    }
    assert_eq!(
        files("rs")?.len(),
        cases.len(),
        "a case has no message on file"
    );
    Ok(())
}

#[test]
fn every_pitfall_of_the_table_has_a_case() -> io::Result<()> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/refusals.md");
    let docs = fs::read_to_string(docs)?;
    let cases = files("rs")?;
    let table = docs.split("## The pitfalls, and their cases").nth(1);
    let table = table.and_then(|rest| rest.split("\n## ").next());
    let rows = table.unwrap_or_default().lines();
    let rows: Vec<_> = rows.filter(|line| line.starts_with("| ")).skip(1).collect();
    assert_eq!(
        rows.len(),
        16,
        "a pitfall is missing, or there is a new one"
    );
    for row in rows {
        let named: Vec<_> = row
            .split("](#")
            .skip(1)
            .filter_map(|rest| rest.split_once(')'))
            .collect();
        assert!(!named.is_empty(), "no case: {row}");
        for (name, _) in named {
            assert!(cases.contains_key(name), "there is no case `{name}`: {row}");
            assert!(
                row.contains(&format!("[`{name}`](#{name})")),
                "`{name}`: {row}"
            );
        }
    }
    Ok(())
}

#[test]
fn every_message_has_one_reason_and_is_the_same_on_every_machine() -> io::Result<()> {
    for (name, message) in files("stderr")? {
        let first = message.lines().next().unwrap_or_default();
        assert!(first.starts_with("error["), "{name}: {first}");
        let errors = message.lines().filter(|line| line.starts_with("error"));
        assert_eq!(errors.count(), 1, "{name} fails for more than one reason");
        // The compiler quotes the standard library only where its source happens to be installed.
        assert!(
            !message.contains("$RUST"),
            "{name} points into the standard library"
        );
    }
    Ok(())
}

/// The cases' files with this ending: name without ending, and text.
fn files(ending: &str) -> io::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    let folder = |folder| fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
    for entry in folder(CASES)?.chain(folder(BARE_METAL)?) {
        let path = entry?.path();
        if let Some(name) = path.file_stem().and_then(|name| name.to_str())
            && path.extension().is_some_and(|end| end == ending)
        {
            files.insert(name.to_owned(), fs::read_to_string(&path)?);
        }
    }
    Ok(files)
}
