//! The header of a `.npy` file, by the specification in `numpy.lib.format`.

use std::format;
use std::string::String;
use std::vec::Vec;

use crate::{DType, Shape};

/// What the data's place in the file is a multiple of, so that it may be mapped and used as it is.
const ALIGN: usize = 64;

/// Magic bytes, version 1.0, and two bytes for the length of what follows. Shapes of eight axes never need the four of version 2.0.
const PREFIX: [u8; 8] = *b"\x93NUMPY\x01\x00";

/// The header; `None` for elements without a size.
pub(super) fn header(dtype: DType, shape: &Shape) -> Option<Vec<u8>> {
    let descr = descr(dtype)?;
    let mut axes = String::new();
    for axis in shape {
        axes += &format!("{axis}, ");
    }
    // A tuple of one keeps its comma, as Python wants it.
    let axes = match shape.rank() {
        1 => axes.trim_end(),
        _ => axes.trim_end_matches(", "),
    };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({axes}), }}");
    let before_data = |text: &str| PREFIX.len() + 2 + text.len() + 1;
    while !before_data(&text).is_multiple_of(ALIGN) {
        text.push(' ');
    }
    text.push('\n');

    let mut header = Vec::from(PREFIX);
    header.extend(u16::try_from(text.len()).ok()?.to_le_bytes());
    header.extend(text.as_bytes());
    Some(header)
}

/// How NumPy calls a type. Elements are little-endian in tensors; one byte has no order.
const fn descr(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::Unknown => return None,
        DType::U64 => "<u8",
        DType::I8 => "|i1",
        DType::U8 => "|u1",
        DType::I16 => "<i2",
        DType::U16 => "<u2",
        DType::F16 => "<f2",
        DType::I32 => "<i4",
        DType::U32 => "<u4",
        DType::F32 | DType::Fp32R => "<f4",
        DType::I64 => "<i8",
        // NumPy has none of these: opaque bytes.
        DType::Bf16 => "|V2",
        DType::Fp8E3 | DType::Fp8E4 | DType::Fp8E5 => "|V1",
    })
}
