//! The suites of launches, relays and read-only tensors under `Unsync`.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
#[conformance_firmware::entry]
fn main() -> ! {
    use wharf_conformance::run_launches;
    use wharf_sync::Unsync;

    conformance_firmware::run(|report| run_launches::<Unsync>(report))
}

#[cfg(not(target_os = "none"))]
fn main() {
    conformance_firmware::stub()
}
