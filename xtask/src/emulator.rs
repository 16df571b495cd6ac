//! The boards that firmware runs on here, each emulated by QEMU: which program, which machine, and
//! how long it may take.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::failure::Failure;
use crate::process::{self, Finished, Stream};

/// An emulated board.
#[derive(Debug)]
pub(crate) struct Board {
    /// The target to build for.
    pub(crate) triple: &'static str,
    /// The emulator's program.
    pub(crate) program: &'static str,
    /// In which package Debian and Ubuntu ship it.
    pub(crate) package: &'static str,
    machine: &'static [&'static str],
    /// What firmware may count on, by the names of its features.
    pub(crate) features: &'static [&'static str],
}

/// Of cores with compare-and-swap: they can spin on a lock.
const CAS: &[&str] = &["spin"];

/// A BBC micro:bit: a Cortex-M0, which has no compare-and-swap, with 256 KiB of flash and 16 KiB of RAM.
pub(crate) const MICROBIT: Board = Board {
    triple: "thumbv6m-none-eabi",
    program: "qemu-system-arm",
    package: "qemu-system-arm",
    machine: &["-machine", "microbit"],
    features: &[],
};

/// An LM3S6965 evaluation board: a Cortex-M3 with 256 KiB of flash and 64 KiB of RAM.
pub(crate) const LM3S6965EVB: Board = Board {
    triple: "thumbv7m-none-eabi",
    program: "qemu-system-arm",
    package: "qemu-system-arm",
    machine: &["-machine", "lm3s6965evb", "-cpu", "cortex-m3"],
    features: CAS,
};

/// An Arm MPS2+ with the image AN505: a Cortex-M33 with DMA controllers.
pub(crate) const MPS2_AN505: Board = Board {
    triple: "thumbv8m.main-none-eabi",
    program: "qemu-system-arm",
    package: "qemu-system-arm",
    machine: &["-machine", "mps2-an505"],
    features: CAS,
};

/// QEMU's generic RISC-V machine, without the firmware that it brings.
pub(crate) const RISCV_VIRT: Board = Board {
    triple: "riscv32imac-unknown-none-elf",
    program: "qemu-system-riscv32",
    package: "qemu-system-misc",
    machine: &["-machine", "virt", "-bios", "none"],
    features: CAS,
};

/// Every board.
pub(crate) const BOARDS: [&Board; 4] = [&MICROBIT, &LM3S6965EVB, &MPS2_AN505, &RISCV_VIRT];

/// An image that has not ended by itself by then never will.
const WATCHDOG: Duration = Duration::from_secs(300);

/// What QEMU says of every timer that a firmware leaves alone: no news to anyone.
const IDLE_TIMER: &str = "Timer with period zero, disabling";

impl Board {
    /// Runs an image until it exits through semihosting, showing its output as it comes.
    pub(crate) fn run(
        &self,
        image: &Path,
        mut show: impl FnMut(Stream, &str),
    ) -> Result<Finished, Failure> {
        let mut command = Command::new(self.program);
        command
            .args(self.machine)
            .args(["-nographic", "-monitor", "none"])
            .args(["-semihosting-config", "enable=on,target=native"])
            .arg("-kernel")
            .arg(image);
        process::run(&mut command, WATCHDOG, |stream, line| {
            if line != IDLE_TIMER {
                show(stream, line);
            }
        })
    }
}
