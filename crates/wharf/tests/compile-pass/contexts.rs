//! Beside `unsync_*` and `memory_of_another_policy`: the same under a policy that is shared.

use std::sync::Arc;
use wharf::prelude::*;
use wharf::tensor::Access;

use critical_section as _;

type Erased = &'static (dyn MemBackend<Policy = Critical> + Sync);

static FRAMES: StaticPool<Critical, 64, 4> = StaticPool::new();

fn to_another_thread<T: Send + 'static>(value: T) {
    std::thread::spawn(move || drop(value)).join().unwrap();
}

fn main() {
    to_another_thread(FRAMES.alloc(8).unwrap());
    to_another_thread(SegmentMut::alloc(&FRAMES, 8).unwrap().erase::<Erased>());

    let text = SegmentMut::alloc(Heap::<Blocking>::new(), 4).unwrap();
    let text = Segment::from(text.filled(0).unwrap());
    to_another_thread(text.clone());

    let image = Tensor::alloc(&Hosted::default(), Arc::new(Heap::new()), 8).unwrap();
    let stream = Stream::claim().unwrap();
    to_another_thread(image.begin(Access::Write, stream.id()).unwrap());
    to_another_thread(image);
}
