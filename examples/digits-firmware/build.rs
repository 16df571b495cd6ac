//! Packs the model into one checksummed binary, because firmware parses no JSON, and sets the linker up.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

use digits::image;
use digits::load::{load_model, load_test_set};

/// Another model than the one shipped, as an absolute path.
const MODEL: &str = "WHARF_DIGITS_MODEL";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let data = here.join("../digits/data");

    let model = env::var_os(MODEL).map_or_else(|| data.join("digits-mlp.safetensors"), Into::into);
    let tests = data.join("digits-test.safetensors");
    let packed = image::encode(&load_model(&model)?.lend(), &load_test_set(&tests)?.lend());
    fs::write(out.join("digits.image"), packed)?;
    println!("cargo:rerun-if-env-changed={MODEL}");
    println!("cargo:rerun-if-changed={}", model.display());
    println!("cargo:rerun-if-changed={}", tests.display());

    println!("cargo:rerun-if-changed=memory.x");
    if env::var("CARGO_CFG_TARGET_OS")? == "none" {
        fs::copy(here.join("memory.x"), out.join("memory.x"))?;
        println!("cargo:rustc-link-search={}", out.display());
        println!("cargo:rustc-link-arg-bins=-Tlink.x");
        println!("cargo:rustc-link-arg-bins=--nmagic");
    }
    Ok(())
}
