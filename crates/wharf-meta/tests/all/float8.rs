//! Eight-bit floats, against the formula of their formats and a search for the nearest value.

use proptest::prelude::*;
use wharf_meta::{F8E3M4, F8E4M3, F8E4M3Fn, F8E5M2};

/// A format as its definition gives it, computed with in `f64`, where everything here is exact.
#[derive(Clone, Copy, Debug)]
struct Model {
    fraction_bits: i32,
    bias: i32,
    /// The pattern of infinity, if there is one.
    infinity: Option<u8>,
    /// The first pattern that is NaN.
    nan: u8,
    /// The pattern that NaN becomes.
    quiet: u8,
    encode: fn(f32) -> u8,
    saturate: fn(f32) -> u8,
    decode: fn(u8) -> f32,
}

macro_rules! model {
    ($type:ident, $fraction_bits:literal, $bias:literal, $infinity:expr, $nan:literal, $quiet:literal) => {
        Model {
            fraction_bits: $fraction_bits,
            bias: $bias,
            infinity: $infinity,
            nan: $nan,
            quiet: $quiet,
            encode: |value| $type::from_f32(value).to_bits(),
            saturate: |value| $type::from_f32_saturating(value).to_bits(),
            decode: |bits| $type::from_bits(bits).to_f32(),
        }
    };
}

const MODELS: [Model; 4] = [
    model!(F8E3M4, 4, 3, Some(0x70), 0x71, 0x78),
    model!(F8E4M3, 3, 7, Some(0x78), 0x79, 0x7C),
    model!(F8E4M3Fn, 3, 7, None, 0x7F, 0x7F),
    model!(F8E5M2, 2, 15, Some(0x7C), 0x7D, 0x7E),
];

impl Model {
    /// The number that a positive pattern below infinity and NaN stands for; above them the one that it would.
    fn number(self, bits: u8) -> f64 {
        let fraction =
            f64::from(bits & ((1 << self.fraction_bits) - 1)) / f64::from(1 << self.fraction_bits);
        match i32::from(bits >> self.fraction_bits) {
            0 => fraction * 2_f64.powi(1 - self.bias),
            exponent => (1.0 + fraction) * 2_f64.powi(exponent - self.bias),
        }
    }

    fn largest(self) -> u8 {
        self.infinity.unwrap_or(self.nan) - 1
    }

    /// The pattern for `value` by looking at every number there is, and the one that would come after the largest.
    fn nearest(self, value: f32) -> u8 {
        let sign = if value.is_sign_negative() { 0x80 } else { 0 };
        if value.is_nan() {
            return sign | self.quiet;
        }
        let past = self.largest() + 1;
        let magnitude = f64::from(value.abs());
        let distance = |bits: u8| (self.number(bits) - magnitude).abs();
        let best = if magnitude >= self.number(past) {
            past
        } else {
            (0..=past)
                .min_by(|&a, &b| {
                    let order = distance(a).partial_cmp(&distance(b)).unwrap();
                    order.then((a & 1).cmp(&(b & 1)))
                })
                .unwrap()
        };
        sign | if best == past {
            self.infinity.unwrap_or(self.quiet)
        } else {
            best
        }
    }

    fn check(self, value: f32) {
        let (got, expected) = ((self.encode)(value), self.nearest(value));
        assert_eq!(
            got,
            expected,
            "{value:e} ({:#x}): {self:?}",
            value.to_bits()
        );
    }
}

#[test]
fn all_patterns_mean_what_the_formats_say() {
    for model in MODELS {
        for bits in 0..=u8::MAX {
            let (magnitude, value) = (bits & 0x7F, (model.decode)(bits));
            assert_eq!(
                value.is_sign_negative(),
                bits >= 0x80,
                "{bits:#x}: {model:?}"
            );
            if magnitude >= model.nan {
                assert!(value.is_nan(), "{bits:#x}: {model:?}");
            } else if Some(magnitude) == model.infinity {
                assert!(value.is_infinite(), "{bits:#x}: {model:?}");
            } else {
                let expected = model.number(magnitude);
                assert_eq!(f64::from(value.abs()), expected, "{bits:#x}: {model:?}");
                // And back.
                assert_eq!((model.encode)(value), bits);
                assert_eq!((model.saturate)(value), bits);
            }
        }
    }
}

/// Numbers from the definitions: the table of OFP8 for the last two, and LLVM's and MLIR's `f8E3M4` and `f8E4M3` for the others.
#[test]
fn the_limits_are_those_of_the_specifications() {
    let limits = [
        (
            F8E3M4::MAX.to_f32(),
            F8E3M4::MIN_POSITIVE.to_f32(),
            15.5,
            -6,
        ),
        (
            F8E4M3::MAX.to_f32(),
            F8E4M3::MIN_POSITIVE.to_f32(),
            240.0,
            -9,
        ),
        (
            F8E4M3Fn::MAX.to_f32(),
            F8E4M3Fn::MIN_POSITIVE.to_f32(),
            448.0,
            -9,
        ),
        (
            F8E5M2::MAX.to_f32(),
            F8E5M2::MIN_POSITIVE.to_f32(),
            57344.0,
            -16,
        ),
    ];
    for (max, min, expected_max, exponent) in limits {
        assert_eq!((max, min), (expected_max, 2_f32.powi(exponent)));
    }
    assert_eq!(F8E3M4::from_f32(f32::INFINITY).to_bits(), 0x70);
    assert_eq!(F8E4M3::from_f32(f32::NEG_INFINITY).to_bits(), 0xF8);
    assert_eq!(F8E5M2::from_f32(f32::INFINITY).to_bits(), 0x7C);
    assert_eq!(F8E4M3Fn::from_f32(f32::INFINITY).to_bits(), 0x7F);
    assert_eq!(F8E4M3::from_f32(1.0).to_bits(), 0x38);
    assert_eq!(F8E5M2::from_f32(-1.5).to_bits(), 0xBE);
    assert!(F8E4M3Fn::from_bits(0xFF).is_nan() && !F8E4M3Fn::from_bits(0x7E).is_nan());
}

