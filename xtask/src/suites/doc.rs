//! Suite `doc`: the examples in the documentation run, and the documentation builds without a
//! warning (one more check).

use crate::report::Tally;
use crate::suite::Context;
use crate::suites::{check, libtest};
use crate::workspace::Workspace;

pub(crate) fn run(context: &Context<'_>) -> Result<Tally, String> {
    let workspace = context.workspace;
    let features = Workspace::host_features(&workspace.packages);

    let mut examples = workspace.cargo("test");
    examples.args([
        "--doc",
        "--workspace",
        "--no-fail-fast",
        "--features",
        &features,
    ]);
    let mut tally = libtest(&mut examples)?;

    let mut pages = workspace.cargo("doc");
    pages.args(["--no-deps", "--workspace", "--features", &features]);
    pages.env("RUSTDOCFLAGS", "-D warnings");
    tally.add(check("cargo doc", &mut pages)?);
    Ok(tally)
}
