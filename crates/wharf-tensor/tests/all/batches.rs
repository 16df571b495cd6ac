//! Batches of reads and writes: where the bytes go, what one bad operation does, how far a device that fails has got,
//! and that no storage stays taken.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use crate::common::hands::Hands;
use crate::common::tasks::Task;
use crate::common::{Books, Device, Recorder};
use wharf_backend::{Heap, MemBackend, TransferError};
use wharf_engine::Stream;
use wharf_source::HeapSource;
use wharf_sync::{Blocking, Critical, NoClock, Unsync};
use wharf_tensor::{
    Access, BatchError, NoTrace, Parts, Target, Tensor, TensorError, TraceEvent, TraceKind,
    TracePhase, TraceSink,
};

type Memory = Arc<dyn MemBackend<Policy = Blocking> + Send + Sync>;
type Mixed = Parts<Memory, Arc<Books>, NoClock, Arc<Recorder>>;

struct Bench {
    device: Arc<Device<Blocking>>,
    recorder: Arc<Recorder>,
    target: Mixed,
}

impl Bench {
    fn new() -> Self {
        let recorder = Arc::<Recorder>::default();
        Self {
            device: Arc::new(Device::new()),
            target: Mixed::with(Arc::default(), NoClock, recorder.clone()),
            recorder,
        }
    }
    fn host(&self, bytes: &[u8]) -> Tensor<Mixed> {
        self.tensor(Arc::new(Heap::new()), bytes)
    }
    fn on_device(&self, bytes: &[u8]) -> Tensor<Mixed> {
        self.tensor(self.device.clone(), bytes)
    }
    fn tensor(&self, memory: Memory, bytes: &[u8]) -> Tensor<Mixed> {
        let tensor = Tensor::alloc(&self.target, memory.clone(), bytes.len()).unwrap();
        tensor.write(0, bytes).unwrap();
        tensor
    }
}

fn bytes<T: Target>(tensor: &Tensor<T>) -> Vec<u8> {
    let mut bytes = vec![0; tensor.len()];
    tensor.try_read(0, &mut bytes).unwrap();
    bytes
}

const fn refused(op: usize, error: TensorError) -> Result<(), BatchError> {
    Err(BatchError::Refused { op, error })
}

/// Whether nobody has access to any of them: a guard to write is had by nobody else.
fn assert_free<T: Target>(tensors: &[&Tensor<T>]) {
    for tensor in tensors {
        tensor.try_fill(0).unwrap();
    }
}

#[test]
fn bytes_go_where_they_are_told_and_the_later_write_stays() {
    let bench = Bench::new();
    let (host, device) = (bench.host(&[0; 8]), bench.on_device(&[0; 8]));
    let window = device.slice(2..6).unwrap();
    let nothing = Tensor::placeholder(&bench.target, 4).unwrap();
    Tensor::write_batch(&[
        device.write_op(1, &[1, 1, 1]),
        host.write_op(0, b"abcd"),
        // Overlaps the first one by two bytes.
        window.write_op(0, &[2, 2, 2]),
        nothing.write_op(1, b"xyz"),
        host.write_op(3, b"DEF"),
        host.write_op(8, b""),
    ])
    .unwrap();
    assert_eq!(bytes(&host), b"abcDEF\0\0");
    assert_eq!(bytes(&device), [0, 1, 2, 2, 2, 0, 0, 0]);

    let (mut a, mut b, mut c, mut d) = ([9; 3], [9; 2], [9; 4], [0; 0]);
    Tensor::read_batch(&mut [
        window.read_op(1, &mut a),
        host.read_op(2, &mut b),
        nothing.read_op(0, &mut c),
        device.read_op(8, &mut d),
    ])
    .unwrap();
    assert_eq!((a, b), ([2, 2, 0], *b"cD"));
    assert_eq!(c, [9; 4], "there is nothing to read");
    assert!(bench.device.gaps_untouched());

    assert_eq!(Tensor::<Mixed>::read_batch(&mut []), Ok(()));
    assert_eq!(Tensor::<Mixed>::write_batch(&[]), Ok(()));
    assert_free(&[&host, &device, &nothing]);
}

