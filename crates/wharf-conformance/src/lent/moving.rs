//! How bytes move out of what is lent, and into it.

use wharf_backend::TransferError;
use wharf_sync::SyncPolicy;

use super::piece::Piece;
use super::{Known, MOST};
use crate::Outcome;
use crate::check::{Demand, applies, ensure, equal, refused};

pub(super) fn holds_what_was_there<P: SyncPolicy>(
    piece: &Piece<'_, P>,
    known: &Known<'_>,
) -> Outcome {
    // Looking changes nothing.
    piece.holds(known.bytes)?;
    Ok(piece.holds(known.bytes)?)
}

pub(super) fn reads_every_part<P: SyncPolicy>(piece: &Piece<'_, P>, known: &Known<'_>) -> Outcome {
    let all = known.bytes;
    for offset in (0..all.len()).step_by(known.word) {
        for end in (offset..=all.len()).step_by(known.word) {
            let mut part = [0; MOST];
            let part = part.get_mut(..end - offset).unwrap_or_default();
            piece.read(offset, part)?;
            let expected = all.get(offset..end).unwrap_or_default();
            ensure(part == expected, "a part is what it is of the whole")?;
        }
    }
    Ok(())
}

pub(super) fn writes_a_part<P: SyncPolicy>(piece: &Piece<'_, P>, known: &Known<'_>) -> Outcome {
    applies(!piece.is_read_only(), "it is read-only")?;
    let Known { bytes, word } = *known;
    let last = bytes.len() - word;
    for offset in [0, last / word / 2 * word, last] {
        let mut expected = [0; MOST];
        let expected = expected.get_mut(..bytes.len()).unwrap_or_default();
        expected.copy_from_slice(bytes);
        let part = expected.get_mut(offset..offset + word).unwrap_or_default();
        part.iter_mut().for_each(|byte| *byte = !*byte);
        let written = piece.try_write(offset, part)?;
        written.demand("a write")?;
        piece.holds(expected)?;

        let part = expected.get_mut(offset..offset + word).unwrap_or_default();
        part.fill(0x3C);
        piece.try_fill(offset, word, 0x3C)?.demand("a fill")?;
        piece
            .try_fill(offset, 0, 0xFF)?
            .demand("a fill of nothing")?;
        piece.holds(expected)?;

        piece.try_write(0, bytes)?.demand("a write")?;
        piece.holds(bytes)?;
    }
    Ok(())
}

pub(super) fn stays<P: SyncPolicy>(piece: &Piece<'_, P>, known: &Known<'_>) -> Outcome {
    applies(piece.is_read_only(), "it may be written")?;
    let other = !known.bytes.first().copied().unwrap_or_default();
    let part = [other; MOST];
    let part = part.get(..known.word).unwrap_or_default();
    let write = piece.try_write(0, part)?;
    refused("a write", write, TransferError::ReadOnly)?;
    let fill = piece.try_fill(0, known.word, other)?;
    refused("a fill", fill, TransferError::ReadOnly)?;
    let largest = piece.backend.max_segment_size();
    equal("bytes that it vends", largest, 0)?;
    Ok(piece.holds(known.bytes)?)
}

pub(super) fn keeps_words_whole<P: SyncPolicy>(piece: &Piece<'_, P>, known: &Known<'_>) -> Outcome {
    let Known { bytes, word } = *known;
    applies(word > 1, "it moves single bytes")?;
    let cut = [(0, 1), (0, word - 1), (1, word - 1), (word - 1, 1)];
    for (offset, len) in cut {
        let expected = TransferError::Unaligned { offset, len, word };
        let mut host = [0xAA; MOST];
        let part = host.get_mut(..len).unwrap_or_default();
        refused("a read", piece.try_read(offset, part)?, expected)?;
        ensure(host == [0xAA; MOST], "the host's bytes are left alone")?;
        let part = host.get(..len).unwrap_or_default();
        refused("a write", piece.try_write(offset, part)?, expected)?;
        let fill = piece.try_fill(offset, len, 0xAA)?;
        refused("a fill", fill, expected)?;
        piece.holds(bytes)?;
    }
    Ok(())
}
