//! Tensors read and written as elements, on the host and on a device.

use std::cell::RefCell;

use crate::common::{Device, host, pattern};
use proptest::prelude::*;
use wharf_meta::{
    DType, Element, F8E4M3, F8E4M3Fn, Shape, ShapeError, TensorInfo, Typed, TypedError,
};
use wharf_tensor::{Tensor, TensorError};

fn shape(axes: &[usize]) -> Shape {
    Shape::new(axes).unwrap()
}

#[test]
fn bytes_are_little_endian_elements() {
    let bytes = host(&[0x01, 0x02, 0x03, 0x04, 0xFF, 0xFF, 0xFF, 0x7F]);
    let as_type = |dtype, len| Typed::new(bytes.clone(), dtype, shape(&[len])).unwrap();
    let (mut halves, mut words, mut signed) = ([0_u16; 4], [0_u32; 2], [0_i64]);
    as_type(DType::U16, 4).read_as(0, &mut halves).unwrap();
    as_type(DType::U32, 2).read_as(0, &mut words).unwrap();
    as_type(DType::I64, 1).read_as(0, &mut signed).unwrap();
    assert_eq!(halves, [0x0201, 0x0403, 0xFFFF, 0x7FFF]);
    assert_eq!(words, [0x0403_0201, 0x7FFF_FFFF]);
    assert_eq!(signed, [0x7FFF_FFFF_0403_0201]);

    as_type(DType::I16, 4).write_as(1, &[-2_i16]).unwrap();
    assert_eq!(bytes.lend().unwrap()[..4], [0x01, 0x02, 0xFE, 0xFF]);
}

#[test]
fn floats_of_all_sizes_come_and_go() {
    let fp8 = Typed::new(host(&[0x38, 0x7E]), DType::Fp8E4, shape(&[2])).unwrap();
    // The number does not say which of the two formats: the reader does.
    let (mut ieee, mut ofp8) = ([F8E4M3::default(); 2], [F8E4M3Fn::default(); 2]);
    fp8.read_as(0, &mut ieee).unwrap();
    fp8.read_as(0, &mut ofp8).unwrap();
    assert_eq!(ieee[0].to_f32(), 1.0);
    assert!(ieee[1].is_nan());
    assert_eq!(ofp8.map(F8E4M3Fn::to_f32), [1.0, 448.0]);

    // What a device rounds is a plain `f32` in memory.
    let rounded = Typed::new(host(&[0; 4]), DType::Fp32R, Shape::SCALAR).unwrap();
    rounded.write_as(0, &[-1.5_f32]).unwrap();
    assert_eq!(*rounded.tensor().lend().unwrap(), [0, 0, 0xC0, 0xBF]);
}

#[cfg(feature = "half")]
#[test]
fn half_floats_are_elements() {
    use half::{bf16, f16};
    // 1.5 is 0x3E00 as binary16, and the upper half of 0x3FC0_0000 as bfloat16.
    let tensor = host(&[0; 2]);
    let as_f16 = Typed::new(tensor.clone(), DType::F16, shape(&[1])).unwrap();
    as_f16.write_as(0, &[f16::from_f32(1.5)]).unwrap();
    assert_eq!(*tensor.lend().unwrap(), [0x00, 0x3E]);
    let as_bf16 = Typed::new(tensor.clone(), DType::Bf16, shape(&[1])).unwrap();
    as_bf16.write_as(0, &[bf16::from_f32(1.5)]).unwrap();
    assert_eq!(*tensor.lend().unwrap(), [0xC0, 0x3F]);
    assert!(
        as_bf16.read_as(0, &mut [f16::ZERO]).is_err(),
        "not the same sixteen bits"
    );
}

