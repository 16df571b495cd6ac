//! Calls past the fence: they neither wait nor hold anybody up, and leave no tensor.

use std::sync::Arc;

use crate::common::{Books, Device, Recorder};
use wharf_backend::{Heap, MemBackend, TransferError};
use wharf_engine::Stream;
use wharf_sync::{Blocking, NoClock};
use wharf_tensor::{Access, BatchError, Parts, Tensor, TensorError, TraceKind, TracePhase};

type Memory = Arc<dyn MemBackend<Policy = Blocking> + Send + Sync>;
type Mixed = Parts<Memory, Arc<Books>, NoClock, Arc<Recorder>>;

fn target() -> (Arc<Recorder>, Mixed) {
    let recorder = Arc::<Recorder>::default();
    (
        recorder.clone(),
        Mixed::with(Arc::default(), NoClock, recorder),
    )
}

fn sides(target: &Mixed, len: usize) -> [Tensor<Mixed>; 2] {
    let (host, device): (Memory, Memory) = (Arc::new(Heap::new()), Arc::new(Device::new()));
    [host, device].map(|memory| {
        let tensor = Tensor::alloc(target, memory.clone(), len).unwrap();
        tensor.fill(0).unwrap();
        tensor
    })
}

#[test]
fn they_pass_whoever_has_access() {
    let (_, target) = target();
    let stream = Stream::claim().unwrap();
    for tensor in sides(&target, 8) {
        let slice = tensor.slice(2..6).unwrap();
        let mut read = [9; 4];
        let act = |read: &mut [u8]| {
            // SAFETY: the holders below touch nothing.
            unsafe {
                slice.fill_unfenced(1).unwrap();
                slice.write_unfenced(1, &[2, 3]).unwrap();
                slice.read_unfenced(0, read).unwrap();
                Tensor::write_batch_unfenced(&[tensor.write_op(7, &[4])]).unwrap();
                Tensor::read_batch_unfenced(&mut [tensor.read_op(7, &mut read[..1])]).unwrap();
            }
            assert_eq!(read, [4, 2, 3, 1]);
        };
        let ticket = tensor.begin(Access::Write, stream.id()).unwrap();
        act(&mut read);
        drop(ticket);
        let (first, second) = tensor.split(4).unwrap();
        act(&mut read);
        drop((first, second));
        let mut all = [0; 8];
        tensor.try_read(0, &mut all).unwrap();
        assert_eq!(all, [0, 0, 1, 2, 3, 1, 0, 4]);
        assert_eq!(tensor.in_flight(), (0, 0));
    }
}

#[test]
fn they_leave_no_tensor() {
    let (_, target) = target();
    let empty = Tensor::<Mixed>::empty();
    for tensor in sides(&target, 8) {
        let slice = tensor.slice(2..6).unwrap();
        for (offset, len) in [
            (0, 5),
            (4, 1),
            (5, 0),
            (usize::MAX, 0),
            (usize::MAX, 1),
            (usize::MAX - 2, 4),
        ] {
            let error = TensorError::OutOfBounds {
                offset,
                len,
                size: 4,
            };
            let mut bytes = vec![7; len];
            let refused = Err(BatchError::Refused { op: 1, error });
            // SAFETY: nobody else is here.
            unsafe {
                assert_eq!(slice.read_unfenced(offset, &mut bytes), Err(error));
                assert_eq!(slice.write_unfenced(offset, &bytes), Err(error));
                let writes = [slice.write_op(0, &[7]), slice.write_op(offset, &bytes)];
                assert_eq!(Tensor::write_batch_unfenced(&writes), refused);
                let mut fine = [7];
                let mut reads = [
                    slice.read_op(0, &mut fine),
                    slice.read_op(offset, &mut bytes),
                ];
                assert_eq!(Tensor::read_batch_unfenced(&mut reads), refused);
                assert_eq!(fine, [7]);
            }
            assert_eq!(bytes, vec![7; len]);
        }
        let mut all = [1; 8];
        tensor.try_read(0, &mut all).unwrap();
        assert_eq!(all, [0; 8], "nothing was written");
    }
    let no = Err(TensorError::NoStorage);
    // SAFETY: there are no bytes.
    unsafe {
        assert_eq!(empty.read_unfenced(0, &mut []), no);
        assert_eq!(empty.write_unfenced(0, &[]), no);
        assert_eq!(empty.fill_unfenced(0), no);
    }
}

#[test]
fn placeholders_closed_devices_and_traces_are_as_ever() {
    let (recorder, target) = target();
    let nothing = Tensor::placeholder(&target, 4).unwrap();
    let device = Arc::new(Device::<Blocking>::new());
    let memory: Memory = device.clone();
    let tensor = Tensor::alloc(&target, memory.clone(), 4).unwrap();
    device.close();
    recorder.take();
    let closed = Err(TensorError::Transfer(TransferError::Closed));
    let mut bytes = [9; 2];
    // SAFETY: nobody else is here.
    unsafe {
        nothing.write_unfenced(0, &[1, 2]).unwrap();
        nothing.fill_unfenced(3).unwrap();
        nothing.read_unfenced(1, &mut bytes).unwrap();
        assert_eq!(tensor.read_unfenced(1, &mut bytes), closed);
        assert_eq!(tensor.write_unfenced(1, &bytes), closed);
        assert_eq!(tensor.fill_unfenced(1), closed);
        Tensor::write_batch_unfenced(&[nothing.write_op(0, &[1])]).unwrap();
        Tensor::read_batch_unfenced(&mut [nothing.read_op(0, &mut bytes)]).unwrap();
    }
    assert_eq!(bytes, [9; 2]);
    use TraceKind::{CopyIn, CopyOut, Read, ReadBatch, Write, WriteBatch};
    let (start, stop) = (TracePhase::Start, TracePhase::Stop);
    let around = |kind, copy| [(kind, start), (copy, start), (copy, stop), (kind, stop)];
    let mut story = vec![];
    for kind in [Write, Write, Read] {
        story.extend([(kind, start), (kind, stop)]);
    }
    for (kind, copy) in [(Read, CopyOut), (Write, CopyIn), (Write, CopyIn)] {
        story.extend(around(kind, copy));
    }
    for kind in [WriteBatch, ReadBatch] {
        story.extend([(kind, start), (kind, stop)]);
    }
    assert_eq!(recorder.story(), story);
}
