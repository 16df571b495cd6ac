//! Shapes: how many elements there are along each axis.

use core::fmt;
use core::ops::Deref;

use crate::DType;

/// The most axes that a shape has.
pub const RANK_MAX: usize = 8;

/// The number of elements along each axis, the slowest first; up to [`RANK_MAX`] axes.
///
/// No axes at all is one element (a scalar). An axis of zero makes an empty tensor, which is fine; it does not excuse the other
/// axes, whose product must fit a `usize` all the same, so that whoever has counted a shape may compute its strides.
///
/// ```
/// use wharf_meta::{DType, Shape};
///
/// let images = Shape::new(&[360, 8, 8])?;
/// assert_eq!(images.elements(), Ok(23_040));
/// assert_eq!(images.bytes(DType::F16), Ok(46_080));
/// assert!(Shape::new(&[usize::MAX, 2])?.bytes(DType::U8).is_err());
/// # Ok::<(), wharf_meta::ShapeError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Shape {
    rank: u8,
    /// Those from `rank` on are zero.
    axes: [usize; RANK_MAX],
}

impl Shape {
    /// The shape of one element.
    pub const SCALAR: Self = Self {
        rank: 0,
        axes: [0; RANK_MAX],
    };

    /// The shape with these axes.
    ///
    /// # Errors
    /// There are more than [`RANK_MAX`]. Sizes are looked at when they are asked for.
    pub const fn new(axes: &[usize]) -> Result<Self, ShapeError> {
        let mut kept = [0; RANK_MAX];
        let Some((place, _)) = kept.split_at_mut_checked(axes.len()) else {
            return Err(ShapeError::Rank { rank: axes.len() });
        };
        place.copy_from_slice(axes);
        #[expect(clippy::cast_possible_truncation, reason = "eight at most")]
        let rank = axes.len() as u8;
        Ok(Self { rank, axes: kept })
    }

    /// The number of axes.
    #[inline]
    #[must_use]
    pub const fn rank(&self) -> usize {
        self.rank as usize
    }

    /// The axes.
    #[inline]
    #[must_use]
    pub const fn axes(&self) -> &[usize] {
        self.axes.split_at(self.rank as usize).0
    }

    /// The number of elements.
    ///
    /// # Errors
    /// The axes multiply to more than `usize` holds (those that are zero left out).
    pub const fn elements(&self) -> Result<usize, ShapeError> {
        self.product(1)
    }

    /// The bytes of so many elements of type `dtype`, one after the other.
    ///
    /// # Errors
    /// They are more than `usize` holds (axes that are zero left out), or `dtype` is [`DType::Unknown`].
    pub const fn bytes(&self, dtype: DType) -> Result<usize, ShapeError> {
        match dtype.size() {
            Some(size) => self.product(size),
            None => Err(ShapeError::Unsized),
        }
    }

    const fn product(&self, size: usize) -> Result<usize, ShapeError> {
        let mut product = size;
        let mut empty = false;
        // By hand, because iterators do not run in constants.
        let mut axis = 0;
        while axis < self.rank() {
            let len = self.axes[axis];
            if len == 0 {
                empty = true;
            } else {
                product = match product.checked_mul(len) {
                    Some(product) => product,
                    None => return Err(ShapeError::TooLarge { shape: *self, size }),
                };
            }
            axis += 1;
        }
        Ok(if empty { 0 } else { product })
    }

    /// The same elements in the same order under other axes.
    ///
    /// # Errors
    /// There are not as many of them, or more axes than [`RANK_MAX`].
    pub fn reshape(&self, axes: &[usize]) -> Result<Self, ShapeError> {
        let reshaped = Self::new(axes)?;
        let (before, after) = (self.elements()?, reshaped.elements()?);
        if before != after {
            return Err(ShapeError::Elements { before, after });
        }
        Ok(reshaped)
    }

    /// Without the axes of one.
    #[must_use]
    pub fn squeeze(&self) -> Self {
        let mut squeezed = Self::SCALAR;
        for &len in self.axes().iter().filter(|&&len| len != 1) {
            squeezed.push(len);
        }
        squeezed
    }

