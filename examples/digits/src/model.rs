//! The model: its shapes, and its weights as borrowed bytes.

use crate::field::{self, FieldError};

/// Pixels of one picture, 8 by 8, and so the width of the first layer's rows.
pub const INPUTS: usize = 64;
/// Neurons of the hidden layer.
pub const HIDDEN: usize = 32;
/// Digits to tell apart.
pub const CLASSES: usize = 10;

/// The trained weights, borrowed from wherever they lie: a loaded file, or flash.
///
/// They stay little-endian bytes, at any alignment, because that is what a tensor takes: tensors
/// carry bytes, and the kernel says what they mean.
///
/// ```
/// use digits::{FieldError, ModelBytes};
///
/// let zeros = [0; 32 * 64 * 4];
/// let (h, o) = (&zeros[..32 * 4], &zeros[..10 * 4]);
/// assert!(ModelBytes::new(&zeros, h, &zeros[..10 * 32 * 4], o).is_ok());
/// assert_eq!(
///     ModelBytes::new(&zeros, h, &zeros[..1279], o),
///     Err(FieldError::Length { field: "output.weight", expected: 1280, found: 1279 }),
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelBytes<'a> {
    pub(crate) hidden_weight: &'a [u8],
    pub(crate) hidden_bias: &'a [u8],
    pub(crate) output_weight: &'a [u8],
    pub(crate) output_bias: &'a [u8],
}

impl<'a> ModelBytes<'a> {
    /// Takes the four fields, each little-endian `f32`, matrices row by row.
    ///
    /// # Errors
    ///
    /// The first field that has the wrong length or holds a number that is not finite.
    pub fn new(
        hidden_weight: &'a [u8],
        hidden_bias: &'a [u8],
        output_weight: &'a [u8],
        output_bias: &'a [u8],
    ) -> Result<Self, FieldError> {
        field::floats(field::HIDDEN_WEIGHT, hidden_weight, HIDDEN * INPUTS)?;
        field::floats(field::HIDDEN_BIAS, hidden_bias, HIDDEN)?;
        field::floats(field::OUTPUT_WEIGHT, output_weight, CLASSES * HIDDEN)?;
        field::floats(field::OUTPUT_BIAS, output_bias, CLASSES)?;
        Ok(Self {
            hidden_weight,
            hidden_bias,
            output_weight,
            output_bias,
        })
    }

    /// The bytes of `[HIDDEN, INPUTS]` floats.
    #[must_use]
    pub const fn hidden_weight(&self) -> &'a [u8] {
        self.hidden_weight
    }

    /// The bytes of `[HIDDEN]` floats.
    #[must_use]
    pub const fn hidden_bias(&self) -> &'a [u8] {
        self.hidden_bias
    }

    /// The bytes of `[CLASSES, HIDDEN]` floats.
    #[must_use]
    pub const fn output_weight(&self) -> &'a [u8] {
        self.output_weight
    }

    /// The bytes of `[CLASSES]` floats.
    #[must_use]
    pub const fn output_bias(&self) -> &'a [u8] {
        self.output_bias
    }
}
