//! Pictures that the training never saw, with the right answers and the model's own.

use crate::field::{self, FieldError};
use crate::model::{CLASSES, INPUTS};

/// The brightest pixel: the model was trained on raw values 0 to 16.
pub const PIXEL_MAX: u8 = 16;

// Both label fields hold a class, so their limit follows from the count of classes.
#[expect(clippy::cast_possible_truncation, reason = "ten classes")]
const LABEL_MAX: u8 = CLASSES as u8 - 1;

/// At least one test picture, with its label and the answer that the model is known to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestSet<'a> {
    pub(crate) images: &'a [u8],
    pub(crate) labels: &'a [u8],
    pub(crate) expected: &'a [u8],
}

impl<'a> TestSet<'a> {
    /// Takes `n` pictures of [`INPUTS`] bytes each, `n` labels and `n` expected answers. The count
    /// follows from `images`; the other two are held against it.
    ///
    /// # Errors
    ///
    /// The first field that is empty, has the wrong length, or holds a value out of range.
    pub fn new(images: &'a [u8], labels: &'a [u8], expected: &'a [u8]) -> Result<Self, FieldError> {
        if images.is_empty() {
            return Err(FieldError::Empty {
                field: field::IMAGES,
            });
        }
        if !images.len().is_multiple_of(INPUTS) {
            let found = images.len();
            return Err(FieldError::PartialRow {
                field: field::IMAGES,
                row: INPUTS,
                found,
            });
        }
        let count = images.len() / INPUTS;
        field::bytes(field::IMAGES, images, images.len(), PIXEL_MAX)?;
        field::bytes(field::LABELS, labels, count, LABEL_MAX)?;
        field::bytes(field::EXPECTED, expected, count, LABEL_MAX)?;
        Ok(Self {
            images,
            labels,
            expected,
        })
    }

    /// How many pictures there are; never zero.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.labels.len()
    }

    /// Every picture's pixels, one picture after another.
    #[must_use]
    pub const fn images(&self) -> &'a [u8] {
        self.images
    }

    /// The digit that each picture shows.
    #[must_use]
    pub const fn labels(&self) -> &'a [u8] {
        self.labels
    }

    /// The digit that the model is known to answer for each picture.
    #[must_use]
    pub const fn expected(&self) -> &'a [u8] {
        self.expected
    }

    /// The pixels of one picture, or `None` past the last.
    #[must_use]
    pub fn image(&self, index: usize) -> Option<&'a [u8; INPUTS]> {
        self.images.as_chunks().0.get(index)
    }
}
