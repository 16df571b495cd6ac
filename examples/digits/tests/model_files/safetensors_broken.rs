//! `.safetensors` files that must be refused, each with the error that names what is wrong.

use digits::FieldError;
use digits::load::{FormatError, OwnedModel, OwnedTestSet};
use wharf_meta::archive::{ArchiveError, StoredDType};
use wharf_meta::{DType, Shape, ShortName};

use crate::forge::{
    MODEL_DATA, MODEL_FILE, TEST_FILE, entry, file, file_claiming, model_entries, model_file,
    test_file,
};

fn model_error(file: &[u8]) -> FormatError {
    OwnedModel::from_safetensors(file).unwrap_err()
}

/// What is wrong with a file of any tensors.
fn archive_error(file: &[u8]) -> ArchiveError {
    let FormatError::Archive(error) = model_error(file) else {
        panic!("the file is none")
    };
    error
}

fn test_set_error(file: &[u8]) -> FormatError {
    OwnedTestSet::from_safetensors(file).unwrap_err()
}

/// The error of a sound model file with one entry replaced.
fn with_entry(index: usize, entry: String) -> FormatError {
    let mut entries = model_entries();
    entries[index] = entry;
    model_error(&model_file(&entries, MODEL_DATA))
}

#[test]
fn the_forged_files_are_sound_before_they_are_broken() {
    assert!(OwnedModel::from_safetensors(&model_file(&model_entries(), MODEL_DATA)).is_ok());
    assert!(OwnedTestSet::from_safetensors(&test_file(&[16; 128], &[0, 9], &[9, 0])).is_ok());
}

#[test]
fn every_truncation_of_the_real_files_is_refused() {
    for whole in [MODEL_FILE, TEST_FILE] {
        // The error of the right kind of file: a model is read as one, a test set as the other.
        let read = |part| match whole.len() {
            10_104 => OwnedModel::from_safetensors(part).map(drop),
            _ => OwnedTestSet::from_safetensors(part).map(drop),
        };
        let header = u64::from_le_bytes(whole[..8].try_into().unwrap());
        let data_from = 8 + usize::try_from(header).unwrap();
        for found in 0..whole.len() {
            let error = read(&whole[..found]).unwrap_err();
            if found < 8 {
                assert_eq!(error, ArchiveError::TooShort { found }.into());
            } else if found < data_from {
                let available = found as u64 - 8;
                assert_eq!(
                    error,
                    ArchiveError::HeaderPastEnd {
                        length: header,
                        available
                    }
                    .into()
                );
            } else {
                let FormatError::Archive(ArchiveError::PastEnd { end, available, .. }) = error
                else {
                    panic!("{error:?}");
                };
                assert_eq!(available, found - data_from);
                assert!(end > available);
            }
        }
        assert!(read(whole).is_ok());
    }
}

#[test]
fn a_header_length_that_wraps_or_lies() {
    // With 8 added to it, the first wraps to 7 and the second to exactly the file's start.
    for length in [u64::MAX, u64::MAX - 7, i64::MAX as u64, 1 << 32, 3] {
        assert_eq!(
            archive_error(&file_claiming(length, "{}", b"")),
            ArchiveError::HeaderPastEnd {
                length,
                available: 2
            }
        );
    }
}

#[test]
fn a_header_that_is_no_json_object() {
    let deep = "[".repeat(60_000);
    for header in [
        "",
        "{",
        "[]",
        "null",
        "{}}",
        "{images}",
        "\u{0}",
        deep.as_str(),
    ] {
        let error = archive_error(&file(header, b""));
        let ArchiveError::Header { reason } = &error else {
            panic!("{header}: {error:?}")
        };
        assert!(reason.contains("line 1 column"), "{reason}");
    }
    // Not even text.
    let error = archive_error(&[&2u64.to_le_bytes()[..], &[0xff, 0xfe]].concat());
    assert!(matches!(error, ArchiveError::Header { .. }));
    // Some other file altogether: its first bytes make a length.
    let error = archive_error(b"\x7fELF\x02\x01\x01\0 and so on");
    assert_eq!(
        error,
        ArchiveError::HeaderPastEnd {
            length: 0x0001_0102_464c_457f,
            available: 10
        }
    );
}

#[test]
fn tensors_that_are_missing() {
    assert_eq!(
        model_error(&file("{}", b"")),
        FormatError::MissingTensor {
            field: "hidden.weight"
        },
    );
    let tensors = [
        ("hidden.weight", "[32,64]", 8192),
        ("hidden.bias", "[32]", 128),
        ("output.weight", "[10,32]", 1280),
        ("output.bias", "[10]", 40),
    ];
    for (field, ..) in tensors {
        let mut end = 0;
        let others = tensors.into_iter().filter(|(name, ..)| *name != field);
        let entries: Vec<String> = others
            .map(|(name, shape, len)| {
                end += len;
                entry(name, "F32", shape, end - len, end)
            })
            .collect();
        let error = model_error(&model_file(&entries, usize::try_from(end).unwrap()));
        assert_eq!(error, FormatError::MissingTensor { field });
        assert_eq!(error.field(), Some(field));
    }
}

