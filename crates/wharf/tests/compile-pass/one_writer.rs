//! Beside `segment_cloned`, `shared_segment_written`, `frozen_segment_written`, `borrowed_segment_written`,
//! `read_guard_written`, `guard_outlives_tensor`, `*_released_*`: many read, or one writes; and each owner gives back once.

use core::alloc::Layout;
use wharf::prelude::*;
use wharf::source::Block;

fn stamp(frame: &mut SegmentMut<&StaticPool<Unsync, 64, 4>>) {
    frame[0] += 1;
}

fn main() {
    let pool = StaticPool::<Unsync, 64, 4>::new();
    let mut frame = pool.alloc(8).unwrap().filled(0).unwrap();
    stamp(&mut frame);
    let frame = Segment::from(frame);
    let reader = frame.clone();
    assert_eq!(reader[0], 1);
    drop(reader);
    stamp(&mut frame.try_mut().expect("nobody else holds it"));
    assert_eq!(pool.census().in_use, 0);

    let target = Parts::<Heap<Unsync>, HeapSource>::new(HeapSource);
    let image = Tensor::alloc(&target, Heap::new(), 8).unwrap();
    image.lend_mut().unwrap()[0] = 1;
    let pixels = image.lend().unwrap();
    assert_eq!(pixels[0], 1);
    drop(pixels);
    drop(image);

    let block = Block::new(HeapSource, Layout::new::<u64>()).unwrap();
    let (address, layout, source) = block.into_raw();
    // SAFETY: what `into_raw` gave, once.
    drop(unsafe { Block::from_raw(address, layout, source) });
}
