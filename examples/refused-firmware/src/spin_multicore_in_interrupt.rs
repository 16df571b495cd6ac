//! Pitfall: an interrupt handler spins on a lock that the core which it has interrupted may hold.
//! Instead: `Critical`, whose sections mask interrupts, on every core.
#![no_std]
#![no_main]

use wharf::prelude::*;
use wharf::sync::{IsrSafe, SpinMulticore};

static FRAMES: StaticPool<SpinMulticore, 64, 4> = StaticPool::new();

/// What a driver does where it registers its interrupt.
fn on_interrupt<P: IsrSafe>(_frames: &'static StaticPool<P, 64, 4>) {}

pub fn register() {
    on_interrupt(&FRAMES);
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
