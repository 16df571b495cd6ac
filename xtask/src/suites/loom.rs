//! Suite `loom`: every `crates/*/tests/loom_*.rs`, under the model checker.

use std::fs;
use std::path::Path;

use crate::report::Tally;
use crate::suite::Context;
use crate::suites::libtest;

pub(crate) fn run(context: &Context<'_>) -> Result<Tally, String> {
    let workspace = context.workspace;
    let mut tally = Tally::default();
    let mut found = false;
    for package in workspace.libraries() {
        for model in models(&package.folder) {
            found = true;
            let mut command = workspace.cargo("test");
            command
                .args([
                    "-p",
                    &package.name,
                    "--features",
                    "loom",
                    "--release",
                    "--test",
                    &model,
                ])
                // loom wants an optimiser, but whole-program optimisation only costs build time.
                .env("CARGO_PROFILE_RELEASE_LTO", "off")
                .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
            let counts = libtest(&mut command)?;
            let empty = counts == Tally::default();
            tally.add(counts);
            if empty {
                tally.fail(1, format!("{}: {model} has no test", package.name));
            }
        }
    }
    if !found {
        return Err("no crates/*/tests/loom_*.rs".to_owned());
    }
    Ok(tally)
}

/// The names of the models in a package's `tests` folder, sorted.
fn models(package: &Path) -> Vec<String> {
    let entries = fs::read_dir(package.join("tests"))
        .into_iter()
        .flatten()
        .flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let name = name.strip_suffix(".rs")?;
            name.starts_with("loom_").then(|| name.to_owned())
        })
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_without_tests_has_no_models() {
        assert!(models(Path::new("/no/such/package")).is_empty());
    }
}