#[test]
fn one_bad_operation_anywhere_and_nothing_moves() {
    let bench = Bench::new();
    let (first, second) = (bench.on_device(&[1; 4]), bench.on_device(&[2; 4]));
    let (whole, empty) = (bench.host(&[3; 4]), Tensor::<Mixed>::empty());
    let _parts = whole.split(2).unwrap();
    let lent = bench.host(&[4; 4]);
    let guard = lent.lend_mut().unwrap();
    let busy = bench.on_device(&[5; 4]);
    let stream = Stream::claim().unwrap();
    let ticket = busy.begin(Access::Write, stream.id()).unwrap();
    let storage = |tensor: &Tensor<Mixed>| tensor.storage_id().unwrap();
    let bounds = |offset, len| TensorError::OutOfBounds {
        offset,
        len,
        size: 4,
    };
    // A tensor, where in it, how many bytes, and what is wrong with that.
    let bad = [
        (&first, usize::MAX, 1, bounds(usize::MAX, 1)),
        (&first, usize::MAX, 0, bounds(usize::MAX, 0)),
        (&first, usize::MAX - 1, 3, bounds(usize::MAX - 1, 3)),
        (&second, 5, 0, bounds(5, 0)),
        (&second, 4, 1, bounds(4, 1)),
        (&second, 0, 5, bounds(0, 5)),
        (&empty, 0, 0, TensorError::NoStorage),
        (
            &whole,
            0,
            1,
            TensorError::Split {
                storage: storage(&whole),
            },
        ),
        (
            &lent,
            0,
            1,
            TensorError::Guarded {
                storage: storage(&lent),
            },
        ),
        (
            &busy,
            0,
            1,
            TensorError::WouldBlock {
                storage: storage(&busy),
            },
        ),
    ];
    let transfers = bench.device.transfers();
    for (tensor, offset, len, error) in bad {
        for at in 0..3 {
            let host = [7; 8];
            let mut ops = vec![
                first.write_op(0, &host[..2]),
                second.write_op(1, &host[..3]),
            ];
            ops.insert(at, tensor.write_op(offset, &host[..len]));
            assert_eq!(Tensor::try_write_batch(&ops), refused(at, error));

            let mut host = [[9; 8]; 3];
            let [a, b, c] = &mut host;
            let mut ops = vec![
                first.read_op(0, &mut a[..2]),
                second.read_op(1, &mut b[..3]),
            ];
            ops.insert(at, tensor.read_op(offset, &mut c[..len]));
            assert_eq!(Tensor::try_read_batch(&mut ops), refused(at, error));
            assert_eq!(host, [[9; 8]; 3]);
        }
    }
    assert_eq!(bench.device.transfers(), transfers, "no byte moved");
    drop((guard, ticket));
    assert_free(&[&first, &second, &lent, &busy]);
}

#[test]
fn a_device_that_fails_in_the_middle_says_how_far_it_got() {
    for nth in 1..=5 {
        let bench = Bench::new();
        let tensors = [
            bench.on_device(&[0; 8]),
            bench.host(&[0; 8]),
            bench.on_device(&[0; 8]),
        ];
        let [a, b, c] = &tensors;
        let writes: [(&Tensor<Mixed>, &[u8]); 6] = [
            (a, &[]),
            (c, &[1; 3]),
            (b, &[2; 5]),
            (a, &[3; 2]),
            (c, &[4; 2]),
            (a, &[5; 1]),
        ];
        // Of the transfers of the device; those of the host are not counted.
        let op = [0, 1, 3, 4, 5][nth - 1];
        let moved: usize = writes[..op].iter().map(|(_, bytes)| bytes.len()).sum();
        let error = TransferError::Closed;
        let outcome = match moved {
            0 => refused(op, TensorError::Transfer(error)),
            moved => Err(BatchError::Partial {
                op,
                bytes: moved as u64,
                error,
            }),
        };
        let ops = writes.map(|(tensor, bytes)| tensor.write_op(1, bytes));
        bench.device.fail_nth(nth);
        assert_eq!(Tensor::write_batch(&ops), outcome);
        bench.device.fail_nth(0);
        let mut expected = [[0; 8]; 3];
        for (tensor, bytes) in &writes[..op] {
            let storage = tensors
                .iter()
                .position(|one| one.storage_id() == tensor.storage_id());
            expected[storage.unwrap()][1..][..bytes.len()].copy_from_slice(bytes);
        }
        assert_eq!(
            tensors.each_ref().map(bytes),
            expected.map(Vec::from),
            "{nth}"
        );

        // And the same for reads.
        Tensor::write_batch(&ops).unwrap();
        let mut buffers = writes.map(|(_, bytes)| vec![9; bytes.len()]);
        let mut reads: Vec<_> = writes
            .iter()
            .zip(&mut buffers)
            .map(|((tensor, _), buffer)| tensor.read_op(1, buffer))
            .collect();
        bench.device.fail_nth(nth);
        assert_eq!(Tensor::read_batch(&mut reads), outcome);
        let values: [&[u8]; 6] = [&[], &[4, 4, 1], &[2; 5], &[5, 3], &[4, 4], &[5]];
        for (index, (buffer, values)) in buffers.iter().zip(values).enumerate() {
            let expected = if index < op {
                values
            } else {
                &[9; 5][..values.len()]
            };
            assert_eq!(buffer, expected, "{nth}, operation {index}");
        }
        bench.device.fail_nth(0);
        assert_free(&[a, b, c]);
        assert!(bench.device.gaps_untouched());
    }
}

