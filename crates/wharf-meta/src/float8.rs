//! Floating-point numbers of eight bits: the four formats that accelerators use, and their conversions.
//!
//! The conversions work on bits alone, so they need no floating-point unit, and are the same in a constant.
//! Why they are ours: decision 33.

use core::fmt;

/// How the eight bits of a format are to be read.
struct Format {
    /// Bits of the fraction. The exponent takes the rest, but for the sign.
    fraction: u32,
    /// Whether the largest exponent stands for infinities and NaNs, as in IEEE 754. Otherwise it is a number like any
    /// other, but for the one pattern with all bits set, which is NaN.
    ieee: bool,
}

const F32_FRACTION: u32 = 23;
const F32_BIAS: u32 = 127;
const F32_INFINITY: u32 = 0x7F80_0000;

impl Format {
    const fn bias(&self) -> u32 {
        (1 << (6 - self.fraction)) - 1
    }

    /// The pattern of positive infinity, which is also the first past the numbers; or of NaN where there are no infinities.
    const fn ceiling(&self) -> u32 {
        if self.ieee {
            0x7F & !((1 << self.fraction) - 1)
        } else {
            0x7F
        }
    }

    /// The canonical NaN: quiet, positive.
    const fn nan(&self) -> u32 {
        if self.ieee {
            self.ceiling() | 1 << (self.fraction - 1)
        } else {
            0x7F
        }
    }

    /// Every value of eight bits is one of thirty-two: exact.
    const fn decode(&self, bits: u8) -> f32 {
        let sign = (bits as u32 & 0x80) << 24;
        let magnitude = bits as u32 & 0x7F;
        let fraction = magnitude & ((1 << self.fraction) - 1);
        let exponent = magnitude >> self.fraction;
        let value = if magnitude > self.ceiling() || (!self.ieee && magnitude == 0x7F) {
            F32_INFINITY | 1 << (F32_FRACTION - 1)
        } else if magnitude == self.ceiling() {
            F32_INFINITY
        } else if exponent > 0 {
            // The fields move to their places, and the exponent to its bias.
            (magnitude << (F32_FRACTION - self.fraction))
                + ((F32_BIAS - self.bias()) << F32_FRACTION)
        } else if fraction > 0 {
            // Subnormal: the highest set bit becomes the implied one.
            let top = fraction.ilog2();
            let exponent = F32_BIAS + 1 - self.bias() + top - self.fraction;
            exponent << F32_FRACTION | (fraction ^ 1 << top) << (F32_FRACTION - top)
        } else {
            0
        };
        f32::from_bits(sign | value)
    }

    /// The nearest value, of two as near the one with an even pattern. What rounds past the largest becomes infinity, or NaN
    /// where there is none.
    const fn encode(&self, value: f32) -> u8 {
        let sign = (value.to_bits() >> 24) & 0x80;
        let magnitude = value.to_bits() & 0x7FFF_FFFF;
        let rounded = if magnitude > F32_INFINITY {
            self.nan()
        } else if magnitude == F32_INFINITY {
            self.ceiling()
        } else {
            let exponent = magnitude >> F32_FRACTION;
            let significand = magnitude & ((1 << F32_FRACTION) - 1) | 1 << F32_FRACTION;
            // The exponent that a pattern of ours would have. Below one it is subnormal: the significand moves down instead.
            let (base, dropped) = match (exponent + self.bias()).checked_sub(F32_BIAS + 1) {
                // `base` is one less than the exponent: the implied bit of the significand adds that one.
                Some(base) => (base, F32_FRACTION - self.fraction),
                None => {
                    let below = F32_BIAS + 1 - self.bias() - exponent;
                    (0, F32_FRACTION - self.fraction + below)
                }
            };
            // At 25 dropped bits all that is left is less than half of the smallest value.
            if dropped > F32_FRACTION + 1 {
                0
            } else {
                let kept = significand >> dropped;
                let rest = significand & ((1 << dropped) - 1);
                let half = 1 << (dropped - 1);
                let up = rest > half || (rest == half && kept & 1 == 1);
                // A carry out of the fraction is the next exponent, which is what it should be.
                let pattern = (base << self.fraction) + kept + up as u32;
                if pattern < self.ceiling() {
                    pattern
                } else {
                    self.ceiling()
                }
            }
        };
        #[expect(clippy::cast_possible_truncation, reason = "seven bits and a sign")]
        let bits = (sign | rounded) as u8;
        bits
    }
}

