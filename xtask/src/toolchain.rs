//! How to build for a microcontroller on this machine: with rustup's own target where it is
//! installed, otherwise with the distribution's compiler and the sources of `core` and `alloc`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process;
use crate::workspace::{Workspace, rustc};

/// The microcontroller targets that the workspace builds for.
pub(crate) const MCU_TARGETS: [&str; 4] = [
    "thumbv6m-none-eabi",
    "thumbv7m-none-eabi",
    "thumbv8m.main-none-eabi",
    "riscv32imac-unknown-none-elf",
];

/// The compiler of Debian's and Ubuntu's packages, which stands beside rustup's undisturbed.
const DISTRIBUTION_RUSTC: &str = "/usr/bin/rustc";

/// The compiler that the workspace asks for at least.
const MSRV: &str = env!("CARGO_PKG_RUST_VERSION");

/// Set to `rustup` or `distribution` to allow that toolchain only, say to try the other one out.
pub(crate) const CHOICE: &str = "WHARF_MCU_TOOLCHAIN";

/// A way to build for one microcontroller target.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Toolchain {
    triple: &'static str,
    kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// The pinned compiler, with the standard library that rustup installed for the target.
    Rustup,
    /// The distribution's compiler builds `core` and `alloc` itself; it has no linker for bare
    /// metal, but rustup's toolchain carries one.
    Distribution { linker: PathBuf },
}

impl Toolchain {
    /// Finds a toolchain for `triple`, or says what each of the two lacks.
    pub(crate) fn find(workspace: &Workspace, triple: &'static str) -> Result<Self, String> {
        let choice = std::env::var(CHOICE).unwrap_or_default();
        let allowed = |kind| choice.is_empty() || choice == kind;
        let sysroot = process::ask(
            rustc()
                .args(["--print", "sysroot"])
                .current_dir(&workspace.root),
        )
        .map(PathBuf::from)
        .ok_or("`rustc --print sysroot` failed")?;

        let mut lacks = Vec::new();
        if allowed("rustup") {
            if sysroot
                .join("lib/rustlib")
                .join(triple)
                .join("lib")
                .is_dir()
            {
                return Ok(Self {
                    triple,
                    kind: Kind::Rustup,
                });
            }
            lacks.push(format!("rustup's toolchain has no {triple}"));
        }
        if allowed("distribution") {
            match distribution(&sysroot, &workspace.host) {
                Ok(linker) => {
                    return Ok(Self {
                        triple,
                        kind: Kind::Distribution { linker },
                    });
                }
                Err(lack) => lacks.push(lack),
            }
        }
        if lacks.is_empty() {
            lacks.push(format!(
                "{CHOICE} is `{choice}`, neither `rustup` nor `distribution`"
            ));
        }
        Err(lacks.join(", and "))
    }

    /// Whether this is the compiler that `rust-toolchain.toml` pins: only its warnings are ours to
    /// answer for, and only it has a matching clippy.
    pub(crate) fn is_pinned(&self) -> bool {
        self.kind == Kind::Rustup
    }

