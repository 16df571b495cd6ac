//! `copy_from` between host and device in all four ways, in one storage and in two, around the size of the
//! bounce buffer, and when a device fails in the middle of it.

use std::sync::{Arc, Mutex};

use crate::common::{Books, Device, UNTOUCHED};
use wharf_backend::wrap::{BackendEvent, BackendEventKind, BackendEventPhase};
use wharf_backend::{AllocError, Heap, MemBackend, SegmentMut, Traced, TransferError};
use wharf_engine::Stream;
use wharf_sync::Blocking;
use wharf_tensor::{Access, Parts, Tensor, TensorError};

type Memory = Arc<dyn MemBackend<Policy = Blocking> + Send + Sync>;
type Mixed = Parts<Memory, Arc<Books>>;

const CLOSED: TensorError = TensorError::Transfer(TransferError::Closed);

struct Bench {
    device: Arc<Device<Blocking>>,
    target: Mixed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Host,
    Device,
}

impl Bench {
    fn new() -> Self {
        Self {
            device: Arc::new(Device::new()),
            target: Mixed::new(Arc::default()),
        }
    }
    /// A tensor of `bytes`.
    fn tensor(&self, side: Side, bytes: &[u8]) -> Tensor<Mixed> {
        let memory: Memory = match side {
            Side::Host => Arc::new(Heap::new()),
            Side::Device => self.device.clone(),
        };
        let tensor = Tensor::alloc(&self.target, memory.clone(), bytes.len()).unwrap();
        tensor.write(0, bytes).unwrap();
        tensor
    }
}

fn bytes(tensor: &Tensor<Mixed>) -> Vec<u8> {
    let mut bytes = vec![0; tensor.len()];
    tensor.read(0, &mut bytes).unwrap();
    bytes
}

/// `len` bytes of which no two within 251 are equal, from `first` on.
fn ramp(first: usize, len: usize) -> Vec<u8> {
    (first..first + len)
        .map(|n| u8::try_from(n % 251).unwrap())
        .collect()
}

/// On both sides of one and of two bounce buffers of 256 bytes.
const LENGTHS: [usize; 9] = [0, 1, 255, 256, 257, 511, 512, 513, 600];

#[test]
fn bytes_arrive_whole_and_nothing_beside_them_changes() {
    for from in [Side::Host, Side::Device] {
        for to in [Side::Host, Side::Device] {
            for len in LENGTHS {
                let bench = Bench::new();
                let source = bench.tensor(from, &ramp(7, len + 5));
                let target = bench.tensor(to, &vec![0xAA; len + 9]);
                let window = target.slice(4..4 + len).unwrap();
                window
                    .copy_from(&source.slice(3..3 + len).unwrap())
                    .unwrap();

                let mut expected = vec![0xAA; len + 9];
                expected[4..4 + len].copy_from_slice(&ramp(10, len));
                assert_eq!(
                    bytes(&target),
                    expected,
                    "{len} bytes from {from:?} to {to:?}"
                );
                assert_eq!(bytes(&source), ramp(7, len + 5));
                assert!(bench.device.gaps_untouched());
            }
        }
    }
}

#[test]
fn copies_inside_one_storage_are_those_of_memmove() {
    for side in [Side::Host, Side::Device] {
        for len in LENGTHS {
            // Overlapping by all, all but one, around half, and nothing; towards both ends.
            for (from, to) in [
                (0, 0),
                (0, 1),
                (1, 0),
                (0, 255),
                (255, 0),
                (0, 300),
                (300, 0),
                (0, 600),
                (600, 0),
            ] {
                let bench = Bench::new();
                let before = ramp(0, 1200);
                let tensor = bench.tensor(side, &before);
                let window = |at: usize| tensor.slice(at..at + len).unwrap();
                window(to).copy_from(&window(from)).unwrap();
                let mut expected = before;
                expected.copy_within(from..from + len, to);
                assert_eq!(
                    bytes(&tensor),
                    expected,
                    "{len} bytes on {side:?} from {from} to {to}"
                );
                assert!(bench.device.gaps_untouched());
            }
        }
    }
}

