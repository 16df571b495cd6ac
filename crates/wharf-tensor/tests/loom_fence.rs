//! The fence under every interleaving (within the bounds below) of the threads that pass it.
//!
//! The bytes are in a loom cell: an access beside a write, or one that a write does not happen before, fails the
//! model, also where the values would come out right. A wait that nobody ends is a deadlock, and fails it too.

use std::ptr::NonNull;
use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use wharf_backend::{
    AllocError, AllocHint, Caps, Census, DeviceAddress, Header, MemBackend, MemSpace, Place,
    TransferError,
};
use wharf_engine::{Command, DescriptorQueue, Engine, Stream, StreamId};
use wharf_source::HeapSource;
use wharf_sync::{Event, Loom, SyncPolicy};
use wharf_tensor::{Access, Launch, Parts, Tensor, TensorError, Tickets};

/// One segment of two bytes of device memory.
struct Cell {
    bytes: UnsafeCell<[u8; 2]>,
    reclaimed: AtomicUsize,
}

// SAFETY: loom's cell checks every access against every other.
unsafe impl Sync for Cell {}
// SAFETY: plain bytes.
unsafe impl Send for Cell {}

// SAFETY: it vends one segment per value, whose header is a box.
unsafe impl MemBackend for Cell {
    type Policy = Loom;
    fn vend(&self, size: usize, _: AllocHint) -> Option<NonNull<Header<Loom>>> {
        assert_eq!(size, 2);
        Some(NonNull::from(Box::leak(Box::new(Header::new(size)))))
    }
    fn refusal(&self, _: usize, _: AllocHint) -> AllocError {
        AllocError::Unsupported
    }
    unsafe fn reclaim(&self, header: NonNull<Header<Loom>>) {
        self.reclaimed.fetch_add(1, Ordering::Relaxed);
        // Whoever frees has seen every access of those who had it before.
        self.bytes.with_mut(|_| ());
        // SAFETY: `vend` leaked this box, and nobody has it any more.
        drop(unsafe { Box::from_raw(header.as_ptr()) });
    }
    unsafe fn place(&self, _: NonNull<Header<Loom>>) -> Place {
        Place::Device(DeviceAddress::new(0))
    }
    fn may_own(&self, _: NonNull<Header<Loom>>) -> bool {
        true
    }
    fn caps(&self) -> Caps {
        Caps::OWNS_BYTES | Caps::VENDS_INITIALISED | Caps::ENGINE_ADDRESSED
    }
    fn space(&self) -> MemSpace {
        MemSpace::Device
    }
    fn alignment(&self) -> usize {
        1
    }
    fn max_segment_size(&self) -> usize {
        2
    }
    fn census(&self) -> Census {
        Census::NOTHING
    }
    fn name(&self) -> &'static str {
        "cell"
    }
    unsafe fn copy_in(
        &self,
        _: NonNull<Header<Loom>>,
        offset: usize,
        source: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        self.bytes.with_mut(|bytes| {
            // SAFETY: loom has checked that nobody else is at the cell; the caller lends `len` bytes.
            unsafe {
                (&mut *bytes)[offset..offset + len]
                    .copy_from_slice(std::slice::from_raw_parts(source.as_ptr(), len));
            }
        });
        Ok(())
    }
    unsafe fn copy_out(
        &self,
        _: NonNull<Header<Loom>>,
        offset: usize,
        destination: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        self.bytes.with(|bytes| {
            // SAFETY: loom has checked that nobody writes the cell; the caller lends `len` bytes.
            unsafe {
                std::slice::from_raw_parts_mut(destination.as_ptr(), len)
                    .copy_from_slice(&(&*bytes)[offset..offset + len]);
            }
        });
        Ok(())
    }
}

impl Cell {
    /// What a device does that holds a ticket to write.
    fn device_writes(&self, value: u8) {
        // SAFETY: loom has checked that nobody else is at the cell.
        self.bytes.with_mut(|bytes| unsafe { *bytes = [value; 2] });
    }
    /// What a device does that holds a ticket to read.
    fn device_reads(&self) -> [u8; 2] {
        // SAFETY: loom has checked that nobody writes the cell.
        self.bytes.with(|bytes| unsafe { *bytes })
    }
}

type Model = Parts<Arc<Cell>, HeapSource>;

/// Fresh bytes, and a tensor over them.
fn fresh() -> (Arc<Cell>, Tensor<Model>) {
    let cell = Arc::new(Cell {
        bytes: UnsafeCell::new([0; 2]),
        reclaimed: AtomicUsize::new(0),
    });
    let tensor = Tensor::alloc(&Model::new(HeapSource), cell.clone(), 2).unwrap();
    (cell, tensor)
}

