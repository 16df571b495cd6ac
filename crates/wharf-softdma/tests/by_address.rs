//! What a channel moves without the host in between, and what it takes as one submission: counted in its ledger, with every range that
//! fails in the middle, through wrappers, and as segments and tensors.

use std::sync::Arc;

use wharf_backend::usage::UsageClass;
use wharf_backend::wrap::{BackendEvent, Checked, FaultInject, Finding, Scrub, Shared, Traced};
use wharf_backend::{
    BackendExt, Heap, MemBackend, PieceError, SegmentMut, StaticPool, TransferError,
};
use wharf_softdma::{Channel, ChannelConfig, Config, SoftDma};
use wharf_source::HeapSource;
use wharf_sync::{Blocking, NoClock};
use wharf_tensor::{
    BatchError, Parts, Tensor, TensorError, TraceEvent, TraceKind, TracePhase, TraceSink,
};

type Memory = Arc<dyn MemBackend<Policy = Blocking> + Send + Sync>;
type Target = Parts<Memory, HeapSource>;
type Device = SoftDma<()>;

wharf_backend::backend_set! {
    enum Set: Blocking {
        Shared(Shared<Arc<Channel>>),
    }
}

/// Two channels.
fn device() -> Device {
    let channel = ChannelConfig::new(1 << 16);
    Device::open(Config::of(channel).with(channel)).unwrap()
}

fn tensor(memory: impl Into<Memory>, bytes: &[u8]) -> Tensor<Target> {
    let tensor = Tensor::alloc(&Target::new(HeapSource), memory.into(), bytes.len()).unwrap();
    tensor.write(0, bytes).unwrap();
    tensor
}

fn erased(channel: &Arc<Channel>) -> Memory {
    channel.clone()
}

fn bytes(tensor: &Tensor<Target>) -> Vec<u8> {
    let mut bytes = vec![0; tensor.len()];
    tensor.read(0, &mut bytes).unwrap();
    bytes
}

fn ramp(len: usize) -> Vec<u8> {
    (1..=len).map(|n| u8::try_from(n % 251).unwrap()).collect()
}

/// Submissions of `channel`, and bytes in, out, filled and copied, that `what` makes.
fn moved(channel: &Channel, what: impl FnOnce()) -> (u64, [u64; 4]) {
    let all = || {
        let ledger = channel.ledger();
        let bytes = [
            ledger.bytes_in,
            ledger.bytes_out,
            ledger.bytes_filled,
            ledger.bytes_copied,
        ];
        (ledger.submissions, bytes)
    };
    let before = all();
    what();
    let after = all();
    let bytes = std::array::from_fn(|which| after.1[which] - before.1[which]);
    (after.0 - before.0, bytes)
}

#[test]
fn a_copy_on_one_channel_is_one_transfer_that_moves_all_or_nothing() {
    let device = device();
    let channel = &device.channel();
    let (source, destination) = (
        tensor(erased(channel), &ramp(1000)),
        tensor(erased(channel), &[0; 1000]),
    );
    let copy = || destination.copy_from(&source).unwrap();
    assert_eq!(moved(channel, copy), (1, [0, 0, 0, 1000]));
    assert_eq!(bytes(&destination), ramp(1000));

    destination.fill(7).unwrap();
    device.faults().fail_transfer(1);
    assert_eq!(
        destination.copy_from(&source),
        Err(TensorError::Transfer(TransferError::Injected { call: 1 }))
    );
    assert_eq!(bytes(&destination), [7; 1000]);

    // Inside one segment, overlapping, both ways.
    for (from, to) in [(0, 100), (100, 0), (3, 3)] {
        let mut expected = bytes(&source);
        expected.copy_within(from..from + 900, to);
        let (here, there) = (
            source.slice(from..from + 900).unwrap(),
            source.slice(to..to + 900).unwrap(),
        );
        let copy = || there.copy_from(&here).unwrap();
        assert_eq!(moved(channel, copy), (1, [0, 0, 0, 900]));
        assert_eq!(bytes(&source), expected);
    }
    // Of no bytes there is nothing to ask for.
    let (none, nothing) = (source.slice(..0).unwrap(), destination.slice(..0).unwrap());
    assert_eq!(
        moved(channel, || nothing.copy_from(&none).unwrap()),
        (0, [0; 4])
    );
    // Parts of a split lie in one segment.
    let (first, second) = source.split(500).unwrap();
    let expected = bytes(&first);
    assert_eq!(
        moved(channel, || second.copy_from(&first).unwrap()),
        (1, [0, 0, 0, 500])
    );
    assert_eq!(bytes(&second), expected);

    device.close();
    let closed = Err(TensorError::Transfer(TransferError::Closed));
    assert_eq!(second.copy_from(&first), closed);
}

