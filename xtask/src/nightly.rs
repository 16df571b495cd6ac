//! The nightly toolchain, for the two checkers that only it has. It is taken where it is there, and
//! never installed: which nightly a machine has is its owner's business.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process;
use crate::workspace::Workspace;

/// Why a suite that needs nightly is left out.
const ABSENT: &str = "no nightly toolchain: `rustup toolchain install nightly`";

/// A program of the nightly toolchain, whichever toolchain started us.
fn nightly(program: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", program]);
    // What our own toolchain's cargo told us about itself.
    for variable in ["RUSTC", "RUSTDOC", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
        command.env_remove(variable);
    }
    command
}

/// `cargo` of nightly at the root of the workspace, building into a folder of its own.
pub(crate) fn cargo(workspace: &Workspace, words: &[&str], folder: &str) -> Command {
    let mut command = nightly("cargo");
    command
        .args(words)
        .current_dir(&workspace.root)
        .arg("--locked")
        .arg("--target-dir")
        .arg(workspace.target_dir.join(folder));
    command
}

/// Finds the run-time library of the AddressSanitizer, or says what lacks.
pub(crate) fn address_sanitizer(workspace: &Workspace) -> Result<(), String> {
    let sysroot = process::ask(nightly("rustc").args(["--print", "sysroot"])).ok_or(ABSENT)?;
    let libraries = PathBuf::from(sysroot)
        .join("lib/rustlib")
        .join(&workspace.host)
        .join("lib");
    if has_sanitizer(&libraries) {
        Ok(())
    } else {
        Err(format!(
            "nightly has no AddressSanitizer for {}",
            workspace.host
        ))
    }
}

fn has_sanitizer(libraries: &Path) -> bool {
    let entries = fs::read_dir(libraries).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .any(|name| name.contains("_rt.asan."))
}

/// Finds Miri, or says what lacks.
pub(crate) fn miri() -> Result<(), String> {
    process::ask(nightly("rustc").arg("--version")).ok_or(ABSENT)?;
    let there = process::ask(nightly("cargo").args(["miri", "--version"]));
    there.ok_or("nightly has no Miri: `rustup +nightly component add miri rust-src`")?;
    // The first time this builds a standard library for it, from sources that may not be there.
    process::ask(nightly("cargo").args(["miri", "setup"]))
        .ok_or("`cargo +nightly miri setup` fails: is the component rust-src there?")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toolchain_without_libraries_has_no_sanitizer() {
        assert!(!has_sanitizer(Path::new("/no/such/toolchain")));
    }

    #[test]
    fn our_toolchain_is_not_passed_on() {
        let command = nightly("cargo");
        let told: Vec<_> = command.get_envs().collect();
        assert!(told.iter().all(|(_, value)| value.is_none()));
        assert!(told.iter().any(|(name, _)| *name == "RUSTC"));
    }
}
