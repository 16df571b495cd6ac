//! The suites of views, ropes and tensors under `Critical`.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
#[conformance_firmware::entry]
fn main() -> ! {
    use wharf_conformance::run_tensors;
    use wharf_sync::Critical;

    conformance_firmware::run(|report| run_tensors::<Critical>(report))
}

#[cfg(not(target_os = "none"))]
fn main() {
    conformance_firmware::stub()
}
