//! What can be wrong with an image.

use core::fmt;

use crate::field::FieldError;

/// Why an image was refused. The variants are in the order in which they are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageError {
    /// There are fewer bytes than the header takes, or than the header says.
    Truncated {
        /// The bytes needed at the least.
        expected: u32,
        /// The bytes there are.
        found: usize,
    },
    /// The first bytes are not [`MAGIC`](super::MAGIC): this is no image.
    BadMagic {
        /// The first bytes.
        found: [u8; 4],
    },
    /// The image has a layout that this build does not know.
    UnsupportedVersion {
        /// The version that this build reads.
        expected: u32,
        /// The version that the image states.
        found: u32,
    },
    /// There are more bytes than the header says.
    TrailingBytes {
        /// The bytes that the header states.
        expected: u32,
        /// The bytes there are.
        found: usize,
    },
    /// The bytes changed since the image was made.
    ChecksumMismatch {
        /// The checksum that the image states.
        stored: u32,
        /// The checksum of the bytes there are.
        computed: u32,
    },
    /// A section does not lie within the image.
    OutOfBounds {
        /// The section's name.
        field: &'static str,
        /// Where it starts, counted from the image's start.
        offset: u32,
        /// Its length in bytes.
        length: u32,
        /// The length of the image.
        image: usize,
    },
    /// A section does not start at a multiple of [`ALIGN`](super::ALIGN).
    Misaligned {
        /// The section's name.
        field: &'static str,
        /// Where it starts.
        offset: u32,
    },
    /// A section starts within the header or within the section before it.
    Overlap {
        /// The section's name.
        field: &'static str,
        /// Where it starts.
        offset: u32,
        /// The first byte that was still free.
        free_from: u32,
    },
    /// The sections are sound, but one does not hold what its name promises.
    Field(FieldError),
}

impl From<FieldError> for ImageError {
    fn from(error: FieldError) -> Self {
        Self::Field(error)
    }
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { expected, found } => {
                write!(f, "truncated: {found} bytes of at least {expected}")
            }
            Self::BadMagic { found } => {
                write!(
                    f,
                    "no model image: it starts with \"{}\"",
                    found.escape_ascii()
                )
            }
            Self::UnsupportedVersion { expected, found } => {
                write!(
                    f,
                    "image version {found} is unknown, this build reads {expected}"
                )
            }
            Self::TrailingBytes { expected, found } => {
                write!(f, "{found} bytes, where the header says {expected}")
            }
            Self::ChecksumMismatch { stored, computed } => {
                write!(
                    f,
                    "corrupted: checksum is {computed:#010x}, stored is {stored:#010x}"
                )
            }
            Self::OutOfBounds {
                field,
                offset,
                length,
                image,
            } => write!(
                f,
                "`{field}` lies outside the image: {length} bytes at {offset} of {image}"
            ),
            Self::Misaligned { field, offset } => {
                write!(
                    f,
                    "`{field}` starts at {offset}, no multiple of {}",
                    super::ALIGN
                )
            }
            Self::Overlap {
                field,
                offset,
                free_from,
            } => {
                write!(f, "`{field}` starts at {offset}, taken up to {free_from}")
            }
            Self::Field(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ImageError {}
