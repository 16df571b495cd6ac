//! The conformance suite as a firmware image: no heap, no operating system, no unwinding. It reports
//! over semihosting and exits with success if nothing failed.
//!
//! On a host this is a stub that says how to run it.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
mod firmware;

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!(
        "This is firmware. To build it and run it in an emulator, type\n\n    \
         cargo xtask test --only firmware/thumbv7m-none-eabi"
    );
    std::process::exit(2);
}
