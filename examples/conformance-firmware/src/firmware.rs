//! The image.

use core::fmt::Write;
use core::panic::PanicInfo;

// Its critical sections mask interrupts; linked, but never named.
use cortex_m as _;
use cortex_m_rt::entry;
use cortex_m_semihosting::debug::{self, EXIT_FAILURE, EXIT_SUCCESS};
use cortex_m_semihosting::hio;
use wharf_backend::{Align32, StaticPool};
use wharf_conformance::{
    Nesting, Printer, Report, SourceClaims, Tally, backend, run_all, segment, source,
};
use wharf_source::StaticPoolSource;
use wharf_sync::{Critical, Unsync};

// In `.bss`: no start-up code makes them, and interrupt handlers could share them.
static FRAMES: StaticPool<Critical, 64, 8, Align32> = StaticPool::new();
static BLOCKS: StaticPoolSource<Critical, 2048, 16> = StaticPoolSource::new();

#[entry]
fn main() -> ! {
    let clean = match hio::hstdout() {
        Ok(out) => {
            let mut report = Printer::new(out);
            let tally = suite(&mut report);
            report.finish().is_ok() && tally.is_clean()
        }
        Err(()) => false,
    };
    exit(clean)
}

fn suite(report: &mut dyn Report) -> Tally {
    let mut tally = run_all::<Unsync>(Nesting::Allowed, report);
    tally.add(run_all::<Critical>(Nesting::Allowed, report));
    tally.add(backend("static StaticPool", &FRAMES, report));
    tally.add(segment("Segment<&'static StaticPool>", &FRAMES, report));
    let claims = SourceClaims::POOL;
    let name = "static StaticPoolSource";
    tally.add(source::<Critical, _>(name, &BLOCKS, claims, report));
    tally
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    if let Ok(mut out) = hio::hstderr() {
        // Whether it can be said or not, the exit code tells.
        let _ = writeln!(out, "{info}");
    }
    exit(false)
}

/// Leaves the emulator. Under a debugger, which may go on, there is nothing left to do.
fn exit(clean: bool) -> ! {
    loop {
        debug::exit(if clean { EXIT_SUCCESS } else { EXIT_FAILURE });
    }
}
