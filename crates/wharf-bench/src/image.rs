//! What the images that are weighed have in common: what they do with a pool and, on bare metal, what a
//! program must have besides.

use core::hint::black_box;

use wharf_backend::{BackendExt, HostBackend};

/// Takes a segment, lets somebody see it, and gives it back; or lets somebody see the refusal.
#[inline(always)]
pub fn exercise<B: HostBackend>(pool: &B, size: usize) {
    match pool.alloc(size) {
        Ok(segment) => {
            black_box(&segment);
        }
        Err(refusal) => {
            black_box(&refusal);
        }
    }
}

/// What the images are on a host.
pub fn explain() {
    #[cfg(not(target_os = "none"))]
    println!("This is an image to be weighed, not to be run: cargo xtask figures");
}

#[cfg(target_os = "none")]
mod bare {
    use core::arch::asm;
    use core::panic::PanicInfo;

    #[panic_handler]
    fn panic(_: &PanicInfo<'_>) -> ! {
        loop {}
    }

    /// Interrupts masked, on the one core there is.
    struct Masked;
    critical_section::set_impl!(Masked);

    #[cfg(target_arch = "arm")]
    // SAFETY: one core; with `PRIMASK` set nothing preempts, and what it was is put back.
    unsafe impl critical_section::Impl for Masked {
        #[inline]
        unsafe fn acquire() -> bool {
            let masked: u32;
            // SAFETY: reads and sets `PRIMASK`, touches nothing else.
            unsafe { asm!("mrs {}, PRIMASK", "cpsid i", out(reg) masked, options(nostack)) };
            masked & 1 == 0
        }
        #[inline]
        unsafe fn release(enabled: bool) {
            if enabled {
                // SAFETY: interrupts were on when the section was entered.
                unsafe { asm!("cpsie i", options(nostack)) };
            }
        }
    }

    #[cfg(target_arch = "riscv32")]
    // SAFETY: one hart; with `mstatus.MIE` clear nothing preempts, and what it was is put back.
    unsafe impl critical_section::Impl for Masked {
        #[inline]
        unsafe fn acquire() -> bool {
            let status: u32;
            // SAFETY: reads `mstatus` and clears its bit `MIE`, touches nothing else.
            unsafe { asm!("csrrci {}, mstatus, 8", out(reg) status, options(nostack)) };
            status & 8 != 0
        }
        #[inline]
        unsafe fn release(enabled: bool) {
            if enabled {
                // SAFETY: interrupts were on when the section was entered.
                unsafe { asm!("csrsi mstatus, 8", options(nostack)) };
            }
        }
    }
}
