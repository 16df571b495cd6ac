//! The pages that list things are held to the things.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What stands between backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Every file under a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.append(&mut files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// The dependencies of the workspace: the lines of that section of its manifest.
fn dependencies() -> BTreeSet<String> {
    let manifest = page("Cargo.toml");
    let section = manifest.split("[workspace.dependencies]\n").nth(1);
    let section = section.and_then(|rest| rest.split("\n[").next());
    let names = section.unwrap_or_default().lines().filter_map(|line| {
        let (name, _) = line.split_once(" = ")?;
        (!name.starts_with('#') && !name.starts_with("wharf")).then(|| name.to_owned())
    });
    names.collect()
}

#[test]
fn every_dependency_has_its_line_and_no_line_is_stale() {
    let page = page("docs/dependencies.md");
    let tables = page.split("Looked at and not taken").next();
    let rows = tables.unwrap_or_default().lines();
    let first = rows.filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let listed: BTreeSet<_> = first.flat_map(code).map(str::to_owned).collect();
    let dependencies = dependencies();
    assert!(dependencies.len() > 20, "{dependencies:?}");
    assert_eq!(listed, dependencies);
}

#[test]
fn every_dependency_is_taken_from_the_workspace() {
    let manifests = files(&root().join("crates")).into_iter();
    let manifests = manifests.chain(files(&root().join("examples")));
    let mut seen = 0;
    for path in manifests.filter(|path| path.ends_with("Cargo.toml")) {
        let text = fs::read_to_string(&path).unwrap();
        let mut section = "";
        for line in text.lines() {
            if line.starts_with('[') {
                section = line;
                continue;
            }
            let is_one = section.ends_with("dependencies]") && line.contains(" = ");
            if is_one && !line.contains("path = ") && !line.starts_with('#') {
                let shared = line.contains("workspace = true");
                assert!(shared, "{}: {line}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 50, "{seen}");
}

/// The modules of the libraries that allow themselves unsafe code: crate and path, as `wharf-sync`, `policy`.
fn unsafe_modules() -> BTreeSet<(String, String)> {
    let mut modules = BTreeSet::new();
    for path in files(&root().join("crates")) {
        let inner = path.strip_prefix(root().join("crates")).unwrap();
        let mut parts = inner.iter().map(|part| part.to_str().unwrap());
        let (Some(krate), Some("src")) = (parts.next(), parts.next()) else {
            continue;
        };
        let module = parts.collect::<Vec<_>>().join("/");
        let text = fs::read_to_string(&path).unwrap();
        // As an attribute, for a module or for one item in it.
        let code = text.lines().map(str::trim_start);
        let mut code = code.filter(|line| !line.starts_with("//"));
        let allows = |line: &str| {
            line.starts_with("unsafe_code,")
                || (line.contains("allow(") && line.contains("unsafe_code"))
        };
        if code.any(allows) {
            let module = module.trim_end_matches(".rs").trim_end_matches("/mod");
            modules.insert((krate.to_owned(), module.to_owned()));
        }
    }
    modules
}

#[test]
fn every_module_with_unsafe_code_is_listed_and_no_row_is_stale() {
    let page = page("docs/unsafe.md");
    let table = page.split("## Where it is").nth(1);
    let table = table.and_then(|rest| rest.split("\n## ").next());
    let mut listed = BTreeSet::new();
    for row in table.unwrap_or_default().lines() {
        let cell = row
            .strip_prefix("| `")
            .and_then(|row| row.split(" |").next());
        let Some((krate, modules)) = cell.and_then(|cell| cell.split_once("`: ")) else {
            continue;
        };
        for module in code(modules) {
            assert!(
                listed.insert((krate.to_owned(), module.to_owned())),
                "{krate}: `{module}` is listed twice"
            );
        }
    }
    let covers = |(krate, module): &(String, String), (other, path): &(String, String)| {
        let below = path.strip_prefix(module.as_str());
        krate == other && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let found = unsafe_modules();
    assert!(found.len() > 50, "{found:?}");
    for module in &found {
        let row = listed.iter().any(|row| covers(row, module));
        assert!(
            row,
            "docs/unsafe.md does not list {}: `{}`",
            module.0, module.1
        );
    }
    for row in &listed {
        // A macro's unsafe code is expanded, and allowed, where it is used.
        let expanded = row == &("wharf-backend".to_owned(), "set".to_owned());
        let there = expanded || found.iter().any(|module| covers(row, module));
        assert!(there, "docs/unsafe.md lists {}: `{}`", row.0, row.1);
    }
}

#[test]
fn every_problem_of_the_runtime_in_c_has_its_test() {
    let page = page("docs/coming-from.md");
    let table = page.split("## What its users ran into").nth(1);
    let table = table.and_then(|rest| rest.split("\n## ").next());
    let rows = table.unwrap_or_default().lines();
    // The last cell of a row is the name of a test, and nothing else.
    let listed: BTreeSet<_> = rows
        .filter_map(|row| row.strip_suffix("` |")?.rsplit_once("| `"))
        .map(|(_, test)| test.to_owned())
        .collect();
    let tests = tests_of_problems();
    assert!(tests.len() > 10, "{tests:?}");
    assert_eq!(listed, tests);
}

/// The tests in `ran_into.rs`.
fn tests_of_problems() -> BTreeSet<String> {
    let text = page("crates/wharf/tests/ran_into.rs");
    let after = text.split("#[test]\nfn ").skip(1);
    let names = after.filter_map(|rest| rest.split_once('('));
    names.map(|(name, _)| name.to_owned()).collect()
}

/// What is left of code without spaces, and without the comma with which rustfmt ends what it has broken.
fn squeezed(text: &str) -> String {
    let text: String = text.split_whitespace().collect();
    text.replace(",)", ")").replace(",]", "]")
}

#[test]
fn every_line_for_those_who_come_from_c_is_compiled() {
    let page = page("docs/coming-from.md");
    let test = squeezed(&self::page("crates/wharf/tests/coming_from.rs"));
    // Those of the third part name tests of their own.
    let (before, after) = page.split_once("## What its users ran into").unwrap();
    let (_, after) = after.split_once("\n## ").unwrap();
    let rows = before.lines().chain(after.lines());
    let cells = rows.filter_map(|row| row.strip_prefix("| ")?.split(" | ").nth(1));
    let lines: Vec<_> = cells.flat_map(code).collect();
    assert!(lines.len() > 100, "{}", lines.len());
    let compiled = |line: &&str| test.contains(&squeezed(line));
    let missing: Vec<_> = lines.into_iter().filter(|line| !compiled(line)).collect();
    assert_eq!(missing, [""; 0]);
}
