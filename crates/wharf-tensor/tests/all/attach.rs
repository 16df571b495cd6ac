//! A storage that a device has access to is not taken from under its handle, whatever the access.

use wharf_backend::{Heap, SegmentMut};
use wharf_engine::Stream;
use wharf_source::HeapSource;
use wharf_sync::Unsync;
use wharf_tensor::{Access, Parts, Tensor, TensorError};

type Target = Parts<Heap<Unsync>, HeapSource>;

#[test]
fn reads_and_writes_alike_keep_a_segment_from_being_attached() {
    let (target, stream) = (Target::new(HeapSource), Stream::claim().unwrap());
    for (begun, (reads, writes)) in [
        (&[Access::Read][..], (1, 0)),
        (&[Access::Write], (0, 1)),
        (&[Access::Write, Access::Read, Access::Read], (2, 1)),
    ] {
        let mut tensor = Tensor::alloc(&target, Heap::new(), 4).unwrap();
        let storage = tensor.storage_id().unwrap();
        let tickets: Vec<_> = begun
            .iter()
            .map(|&access| tensor.begin(access, stream.id()).unwrap())
            .collect();
        let other = || {
            SegmentMut::alloc(Heap::new(), 6)
                .unwrap()
                .filled(7)
                .unwrap()
        };
        let refused = tensor.attach(&target, other()).unwrap_err();
        let in_flight = TensorError::InFlight {
            storage,
            reads,
            writes,
        };
        assert_eq!((refused.error, &*refused.value), (in_flight, &[7; 6][..]));
        assert_eq!((tensor.storage_id(), tensor.len()), (Some(storage), 4));
        drop(tickets);
        tensor.attach(&target, other()).unwrap();
        assert_eq!(tensor.len(), 6);
    }
}