#[test]
fn a_batch_is_one_pair_of_events_and_a_refused_one_balances() {
    let bench = Bench::new();
    let (a, b) = (bench.host(&[0; 4]), bench.on_device(&[0; 4]));
    bench.recorder.take();
    Tensor::write_batch(&[b.write_op(0, &[1; 3]), a.write_op(0, &[1; 4])]).unwrap();
    let event = |kind, phase, tensor: &Tensor<Mixed>, bytes| {
        let storage = tensor.storage_id().unwrap().get();
        TraceEvent::instant(kind, storage, bytes).at(phase)
    };
    let (start, stop) = (TracePhase::Start, TracePhase::Stop);
    let pair = |kind, tensor, bytes| {
        [
            event(kind, start, tensor, bytes),
            event(kind, stop, tensor, bytes),
        ]
    };
    // Around the part of it that goes to a device.
    let [begins, ends] = pair(TraceKind::WriteBatch, &b, 7);
    let [into, done] = pair(TraceKind::CopyInBatch, &b, 3);
    assert_eq!(bench.recorder.take(), [begins, into, done, ends]);
    let guard = b.lend_mut().err().map(|_| a.lend_mut().unwrap());
    let (mut x, mut y) = ([0; 1], [0; 1]);
    let outcome = Tensor::read_batch(&mut [a.read_op(0, &mut x), b.read_op(0, &mut y)]);
    let storage = a.storage_id().unwrap();
    assert_eq!(outcome, refused(0, TensorError::Guarded { storage }));
    assert_eq!(bench.recorder.take(), pair(TraceKind::ReadBatch, &a, 2));
    drop(guard);
    // Refused before anything began.
    assert!(Tensor::write_batch(&[a.write_op(5, &[])]).is_err());
    assert_eq!(bench.recorder.take(), []);
    assert_eq!(
        (TraceKind::ReadBatch as u8, TraceKind::WriteBatch as u8),
        (11, 12)
    );
}

#[test]
fn hundreds_of_storages_in_any_order_take_no_memory() {
    let bench = Bench::new();
    let books = bench.target.source().clone();
    let tensors: Vec<_> = (0..200).map(|_| bench.host(&[0; 2])).collect();
    let values: Vec<u8> = (0..200).collect();
    books.refuse_nth(1);
    let op = |n: usize| tensors[n * 77 % 200].write_op(n % 2, &values[n..=n]);
    let ops: Vec<_> = (0..400).map(|n| op(n % 200)).collect();
    Tensor::write_batch(&ops).unwrap();
    assert_eq!(books.calls(), 0);
    for n in 0..200 {
        let mut expected = [0; 2];
        expected[n % 2] = values[n];
        assert_eq!(bytes(&tensors[n * 77 % 200]), expected);
    }
}

type Timed = Parts<Heap<Critical>, HeapSource, Hands>;

fn timed(bytes: &[u8]) -> Tensor<Timed> {
    let tensor = Tensor::alloc(
        &Timed::with(HeapSource, Hands, NoTrace),
        Heap::new(),
        bytes.len(),
    );
    let tensor = tensor.unwrap();
    tensor.write(0, bytes).unwrap();
    tensor
}

