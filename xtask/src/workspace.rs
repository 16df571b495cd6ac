//! What cargo knows of the workspace: its packages, their features and tests, and how to start
//! cargo in it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::failure::Failure;
use crate::process;

/// The features that a host build turns on, in whichever package declares them.
const HOST_FEATURES: [&str; 11] = [
    "std",
    "critical-section",
    "spin",
    "allocator-api2",
    "meta",
    "half",
    "zerocopy",
    "crc",
    "safetensors",
    "softdma",
    "cli",
];

/// The workspace as `cargo metadata` describes it.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target_dir: PathBuf,
    /// The host's target triple.
    pub(crate) host: String,
    pub(crate) packages: Vec<Package>,
    cargo: OsString,
    colour: bool,
}

/// A member of the workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// The folder of its manifest.
    pub(crate) folder: PathBuf,
    /// A crate that others depend on: it lives under `crates/` and may be published.
    pub(crate) is_library: bool,
    /// Runs on hosts only: `package.metadata.wharf.hosted = true`.
    pub(crate) hosted: bool,
    pub(crate) features: BTreeMap<String, Vec<String>>,
    /// What it depends on to be built, in the workspace or not.
    pub(crate) dependencies: Vec<String>,
    /// Its programs, each with the features that it needs.
    pub(crate) bins: Vec<(String, Vec<String>)>,
    /// Integration tests that need no feature beyond those of a host build.
    pub(crate) tests: Vec<String>,
}

impl Package {
    /// The package's features that a host build turns on.
    pub(crate) fn host_features(&self) -> impl Iterator<Item = String> {
        let declared = |feature: &&str| self.features.contains_key(*feature);
        HOST_FEATURES
            .iter()
            .copied()
            .filter(declared)
            .map(|f| format!("{}/{f}", self.name))
    }

    /// The package's features that make sense without an operating system: all but `std`, `loom`
    /// and whatever turns one of them on.
    pub(crate) fn bare_features(&self) -> Vec<&str> {
        let mut hosted = BTreeSet::from(["std", "loom"]);
        loop {
            let turns_on = |value: &String| {
                let name = value.rsplit('/').next().unwrap_or(value);
                hosted.contains(name)
            };
            let more: BTreeSet<&str> = self
                .features
                .iter()
                .filter(|(_, values)| values.iter().any(turns_on))
                .map(|(name, _)| name.as_str())
                .filter(|name| !hosted.contains(name))
                .collect();
            if more.is_empty() {
                break;
            }
            hosted.extend(more);
        }
        let names = self.features.keys().map(String::as_str);
        names
            .filter(|name| *name != "default" && !hosted.contains(name))
            .collect()
    }
}

impl Workspace {
    /// Asks cargo and rustc about the workspace that this program was built from.
    pub(crate) fn load() -> Result<Self, Failure> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let metadata = process::ask(
            Command::new(&cargo)
                .args(["metadata", "--no-deps", "--format-version", "1"])
                .current_dir(here),
        )
        .ok_or_else(|| {
            Failure::failed("`cargo metadata` failed: run it by hand to see what cargo says")
        })?;
        let metadata: Value = serde_json::from_str(&metadata)
            .map_err(|error| Failure::failed(format!("`cargo metadata`: {error}")))?;

        let rustc = process::ask(rustc().arg("-vV").current_dir(here));
        let host = rustc
            .as_deref()
            .and_then(|text| text.lines().find_map(|line| line.strip_prefix("host: ")))
            .ok_or_else(|| Failure::failed("`rustc -vV` does not name the host's target"))?
            .to_owned();

        let folder = |key: &str| {
            metadata[key]
                .as_str()
                .map(PathBuf::from)
                .unwrap_or_default()
        };
        let root = folder("workspace_root");
        let packages = packages(&metadata, &root);
        Ok(Self {
            target_dir: folder("target_directory"),
            root,
            host,
            packages,
            cargo,
            colour: stderr().is_terminal() && std::env::var_os("CARGO_TERM_COLOR").is_none(),
        })
    }

    /// `cargo <subcommand>` at the root of the workspace.
    pub(crate) fn cargo(&self, subcommand: &str) -> Command {
        let mut command = Command::new(&self.cargo);
        command.arg(subcommand).current_dir(&self.root);
        if self.colour {
            // cargo writes to a pipe of ours, and so would not see the terminal behind it.
            command.env("CARGO_TERM_COLOR", "always");
        }
        command
    }

    pub(crate) fn package(&self, name: &str) -> Result<&Package, String> {
        let found = self.packages.iter().find(|package| package.name == name);
        found.ok_or_else(|| format!("the workspace has no package `{name}`"))
    }

    /// Whether `package` depends on the member `name`, be it through others.
    pub(crate) fn depends(&self, package: &Package, name: &str) -> bool {
        package.dependencies.iter().any(|dependency| {
            let member = self.packages.iter().find(|p| p.name == *dependency);
            dependency == name || member.is_some_and(|member| self.depends(member, name))
        })
    }

    pub(crate) fn libraries(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.is_library)
    }

    /// The features of a host build of all of `packages`, as `--features` takes them.
    pub(crate) fn host_features<'a>(packages: impl IntoIterator<Item = &'a Package>) -> String {
        packages
            .into_iter()
            .flat_map(Package::host_features)
            .collect::<Vec<_>>()
            .join(",")
    }
}

