//! Pitfall: a tensor is written through a guard that others may read beside.
//! Instead: `lend_mut`, which lets nobody else in.

use wharf::prelude::*;

type Sketch = Parts<Heap<Unsync>, HeapSource>;

fn stamp(image: &Tensor<Sketch>) -> Result<(), TensorError> {
    let pixels = image.lend()?;
    pixels[0] = 1;
    Ok(())
}

fn main() {
    let _ = stamp;
}