#[test]
fn what_only_another_channel_reaches_goes_through_the_host() {
    let device = device();
    let [near, far] = device.channels() else {
        panic!("two channels")
    };
    let (source, destination) = (
        tensor(erased(near), &ramp(600)),
        tensor(erased(far), &[0; 600]),
    );
    let copy = || destination.copy_from(&source).unwrap();
    assert_eq!(moved(near, copy), (3, [0, 600, 0, 0]));
    assert_eq!(bytes(&destination), ramp(600));
    assert!(near.reaches(near.base(), near.capacity()));
    assert!(!near.reaches(near.base(), near.capacity() + 1));
    assert!(!near.reaches(far.base(), 1));
}

#[test]
fn a_batch_on_one_channel_is_one_submission_and_single_calls_are_as_many_as_they_are() {
    let device = device();
    let [near, far] = device.channels() else {
        panic!("two channels")
    };
    let a = tensor(erased(near), &[0; 8]);
    // Through references of their own: the memory is the same.
    let tagged = |tag: &str| Memory::from(Arc::new(near.tagged(tag, UsageClass::IO)) as Memory);
    let (b, c) = (tensor(tagged("b"), &[0; 8]), tensor(tagged("c"), &[0; 8]));
    let ops = [
        a.write_op(0, &[1, 2, 3]),
        b.write_op(4, &[4]),
        // Over the first one.
        a.write_op(2, &[5, 6]),
        c.write_op(0, &[7; 8]),
    ];
    assert_eq!(
        moved(near, || Tensor::write_batch(&ops).unwrap()),
        (1, [14, 0, 0, 0])
    );
    assert_eq!(bytes(&a), [1, 2, 5, 6, 0, 0, 0, 0]);
    assert_eq!(bytes(&b), [0, 0, 0, 0, 4, 0, 0, 0]);
    assert_eq!(bytes(&c), [7; 8]);
    let one_by_one = || {
        a.write(0, &[1, 2, 3]).unwrap();
        b.write(4, &[4]).unwrap();
        a.write(2, &[5, 6]).unwrap();
        c.write(0, &[7; 8]).unwrap();
    };
    assert_eq!(moved(near, one_by_one), (4, [14, 0, 0, 0]));

    let (mut x, mut y, mut z) = ([0; 4], [0; 1], [0; 2]);
    let read = || {
        let mut ops = [
            a.read_op(0, &mut x),
            b.read_op(4, &mut y),
            c.read_op(6, &mut z),
        ];
        Tensor::read_batch(&mut ops).unwrap();
    };
    assert_eq!(moved(near, read), (1, [0, 7, 0, 0]));
    assert_eq!((x, y, z), ([1, 2, 5, 6], [4], [7, 7]));

    // Past the fence too.
    // SAFETY: nobody else has the tensors.
    let unfenced = || unsafe { Tensor::write_batch_unfenced(&ops) }.unwrap();
    assert_eq!(moved(near, unfenced), (1, [14, 0, 0, 0]));

    // Each run on one device is one: here two on the near one, one on the far one, and none on the host.
    let (d, host) = (tensor(erased(far), &[0; 8]), {
        let heap: Memory = Arc::new(Heap::new());
        tensor(heap, &[0; 8])
    });
    let ops = [
        a.write_op(0, &[1]),
        b.write_op(0, &[2]),
        d.write_op(0, &[3]),
        d.write_op(1, &[4]),
        host.write_op(0, &[5]),
        c.write_op(0, &[6]),
        a.write_op(1, &[7]),
    ];
    let mut on_far = (0, [0; 4]);
    let both = || on_far = moved(far, || Tensor::write_batch(&ops).unwrap());
    assert_eq!(moved(near, both), (2, [4, 0, 0, 0]));
    assert_eq!(on_far, (1, [2, 0, 0, 0]));
    let first = |tensor: &Tensor<Target>| bytes(tensor)[..2].to_vec();
    assert_eq!(
        [&a, &b, &c, &d, &host].map(first),
        [[1, 7], [2, 0], [6, 7], [3, 4], [5, 0]]
    );
}

