//! Pitfall: tensors are launched on an engine that would not keep them.
//! Instead: an engine whose cargo is `Tickets` of their target: `CpuEngine::<_, Tickets<Sketch>>`.

use wharf::prelude::*;

type Sketch = Parts<Heap<Unsync>, HeapSource>;

fn clear(engine: &CpuEngine<Unsync, ()>, image: &Tensor<Sketch>) {
    let _ = engine.launch(Command::Fill(0), &[image.output()]);
}

fn main() {
    let _ = clear;
}
