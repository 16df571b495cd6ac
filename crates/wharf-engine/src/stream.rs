//! Who runs in order with whom.

use core::fmt;

use wharf_sync::{ConstInit, SyncPolicy, Word};

/// Identifies a stream: descriptors of one stream run one at a time, in the order of submission.
///
/// The fence of a storage lets device accesses of one stream overlap (the second starts when the first
/// is done, by the stream's own order) and keeps those of different streams apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct StreamId(u8);

impl StreamId {
    /// The highest number. Six bits, because the id is part of a 32-bit state word.
    pub const MAX: u8 = 63;

    pub(crate) const LOWEST: Self = Self(1);

    /// The number, from 1 to [`MAX`](Self::MAX).
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// The right to call oneself by a [`StreamId`]: one value per id and program. Dropping it gives the id back, and the next to claim one
/// may get it; so keep it for as long as anything is under way by that number. (An engine keeps its own. A driver that begins
/// accesses by hand, by the bare id, keeps it beside its tickets.)
#[derive(Debug)]
pub struct Stream {
    id: StreamId,
    /// Whether to give it back to the registry, where there is one.
    claimed: bool,
}

impl Stream {
    /// Which stream.
    #[must_use]
    pub const fn id(&self) -> StreamId {
        self.id
    }

    /// The stream with this number, which the caller answers for. Where [`claim`](Self::claim) exists, use that.
    ///
    /// # Safety
    /// No other live `Stream` of the program has this number.
    ///
    /// # Errors
    /// The number is not between 1 and [`StreamId::MAX`].
    #[allow(
        unsafe_code,
        reason = "declares an unsafe function without unsafe operations"
    )]
    pub const unsafe fn assume(number: u8) -> Result<Self, TooManyStreams> {
        if number == 0 || number > StreamId::MAX {
            return Err(TooManyStreams);
        }
        Ok(Self {
            id: StreamId(number),
            claimed: false,
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        #[cfg(any(target_has_atomic = "32", feature = "critical-section"))]
        if self.claimed {
            registry::give_back(self.id);
        }
    }
}

/// A place for a [`Stream`] in an engine that exists before the program runs: empty in the `static`, filled once, and read ever
/// after. Dropping it drops the stream.
///
/// ```
/// use wharf_engine::{Stream, StreamCell};
/// use wharf_sync::Unsync;
///
/// const CELL: StreamCell<Unsync> = StreamCell::empty();
/// let cell = CELL;
/// assert_eq!(cell.get(), None);
/// let id = cell.put(Stream::claim()?);
/// assert_eq!(cell.get(), Some(id));
/// # Ok::<(), wharf_engine::TooManyStreams>(())
/// ```
pub struct StreamCell<P: SyncPolicy>(P::Word);

/// In the word of a cell: the stream is the registry's. The number is below.
const CLAIMED: u32 = 1 << 8;

impl<P: SyncPolicy> StreamCell<P> {
    /// A cell without a stream.
    #[must_use]
    pub const fn empty() -> Self
    where
        P::Word: ConstInit,
    {
        Self(ConstInit::INIT)
    }

    /// A cell with a stream.
    #[must_use]
    pub fn holding(stream: Stream) -> Self {
        let word = stream.word();
        core::mem::forget(stream);
        Self(P::Word::new(word))
    }

    /// The stream in it, if there is one.
    pub fn get(&self) -> Option<StreamId> {
        stream_in(self.0.load()).map(|(id, _)| id)
    }

    /// Puts a stream in, and says which one is there: if there was one already, `stream` is dropped.
    pub fn put(&self, stream: Stream) -> StreamId {
        let word = stream.word();
        let put = self.0.update(|there| (there == 0).then_some(word));
        match put.map_err(stream_in) {
            Err(Some((id, _))) => id,
            // It was empty.
            _ => {
                let id = stream.id;
                core::mem::forget(stream);
                id
            }
        }
    }

    /// The stream in it; claims one if it is empty.
    ///
    /// # Errors
    /// It is empty, and all are claimed.
    #[cfg(any(target_has_atomic = "32", feature = "critical-section"))]
    pub fn claim(&self) -> Result<StreamId, TooManyStreams> {
        if let Some(id) = self.get() {
            return Ok(id);
        }
        match Stream::claim() {
            Ok(stream) => Ok(self.put(stream)),
            // Perhaps another context put the last one in here.
            Err(none) => self.get().ok_or(none),
        }
    }
}

/// The stream that the word of a cell stands for, and whether it is the registry's.
fn stream_in(word: u32) -> Option<(StreamId, bool)> {
    let number = u8::try_from(word & !CLAIMED).ok()?;
    (number != 0).then_some((StreamId(number), word & CLAIMED != 0))
}

impl Stream {
    fn word(&self) -> u32 {
        let claimed = if self.claimed { CLAIMED } else { 0 };
        u32::from(self.id.0) | claimed
    }
}

impl<P: SyncPolicy> Drop for StreamCell<P> {
    fn drop(&mut self) {
        if let Some((id, claimed)) = stream_in(self.0.load()) {
            drop(Stream { id, claimed });
        }
    }
}

impl<P: SyncPolicy> fmt::Debug for StreamCell<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StreamCell").field(&self.get()).finish()
    }
}

/// All [`StreamId::MAX`] streams of the program are claimed, or a number is not one of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TooManyStreams;

impl fmt::Display for TooManyStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a program has streams 1 to {}, and no more",
            StreamId::MAX
        )
    }
}

impl core::error::Error for TooManyStreams {}

#[cfg(any(target_has_atomic = "32", feature = "critical-section"))]
mod registry {
    use super::{Stream, StreamId, TooManyStreams};
    use wharf_sync::{AtomicWord, ConstInit, Word};

    /// Bit `n` of word `w` is set while stream `32 * w + n` is claimed. Bit 0 of word 0 is never used.
    static CLAIMED: [AtomicWord; 2] = [AtomicWord::INIT, AtomicWord::INIT];

    impl Stream {
        /// The lowest stream that nobody has.
        ///
        /// # Errors
        /// All are claimed.
        pub fn claim() -> Result<Self, TooManyStreams> {
            for (word, base, reserved) in [(&CLAIMED[0], 0, 1), (&CLAIMED[1], 32, 0)] {
                let free = |claimed: u32| (claimed | reserved).trailing_ones();
                let taken = word
                    .update(|claimed| 1_u32.checked_shl(free(claimed)).map(|bit| claimed | bit));
                if let Ok(before) = taken {
                    #[expect(clippy::cast_possible_truncation, reason = "below 64")]
                    let number = base + free(before) as u8;
                    return Ok(Self {
                        id: StreamId(number),
                        claimed: true,
                    });
                }
            }
            Err(TooManyStreams)
        }
    }

    pub(super) fn give_back(StreamId(number): StreamId) {
        let word = &CLAIMED[usize::from(number / 32)];
        // `Some` always, so the update never refuses.
        let _ = word.update(|claimed| Some(claimed & !(1 << (number % 32))));
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn there_are_sixty_three_streams_and_they_come_back() {
            let mut all = heapless::Vec::<Stream, 64>::new();
            while let Ok(stream) = Stream::claim() {
                all.push(stream).unwrap();
            }
            assert_eq!(all.len(), 63);
            for (index, stream) in all.iter().enumerate() {
                assert_eq!(usize::from(stream.id().get()), index + 1);
            }
            let freed = all.swap_remove(40);
            assert_eq!(freed.id().get(), 41);
            drop(freed);
            assert_eq!(Stream::claim().unwrap().id().get(), 41);
        }
    }
}