#[test]
fn ties_go_to_the_even_pattern_and_what_is_past_the_largest_overflows() {
    // Between 1 and 1.125 lies 1.0625; between 1.125 and 1.25 lies 1.1875.
    assert_eq!(F8E4M3::from_f32(1.0625).to_f32(), 1.0);
    assert_eq!(F8E4M3::from_f32(1.1875).to_f32(), 1.25);
    // Half of the smallest is a tie with zero.
    assert_eq!(F8E5M2::from_f32(2_f32.powi(-17)).to_bits(), 0);
    assert_eq!(F8E5M2::from_f32(-2_f32.powi(-17)).to_bits(), 0x80);
    assert_eq!(F8E5M2::from_f32(2_f32.powi(-17) * 1.5).to_bits(), 1);
    // 240 is odd, so the tie with 256 overflows; 448 is even.
    assert_eq!(F8E4M3::from_f32(247.9).to_f32(), 240.0);
    assert_eq!(F8E4M3::from_f32(248.0).to_f32(), f32::INFINITY);
    assert_eq!(F8E4M3Fn::from_f32(464.0).to_f32(), 448.0);
    assert!(F8E4M3Fn::from_f32(464.1).is_nan());
    assert_eq!(
        F8E4M3Fn::from_f32_saturating(f32::NEG_INFINITY).to_f32(),
        -448.0
    );
    assert_eq!(F8E4M3::from_f32_saturating(248.0), F8E4M3::MAX);
    assert!(F8E3M4::from_f32_saturating(f32::NAN).is_nan());
}

#[test]
fn values_are_rounded_to_the_nearest_around_every_boundary() {
    for model in MODELS {
        for bits in 0..=model.largest() {
            let (low, high) = (model.number(bits), model.number(bits + 1));
            #[expect(clippy::cast_possible_truncation, reason = "exact: few bits are set")]
            let middle = ((low + high) / 2.0) as f32;
            for value in [middle, middle.next_down(), middle.next_up()] {
                model.check(value);
                model.check(-value);
            }
        }
    }
}

/// Every sign, exponent and upper seven bits of the fraction, with the lower ones at what decides a tie.
#[test]
fn values_of_all_magnitudes_are_rounded_to_the_nearest() {
    for model in MODELS {
        for upper in 0..=u16::MAX {
            for lower in [0, 1, u16::MAX] {
                let value = f32::from_bits(u32::from(upper) << 16 | u32::from(lower));
                // The search is slow: by it only what could be a number here, and some of the rest.
                if (-20..=20).contains(&(i32::from((upper >> 7) & 0xFF) - 127)) && upper & 3 == 0 {
                    model.check(value);
                }
                let decoded = (model.decode)((model.encode)(value));
                assert_eq!(decoded.is_sign_negative(), value.is_sign_negative());
                assert!(!value.is_nan() || decoded.is_nan());
            }
        }
    }
}

/// The crate `float8` knows two of the four, and only the saturating way.
#[test]
fn the_crate_float8_agrees_where_it_has_the_format() {
    for bits in 0..=u8::MAX {
        let ours = F8E4M3Fn::from_bits(bits).to_f32();
        let theirs = float8::F8E4M3::from_bits(bits).to_f32();
        assert!(
            ours == theirs || (ours.is_nan() && theirs.is_nan()),
            "{bits:#x}"
        );
        let ours = F8E5M2::from_bits(bits).to_f32();
        let theirs = float8::F8E5M2::from_bits(bits).to_f32();
        assert!(
            ours == theirs || (ours.is_nan() && theirs.is_nan()),
            "{bits:#x}"
        );
    }
    for upper in 0..=u16::MAX {
        let value = f32::from_bits(u32::from(upper) << 16 | 0x8000);
        if value.is_nan() {
            continue;
        }
        let theirs = float8::F8E4M3::from_f32(value).to_bits();
        assert_eq!(
            F8E4M3Fn::from_f32_saturating(value).to_bits(),
            theirs,
            "{value:e}"
        );
        let theirs = float8::F8E5M2::from_f32(value).to_bits();
        assert_eq!(
            F8E5M2::from_f32_saturating(value).to_bits(),
            theirs,
            "{value:e}"
        );
    }
}

proptest! {
    #[test]
    fn any_value_is_rounded_to_the_nearest(bits: u32, exponent in -20_i32..20, fraction in 0_u32..1 << 23) {
        #[expect(clippy::cast_sign_loss, reason = "107 at least")]
        let near = f32::from_bits(((exponent + 127) as u32) << 23 | fraction);
        for model in MODELS {
            for value in [f32::from_bits(bits), near, -near] {
                model.check(value);
                let saturated = (model.saturate)(value) & 0x7F;
                prop_assert_eq!(saturated > model.largest(), value.is_nan());
            }
        }
    }
}