fn read(tensor: &Tensor<Model>) -> [u8; 2] {
    let mut bytes = [0; 2];
    tensor.read(0, &mut bytes).unwrap();
    bytes
}

/// One of these values in both bytes: nobody saw a half of a write.
fn assert_whole(bytes: [u8; 2], values: &[u8]) {
    assert!(
        bytes[0] == bytes[1] && values.contains(&bytes[0]),
        "{bytes:?}"
    );
}

/// Explores `model`; beyond so many preemptions a thread runs on until it waits.
fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Two streams for the whole test; a model may begin with them as often as it likes.
fn streams() -> (Stream, Stream) {
    (Stream::claim().unwrap(), Stream::claim().unwrap())
}

/// A device access that is tried once, with what the device does meanwhile.
fn device<R>(
    tensor: &Tensor<Model>,
    access: Access,
    stream: StreamId,
    work: impl FnOnce() -> R,
) -> Option<R> {
    match tensor.begin(access, stream) {
        Ok(ticket) => {
            let done = work();
            drop(ticket);
            Some(done)
        }
        Err(TensorError::WouldBlock { .. }) => None,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_host_writer_and_a_device_never_meet() {
    let (stream, _other) = streams();
    let id = stream.id();
    explore(3, move || {
        let (cell, tensor) = fresh();
        let (memory, shared) = (cell.clone(), tensor.clone());
        let device = thread::spawn(move || {
            device(&shared, Access::Write, id, || memory.device_writes(2));
            device(&shared, Access::Read, id, || {
                assert_whole(memory.device_reads(), &[0, 1, 2]);
            });
        });
        tensor.write(0, &[1; 2]).unwrap();
        assert_whole(read(&tensor), &[1, 2]);
        device.join().unwrap();
        assert_eq!(tensor.in_flight(), (0, 0));
    });
}

#[test]
fn a_blocked_host_wakes_when_the_ticket_is_dropped_elsewhere() {
    let (stream, _other) = streams();
    let id = stream.id();
    for access in [Access::Read, Access::Write] {
        explore(4, move || {
            let (cell, tensor) = fresh();
            let ticket = tensor.begin(access, id).unwrap();
            let device = thread::spawn(move || {
                if access == Access::Write {
                    cell.device_writes(2);
                }
                drop(ticket);
            });
            if access == Access::Write {
                assert_eq!(read(&tensor), [2; 2]);
            }
            tensor.write(0, &[1; 2]).unwrap();
            assert_eq!(read(&tensor), [1; 2]);
            device.join().unwrap();
        });
    }
}

#[test]
fn two_writers_and_a_reader_take_turns() {
    explore(2, || {
        let (_cell, tensor) = fresh();
        let writer = |value: u8| {
            let tensor = tensor.clone();
            thread::spawn(move || tensor.write(0, &[value; 2]).unwrap())
        };
        let writers = [writer(1), writer(2)];
        assert_whole(read(&tensor), &[0, 1, 2]);
        for writer in writers {
            writer.join().unwrap();
        }
        assert_whole(read(&tensor), &[1, 2]);
        assert_eq!(
            tensor.try_write(0, &[3; 2]),
            Ok(()),
            "nobody is left in the queue"
        );
    });
}

#[test]
fn two_writers_wait_for_one_device_and_both_are_served() {
    let (stream, _other) = streams();
    let id = stream.id();
    explore(2, move || {
        let (cell, tensor) = fresh();
        let ticket = tensor.begin(Access::Read, id).unwrap();
        let shared = tensor.clone();
        let writer = thread::spawn(move || shared.write(0, &[1; 2]).unwrap());
        let device = thread::spawn(move || {
            assert_eq!(cell.device_reads(), [0; 2]);
            drop(ticket);
        });
        tensor.write(0, &[2; 2]).unwrap();
        writer.join().unwrap();
        device.join().unwrap();
        assert_eq!(tensor.try_write(0, &[3; 2]), Ok(()));
    });
}

#[test]
fn readers_queue_behind_a_pending_writer_and_are_served() {
    let (stream, _other) = streams();
    let id = stream.id();
    explore(2, move || {
        let (cell, tensor) = fresh();
        let ticket = tensor.begin(Access::Read, id).unwrap();
        let shared = tensor.clone();
        let writer = thread::spawn(move || shared.write(0, &[1; 2]).unwrap());
        let (memory, shared) = (cell.clone(), tensor.clone());
        let reader = thread::spawn(move || assert_whole(read(&shared), &[0, 1]));
        assert_eq!(memory.device_reads(), [0; 2]);
        drop(ticket);
        writer.join().unwrap();
        reader.join().unwrap();
        assert_eq!(read(&tensor), [1; 2]);
    });
}

#[test]
fn devices_of_two_streams_meet_only_to_read() {
    let (one, two) = streams();
    let ids = (one.id(), two.id());
    explore(3, move || {
        let (cell, tensor) = fresh();
        let (memory, shared) = (cell.clone(), tensor.clone());
        let other = thread::spawn(move || {
            device(&shared, Access::Read, ids.1, || {
                assert_whole(memory.device_reads(), &[0, 1]);
            });
            device(&shared, Access::Write, ids.1, || memory.device_writes(2));
        });
        device(&tensor, Access::Write, ids.0, || cell.device_writes(1));
        device(&tensor, Access::Read, ids.0, || {
            assert_whole(cell.device_reads(), &[0, 1, 2]);
        });
        other.join().unwrap();
        assert_eq!(tensor.in_flight(), (0, 0));
    });
}

#[test]
fn copies_the_opposite_way_do_not_wait_for_each_other_in_a_circle() {
    explore(3, || {
        let (_, left) = fresh();
        let (_, right) = fresh();
        left.write(0, &[1; 2]).unwrap();
        right.write(0, &[2; 2]).unwrap();
        let (a, b) = (left.clone(), right.clone());
        let other = thread::spawn(move || a.copy_from(&b).unwrap());
        right.copy_from(&left).unwrap();
        other.join().unwrap();
        let (left, right) = (read(&left), read(&right));
        assert_eq!(
            left, right,
            "whoever was second copied what the first had made"
        );
        assert_whole(left, &[1, 2]);
    });
}

#[test]
fn the_last_handle_frees_once_whichever_it_is() {
    let (stream, _other) = streams();
    let id = stream.id();
    explore(4, move || {
        let (cell, tensor) = fresh();
        let ticket = tensor.begin(Access::Write, id).unwrap();
        let memory = cell.clone();
        let device = thread::spawn(move || {
            memory.device_writes(1);
            drop(ticket);
        });
        let slice = tensor.slice(..1).unwrap();
        drop(tensor);
        drop(slice);
        device.join().unwrap();
        assert_eq!(cell.reclaimed.load(Ordering::Relaxed), 1);
        // The backend is held by nobody else.
        assert_eq!(Arc::strong_count(&cell), 1);
    });
}

/// A queue that another thread serves.
struct Served {
    queue: DescriptorQueue<Loom, Tickets<Model>, 2>,
    stream: StreamId,
}

// SAFETY: the model touches the bytes between `next` and `finish` alone; the stream is the test's own.
unsafe impl Engine for Served {
    type Policy = Loom;
    type Cargo = Tickets<Model>;
    fn stream(&self) -> StreamId {
        self.stream
    }
    unsafe fn submit(
        &self,
        descriptor: wharf_engine::Descriptor,
        cargo: Tickets<Model>,
    ) -> Result<
        wharf_engine::Sequence,
        wharf_engine::Returned<Tickets<Model>, wharf_engine::SubmitError>,
    > {
        self.queue.push(descriptor, cargo)
    }
    fn poll(
        &self,
        sequence: wharf_engine::Sequence,
        waker: Option<&std::task::Waker>,
    ) -> std::task::Poll<Option<wharf_engine::Completion<Tickets<Model>>>> {
        self.queue.poll(sequence, waker)
    }
    fn detach(&self, sequence: wharf_engine::Sequence) {
        self.queue.detach(sequence);
    }
    fn abort(&self, sequence: wharf_engine::Sequence) {
        self.queue.abort(sequence);
    }
    fn completed(&self) -> &<Loom as SyncPolicy>::Event {
        self.queue.completed()
    }
}

#[test]
fn a_submission_wakes_who_waits_for_it_and_lets_the_tensor_go() {
    let (stream, _other) = streams();
    let id = stream.id();
    explore(2, move || {
        let (cell, tensor) = fresh();
        let engine = loom::sync::Arc::new(Served {
            queue: DescriptorQueue::new(),
            stream: id,
        });
        let served = engine.clone();
        let worker = thread::spawn(move || {
            loop {
                let seen = served.queue.submitted().epoch();
                if let Some(job) = served.queue.next() {
                    cell.device_writes(5);
                    job.finish(Ok(()));
                    break;
                }
                served
                    .queue
                    .submitted()
                    .wait(seen, &wharf_sync::NoClock, None);
            }
        });
        let submission = engine.launch(Command::Fill(5), &[tensor.output()]).unwrap();
        submission.wait().unwrap();
        assert_eq!(tensor.in_flight(), (0, 0));
        assert_eq!(read(&tensor), [5; 2]);
        worker.join().unwrap();
    });
}
