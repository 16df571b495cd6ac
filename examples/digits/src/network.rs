//! The classifier's tensors: one storage of weights, sliced per layer, and three of a batch, sliced per image.

use wharf_backend::{BackendRef, Erases};
use wharf_tensor::{Target, Tensor, TensorError};

use crate::model::{CLASSES, HIDDEN, INPUTS, ModelBytes};

/// The weights, in one storage; each field is a slice of it.
#[derive(Debug)]
pub struct Network<T: Target> {
    pub(crate) hidden_weight: Tensor<T>,
    pub(crate) hidden_bias: Tensor<T>,
    pub(crate) output_weight: Tensor<T>,
    pub(crate) output_bias: Tensor<T>,
}

impl<T: Target> Network<T> {
    /// Bytes of all weights.
    pub const BYTES: usize = 4 * (HIDDEN * INPUTS + HIDDEN + CLASSES * HIDDEN + CLASSES);

    /// Puts the weights into `memory`.
    ///
    /// # Errors
    /// The memory refused them, or is closed; nothing stays allocated.
    pub fn load<R: BackendRef>(
        target: &T,
        memory: R,
        model: &ModelBytes<'_>,
    ) -> Result<Self, TensorError>
    where
        T::Memory: Erases<R>,
    {
        let weights = Tensor::alloc(target, memory, Self::BYTES)?;
        let mut end = 0;
        let mut next = |bytes: &[u8]| {
            let start = end;
            end += bytes.len();
            let slice = weights.slice(start..end)?;
            slice.write(0, bytes)?;
            Ok::<_, TensorError>(slice)
        };
        Ok(Self {
            hidden_weight: next(model.hidden_weight())?,
            hidden_bias: next(model.hidden_bias())?,
            output_weight: next(model.output_weight())?,
            output_bias: next(model.output_bias())?,
        })
    }
}

/// Room for the images that are classified together, and for what becomes of them.
#[derive(Debug)]
pub struct Batch<T: Target> {
    pub(crate) images: Tensor<T>,
    pub(crate) hidden: Tensor<T>,
    pub(crate) scores: Tensor<T>,
}

impl<T: Target> Batch<T> {
    /// Images of a batch. Below the 63 device accesses that one storage counts at a time.
    pub const IMAGES: usize = 24;
    /// Bytes of the largest of its three storages.
    pub const LARGEST: usize = Self::IMAGES * 4 * HIDDEN;

    /// Room in `memory`.
    ///
    /// # Errors
    /// The memory refused it, or is closed; nothing stays allocated.
    pub fn alloc<R: BackendRef + Clone>(target: &T, memory: R) -> Result<Self, TensorError>
    where
        T::Memory: Erases<R>,
    {
        let storage = |per_image| Tensor::alloc(target, memory.clone(), Self::IMAGES * per_image);
        Ok(Self {
            images: storage(INPUTS)?,
            hidden: storage(4 * HIDDEN)?,
            scores: storage(4 * CLASSES)?,
        })
    }
}
