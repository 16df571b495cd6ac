//! The suite under `Critical`, on what the checks make themselves and on statics.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
mod statics;

#[cfg(target_os = "none")]
#[conformance_firmware::entry]
fn main() -> ! {
    use wharf_conformance::{Nesting, run_all};
    use wharf_sync::Critical;

    conformance_firmware::run(|report| {
        let mut tally = run_all::<Critical>(Nesting::Allowed, report);
        tally.add(statics::run(report));
        tally
    })
}

#[cfg(not(target_os = "none"))]
fn main() {
    conformance_firmware::stub()
}
