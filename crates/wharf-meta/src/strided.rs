//! Layouts: where in memory the elements of a shape are.

use crate::shape::RANK_MAX;
use crate::{DType, Shape, ShapeError};

/// A shape whose elements may lie apart: along each axis, the bytes from one element to the next.
///
/// Strides count bytes, as in NumPy and in DMA descriptors, so that a padded row need not be a whole number of elements. They are
/// not negative; a stride of zero repeats an element. A layout that exists has an [`extent`](Self::extent): nothing
/// in it can wrap.
///
/// ```
/// use wharf_meta::{DType, Shape, Strided};
///
/// // Three rows of four 16-bit elements, each row on a line of 64 bytes.
/// let padded = Strided::new(Shape::new(&[3, 4])?, &[64, 2], DType::U16)?;
/// assert_eq!(padded.extent(), 64 + 64 + 8);
/// assert_eq!(padded.offset(&[2, 1])?, 130);
/// assert!(!padded.is_contiguous());
/// # Ok::<(), wharf_meta::ShapeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Strided {
    shape: Shape,
    /// As many as `shape` has axes; held in a shape of their own for its bounds.
    strides: Shape,
    dtype: DType,
    /// The bytes of one element.
    size: usize,
    extent: usize,
}

impl Strided {
    /// The layout of a `shape` with these `strides`, in bytes.
    ///
    /// # Errors
    /// There are not as many strides as axes, an element lies further away than a `usize` can say, the shape cannot be counted,
    /// or `dtype` has no size.
    pub fn new(shape: Shape, strides: &[usize], dtype: DType) -> Result<Self, ShapeError> {
        if strides.len() != shape.rank() {
            return Err(ShapeError::RankMismatch {
                axes: shape.rank(),
                given: strides.len(),
            });
        }
        let size = dtype.size().ok_or(ShapeError::Unsized)?;
        let strides = Shape::new(strides)?;
        let elements = shape.elements()?;
        let mut extent = size;
        for (axis, (&len, &stride)) in shape.iter().zip(&strides).enumerate() {
            extent = (len.saturating_sub(1))
                .checked_mul(stride)
                .and_then(|reach| extent.checked_add(reach))
                .ok_or(ShapeError::TooFar { axis, len, stride })?;
        }
        Ok(Self {
            shape,
            strides,
            dtype,
            size,
            extent: if elements == 0 { 0 } else { extent },
        })
    }

    /// One element after the other, the last axis fastest.
    ///
    /// # Errors
    /// The shape takes more bytes than a `usize` holds, or `dtype` has no size.
    pub fn row_major(shape: Shape, dtype: DType) -> Result<Self, ShapeError> {
        let bytes = shape.bytes(dtype)?;
        let size = dtype.size().ok_or(ShapeError::Unsized)?;
        let mut strides = [0; RANK_MAX];
        let mut stride = size;
        for (place, &len) in strides.iter_mut().zip(shape.axes()).rev() {
            *place = stride;
            // No wrap: a divisor of the product that `bytes` has formed.
            stride *= len.max(1);
        }
        Ok(Self {
            shape,
            strides: Shape::new(&strides[..shape.rank()])?,
            dtype,
            size,
            extent: bytes,
        })
    }

    /// The shape.
    #[must_use]
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The bytes from one element to the next, for each axis.
    #[must_use]
    pub const fn strides(&self) -> &[usize] {
        self.strides.axes()
    }

    /// The type of the elements.
    #[must_use]
    pub const fn dtype(&self) -> DType {
        self.dtype
    }

    /// The bytes from the first of the first element to the last of the furthest: what a tensor must have to hold this
    /// layout. Zero if there are no elements.
    #[must_use]
    pub const fn extent(&self) -> usize {
        self.extent
    }

    /// Where the element at `index` begins, in bytes from the first.
    ///
    /// # Errors
    /// The index has another number of axes, or leaves one.
    pub fn offset(&self, index: &[usize]) -> Result<usize, ShapeError> {
        if index.len() != self.shape.rank() {
            return Err(ShapeError::RankMismatch {
                axes: self.shape.rank(),
                given: index.len(),
            });
        }
        let mut offset = 0;
        for (axis, &index) in index.iter().enumerate() {
            let len = self.shape[axis];
            if index >= len {
                return Err(ShapeError::NoElement { axis, index, len });
            }
            // No wrap: at most the extent.
            offset += index * self.strides[axis];
        }
        Ok(offset)
    }

    /// Whether the elements lie one after the other in the order of their indices, so that the bytes may be taken as they are.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        let mut expected = self.size;
        // An axis of one has no next element, and nothing at all is in order.
        self.extent == 0
            || self
                .shape
                .iter()
                .zip(&self.strides)
                .rev()
                .all(|(&len, &stride)| {
                    let fits = len == 1 || stride == expected;
                    // Saturating is enough: a stride that was checked cannot be met by chance.
                    expected = expected.saturating_mul(len);
                    fits
                })
    }

    /// The axes in another order: axis `i` of the result is axis `order[i]` of this. No byte moves.
    ///
    /// # Errors
    /// `order` is no permutation of the axes.
    pub fn permute(&self, order: &[usize]) -> Result<Self, ShapeError> {
        let rank = self.shape.rank();
        if order.len() != rank {
            return Err(ShapeError::RankMismatch {
                axes: rank,
                given: order.len(),
            });
        }
        let mut permuted = *self;
        (permuted.shape, permuted.strides) = (Shape::SCALAR, Shape::SCALAR);
        for (i, &axis) in order.iter().enumerate() {
            let (Some(&len), Some(&stride)) = (self.shape.get(axis), self.strides.get(axis)) else {
                return Err(ShapeError::NoAxis { axis, rank });
            };
            if order[..i].contains(&axis) {
                return Err(ShapeError::AxisTwice { axis });
            }
            permuted.shape.push(len);
            permuted.strides.push(stride);
        }
        Ok(permuted)
    }

    /// The axes in reverse.
    #[must_use]
    pub fn transpose(&self) -> Self {
        let mut transposed = *self;
        (transposed.shape, transposed.strides) = (Shape::SCALAR, Shape::SCALAR);
        for (&len, &stride) in self.shape.iter().zip(&self.strides).rev() {
            transposed.shape.push(len);
            transposed.strides.push(stride);
        }
        transposed
    }

    /// Without the axes of one.
    #[must_use]
    pub fn squeeze(&self) -> Self {
        let mut squeezed = *self;
        (squeezed.shape, squeezed.strides) = (Shape::SCALAR, Shape::SCALAR);
        for (&len, &stride) in self.shape.iter().zip(&self.strides) {
            if len != 1 {
                squeezed.shape.push(len);
                squeezed.strides.push(stride);
            }
        }
        squeezed
    }
}
