//! The header of a `.safetensors` file, read far enough to say which number of which tensor is wrong.
//!
//! The `safetensors` crate reads the file in the end. It says that something is wrong, but for most
//! faults not where, keeps the last of two tensors with one name, and adds up offsets that may wrap.

use std::fmt;
use std::string::String;
use std::vec::Vec;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::FormatError;

/// The longest header that is parsed, in bytes. The real ones take 312 and 456; parsed JSON may take
/// many times its text in memory.
pub const HEADER_LIMIT: u64 = 64 << 10;

/// The most characters of the file's own text that an error repeats.
const TEXT_SHOWN: usize = 120;

/// Splits a file into its entries, in the order of the file, and its data.
pub(super) fn split(file: &[u8]) -> Result<(Entries, &[u8]), FormatError> {
    let Some((length, rest)) = file.split_first_chunk::<8>() else {
        return Err(FormatError::TooShort {
            expected: 8,
            found: file.len(),
        });
    };
    let (length, available) = (u64::from_le_bytes(*length), rest.len() as u64);
    // Compared before anything is added to it: a length near `u64::MAX` must not wrap into the file.
    let Some((json, data)) = usize::try_from(length)
        .ok()
        .and_then(|n| rest.split_at_checked(n))
    else {
        return Err(FormatError::HeaderPastEnd { length, available });
    };
    if length > HEADER_LIMIT {
        return Err(FormatError::HeaderTooLong {
            length,
            limit: HEADER_LIMIT,
        });
    }
    let entries = serde_json::from_slice(json).map_err(|error| FormatError::HeaderNotJson {
        reason: shown(&error),
    })?;
    Ok((entries, data))
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
pub(super) struct Entries(pub(super) Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with one entry a tensor")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Entries(entries))
    }
}
