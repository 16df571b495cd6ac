//! Tells the linker where the board's memory is. On a host there is nothing to tell.

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;

/// The boards, as QEMU emulates them, one for each target. Where memory is scarce the stack lies below
/// everything else, so that outgrowing it is a fault and not a write to somebody's statics.
const BOARDS: [(&str, &str); 4] = [
    // A BBC micro:bit.
    (
        "thumbv6m-none-eabi",
        "\
MEMORY
{
  FLASH : ORIGIN = 0x00000000, LENGTH = 256K
  STACK : ORIGIN = 0x20000000, LENGTH = 12K
  RAM : ORIGIN = 0x20003000, LENGTH = 4K
}
_stack_start = ORIGIN(STACK) + LENGTH(STACK);
_stack_end = ORIGIN(STACK);
",
    ),
    // An LM3S6965 evaluation board.
    (
        "thumbv7m-none-eabi",
        "\
MEMORY
{
  FLASH : ORIGIN = 0x00000000, LENGTH = 256K
  STACK : ORIGIN = 0x20000000, LENGTH = 48K
  RAM : ORIGIN = 0x2000C000, LENGTH = 16K
}
_stack_start = ORIGIN(STACK) + LENGTH(STACK);
_stack_end = ORIGIN(STACK);
",
    ),
    // An Arm MPS2+ with the FPGA image AN505, by its secure addresses.
    (
        "thumbv8m.main-none-eabi",
        "\
MEMORY
{
  FLASH : ORIGIN = 0x10000000, LENGTH = 4M
  STACK : ORIGIN = 0x38000000, LENGTH = 64K
  RAM : ORIGIN = 0x38010000, LENGTH = 1M
}
_stack_start = ORIGIN(STACK) + LENGTH(STACK);
_stack_end = ORIGIN(STACK);
",
    ),
    // QEMU's own `virt`, which starts at the beginning of its memory.
    (
        "riscv32imac-unknown-none-elf",
        "\
MEMORY
{
  RAM : ORIGIN = 0x80000000, LENGTH = 4M
}
REGION_ALIAS(\"REGION_TEXT\", RAM);
REGION_ALIAS(\"REGION_RODATA\", RAM);
REGION_ALIAS(\"REGION_DATA\", RAM);
REGION_ALIAS(\"REGION_BSS\", RAM);
REGION_ALIAS(\"REGION_HEAP\", RAM);
REGION_ALIAS(\"REGION_STACK\", RAM);
",
    ),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS")? != "none" {
        return Ok(());
    }
    let target = env::var("TARGET")?;
    let Some((_, memory)) = BOARDS.iter().find(|(name, _)| *name == target) else {
        return Err(format!("no board for {target}: add one to `BOARDS`").into());
    };
    let out = env::var("OUT_DIR")?;
    fs::write(Path::new(&out).join("memory.x"), memory)?;
    println!("cargo::rustc-link-search={out}");
    // The start-up crate's script wants `memory.x`: Arm's asks for it itself.
    if env::var("CARGO_CFG_TARGET_ARCH")? == "riscv32" {
        println!("cargo::rustc-link-arg-bins=-Tmemory.x");
    }
    println!("cargo::rustc-link-arg-bins=-Tlink.x");
    Ok(())
}
