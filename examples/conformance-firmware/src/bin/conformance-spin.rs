//! The suite under `SpinMulticore`. One core runs it, so that no lock is ever met held: what two of them
//! do to each other is for the model checker.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
#[conformance_firmware::entry]
fn main() -> ! {
    use wharf_conformance::{Nesting, run_all};
    use wharf_sync::SpinMulticore;

    conformance_firmware::run(|report| run_all::<SpinMulticore>(Nesting::Forbidden, report))
}

#[cfg(not(target_os = "none"))]
fn main() {
    conformance_firmware::stub()
}