#[test]
fn a_submission_that_fails_in_the_middle_names_the_operation() {
    let device = device();
    let channel = &device.channel();
    let (a, b) = (
        tensor(erased(channel), &[0; 4]),
        tensor(erased(channel), &[0; 4]),
    );
    let heap: Memory = Arc::new(Heap::new());
    let host = tensor(heap, &[0; 4]);
    let ops = [
        a.write_op(0, &[1, 1]),
        b.write_op(0, &[2]),
        host.write_op(0, &[3, 3, 3]),
        b.write_op(1, &[]),
        a.write_op(1, &[4, 4, 4]),
    ];
    // The operation of the nth transfer of the device, and the bytes before it.
    for (call, op, before) in [(1, 0, 0), (2, 1, 2), (3, 3, 6), (4, 4, 6)] {
        for tensor in [&a, &b, &host] {
            tensor.fill(0).unwrap();
        }
        device.faults().fail_transfer(call);
        let error = TransferError::Injected { call };
        let expected = match before {
            0 => BatchError::Refused {
                op,
                error: TensorError::Transfer(error),
            },
            bytes => BatchError::Partial { op, bytes, error },
        };
        assert_eq!(Tensor::write_batch(&ops), Err(expected));
        let when = |done: bool, bytes: [u8; 4]| if done { bytes.to_vec() } else { vec![0; 4] };
        assert_eq!(bytes(&a), when(op > 0, [1, 1, 0, 0]));
        assert_eq!(bytes(&b), when(op > 1, [2, 0, 0, 0]));
        assert_eq!(bytes(&host), when(op > 2, [3, 3, 3, 0]));
    }
    Tensor::write_batch(&ops).unwrap();
    assert_eq!(bytes(&a), [1, 4, 4, 4]);

    let mut buffers = [[9; 2]; 3];
    device.faults().fail_transfer(3);
    let [x, y, z] = &mut buffers;
    let mut reads = [a.read_op(0, x), b.read_op(0, y), a.read_op(2, z)];
    let error = TransferError::Injected { call: 3 };
    let stopped = BatchError::Partial {
        op: 2,
        bytes: 4,
        error,
    };
    assert_eq!(Tensor::read_batch(&mut reads), Err(stopped));
    assert_eq!(buffers, [[1, 4], [2, 0], [9, 9]]);
}

