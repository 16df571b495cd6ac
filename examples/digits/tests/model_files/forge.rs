//! Makes model files and images, sound ones and others.

use digits::{ModelBytes, TestSet};

pub(crate) const MODEL_FILE: &[u8] = include_bytes!("../../data/digits-mlp.safetensors");
pub(crate) const TEST_FILE: &[u8] = include_bytes!("../../data/digits-test.safetensors");

/// A `.safetensors` file of this header and data, with a true header length.
pub(crate) fn file(header: &str, data: &[u8]) -> Vec<u8> {
    file_claiming(header.len() as u64, header, data)
}

/// The same, with any header length.
pub(crate) fn file_claiming(length: u64, header: &str, data: &[u8]) -> Vec<u8> {
    [&length.to_le_bytes(), header.as_bytes(), data].concat()
}

/// One entry of a header.
pub(crate) fn entry(name: &str, dtype: &str, shape: &str, begin: u64, end: u64) -> String {
    format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{begin},{end}]}}"#)
}

/// The sound entries of a model file: `hidden.weight`, `hidden.bias`, `output.weight`, `output.bias`.
pub(crate) fn model_entries() -> [String; 4] {
    [
        entry("hidden.weight", "F32", "[32,64]", 0, 8192),
        entry("hidden.bias", "F32", "[32]", 8192, 8320),
        entry("output.weight", "F32", "[10,32]", 8320, 9600),
        entry("output.bias", "F32", "[10]", 9600, 9640),
    ]
}

/// The bytes that [`model_entries`] describe.
pub(crate) const MODEL_DATA: usize = 9640;

/// A model file with these entries and `data` zeros.
pub(crate) fn model_file(entries: &[String], data: usize) -> Vec<u8> {
    file(&format!("{{{}}}", entries.join(",")), &vec![0; data])
}

/// A test file of these tensors, with true shapes, one after the other.
pub(crate) fn test_file(images: &[u8], labels: &[u8], expected: &[u8]) -> Vec<u8> {
    let (i, l, e) = (
        images.len() as u64,
        labels.len() as u64,
        expected.len() as u64,
    );
    let header = format!(
        "{{{},{},{}}}",
        entry("images", "U8", &format!("[{},64]", i / 64), 0, i),
        entry("labels", "U8", &format!("[{l}]"), i, i + l),
        entry("expected", "U8", &format!("[{e}]"), i + l, i + l + e),
    );
    file(&header, &[images, labels, expected].concat())
}

/// The bytes of a model that counts up from one tensor to the next, so that no two could be mixed up.
pub(crate) struct Small {
    weights: Vec<u8>,
    pixels: Vec<u8>,
}

impl Small {
    pub(crate) fn new() -> Self {
        let floats = (0..2410u16).flat_map(|n| f32::from(n).to_le_bytes());
        Self {
            weights: floats.collect(),
            pixels: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16].repeat(4),
        }
    }

    pub(crate) fn model(&self) -> ModelBytes<'_> {
        let (hidden_weight, rest) = self.weights.split_at(8192);
        let (hidden_bias, rest) = rest.split_at(128);
        let (output_weight, output_bias) = rest.split_at(1280);
        ModelBytes::new(hidden_weight, hidden_bias, output_weight, output_bias).unwrap()
    }

    pub(crate) fn test_set(&self) -> TestSet<'_> {
        TestSet::new(&self.pixels, &[7], &[8]).unwrap()
    }

    /// An image with a single picture, small enough to break each byte of it.
    pub(crate) fn image(&self) -> Vec<u8> {
        digits::image::encode(&self.model(), &self.test_set())
    }
}

/// Puts `value` at `at` and mends the checksum, as a forger would.
pub(crate) fn reseal(image: &mut [u8], at: usize, value: u32) {
    image[at..at + 4].copy_from_slice(&value.to_le_bytes());
    let sum = crc32(&image[12..]);
    image[8..12].copy_from_slice(&sum.to_le_bytes());
}

/// CRC-32 a bit at a time, written here once more so that the library's is not held against itself.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32, _| {
        if sum & 1 == 1 {
            sum >> 1 ^ 0xedb8_8320
        } else {
            sum >> 1
        }
    };
    !bytes
        .iter()
        .fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), step))
}
