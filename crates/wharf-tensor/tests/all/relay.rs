//! Copies between two devices that do not reach each other, by their engines and through memory of the host: two test
//! engines that work one step whenever somebody waits. Here is their bench, and the copies that block.

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::Poll;

mod awaited;
mod lines;

use crate::common::hands::Hands;
use crate::common::tasks::Task;
use crate::common::{Books, Device};
use wharf_backend::{
    AllocError, AllocHint, Caps, Census, Header, Heap, IoDirection, MemBackend, Place,
};
use wharf_engine::{Command, DescriptorQueue, Fault, KernelFault, Operand, Stream, SubmitError};
use wharf_sync::Critical;
use wharf_tensor::{
    Access, CopyError, CopyFault, LaunchError, NoTrace, Parts, Tensor, TensorError, Tickets,
    WaitError,
};

type Memory = Arc<dyn MemBackend<Policy = Critical> + Send + Sync>;
type Mixed = Parts<Memory, Arc<Books>, Hands>;

/// An engine that reaches its device and the host.
struct Mover {
    device: Arc<Device<Critical>>,
    queue: DescriptorQueue<Critical, Tickets<Mixed>, 4>,
    stream: Stream,
    jobs: Cell<usize>,
    /// The job that fails, from one.
    fails: Cell<usize>,
}

const FAULT: Fault = Fault::Kernel(KernelFault(77));

impl Mover {
    fn new(device: &Arc<Device<Critical>>) -> Rc<Self> {
        Rc::new(Self {
            device: device.clone(),
            queue: DescriptorQueue::new(),
            stream: Stream::claim().unwrap(),
            jobs: Cell::new(0),
            fails: Cell::new(0),
        })
    }
    fn take(&self, operand: &Operand) -> Vec<u8> {
        match operand.place {
            Place::Device(address) => self.device.peek(address, operand.len),
            Place::Host(base) => {
                // SAFETY: whoever submitted promised that the operand is valid and unshared until the job lands.
                unsafe { std::slice::from_raw_parts(base.as_ptr(), operand.len) }.to_vec()
            }
        }
    }
    fn put(&self, operand: &Operand, bytes: &[u8]) {
        match operand.place {
            Place::Device(address) => self.device.poke(address, bytes),
            // SAFETY: as in `take`.
            Place::Host(base) => unsafe {
                std::slice::from_raw_parts_mut(base.as_ptr(), operand.len).copy_from_slice(bytes);
            },
        }
    }
    /// Carries out the next copy.
    fn step(&self) {
        let Some(job) = self.queue.next() else {
            return;
        };
        self.jobs.set(self.jobs.get() + 1);
        let outcome = if self.jobs.get() == self.fails.get() {
            Err(FAULT)
        } else {
            let [from, to] = job.descriptor().operands() else {
                panic!("no copy");
            };
            assert!(matches!(job.descriptor().command(), Command::Copy));
            self.put(to, &self.take(from));
            Ok(())
        };
        job.finish(outcome);
    }
}

// SAFETY: operands are touched in `step` only, while their job exists; the stream is claimed.
unsafe_engine! { [] Mover, Mixed }

/// Two devices, an engine for each, and a source and a destination in the middle of more.
struct Bench {
    devices: [Arc<Device<Critical>>; 2],
    engines: [Rc<Mover>; 2],
    target: Mixed,
    source: Tensor<Mixed>,
    destination: Tensor<Mixed>,
    around: [Tensor<Mixed>; 2],
}

const BESIDE: u8 = 0xAA;

fn ramp(len: usize) -> Vec<u8> {
    (1..=len).map(|n| u8::try_from(n % 251).unwrap()).collect()
}

