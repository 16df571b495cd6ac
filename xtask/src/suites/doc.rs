//! Suite `doc`: the examples in the documentation run, and the documentation builds without a
//! warning, with the features of a host and, of each library by itself, with none (a check more for each).

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

    // One by one, because packages built together share their features; and then a page must not point to what is not there.
    for package in workspace.libraries().filter(|package| !package.hosted) {
        let mut pages = workspace.cargo("doc");
        pages.args(["--no-deps", "-p", &package.name]);
        pages.env("RUSTDOCFLAGS", "-D warnings");
        let what = format!("cargo doc -p {}, no features", package.name);
        tally.add(check(&what, &mut pages)?);
    }
    Ok(tally)
}
