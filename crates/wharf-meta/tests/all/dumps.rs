//! Dumps, read back by a reader of `.npy` written from NumPy's specification, and by a JSON parser.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;

use crate::common::{Device, Host, host, pattern};
use proptest::prelude::*;
use serde_json::Value;
use wharf_meta::dump::{Dump, DumpError};
use wharf_meta::{BindError, DType, ModelTensors, Shape, ShortName, TensorInfo, TensorSet, Typed};
use wharf_source::HeapSource;
use wharf_tensor::{Tensor, TensorError};

/// What a `.npy` file holds.
#[derive(Debug, PartialEq)]
struct Npy {
    descr: String,
    shape: Vec<usize>,
    data: Vec<u8>,
}

/// Reads a file as `numpy.lib.format` describes version 1.0, and nothing else.
fn read_npy(file: &[u8]) -> Npy {
    let rest = file
        .strip_prefix(b"\x93NUMPY\x01\x00")
        .expect("magic and version");
    let (length, rest) = rest.split_first_chunk::<2>().unwrap();
    let (header, data) = rest.split_at(usize::from(u16::from_le_bytes(*length)));
    assert_eq!((file.len() - data.len()) % 64, 0, "the data is aligned");
    let header = std::str::from_utf8(header).unwrap();
    assert!(header.is_ascii());
    let literal = header
        .strip_suffix('\n')
        .expect("a newline ends it")
        .trim_end_matches(' ');
    let literal = literal
        .strip_prefix('{')
        .unwrap()
        .strip_suffix('}')
        .unwrap();
    // Keys in alphabetical order, as the specification asks of writers.
    let rest = literal.strip_prefix("'descr': '").unwrap();
    let (descr, rest) = rest.split_once("', ").unwrap();
    let rest = rest.strip_prefix("'fortran_order': False, ").unwrap();
    let rest = rest.strip_prefix("'shape': (").unwrap();
    let (tuple, rest) = rest.split_once(')').unwrap();
    assert_eq!(rest, ", ");
    let axes: Vec<&str> = tuple.split(',').map(str::trim).collect();
    let shape: Vec<usize> = match axes.as_slice() {
        [""] => vec![],
        // `(5)` is a number to Python, `(5,)` a tuple.
        [axis, ""] => vec![axis.parse().unwrap()],
        [only] => panic!("({only}) is no tuple"),
        axes => axes.iter().map(|axis| axis.parse().unwrap()).collect(),
    };
    Npy {
        descr: descr.to_owned(),
        shape,
        data: data.to_vec(),
    }
}

