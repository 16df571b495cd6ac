//! Beside `device_segment_*`: bytes of a device are copied, and `host` answers for an erased backend.

use wharf::prelude::*;
use wharf_softdma::{Config, SoftDma};

fn main() {
    let device = SoftDma::<()>::open(Config::new(4096)).unwrap();
    let segment = SegmentMut::alloc(device.channel(), 8)
        .unwrap()
        .filled(7)
        .unwrap();
    let mut bytes = [0];
    segment.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [7]);
    assert!(segment.host().is_err());
}
