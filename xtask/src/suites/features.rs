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
    let mut toolchains: BTreeMap<&str, Result<Toolchain, String>> = BTreeMap::new();
    let mut tally = Tally::default();
    let mut left_out = 0;
    let mut unbuildable: BTreeMap<String, u64> = BTreeMap::new();
    for (index, build) in builds.iter().enumerate() {
        let command = match build.target {
            None => workspace.cargo("check"),
            Some(_) if context.host_only => {
                left_out += 1;
                continue;
            }
            Some(triple) => {
                let toolchain = toolchains
                    .entry(triple)
                    .or_insert_with(|| context.setup.toolchain(triple));
                match toolchain {
                    Ok(toolchain) => toolchain.cargo(workspace, "check"),
                    Err(reason) => {
                        *unbuildable.entry(reason.clone()).or_default() += 1;
                        continue;
                    }
                }
            }
        };
        process::say(&format!(
            "[{} of {}] {}",
            index + 1,
            builds.len(),
            build.describe()
        ));
        // Warnings of another compiler than the pinned one are not ours to answer for.
        let pinned = match build.target {
            None => true,
            Some(triple) => toolchains
                .get(triple)
                .is_some_and(|t| t.as_ref().is_ok_and(Toolchain::is_pinned)),
        };
        tally.add(build.check(command, pinned)?);
    }
    if left_out > 0 {
        tally.skip(
            left_out,
            format!("{} left out by --host-only", MCU_TARGETS.join(" and ")),
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
        } else if let Some(warnings) = finished.lines.iter().find(|line| is_warned(line))
            && deny_warnings
        {
            tally.fail(1, format!("{}: {warnings}", self.describe()));
        } else {
            tally.pass(1);
        }
        Ok(tally)
    }
}

/// Whether a line is cargo's count of a crate's warnings, which it gives for our own crates only:
/// ``warning: `wharf-sync` (lib) generated 2 warnings``.
fn is_warned(line: &str) -> bool {
    line.starts_with("warning: `") && line.contains(" generated ") && line.contains(" warning")
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
            ]
        );
    }

    #[test]
    fn warnings_are_recognised_by_their_count() {
        assert!(is_warned(
            "warning: `wharf-sync` (lib) generated 2 warnings"
        ));
        assert!(is_warned(
            "warning: `wharf-sync` (lib) generated 1 warning (run `cargo fix …"
        ));
        assert!(!is_warned("warning: unused import: `core::fmt`"));
        assert!(!is_warned("    Finished `dev` profile"));
    }
}
