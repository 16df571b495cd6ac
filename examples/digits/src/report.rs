//! What a run came to, for people and for programs.

use core::fmt;

/// How the answers compare, and what was moved for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Images classified.
    pub images: usize,
    /// Answers that are the image's label.
    pub correct: usize,
    /// Answers that are the model's own, known beforehand.
    pub matches_expected: usize,
    /// Bytes written to tensors.
    pub bytes_to_device: u64,
    /// Bytes read from tensors.
    pub bytes_from_device: u64,
}

impl Score {
    /// One more image.
    pub(crate) const fn count(&mut self, answer: u8, label: u8, expected: u8) {
        self.images += 1;
        self.correct += (answer == label) as usize;
        self.matches_expected += (answer == expected) as usize;
    }
}

/// What a run cost in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// The most bytes of device memory that were in use at once.
    pub peak_bytes: usize,
    /// Segments of device memory still in use after everything was dropped.
    pub leaked_segments: usize,
}

/// The one line that programs read.
///
/// ```
/// use digits::report::{Footprint, JsonLine, Score};
/// let score = Score { images: 2, correct: 1, matches_expected: 2, bytes_to_device: 128, bytes_from_device: 80 };
/// let footprint = Footprint { peak_bytes: 4096, leaked_segments: 0 };
/// let line = JsonLine { target: "host", score, footprint }.to_string();
/// assert_eq!(line, concat!(
///     r#"{"demo":"digits","target":"host","images":2,"correct":1,"matches_expected":2,"#,
///     r#""bytes_to_device":128,"bytes_from_device":80,"peak_bytes":4096,"leaked_segments":0}"#,
/// ));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct JsonLine<'a> {
    /// Where it ran; a target triple or `host`, so nothing in it needs escaping.
    pub target: &'a str,
    /// How it went.
    pub score: Score,
    /// What it cost.
    pub footprint: Footprint,
}

impl fmt::Display for JsonLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            target,
            score,
            footprint,
        } = self;
        write!(
            f,
            r#"{{"demo":"digits","target":"{target}","images":{},"correct":{},"matches_expected":{},"#,
            score.images, score.correct, score.matches_expected,
        )?;
        write!(
            f,
            r#""bytes_to_device":{},"bytes_from_device":{},"peak_bytes":{},"leaked_segments":{}}}"#,
            score.bytes_to_device,
            score.bytes_from_device,
            footprint.peak_bytes,
            footprint.leaked_segments,
        )
    }
}