#[test]
fn wrappers_hand_it_on_and_one_that_tells_of_every_transfer_gets_every_transfer() {
    let device = device();
    let channel = &device.channel();
    let shared = || Shared::new(channel.clone());
    let memories: [Memory; 5] = [
        Arc::new(shared()),
        Arc::new(Scrub::new(shared())),
        Arc::new(FaultInject::new(shared())),
        Arc::new(Checked::<_, _, 4>::new(shared(), |finding: Finding| {
            panic!("{finding}")
        })),
        Arc::new(Set::Shared(shared())),
    ];
    for memory in memories {
        let (a, b) = (
            tensor(memory.clone(), &[1; 600]),
            tensor(memory.clone(), &[2; 600]),
        );
        let copy = || a.copy_from(&b).unwrap();
        assert_eq!(moved(channel, copy), (1, [0, 0, 0, 600]));
        let write = || Tensor::write_batch(&[a.write_op(0, &[3]), b.write_op(1, &[4])]).unwrap();
        assert_eq!(moved(channel, write), (1, [2, 0, 0, 0]));
        let found = (bytes(&a)[..2].to_vec(), bytes(&b)[1]);
        assert_eq!(found, (vec![3, 2], 4), "{}", memory.name());
    }
    let a = tensor(erased(channel), &[1; 600]);

    let told = Arc::new(std::sync::Mutex::new(0));
    let sink = {
        let told = told.clone();
        move |_: BackendEvent| *told.lock().unwrap() += 1
    };
    let traced: Memory = Arc::new(Traced::new(Shared::new(channel.clone()), sink));
    let c = tensor(traced, &[5; 600]);
    let taken = || std::mem::take(&mut *told.lock().unwrap());
    taken();
    let copy = || c.copy_from(&a).unwrap();
    assert_eq!(moved(channel, copy), (6, [600, 600, 0, 0]));
    assert_eq!(taken(), 6, "three writes, start and end");
    let write = || {
        let ops = [
            a.write_op(0, &[3]),
            c.write_op(0, &[4]),
            c.write_op(1, &[5]),
            a.write_op(1, &[6]),
        ];
        Tensor::write_batch(&ops).unwrap();
    };
    assert_eq!(moved(channel, write), (4, [4, 0, 0, 0]));
    assert_eq!(taken(), 4, "two writes, start and end");
}

#[test]
fn segments_copy_from_each_other_wherever_they_are() {
    let device = device();
    let [near, far] = device.channels() else {
        panic!("two channels")
    };
    let pool = StaticPool::<Blocking, 64, 2>::new();
    let mut host = pool.alloc(8).unwrap().init_from(b"01234567").unwrap();
    let mut a = SegmentMut::alloc(near.clone(), 8)
        .unwrap()
        .filled(0)
        .unwrap();
    let mut b = SegmentMut::alloc(near.clone(), 8)
        .unwrap()
        .filled(9)
        .unwrap();
    let mut c = SegmentMut::alloc(far.clone(), 8)
        .unwrap()
        .filled(9)
        .unwrap();
    a.copy_from_segment(2, &host, 1, 5).unwrap();
    assert_eq!(
        moved(near, || b.copy_from_segment(0, &a, 1, 6).unwrap()).0,
        1
    );
    a.move_within(2, 3, 5).unwrap();
    host.copy_from_segment(0, &a, 0, 8).unwrap();
    assert_eq!(*host, [0, 0, b'1', b'1', b'2', b'3', b'4', b'5']);
    host.copy_from_segment(0, &b, 0, 8).unwrap();
    assert_eq!(*host, [0, b'1', b'2', b'3', b'4', b'5', 9, 9]);
    host.move_within(1, 0, 7).unwrap();
    assert_eq!(*host, [b'1', b'2', b'3', b'4', b'5', 9, 9, 9]);

    // Not between channels, and not beyond an end; nothing moves then.
    let space = wharf_backend::MemSpace::Device;
    let unsupported = Err(TransferError::Unsupported { space });
    assert_eq!(c.copy_from_segment(0, &a, 0, 8), unsupported);
    let beyond = |offset, len| {
        Err(TransferError::OutOfBounds {
            offset,
            len,
            size: 8,
        })
    };
    assert_eq!(b.copy_from_segment(0, &a, 1, 8), beyond(1, 8));
    assert_eq!(b.copy_from_segment(7, &a, 0, 2), beyond(7, 2));
    assert_eq!(a.move_within(8, 0, 1), beyond(8, 1));
    assert_eq!(a.move_within(0, usize::MAX, 1), beyond(usize::MAX, 1));
    let mut read = [0; 8];
    c.read(0, &mut read).unwrap();
    assert_eq!(read, [9; 8]);

    // Ranges of one segment.
    let write = || b.write_all(&[(0, b"abc"), (2, b"XY"), (8, b"")]).unwrap();
    assert_eq!(moved(near, write), (1, [5, 0, 0, 0]));
    let error = TransferError::OutOfBounds {
        offset: 7,
        len: 2,
        size: 8,
    };
    let refused = Err(PieceError { piece: 1, error });
    assert_eq!(b.write_all(&[(0, b"zzz"), (7, b"zz")]), refused);
    let (mut x, mut y) = ([0; 4], [0; 1]);
    let read = || b.read_all(&mut [(0, &mut x), (7, &mut y)]).unwrap();
    assert_eq!(moved(near, read), (1, [0, 5, 0, 0]));
    assert_eq!((&x, y), (b"abXY", [9]));
    device.faults().fail_transfer(2);
    let error = TransferError::Injected { call: 2 };
    let stopped = PieceError { piece: 1, error };
    let ops: [(usize, &[u8]); 3] = [(0, b"1"), (1, b"2"), (2, b"3")];
    assert_eq!(b.write_all(&ops), Err(stopped));
    b.read(0, &mut x).unwrap();
    assert_eq!(&x, b"1bXY");
    // On the host one after the other.
    host.write_all(&[(0, b"abc"), (2, b"XY")]).unwrap();
    assert_eq!(host[..4], *b"abXY");
    assert_eq!(
        host.write_all(&[(0, b"zzz"), (7, b"zz")])
            .unwrap_err()
            .piece,
        1
    );
    host.read_all(&mut [(1, &mut y)]).unwrap();
    assert_eq!((host[0], y), (b'a', *b"b"));
    assert_eq!(
        stopped.to_string(),
        "range 1 did not move: transfer 2 was made to fail"
    );
}

