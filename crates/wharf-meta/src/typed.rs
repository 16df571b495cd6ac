//! Tensors with a type: the same bytes, read and written as elements.

use core::fmt;

use wharf_backend::Returned;
use wharf_tensor::{Target, Tensor, TensorError};

use crate::{DType, Element, Shape, ShapeError, TensorInfo};

/// Bytes of the stack that elements go through on their way.
const BOUNCE: usize = 256;

/// A tensor together with the type and the shape of its elements.
///
/// It is a handle, as the tensor in it is: a clone shares the bytes, and so does another view of them under another type.
///
/// ```
/// # use wharf_backend::Heap;
/// # use wharf_source::HeapSource;
/// # use wharf_sync::Unsync;
/// # use wharf_tensor::{Parts, Tensor};
/// use wharf_meta::{DType, Shape, Typed};
///
/// # let target = Parts::<Heap<Unsync>, HeapSource>::new(HeapSource);
/// let tensor = Tensor::alloc(&target, Heap::new(), 16)?;
/// let scores = Typed::new(tensor, DType::F32, Shape::new(&[2, 2])?)?;
/// scores.write_as(1, &[1.0_f32, 2.5])?;
///
/// let mut all = [0.0_f32; 4];
/// scores.read_as(0, &mut all)?;
/// assert_eq!(all, [0.0, 1.0, 2.5, 0.0]);
///
/// let refused = scores.read_as(0, &mut [0_u32; 4]).unwrap_err();
/// assert_eq!(refused.to_string(), "elements of type f32 are not read or written as u32");
///
/// // The same bytes as another type: asked for, not slipped into.
/// let bits = Typed::new(scores.tensor().clone(), DType::U32, *scores.shape())?;
/// let mut bit_pattern = [0_u32];
/// bits.read_as(2, &mut bit_pattern)?;
/// assert_eq!(bit_pattern, [2.5_f32.to_bits()]);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct Typed<T: Target> {
    /// As long as `shape` elements of type `dtype`.
    tensor: Tensor<T>,
    dtype: DType,
    shape: Shape,
    /// The bytes of one element.
    size: usize,
}

impl<T: Target> Typed<T> {
    /// `tensor` as `dtype` elements of this `shape`.
    ///
    /// # Errors
    /// They take another number of bytes than it has, cannot be counted, or have no size. The tensor comes back.
    pub fn new(
        tensor: Tensor<T>,
        dtype: DType,
        shape: Shape,
    ) -> Result<Self, Returned<Tensor<T>, TypedError>> {
        let (expected, size) = match shape
            .bytes(dtype)
            .and_then(|bytes| Ok((bytes, dtype.size().ok_or(ShapeError::Unsized)?)))
        {
            Ok(found) => found,
            Err(error) => return Err(Returned::new(error.into(), tensor)),
        };
        let found = tensor.len();
        if found != expected {
            return Err(Returned::new(TypedError::Size { expected, found }, tensor));
        }
        Ok(Self {
            tensor,
            dtype,
            shape,
            size,
        })
    }

