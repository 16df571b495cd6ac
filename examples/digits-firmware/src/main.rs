//! The digit classifier in 64 KiB of RAM: two static pools, a static pool of control blocks, the CPU as engine, and
//! the very inference code that the hosted demo runs on a device with a queue.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![deny(unsafe_code)]

#[cfg(target_os = "none")]
mod firmware;

#[cfg(not(target_os = "none"))]
fn main() {
    println!("This is firmware. Run it with: cargo xtask demo --target thumbv7m-none-eabi");
}