#[test]
fn between_two_devices_bytes_go_in_pieces_and_otherwise_in_one() {
    let transfers = |from, to, len: usize| {
        let bench = Bench::new();
        let (source, target) = (
            bench.tensor(from, &ramp(0, len)),
            bench.tensor(to, &ramp(0, len)),
        );
        bench.device.fail_nth(0);
        target.copy_from(&source).unwrap();
        bench.device.transfers()
    };
    let (host, device) = (Side::Host, Side::Device);
    assert_eq!(transfers(host, host, 600), 0);
    assert_eq!(transfers(host, device, 600), 1);
    assert_eq!(transfers(device, host, 600), 1);
    // A read and a write for each piece of at most 256 bytes.
    for (len, pieces) in [
        (0, 0),
        (1, 1),
        (255, 1),
        (256, 1),
        (257, 2),
        (512, 2),
        (513, 3),
        (600, 3),
    ] {
        assert_eq!(transfers(device, device, len), 2 * pieces, "{len} bytes");
    }
}

#[test]
fn a_copy_that_fails_between_two_devices_has_moved_whole_pieces() {
    let len = 600;
    // The nth transfer fails: reads are odd, writes are even. So many bytes have arrived by then.
    for (nth, arrived) in [(1, 0), (2, 0), (3, 256), (4, 256), (5, 512), (6, 512)] {
        let bench = Bench::new();
        let source = bench.tensor(Side::Device, &ramp(1, len));
        let target = bench.tensor(Side::Device, &vec![0xAA; len]);
        bench.device.fail_nth(nth);
        let refused = match arrived {
            0 => CLOSED,
            done => TensorError::Partial {
                done,
                len,
                error: TransferError::Closed,
            },
        };
        assert_eq!(target.copy_from(&source), Err(refused));
        let mut expected = vec![0xAA; len];
        expected[..arrived].copy_from_slice(&ramp(1, arrived));
        assert_eq!(bytes(&target), expected, "failed at transfer {nth}");
        assert_eq!(bytes(&source), ramp(1, len));
        assert!(bench.device.gaps_untouched());
        // The fence of neither is held.
        target.try_copy_from(&source).unwrap();
        assert_eq!(bytes(&target), ramp(1, len));
    }
}

#[test]
fn a_copy_inside_of_a_device_that_fails_has_moved_whole_pieces_from_where_it_began() {
    let (len, shift) = (600, 100);
    for up in [false, true] {
        for (nth, done) in [(1, 0), (2, 0), (3, 256), (4, 256), (5, 512), (6, 512)] {
            let bench = Bench::new();
            let before = ramp(1, len + shift);
            let tensor = bench.tensor(Side::Device, &before);
            let window = |at: usize| tensor.slice(at..at + len).unwrap();
            let (from, to) = if up { (0, shift) } else { (shift, 0) };
            bench.device.fail_nth(nth);
            let error = TransferError::Closed;
            let refused = match done {
                0 => CLOSED,
                done => TensorError::Partial { done, len, error },
            };
            assert_eq!(window(to).copy_from(&window(from)), Err(refused));
            // Upwards the last bytes go first.
            let skipped = if up { len - done } else { 0 };
            let mut expected = before.clone();
            expected[to + skipped..][..done].copy_from_slice(&before[from + skipped..][..done]);
            assert_eq!(bytes(&tensor), expected, "up: {up}, transfer {nth}");
            assert!(bench.device.gaps_untouched());
        }
    }
}

#[test]
fn a_placeholder_on_either_side_leaves_everything_as_it_is() {
    for side in [Side::Host, Side::Device] {
        let bench = Bench::new();
        let tensor = bench.tensor(side, &ramp(3, 600));
        let nothing = Tensor::placeholder(&bench.target, 600).unwrap();
        bench.device.fail_nth(1);
        tensor.copy_from(&nothing).unwrap();
        nothing.copy_from(&tensor).unwrap();
        let half = nothing.slice(..300).unwrap();
        half.copy_from(&nothing.slice(200..500).unwrap()).unwrap();
        bench.device.fail_nth(0);
        assert_eq!(bytes(&tensor), ramp(3, 600), "{side:?}");
        // Fenced as ever.
        let storage = nothing.storage_id().unwrap();
        let stream = Stream::claim().unwrap();
        let ticket = nothing.begin(Access::Write, stream.id()).unwrap();
        let refused = Err(TensorError::WouldBlock { storage });
        assert_eq!(tensor.try_copy_from(&nothing), refused);
        drop(ticket);
    }
}

