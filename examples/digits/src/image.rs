//! The model and its test set as one checksummed block of bytes that firmware reads out of flash.
//!
//! All numbers are little-endian `u32`:
//!
//! | at | holds |
//! |---|---|
//! | 0 | [`MAGIC`] |
//! | 4 | [`VERSION`] |
//! | 8 | CRC-32 (ISO-HDLC, as in zip) of every byte from 12 to the end |
//! | 12 | length of the whole image |
//! | 16 | seven times offset and length: where each section lies, counted from the image's start |
//! | 72 | the sections: `hidden.weight`, `hidden.bias`, `output.weight`, `output.bias`, `images`, `labels`, `expected` |
//!
//! Sections follow each other in that order, each at a multiple of [`ALIGN`] and zeros between. Magic
//! and version lie before the checksum, so that a later version may change everything after them.
//!
//! The checksum catches accidents: any error of up to 32 bits in a row, and so any one wrong byte. It
//! is no defence against someone who means harm, so the table is checked as if there were none.

#[cfg(feature = "std")]
mod encode;
mod error;

use crc::{CRC_32_ISO_HDLC, Crc};

use crate::field;
use crate::model::ModelBytes;
use crate::test_set::TestSet;

#[cfg(feature = "std")]
pub use encode::encode;
pub use error::ImageError;

/// The first four bytes of every image.
pub const MAGIC: [u8; 4] = *b"WDIG";
/// The layout described in this module.
pub const VERSION: u32 = 1;
/// What every section's offset is a multiple of, so that a word-wise DMA engine can fetch it.
pub const ALIGN: usize = 4;

/// The sections, in the order of the table and of the bytes.
const SECTIONS: [&str; 7] = [
    field::HIDDEN_WEIGHT,
    field::HIDDEN_BIAS,
    field::OUTPUT_WEIGHT,
    field::OUTPUT_BIAS,
    field::IMAGES,
    field::LABELS,
    field::EXPECTED,
];

/// Bytes before the checksummed part: magic, version, checksum.
const UNSUMMED: usize = 12;
/// Words of the header: those three, the total length, and the table.
const HEADER_WORDS: usize = 4 + 2 * SECTIONS.len();
/// Bytes of the header.
const HEADER: u32 = 4 * (4 + 2 * 7);
const _: () = assert!(HEADER as usize == 4 * HEADER_WORDS);

// A `static`, not a `const`: the table is 1 KiB, and should lie in flash once.
static CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

/// Finds the model and the test set in an image, without copying.
///
/// `image` must be exactly the image: a length that the header does not agree with is an error.
///
/// # Errors
///
/// The first thing that is wrong, in the order of [`ImageError`]'s variants.
pub fn parse(image: &[u8]) -> Result<(ModelBytes<'_>, TestSet<'_>), ImageError> {
    let found = image.len();
    let (words, _) = image.as_chunks::<4>();
    let Some(words) = words.first_chunk::<HEADER_WORDS>() else {
        return Err(ImageError::Truncated {
            expected: HEADER,
            found,
        });
    };
    let [magic, version, sum, total, table @ ..] = words;

    if *magic != MAGIC {
        return Err(ImageError::BadMagic { found: *magic });
    }
    let version = u32::from_le_bytes(*version);
    if version != VERSION {
        return Err(ImageError::UnsupportedVersion {
            expected: VERSION,
            found: version,
        });
    }
    let total = u32::from_le_bytes(*total);
    // Widened, so that neither a small `usize` nor a large slice makes the comparison lie.
    match (found as u64).cmp(&u64::from(total)) {
        core::cmp::Ordering::Less => {
            return Err(ImageError::Truncated {
                expected: total,
                found,
            });
        }
        core::cmp::Ordering::Greater => {
            return Err(ImageError::TrailingBytes {
                expected: total,
                found,
            });
        }
        core::cmp::Ordering::Equal => {}
    }
    let stored = u32::from_le_bytes(*sum);
    let computed = CRC.checksum(&image[UNSUMMED..]);
    if stored != computed {
        return Err(ImageError::ChecksumMismatch { stored, computed });
    }

    let mut free_from = HEADER;
    let mut sections = [&[][..]; SECTIONS.len()];
    let entries = table.as_chunks::<2>().0;
    for ((slot, field), entry) in sections.iter_mut().zip(SECTIONS).zip(entries) {
        let [offset, length] = entry.map(u32::from_le_bytes);
        (*slot, free_from) = section(image, field, offset, length, free_from)?;
    }
    let [
        hidden_weight,
        hidden_bias,
        output_weight,
        output_bias,
        images,
        labels,
        expected,
    ] = sections;
    let model = ModelBytes::new(hidden_weight, hidden_bias, output_weight, output_bias)?;
    let test_set = TestSet::new(images, labels, expected)?;
    Ok((model, test_set))
}

/// One section's bytes, and the first offset after them.
fn section<'a>(
    image: &'a [u8],
    field: &'static str,
    offset: u32,
    length: u32,
    free_from: u32,
) -> Result<(&'a [u8], u32), ImageError> {
    let out_of_bounds = ImageError::OutOfBounds {
        field,
        offset,
        length,
        image: image.len(),
    };
    let end = offset.checked_add(length).ok_or(out_of_bounds)?;
    // On a 16-bit host an offset may not even be an index: that is out of bounds as well.
    let bytes = usize::try_from(offset)
        .ok()
        .zip(usize::try_from(end).ok())
        .and_then(|(offset, end)| image.get(offset..end))
        .ok_or(out_of_bounds)?;
    if !(offset as usize).is_multiple_of(ALIGN) {
        return Err(ImageError::Misaligned { field, offset });
    }
    if offset < free_from {
        return Err(ImageError::Overlap {
            field,
            offset,
            free_from,
        });
    }
    Ok((bytes, end))
}

#[cfg(test)]
mod tests {
    use super::CRC;

    #[test]
    fn the_checksum_is_the_catalogued_one() {
        // The check value that the catalogue of CRCs gives for CRC-32/ISO-HDLC.
        assert_eq!(CRC.checksum(b"123456789"), 0xcbf4_3926);
    }
}