#[test]
fn what_does_not_fit_is_refused_with_the_numbers_and_comes_back() {
    let refused = Typed::new(host(&[1; 10]), DType::F32, shape(&[3])).unwrap_err();
    let expected = TypedError::Size {
        expected: 12,
        found: 10,
    };
    assert_eq!((refused.error, refused.value.len()), (expected, 10));
    let larger = Typed::new(host(&[1; 10]), DType::U16, shape(&[4])).unwrap_err();
    assert_eq!(
        larger.to_string(),
        "the elements take 8 bytes, the tensor has 10"
    );
    let refused = Typed::new(host(&[1; 10]), DType::Unknown, shape(&[10])).unwrap_err();
    assert_eq!(refused.error, TypedError::Shape(ShapeError::Unsized));
    let info = TensorInfo::input("x", DType::U16, &[5]).unwrap();
    assert_eq!(Typed::of(refused.value, &info).unwrap().len(), 5);
}

#[test]
fn wrong_types_and_ranges_touch_nothing() {
    let typed = Typed::new(host(&[7; 8]), DType::F32, shape(&[2])).unwrap();
    let mut values = [9_i32; 2];
    let wrong = TypedError::DType {
        found: DType::F32,
        asked: &[DType::I32],
    };
    assert_eq!(typed.read_as(0, &mut values), Err(wrong));
    assert_eq!(typed.write_as(0, &values), Err(wrong));
    assert_eq!(values, [9; 2]);
    for (first, count) in [(0, 3), (2, 1), (3, 0), (usize::MAX, 1), (usize::MAX, 2)] {
        let outside = TypedError::OutOfBounds {
            first,
            count,
            len: 2,
        };
        let mut values = vec![0.5_f32; count];
        assert_eq!(typed.read_as(first, &mut values), Err(outside));
        assert_eq!(typed.write_as(first, &values), Err(outside));
        assert!(values.iter().all(|&value| value == 0.5));
    }
    assert_eq!(typed.read_as::<f32>(2, &mut []), Ok(()));
    assert_eq!(*typed.tensor().lend().unwrap(), [7; 8]);
    assert_eq!(
        TypedError::DType {
            found: DType::U8,
            asked: f32::DTYPES
        }
        .to_string(),
        "elements of type u8 are not read or written as f32 or fp32r"
    );
}

/// An element whose bytes are not those of the type that it claims.
#[derive(Clone, Copy)]
struct Liar;

impl Element for Liar {
    const DTYPES: &'static [DType] = &[DType::F32];
    type Bytes = [u8; 3];
    fn from_bytes(_: [u8; 3]) -> Self {
        Self
    }
    fn to_bytes(self) -> [u8; 3] {
        [0; 3]
    }
}

#[test]
fn an_element_of_the_wrong_size_is_refused() {
    let typed = Typed::new(host(&[7; 8]), DType::F32, shape(&[2])).unwrap();
    assert!(matches!(
        typed.read_as(0, &mut [Liar]),
        Err(TypedError::DType { .. })
    ));
    assert!(matches!(
        typed.write_as(0, &[Liar]),
        Err(TypedError::DType { .. })
    ));
}

#[test]
fn what_the_tensor_refuses_is_handed_on() {
    let typed = Typed::new(host(&[7; 4]), DType::U8, shape(&[4])).unwrap();
    let guard = typed.tensor().lend_mut().unwrap();
    let refused = typed.read_as(0, &mut [0_u8; 4]).unwrap_err();
    assert!(matches!(
        refused,
        TypedError::Tensor {
            done: 0,
            error: TensorError::Guarded { .. }
        }
    ));
    drop(guard);
    let nothing = Typed::new(
        Tensor::<crate::common::Host>::empty(),
        DType::U8,
        shape(&[0]),
    )
    .unwrap();
    assert_eq!(nothing.read_as::<u8>(0, &mut []), Ok(()));
}