macro_rules! float8 {
    (
        $(#[$about:meta])*
        $name:ident: $fraction:literal, $ieee:literal, max $max:literal
    ) => {
        $(#[$about])*
        ///
        /// A bare byte: compare by value through [`to_f32`](Self::to_f32), equality here is that of bits.
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        #[cfg_attr(feature = "defmt", derive(defmt::Format))]
        #[cfg_attr(
            feature = "zerocopy",
            derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)
        )]
        #[repr(transparent)]
        pub struct $name(u8);

        impl $name {
            const FORMAT: Format = Format { fraction: $fraction, ieee: $ieee };

            /// The largest number.
            pub const MAX: Self = Self::from_f32($max);
            /// The smallest number above zero (a subnormal one).
            pub const MIN_POSITIVE: Self = Self(1);

            /// The value with these bits.
            #[inline]
            #[must_use]
            pub const fn from_bits(bits: u8) -> Self {
                Self(bits)
            }

            /// The bits.
            #[inline]
            #[must_use]
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// The nearest value, of two as near the one whose bits are even. What rounds past [`MAX`](Self::MAX) becomes
            /// infinity, or NaN in a format without one; every NaN becomes one of the same sign.
            #[must_use]
            pub const fn from_f32(value: f32) -> Self {
                Self(Self::FORMAT.encode(value))
            }

            /// The nearest value as [`from_f32`](Self::from_f32) finds it, but [`MAX`](Self::MAX) of the same sign in place of
            /// what is larger, infinities included. NaN stays NaN.
            #[must_use]
            pub const fn from_f32_saturating(value: f32) -> Self {
                Self::from_f32(value.clamp(-$max, $max))
            }

            /// The value, exactly. Every NaN becomes the quiet one of the same sign.
            #[must_use]
            pub const fn to_f32(self) -> f32 {
                Self::FORMAT.decode(self.0)
            }

            /// Whether it is no number.
            #[must_use]
            pub const fn is_nan(self) -> bool {
                self.to_f32().is_nan()
            }
        }

        impl From<$name> for f32 {
            fn from(value: $name) -> Self {
                value.to_f32()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.to_f32(), f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.to_f32().fmt(f)
            }
        }
    };
}

float8! {
    /// A sign, 3 bits of exponent (bias 3), 4 of fraction, by the rules of IEEE 754: ±15.5 is the largest, then infinity and
    /// NaNs. What [`DType::Fp8E3`](crate::DType::Fp8E3) holds, `float8_e3m4` elsewhere.
    F8E3M4: 4, true, max 15.5
}
float8! {
    /// A sign, 4 bits of exponent (bias 7), 3 of fraction, by the rules of IEEE 754: ±240 is the largest, then infinity and
    /// NaNs. What [`DType::Fp8E4`](crate::DType::Fp8E4) holds on devices that follow IEEE 754, `float8_e4m3` elsewhere.
    F8E4M3: 3, true, max 240.0
}
float8! {
    /// A sign, 4 bits of exponent (bias 7), 3 of fraction, as the Open Compute Project's OFP8 (1.0, section 5) has it: no
    /// infinities, ±448 is the largest, and only `S.1111.111` is NaN. What `.safetensors` files and most training frameworks
    /// mean by E4M3, `float8_e4m3fn` elsewhere; also [`DType::Fp8E4`](crate::DType::Fp8E4).
    F8E4M3Fn: 3, false, max 448.0
}
float8! {
    /// A sign, 5 bits of exponent (bias 15), 2 of fraction, by the rules of IEEE 754, as OFP8 has it too: ±57344 is the
    /// largest, then infinity and NaNs. What [`DType::Fp8E5`](crate::DType::Fp8E5) holds, `float8_e5m2` elsewhere.
    F8E5M2: 2, true, max 57344.0
}