impl Bench {
    fn new(len: usize) -> Self {
        Hands::set(0);
        let devices = [Arc::new(Device::new()), Arc::new(Device::new())];
        let engines = devices.each_ref().map(Mover::new);
        let target = Mixed::with(Arc::default(), Hands, NoTrace);
        let around = devices.each_ref().map(|device| {
            let memory: Memory = device.clone();
            let tensor = Tensor::alloc(&target, memory.clone(), len + 6).unwrap();
            tensor.fill(BESIDE).unwrap();
            tensor
        });
        let window = |tensor: &Tensor<Mixed>| tensor.slice(3..3 + len).unwrap();
        let (source, destination) = (window(&around[0]), window(&around[1]));
        source.write(0, &ramp(len)).unwrap();
        Self {
            devices,
            engines,
            target,
            source,
            destination,
            around,
        }
    }
    fn bounce(&self, len: usize) -> Tensor<Mixed> {
        let memory: Memory = Arc::new(Heap::new());
        Tensor::alloc(&self.target, memory.clone(), len).unwrap()
    }
    /// From now on a second passes with one step, of the engines by turns.
    fn run(&self) {
        for when in 1..=2000 {
            let engine = self.engines[when % 2].clone();
            Hands::at(Hands::read() + when as u64, move || engine.step());
        }
    }
    fn copy(&self, bounce: &Tensor<Mixed>) -> Result<(), CopyError> {
        let [reader, writer] = &self.engines;
        self.destination
            .copy_through(&self.source, bounce, &**reader, &**writer)
    }
    /// What the destination holds with its surroundings, if `done` bytes have arrived.
    fn assert_arrived(&self, done: usize) {
        let len = self.source.len();
        let mut bytes = vec![0; len + 6];
        self.around[1].try_read(0, &mut bytes).unwrap();
        let mut expected = vec![BESIDE; len + 6];
        expected[3..3 + done].copy_from_slice(&ramp(done));
        assert_eq!(bytes, expected);
        assert!(self.devices.iter().all(|device| device.gaps_untouched()));
        let idle = |engine: &Rc<Mover>| engine.queue.in_use() == 0;
        assert!(self.engines.iter().all(idle), "nothing is under way");
        assert_eq!(self.around[0].try_fill(0), Ok(()), "nobody has the source");
    }
}

/// The same copy as a task.
fn awaited<'b>(bench: &'b Bench, bounce: &'b Tensor<Mixed>) -> Task<'b, Result<(), CopyError>> {
    let [reader, writer] = &bench.engines;
    let copy =
        bench
            .destination
            .copy_through_when_ready(&bench.source, bounce, &**reader, &**writer);
    Task::new(copy)
}

/// Polls, and steps the engines by turns in between, until it is ready; how often it was pending.
fn steps(
    bench: &Bench,
    task: &mut Task<'_, Result<(), CopyError>>,
) -> (usize, Result<(), CopyError>) {
    for pending in 0.. {
        if let Poll::Ready(copied) = task.poll() {
            return (pending, copied);
        }
        assert!(pending < 1000, "it gets nowhere");
        bench.engines[pending % 2].step();
    }
    unreachable!()
}

#[test]
fn bytes_arrive_whole_through_a_bounce_of_any_size() {
    for len in [0, 1, 7, 8, 9, 40] {
        for size in [1, 2, 3, 8, 16, 100] {
            let bench = Bench::new(len);
            let bounce = bench.bounce(size);
            bench.run();
            assert_eq!(bench.copy(&bounce), Ok(()), "{len} through {size}");
            bench.assert_arrived(len);
            assert_eq!(bounce.try_fill(0), Ok(()), "whole again");
            let half = if size < 2 { size } else { size / 2 };
            let pieces = len.div_ceil(half);
            let jobs = bench.engines.each_ref().map(|engine| engine.jobs.get());
            assert_eq!(jobs, [pieces; 2], "{len} through {size}");
        }
    }
}

#[test]
fn a_bounce_is_nobody_elses_meanwhile_also_where_it_cannot_be_cut() {
    for size in [1, 2, 3] {
        let bench = Bench::new(6);
        let bounce = bench.bounce(size);
        for when in 1..=100 {
            let (engine, bounce) = (bench.engines[when % 2].clone(), bounce.clone());
            Hands::at(when as u64, move || {
                engine.step();
                let storage = bounce.storage_id().unwrap();
                assert_eq!(bounce.try_fill(BESIDE), Err(TensorError::Split { storage }));
            });
        }
        assert_eq!(bench.copy(&bounce), Ok(()), "through {size}");
        bench.assert_arrived(6);

        // Also the awaited one.
        let bench = Bench::new(6);
        let bounce = bench.bounce(size);
        let mut copy = awaited(&bench, &bounce);
        for step in 0..5 {
            copy.waits();
            bench.engines[step % 2].step();
            let storage = bounce.storage_id().unwrap();
            assert_eq!(bounce.try_fill(BESIDE), Err(TensorError::Split { storage }));
        }
        assert_eq!(steps(&bench, &mut copy).1, Ok(()));
        drop(copy);
        bench.assert_arrived(6);
        assert_eq!(bounce.try_fill(0), Ok(()), "whole again");
    }
}

