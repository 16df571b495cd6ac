//! How bytes move into a segment and out of it.

use wharf_backend::{
    BackendRef, Caps, IoDirection, MemBackend, MemSpace, PieceError, SegmentMut, TransferError,
};

use super::bytes::{expected, pattern, stamp, verify};
use super::vending::{address, placed};
use super::{alloc, max, small, vends};
use crate::check::{Demand, applies, ensure, equal, refused};
use crate::{Failure, Outcome};

pub(super) fn ranges<R: BackendRef + Clone>(backend: &R) -> Outcome {
    vends(backend)?;
    let size = max(backend).min(40);
    let mut segment = stamp(alloc(backend, size)?, 7)?;
    let (start, len) = (size / 4, size / 2);
    segment.fill(start, len, 0xEE).demand("a fill")?;
    let mut bytes = [0_u8; 40];
    let bytes = bytes.get_mut(..size).unwrap_or_default();
    segment.read(0, bytes).demand("a read")?;
    for (index, &mut found) in bytes.iter_mut().enumerate() {
        let filled = index >= start && index - start < len;
        let expected = if filled { 0xEE } else { pattern(7, index) };
        equal("a byte around a fill", found, expected)?;
    }
    // Byte by byte from the end: every offset, and lengths of one and none.
    for offset in (0..size).rev() {
        segment
            .write(offset, &[pattern(9, offset)])
            .demand("a write")?;
        segment.write(offset, &[]).demand("a write of nothing")?;
        segment.fill(offset, 0, 1).demand("a fill of nothing")?;
    }
    verify(&segment, 9)?;
    for offset in 0..=size {
        let mut rest = [0_u8; 40];
        let rest = rest.get_mut(..size - offset).unwrap_or_default();
        segment.read(offset, rest).demand("a read up to the end")?;
        for (index, &mut found) in rest.iter_mut().enumerate() {
            equal("a byte of the rest", found, pattern(9, offset + index))?;
        }
    }
    Ok(())
}

pub(super) fn out_of_bounds<R: BackendRef + Clone>(backend: &R) -> Outcome {
    vends(backend)?;
    let size = small(backend);
    let mut segment = stamp(alloc(backend, size)?, 3)?;
    let mut host = [0xAA_u8; 32];
    let beyond = [
        (size, 1),
        (size - 1, 2),
        (0, size + 1),
        (size + 1, 0),
        (usize::MAX, 0),
        (usize::MAX, 1),
        (usize::MAX, 2),
        (usize::MAX - size + 1, size),
    ];
    for (offset, len) in beyond {
        let expected = TransferError::OutOfBounds { offset, len, size };
        let bytes = host.get_mut(..len).demand("room for the test")?;
        refused("a write", segment.write(offset, bytes), expected)?;
        refused("a read", segment.read(offset, bytes), expected)?;
        refused("a fill", segment.fill(offset, len, 0xBB), expected)?;
    }
    // What no host slice is long enough for.
    for (offset, len) in [
        (1, usize::MAX),
        (size, usize::MAX - size + 1),
        (0, usize::MAX),
    ] {
        let expected = TransferError::OutOfBounds { offset, len, size };
        refused("a fill", segment.fill(offset, len, 0xBB), expected)?;
    }
    ensure(host == [0xAA; 32], "a refused read leaves the host's bytes")?;
    verify(&segment, 3)?;
    Ok(())
}

pub(super) fn exact_fill<R: BackendRef + Clone>(backend: &R) -> Outcome {
    vends(backend)?;
    let segment = small(backend);
    let bytes = expected(5, 0);
    for host in [0, segment - 1, segment + 1] {
        let short = bytes.get(..host).demand("room for the test")?;
        let answer = alloc(backend, segment)?.init_from(short);
        refused(
            "a fill",
            answer,
            TransferError::LengthMismatch { segment, host },
        )?;
    }
    let exact = bytes.get(..segment).demand("room for the test")?;
    let filled = alloc(backend, segment)?.init_from(exact).demand("a fill")?;
    verify(&filled, 5)?;
    Ok(())
}

