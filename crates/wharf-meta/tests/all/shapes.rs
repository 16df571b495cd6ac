//! Shapes and strided layouts, against arithmetic that cannot overflow and against writing out every index.

use proptest::prelude::*;
use wharf_meta::{DType, RANK_MAX, Shape, ShapeError, Strided};

fn shape(axes: &[usize]) -> Shape {
    Shape::new(axes).unwrap()
}

#[test]
fn elements_and_bytes_are_products() {
    let images = shape(&[360, 8, 8]);
    assert_eq!((images.rank(), images.elements()), (3, Ok(23_040)));
    assert_eq!(images.bytes(DType::I64), Ok(184_320));
    assert_eq!(Shape::SCALAR.elements(), Ok(1));
    assert_eq!(Shape::SCALAR.bytes(DType::Bf16), Ok(2));
    assert_eq!(shape(&[4, 0, 7]).bytes(DType::F32), Ok(0));
    assert_eq!(images.bytes(DType::Unknown), Err(ShapeError::Unsized));
    assert_eq!(images.to_string(), "[360, 8, 8]");
    assert_eq!(shape(&[2, 1, 3, 1]).squeeze(), shape(&[2, 3]));
    assert_eq!(shape(&[1, 1]).squeeze(), Shape::SCALAR);
}

#[test]
fn shapes_are_the_same_where_their_axes_are() {
    let pair = shape(&[2, 3]);
    assert!(pair == shape(&[2, 3]) && pair != shape(&[3, 2]) && pair != shape(&[2, 3, 1]));
    assert!(pair == [2, 3] && pair != [2, 4] && pair == [2, 3][..] && pair != [2][..]);
    let set = std::collections::HashSet::from([pair, shape(&[2, 3]), shape(&[6]), Shape::SCALAR]);
    assert_eq!(set.len(), 3);
    let hash = |shape: Shape| {
        use std::hash::{BuildHasher, RandomState};
        let state = RandomState::new();
        move |other: Shape| state.hash_one(shape) == state.hash_one(other)
    };
    assert!(hash(pair)(shape(&[2, 3])));
    // They differ in a hash that is any good.
    assert!((1..20).any(|n| !hash(pair)(shape(&[n, 7]))));
    assert_eq!(Shape::try_from(&[2, 3][..]), Ok(pair));
    let refused = Shape::try_from(&[1; 9][..]).unwrap_err();
    assert_eq!(refused.to_string(), "9 axes, there may be 8");
}

#[test]
fn what_does_not_fit_is_refused_with_the_numbers() {
    assert_eq!(Shape::new(&[1; 9]), Err(ShapeError::Rank { rank: 9 }));
    assert_eq!(shape(&[1; 8]).rank(), RANK_MAX);
    let half = usize::MAX / 2 + 1;
    assert_eq!(shape(&[half]).bytes(DType::U8), Ok(half));
    let refused = shape(&[half]).bytes(DType::U16);
    assert_eq!(
        refused,
        Err(ShapeError::TooLarge {
            shape: shape(&[half]),
            size: 2
        })
    );
    // A product that would wrap to a small number: 2^32 * 2^32 * 3.
    if usize::BITS == 64 {
        let wraps = shape(&[1 << 32, 1 << 32, 3]);
        assert!(matches!(
            wraps.elements(),
            Err(ShapeError::TooLarge { size: 1, .. })
        ));
    }
    // Nothing at all, but no strides could be told of it either.
    assert!(shape(&[half, 2, 0]).elements().is_err());
    assert!(Strided::row_major(shape(&[half, 2, 0]), DType::U8).is_err());
}

#[test]
fn reshaping_keeps_the_elements() {
    assert_eq!(shape(&[6, 4]).reshape(&[2, 12]), Ok(shape(&[2, 12])));
    assert_eq!(
        shape(&[6, 4]).reshape(&[5, 5]),
        Err(ShapeError::Elements {
            before: 24,
            after: 25
        })
    );
    assert_eq!(shape(&[0, 3]).reshape(&[7, 0]), Ok(shape(&[7, 0])));
}

