//! Construction over a given slab, vend, reclaim and refusal, under `SpinMulticore`: for cores with compare-and-swap.
#![cfg_attr(target_os = "none", no_std, no_main)]

use core::hint::black_box;
use core::mem::MaybeUninit;

use wharf_backend::{PoolBackend, SlotControl};
use wharf_bench::image;
#[cfg(not(target_os = "none"))]
use wharf_sync::Spin as Policy;
#[cfg(target_os = "none")]
use wharf_sync::SpinMulticore as Policy;

/// All there is.
#[cfg_attr(target_os = "none", unsafe(no_mangle))]
fn _start(slab: &mut [MaybeUninit<u8>], control: &mut [SlotControl<Policy>], size: usize) {
    match PoolBackend::new(slab, control, 64, 8) {
        Ok(pool) => image::exercise(black_box(&pool), size),
        Err(error) => {
            black_box(&error);
        }
    }
}

#[cfg(not(target_os = "none"))]
fn main() {
    image::explain();
}