#[test]
fn one_engine_takes_up_while_the_other_sets_down_and_nobody_comes_between() {
    let bench = Bench::new(12);
    let bounce = bench.bounce(4);
    let seen = Rc::new(RefCell::new(Vec::new()));
    for when in 1..=100 {
        let (engines, seen) = (bench.engines.clone(), seen.clone());
        let (source, destination) = (bench.source.clone(), bench.destination.clone());
        Hands::at(when, move || {
            if engines.iter().all(|engine| engine.queue.in_flight() == 0) {
                return;
            }
            let flying = engines.each_ref().map(|engine| engine.queue.in_flight());
            seen.borrow_mut().push(flying);
            let storage = source.storage_id().unwrap();
            let taken = Err(TensorError::WouldBlock { storage });
            assert_eq!(source.try_write(0, &[0]), taken);
            assert_eq!(source.try_read(0, &mut [0]), Ok(()));
            let storage = destination.storage_id().unwrap();
            let taken = Err(TensorError::WouldBlock { storage });
            assert_eq!(destination.try_read(0, &mut [0]), taken);
            // The slower one is what the other waits for.
            if engines[0].queue.in_flight() > 0 {
                engines[0].step();
            } else {
                engines[1].step();
            }
        });
    }
    assert_eq!(bench.copy(&bounce), Ok(()));
    bench.assert_arrived(12);
    // Six pieces of two: the first is taken up alone, the last is set down alone, and all between are both.
    let mut expected = vec![[1, 0]];
    expected.extend([[1, 1], [0, 1]].repeat(5));
    expected.push([0, 1]);
    assert_eq!(*seen.borrow(), expected);
}

#[test]
fn the_storage_at_the_lower_address_is_waited_for_first_and_the_other_is_not_held_meanwhile() {
    for back in [false, true] {
        let bench = Bench::new(4);
        let bounce = bench.bounce(4);
        let ends = [bench.source.clone(), bench.destination.clone()];
        let mut engines = bench.engines.clone();
        let [mut from, mut to] = ends.clone();
        if back {
            core::mem::swap(&mut from, &mut to);
            engines.reverse();
        }
        let mut ordered = ends;
        ordered.sort_by_key(|end| end.storage_id().unwrap().get());
        let [first, second] = ordered;
        let other = Stream::claim().unwrap();
        let hold = |end: &Tensor<Mixed>| end.begin(Access::Write, other.id()).unwrap();
        let (first_held, second_held) = (hold(&first), hold(&second));
        Hands::at(1, move || drop(second_held));
        Hands::at(2, move || assert_eq!(second.try_write(0, &[]), Ok(())));
        Hands::at(3, move || drop(first_held));
        for when in 4..=100 {
            let engine = engines[when % 2].clone();
            Hands::at(when as u64, move || engine.step());
        }
        let [reader, writer] = &engines;
        let copied = to.copy_through(&from, &bounce, &**reader, &**writer);
        assert_eq!(copied, Ok(()));
    }
}

/// Somebody who waits to write a tensor that a copy has, and so for that copy.
fn waits_to_write(end: &Tensor<Mixed>) -> Task<'static, Result<(), TensorError>> {
    let end = end.clone();
    let mut task = Task::new(async move { end.when_ready().fill(7).await });
    task.waits();
    task
}

#[test]
fn a_copy_does_not_wait_for_writers_that_wait_for_it() {
    for writes_source in [true, false] {
        for when in 1..=6 {
            let bench = Bench::new(12);
            let bounce = bench.bounce(4);
            bench.run();
            let end = if writes_source {
                &bench.source
            } else {
                &bench.destination
            };
            let waiting = Rc::new(RefCell::new(None));
            let (waits, there) = (waiting.clone(), end.clone());
            Hands::at(when, move || {
                *waits.borrow_mut() = Some(waits_to_write(&there));
            });
            assert_eq!(bench.copy(&bounce), Ok(()));
            let mut task = waiting.take().unwrap();
            assert_eq!(task.done(), Ok(()));

            // Nor does the awaited one.
            let bench = Bench::new(12);
            let bounce = bench.bounce(4);
            let mut copy = awaited(&bench, &bounce);
            for step in 0..when {
                copy.waits();
                bench.engines[usize::try_from(step).unwrap() % 2].step();
            }
            let mut task = waits_to_write(if writes_source {
                &bench.source
            } else {
                &bench.destination
            });
            assert_eq!(steps(&bench, &mut copy).1, Ok(()));
            drop(copy);
            assert_eq!(task.done(), Ok(()));
        }
    }
}