fn files(directory: &Path) -> BTreeSet<String> {
    let name =
        |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    fs::read_dir(directory).unwrap().map(name).collect()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn typed(bytes: &[u8], dtype: DType, axes: &[usize]) -> Typed<Host> {
    Typed::new(host(bytes), dtype, Shape::new(axes).unwrap()).unwrap()
}

#[test]
fn a_file_is_what_numpy_writes() {
    let scratch = tempfile::tempdir().unwrap();
    let mut dump = Dump::create(scratch.path()).unwrap();
    let path = dump
        .npy("x", &typed(&[1, 2, 3, 4, 5, 6], DType::U16, &[3]))
        .unwrap();
    // As `numpy.save` writes `array([0x201, 0x403, 0x605], dtype='<u2')`.
    let mut expected = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    expected.extend(b"{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }");
    expected.resize(127, b' ');
    expected.extend(b"\n\x01\x02\x03\x04\x05\x06");
    assert_eq!(fs::read(path).unwrap(), expected);
}

#[test]
fn every_type_and_rank_is_described() {
    let scratch = tempfile::tempdir().unwrap();
    let mut dump = Dump::create(scratch.path()).unwrap();
    let descriptions = [
        "<u8", "|i1", "|u1", "<i2", "<u2", "|V2", "<f2", "<i4", "<u4", "<f4", "<f4", "<i8", "|V1",
        "|V1", "|V1",
    ];
    for (dtype, descr) in DType::ALL[1..].iter().zip(descriptions) {
        for axes in [&[][..], &[2], &[0], &[2, 3], &[1, 1, 2, 1, 3, 1, 1, 1]] {
            let bytes = pattern(axes.iter().product::<usize>() * dtype.size().unwrap());
            let path = dump.npy("t", &typed(&bytes, *dtype, axes)).unwrap();
            let read = read_npy(&fs::read(path).unwrap());
            let expected = Npy {
                descr: descr.to_owned(),
                shape: axes.to_vec(),
                data: bytes,
            };
            assert_eq!(read, expected, "{dtype} {axes:?}");
        }
    }
}

#[test]
fn the_longest_header_still_fits_version_1() {
    let axes = [0, usize::MAX, 1, 1, 1, 1, 1, 1];
    let scratch = tempfile::tempdir().unwrap();
    let mut dump = Dump::create(scratch.path()).unwrap();
    let path = dump.npy("t", &typed(&[], DType::U8, &axes)).unwrap();
    assert_eq!(read_npy(&fs::read(path).unwrap()).shape, axes);
}

#[test]
fn a_model_is_dumped_with_an_index() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("made/on/the/way");
    let infos = [
        TensorInfo::input("image", DType::U8, &[2, 3]).unwrap(),
        TensorInfo::opaque("state", wharf_meta::Usage::In, 5).unwrap(),
        TensorInfo::output("scores", DType::F32, &[1]).unwrap(),
    ];
    let mut set = TensorSet::new(&Host::new(HeapSource));
    for (name, bytes) in [
        ("scores", &[0, 0, 0, 63][..]),
        ("image", b"pixels"),
        ("state", b"state"),
    ] {
        set.insert(name, host(bytes)).unwrap();
    }
    let mut dump = Dump::create(&directory).unwrap();
    dump.set_model("digits \"v2\"\n");
    dump.set(&set, ModelTensors::new(&infos).unwrap()).unwrap();
    let index = dump.finish().unwrap();

    let expected = [
        "image.bin",
        "image.npy",
        "state.bin",
        "scores.bin",
        "scores.npy",
        "index.json",
    ];
    assert_eq!(files(&directory), names(&expected));
    assert_eq!(fs::read(directory.join("image.bin")).unwrap(), b"pixels");
    assert_eq!(
        read_npy(&fs::read(directory.join("scores.npy")).unwrap()).data,
        [0, 0, 0, 63]
    );

    let index: Value = serde_json::from_slice(&fs::read(index).unwrap()).unwrap();
    assert_eq!(index["model"], "digits \"v2\"\n");
    assert_eq!(index["files"].as_array().unwrap().len(), 5);
    assert_eq!(
        index["files"][1],
        serde_json::json!({
            "name": "image", "file": "image.npy", "size": 6, "dtype": "u8", "shape": [2, 3],
            // p i x e l s: the bytes sum to 661, so 0x296 with the one at the start; their running sums to 0x90d.
            "adler32": "090d0296",
        })
    );
    // The bytes alone do not say what they are; the index does.
    let raw = &index["files"][0];
    assert_eq!(
        (&raw["file"], &raw["dtype"]),
        (&"image.bin".into(), &"u8".into())
    );
    assert_eq!(raw["shape"], serde_json::json!([2, 3]));
    assert_eq!(index["files"][2]["shape"], Value::Null);
    assert_eq!(index["files"][2]["dtype"], "unknown");
}

#[test]
fn tensors_larger_than_the_buffer_come_whole_from_a_device() {
    let scratch = tempfile::tempdir().unwrap();
    let device = Device::open();
    let bytes = pattern((16 << 10) * 3 + 17);
    let mut dump = Dump::create(scratch.path()).unwrap();
    let path = dump.raw("big", &device.tensor(&bytes)).unwrap();
    assert_eq!(fs::read(path).unwrap(), bytes);
}

#[test]
fn a_set_that_does_not_fit_is_not_begun() {
    let scratch = tempfile::tempdir().unwrap();
    let infos = [
        TensorInfo::input("a", DType::U8, &[1]).unwrap(),
        TensorInfo::input("b", DType::U8, &[1]).unwrap(),
    ];
    let mut set = TensorSet::new(&Host::new(HeapSource));
    set.insert("a", host(b"a")).unwrap();
    let mut dump = Dump::create(scratch.path()).unwrap();
    let refused = dump.set(&set, &infos).unwrap_err();
    assert!(
        matches!(refused, DumpError::Bind(BindError::Missing { .. })),
        "{refused}"
    );
    assert!(files(scratch.path()).is_empty());
}

#[test]
fn what_fails_leaves_no_file_and_keeps_the_earlier_one() {
    let scratch = tempfile::tempdir().unwrap();
    let mut dump = Dump::create(scratch.path()).unwrap();
    let tensor = host(b"first");
    let path = dump.raw("t", &tensor).unwrap();
    drop(dump);

    let mut dump = Dump::create(scratch.path()).unwrap();
    let guard = tensor.lend_mut().unwrap();
    let refused = dump.raw("t", &tensor).unwrap_err();
    drop(guard);
    let DumpError::Tensor { name, error } = &refused else {
        panic!("{refused}");
    };
    assert_eq!(*name, ShortName::new("t"));
    assert!(matches!(error, TensorError::Guarded { .. }));
    assert_eq!(refused.to_string(), format!("`t`: {error}"));
    assert_eq!(refused.source().unwrap().to_string(), error.to_string());
    assert_eq!(files(scratch.path()), names(&["t.bin"]));
    assert_eq!(fs::read(&path).unwrap(), b"first");
    let refused = dump.raw("gone", &Tensor::<Host>::empty()).unwrap_err();
    assert!(matches!(
        refused,
        DumpError::Tensor {
            error: TensorError::NoStorage,
            ..
        }
    ));

    // A name that failed is not taken.
    tensor.write(0, b"again").unwrap();
    assert_eq!(dump.raw("t", &tensor).unwrap(), path);
    assert_eq!(fs::read(&path).unwrap(), b"again");
    dump.finish().unwrap();
    assert_eq!(files(scratch.path()), names(&["t.bin", "index.json"]));
}

