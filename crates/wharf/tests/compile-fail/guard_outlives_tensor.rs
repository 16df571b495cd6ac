//! Pitfall: the bytes that a guard lends are used after the tensor is gone.
//! Instead: drop the guard first; or keep a clone of the tensor, which is a handle.

use wharf::prelude::*;

type Sketch = Parts<Heap<Unsync>, HeapSource>;

fn main() {
    let target = Sketch::new(HeapSource);
    let image = Tensor::alloc(&target, Heap::new(), 8).unwrap();
    let pixels = image.lend().unwrap();
    drop(image);
    assert_eq!(pixels[0], 0);
}