#[test]
fn memory_without_bytes_moves_nothing_and_says_so() {
    let config = ChannelConfig::new(1 << 12).without_bytes();
    let device = Device::open(Config::of(config)).unwrap();
    let target = Target::new(HeapSource);
    let make = || Tensor::alloc(&target, erased(&device.channel()), 8).unwrap();
    let (a, b) = (make(), make());
    let space = wharf_backend::MemSpace::Device;
    let error = TensorError::Transfer(TransferError::Unsupported { space });
    assert_eq!(a.copy_from(&b), Err(error));
    let refused = Err(BatchError::Refused { op: 0, error });
    assert_eq!(Tensor::write_batch(&[a.write_op(0, &[1])]), refused);
    assert_eq!(device.channel().ledger().bytes_copied, 0);
}

/// Kinds and phases, as they were told.
#[derive(Default)]
struct Story(std::sync::Mutex<Vec<(TraceKind, TracePhase, u64)>>);

impl TraceSink for Story {
    fn record(&self, event: TraceEvent) {
        let told = (event.kind, event.phase, event.bytes);
        self.0.lock().unwrap().push(told);
    }
}

#[test]
fn the_trace_tells_of_one_copy_and_of_every_range_of_a_batch() {
    use TraceKind::{CopyIn, CopyInBatch, CopyOut, Write, WriteBatch};
    use TracePhase::{Start, Stop};
    let device = device();
    let story = Arc::<Story>::default();
    let target =
        Parts::<Memory, HeapSource, NoClock, Arc<Story>>::with(HeapSource, NoClock, story.clone());
    let make = || Tensor::alloc(&target, erased(&device.channel()), 600).unwrap();
    let (a, b) = (make(), make());
    let taken = || std::mem::take(&mut *story.0.lock().unwrap());
    taken();
    a.copy_from(&b).unwrap();
    let told = [
        (Write, Start, 600),
        (CopyOut, Start, 600),
        (CopyIn, Start, 600),
        (CopyIn, Stop, 600),
        (CopyOut, Stop, 600),
        (Write, Stop, 600),
    ];
    assert_eq!(taken(), told);
    device.faults().fail_transfer(2);
    let ops = [
        a.write_op(0, &[1, 2, 3]),
        b.write_op(0, &[4; 4]),
        a.write_op(5, &[]),
    ];
    assert!(Tensor::write_batch(&ops).is_err());
    let told = [
        (WriteBatch, Start, 7),
        (CopyInBatch, Start, 3),
        (CopyInBatch, Stop, 3),
        (CopyInBatch, Start, 4),
        (CopyInBatch, Stop, 4),
        (WriteBatch, Stop, 7),
    ];
    assert_eq!(taken(), told);
}
