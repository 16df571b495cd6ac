//! Names of tensors, kept in place.

use core::borrow::Borrow;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::Deref;
use core::str::FromStr;

/// The longest name, in bytes: what the Neuron runtime's tensor information has room for.
pub const NAME_MAX: usize = 255;

/// The name of a tensor: up to [`NAME_MAX`] bytes of UTF-8, any characters, none of them on a heap.
///
/// Takes 256 bytes, and can be made in a constant, so that a model's names lie in flash. Reading it as a `str` looks at each
/// byte once; comparing does not.
#[derive(Clone, Copy)]
pub struct Name {
    len: u8,
    /// The first `len` are UTF-8: they came from a `str`.
    bytes: [u8; NAME_MAX],
}

impl Name {
    /// Keeps `name`.
    ///
    /// # Errors
    /// It is longer than [`NAME_MAX`] bytes. It is not cut: the cut form might name another tensor.
    pub const fn new(name: &str) -> Result<Self, NameTooLong> {
        let mut bytes = [0; NAME_MAX];
        let Some((place, _)) = bytes.split_at_mut_checked(name.len()) else {
            return Err(NameTooLong { len: name.len() });
        };
        place.copy_from_slice(name.as_bytes());
        #[expect(clippy::cast_possible_truncation, reason = "255 at most")]
        let len = name.len() as u8;
        Ok(Self { len, bytes })
    }

    /// The name.
    #[must_use]
    pub const fn as_str(&self) -> &str {
        match str::from_utf8(self.as_bytes()) {
            Ok(name) => name,
            // Not reached: see `bytes`.
            Err(_) => "",
        }
    }

    /// The name's bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8] {
        self.bytes.split_at(self.len as usize).0
    }
}

impl Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // As a `str` does, which `Borrow` asks for.
        self.as_str().hash(state);
    }
}

impl FromStr for Name {
    type Err = NameTooLong;
    fn from_str(name: &str) -> Result<Self, NameTooLong> {
        Self::new(name)
    }
}

impl TryFrom<&str> for Name {
    type Error = NameTooLong;
    fn try_from(name: &str) -> Result<Self, NameTooLong> {
        Self::new(name)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for Name {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "{=str}", self.as_str());
    }
}

/// A name is too long. Nothing was kept of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct NameTooLong {
    /// Its bytes. At most [`NAME_MAX`] are kept.
    pub len: usize,
}

impl fmt::Display for NameTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a name of {} bytes, at most {NAME_MAX} are kept",
            self.len
        )
    }
}

impl core::error::Error for NameTooLong {}

/// As much of a name as an error carries: all of it up to 62 bytes, the beginning of a longer one.
///
/// Displayed between backquotes, its control characters escaped, so that a name from a file cannot write over a log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ShortName {
    /// The bytes of the whole name.
    full: usize,
    len: u8,
    /// The first `len` are UTF-8: cut between characters.
    bytes: [u8; Self::KEPT],
}

impl ShortName {
    /// The most bytes that are kept.
    pub const KEPT: usize = 62;

    /// Keeps the beginning of `name`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let cut = name.floor_char_boundary(Self::KEPT);
        let mut bytes = [0; Self::KEPT];
        bytes[..cut].copy_from_slice(&name.as_bytes()[..cut]);
        #[expect(clippy::cast_possible_truncation, reason = "62 at most")]
        let len = cut as u8;
        Self {
            full: name.len(),
            len,
            bytes,
        }
    }

    /// What is kept of the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let kept = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        str::from_utf8(kept).unwrap_or_default()
    }

    /// Whether that is not all.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.full > self.len as usize
    }

    /// The bytes of the whole name.
    #[must_use]
    pub const fn full_len(&self) -> usize {
        self.full
    }
}

impl fmt::Display for ShortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.as_str().escape_debug();
        if self.is_cut() {
            write!(f, "`{name}…` ({} bytes)", self.full)
        } else {
            write!(f, "`{name}`")
        }
    }
}

impl fmt::Debug for ShortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShortName({self})")
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for ShortName {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "`{=str}` ({=usize} bytes)", self.as_str(), self.full);
    }
}

/// No tensor has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct UnknownName {
    /// The name that was looked for.
    pub name: ShortName,
}

impl UnknownName {
    pub(crate) fn new(name: &str) -> Self {
        let name = ShortName::new(name);
        Self { name }
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no tensor {}", self.name)
    }
}

impl core::error::Error for UnknownName {}