pub(super) fn initialised<R: BackendRef + Clone>(backend: &R) -> Outcome {
    vends(backend)?;
    // So that there is something other than zero to be found.
    drop(stamp(alloc(backend, small(backend))?, 8)?);
    let segment = alloc(backend, small(backend))?
        .initialised()
        .demand("bytes")?;
    let mut bytes = [0xAA_u8; 24];
    let bytes = bytes.get_mut(..segment.len()).demand("room for the test")?;
    segment.read(0, bytes).demand("a read")?;
    if !backend.backend().caps().contains(Caps::VENDS_INITIALISED) {
        ensure(bytes.iter().all(|&byte| byte == 0), "they are zero")?;
    }
    Ok(())
}

pub(super) fn host_agrees<R: BackendRef + Clone>(backend: &R) -> Outcome {
    vends(backend)?;
    let mut segment = stamp(alloc(backend, small(backend))?, 4)?;
    placed(&segment)?;
    let device = backend.backend().space() == MemSpace::Device;
    if device {
        let lends = segment.host().is_ok() || segment.host_mut().is_ok();
        ensure(!lends, "device memory lends no bytes to the host")?;
        return Ok(());
    }
    let host = segment.host().ok().demand("host memory lends its bytes")?;
    equal("their number", host.len(), segment.len())?;
    for (offset, &found) in host.iter().enumerate() {
        equal(
            "a byte that was written by transfer",
            found,
            pattern(4, offset),
        )?;
    }
    let host = segment
        .host_mut()
        .ok()
        .demand("host memory lends its bytes")?;
    for (offset, byte) in host.iter_mut().enumerate() {
        *byte = pattern(6, offset);
    }
    verify(&segment, 6)?;
    Ok(())
}

/// By turns, each over a part of what the other one left: at once, so that nothing is put off until the next transfer.
pub(super) fn plain_copies<R: BackendRef + Clone>(backend: &R) -> Outcome {
    vends(backend)?;
    let caps = backend.backend().caps();
    applies(
        caps.contains(Caps::PLAIN_COPIES) && backend.backend().space() == MemSpace::Host,
        "its transfers are more than copies by the CPU, or not that",
    )?;
    let size = max(backend).min(MOVED);
    let mut segment = stamp(alloc(backend, size)?, 60)?;
    let mut plain = Plain::stamped(60, size);
    let bytes = expected(61, 0);
    let bytes = bytes.get(..bytes.len().min(size / 2)).unwrap_or_default();
    let (third, half) = (size / 3, size / 2);

    segment.fill(third, half, 0x5A).demand("a fill")?;
    plain.range(third, half).fill(0x5A);
    plain.is_at(&segment)?;
    segment.write(half, bytes).demand("a write")?;
    plain.range(half, bytes.len()).copy_from_slice(bytes);
    plain.is_at(&segment)?;

    let range = third..third.saturating_add(bytes.len());
    let own = segment.host_mut().ok().demand("bytes of the host")?;
    let own = own.get_mut(range).demand("room for the test")?;
    own.copy_from_slice(bytes);
    plain.range(third, bytes.len()).copy_from_slice(bytes);
    plain.is_in(&segment)?;
    let own = segment.host_mut().ok().demand("bytes of the host")?;
    own.get_mut(..half).demand("room for the test")?.fill(0xC3);
    plain.range(0, half).fill(0xC3);
    plain.is_in(&segment)?;
    segment.fill(size - 1, 1, 0x3C).demand("a fill")?;
    plain.range(size - 1, 1).fill(0x3C);
    plain.is_at(&segment)?;
    plain.is_in(&segment)?;
    Ok(())
}