    /// Appends an axis. Callers have seen that there is room.
    pub(crate) fn push(&mut self, len: usize) {
        if let Some(axis) = self.axes.get_mut(usize::from(self.rank)) {
            *axis = len;
            self.rank += 1;
        }
    }
}

impl Default for Shape {
    fn default() -> Self {
        Self::SCALAR
    }
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        self.axes()
    }
}

impl AsRef<[usize]> for Shape {
    fn as_ref(&self) -> &[usize] {
        self.axes()
    }
}

impl PartialEq for Shape {
    fn eq(&self, other: &Self) -> bool {
        self.axes() == other.axes()
    }
}

impl Eq for Shape {}

impl core::hash::Hash for Shape {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        self.axes().hash(state);
    }
}

impl PartialEq<[usize]> for Shape {
    fn eq(&self, other: &[usize]) -> bool {
        self.axes() == other
    }
}

impl<const N: usize> PartialEq<[usize; N]> for Shape {
    fn eq(&self, other: &[usize; N]) -> bool {
        self.axes() == other
    }
}

impl TryFrom<&[usize]> for Shape {
    type Error = ShapeError;
    fn try_from(axes: &[usize]) -> Result<Self, ShapeError> {
        Self::new(axes)
    }
}

impl<'a> IntoIterator for &'a Shape {
    type Item = &'a usize;
    type IntoIter = core::slice::Iter<'a, usize>;
    fn into_iter(self) -> Self::IntoIter {
        self.axes().iter()
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.axes(), f)
    }
}

impl fmt::Display for Shape {
    /// As `[360, 8, 8]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.axes(), f)
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for Shape {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "{=[?]}", self.axes());
    }
}

/// What is wrong with a shape or with strides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ShapeError {
    /// More than [`RANK_MAX`] axes.
    Rank {
        /// How many.
        rank: usize,
    },
    /// More bytes or elements than a `usize` holds.
    TooLarge {
        /// The shape.
        shape: Shape,
        /// The bytes of one element; 1 where elements were counted.
        size: usize,
    },
    /// The last byte of a strided layout is further from the first than a `usize` holds.
    TooFar {
        /// The axis that took it there.
        axis: usize,
        /// The elements along it.
        len: usize,
        /// The bytes from one to the next.
        stride: usize,
    },
    /// A type without a size has no bytes to count.
    Unsized,
    /// As many strides as axes there must be.
    RankMismatch {
        /// The axes.
        axes: usize,
        /// What was given for them.
        given: usize,
    },
    /// Other axes must hold as many elements as before.
    Elements {
        /// The elements before.
        before: usize,
        /// The elements that there would have been.
        after: usize,
    },
    /// There is no such axis.
    NoAxis {
        /// The axis.
        axis: usize,
        /// How many there are.
        rank: usize,
    },
    /// A permutation names an axis twice.
    AxisTwice {
        /// The axis.
        axis: usize,
    },
    /// There is no such element.
    NoElement {
        /// The axis.
        axis: usize,
        /// The index along it.
        index: usize,
        /// The elements along it.
        len: usize,
    },
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank { rank } => write!(f, "{rank} axes, there may be {RANK_MAX}"),
            Self::TooLarge { shape, size } => {
                write!(f, "{shape} elements of {size} bytes cannot be addressed")
            }
            Self::TooFar { axis, len, stride } => {
                write!(
                    f,
                    "axis {axis}, {len} times {stride} bytes, ends beyond any address"
                )
            }
            Self::Unsized => f.write_str("elements of an unknown type have no size"),
            Self::RankMismatch { axes, given } => write!(f, "{given} given for {axes} axes"),
            Self::Elements { before, after } => {
                write!(f, "{before} elements do not fill a shape of {after}")
            }
            Self::NoAxis { axis, rank } => write!(f, "no axis {axis} among {rank}"),
            Self::AxisTwice { axis } => write!(f, "axis {axis} is named twice"),
            Self::NoElement { axis, index, len } => {
                write!(f, "no index {index} on axis {axis} of {len}")
            }
        }
    }
}

impl core::error::Error for ShapeError {}
