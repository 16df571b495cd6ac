//! The table is held to the crate.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The public functions of a folder that are not `const`, in modules that know a target or a source.
fn functions(folder: &Path, module: &str, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let inner = format!("{module}{name}::");
        if path.is_dir() {
            functions(&path, &inner, found);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        if !["use wharf_tensor", "use wharf_source"]
            .iter()
            .any(|known| text.contains(known))
        {
            continue;
        }
        for line in text.lines() {
            let Some(rest) = line.trim_start().strip_prefix("pub ") else {
                continue;
            };
            let rest = rest.trim_start_matches("unsafe ");
            let rest = rest.trim_start_matches("async ");
            if let Some(function) = rest.strip_prefix("fn ") {
                let end = function.find(['(', '<']).unwrap();
                found.insert(format!("{inner}{}", &function[..end]));
            }
        }
    }
}

#[test]
fn every_public_function_is_in_a_row() {
    let mut public = BTreeSet::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    functions(&source, "", &mut public);
    assert!(public.contains("set::insert"));
    let rows = super::rows::ROWS.iter().flat_map(|row| row.through);

    let covered: BTreeSet<_> = rows.map(|&name| name.to_owned()).collect();
    let missing: Vec<_> = public.difference(&covered).collect();
    assert!(missing.is_empty(), "in no row: {missing:#?}");
    let gone: Vec<_> = covered.difference(&public).collect();
    assert!(gone.is_empty(), "in a row, and not there: {gone:#?}");
}