/// More than the stack buffer at once, at a size that is no multiple of it.
#[test]
fn many_elements_go_through_a_small_buffer() {
    let device = Device::open();
    let (bytes, count) = (pattern(4 * 333), 333);
    let typed = Typed::new(device.tensor(&bytes), DType::U32, shape(&[count])).unwrap();
    let mut values = vec![0_u32; count - 1];
    typed.read_as(1, &mut values).unwrap();
    let expected: Vec<u32> = bytes[4..]
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect();
    assert_eq!(values, expected);

    let other = Typed::new(device.empty(4 * count), DType::U32, shape(&[count])).unwrap();
    other.write_as(1, &values).unwrap();
    let mut copied = vec![0; bytes.len()];
    other.tensor().read(0, &mut copied).unwrap();
    assert_eq!((&copied[..4], &copied[4..]), (&[0; 4][..], &bytes[4..]));
}

thread_local! {
    /// What [`Closing`] closes.
    static DEVICE: RefCell<Option<Device>> = const { RefCell::new(None) };
}

/// An element that closes the device as it is written or read.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Closing(u32);

impl Closing {
    fn close_at(self, value: u32) -> Self {
        if self.0 == value {
            DEVICE.with_borrow(|device| device.as_ref().unwrap().device.close());
        }
        self
    }
}

impl Element for Closing {
    const DTYPES: &'static [DType] = &[DType::U32];
    type Bytes = [u8; 4];
    fn from_bytes(bytes: [u8; 4]) -> Self {
        Self(u32::from_le_bytes(bytes)).close_at(9)
    }
    fn to_bytes(self) -> [u8; 4] {
        self.close_at(100).0.to_le_bytes()
    }
}

#[test]
fn an_error_on_the_way_says_how_far_it_came() {
    let typed = || {
        let device = Device::open();
        let tensor = Typed::new(device.empty(4 * 200), DType::U32, shape(&[200])).unwrap();
        DEVICE.set(Some(device));
        tensor
    };
    // Sixty-four elements a piece: number 100 is in the second, which is refused.
    let values: Vec<Closing> = (0..200).map(Closing).collect();
    let refused = typed().write_as(0, &values).unwrap_err();
    assert!(matches!(
        refused,
        TypedError::Tensor {
            done: 64,
            error: TensorError::Transfer(_)
        }
    ));
    assert!(
        refused.to_string().ends_with(", after 64 elements"),
        "{refused}"
    );

    let tensor = typed();
    tensor.write_as(0, &[9_u32]).unwrap();
    let mut read = [Closing(1); 200];
    let refused = tensor.read_as(0, &mut read).unwrap_err();
    assert!(matches!(refused, TypedError::Tensor { done: 64, .. }));
    assert_eq!(
        (read[0], read[63], read[64]),
        (Closing(9), Closing(0), Closing(1))
    );
}

#[cfg(feature = "zerocopy")]
mod in_place {
    use super::*;
    use wharf_meta::{view, view_mut};

    #[test]
    fn elements_are_lent_in_place() {
        let typed = Typed::new(host(&[0; 8]), DType::U16, shape(&[4])).unwrap();
        let mut elements = typed.lend_mut::<u16>().unwrap();
        elements[1] = 0x0A0B;
        elements[3] += 1;
        assert_eq!(*elements, [0, 0x0A0B, 0, 1]);
        assert!(matches!(
            typed.lend::<u16>().unwrap_err(),
            TypedError::Tensor {
                error: TensorError::Guarded { .. },
                ..
            }
        ));
        drop(elements);
        assert_eq!(*typed.lend::<u16>().unwrap(), [0, 0x0A0B, 0, 1]);
        assert_eq!(
            *typed.tensor().lend().unwrap(),
            [0, 0, 0x0B, 0x0A, 0, 0, 1, 0]
        );
        let wrong = typed.lend::<i16>().unwrap_err();
        assert!(matches!(
            wrong,
            TypedError::DType {
                found: DType::U16,
                ..
            }
        ));
        assert!(matches!(
            typed.lend_mut::<i16>().unwrap_err(),
            TypedError::DType { .. }
        ));
    }