#[test]
fn a_batch_waits_for_one_after_the_other_and_a_deadline_frees_them_all() {
    let stream = Stream::claim().unwrap();
    for held in 0..3 {
        Hands::set(0);
        let tensors = [timed(&[1]), timed(&[2]), timed(&[3])];
        let ticket = tensors[held].begin(Access::Read, stream.id()).unwrap();
        let [a, b, c] = &tensors;
        let ops = [
            c.write_op(0, &[7]),
            a.write_op(0, &[7]),
            b.write_op(0, &[7]),
        ];
        let storage = tensors[held].storage_id().unwrap();
        let op = [1, 2, 0][held];
        let limit = Duration::from_secs(2);
        assert_eq!(
            Tensor::write_batch_within(limit, &ops),
            refused(op, TensorError::TimedOut { storage })
        );
        assert_eq!(Hands::read(), 2);
        assert_eq!(
            Tensor::try_write_batch(&ops),
            refused(op, TensorError::WouldBlock { storage })
        );
        let free = tensors.iter().filter(|tensor| tensor.try_fill(9).is_ok());
        assert_eq!(free.count(), 2);
        // The device reads; so may others.
        let (mut x, mut y) = ([0; 1], [0; 1]);
        Tensor::read_batch_within(limit, &mut [a.read_op(0, &mut x), b.read_op(0, &mut y)])
            .unwrap();
        assert_eq!((x.to_vec(), y.to_vec()), (bytes(a), bytes(b)));
        assert!(x == [9] || y == [9]);
        Hands::at(5, move || drop(ticket));
        Tensor::write_batch(&ops).unwrap();
        assert_eq!(Hands::read(), 5);
        assert_eq!(tensors.each_ref().map(bytes), [[7], [7], [7]]);
    }
    let hands = timed(&[0]);
    let zero = Duration::ZERO;
    assert_eq!(
        Tensor::write_batch_within(zero, &[hands.write_op(0, &[1])]),
        Ok(())
    );
    assert_eq!(Tensor::<Timed>::write_batch_within(zero, &[]), Ok(()));
}

#[test]
fn no_clock_and_nobody_else_are_told_and_nothing_is_held() {
    type Sketch = Parts<Heap<Unsync>, HeapSource>;
    let target = Sketch::new(HeapSource);
    let fresh = || Tensor::alloc(&target, Heap::new(), 2).unwrap();
    let (a, b) = (fresh(), fresh());
    let stream = Stream::claim().unwrap();
    let storage = b.storage_id().unwrap();
    let ops = [a.write_op(0, &[1]), b.write_op(0, &[1])];
    let outcome = Tensor::write_batch_within(Duration::MAX, &ops);
    let error = TensorError::NoClock {
        storage: a.storage_id().unwrap(),
    };
    assert_eq!(outcome, refused(0, error));
    let ticket = b.begin(Access::Read, stream.id()).unwrap();
    let error = TensorError::WouldDeadlock { storage };
    assert_eq!(Tensor::write_batch(&ops), refused(1, error));
    drop(ticket);
    assert_eq!((bytes(&a), bytes(&b)), (vec![0; 2], vec![0; 2]));
    assert_free(&[&a, &b]);
}

#[test]
fn whoever_panics_meanwhile_leaves_no_storage_taken() {
    // A sink that panics at the nth event.
    #[derive(Clone, Default)]
    struct Sink(Rc<RefCell<usize>>);
    impl TraceSink for Sink {
        fn record(&self, _: TraceEvent) {
            let mut left = self.0.borrow_mut();
            *left = left.wrapping_sub(1);
            assert!(*left != 0, "as ordered");
        }
    }
    type Told = Parts<Heap<Critical>, HeapSource, Hands, Sink>;
    let stream = Stream::claim().unwrap();
    // The start and the stop; and with somebody in the way those of the wait, and the clock.
    for (wait, order) in [
        (false, 1),
        (false, 2),
        (true, 2),
        (true, 3),
        (true, 4),
        (true, 0),
    ] {
        Hands::set(0);
        let sink = Sink::default();
        let target = Told::with(HeapSource, Hands, sink.clone());
        let fresh = || Tensor::alloc(&target, Heap::new(), 2).unwrap();
        let tensors = [fresh(), fresh(), fresh()];
        let [a, b, c] = &tensors;
        let last = tensors
            .iter()
            .max_by_key(|tensor| tensor.storage_id().unwrap().get());
        let ticket = wait.then(|| last.unwrap().begin(Access::Write, stream.id()).unwrap());
        Hands::at(1, move || {
            drop(ticket);
            assert!(order != 0, "as ordered");
        });
        *sink.0.borrow_mut() = order;
        let ops = [
            b.write_op(0, &[1]),
            a.write_op(0, &[1]),
            c.write_op(0, &[1]),
        ];
        let ended = catch_unwind(AssertUnwindSafe(|| Tensor::write_batch(&ops)));
        assert!(ended.is_err(), "{wait} {order}");
        *sink.0.borrow_mut() = 0;
        // The device goes, if it has not.
        Hands::set(0);
        assert_free(&[a, b, c]);
    }
}

