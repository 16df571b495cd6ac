//! The two layers, as kernels that a device runs on its own memory.
//!
//! Plain matrix times vector: the computation is the example's, the memory is the library's. Bytes are
//! little-endian, whatever the device's alignment, so a kernel reads and writes them four at a time.

use wharf_engine::{KernelFault, Lent};

/// The operands are not `weights, bias, input` to read and `output` to write, of fitting lengths.
pub const BAD_OPERANDS: KernelFault = KernelFault(1);

/// `relu(W x + b)` with pixels as input: operands `W`, `b`, `x` (bytes), `h`.
///
/// # Errors
/// [`BAD_OPERANDS`].
pub fn hidden_layer(operands: &mut [Lent<'_>]) -> Result<(), KernelFault> {
    let [
        Lent::Read(weights),
        Lent::Read(bias),
        Lent::Read(pixels),
        Lent::Write(hidden),
    ] = operands
    else {
        return Err(BAD_OPERANDS);
    };
    layer(
        weights,
        bias,
        hidden,
        pixels.len(),
        || pixels.iter().map(|&p| f32::from(p)),
        |sum| sum.max(0.0),
    )
}

/// `W h + b`: operands `W`, `b`, `h`, `y`.
///
/// # Errors
/// [`BAD_OPERANDS`].
pub fn output_layer(operands: &mut [Lent<'_>]) -> Result<(), KernelFault> {
    let [
        Lent::Read(weights),
        Lent::Read(bias),
        Lent::Read(hidden),
        Lent::Write(scores),
    ] = operands
    else {
        return Err(BAD_OPERANDS);
    };
    let inputs = hidden.len() / 4;
    layer(weights, bias, scores, inputs, || floats(hidden), |sum| sum)
}

/// Little-endian floats, one after another.
pub fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|&four| f32::from_le_bytes(four))
}

fn layer<I: Iterator<Item = f32>>(
    weights: &[u8],
    bias: &[u8],
    output: &mut [u8],
    inputs: usize,
    input: impl Fn() -> I,
    activation: impl Fn(f32) -> f32,
) -> Result<(), KernelFault> {
    let outputs = output.len() / 4;
    let fits = bias.len() == output.len() && weights.len() / 4 == outputs * inputs && inputs > 0;
    if !fits {
        return Err(BAD_OPERANDS);
    }
    let rows = weights.chunks_exact(inputs * 4);
    let outputs = output.as_chunks_mut().0;
    for ((row, bias), output) in rows.zip(floats(bias)).zip(outputs) {
        let sum = floats(row)
            .zip(input())
            .fold(bias, |sum, (weight, value)| sum + weight * value);
        *output = activation(sum).to_le_bytes();
    }
    Ok(())
}
