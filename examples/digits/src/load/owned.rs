//! A model and a test set that own their bytes and lend them in the form that the inference takes.

use std::boxed::Box;

use wharf_meta::DType;

use super::FormatError;
use super::archive::{self, Wanted};
use crate::field;
use crate::model::{CLASSES, HIDDEN, INPUTS, ModelBytes};
use crate::test_set::TestSet;

const MODEL: [Wanted; 4] = [
    weights(field::HIDDEN_WEIGHT, &[Some(HIDDEN), Some(INPUTS)]),
    weights(field::HIDDEN_BIAS, &[Some(HIDDEN)]),
    weights(field::OUTPUT_WEIGHT, &[Some(CLASSES), Some(HIDDEN)]),
    weights(field::OUTPUT_BIAS, &[Some(CLASSES)]),
];

const TEST_SET: [Wanted; 3] = [
    bytes(field::IMAGES, &[None, Some(INPUTS)]),
    bytes(field::LABELS, &[None]),
    bytes(field::EXPECTED, &[None]),
];

const fn weights(field: &'static str, shape: &'static [Option<usize>]) -> Wanted {
    Wanted {
        field,
        dtype: DType::F32,
        shape,
    }
}

const fn bytes(field: &'static str, shape: &'static [Option<usize>]) -> Wanted {
    Wanted {
        field,
        dtype: DType::U8,
        shape,
    }
}

/// The trained weights, read from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedModel {
    hidden_weight: Box<[u8]>,
    hidden_bias: Box<[u8]>,
    output_weight: Box<[u8]>,
    output_bias: Box<[u8]>,
}

impl OwnedModel {
    /// Takes the weights from the bytes of a `.safetensors` file.
    ///
    /// # Errors
    ///
    /// The file does not hold exactly the model's four tensors, or one has a value that is not finite.
    pub fn from_safetensors(file: &[u8]) -> Result<Self, FormatError> {
        let [hidden_weight, hidden_bias, output_weight, output_bias] = archive::read(file, &MODEL)?;
        ModelBytes::new(hidden_weight, hidden_bias, output_weight, output_bias)?;
        Ok(Self {
            hidden_weight: hidden_weight.into(),
            hidden_bias: hidden_bias.into(),
            output_weight: output_weight.into(),
            output_bias: output_bias.into(),
        })
    }

    /// The weights, borrowed.
    #[must_use]
    pub fn lend(&self) -> ModelBytes<'_> {
        // Checked when `self` was made, and unchanged since.
        ModelBytes {
            hidden_weight: &self.hidden_weight,
            hidden_bias: &self.hidden_bias,
            output_weight: &self.output_weight,
            output_bias: &self.output_bias,
        }
    }
}

/// The test set, read from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedTestSet {
    images: Box<[u8]>,
    labels: Box<[u8]>,
    expected: Box<[u8]>,
}

impl OwnedTestSet {
    /// Takes the test set from the bytes of a `.safetensors` file.
    ///
    /// # Errors
    ///
    /// The file does not hold exactly the test set's three tensors, they differ in their count or have
    /// none, or a value is out of range.
    pub fn from_safetensors(file: &[u8]) -> Result<Self, FormatError> {
        let [images, labels, expected] = archive::read(file, &TEST_SET)?;
        TestSet::new(images, labels, expected)?;
        Ok(Self {
            images: images.into(),
            labels: labels.into(),
            expected: expected.into(),
        })
    }

    /// The test set, borrowed.
    #[must_use]
    pub fn lend(&self) -> TestSet<'_> {
        // Checked when `self` was made, and unchanged since.
        TestSet {
            images: &self.images,
            labels: &self.labels,
            expected: &self.expected,
        }
    }
}