#[test]
fn a_waker_that_panics_at_the_end_keeps_no_other_storage() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("as ordered");
        }
    }
    Hands::set(0);
    let stream = Stream::claim().unwrap();
    let tensors = [timed(&[1]), timed(&[2]), timed(&[3])];
    let mut sorted: Vec<_> = tensors.iter().collect();
    sorted.sort_by_key(|tensor| tensor.storage_id().unwrap().get());
    let ticket = sorted[2].begin(Access::Write, stream.id()).unwrap();
    // While the batch waits for the last one, a task comes for the first.
    let first = sorted[0].clone();
    let waiting = Rc::new(RefCell::new(None));
    let seat = waiting.clone();
    Hands::at(1, move || {
        let mut task = Box::pin(async move { first.when_ready().fill(9).await });
        let waker = Waker::from(Arc::new(Panics));
        assert!(
            task.as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        *seat.borrow_mut() = Some(task);
    });
    Hands::at(2, move || drop(ticket));
    let ops = [
        sorted[1].write_op(0, &[7]),
        sorted[0].write_op(0, &[7]),
        sorted[2].write_op(0, &[7]),
    ];
    let ended = catch_unwind(AssertUnwindSafe(|| Tensor::write_batch(&ops)));
    assert!(ended.is_err());
    waiting.take();
    for tensor in sorted {
        assert_eq!(bytes(tensor), [7]);
        tensor.try_fill(0).unwrap();
    }
}

type Awaited = Parts<Heap<Critical>, HeapSource>;

fn awaited(bytes: &[u8]) -> Tensor<Awaited> {
    let tensor = Tensor::alloc(&Awaited::new(HeapSource), Heap::new(), bytes.len()).unwrap();
    tensor.write(0, bytes).unwrap();
    tensor
}

#[test]
fn an_awaited_batch_holds_nothing_while_it_waits_and_may_be_dropped() {
    let streams = [Stream::claim().unwrap(), Stream::claim().unwrap()];
    for polls in 0..=2 {
        let (a, b) = (awaited(&[1]), awaited(&[2]));
        let mut tickets = vec![
            b.begin(Access::Write, streams[1].id()).unwrap(),
            a.begin(Access::Write, streams[0].id()).unwrap(),
        ];
        let ops = [a.write_op(0, &[8]), b.write_op(0, &[8])];
        let mut write = Task::new(Tensor::write_batch_when_ready(&ops));
        let (mut x, mut y) = ([0; 1], [0; 1]);
        let mut reads = [b.read_op(0, &mut x), a.read_op(0, &mut y)];
        let mut read = Task::new(Tensor::read_batch_when_ready(&mut reads));
        for poll in 0..polls {
            write.waits();
            read.waits();
            if poll == 1 {
                assert_eq!(bytes(&a), [1], "free, while they wait for the other one");
            }
            drop(tickets.pop());
        }
        if polls == 2 {
            // Neither has access while both are suspended; the writer has its place in the queue.
            assert!(write.woken() > 0 && read.woken() > 0);
            assert_eq!(write.done(), Ok(()));
            assert_eq!(read.done(), Ok(()));
            drop((write, read));
            assert_eq!((x, y), ([8], [8]));
            assert_eq!((bytes(&a), bytes(&b)), (vec![8], vec![8]));
        } else {
            drop((write, read, tickets));
            assert_eq!((x, y), ([0], [0]));
            assert_eq!((bytes(&a), bytes(&b)), (vec![1], vec![2]));
        }
        assert_free(&[&a, &b]);
    }
}