    /// `tensor` as a model describes it.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn of(
        tensor: Tensor<T>,
        info: &TensorInfo,
    ) -> Result<Self, Returned<Tensor<T>, TypedError>> {
        Self::new(tensor, info.dtype(), *info.shape())
    }

    /// The bytes.
    #[must_use]
    pub const fn tensor(&self) -> &Tensor<T> {
        &self.tensor
    }

    /// The bytes, the type forgotten.
    #[must_use]
    pub fn into_tensor(self) -> Tensor<T> {
        self.tensor
    }

    /// The type of the elements.
    #[must_use]
    pub const fn dtype(&self) -> DType {
        self.dtype
    }

    /// The shape.
    #[must_use]
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// How many elements there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.tensor.len() / self.size
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.tensor.is_empty()
    }

    /// Reads the elements from index `first` on, in the order of memory. Host or device: they go through 256 bytes of the stack,
    /// each time through the fence, so that what is written meanwhile shows from some element on. Blocks as
    /// [`Tensor::read`] does.
    ///
    /// # Errors
    /// The elements are of another type or leave the tensor: `values` is untouched. Or the tensor refused: the error says how many
    /// elements were read before.
    pub fn read_as<E: Element>(&self, first: usize, values: &mut [E]) -> Result<(), TypedError> {
        let mut offset = self.span::<E>(first, values.len())?;
        let mut buffer = [0; BOUNCE];
        let mut done = 0;
        for values in values.chunks_mut(BOUNCE / self.size) {
            // No wrap: fewer than the buffer has.
            let bytes = &mut buffer[..values.len() * self.size];
            self.tensor
                .read(offset, bytes)
                .map_err(|error| TypedError::Tensor { done, error })?;
            for (value, bytes) in values.iter_mut().zip(bytes.chunks_exact(self.size)) {
                let mut element = E::Bytes::default();
                element.as_mut().copy_from_slice(bytes);
                *value = E::from_bytes(element);
            }
            // No wrap: the span lies in the tensor.
            offset += bytes.len();
            done += values.len();
        }
        Ok(())
    }

    /// Writes elements from index `first` on. As [`read_as`](Self::read_as), through 256 bytes of the stack; blocks as
    /// [`Tensor::write`] does.
    ///
    /// # Errors
    /// The elements are of another type or leave the tensor: nothing was written. Or the tensor refused: the error says how many
    /// elements were written before.
    pub fn write_as<E: Element>(&self, first: usize, values: &[E]) -> Result<(), TypedError> {
        let mut offset = self.span::<E>(first, values.len())?;
        let mut buffer = [0; BOUNCE];
        let mut done = 0;
        for values in values.chunks(BOUNCE / self.size) {
            let bytes = &mut buffer[..values.len() * self.size];
            for (value, bytes) in values.iter().zip(bytes.chunks_exact_mut(self.size)) {
                bytes.copy_from_slice(value.to_bytes().as_ref());
            }
            self.tensor
                .write(offset, bytes)
                .map_err(|error| TypedError::Tensor { done, error })?;
            offset += bytes.len();
            done += values.len();
        }
        Ok(())
    }

    /// Whether elements may be taken as `E`.
    pub(crate) fn check<E: Element>(&self) -> Result<(), TypedError> {
        // The second is a law of `Element`, of which nobody but its author knows whether it is kept.
        if E::stands_for(self.dtype) && E::Bytes::default().as_ref().len() == self.size {
            Ok(())
        } else {
            Err(TypedError::DType {
                found: self.dtype,
                asked: E::DTYPES,
            })
        }
    }

    /// Where element `first` begins, in bytes, if `count` of type `E` are there.
    pub(crate) fn span<E: Element>(&self, first: usize, count: usize) -> Result<usize, TypedError> {
        self.check::<E>()?;
        match first.checked_add(count) {
            // No wrap: the element lies in the tensor, or just behind it.
            Some(end) if end <= self.len() => Ok(first * self.size),
            _ => Err(TypedError::OutOfBounds {
                first,
                count,
                len: self.len(),
            }),
        }
    }
}

impl<T: Target> Clone for Typed<T> {
    /// Another handle to the same bytes.
    fn clone(&self) -> Self {
        Self {
            tensor: self.tensor.clone(),
            ..*self
        }
    }
}

impl<T: Target> fmt::Debug for Typed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Typed")
            .field("dtype", &self.dtype)
            .field("shape", &self.shape)
            .field("tensor", &self.tensor)
            .finish()
    }
}

/// Why a tensor is not to be had as elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum TypedError {
    /// The shape cannot be counted, or the type has no size.
    Shape(ShapeError),
    /// The tensor has another number of bytes than the elements take.
    Size {
        /// What they take.
        expected: usize,
        /// What it has.
        found: usize,
    },
    /// The elements are of another type.
    DType {
        /// The type that they are of.
        found: DType,
        /// The types that were asked for.
        asked: &'static [DType],
    },
    /// The elements are not all in the tensor.
    OutOfBounds {
        /// The first of them.
        first: usize,
        /// How many they are.
        count: usize,
        /// How many the tensor has.
        len: usize,
    },
    /// The bytes begin at an address at which elements of this alignment cannot lie.
    Misaligned {
        /// The address.
        address: usize,
        /// What it must be a multiple of.
        align: usize,
    },
    /// The bytes are no whole number of elements.
    Uneven {
        /// The bytes.
        len: usize,
        /// The bytes of one element.
        size: usize,
    },
    /// The tensor refused.
    Tensor {
        /// The elements that were read or written before; none after them.
        done: usize,
        /// Why.
        error: TensorError,
    },
}

impl fmt::Display for TypedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape(error) => error.fmt(f),
            Self::Size { expected, found } => {
                write!(
                    f,
                    "the elements take {expected} bytes, the tensor has {found}"
                )
            }
            Self::DType { found, asked } => {
                write!(f, "elements of type {found} are not read or written as")?;
                for (i, dtype) in asked.iter().enumerate() {
                    write!(f, "{} {dtype}", if i == 0 { "" } else { " or" })?;
                }
                Ok(())
            }
            Self::OutOfBounds { first, count, len } => {
                write!(
                    f,
                    "{count} elements from {first} on leave a tensor of {len}"
                )
            }
            Self::Misaligned { address, align } => {
                write!(f, "the bytes at {address:#x} are not aligned to {align}")
            }
            Self::Uneven { len, size } => {
                write!(f, "{len} bytes are no whole number of elements of {size}")
            }
            Self::Tensor { done: 0, error } => error.fmt(f),
            Self::Tensor { done, error } => write!(f, "{error}, after {done} elements"),
        }
    }
}

impl core::error::Error for TypedError {}

impl From<ShapeError> for TypedError {
    fn from(error: ShapeError) -> Self {
        Self::Shape(error)
    }
}
