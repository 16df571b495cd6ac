//! Making an image: on the host, at build time.

use std::vec;
use std::vec::Vec;

use super::{ALIGN, CRC, HEADER, MAGIC, SECTIONS, UNSUMMED, VERSION};
use crate::model::ModelBytes;
use crate::test_set::TestSet;

/// Packs a model and its test set into one image, which [`parse`](super::parse) takes apart again.
///
/// # Panics
///
/// If the image would not fit 4 GiB, which its `u32` offsets could not span.
#[must_use]
pub fn encode(model: &ModelBytes<'_>, test_set: &TestSet<'_>) -> Vec<u8> {
    let sections: [&[u8]; SECTIONS.len()] = [
        model.hidden_weight(),
        model.hidden_bias(),
        model.output_weight(),
        model.output_bias(),
        test_set.images(),
        test_set.labels(),
        test_set.expected(),
    ];
    let mut table = Vec::new();
    let mut image = vec![0; HEADER as usize];
    for section in sections {
        image.resize(image.len().next_multiple_of(ALIGN), 0);
        table.extend([number(image.len()), number(section.len())]);
        image.extend(section);
    }

    let total = number(image.len());
    image[..4].copy_from_slice(&MAGIC);
    image[4..8].copy_from_slice(&VERSION.to_le_bytes());
    let words = image[UNSUMMED..].as_chunks_mut::<4>().0;
    for (word, value) in words.iter_mut().zip([total].into_iter().chain(table)) {
        *word = value.to_le_bytes();
    }
    let sum = CRC.checksum(&image[UNSUMMED..]);
    image[8..UNSUMMED].copy_from_slice(&sum.to_le_bytes());
    image
}

fn number(value: usize) -> u32 {
    u32::try_from(value).expect("an image spans less than 4 GiB")
}