#[test]
fn nothing_is_copied_through_nothing() {
    let bench = Bench::new(0);
    assert_eq!(bench.copy(&bench.bounce(0)), Ok(()));
    let bench = Bench::new(1);
    let refused = CopyError {
        done: 0,
        len: 1,
        cause: CopyFault::Tensor(TensorError::OutOfBounds {
            offset: 0,
            len: 1,
            size: 0,
        }),
    };
    assert_eq!(bench.copy(&bench.bounce(0)), Err(refused));
}

#[test]
fn an_engine_that_fails_says_how_much_has_arrived() {
    for engine in 0..2 {
        for nth in 1..=4 {
            let bench = Bench::new(10);
            bench.engines[engine].fails.set(nth);
            let bounce = bench.bounce(6);
            bench.run();
            let done = 3 * (nth - 1);
            let failed = CopyError {
                done,
                len: 10,
                cause: CopyFault::Wait(WaitError::Fault(FAULT)),
            };
            assert_eq!(bench.copy(&bounce), Err(failed), "{engine} {nth}");
            bench.assert_arrived(done);
            assert_eq!(bounce.try_fill(0), Ok(()));
        }
    }
    assert_eq!(
        CopyError {
            done: 3,
            len: 10,
            cause: CopyFault::Tensor(TensorError::NoStorage),
        }
        .to_string(),
        "3 of 10 bytes were copied: the tensor is empty"
    );
}

#[test]
fn an_engine_that_closes_says_how_much_has_arrived() {
    for engine in 0..2 {
        let bench = Bench::new(10);
        let bounce = bench.bounce(4);
        bench.run();
        let closes = bench.engines[engine].clone();
        // Odd seconds are the writer's.
        Hands::at(6, move || closes.queue.close());
        let CopyError { done, len, cause } = bench.copy(&bounce).unwrap_err();
        assert_eq!(
            cause,
            CopyFault::Launch(LaunchError::Submit(SubmitError::Closed))
        );
        assert_eq!(len, 10);
        assert!(0 < done && done < 10, "{done}");
        bench.assert_arrived(done);
        assert_eq!(bounce.try_fill(0), Ok(()));
    }
}

#[test]
fn what_does_not_fit_is_told_before_anything_moves() {
    let bench = Bench::new(8);
    let [reader, writer] = bench.engines.each_ref().map(|engine| &**engine);
    let bounce = bench.bounce(4);
    let storage = |tensor: &Tensor<Mixed>| tensor.storage_id().unwrap();
    let copy = |to: &Tensor<Mixed>, from: &Tensor<Mixed>, bounce: &Tensor<Mixed>| {
        let refused = to.copy_through(from, bounce, reader, writer).unwrap_err();
        assert_eq!((refused.done, refused.len), (0, to.len()));
        refused.cause
    };
    let (to, from) = (&bench.destination, &bench.source);
    let mismatch = TensorError::LengthMismatch {
        destination: 8,
        source: 7,
    };
    assert_eq!(
        copy(to, &from.slice(1..).unwrap(), &bounce),
        CopyFault::Tensor(mismatch)
    );
    let (low, high) = (from.slice(..4).unwrap(), from.slice(4..).unwrap());
    assert_eq!(
        copy(&low, &high, &bounce),
        CopyFault::SameStorage {
            storage: storage(from)
        }
    );
    let empty = Tensor::empty();
    let none = CopyFault::Tensor(TensorError::NoStorage);
    assert_eq!(copy(&empty, &empty, &bounce), none);
    assert_eq!(copy(to, from, &empty), none);
    let bounds = TensorError::OutOfBounds {
        offset: 0,
        len: 1,
        size: 0,
    };
    assert_eq!(
        copy(to, from, &bounce.slice(..0).unwrap()),
        CopyFault::Tensor(bounds)
    );
    let guard = bounce.lend().unwrap();
    let guarded = TensorError::Guarded {
        storage: storage(&bounce),
    };
    assert_eq!(copy(to, from, &bounce), CopyFault::Tensor(guarded));
    drop(guard);
    // A bounce of any size in the storage of an operand: the copy would wait for itself.
    for (operand, whole) in [from, to].into_iter().zip(&bench.around) {
        for size in [1, 3] {
            let bounce = whole.slice(..size).unwrap();
            let storage = storage(operand);
            assert_eq!(copy(to, from, &bounce), CopyFault::SameStorage { storage });
        }
    }
    let nothing = Tensor::placeholder(&bench.target, 4).unwrap();
    assert!(matches!(
        copy(to, from, &nothing),
        CopyFault::Launch(LaunchError::Operand {
            operand: 1,
            error: TensorError::Placeholder { .. }
        })
    ));
    bench.assert_arrived(0);
}
