//! Beside `uninit_segment_*`: filled first.

use wharf::prelude::*;

fn main() {
    let pool = StaticPool::<Unsync, 64, 4>::new();
    let frame = pool.alloc(8).unwrap().initialised().unwrap();
    assert_eq!(frame[0], 0);
    let mut bytes = [1; 8];
    frame.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 8]);
    let shared = Segment::from(frame);
    assert_eq!(shared[7], 0);
}