#[test]
fn layouts_have_the_strides_and_extents_that_were_worked_out() {
    let rows = Strided::row_major(shape(&[2, 3, 4]), DType::F32).unwrap();
    assert_eq!(rows.strides(), [48, 16, 4]);
    assert_eq!((rows.extent(), rows.is_contiguous()), (96, true));
    assert_eq!(rows.offset(&[1, 2, 3]), Ok(48 + 32 + 12));

    let columns = rows.transpose();
    assert_eq!(columns.shape().axes(), [4, 3, 2]);
    assert_eq!(columns.strides(), [4, 16, 48]);
    assert_eq!((columns.extent(), columns.is_contiguous()), (96, false));
    assert_eq!(rows.permute(&[2, 1, 0]), Ok(columns));
    assert_eq!(rows.permute(&[1, 0, 2]).unwrap().strides(), [16, 48, 4]);

    // One channel out of three that are interleaved.
    let channel = Strided::new(shape(&[5]), &[3], DType::U8).unwrap();
    assert_eq!((channel.extent(), channel.is_contiguous()), (13, false));
    // The same element again and again.
    let repeated = Strided::new(shape(&[9]), &[0], DType::I16).unwrap();
    assert_eq!(repeated.extent(), 2);
    // The stride of an axis of one is never used.
    let one = Strided::new(shape(&[1, 4]), &[999, 2], DType::I16).unwrap();
    assert_eq!((one.extent(), one.is_contiguous()), (8, true));
    assert_eq!(one.squeeze().strides(), [2]);

    let none = Strided::row_major(shape(&[3, 0]), DType::F32).unwrap();
    assert_eq!((none.extent(), none.is_contiguous()), (0, true));
    let scalar = Strided::row_major(Shape::SCALAR, DType::F32).unwrap();
    assert_eq!((scalar.extent(), scalar.offset(&[])), (4, Ok(0)));
}

#[test]
fn layouts_that_cannot_be_are_refused_with_the_numbers() {
    let new = |axes: &[usize], strides: &[usize]| Strided::new(shape(axes), strides, DType::U16);
    let mismatch = ShapeError::RankMismatch { axes: 2, given: 1 };
    assert_eq!(new(&[2, 2], &[4]), Err(mismatch));
    assert_eq!(
        new(&[2, 3], &[1, usize::MAX / 2 + 1]),
        Err(ShapeError::TooFar {
            axis: 1,
            len: 3,
            stride: usize::MAX / 2 + 1
        })
    );
    // More elements than can be counted, all in one place.
    let shape_error = |error| matches!(error, ShapeError::TooLarge { size: 1, .. });
    assert!(new(&[usize::MAX, 2], &[0, 0]).is_err_and(shape_error));
    // The sum of the axes, and the last element's own bytes, count too.
    assert!(new(&[2, 2], &[usize::MAX / 2, usize::MAX / 2]).is_err());
    assert!(new(&[2], &[usize::MAX - 1]).is_err());
    assert_eq!(new(&[2], &[usize::MAX - 2]).unwrap().extent(), usize::MAX);
    assert_eq!(
        Strided::new(shape(&[2]), &[1], DType::Unknown),
        Err(ShapeError::Unsized)
    );

    let rows = Strided::row_major(shape(&[2, 3]), DType::U8).unwrap();
    assert_eq!(
        rows.offset(&[1, 3]),
        Err(ShapeError::NoElement {
            axis: 1,
            index: 3,
            len: 3
        })
    );
    assert_eq!(rows.offset(&[1]), Err(mismatch));
    assert_eq!(rows.permute(&[0]), Err(mismatch));
    assert_eq!(
        rows.permute(&[0, 2]),
        Err(ShapeError::NoAxis { axis: 2, rank: 2 })
    );
    assert_eq!(
        rows.permute(&[1, 1]),
        Err(ShapeError::AxisTwice { axis: 1 })
    );
}

fn any_dtype() -> impl Strategy<Value = DType> {
    prop::sample::select(&DType::ALL[1..])
}

