//! Which Rust types stand for which element types.

use crate::{DType, F8E3M4, F8E4M3, F8E4M3Fn, F8E5M2};

/// A Rust type whose values are elements of a tensor.
///
/// In a tensor, elements are little-endian, whatever the CPU is. Implement it for types of your own, for instance a
/// newtype over `i8` that carries a scale:
///
/// ```
/// use wharf_meta::{DType, Element};
///
/// #[derive(Clone, Copy)]
/// struct Celsius(i8);
///
/// impl Element for Celsius {
///     const DTYPES: &'static [DType] = &[DType::I8];
///     type Bytes = [u8; 1];
///     fn from_bytes(bytes: [u8; 1]) -> Self {
///         Self(i8::from_le_bytes(bytes))
///     }
///     fn to_bytes(self) -> [u8; 1] {
///         self.0.to_le_bytes()
///     }
/// }
/// ```
///
/// What has no fixed bytes is no element:
///
/// ```compile_fail,E0277
/// # use wharf_meta::{Typed, TypedError};
/// # use wharf_tensor::Target;
/// fn flags<T: Target>(tensor: &Typed<T>, flags: &mut [bool]) -> Result<(), TypedError> {
///     tensor.read_as(0, flags) // error: not every byte is a `bool`
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no element of a tensor",
    note = "elements are the integers up to 64 bits, `f32`, the `F8…` types, and with the feature `half` `half::f16` and `half::bf16`"
)]
pub trait Element: Copy + 'static {
    /// The element types that it stands for.
    const DTYPES: &'static [DType];

    /// Its bytes: an array of as many as [`DType::size`] says of each of [`DTYPES`](Self::DTYPES).
    type Bytes: AsRef<[u8]> + AsMut<[u8]> + Default;

    /// The value with these bytes, which are little-endian.
    fn from_bytes(bytes: Self::Bytes) -> Self;

    /// Its bytes, little-endian.
    fn to_bytes(self) -> Self::Bytes;

    /// Whether elements of type `dtype` are values of this type.
    #[must_use]
    fn stands_for(dtype: DType) -> bool {
        Self::DTYPES.contains(&dtype)
    }
}

macro_rules! elements {
    ($($type:ty: $size:literal = $($dtype:ident),+;)+) => {
        $(impl Element for $type {
            const DTYPES: &'static [DType] = &[$(DType::$dtype),+];
            type Bytes = [u8; $size];
            #[inline]
            fn from_bytes(bytes: [u8; $size]) -> Self {
                Self::from_le_bytes(bytes)
            }
            #[inline]
            fn to_bytes(self) -> [u8; $size] {
                self.to_le_bytes()
            }
        })+
    };
}

elements! {
    u8: 1 = U8;
    i8: 1 = I8;
    u16: 2 = U16;
    i16: 2 = I16;
    u32: 4 = U32;
    i32: 4 = I32;
    u64: 8 = U64;
    i64: 8 = I64;
    f32: 4 = F32, Fp32R;
}

#[cfg(feature = "half")]
elements! {
    half::f16: 2 = F16;
    half::bf16: 2 = Bf16;
}

macro_rules! bytes {
    ($($type:ty = $dtype:ident;)+) => {
        $(impl Element for $type {
            const DTYPES: &'static [DType] = &[DType::$dtype];
            type Bytes = [u8; 1];
            #[inline]
            fn from_bytes([bits]: [u8; 1]) -> Self {
                Self::from_bits(bits)
            }
            #[inline]
            fn to_bytes(self) -> [u8; 1] {
                [self.to_bits()]
            }
        })+
    };
}

bytes! {
    F8E3M4 = Fp8E3;
    F8E4M3 = Fp8E4;
    F8E4M3Fn = Fp8E4;
    F8E5M2 = Fp8E5;
}
