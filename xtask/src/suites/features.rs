//! Suite `features`: each library crate builds alone, with no features and with all of them, on the
//! host and on every microcontroller target that it is meant for. One build is one test.
//!
//! Alone, because a workspace build turns on the union of what its members ask for, and so hides a
//! feature that somebody forgot to ask for.

use std::collections::BTreeMap;
use std::process::Command;

use crate::process;
use crate::report::Tally;
use crate::suite::Context;
use crate::suites::run as run_command;
use crate::toolchain::{MCU_TARGETS, Toolchain};
use crate::workspace::Package;

pub(crate) fn run(context: &Context<'_>) -> Result<Tally, String> {
    let workspace = context.workspace;
    let builds = plan(workspace.libraries());
    let mut tally = Tally::default();
    let mut left_out = 0;
    let mut unbuildable: BTreeMap<String, u64> = BTreeMap::new();
    for (index, build) in builds.iter().enumerate() {
        if build.target.is_some() && context.host_only {
            left_out += 1;
            continue;
        }
        let toolchain = match build
            .target
            .map(|triple| context.setup.toolchain(triple))
            .transpose()
        {
            Ok(toolchain) => toolchain,
            Err(reason) => {
                *unbuildable.entry(reason).or_default() += 1;
                continue;
            }
        };
        process::say(&format!(
            "[{} of {}] {}",
            index + 1,
            builds.len(),
            build.describe()
        ));
        let command = match &toolchain {
            None => workspace.cargo("check"),
            Some(toolchain) => toolchain.cargo(workspace, "check"),
        };
        // Warnings of another compiler than the pinned one are not ours to answer for.
        let deny_warnings = toolchain.as_ref().is_none_or(Toolchain::is_pinned);
        tally.add(build.check(command, deny_warnings)?);
    }
    if left_out > 0 {
        tally.skip(
            left_out,
            format!("{} left out by --host-only", MCU_TARGETS.join(", ")),
        );
    }
    for (reason, count) in unbuildable {
        tally.fail(count, reason);
    }
    Ok(tally)
}

/// One build of one crate.
#[derive(Debug, PartialEq, Eq)]
struct Build<'a> {
    package: &'a str,
    /// `None`: the host.
    target: Option<&'static str>,
    features: Features<'a>,
}

#[derive(Debug, PartialEq, Eq)]
enum Features<'a> {
    No,
    All,
    /// All that make sense without an operating system.
    Bare(Vec<&'a str>),
}

/// Every build, the ones for a target together. A crate without features is built once a target.
fn plan<'a>(libraries: impl IntoIterator<Item = &'a Package>) -> Vec<Build<'a>> {
    let libraries: Vec<&Package> = libraries.into_iter().collect();
    let mut builds = Vec::new();
    for target in std::iter::once(None).chain(MCU_TARGETS.map(Some)) {
        for package in &libraries {
            if package.hosted && target.is_some() {
                continue;
            }
            let build = |features| Build {
                package: &package.name,
                target,
                features,
            };
            builds.push(build(Features::No));
            let bare = package.bare_features();
            if target.is_some() && !bare.is_empty() {
                builds.push(build(Features::Bare(bare)));
            } else if target.is_none() && package.features.keys().any(|name| name != "default") {
                builds.push(build(Features::All));
            }
        }
    }
    builds
}

impl Build<'_> {
    fn describe(&self) -> String {
        let features = match &self.features {
            Features::No => "no features".to_owned(),
            Features::All => "all features".to_owned(),
            Features::Bare(features) => features.join(","),
        };
        format!(
            "{} on {}, {features}",
            self.package,
            self.target.unwrap_or("the host")
        )
    }

    fn check(&self, mut command: Command, deny_warnings: bool) -> Result<Tally, String> {
        command.args(["-p", self.package, "--lib"]);
        match &self.features {
            Features::No => command.arg("--no-default-features"),
            Features::All => command.arg("--all-features"),
            Features::Bare(features) => {
                command.args(["--no-default-features", "--features", &features.join(",")])
            }
        };
        let finished = run_command(&mut command)?;
        let mut tally = Tally::default();
        if !finished.succeeded() {
            tally.fail(1, format!("{}: {}", self.describe(), finished.complaint()));
        } else if let Some(warnings) = finished
            .lines
            .iter()
            .find(|line| is_warned(self.package, line))
            && deny_warnings
        {
            tally.fail(1, format!("{}: {warnings}", self.describe()));
        } else {
            tally.pass(1);
        }
        Ok(tally)
    }
}

/// Whether a line is cargo's count of the warnings of `package` itself (those of a crate below it
/// are for that crate's own builds): ``warning: `wharf-sync` (lib) generated 2 warnings``.
fn is_warned(package: &str, line: &str) -> bool {
    line.strip_prefix("warning: `")
        .and_then(|rest| rest.strip_prefix(package))
        .is_some_and(|rest| rest.starts_with("` (lib) generated "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, hosted: bool, features: &[(&str, &[&str])]) -> Package {
        let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
        Package {
            name: name.to_owned(),
            hosted,
            features: features
                .iter()
                .map(|(name, on)| ((*name).to_owned(), values(on)))
                .collect(),
            ..Package::default()
        }
    }

    #[test]
    fn each_crate_is_built_alone_on_every_target_it_is_meant_for() {
        let sync = package(
            "wharf-sync",
            false,
            &[
                ("default", &[]),
                ("std", &["alloc"]),
                ("alloc", &[]),
                ("loom", &["std"]),
            ],
        );
        let softdma = package("wharf-softdma", true, &[("default", &[])]);
        let only_std = package("wharf-host", false, &[("std", &[])]);
        let packages = [sync, softdma, only_std];
        let described: Vec<_> = plan(&packages).iter().map(Build::describe).collect();
        assert_eq!(
            described,
            [
                "wharf-sync on the host, no features",
                "wharf-sync on the host, all features",
                "wharf-softdma on the host, no features",
                "wharf-host on the host, no features",
                "wharf-host on the host, all features",
                "wharf-sync on thumbv6m-none-eabi, no features",
                "wharf-sync on thumbv6m-none-eabi, alloc",
                "wharf-host on thumbv6m-none-eabi, no features",
                "wharf-sync on thumbv7m-none-eabi, no features",
                "wharf-sync on thumbv7m-none-eabi, alloc",
                "wharf-host on thumbv7m-none-eabi, no features",
                "wharf-sync on thumbv8m.main-none-eabi, no features",
                "wharf-sync on thumbv8m.main-none-eabi, alloc",
                "wharf-host on thumbv8m.main-none-eabi, no features",
                "wharf-sync on riscv32imac-unknown-none-elf, no features",
                "wharf-sync on riscv32imac-unknown-none-elf, alloc",
                "wharf-host on riscv32imac-unknown-none-elf, no features",
            ]
        );
    }

    #[test]
    fn warnings_are_recognised_by_their_count() {
        let warned = |line| is_warned("wharf-sync", line);
        assert!(warned("warning: `wharf-sync` (lib) generated 2 warnings"));
        assert!(warned(
            "warning: `wharf-sync` (lib) generated 1 warning (run `cargo fix …"
        ));
        assert!(!warned("warning: `wharf-source` (lib) generated 1 warning"));
        assert!(!warned("warning: unused import: `core::fmt`"));
        assert!(!warned("    Finished `dev` profile"));
    }
}