#[test]
fn a_directory_that_cannot_be_is_told() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("file");
    fs::write(&file, b"").unwrap();
    let refused = Dump::create(file.join("below")).unwrap_err();
    assert!(
        matches!(&refused, DumpError::Io { path, .. } if path.starts_with(&file)),
        "{refused}"
    );
    // One that goes away.
    let away = scratch.path().join("away");
    let mut dump = Dump::create(&away).unwrap();
    fs::remove_dir(&away).unwrap();
    assert!(matches!(
        dump.raw("t", &host(b"")),
        Err(DumpError::Io { .. })
    ));
    assert!(matches!(dump.finish(), Err(DumpError::Io { .. })));
}

#[test]
fn temporary_directories_are_new_ones() {
    let (first, second) = (
        Dump::create_temporary().unwrap(),
        Dump::create_temporary().unwrap(),
    );
    assert_ne!(first.directory(), second.directory());
    for dump in [first, second] {
        assert!(files(dump.directory()).is_empty());
        fs::remove_dir(dump.directory()).unwrap();
    }
}

/// Somebody has laid out links where the files will be, to have others written over.
#[cfg(unix)]
#[test]
fn links_are_not_followed() {
    use std::os::unix::fs::symlink;
    let scratch = tempfile::tempdir().unwrap();
    let victim = scratch.path().join("victim");
    fs::write(&victim, b"precious").unwrap();
    let directory = scratch.path().join("dump");
    fs::create_dir(&directory).unwrap();
    for name in ["t.bin", ".t.bin.part"] {
        symlink(&victim, directory.join(name)).unwrap();
    }
    let mut dump = Dump::create(&directory).unwrap();
    let path = dump.raw("t", &host(b"bytes")).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"bytes");
    assert!(!fs::symlink_metadata(&path).unwrap().is_symlink());
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    assert_eq!(files(&directory), names(&["t.bin"]));
}

#[test]
fn hostile_names_stay_in_the_directory_and_apart() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("dump");
    let long = "x".repeat(64 << 10);
    let longer = format!("{long}x");
    let hostile = [
        "",
        ".",
        "..",
        "../up",
        "/etc/passwd",
        "a/b",
        "a%2Fb",
        "a\0b",
        "con",
        "CON",
        "W",
        "w",
        "index.json",
        "index",
        &long,
        &longer,
        "😀",
        "\u{202e}",
        "a\\b",
        "~",
        "x~2",
        "t.bin",
        ".t.bin.part",
    ];
    let mut dump = Dump::create(&directory).unwrap();
    for name in hostile {
        dump.raw(name, &host(name.as_bytes())).unwrap();
    }
    let index = dump.finish().unwrap();
    assert_eq!(files(scratch.path()), names(&["dump"]), "nothing beside it");
    assert_eq!(files(&directory).len(), hostile.len() + 1);

    let text = fs::read_to_string(index).unwrap();
    // What need not be escaped is not.
    assert!(text.contains(r#""name": ".t.bin.part""#), "{text}");
    assert!(
        text.chars()
            .all(|c| c.is_ascii_graphic() || c == ' ' || c == '\n')
    );
    let index: Value = serde_json::from_str(&text).unwrap();
    for (entry, name) in index["files"].as_array().unwrap().iter().zip(hostile) {
        assert_eq!(entry["name"], name);
        let file = entry["file"].as_str().unwrap();
        assert_eq!(
            fs::read(directory.join(file)).unwrap(),
            name.as_bytes(),
            "{file}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn each_tensor_is_found_again_through_the_index(
        names in prop::collection::btree_set(prop_oneof![any::<String>(), "[aA./~%\\\\\"]{0,3}"], 0..12)
    ) {
        let scratch = tempfile::tempdir().unwrap();
        let mut dump = Dump::create(scratch.path()).unwrap();
        for name in &names {
            dump.raw(name, &host(name.as_bytes())).unwrap();
        }
        let index: Value = serde_json::from_slice(&fs::read(dump.finish().unwrap()).unwrap()).unwrap();
        let entries = index["files"].as_array().unwrap();
        prop_assert_eq!(entries.len(), names.len());
        for (entry, name) in entries.iter().zip(&names) {
            prop_assert_eq!(entry["name"].as_str(), Some(name.as_str()));
            let file = scratch.path().join(entry["file"].as_str().unwrap());
            prop_assert_eq!(&fs::read(file).unwrap(), name.as_bytes());
        }
    }
}
