//! Pitfall: a device's thread holds a tensor of an `Unsync` target, and ends its access past a fence that is a plain cell.
//! Instead: a target over a shared policy: `Hosted`, or `Firmware<Critical, _>`.

use wharf::prelude::*;
use wharf::tensor::Access;

type Sketch = Parts<Heap<Unsync>, HeapSource>;

fn to_the_device<T: Send>(_: T) {}

fn start(image: &Tensor<Sketch>, stream: &Stream) {
    let ticket = image.begin(Access::Write, stream.id()).unwrap();
    to_the_device(ticket);
}

fn main() {
    let _ = start;
}