/// The compiler that cargo takes by default.
pub(crate) fn rustc() -> Command {
    Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

fn packages(metadata: &Value, root: &Path) -> Vec<Package> {
    let crates = root.join("crates");
    array(&metadata["packages"])
        .map(|package| {
            let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
            let folder = manifest.parent().unwrap_or(root).to_owned();
            let publish = package["publish"]
                .as_array()
                .is_none_or(|list| !list.is_empty());
            let in_host_build = |target: &&Value| {
                array(&target["required-features"])
                    .all(|feature| HOST_FEATURES.iter().any(|known| feature == known))
            };
            let is = |what: &'static str| {
                move |target: &&Value| array(&target["kind"]).any(|kind| kind == what)
            };
            Package {
                name: text(&package["name"]),
                is_library: publish && folder.starts_with(&crates),
                folder,
                hosted: package["metadata"]["wharf"]["hosted"] == true,
                features: features(&package["features"]),
                dependencies: array(&package["dependencies"])
                    .filter(|dependency| dependency["kind"].is_null())
                    .map(|dependency| text(&dependency["name"]))
                    .collect(),
                bins: array(&package["targets"])
                    .filter(is("bin"))
                    .map(|target| {
                        let needs = array(&target["required-features"]).map(text);
                        (text(&target["name"]), needs.collect())
                    })
                    .collect(),
                tests: array(&package["targets"])
                    .filter(is("test"))
                    .filter(in_host_build)
                    .map(|target| text(&target["name"]))
                    .collect(),
            }
        })
        .collect()
}

fn features(value: &Value) -> BTreeMap<String, Vec<String>> {
    let entries = value.as_object().into_iter().flatten();
    entries
        .map(|(name, values)| (name.clone(), array(values).map(text).collect()))
        .collect()
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn metadata() -> Value {
        json!({ "packages": [
            {
                "name": "wharf-sync",
                "manifest_path": "/w/crates/wharf-sync/Cargo.toml",
                "publish": null,
                "metadata": { "docs.rs": { "all-features": true } },
                "features": {
                    "default": [],
                    "std": ["alloc"],
                    "alloc": [],
                    "critical-section": ["dep:critical-section"],
                    "loom": ["dep:loom", "std"],
                    "model": ["loom"],
                    "threads": ["wharf-source/std"],
                },
                "targets": [
                    { "name": "wharf_sync", "kind": ["lib"] },
                    { "name": "counter", "kind": ["test"] },
                    { "name": "needs_std", "kind": ["test"], "required-features": ["std"] },
                    { "name": "loom_counter", "kind": ["test"], "required-features": ["loom"] },
                ],
            },
            {
                "name": "wharf-softdma",
                "manifest_path": "/w/crates/wharf-softdma/Cargo.toml",
                "publish": null,
                "metadata": { "wharf": { "hosted": true } },
                "features": {},
                "targets": [],
            },
            {
                "name": "digits",
                "manifest_path": "/w/examples/digits/Cargo.toml",
                "publish": [],
                "metadata": null,
                "features": { "cli": [] },
                "targets": [],
            },
        ]})
    }

    #[test]
    fn packages_are_read_from_metadata() {
        let packages = packages(&metadata(), Path::new("/w"));
        let facts: Vec<_> = packages
            .iter()
            .map(|p| (p.name.as_str(), p.is_library, p.hosted))
            .collect();
        assert_eq!(
            facts,
            [
                ("wharf-sync", true, false),
                ("wharf-softdma", true, true),
                ("digits", false, false)
            ]
        );
        assert_eq!(packages[0].folder, Path::new("/w/crates/wharf-sync"));
        assert_eq!(packages[0].tests, ["counter", "needs_std"]);
    }

    #[test]
    fn host_features_are_those_that_each_package_declares() {
        let packages = packages(&metadata(), Path::new("/w"));
        assert_eq!(
            Workspace::host_features(&packages),
            "wharf-sync/std,wharf-sync/critical-section,digits/cli"
        );
    }

    #[test]
    fn bare_features_leave_out_whatever_leads_to_std() {
        let packages = packages(&metadata(), Path::new("/w"));
        assert_eq!(packages[0].bare_features(), ["alloc", "critical-section"]);
        assert!(packages[1].bare_features().is_empty());
    }
}
