//! Tells the linker where the board's memory is. On a host there is nothing to tell.

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;

/// An LM3S6965 evaluation board, as QEMU emulates it.
const MEMORY: &str = "\
MEMORY
{
  FLASH : ORIGIN = 0x00000000, LENGTH = 256K
  RAM : ORIGIN = 0x20000000, LENGTH = 64K
}
";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS")? == "none" {
        let out = env::var("OUT_DIR")?;
        fs::write(Path::new(&out).join("memory.x"), MEMORY)?;
        println!("cargo::rustc-link-search={out}");
        // The script of `cortex-m-rt`, which asks for `memory.x`.
        println!("cargo::rustc-link-arg-bins=-Tlink.x");
    }
    Ok(())
}
