//! The inference once more, as plainly as it can be written: what the device's answer is held against.

use crate::model::{CLASSES, HIDDEN, INPUTS, ModelBytes};

/// Classifies one picture of raw pixel values; also returns the score of each class.
///
/// Of equal scores the lower class wins.
///
/// ```
/// use digits::{ModelBytes, reference::classify};
///
/// // All weights zero, so the scores are the last layer's offsets.
/// let zeros = [0; 32 * 64 * 4];
/// let mut offsets = [0; 10 * 4];
/// offsets[7 * 4..8 * 4].copy_from_slice(&1.5f32.to_le_bytes());
/// let model = ModelBytes::new(&zeros, &zeros[..128], &zeros[..1280], &offsets)?;
/// let (digit, scores) = classify(&model, &[16; 64]);
/// assert_eq!((digit, scores[7], scores[0]), (7, 1.5, 0.0));
/// # Ok::<(), digits::FieldError>(())
/// ```
#[must_use]
pub fn classify(model: &ModelBytes<'_>, image: &[u8; INPUTS]) -> (u8, [f32; CLASSES]) {
    let pixels = image.map(f32::from);
    let hidden: [f32; HIDDEN] = layer(model.hidden_weight(), model.hidden_bias(), &pixels);
    let hidden = hidden.map(|sum| sum.max(0.0));
    let scores: [f32; CLASSES] = layer(model.output_weight(), model.output_bias(), &hidden);

    let (mut digit, mut best) = (0, f32::NEG_INFINITY);
    for (class, &score) in (0u8..).zip(&scores) {
        if score > best {
            (digit, best) = (class, score);
        }
    }
    (digit, scores)
}

/// `weight * input + bias`, both given as little-endian bytes.
fn layer<const ROWS: usize>(weight: &[u8], bias: &[u8], input: &[f32]) -> [f32; ROWS] {
    let mut sums = [0.0; ROWS];
    let rows = weight.chunks_exact(size_of_val(input));
    for ((sum, bias), row) in sums.iter_mut().zip(floats(bias)).zip(rows) {
        *sum = floats(row)
            .zip(input)
            .fold(bias, |sum, (weight, value)| sum + weight * value);
    }
    sums
}

fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|word| f32::from_le_bytes(*word))
}
