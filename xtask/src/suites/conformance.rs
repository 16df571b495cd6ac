//! Suite `conformance/host`: the behaviours that every policy, source, backend and engine must
//! have, over all of them that run on a host.

use crate::report::Tally;
use crate::suite::Context;
use crate::suites::{run as run_command, tally_conformance};
use crate::workspace::Workspace;

/// Where the suite lives: package and test.
pub(crate) const TEST: (&str, &str) = ("wharf-conformance", "host");

pub(crate) fn run(context: &Context<'_>) -> Result<Tally, String> {
    let (name, test) = TEST;
    let package = context.workspace.package(name)?;
    let mut command = context.workspace.cargo("test");
    command.args(["-p", name, "--test", test]);
    command.args([
        "--features",
        &Workspace::host_features([package]),
        "--",
        "--nocapture",
    ]);
    Ok(tally_conformance(&run_command(&mut command)?))
}
