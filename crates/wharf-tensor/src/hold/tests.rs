//! Ranges that no caller of today asks for.

use wharf_backend::Heap;
use wharf_source::HeapSource;
use wharf_sync::Unsync;

use super::*;
use crate::{Parts, Tensor};

#[test]
fn out_of_range_there_are_no_bytes() {
    let target = Parts::<Heap<Unsync>, HeapSource>::new(HeapSource);
    let tensor = Tensor::alloc(&target, Heap::new(), 8).unwrap();
    tensor.write(0, b"01234567").unwrap();
    let storage = tensor.storage().unwrap();
    let mut hold = storage.guard_write(Patience::None).unwrap();
    assert_eq!(hold.host((5, 3)).unwrap(), b"567");
    assert_eq!(hold.host_mut((8, 0)).unwrap(), b"");
    hold.host_mut((5, 3)).unwrap()[0] = b'V';
    for range in [(5, 4), (9, 0), (0, 9), (usize::MAX, 2)] {
        assert_eq!(hold.host(range).unwrap(), b"");
        assert_eq!(hold.host_mut(range).unwrap(), b"");
    }
    assert_eq!(hold.host((0, 8)).unwrap(), b"01234V67");
}
