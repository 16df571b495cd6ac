//! The types that elements can have.

use core::fmt;
use core::str::FromStr;

/// The type of a tensor's elements. The numbers are those of the Neuron runtime's `nrt_dtype_t`, so that what was written by
/// one is read by the other.
///
/// ```
/// use wharf_meta::DType;
///
/// assert_eq!("bf16".parse(), Ok(DType::Bf16));
/// assert_eq!(DType::try_from(10), Ok(DType::F32));
/// assert_eq!(DType::F32.size(), Some(4));
/// assert_eq!(DType::Fp8E4.to_string(), "fp8_e4");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum DType {
    /// Nobody says. It has no size, so such a tensor is described by its bytes.
    #[default]
    Unknown = 0,
    /// 64 bits, unsigned.
    U64 = 1,
    /// 8 bits, signed.
    I8 = 2,
    /// 8 bits, unsigned.
    U8 = 3,
    /// 16 bits, signed.
    I16 = 4,
    /// 16 bits, unsigned.
    U16 = 5,
    /// The upper half of an [`F32`](Self::F32): 8 bits of exponent, 7 of fraction.
    Bf16 = 6,
    /// IEEE 754 binary16: 5 bits of exponent, 10 of fraction.
    F16 = 7,
    /// 32 bits, signed.
    I32 = 8,
    /// 32 bits, unsigned.
    U32 = 9,
    /// IEEE 754 binary32.
    F32 = 10,
    /// An [`F32`](Self::F32) in memory, which the device computes with rounded operands.
    Fp32R = 11,
    /// 64 bits, signed.
    I64 = 12,
    /// 3 bits of exponent, 4 of fraction: [`F8E3M4`](crate::F8E3M4).
    Fp8E3 = 13,
    /// 4 bits of exponent, 3 of fraction. Two formats go by this number: [`F8E4M3`](crate::F8E4M3), which has infinities, and
    /// [`F8E4M3Fn`](crate::F8E4M3Fn), which trades them for range. Which one a tensor holds is known by who made it.
    Fp8E4 = 14,
    /// 5 bits of exponent, 2 of fraction: [`F8E5M2`](crate::F8E5M2).
    Fp8E5 = 15,
}

impl DType {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 16] = [
        Self::Unknown,
        Self::U64,
        Self::I8,
        Self::U8,
        Self::I16,
        Self::U16,
        Self::Bf16,
        Self::F16,
        Self::I32,
        Self::U32,
        Self::F32,
        Self::Fp32R,
        Self::I64,
        Self::Fp8E3,
        Self::Fp8E4,
        Self::Fp8E5,
    ];

    /// The number, as it stands in files and C interfaces.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The type with this number.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        if (number as usize) < Self::ALL.len() {
            Some(Self::ALL[number as usize])
        } else {
            None
        }
    }

    /// Bytes of one element; `None` for [`Unknown`](Self::Unknown).
    #[inline]
    #[must_use]
    pub const fn size(self) -> Option<usize> {
        Some(match self {
            Self::Unknown => return None,
            Self::I8 | Self::U8 | Self::Fp8E3 | Self::Fp8E4 | Self::Fp8E5 => 1,
            Self::I16 | Self::U16 | Self::Bf16 | Self::F16 => 2,
            Self::I32 | Self::U32 | Self::F32 | Self::Fp32R => 4,
            Self::U64 | Self::I64 => 8,
        })
    }

    /// The name, which [`from_str`](Self::from_str) reads back.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::U64 => "u64",
            Self::I8 => "i8",
            Self::U8 => "u8",
            Self::I16 => "i16",
            Self::U16 => "u16",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::I32 => "i32",
            Self::U32 => "u32",
            Self::F32 => "f32",
            Self::Fp32R => "fp32r",
            Self::I64 => "i64",
            Self::Fp8E3 => "fp8_e3",
            Self::Fp8E4 => "fp8_e4",
            Self::Fp8E5 => "fp8_e5",
        }
    }

    /// What Python's frameworks call it; [`from_str`](Self::from_str) takes this too.
    const fn long_name(self) -> &'static str {
        match self {
            Self::Unknown | Self::Fp32R => self.name(),
            Self::U64 => "uint64",
            Self::I8 => "int8",
            Self::U8 => "uint8",
            Self::I16 => "int16",
            Self::U16 => "uint16",
            Self::Bf16 => "bfloat16",
            Self::F16 => "float16",
            Self::I32 => "int32",
            Self::U32 => "uint32",
            Self::F32 => "float32",
            Self::I64 => "int64",
            Self::Fp8E3 => "float8_e3m4",
            Self::Fp8E4 => "float8_e4m3",
            Self::Fp8E5 => "float8_e5m2",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl From<DType> for u8 {
    fn from(dtype: DType) -> Self {
        dtype.number()
    }
}

/// No type has this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct UnknownNumber {
    /// The number.
    pub number: u8,
}

impl fmt::Display for UnknownNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = DType::ALL.len() - 1;
        write!(
            f,
            "{} is no number of a dtype, they end at {last}",
            self.number
        )
    }
}

impl core::error::Error for UnknownNumber {}

impl TryFrom<u8> for DType {
    type Error = UnknownNumber;
    fn try_from(number: u8) -> Result<Self, UnknownNumber> {
        Self::from_number(number).ok_or(UnknownNumber { number })
    }
}

/// No type is called so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ParseDTypeError {
    /// How long the text was, in bytes.
    pub len: usize,
}

impl fmt::Display for ParseDTypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the {} bytes are no name of a dtype; there are",
            self.len
        )?;
        for (i, dtype) in DType::ALL.iter().enumerate() {
            write!(f, "{} {dtype}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl core::error::Error for ParseDTypeError {}

impl FromStr for DType {
    type Err = ParseDTypeError;

    /// Takes the [`name`](Self::name), or the one that Python's frameworks use (`float32`, `uint8`, `bfloat16`, `float8_e4m3`),
    /// in upper or lower case.
    fn from_str(text: &str) -> Result<Self, ParseDTypeError> {
        let called = |dtype: &Self| {
            text.eq_ignore_ascii_case(dtype.name()) || text.eq_ignore_ascii_case(dtype.long_name())
        };
        let error = ParseDTypeError { len: text.len() };
        Self::ALL.into_iter().find(called).ok_or(error)
    }
}
