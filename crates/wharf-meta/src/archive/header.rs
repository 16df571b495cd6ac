//! The header of a `.safetensors` file, read far enough to say which number of which tensor is wrong.

use core::cell::Cell;
use core::fmt;
use std::string::String;
use std::vec::Vec;

use safetensors::tensor::TensorInfo;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::{ArchiveError, HEADER_MAX};
use crate::ShortName;

/// The one name in a header that is no tensor.
const METADATA: &str = "__metadata__";

/// The most characters of the file's own text that an error repeats.
const TEXT_SHOWN: usize = 120;

/// Where a tensor begins and ends, in the data behind the header.
type Span = (usize, usize);

/// Splits a file into its entries, in the order of the header, and its data.
pub(super) fn split(file: &[u8]) -> Result<(Entries, &[u8]), ArchiveError> {
    let Some((length, rest)) = file.split_first_chunk::<8>() else {
        return Err(ArchiveError::TooShort { found: file.len() });
    };
    let (length, available) = (u64::from_le_bytes(*length), rest.len() as u64);
    // Compared before anything is added to it: a length near `u64::MAX` must not wrap into the file.
    let Some((json, data)) = usize::try_from(length)
        .ok()
        .and_then(|n| rest.split_at_checked(n))
    else {
        return Err(ArchiveError::HeaderPastEnd { length, available });
    };
    if length > HEADER_MAX {
        return Err(ArchiveError::HeaderTooLong { length });
    }
    let broken = Cell::new(None);
    let mut json = serde_json::Deserializer::from_slice(json);
    let entries = Entries::read(&mut json, &broken)
        .and_then(|entries| json.end().map(|()| entries))
        .map_err(|error| {
            let reason = shown(&error);
            match broken.get() {
                Some(name) => ArchiveError::Entry { name, reason },
                None => ArchiveError::Header { reason },
            }
        })?;
    Ok((entries, data))
}

/// Holds one entry against itself and the data, and returns where its bytes are.
pub(super) fn check(
    name: &str,
    entry: &TensorInfo,
    available: usize,
) -> Result<Span, ArchiveError> {
    let short = || ShortName::new(name);
    let (begin, end) = entry.data_offsets;
    let Some(found) = end.checked_sub(begin) else {
        return Err(ArchiveError::OffsetsReversed {
            name: short(),
            begin,
            end,
        });
    };
    if end > available {
        return Err(ArchiveError::PastEnd {
            name: short(),
            end,
            available,
        });
    }
    // In bits, as elements may be smaller than a byte. What does not fit 128 bits is in no file.
    let bits = entry
        .shape
        .iter()
        .try_fold(entry.dtype.bitsize() as u128, |bits, &axis| {
            bits.checked_mul(axis as u128)
        });
    if bits != Some(found as u128 * 8) {
        return Err(ArchiveError::Extent {
            name: short(),
            expected: bits.map_or(u64::MAX, |bits| {
                u64::try_from(bits.div_ceil(8)).unwrap_or(u64::MAX)
            }),
            found,
        });
    }
    Ok((begin, end))
}

/// The tensors, sorted, fill the data: each byte belongs to exactly one.
pub(super) fn check_cover<'a>(
    spans: impl Iterator<Item = (Span, &'a str)>,
    available: usize,
) -> Result<(), ArchiveError> {
    let mut previous_end = 0;
    for ((begin, end), name) in spans {
        let name = || ShortName::new(name);
        if begin < previous_end {
            return Err(ArchiveError::Overlap {
                name: name(),
                begin,
                previous_end,
            });
        }
        if begin > previous_end {
            return Err(ArchiveError::Gap {
                name: name(),
                begin,
                previous_end,
            });
        }
        previous_end = end;
    }
    if previous_end == available {
        Ok(())
    } else {
        Err(ArchiveError::TrailingBytes {
            end: previous_end,
            available,
        })
    }
}

/// Text of the file, or about it, made fit to be printed.
pub(super) fn shown(text: &impl fmt::Display) -> String {
    let text = std::format!("{text}");
    let mut escaped = text.chars().flat_map(char::escape_debug);
    let mut shown: String = escaped.by_ref().take(TEXT_SHOWN).collect();
    if escaped.next().is_some() {
        shown.push_str("...");
    }
    shown
}

/// The header's entries as they stand there: a map would drop the first of two with one name.
pub(super) struct Entries(pub(super) Vec<(String, TensorInfo)>);

impl Entries {
    /// Reads a header. Where an entry is at fault, its name is left in `broken`.
    fn read<'de, D: Deserializer<'de>>(
        json: D,
        broken: &Cell<Option<ShortName>>,
    ) -> Result<Self, D::Error> {
        json.deserialize_map(EntriesVisitor { broken })
    }
}

struct EntriesVisitor<'a> {
    broken: &'a Cell<Option<ShortName>>,
}

impl<'de> Visitor<'de> for EntriesVisitor<'_> {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with one entry a tensor")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
        let mut entries = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == METADATA {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let entry = map
                .next_value()
                .inspect_err(|_| self.broken.set(Some(ShortName::new(&name))))?;
            entries.push((name, entry));
        }
        Ok(Entries(entries))
    }
}
