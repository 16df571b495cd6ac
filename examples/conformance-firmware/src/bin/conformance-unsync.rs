//! The suite under `Unsync`.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
#[conformance_firmware::entry]
fn main() -> ! {
    use wharf_conformance::{Nesting, run_all};
    use wharf_sync::Unsync;

    conformance_firmware::run(|report| run_all::<Unsync>(Nesting::Allowed, report))
}

#[cfg(not(target_os = "none"))]
fn main() {
    conformance_firmware::stub()
}
