//! Element types: numbers, sizes, names.

use proptest::prelude::*;
use wharf_meta::{DType, ParseDTypeError, UnknownNumber};

/// Number, type, name, size, other name: from the table of the runtime whose numbers these are.
const TABLE: [(u8, DType, &str, Option<usize>, &str); 16] = [
    (0, DType::Unknown, "unknown", None, "UNKNOWN"),
    (1, DType::U64, "u64", Some(8), "uint64"),
    (2, DType::I8, "i8", Some(1), "int8"),
    (3, DType::U8, "u8", Some(1), "uint8"),
    (4, DType::I16, "i16", Some(2), "int16"),
    (5, DType::U16, "u16", Some(2), "uint16"),
    (6, DType::Bf16, "bf16", Some(2), "bfloat16"),
    (7, DType::F16, "f16", Some(2), "float16"),
    (8, DType::I32, "i32", Some(4), "int32"),
    (9, DType::U32, "u32", Some(4), "uint32"),
    (10, DType::F32, "f32", Some(4), "float32"),
    (11, DType::Fp32R, "fp32r", Some(4), "FP32R"),
    (12, DType::I64, "i64", Some(8), "int64"),
    (13, DType::Fp8E3, "fp8_e3", Some(1), "float8_e3m4"),
    (14, DType::Fp8E4, "fp8_e4", Some(1), "float8_e4m3"),
    (15, DType::Fp8E5, "fp8_e5", Some(1), "float8_e5m2"),
];

#[test]
fn each_type_has_the_number_size_and_names_of_the_table() {
    for (i, (number, dtype, name, size, other)) in TABLE.into_iter().enumerate() {
        assert_eq!(DType::ALL[i], dtype);
        assert_eq!((dtype.number(), u8::from(dtype)), (number, number));
        assert_eq!(DType::try_from(number), Ok(dtype));
        assert_eq!(dtype.size(), size);
        assert_eq!((dtype.name(), dtype.to_string().as_str()), (name, name));
        for spelled in [name, other] {
            assert_eq!(spelled.parse(), Ok(dtype));
            assert_eq!(spelled.to_uppercase().parse(), Ok(dtype));
        }
    }
    assert_eq!(DType::default(), DType::Unknown);
    assert_eq!(format!("[{:>5}]", DType::I8), "[   i8]");
}

#[test]
fn what_is_no_number_or_name_is_told() {
    assert_eq!(DType::try_from(16), Err(UnknownNumber { number: 16 }));
    assert_eq!(
        UnknownNumber { number: 16 }.to_string(),
        "16 is no number of a dtype, they end at 15"
    );
    for text in ["", "f64", "f32 ", "float", "fp8"] {
        let refused = text.parse::<DType>();
        assert_eq!(
            refused,
            Err(ParseDTypeError { len: text.len() }),
            "{text:?}"
        );
    }
    let told = ParseDTypeError { len: 3 }.to_string();
    assert!(told.starts_with("the 3 bytes are no name of a dtype; there are unknown, u64,"));
    assert!(told.ends_with(", fp8_e5"), "{told}");
}

proptest! {
    #[test]
    fn numbers_and_types_are_one_to_one(number: u8) {
        let dtype = DType::try_from(number);
        prop_assert_eq!(dtype.is_ok(), number < 16);
        prop_assert_eq!(dtype.map(u8::from).unwrap_or(number), number);
    }

    #[test]
    fn whatever_parses_is_called_so(text in "(?i)(b?fp?(8|16|32|64)r?(_e[345])?|u?i?(nt)?(8|16|32|64))|.*") {
        if let Ok(dtype) = text.parse::<DType>() {
            let lower = text.to_ascii_lowercase();
            let (_, _, name, _, other) = TABLE[usize::from(dtype.number())];
            prop_assert!(lower == name || lower == other.to_ascii_lowercase());
        }
    }
}
