//! A tensor's bytes, piece by piece through a buffer.

use wharf_tensor::{Target, Tensor, TensorError};

/// Reads all of `tensor` through `buffer`, and shows `each` piece, in order.
pub(crate) fn stream<T: Target, E: From<TensorError>, const N: usize>(
    tensor: &Tensor<T>,
    buffer: &mut [u8; N],
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    const { assert!(N > 0, "nothing goes through a buffer of no bytes") };
    // What has no bytes anywhere has no pieces that could be refused, or answers every read without
    // one.
    if tensor.place().is_none() {
        let placeholder = |storage| TensorError::Placeholder { storage };
        return Err(tensor
            .storage_id()
            .map_or(TensorError::NoStorage, placeholder)
            .into());
    }
    let mut offset = 0;
    while offset < tensor.len() {
        let piece = &mut buffer[..(tensor.len() - offset).min(N)];
        tensor.read(offset, piece)?;
        each(piece)?;
        offset += piece.len();
    }
    Ok(())
}
