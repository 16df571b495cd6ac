//! Suite `conformance/host`: the behaviours that every policy, source, backend and engine must
//! have, over all of them that run on a host.

use crate::report::Tally;
use crate::suite::Context;
use crate::suites::{run as run_command, tally_conformance};
use crate::workspace::Workspace;

/// Where the suite is run on what exists on a host: package and test.
pub(crate) const TESTS: [(&str, &str); 2] = [
    ("wharf-conformance", "host"),
    ("wharf-softdma", "conformance"),
];

pub(crate) fn run(context: &Context<'_>) -> Result<Tally, String> {
    let mut command = context.workspace.cargo("test");
    let mut packages = Vec::new();
    for (name, test) in TESTS {
        command.args(["-p", name, "--test", test]);
        packages.push(context.workspace.package(name)?);
    }
    command.args([
        "--features",
        &Workspace::host_features(packages),
        "--",
        "--nocapture",
    ]);
    Ok(tally_conformance(&run_command(&mut command)?))
}