/// To one that moves nothing: whatever the hooks before and after do to a cache, no byte is lost, within the range or beside it.
pub(super) fn handed_over<R: BackendRef + Clone>(backend: &R) -> Outcome {
    vends(backend)?;
    let size = max(backend).min(96);
    let mut segment = stamp(alloc(backend, size)?, 40)?;
    // If there is room for one.
    let neighbour = SegmentMut::alloc(backend.clone(), size).ok();
    let neighbour = neighbour.map(|segment| stamp(segment, 41)).transpose()?;
    let place = segment.place();
    let ranges = [
        (0, size),
        (size / 3, size / 3),
        (size - 1, 1),
        (size / 2, 0),
    ];
    for (offset, len) in ranges {
        for direction in [IoDirection::CpuToDevice, IoDirection::DeviceToCpu] {
            let in_flight = segment.hand_over(offset, len, direction);
            let in_flight = in_flight
                .map_err(|back| back.error)
                .demand("it is handed over")?;
            equal("the bytes handed over", in_flight.len(), len)?;
            let by = address(in_flight.place()).wrapping_sub(address(place));
            equal("where they start", by, offset as u64)?;
            segment = in_flight.land();
            verify(&segment, 40)?;
        }
    }
    let beyond = segment.hand_over(size, 1, IoDirection::DeviceToCpu);
    let Err(back) = beyond else {
        return Err(Failure::new("what is beyond it is not handed over").into());
    };
    let expected = TransferError::OutOfBounds {
        offset: size,
        len: 1,
        size,
    };
    refused("a range beyond", Err::<(), _>(back.error), expected)?;
    verify(&back.value, 40)?;
    if let Some(neighbour) = &neighbour {
        verify(neighbour, 41)?;
    }
    Ok(())
}

const BY_HOST: &str = "its bytes move by way of the host alone, one range at a time";

/// Bytes that the checks below move at most.
const MOVED: usize = 96;

/// What a segment should hold.
struct Plain([u8; MOVED], usize);

impl Plain {
    /// Stamped with `seed`.
    fn stamped(seed: u8, size: usize) -> Self {
        Self(core::array::from_fn(|at| pattern(seed, at)), size)
    }
    fn bytes(&mut self) -> &mut [u8] {
        let Self(bytes, size) = self;
        bytes.get_mut(..*size).unwrap_or_default()
    }
    fn range(&mut self, start: usize, len: usize) -> &mut [u8] {
        let end = start.saturating_add(len);
        self.bytes().get_mut(start..end).unwrap_or_default()
    }
    /// Seen by the CPU.
    #[inline(never)]
    fn is_at<R: BackendRef>(&mut self, segment: &SegmentMut<R>) -> Outcome {
        let found = segment.host().ok().demand("bytes of the host")?;
        equal("their number", found.len(), self.1)?;
        for (&found, &mut expected) in found.iter().zip(self.bytes()) {
            equal("a byte that the CPU sees", found, expected)?;
        }
        Ok(())
    }
    /// Seen by a transfer.
    #[inline(never)]
    fn is_in<R: BackendRef>(&mut self, segment: &SegmentMut<R>) -> Outcome {
        let mut found = [0xAA_u8; MOVED];
        let found = found.get_mut(..self.1).demand("room for the test")?;
        segment.read(0, found).demand("a read")?;
        for (&mut found, &mut expected) in found.iter_mut().zip(self.bytes()) {
            equal("a byte", found, expected)?;
        }
        Ok(())
    }
}

/// A segment whose bytes move by their addresses, with `seed`, if the backend does that at all.
fn by_address<R: BackendRef + Clone>(
    backend: &R,
    seed: u8,
) -> Result<(SegmentMut<R>, Plain), crate::check::Stop> {
    vends(backend)?;
    let size = max(backend).min(MOVED);
    let segment = stamp(alloc(backend, size)?, seed)?;
    let address = segment.by_address(0, size);
    applies(address.is_some(), BY_HOST)?;
    let address = address.demand("an address")?;
    ensure(
        !backend.backend().reaches(address, usize::MAX),
        "it does not reach all there is",
    )?;
    ensure(
        segment.by_address(size, 1).is_none(),
        "what is behind a segment is not its own",
    )?;
    Ok((segment, Plain::stamped(seed, size)))
}