    /// In a few words, for headings.
    pub(crate) fn describe(&self) -> &'static str {
        match self.kind {
            Kind::Rustup => "rustup's toolchain",
            Kind::Distribution { .. } => "the distribution's toolchain",
        }
    }

    /// Where this toolchain builds: each in its own folder, so that neither undoes the other's work.
    fn target_dir(&self, workspace: &Workspace) -> PathBuf {
        match self.kind {
            Kind::Rustup => workspace.target_dir.clone(),
            Kind::Distribution { .. } => workspace.target_dir.join("mcu"),
        }
    }

    /// `cargo <subcommand>` for the target. Firmware brings its own linker script by its build
    /// script; this only says which compiler and which linker.
    pub(crate) fn cargo(&self, workspace: &Workspace, subcommand: &str) -> Command {
        let mut command = workspace.cargo(subcommand);
        command.args(["--locked", "--target", self.triple]);
        command.arg("--target-dir").arg(self.target_dir(workspace));
        if let Kind::Distribution { linker } = &self.kind {
            command
                .arg("-Zbuild-std=core,alloc")
                .env("RUSTC", DISTRIBUTION_RUSTC)
                // A stable compiler builds `core` only when told that it is the one to do so.
                .env("RUSTC_BOOTSTRAP", "1")
                .env(linker_variable(self.triple), linker);
        }
        command
    }

    /// The image that a release build of `binary` leaves.
    pub(crate) fn image(&self, workspace: &Workspace, binary: &str) -> PathBuf {
        self.image_of(workspace, "release", binary)
    }

    /// The image that a build of `binary` under a profile leaves.
    pub(crate) fn image_of(&self, workspace: &Workspace, profile: &str, binary: &str) -> PathBuf {
        self.target_dir(workspace)
            .join(self.triple)
            .join(profile)
            .join(binary)
    }

    /// The compiler, with its version.
    pub(crate) fn compiler(&self, workspace: &Workspace) -> String {
        let mut command = match self.kind {
            Kind::Rustup => rustc(),
            Kind::Distribution { .. } => Command::new(DISTRIBUTION_RUSTC),
        };
        process::ask(command.arg("--version").current_dir(&workspace.root))
            .unwrap_or_else(|| self.describe().to_owned())
    }
}

/// Checks that the distribution's compiler can build for bare metal; its linker if so.
fn distribution(sysroot: &Path, host: &str) -> Result<PathBuf, String> {
    let version = process::ask(Command::new(DISTRIBUTION_RUSTC).arg("--version"))
        .ok_or_else(|| format!("the distribution's {DISTRIBUTION_RUSTC} is not there"))?;
    if version_number(&version) < version_number(MSRV) {
        return Err(format!("the distribution's {version} is older than {MSRV}"));
    }
    let its_sysroot = process::ask(Command::new(DISTRIBUTION_RUSTC).args(["--print", "sysroot"]))
        .unwrap_or_default();
    if !Path::new(&its_sysroot)
        .join("lib/rustlib/src/rust/library/Cargo.lock")
        .is_file()
    {
        return Err("the sources of the distribution's compiler are not there".to_owned());
    }
    let linker = sysroot.join("lib/rustlib").join(host).join("bin/rust-lld");
    if !linker.is_file() {
        return Err(format!("rustup's toolchain has no rust-lld for {host}"));
    }
    Ok(linker)
}

/// The variable by which cargo learns the linker of a target.
fn linker_variable(triple: &str) -> String {
    format!(
        "CARGO_TARGET_{}_LINKER",
        triple.to_uppercase().replace(['-', '.'], "_")
    )
}

/// Major and minor of the first version number in a text: `rustc 1.96.0 (…)` is `(1, 96)`.
fn version_number(text: &str) -> Option<(u32, u32)> {
    let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    let mut parts = text.split_whitespace().find(is_number)?.split('.');
    let minor = |part: &str| {
        part.split('-')
            .next()
            .and_then(|digits| digits.parse().ok())
    };
    Some((parts.next()?.parse().ok()?, parts.next().and_then(minor)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(
            version_number("rustc 1.96.0 (ac68faa20 2026-05-25)"),
            Some((1, 96))
        );
        assert_eq!(version_number("1.95"), Some((1, 95)));
        assert_eq!(version_number("rustc 1.100-nightly"), Some((1, 100)));
        assert_eq!(version_number("rustc"), None);
        assert!(version_number("rustc 1.63.0") < version_number(MSRV));
        assert!(version_number("rustc 1.100.0") > version_number("rustc 1.95.0"));
        assert!(
            version_number("nonsense") < version_number(MSRV),
            "unreadable counts as too old"
        );
    }

    #[test]
    fn the_linker_variable_is_spelt_as_cargo_reads_it() {
        assert_eq!(
            linker_variable("thumbv7m-none-eabi"),
            "CARGO_TARGET_THUMBV7M_NONE_EABI_LINKER"
        );
        assert_eq!(
            linker_variable("thumbv8m.main-none-eabi"),
            "CARGO_TARGET_THUMBV8M_MAIN_NONE_EABI_LINKER"
        );
    }
}
