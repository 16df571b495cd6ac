//! What a caller calls his memory.

use core::fmt;

/// Bytes that a tag holds.
const CAPACITY: usize = 47;
/// What stands for the part of a long name that was left out.
const CUT: &str = "…";

/// A name that goes with a request, so that reports of it name it.
///
/// It holds 47 bytes in itself and allocates nothing. Of a longer name it keeps the *end*, where names of one model differ,
/// behind a `…`. Control characters are shown as `�`.
///
/// ```
/// use wharf_backend::usage::Tag;
///
/// assert_eq!(Tag::new("conv1.weight").to_string(), "conv1.weight");
/// let long = Tag::new("model.decoder.layers.31.self_attention.q_proj.weight");
/// assert_eq!(long.to_string(), "…coder.layers.31.self_attention.q_proj.weight");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag {
    /// The first `len` are text, the others zero.
    bytes: [u8; CAPACITY],
    len: u8,
}

impl Tag {
    /// No name.
    pub const NONE: Self = Self {
        bytes: [0; CAPACITY],
        len: 0,
    };

    /// The tag of this name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut tag = Self::NONE;
        if name.len() <= CAPACITY {
            tag.push(name);
            return tag;
        }
        let earliest = name.len() - (CAPACITY - CUT.len());
        tag.push(CUT);
        // The end of a string is a boundary, so there is one.
        if let Some(start) = (earliest..=name.len()).find(|&at| name.is_char_boundary(at)) {
            tag.push(&name[start..]);
        }
        tag
    }

    fn push(&mut self, text: &str) {
        for byte in text.bytes() {
            if let Some(place) = self.bytes.get_mut(usize::from(self.len)) {
                *place = byte;
                self.len += 1;
            }
        }
    }

    /// The name, or what was kept of it. Empty if there is none.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let text = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        core::str::from_utf8(text).unwrap_or_default()
    }

    /// Whether there is no name.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.len == 0
    }
}

impl Default for Tag {
    fn default() -> Self {
        Self::NONE
    }
}

impl From<&str> for Tag {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        for character in self.as_str().chars() {
            let shown = if character.is_control() {
                '\u{FFFD}'
            } else {
                character
            };
            f.write_char(shown)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tag({:?})", self.as_str())
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for Tag {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "{=str}", self.as_str());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::{String, ToString};

    #[test]
    fn a_name_is_kept_as_it_is_or_from_its_end() {
        let fits = "x".repeat(CAPACITY);
        assert_eq!(Tag::new(&fits).as_str(), fits);
        let long = String::from("0123456789") + &"y".repeat(44);
        assert_eq!(
            Tag::new(&long).as_str(),
            String::from("…") + &"y".repeat(44)
        );
        // 2 bytes each: the cut would be in the middle of one, so that one goes, too.
        let wide = "é".repeat(40) + "z";
        let kept = Tag::new(&wide);
        assert_eq!(kept.as_str(), String::from("…") + &"é".repeat(21) + "z");
        // A cut that no boundary is near: four bytes a character.
        let wider = "🦀".repeat(20);
        assert_eq!(
            Tag::new(&wider).as_str(),
            String::from("…") + &"🦀".repeat(11)
        );
    }

    #[test]
    fn hostile_names_are_shown_on_one_line() {
        assert_eq!(
            Tag::new("a\nb\0\u{1b}[2J").to_string(),
            "a\u{FFFD}b\u{FFFD}\u{FFFD}[2J"
        );
        assert_eq!(Tag::new(""), Tag::NONE);
        assert!(Tag::default().is_none());
        assert_eq!(Tag::from("a").to_string(), "a");
        assert_eq!(std::format!("{:?}", Tag::new("a\"b")), "Tag(\"a\\\"b\")");
    }
}
