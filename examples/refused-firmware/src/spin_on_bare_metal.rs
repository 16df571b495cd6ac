//! Pitfall: a spin lock on a microcontroller, where an interrupt handler may spin on what it has interrupted.
//! Instead: `Critical`; or `SpinMulticore`, whose name says what you promise.
#![no_std]
#![no_main]

use wharf::prelude::*;
use wharf::sync::Spin;

static FRAMES: StaticPool<Spin, 64, 4> = StaticPool::new();

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    let _ = &FRAMES;
    loop {}
}
