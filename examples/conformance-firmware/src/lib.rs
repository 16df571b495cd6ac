//! The conformance suite as firmware: no heap, no operating system, no unwinding. An image reports over
//! semihosting and exits with success if nothing failed. Each binary is an image with the checks of one
//! policy, since those of all of them would not fit into the 256 KiB of the smallest board for long; and views, ropes and
//! tensors have one of their own, `conformance-tensors-*`, and so have launches, `conformance-launches-*`.
//!
//! On a host each binary is a stub that says how to run it.
#![cfg_attr(target_os = "none", no_std)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
mod firmware;

#[cfg(target_os = "none")]
pub use firmware::{entry, run};

/// What a binary does on a host.
#[cfg(not(target_os = "none"))]
pub fn stub() -> ! {
    eprintln!(
        "This is firmware. To build it and run it in an emulator, type\n\n    \
         cargo xtask test --only conformance/thumbv7m-none-eabi"
    );
    std::process::exit(2)
}
