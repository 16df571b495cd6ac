//! Vend, reclaim and refusal of a pool with everything inside, under `Critical`.
#![cfg_attr(target_os = "none", no_std, no_main)]

use wharf_backend::StaticPool;
use wharf_bench::image;
use wharf_sync::Critical;

/// All there is.
#[cfg_attr(target_os = "none", unsafe(no_mangle))]
fn _start(pool: &StaticPool<Critical, 64, 8>, size: usize) {
    image::exercise(pool, size);
}

#[cfg(not(target_os = "none"))]
fn main() {
    image::explain();
}