    #[test]
    fn misaligned_and_uneven_bytes_are_refused_with_the_numbers() {
        #[repr(align(8))]
        struct Aligned([u8; 24]);
        let mut bytes = Aligned([1; 24]);
        let address = bytes.0.as_ptr().addr() + 1;
        assert_eq!(
            view::<u32>(&bytes.0[1..9]),
            Err(TypedError::Misaligned { address, align: 4 })
        );
        assert_eq!(
            view_mut::<u64>(&mut bytes.0[1..9]),
            Err(TypedError::Misaligned { address, align: 8 })
        );
        assert_eq!(
            view::<u32>(&bytes.0[..7]),
            Err(TypedError::Uneven { len: 7, size: 4 })
        );
        assert_eq!(view::<u32>(&bytes.0[..0]), Ok(&[][..]));
        assert_eq!(view::<u32>(&bytes.0[4..12]), Ok(&[0x0101_0101; 2][..]));

        // A slice of a tensor that starts at an odd byte has no `u32`s in place. It can be read all the same.
        let storage = host(&pattern(13));
        let odd = storage.slice(1..13).unwrap();
        let typed = Typed::new(odd, DType::U32, shape(&[3])).unwrap();
        let refused = typed.lend::<u32>().unwrap_err();
        assert!(
            matches!(refused, TypedError::Misaligned { align: 4, .. }),
            "{refused}"
        );
        assert!(matches!(
            typed.lend_mut::<u32>().unwrap_err(),
            TypedError::Misaligned { .. }
        ));
        // And no guard stayed behind.
        typed.write_as(0, &[5_u32]).unwrap();
        assert_eq!(storage.lend().unwrap()[1], 5);
    }

    #[test]
    fn device_memory_is_not_lent_and_moves_in_one_transfer() {
        let device = Device::open();
        let typed = Typed::new(device.empty(4 * 1000), DType::F32, shape(&[10, 100])).unwrap();
        let refused = typed.lend::<f32>().unwrap_err();
        assert!(matches!(
            refused,
            TypedError::Tensor {
                error: TensorError::NotHostAddressable { .. },
                ..
            }
        ));
        let moved = device.device.channel().ledger();
        let values: Vec<f32> = (0..999_u16).map(f32::from).collect();
        typed.write_whole(1, &values).unwrap();
        assert_eq!(
            device.device.channel().ledger().bytes_in - moved.bytes_in,
            4 * 999
        );
        let mut back = vec![0.0_f32; 999];
        typed.read_whole(1, &mut back).unwrap();
        assert_eq!(back, values);
        let outside = typed.read_whole(2, &mut back).unwrap_err();
        assert_eq!(
            outside,
            TypedError::OutOfBounds {
                first: 2,
                count: 999,
                len: 1000
            }
        );
        assert_eq!(typed.write_whole(2, &values), Err(outside));
        assert!(typed.read_whole(0, &mut [0_i32]).is_err());
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        values in prop::collection::vec(any::<i64>(), 0..200),
        first in 0..40_usize,
        after in 0..40_usize,
    ) {
        let count = first + values.len() + after;
        let typed = Typed::new(host(&vec![0x55; count * 8]), DType::I64, shape(&[count])).unwrap();
        typed.write_as(first, &values).unwrap();
        let mut all = vec![0_i64; count];
        typed.read_as(0, &mut all).unwrap();
        let untouched = 0x5555_5555_5555_5555;
        prop_assert!(all[..first].iter().chain(&all[first + values.len()..]).all(|&v| v == untouched));
        prop_assert_eq!(&all[first..first + values.len()], &values[..]);
    }
}

#[test]
fn a_typed_tensor_counts_its_elements_and_gives_its_bytes_back() {
    let typed = Typed::new(host(&[1, 2, 3, 4, 5, 6]), DType::U16, shape(&[3])).unwrap();
    assert_eq!((typed.len(), typed.is_empty()), (3, false));
    assert_eq!(*typed.into_tensor().lend().unwrap(), [1, 2, 3, 4, 5, 6]);
    let none = Typed::new(host(&[]), DType::U16, shape(&[0, 2])).unwrap();
    assert_eq!((none.len(), none.is_empty()), (0, true));
}