#[test]
fn a_batch_that_starts_over_takes_every_storage_anew() {
    let streams = [Stream::claim().unwrap(), Stream::claim().unwrap()];
    let tensors = [awaited(&[1]), awaited(&[2])];
    let [mut first, mut second] = tensors.each_ref();
    if first.storage_id().unwrap().get() > second.storage_id().unwrap().get() {
        (first, second) = (second, first);
    }
    let ops = [second.write_op(0, &[8]), first.write_op(0, &[8])];
    let mut write = Task::new(Tensor::write_batch_when_ready(&ops));
    let ticket = second.begin(Access::Read, streams[0].id()).unwrap();
    write.waits();
    // It had the first one, and gave it back; now that one is taken, while the second comes free.
    let other = first.begin(Access::Read, streams[1].id()).unwrap();
    drop(ticket);
    write.waits();
    assert_eq!(second.try_write(0, &[3]), Ok(()), "given back");
    drop(other);
    assert_eq!(write.done(), Ok(()));
    drop(write);
    assert_eq!((bytes(first), bytes(second)), (vec![8], vec![8]));
    assert_free(&[first, second]);
}

#[test]
fn awaited_batches_are_traced_and_both_kinds_are_checked() {
    let bench = Bench::new();
    let tensor = bench.host(&[1, 2, 3]);
    bench.recorder.take();
    let mut bytes = [9; 4];
    let bounds = TensorError::OutOfBounds {
        offset: 0,
        len: 4,
        size: 3,
    };
    {
        let mut ops = [tensor.read_op(0, &mut bytes)];
        let mut task = Task::new(Tensor::read_batch_when_ready(&mut ops));
        assert_eq!(task.done(), refused(0, bounds));
    }
    assert_eq!(bench.recorder.take(), []);
    {
        let ops = [tensor.write_op(0, &[4])];
        let mut task = Task::new(Tensor::write_batch_when_ready(&ops));
        assert_eq!(task.done(), Ok(()));
    }
    {
        let mut ops = [tensor.read_op(0, &mut bytes[..2])];
        let mut task = Task::new(Tensor::read_batch_when_ready(&mut ops));
        assert_eq!(task.done(), Ok(()));
    }
    assert_eq!(bytes, [4, 2, 9, 9]);
    use TracePhase::{Start, Stop};
    let story =
        [TraceKind::WriteBatch, TraceKind::ReadBatch].map(|kind| [(kind, Start), (kind, Stop)]);
    assert_eq!(bench.recorder.story(), story.concat());
}

#[test]
fn awaited_batches_are_checked_first_and_refused_by_guards() {
    let (a, b) = (awaited(&[1]), awaited(&[2]));
    let bad = [a.write_op(0, &[8]), b.write_op(2, &[])];
    let bounds = TensorError::OutOfBounds {
        offset: 2,
        len: 0,
        size: 1,
    };
    let mut task = Task::new(Tensor::write_batch_when_ready(&bad));
    assert_eq!(task.done(), refused(1, bounds));
    drop(task);
    let guard = b.lend().unwrap();
    let ops = [a.write_op(0, &[8]), b.write_op(0, &[8])];
    let storage = b.storage_id().unwrap();
    let mut task = Task::new(Tensor::write_batch_when_ready(&ops));
    assert_eq!(task.done(), refused(1, TensorError::Guarded { storage }));
    drop((task, guard));
    assert_eq!((bytes(&a), bytes(&b)), (vec![1], vec![2]));
    assert_free(&[&a, &b]);
}

#[test]
fn what_went_wrong_reads_well() {
    let partial = BatchError::Partial {
        op: 3,
        bytes: 128,
        error: TransferError::Closed,
    };
    assert_eq!(
        partial.to_string(),
        "operation 3, after 128 bytes had moved: the device is closed"
    );
    let refused = BatchError::Refused {
        op: 1,
        error: TensorError::NoStorage,
    };
    assert_eq!(refused.to_string(), "operation 1: the tensor is empty");
    let bench = Bench::new();
    let tensor = bench.host(&[1, 2]);
    let op = format!("{:?}", tensor.write_op(1, &[2]));
    assert!(op.contains("offset: 1") && op.contains("len: 1"), "{op}");
}

#[test]
fn batches_of_hosted_targets_may_be_awaited_on_any_thread() {
    fn sent<T: Send>(_: &T) {}
    let bench = Bench::new();
    let tensor = bench.host(&[1, 2]);
    let mut byte = [0];
    let ops = [tensor.write_op(0, &[3])];
    sent(&Tensor::write_batch_when_ready(&ops));
    let mut ops = [tensor.read_op(1, &mut byte)];
    sent(&ops);
    sent(&Tensor::read_batch_when_ready(&mut ops));
}
