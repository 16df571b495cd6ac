//! Images that must be refused.

use digits::FieldError;
use digits::image::{ImageError, parse};

use crate::forge::{Small, reseal};

#[test]
fn every_wrong_byte_is_noticed() {
    let mut image = Small::new().image();
    for at in 0..image.len() {
        let sound = image[at];
        for flip in [0x01, 0x80, 0xff] {
            image[at] = sound ^ flip;
            let error = parse(&image).unwrap_err();
            match at {
                0..4 => assert!(matches!(error, ImageError::BadMagic { .. })),
                4..8 => assert!(matches!(error, ImageError::UnsupportedVersion { .. })),
                12..16 => assert!(matches!(
                    error,
                    ImageError::Truncated { .. } | ImageError::TrailingBytes { .. }
                )),
                _ => assert!(
                    matches!(error, ImageError::ChecksumMismatch { .. }),
                    "byte {at}"
                ),
            }
        }
        image[at] = sound;
    }
    assert!(parse(&image).is_ok());
}

#[test]
fn every_truncation_is_noticed() {
    let image = Small::new().image();
    for found in 0..image.len() {
        let expected = if found < 72 { 72 } else { 9781 };
        assert_eq!(
            parse(&image[..found]),
            Err(ImageError::Truncated { expected, found })
        );
    }
}

#[test]
fn what_is_no_image_is_told_apart() {
    let mut image = Small::new().image();
    image.push(0);
    assert_eq!(
        parse(&image),
        Err(ImageError::TrailingBytes {
            expected: 9781,
            found: 9782
        })
    );
    image.pop();

    image[0] = b'X';
    let error = parse(&image).unwrap_err();
    assert_eq!(error, ImageError::BadMagic { found: *b"XDIG" });
    assert_eq!(error.to_string(), "no model image: it starts with \"XDIG\"");
    image[0] = b'W';

    image[4] = 2;
    assert_eq!(
        parse(&image),
        Err(ImageError::UnsupportedVersion {
            expected: 1,
            found: 2
        })
    );
}

#[test]
fn a_wrong_checksum_names_both_sums() {
    let mut image = Small::new().image();
    let computed = u32::from_le_bytes(image[8..12].try_into().unwrap());
    image[8..12].copy_from_slice(&1u32.to_le_bytes());
    let error = parse(&image).unwrap_err();
    assert_eq!(
        error,
        ImageError::ChecksumMismatch {
            stored: 1,
            computed
        }
    );
    let says = format!("corrupted: checksum is {computed:#010x}, stored is 0x00000001");
    assert_eq!(error.to_string(), says);
}

/// Offset or length of one section changed, checksum mended.
#[test]
fn a_forged_table_is_refused() {
    const HIDDEN_WEIGHT: usize = 16;
    const HIDDEN_BIAS: usize = 24;
    const IMAGES: usize = 48;
    const EXPECTED: usize = 64;
    let bounds = |field, offset, length| ImageError::OutOfBounds {
        field,
        offset,
        length,
        image: 9781,
    };
    let overlap = |field, offset, free_from| ImageError::Overlap {
        field,
        offset,
        free_from,
    };
    let length = |field, expected, found| {
        ImageError::Field(FieldError::Length {
            field,
            expected,
            found,
        })
    };
    let forged = [
        // The sum of offset and length wraps.
        (
            HIDDEN_WEIGHT + 4,
            u32::MAX - 71,
            bounds("hidden.weight", 72, u32::MAX - 71),
        ),
        (
            HIDDEN_WEIGHT,
            u32::MAX,
            bounds("hidden.weight", u32::MAX, 8192),
        ),
        (EXPECTED + 4, u32::MAX, bounds("expected", 9780, u32::MAX)),
        // It does not wrap, but is past the end: by one, or by as much as there is.
        (EXPECTED + 4, 2, bounds("expected", 9780, 2)),
        (EXPECTED, 9784, bounds("expected", 9784, 1)),
        (
            HIDDEN_BIAS,
            0x7fff_fffc,
            bounds("hidden.bias", 0x7fff_fffc, 128),
        ),
        // Into the header, and into the section before.
        (HIDDEN_WEIGHT, 0, overlap("hidden.weight", 0, 72)),
        (HIDDEN_WEIGHT, 68, overlap("hidden.weight", 68, 72)),
        (HIDDEN_BIAS, 8260, overlap("hidden.bias", 8260, 8264)),
        (HIDDEN_WEIGHT + 4, 8196, overlap("hidden.bias", 8264, 8268)),
        (EXPECTED, 72, overlap("expected", 72, 9777)),
        (
            EXPECTED,
            9778,
            ImageError::Misaligned {
                field: "expected",
                offset: 9778,
            },
        ),
        // Within bounds, but not what the name promises.
        (HIDDEN_WEIGHT + 4, 8188, length("hidden.weight", 8192, 8188)),
        (HIDDEN_BIAS + 4, 0, length("hidden.bias", 128, 0)),
        (EXPECTED + 4, 0, length("expected", 1, 0)),
        (
            IMAGES + 4,
            0,
            ImageError::Field(FieldError::Empty { field: "images" }),
        ),
        (
            IMAGES + 4,
            63,
            ImageError::Field(FieldError::PartialRow {
                field: "images",
                row: 64,
                found: 63,
            }),
        ),
        // Values, once everything is where it should be.
        (
            72,
            f32::INFINITY.to_bits(),
            ImageError::Field(FieldError::NotFinite {
                field: "hidden.weight",
                index: 0,
                bits: 0x7f80_0000,
            }),
        ),
        (
            9776,
            10,
            ImageError::Field(FieldError::TooLarge {
                field: "labels",
                index: 0,
                limit: 9,
                found: 10,
            }),
        ),
    ];
    for (at, value, error) in forged {
        let mut image = Small::new().image();
        reseal(&mut image, at, value);
        assert_eq!(parse(&image), Err(error), "{value:#x} at {at}");
    }
}

#[test]
fn errors_say_the_section_and_the_numbers() {
    let error = ImageError::OutOfBounds {
        field: "labels",
        offset: 8,
        length: 9,
        image: 16,
    };
    assert_eq!(
        error.to_string(),
        "`labels` lies outside the image: 9 bytes at 8 of 16"
    );
    let error = ImageError::Overlap {
        field: "labels",
        offset: 8,
        free_from: 72,
    };
    assert_eq!(error.to_string(), "`labels` starts at 8, taken up to 72");
    let error = ImageError::Truncated {
        expected: 72,
        found: 3,
    };
    assert_eq!(error.to_string(), "truncated: 3 bytes of at least 72");
}
