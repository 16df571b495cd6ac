//! Bytes that only one segment has, so that a foreign one shows.

use wharf_backend::{BackendRef, SegmentMut, Uninit};

use crate::Failure;
use crate::check::{Demand, equal};

/// The bytes that belong at `offset` of a segment stamped with `seed`.
pub(super) fn pattern(seed: u8, offset: usize) -> u8 {
    // Its period is prime, so that no power of two hides a shift.
    let [low, ..] = (offset % 251).to_le_bytes();
    low.wrapping_mul(3).wrapping_add(seed.wrapping_mul(67))
}

const CHUNK: usize = 32;

/// Offsets and lengths that cover `len` bytes in pieces.
fn pieces(len: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..len)
        .step_by(CHUNK)
        .map(move |offset| (offset, CHUNK.min(len.saturating_sub(offset))))
}

pub(super) fn expected(seed: u8, offset: usize) -> [u8; CHUNK] {
    core::array::from_fn(|index| pattern(seed, offset.wrapping_add(index)))
}

/// Fills a segment with what only this seed leaves there.
#[inline(never)]
pub(super) fn stamp<R: BackendRef>(
    segment: SegmentMut<R, Uninit>,
    seed: u8,
) -> Result<SegmentMut<R>, Failure> {
    let mut segment = segment.filled(0).demand("a fill")?;
    write_pattern(&mut segment, seed)?;
    Ok(segment)
}

#[inline(never)]
fn write_pattern<R: BackendRef>(segment: &mut SegmentMut<R>, seed: u8) -> Result<(), Failure> {
    for (offset, len) in pieces(segment.len()) {
        let bytes = expected(seed, offset);
        let bytes = bytes.get(..len).unwrap_or_default();
        segment.write(offset, bytes).demand("a write")?;
    }
    Ok(())
}

#[inline(never)]
pub(super) fn verify<R: BackendRef>(segment: &SegmentMut<R>, seed: u8) -> Result<(), Failure> {
    for (offset, len) in pieces(segment.len()) {
        let mut found = [!pattern(seed, offset); CHUNK];
        let found = found.get_mut(..len).unwrap_or_default();
        segment.read(offset, found).demand("a read")?;
        for (&mut found, expected) in found.iter_mut().zip(expected(seed, offset)) {
            equal("a byte that only its owner wrote", found, expected)?;
        }
    }
    Ok(())
}
