//! A submission's number across engines, in one word.

use core::fmt;

use crate::{Sequence, StreamId};

/// Bits of a sequence number in a [`SubmissionId`].
const SEQUENCE_BITS: u32 = 48;

/// Which submission of which queue, as devices and traces write it down: 16 bits for the queue, and below them 48 for
/// its sequence number. At a million submissions a second those last for nine years.
///
/// ```
/// use wharf_engine::{Sequence, Stream, SubmissionId};
///
/// let stream = Stream::claim()?;
/// let id = SubmissionId::new(stream.id(), Sequence::new(17))?;
/// assert_eq!(u64::from(id), u64::from(stream.id().get()) << 48 | 17);
/// assert_eq!(SubmissionId::from(u64::from(id)), id);
/// assert!(SubmissionId::new(stream.id(), Sequence::new(1 << 48)).is_err());
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SubmissionId(u64);

impl SubmissionId {
    /// The largest sequence number that has one.
    pub const MAX_SEQUENCE: Sequence = Sequence::new((1 << SEQUENCE_BITS) - 1);

    /// Submission `sequence` of the engine with this stream.
    ///
    /// # Errors
    /// The number has more than 48 bits.
    pub const fn new(stream: StreamId, sequence: Sequence) -> Result<Self, SequenceTooLarge> {
        if sequence.get() > Self::MAX_SEQUENCE.get() {
            return Err(SequenceTooLarge { sequence });
        }
        Ok(Self(
            (stream.get() as u64) << SEQUENCE_BITS | sequence.get(),
        ))
    }

    /// The number of the queue: that of its engine's stream.
    #[must_use]
    pub const fn queue(self) -> u16 {
        // 16 bits are left.
        (self.0 >> SEQUENCE_BITS) as u16
    }

    /// The number of the submission on its queue.
    #[must_use]
    pub const fn sequence(self) -> Sequence {
        Sequence::new(self.0 & Self::MAX_SEQUENCE.get())
    }
}

impl From<SubmissionId> for u64 {
    fn from(id: SubmissionId) -> Self {
        id.0
    }
}

/// What a device or a trace wrote down. Every word is one; whether there is such a submission is another question.
impl From<u64> for SubmissionId {
    fn from(word: u64) -> Self {
        Self(word)
    }
}

impl fmt::Display for SubmissionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.queue(), self.sequence())
    }
}

/// A sequence number that does not fit into 48 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SequenceTooLarge {
    /// The number.
    pub sequence: Sequence,
}

impl fmt::Display for SequenceTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "submission {} has a number of more than {SEQUENCE_BITS} bits",
            self.sequence
        )
    }
}

impl core::error::Error for SequenceTooLarge {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_and_number_do_not_run_into_each_other() {
        let last = SubmissionId::from(0xFFFF_FFFF_FFFF_FFFF);
        assert_eq!(
            (last.queue(), last.sequence()),
            (0xFFFF, SubmissionId::MAX_SEQUENCE)
        );
        let id = SubmissionId::from(0x0003_0000_0000_0011);
        assert_eq!((id.queue(), id.sequence().get()), (3, 17));
        let largest = SubmissionId::new(StreamId::LOWEST, SubmissionId::MAX_SEQUENCE).unwrap();
        assert_eq!(u64::from(largest), 0x0001_FFFF_FFFF_FFFF);
        let sequence = Sequence::new(1 << 48);
        let refused = SubmissionId::new(StreamId::LOWEST, sequence);
        assert_eq!(refused, Err(SequenceTooLarge { sequence }));
    }
}
