//! The named fields of the model and of its test set, and what can be wrong with one.

use core::fmt;

/// Name of the first layer's matrix, `[HIDDEN, INPUTS]`, row by row.
pub const HIDDEN_WEIGHT: &str = "hidden.weight";
/// Name of the first layer's offset, `[HIDDEN]`.
pub const HIDDEN_BIAS: &str = "hidden.bias";
/// Name of the second layer's matrix, `[CLASSES, HIDDEN]`, row by row.
pub const OUTPUT_WEIGHT: &str = "output.weight";
/// Name of the second layer's offset, `[CLASSES]`.
pub const OUTPUT_BIAS: &str = "output.bias";
/// Name of the test pictures, `[n, INPUTS]`, one byte a pixel.
pub const IMAGES: &str = "images";
/// Name of the digits that the pictures show, `[n]`.
pub const LABELS: &str = "labels";
/// Name of the model's own answers, `[n]`.
pub const EXPECTED: &str = "expected";

/// Why the bytes of a field were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldError {
    /// The field has the wrong number of bytes.
    Length {
        /// The field's name.
        field: &'static str,
        /// The bytes its shape takes.
        expected: usize,
        /// The bytes that were given.
        found: usize,
    },
    /// The field's length is no multiple of the size of its rows.
    PartialRow {
        /// The field's name.
        field: &'static str,
        /// The bytes of one row.
        row: usize,
        /// The bytes that were given.
        found: usize,
    },
    /// The field has no rows: there would be nothing to classify.
    Empty {
        /// The field's name.
        field: &'static str,
    },
    /// A float is an infinity or not a number.
    NotFinite {
        /// The field's name.
        field: &'static str,
        /// The element, counted over the flattened tensor.
        index: usize,
        /// The float's bits.
        bits: u32,
    },
    /// A byte is larger than the field's meaning allows.
    TooLarge {
        /// The field's name.
        field: &'static str,
        /// The element, counted over the flattened tensor.
        index: usize,
        /// The largest value allowed.
        limit: u8,
        /// The value that was given.
        found: u8,
    },
}

impl FieldError {
    /// The name of the field that was refused.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Length { field, .. }
            | Self::PartialRow { field, .. }
            | Self::Empty { field }
            | Self::NotFinite { field, .. }
            | Self::TooLarge { field, .. } => field,
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Length {
                field,
                expected,
                found,
            } => {
                write!(f, "`{field}` takes {expected} bytes, found {found}")
            }
            Self::PartialRow { field, row, found } => {
                write!(
                    f,
                    "`{field}` takes rows of {row} bytes, found {found} bytes"
                )
            }
            Self::Empty { field } => write!(f, "`{field}` has no rows"),
            Self::NotFinite { field, index, bits } => {
                write!(
                    f,
                    "`{field}`[{index}] is not a finite number (bits {bits:#010x})"
                )
            }
            Self::TooLarge {
                field,
                index,
                limit,
                found,
            } => {
                write!(
                    f,
                    "`{field}`[{index}] is {found}, the largest allowed is {limit}"
                )
            }
        }
    }
}

impl core::error::Error for FieldError {}

/// Checks that `bytes` hold exactly `count` finite little-endian floats.
pub(crate) fn floats(field: &'static str, bytes: &[u8], count: usize) -> Result<(), FieldError> {
    let expected = count * size_of::<f32>();
    if bytes.len() != expected {
        return Err(FieldError::Length {
            field,
            expected,
            found: bytes.len(),
        });
    }
    // All exponent bits set is an infinity or a NaN. Compared as integers: firmware checks this too,
    // and its core may have no floating point unit.
    const EXPONENT: u32 = 0x7f80_0000;
    let bits = bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|word| u32::from_le_bytes(*word));
    match bits
        .enumerate()
        .find(|(_, bits)| bits & EXPONENT == EXPONENT)
    {
        Some((index, bits)) => Err(FieldError::NotFinite { field, index, bits }),
        None => Ok(()),
    }
}

/// Checks that `bytes` are `expected` many and none above `limit`.
pub(crate) fn bytes(
    field: &'static str,
    bytes: &[u8],
    expected: usize,
    limit: u8,
) -> Result<(), FieldError> {
    if bytes.len() != expected {
        return Err(FieldError::Length {
            field,
            expected,
            found: bytes.len(),
        });
    }
    match bytes.iter().enumerate().find(|(_, byte)| **byte > limit) {
        Some((index, &found)) => Err(FieldError::TooLarge {
            field,
            index,
            limit,
            found,
        }),
        None => Ok(()),
    }
}