#[test]
fn parts_of_one_storage_copy_from_each_other() {
    for side in [Side::Host, Side::Device] {
        let bench = Bench::new();
        let whole = bench.tensor(side, &ramp(0, 600));
        let (first, second) = whole.split(300).unwrap();
        second.copy_from(&first).unwrap();
        first
            .slice(..10)
            .unwrap()
            .copy_from(&second.slice(290..).unwrap())
            .unwrap();
        let storage = whole.storage_id().unwrap();
        let split = Err(TensorError::Split { storage });
        assert_eq!(first.copy_from(&whole.slice(..300).unwrap()), split);
        drop((first, second));
        let mut expected = [ramp(0, 300), ramp(0, 300)].concat();
        expected[..10].copy_from_slice(&ramp(290, 10));
        assert_eq!(bytes(&whole), expected, "{side:?}");
        assert!(bench.device.gaps_untouched());
    }
}

#[test]
fn a_copy_that_fails_between_host_and_device_has_moved_nothing() {
    for (from, to) in [(Side::Host, Side::Device), (Side::Device, Side::Host)] {
        let bench = Bench::new();
        let (source, target) = (
            bench.tensor(from, &ramp(0, 600)),
            bench.tensor(to, &[0xAA; 600]),
        );
        bench.device.fail_nth(1);
        assert_eq!(target.copy_from(&source), Err(CLOSED));
        assert_eq!(bytes(&target), [0xAA; 600]);
        target.try_copy_from(&source).unwrap();
        assert_eq!(bytes(&target), ramp(0, 600));
    }
}

#[test]
fn a_closed_device_is_an_answer_and_its_tensors_are_harmless() {
    let bench = Bench::new();
    let (on_device, on_host) = (
        bench.tensor(Side::Device, &ramp(0, 300)),
        bench.tensor(Side::Host, &ramp(9, 300)),
    );
    bench.device.close();
    let mut bytes = [1; 300];
    assert_eq!(on_device.read(0, &mut bytes), Err(CLOSED));
    assert_eq!(bytes, [1; 300], "untouched");
    assert_eq!(on_device.write(0, &bytes), Err(CLOSED));
    assert_eq!(on_device.fill(0), Err(CLOSED));
    assert_eq!(on_device.copy_from(&on_host), Err(CLOSED));
    assert_eq!(on_host.copy_from(&on_device), Err(CLOSED));
    assert_eq!(self::bytes(&on_host), ramp(9, 300));
    let half = on_device.slice(150..).unwrap();
    assert_eq!(
        half.copy_from(&on_device.slice(..150).unwrap()),
        Err(CLOSED)
    );
    let memory: Memory = bench.device.clone();
    let refused = Tensor::alloc(&bench.target, memory.clone(), 1).unwrap_err();
    assert_eq!(refused, TensorError::Alloc(AllocError::Closed));
    assert_eq!(bench.device.segments(), 1);
    drop((on_device, half));
    assert_eq!(bench.device.segments(), 0);
}

#[test]
fn operands_that_do_not_fit_each_other_are_told_with_their_numbers() {
    let bench = Bench::new();
    let (three, four) = (
        bench.tensor(Side::Host, &[1, 2, 3]),
        bench.tensor(Side::Device, &[4; 4]),
    );
    let mismatch = |destination, source| {
        Err(TensorError::LengthMismatch {
            destination,
            source,
        })
    };
    assert_eq!(three.copy_from(&four), mismatch(3, 4));
    assert_eq!(four.copy_from(&three), mismatch(4, 3));
    assert_eq!(four.slice(1..).unwrap().copy_from(&four), mismatch(3, 4));
    // Even where the fence would have refused as well: nothing was asked of it.
    let _guard = three.lend_mut().unwrap();
    assert_eq!(three.copy_from(&four), mismatch(3, 4));

    let empty = Tensor::<Mixed>::empty();
    assert_eq!(empty.copy_from(&empty), Err(TensorError::NoStorage));
    assert_eq!(three.copy_from(&empty), Err(TensorError::NoStorage));
    assert_eq!(empty.copy_from(&three), Err(TensorError::NoStorage));
    // An empty slice has a storage, and is a fine operand.
    assert_eq!(
        four.slice(..0)
            .unwrap()
            .copy_from(&four.slice(4..).unwrap()),
        Ok(())
    );
}