/// Axes from a few to far too many.
fn axis() -> impl Strategy<Value = usize> {
    prop_oneof![
        0..5_usize,
        any::<usize>(),
        (0..usize::BITS).prop_map(|bit| 1 << bit)
    ]
}

/// Every index of a shape, the last axis fastest.
fn indices(axes: &[usize]) -> Vec<Vec<usize>> {
    axes.iter().fold(vec![vec![]], |indices, &len| {
        let longer = |index: Vec<usize>| (0..len).map(move |i| [index.clone(), vec![i]].concat());
        indices.into_iter().flat_map(longer).collect()
    })
}

proptest! {
    #[test]
    fn sizes_are_those_of_wider_arithmetic(axes in prop::collection::vec(axis(), 0..=8), dtype in any_dtype()) {
        let size = dtype.size().unwrap();
        let others = axes.iter().filter(|&&len| len > 0);
        // `None` where even 128 bits are too few.
        let wide = others.clone().try_fold(size as u128, |all, &len| all.checked_mul(len as u128));
        let fits = wide.is_some_and(|wide| wide <= usize::MAX as u128);
        let empty = axes.contains(&0);
        match shape(&axes).bytes(dtype) {
            Ok(bytes) => prop_assert_eq!((fits, bytes as u128), (true, if empty { 0 } else { wide.unwrap() })),
            Err(error) => {
                prop_assert!(!fits);
                prop_assert_eq!(error, ShapeError::TooLarge { shape: shape(&axes), size });
            }
        }
        prop_assert_eq!(Strided::row_major(shape(&axes), dtype).is_ok(), fits);
    }

    #[test]
    fn row_major_counts_up_without_gaps(axes in prop::collection::vec(0..5_usize, 0..=4), dtype in any_dtype()) {
        let layout = Strided::row_major(shape(&axes), dtype).unwrap();
        prop_assert!(layout.is_contiguous());
        let mut next = 0;
        for index in indices(&axes) {
            prop_assert_eq!(layout.offset(&index), Ok(next));
            next += dtype.size().unwrap();
        }
        prop_assert_eq!(layout.extent(), next);
        prop_assert_eq!(Strided::new(shape(&axes), layout.strides(), dtype), Ok(layout));
    }

    #[test]
    fn strided_elements_lie_where_the_sum_says(
        axes in prop::collection::vec((0..5_usize, 0..9_usize), 0..=4),
        dtype in any_dtype(),
    ) {
        let (axes, strides): (Vec<_>, Vec<_>) = axes.into_iter().unzip();
        let layout = Strided::new(shape(&axes), &strides, dtype).unwrap();
        let size = dtype.size().unwrap();
        let offsets: Vec<usize> = indices(&axes)
            .iter()
            .map(|index| index.iter().zip(&strides).map(|(i, stride)| i * stride).sum())
            .collect();
        for (index, &offset) in indices(&axes).iter().zip(&offsets) {
            prop_assert_eq!(layout.offset(index), Ok(offset));
        }
        let extent = offsets.iter().max().map_or(0, |last| last + size);
        prop_assert_eq!(layout.extent(), extent);
        let in_order = offsets.iter().enumerate().all(|(i, &offset)| offset == i * size);
        prop_assert_eq!(layout.is_contiguous(), in_order);
    }

    #[test]
    fn permuting_moves_no_element(
        axes in prop::collection::vec((1..4_usize, 0..9_usize), 4),
        order in Just(vec![0, 1, 2, 3_usize]).prop_shuffle(),
    ) {
        let (axes, strides): (Vec<_>, Vec<_>) = axes.into_iter().unzip();
        let layout = Strided::new(shape(&axes), &strides, DType::U8).unwrap();
        let permuted = layout.permute(&order).unwrap();
        prop_assert_eq!(permuted.extent(), layout.extent());
        for index in indices(&axes) {
            let moved: Vec<usize> = order.iter().map(|&axis| index[axis]).collect();
            prop_assert_eq!(permuted.offset(&moved), layout.offset(&index));
        }
        prop_assert_eq!(layout.permute(&[3, 2, 1, 0]).unwrap(), layout.transpose());
    }
}
