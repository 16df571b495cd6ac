//! What may be borrowed as a model or as a test set.

use digits::{FieldError, ModelBytes, TestSet};

const ZEROS: [u8; 8192] = [0; 8192];

#[test]
fn each_length_of_the_model_is_checked() {
    let lengths = [8192, 128, 1280, 40];
    let names = [
        "hidden.weight",
        "hidden.bias",
        "output.weight",
        "output.bias",
    ];
    let make = |n: [usize; 4]| {
        let [a, b, c, d] = n.map(|n| &ZEROS[..n]);
        ModelBytes::new(a, b, c, d)
    };
    assert!(make(lengths).is_ok());
    for (i, field) in names.into_iter().enumerate() {
        let mut wrong = lengths;
        wrong[i] -= 4;
        let error = FieldError::Length {
            field,
            expected: lengths[i],
            found: lengths[i] - 4,
        };
        assert_eq!(make(wrong), Err(error));
        assert_eq!(error.field(), field);
    }
}

#[test]
fn a_weight_must_be_finite() {
    for bits in [
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        0x7f80_0001,
        0xffff_ffff,
    ] {
        let mut bias = [0; 40];
        bias[36..].copy_from_slice(&u32::to_le_bytes(bits));
        let model = ModelBytes::new(&ZEROS, &ZEROS[..128], &ZEROS[..1280], &bias);
        let error = FieldError::NotFinite {
            field: "output.bias",
            index: 9,
            bits,
        };
        assert_eq!(model, Err(error));
    }
    // The largest finite float and the smallest of all are welcome.
    for value in [f32::MAX, f32::MIN, f32::from_bits(1)] {
        let mut bias = [0; 40];
        bias[36..].copy_from_slice(&value.to_le_bytes());
        assert!(ModelBytes::new(&ZEROS, &ZEROS[..128], &ZEROS[..1280], &bias).is_ok());
    }
}

#[test]
fn each_length_of_the_test_set_is_checked() {
    let make = |i, l, e| TestSet::new(&ZEROS[..i], &ZEROS[..l], &ZEROS[..e]);
    assert_eq!(make(128, 2, 2).map(|set| set.count()), Ok(2));
    assert_eq!(make(0, 0, 0), Err(FieldError::Empty { field: "images" }));
    assert_eq!(
        make(65, 1, 1),
        Err(FieldError::PartialRow {
            field: "images",
            row: 64,
            found: 65
        })
    );
    let error = |field, found| {
        Err(FieldError::Length {
            field,
            expected: 2,
            found,
        })
    };
    assert_eq!(make(128, 1, 2), error("labels", 1));
    assert_eq!(make(128, 2, 3), error("expected", 3));
}

#[test]
fn each_value_of_the_test_set_is_checked() {
    let error = |field, index, limit, found| {
        Err(FieldError::TooLarge {
            field,
            index,
            limit,
            found,
        })
    };
    let mut images = [16; 128];
    assert!(TestSet::new(&images, &[9, 0], &[0, 9]).is_ok());
    assert_eq!(
        TestSet::new(&images, &[9, 10], &[0, 9]),
        error("labels", 1, 9, 10)
    );
    assert_eq!(
        TestSet::new(&images, &[9, 0], &[255, 9]),
        error("expected", 0, 9, 255)
    );
    images[100] = 17;
    assert_eq!(
        TestSet::new(&images, &[9, 0], &[0, 9]),
        error("images", 100, 16, 17)
    );
}

#[test]
fn a_picture_is_a_slice_of_the_pictures() {
    let mut images = [1; 128];
    images[64..].fill(2);
    let set = TestSet::new(&images, &[0, 0], &[0, 0]).unwrap();
    assert_eq!(set.image(0), Some(&[1; 64]));
    assert_eq!(set.image(1), Some(&[2; 64]));
    assert_eq!(set.image(2), None);
}

#[test]
fn errors_say_the_field_and_the_numbers() {
    let error = FieldError::Length {
        field: "hidden.bias",
        expected: 128,
        found: 124,
    };
    assert_eq!(
        error.to_string(),
        "`hidden.bias` takes 128 bytes, found 124"
    );
    let error = FieldError::NotFinite {
        field: "output.bias",
        index: 9,
        bits: 0x7f80_0000,
    };
    assert_eq!(
        error.to_string(),
        "`output.bias`[9] is not a finite number (bits 0x7f800000)"
    );
    let error = FieldError::TooLarge {
        field: "labels",
        index: 3,
        limit: 9,
        found: 10,
    };
    assert_eq!(
        error.to_string(),
        "`labels`[3] is 10, the largest allowed is 9"
    );
}