#[test]
fn an_empty_tensor_answers_no_storage_to_everything_and_may_be_dropped() {
    let empty = Tensor::<Mixed>::default();
    let no = TensorError::NoStorage;
    assert_eq!(empty.read(0, &mut []), Err(no));
    assert_eq!(empty.write(0, &[]), Err(no));
    assert_eq!(empty.fill(0), Err(no));
    assert_eq!(empty.lend().map(drop), Err(no));
    assert_eq!(empty.lend_mut().map(drop), Err(no));
    assert_eq!(empty.slice(..).map(drop), Err(no));
    assert_eq!(
        (empty.len(), empty.offset(), empty.is_empty()),
        (0, 0, true)
    );
    assert_eq!(
        (empty.storage_id(), empty.space(), empty.place()),
        (None, None, None)
    );
    assert_eq!(empty.in_flight(), (0, 0));
    drop(empty.clone());
}

#[test]
fn device_bytes_are_lent_to_nobody_and_the_attempt_holds_nothing() {
    let bench = Bench::new();
    let tensor = bench.tensor(Side::Device, &ramp(0, 8));
    let storage = tensor.storage_id().unwrap();
    let not = TensorError::NotHostAddressable { storage };
    assert_eq!(tensor.lend().map(drop), Err(not));
    assert_eq!(tensor.try_lend().map(drop), Err(not));
    assert_eq!(tensor.lend_mut().map(drop), Err(not));
    assert_eq!(tensor.try_lend_mut().map(drop), Err(not));
    assert_eq!(tensor.try_fill(UNTOUCHED), Ok(()));
}

#[test]
fn a_tensor_over_a_filled_segment_takes_nothing_from_it() {
    let bench = Bench::new();
    let memory: Memory = bench.device.clone();
    let segment = SegmentMut::alloc(memory, 3)
        .unwrap()
        .init_from(b"abc")
        .unwrap();
    let tensor = Tensor::from_segment(&bench.target, segment).unwrap();
    assert_eq!(bytes(&tensor), b"abc");
    drop(tensor);
    assert_eq!(bench.device.segments(), 0);
}

#[test]
fn a_copy_from_a_placeholder_leaves_every_side_as_it_was() {
    let bench = Bench::new();
    let nothing = Tensor::placeholder(&bench.target, 300).unwrap();
    for side in [Side::Host, Side::Device] {
        let real = bench.tensor(side, &ramp(5, 300));
        assert_eq!(real.copy_from(&nothing), Ok(()));
        assert_eq!(bytes(&real), ramp(5, 300), "{side:?}");
        assert_eq!(nothing.copy_from(&real), Ok(()));
    }
    // However long it is, it takes no time: there is nothing to move.
    let long = [(); 2].map(|()| Tensor::placeholder(&bench.target, usize::MAX).unwrap());
    assert_eq!(long[0].copy_from(&long[1]), Ok(()));
    assert_eq!(long[0].copy_from(&long[0]), Ok(()));
}

/// Whoever listens to the transfers of a backend hears those of its tensors, although the CPU could make them by itself.
#[test]
fn a_wrapper_that_listens_is_not_passed_by() {
    use BackendEventKind::{CopyIn, CopyOut, Fill};
    type Told = Vec<(BackendEventKind, usize, usize)>;
    let told = Arc::new(Mutex::new(Told::new()));
    let sink = {
        let told = told.clone();
        move |event: BackendEvent| {
            let moves = matches!(event.kind, CopyIn | CopyOut | Fill);
            if moves && event.phase == BackendEventPhase::Done {
                let told = &mut *told.lock().unwrap();
                told.push((event.kind, event.offset, event.bytes));
            }
        }
    };
    let bench = Bench::new();
    let plain = bench.tensor(Side::Host, &[1; 12]);
    let traced: Memory = Arc::new(Traced::new(Heap::new(), sink));
    let tensor = Tensor::alloc(&bench.target, traced, 12).unwrap();
    let (_, second) = tensor.split(4).unwrap();
    second.write(1, &[2; 3]).unwrap();
    second.read(2, &mut [0; 5]).unwrap();
    second.slice(6..8).unwrap().fill(3).unwrap();
    plain.slice(..8).unwrap().copy_from(&second).unwrap();
    assert_eq!(
        *told.lock().unwrap(),
        [
            (Fill, 0, 12), // how it was made
            (CopyIn, 5, 3),
            (CopyOut, 6, 5),
            (Fill, 10, 2),
        ],
        "and the last one was lent"
    );
    assert_eq!(*plain.lend().unwrap(), [0, 2, 2, 2, 0, 0, 3, 3, 1, 1, 1, 1]);
}
