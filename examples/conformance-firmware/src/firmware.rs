//! What every image has, and what differs between the targets: the start-up code.

use core::fmt::{self, Write};
use core::panic::PanicInfo;

use semihosting::io::{Stdout, Write as _, stderr, stdout};
use semihosting::process;
use wharf_conformance::{Printer, Report, Tally};

// Their critical sections mask interrupts; linked, but never named.
#[cfg(target_arch = "arm")]
use cortex_m as _;
#[cfg(target_arch = "riscv32")]
use riscv as _;

#[cfg(target_arch = "arm")]
pub use cortex_m_rt::entry;
#[cfg(target_arch = "riscv32")]
pub use riscv_rt::entry;

/// Runs `suite`, reports, and leaves the emulator.
pub fn run(suite: impl FnOnce(&mut dyn Report) -> Tally) -> ! {
    let clean = match stdout() {
        Ok(out) => {
            let mut report = Printer::new(Console(out));
            let tally = suite(&mut report);
            report.finish().is_ok() && tally.is_clean()
        }
        Err(_) => false,
    };
    exit(clean)
}

/// The emulator's terminal, as `core` writes to it.
struct Console(Stdout);

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write_all(text.as_bytes()).map_err(|_| fmt::Error)
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    if let Ok(mut out) = stderr() {
        // Whether it can be said or not, the exit code tells.
        let _ = writeln!(out, "{info}");
    }
    exit(false)
}

fn exit(clean: bool) -> ! {
    process::exit(if clean { 0 } else { 1 })
}
