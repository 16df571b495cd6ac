//! Files by their paths.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use digits::load::{FILE_LIMIT, FormatError, LoadCause, load_model, load_test_set};
use wharf_meta::archive::ArchiveError;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("data")
        .join(name)
}

/// A path of this test's own; what an earlier run left there is overwritten.
fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn the_real_files_load() {
    let model = load_model(data("digits-mlp.safetensors")).unwrap();
    let set = load_test_set(data("digits-test.safetensors")).unwrap();
    assert_eq!(model.lend().hidden_weight().len(), 8192);
    assert_eq!(set.lend().count(), 360);
}

#[test]
fn a_file_that_is_not_there() {
    let path = data("no-such.safetensors");
    let error = load_model(&path).unwrap_err();
    let LoadCause::Read(cause) = &error.cause else {
        panic!("{error:?}")
    };
    assert_eq!(cause.kind(), ErrorKind::NotFound);
    assert!(
        error
            .to_string()
            .starts_with(&format!("{}: ", path.display()))
    );
    assert_eq!(error.path, path);
}

#[test]
fn a_directory() {
    let error = load_model(data("")).unwrap_err();
    assert!(matches!(error.cause, LoadCause::Read(_)));
}

#[test]
fn a_file_that_is_too_large() {
    // Sparse: it has a length, and takes no room.
    let path = scratch("too-large.safetensors");
    File::create(&path)
        .unwrap()
        .set_len(FILE_LIMIT + 1)
        .unwrap();
    let error = load_test_set(&path).unwrap_err();
    let LoadCause::TooLarge { limit, found } = error.cause else {
        panic!("{error:?}")
    };
    assert_eq!((limit, found), (16_777_216, 16_777_217));
    fs::remove_file(path).unwrap();
}

#[cfg(unix)]
#[test]
fn a_file_without_an_end() {
    let error = load_model("/dev/zero").unwrap_err();
    assert!(matches!(
        error.cause,
        LoadCause::TooLarge {
            found: 16_777_217,
            ..
        }
    ));
}

#[test]
fn a_file_of_nonsense_is_named() {
    let path = scratch("nonsense.safetensors");
    fs::write(&path, b"four").unwrap();
    let error = load_model(&path).unwrap_err();
    let says = "4 bytes, the header's length alone takes 8";
    assert_eq!(error.to_string(), format!("{}: {says}", path.display()));
    let LoadCause::Format(cause) = error.cause else {
        panic!("{says}")
    };
    assert_eq!(
        *cause,
        FormatError::Archive(ArchiveError::TooShort { found: 4 })
    );
    fs::remove_file(path).unwrap();
}
