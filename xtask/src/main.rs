//! Every developer task of the workspace.
fn main() {}