#[test]
fn tensors_that_do_not_belong() {
    let mut entries = model_entries().to_vec();
    entries.push(entry("hidden.scale", "F32", "[1]", 9640, 9644));
    let expected = vec![
        "hidden.weight",
        "hidden.bias",
        "output.weight",
        "output.bias",
    ];
    assert_eq!(
        model_error(&model_file(&entries, MODEL_DATA + 4)),
        FormatError::UnexpectedTensor {
            field: ShortName::new("hidden.scale"),
            expected
        },
    );
    // Each real file, taken for the other.
    assert_eq!(test_set_error(MODEL_FILE).field(), Some("hidden.bias"));
    assert_eq!(model_error(TEST_FILE).field(), Some("expected"));
}

#[test]
fn a_tensor_that_is_there_twice() {
    let mut entries = model_entries().to_vec();
    entries.push(entry("hidden.bias", "F32", "[32]", 0, 128));
    assert_eq!(
        archive_error(&model_file(&entries, MODEL_DATA)),
        ArchiveError::NameTwice {
            name: ShortName::new("hidden.bias")
        },
    );
}

#[test]
fn an_entry_of_the_wrong_form() {
    let bodies = [
        "1",
        "{}",
        r#"{"dtype":"F31","shape":[32],"data_offsets":[8192,8320]}"#,
        r#"{"dtype":"F32","shape":32,"data_offsets":[8192,8320]}"#,
        r#"{"dtype":"F32","shape":[-32],"data_offsets":[8192,8320]}"#,
        r#"{"dtype":"F32","shape":[32.0],"data_offsets":[8192,8320]}"#,
        r#"{"dtype":"F32","shape":[32],"data_offsets":[-8192,8320]}"#,
        r#"{"dtype":"F32","shape":[32],"data_offsets":[8192]}"#,
        r#"{"dtype":"F32","shape":[32],"data_offsets":[8192,8320,8320]}"#,
        // One more than fits 64 bits.
        r#"{"dtype":"F32","shape":[32],"data_offsets":[8192,18446744073709551616]}"#,
        // Two values under one key.
        r#"{"dtype":"F32","shape":[1],"shape":[32],"data_offsets":[8192,8320]}"#,
    ];
    for body in bodies {
        let error = with_entry(1, format!(r#""hidden.bias":{body}"#));
        assert!(
            matches!(error, FormatError::Archive(ArchiveError::Entry { .. })),
            "{body}: {error:?}"
        );
        assert_eq!(error.field(), Some("hidden.bias"));
    }
}

#[test]
fn wrong_types_and_shapes() {
    assert_eq!(
        with_entry(1, entry("hidden.bias", "I32", "[32]", 8192, 8320)),
        FormatError::WrongDtype {
            field: "hidden.bias",
            expected: DType::F32,
            found: StoredDType::I32
        },
    );
    let mut images = test_file(&[0; 64], &[0], &[0]);
    let dtype = images
        .windows(4)
        .position(|part| part == b"\"U8\"")
        .unwrap();
    images[dtype + 1] = b'I';
    assert_eq!(
        test_set_error(&images),
        FormatError::WrongDtype {
            field: "images",
            expected: DType::U8,
            found: StoredDType::I8
        },
    );
    // The right number of elements, but turned over, flattened, or in one more dimension.
    for (shape, found) in [
        ("[64,32]", &[64, 32][..]),
        ("[2048]", &[2048]),
        ("[1,32,64]", &[1, 32, 64]),
    ] {
        assert_eq!(
            with_entry(0, entry("hidden.weight", "F32", shape, 0, 8192)),
            FormatError::WrongShape {
                field: "hidden.weight",
                expected: &[Some(32), Some(64)],
                found: Shape::new(found).unwrap(),
            },
        );
    }
    // Another number of them, the third one such that it wraps to nothing.
    for (shape, expected) in [
        ("[]", 4),
        ("[32,0]", 0),
        ("[4294967296,4294967296]", u64::MAX),
    ] {
        assert_eq!(
            with_entry(0, entry("hidden.weight", "F32", shape, 0, 8192)),
            FormatError::Archive(ArchiveError::Extent {
                name: ShortName::new("hidden.weight"),
                expected,
                found: 8192
            }),
        );
    }
}

#[test]
fn offsets_that_lie() {
    let bias = |begin, end| {
        let mut entries = model_entries();
        entries[1] = entry("hidden.bias", "F32", "[32]", begin, end);
        archive_error(&model_file(&entries, MODEL_DATA))
    };
    let name = ShortName::new("hidden.bias");
    assert_eq!(
        bias(8320, 8192),
        ArchiveError::OffsetsReversed {
            name,
            begin: 8320,
            end: 8192
        },
    );
    assert_eq!(
        bias(9640, 9768),
        ArchiveError::PastEnd {
            name,
            end: 9768,
            available: 9640
        },
    );
    assert_eq!(
        bias(u64::MAX - 128, u64::MAX),
        ArchiveError::PastEnd {
            name,
            end: usize::MAX,
            available: 9640
        },
    );
    assert_eq!(
        bias(8192, 8319),
        ArchiveError::Extent {
            name,
            expected: 128,
            found: 127
        }
    );
    assert_eq!(
        bias(8192, 8192),
        ArchiveError::Extent {
            name,
            expected: 128,
            found: 0
        }
    );
    // One byte early, and wholly within the matrix; the second matrix is then the first to clash.
    assert_eq!(
        bias(8191, 8319),
        ArchiveError::Overlap {
            name,
            begin: 8191,
            previous_end: 8192
        },
    );
    assert_eq!(
        bias(128, 256),
        ArchiveError::Overlap {
            name,
            begin: 128,
            previous_end: 8192
        }
    );
}

#[test]
fn data_that_belongs_to_no_tensor() {
    let mut entries = model_entries();
    entries[3] = entry("output.bias", "F32", "[10]", 9604, 9644);
    assert_eq!(
        archive_error(&model_file(&entries, MODEL_DATA + 4)),
        ArchiveError::Gap {
            name: ShortName::new("output.bias"),
            begin: 9604,
            previous_end: 9600
        },
    );
    assert_eq!(
        archive_error(&model_file(&model_entries(), MODEL_DATA + 1)),
        ArchiveError::TrailingBytes {
            end: 9640,
            available: 9641
        },
    );
    let entries = [
        entry("hidden.weight", "F32", "[32,64]", 1, 8193),
        entry("hidden.bias", "F32", "[32]", 8193, 8321),
        entry("output.weight", "F32", "[10,32]", 8321, 9601),
        entry("output.bias", "F32", "[10]", 9601, 9641),
    ];
    assert_eq!(
        archive_error(&model_file(&entries, MODEL_DATA + 1)),
        ArchiveError::Gap {
            name: ShortName::new("hidden.weight"),
            begin: 1,
            previous_end: 0
        },
    );
}

#[test]
fn values_without_a_meaning() {
    for (value, bits) in [(f32::NAN, 0x7fc0_0000), (f32::INFINITY, 0x7f80_0000)] {
        let mut broken = MODEL_FILE.to_vec();
        // The last float of the file is the last of `output.weight`.
        let at = broken.len() - 4;
        broken[at..].copy_from_slice(&value.to_le_bytes());
        let error = FieldError::NotFinite {
            field: "output.weight",
            index: 319,
            bits,
        };
        assert_eq!(model_error(&broken), FormatError::Field(error));
    }
    let too_large = |field, index, limit, found| {
        FormatError::Field(FieldError::TooLarge {
            field,
            index,
            limit,
            found,
        })
    };
    assert_eq!(
        test_set_error(&test_file(&[0; 64], &[10], &[0])),
        too_large("labels", 0, 9, 10),
    );
    assert_eq!(
        test_set_error(&test_file(&[0; 64], &[0], &[11])),
        too_large("expected", 0, 9, 11),
    );
    assert_eq!(
        test_set_error(&test_file(&[17; 64], &[0], &[0])),
        too_large("images", 0, 16, 17),
    );
}

#[test]
fn counts_that_differ() {
    let length = |field, expected, found| {
        FormatError::Field(FieldError::Length {
            field,
            expected,
            found,
        })
    };
    assert_eq!(
        test_set_error(&test_file(&[0; 128], &[0], &[0, 0])),
        length("labels", 2, 1)
    );
    assert_eq!(
        test_set_error(&test_file(&[0; 128], &[0; 2], &[0; 3])),
        length("expected", 2, 3)
    );
    assert_eq!(
        test_set_error(&test_file(&[], &[], &[])),
        FormatError::Field(FieldError::Empty { field: "images" }),
    );
    // A count whose size in bytes wraps to nothing, as the offsets claim it is.
    let header = format!(
        "{{{},{},{}}}",
        entry("images", "U8", "[288230376151711744,64]", 0, 0),
        entry("labels", "U8", "[0]", 0, 0),
        entry("expected", "U8", "[0]", 0, 0),
    );
    assert_eq!(
        test_set_error(&file(&header, b"")),
        FormatError::Archive(ArchiveError::Extent {
            name: ShortName::new("images"),
            expected: u64::MAX,
            found: 0
        }),
    );
}

#[test]
fn errors_can_be_printed_to_a_terminal() {
    let name = format!(r"\u001b[2J{}", "x".repeat(1000));
    let error = model_error(&file(
        &format!("{{{}}}", entry(&name, "F32", "[1]", 0, 4)),
        b"abcd",
    ));
    let FormatError::UnexpectedTensor { field, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(
        field.to_string(),
        format!(r"`\u{{1b}}[2J{}…` (1004 bytes)", "x".repeat(58))
    );
    assert!(!error.to_string().contains('\u{1b}'));

    assert_eq!(
        with_entry(0, entry("hidden.weight", "F32", "[64,32]", 0, 8192)).to_string(),
        "`hidden.weight` must have the shape [32, 64], found [64, 32]",
    );
    assert_eq!(
        model_error(&file_claiming(u64::MAX, "{}", b"")).to_string(),
        "the header would take 18446744073709551615 bytes, the file has 2 left",
    );
}
