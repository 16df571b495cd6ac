//! A public type has one name, and that name one type: a program may glob every crate of the workspace side by side.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Names that several crates declare, each with the reason.
const SHARED: [(&str, &str); 1] = [(
    "Sealed",
    "in private modules: it seals a trait and cannot be named",
)];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.append(&mut sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The type, trait or alias that a line declares for everybody.
fn declared(line: &str) -> Option<&str> {
    let item = line.trim_start().strip_prefix("pub ")?;
    let item = item.strip_prefix("unsafe ").unwrap_or(item);
    let (kind, rest) = item.split_once(' ')?;
    ["struct", "enum", "union", "trait", "type"]
        .contains(&kind)
        .then(|| {
            rest.split(|c: char| !c.is_alphanumeric() && c != '_')
                .next()
        })
        .flatten()
        .filter(|name| !name.is_empty())
}

/// Which library crates declare which name.
fn names() -> BTreeMap<String, BTreeSet<String>> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut names = BTreeMap::<_, BTreeSet<_>>::new();
    for entry in fs::read_dir(&crates).expect("the folder of crates") {
        let folder = entry.expect("an entry").path();
        let library = folder.file_name().expect("a name").to_string_lossy();
        // Programs, which nobody globs.
        if library == "wharf-bench" {
            continue;
        }
        for source in sources(&folder.join("src")) {
            let text = fs::read_to_string(&source).expect("a source");
            for name in text.lines().filter_map(declared) {
                let declaring = names.entry(name.to_owned()).or_default();
                declaring.insert(library.clone().into_owned());
            }
        }
    }
    names
}

#[test]
fn no_two_crates_declare_a_type_of_one_name() {
    let names = names();
    for (name, of) in [
        ("SyncPolicy", "wharf-sync"),
        ("BlockSource", "wharf-source"),
        ("Rules", "wharf-engine"),
        ("SoftDma", "wharf-softdma"),
        ("Submission", "wharf-tensor"),
    ] {
        assert_eq!(names[name], BTreeSet::from([of.to_owned()]), "{name}");
    }
    let shared: BTreeMap<_, _> = names.iter().filter(|(_, of)| of.len() > 1).collect();
    let listed: BTreeSet<_> = SHARED.iter().map(|(name, _)| *name).collect();
    let found: BTreeSet<_> = shared.keys().map(|name| name.as_str()).collect();
    assert_eq!(found, listed, "declared by several crates: {shared:#?}");
}

#[test]
fn a_declaration_is_read_with_and_without_what_may_stand_around_the_name() {
    for (line, name) in [
        ("pub struct Rules {", Some("Rules")),
        ("    pub enum Fault<T> {", Some("Fault")),
        ("pub unsafe trait Engine: Sized {", Some("Engine")),
        ("pub type Shipped<'e> = ();", Some("Shipped")),
        ("pub struct Unit;", Some("Unit")),
        ("pub struct Sequence(u64);", Some("Sequence")),
        ("pub(crate) struct Hidden;", None),
        ("struct Private;", None),
        ("pub fn struct_like() {", None),
        ("pub struct $name;", None),
        ("// pub struct Said;", None),
    ] {
        assert_eq!(declared(line), name, "{line}");
    }
}