/// Inside a segment, overlapping either way, and from one to another.
pub(super) fn copied_inside<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let (mut segment, mut plain) = by_address(backend, 50)?;
    let size = segment.len();
    let ranges = [
        (0, size / 3, size / 2),
        (size / 3, 0, size / 2),
        (0, size / 2, size / 2),
        (0, size - 1, 1),
        (size / 4, size / 4, size / 2),
        (size, 0, 0),
    ];
    for (from, to, len) in ranges {
        segment.move_within(from, to, len).demand("a copy")?;
        let source = from..from.saturating_add(len);
        plain.bytes().copy_within(source, to);
        plain.is_in(&segment)?;
    }
    for (from, to, len, offset) in [
        (0, 1, size, 1),
        (1, 0, size, 1),
        (size, size + 1, 0, size + 1),
    ] {
        let expected = TransferError::OutOfBounds { offset, len, size };
        refused("a copy", segment.move_within(from, to, len), expected)?;
    }
    plain.is_in(&segment)?;
    // If there is room for another one.
    let Ok(other) = SegmentMut::alloc(backend.clone(), size) else {
        return Ok(());
    };
    let mut other = stamp(other, 51)?;
    let mut expected = Plain::stamped(51, size);
    for (from, to, len) in [
        (size / 3, size / 4, size / 2),
        (0, 0, size),
        (size, size, 0),
    ] {
        let copied = other.copy_from_segment(to, &segment, from, len);
        copied.demand("a copy to another segment")?;
        let bytes = expected.range(to, len);
        bytes.copy_from_slice(plain.range(from, len));
        expected.is_in(&other)?;
        plain.is_in(&segment)?;
    }
    Ok(())
}

/// In their order, to their ends, and no further.
pub(super) fn all_at_once<R: BackendRef + Clone>(backend: &R) -> Outcome {
    let (mut segment, mut plain) = by_address(backend, 52)?;
    let size = segment.len();
    let bytes = expected(53, 0);
    let host = |len: usize| bytes.get(..len.min(bytes.len())).unwrap_or_default();
    // The third lies over the first, and the last over the third.
    let pieces = [
        (0, host(size / 2)),
        (size - 1, host(1)),
        (size / 4, host(size / 3)),
        (size, host(0)),
        (size / 3, host(1)),
    ];
    let moved = segment.write_all(&pieces);
    moved.map_err(|stopped| stopped.error).demand("writes")?;
    for (offset, bytes) in pieces {
        plain.range(offset, bytes.len()).copy_from_slice(bytes);
    }
    plain.is_in(&segment)?;

    let mut found = [[0xAA_u8; MOVED / 2]; 2];
    let [first, second] = &mut found;
    let first = first.get_mut(..size / 2).demand("room for the test")?;
    let second = second.get_mut(..size / 3).demand("room for the test")?;
    let from = size - second.len();
    let mut reads = [(from, &mut *second), (0, &mut *first)];
    let moved = segment.read_all(&mut reads);
    moved.map_err(|stopped| stopped.error).demand("reads")?;
    ensure(
        *first == *plain.range(0, size / 2) && *second == *plain.range(from, size / 3),
        "each read has its own bytes",
    )?;

    // One that leaves the segment is named, and none has moved.
    let beyond = [(0, host(1)), (size, host(1))];
    let error = TransferError::OutOfBounds {
        offset: size,
        len: 1,
        size,
    };
    let stopped = Err(PieceError { piece: 1, error });
    ensure(
        segment.write_all(&beyond) == stopped,
        "it is told which one cannot be",
    )?;
    plain.is_in(&segment)?;
    Ok(())
}
