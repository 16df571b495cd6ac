//! Cache maintenance: host memory that the CPU sees through a cache and the device does not. The CPU's bytes and
//! the memory's are two copies here, which only the hooks bring together: a hook too few, too many or in the wrong
//! order makes wrong bytes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::common::Books;
use wharf_backend::{
    AllocError, AllocHint, Caps, Census, Header, Heap, IoDirection, MemBackend, Place,
};
use wharf_engine::{
    Command, DescriptorQueue, Fault, KernelFault, Lent, Operand, Stream, SubmitError,
};
use wharf_sync::Unsync;
use wharf_tensor::{Access, Launch, LaunchError, Parts, Tensor, TensorError, Tickets, WaitError};

/// One call of a hook: before or after, where, how long, which way.
type HookCall = (&'static str, usize, usize, IoDirection);
const TO: IoDirection = IoDirection::CpuToDevice;
const FROM: IoDirection = IoDirection::DeviceToCpu;

/// The heap, seen by the CPU through a cache.
struct Cached {
    heap: Heap<Unsync>,
    /// What is in the memory, by the address of the CPU's first byte.
    memory: RefCell<BTreeMap<usize, Vec<u8>>>,
    calls: RefCell<Vec<HookCall>>,
}

impl Cached {
    /// The bytes of a live segment as the CPU sees them, and the key of what is in the memory.
    ///
    /// # Safety
    /// `header` is live; nobody writes the range, nor reads it if the caller is going to write.
    unsafe fn cpu(
        &self,
        header: NonNull<Header<Unsync>>,
        offset: usize,
        len: usize,
    ) -> (usize, NonNull<[u8]>) {
        // SAFETY: a live header.
        let Place::Host(base) = (unsafe { self.heap.place(header) }) else {
            unreachable!("the heap is host memory")
        };
        // SAFETY: the range lies in the segment.
        let first = unsafe { base.add(offset) };
        (base.addr().get(), NonNull::slice_from_raw_parts(first, len))
    }

    fn take_calls(&self) -> Vec<HookCall> {
        self.calls.take()
    }
}

// SAFETY: the heap's segments; the hooks touch only the range that they are called for.
unsafe impl MemBackend for Cached {
    type Policy = Unsync;
    fn vend(&self, size: usize, hint: AllocHint) -> Option<NonNull<Header<Unsync>>> {
        let header = self.heap.vend(size, hint)?;
        // SAFETY: a live header, and no bytes.
        let (key, _) = unsafe { self.cpu(header, 0, 0) };
        self.memory.borrow_mut().insert(key, vec![0xEE; size]);
        Some(header)
    }
    fn refusal(&self, size: usize, hint: AllocHint) -> AllocError {
        self.heap.refusal(size, hint)
    }
    unsafe fn reclaim(&self, header: NonNull<Header<Unsync>>) {
        // SAFETY: a live header, and no bytes.
        let (key, _) = unsafe { self.cpu(header, 0, 0) };
        self.memory.borrow_mut().remove(&key);
        // SAFETY: as the caller promises.
        unsafe { self.heap.reclaim(header) }
    }
    unsafe fn place(&self, header: NonNull<Header<Unsync>>) -> Place {
        // SAFETY: as the caller promises.
        unsafe { self.heap.place(header) }
    }
    fn may_own(&self, _: NonNull<Header<Unsync>>) -> bool {
        true
    }
    fn caps(&self) -> Caps {
        Caps::OWNS_BYTES | Caps::NEEDS_CACHE_OPS
    }
    fn alignment(&self) -> usize {
        self.heap.alignment()
    }
    fn max_segment_size(&self) -> usize {
        self.heap.max_segment_size()
    }
    fn census(&self) -> Census {
        Census::NOTHING
    }
    fn name(&self) -> &'static str {
        "cached"
    }
    /// Cleans (the memory gets what the CPU wrote), or invalidates (the CPU gets what is in the memory).
    unsafe fn before_io(
        &self,
        header: NonNull<Header<Unsync>>,
        offset: usize,
        len: usize,
        way: IoDirection,
    ) {
        self.calls.borrow_mut().push(("before", offset, len, way));
        // SAFETY: a live header and a range in it. A device is about to use the range, so nobody writes it;
        // and before one that writes, nobody reads it either.
        unsafe {
            let (key, mut cpu) = self.cpu(header, offset, len);
            let mut memory = self.memory.borrow_mut();
            let memory = &mut memory.get_mut(&key).unwrap()[offset..offset + len];
            match way {
                IoDirection::CpuToDevice => memory.copy_from_slice(cpu.as_ref()),
                IoDirection::DeviceToCpu => cpu.as_mut().copy_from_slice(memory),
            }
        }
    }
    /// Invalidates after a device wrote.
    unsafe fn after_io(
        &self,
        header: NonNull<Header<Unsync>>,
        offset: usize,
        len: usize,
        way: IoDirection,
    ) {
        self.calls.borrow_mut().push(("after", offset, len, way));
        if way == IoDirection::DeviceToCpu {
            // SAFETY: as in `before_io`.
            unsafe {
                let (key, mut cpu) = self.cpu(header, offset, len);
                cpu.as_mut()
                    .copy_from_slice(&self.memory.borrow()[&key][offset..offset + len]);
            }
        }
    }
}

type Cold = Parts<Arc<Cached>, Arc<Books>>;

/// A device that reads and writes the memory, past the cache, when it is told to.
struct Dma {
    queue: DescriptorQueue<Unsync, Tickets<Cold>, 2>,
    stream: Stream,
    cached: Arc<Cached>,
}

impl Dma {
    fn locate(&self, operand: &Operand) -> (usize, std::ops::Range<usize>) {
        let Place::Host(first) = operand.place else {
            unreachable!("all segments here are host memory")
        };
        let memory = self.cached.memory.borrow();
        let (&base, _) = memory.range(..=first.addr().get()).next_back().unwrap();
        let offset = first.addr().get() - base;
        (base, offset..offset + operand.len)
    }

    fn step(&self) {
        let job = self.queue.next().unwrap();
        let Command::Kernel(kernel) = job.descriptor().command() else {
            unreachable!("only kernels are launched here")
        };
        let operands = job.descriptor().operands();
        let mut copies: Vec<Vec<u8>> = operands
            .iter()
            .map(|operand| {
                let (base, range) = self.locate(operand);
                self.cached.memory.borrow()[&base][range].to_vec()
            })
            .collect();
        let mut lent: Vec<Lent<'_>> = operands
            .iter()
            .zip(&mut copies)
            .map(|(operand, bytes)| match operand.access {
                Access::Read => Lent::Read(bytes),
                Access::Write => Lent::Write(bytes),
            })
            .collect();
        let outcome = kernel(&mut lent).map_err(Fault::Kernel);
        for (operand, bytes) in operands.iter().zip(&copies) {
            let (base, range) = self.locate(operand);
            let mut memory = self.cached.memory.borrow_mut();
            memory.get_mut(&base).unwrap()[range].copy_from_slice(bytes);
        }
        job.finish(outcome);
    }
}

// SAFETY: it touches no operand, only the copies that stand for the memory; the stream is claimed.
unsafe_engine! { [] Dma, Cold }

struct Bench {
    cached: Arc<Cached>,
    target: Cold,
    dma: Dma,
}

#[expect(
    clippy::arc_with_non_send_sync,
    reason = "`Arc` is the counted reference of backends"
)]
fn bench() -> Bench {
    let cached = Arc::new(Cached {
        heap: Heap::new(),
        memory: RefCell::default(),
        calls: RefCell::default(),
    });
    let dma = Dma {
        queue: DescriptorQueue::new(),
        stream: Stream::claim().unwrap(),
        cached: cached.clone(),
    };
    Bench {
        cached,
        target: Cold::new(Arc::default()),
        dma,
    }
}

impl Bench {
    /// A tensor of 16 bytes that the CPU wrote in place: they are in the cache alone.
    fn dirty(&self, byte: u8) -> Tensor<Cold> {
        let tensor = Tensor::alloc(&self.target, self.cached.clone(), 16).unwrap();
        tensor.lend_mut().unwrap().fill(byte);
        self.cached.take_calls();
        tensor
    }
}

/// Adds the first operand to the second.
fn add(operands: &mut [Lent<'_>]) -> Result<(), KernelFault> {
    let [Lent::Read(from), Lent::Write(to)] = operands else {
        return Err(KernelFault(1));
    };
    to.iter_mut()
        .zip(from.iter())
        .for_each(|(to, from)| *to += from);
    Ok(())
}

/// Writes the first byte of its operand, and gives up.
fn give_up(operands: &mut [Lent<'_>]) -> Result<(), KernelFault> {
    if let [Lent::Write(bytes)] = operands {
        bytes[0] = 0x77;
    }
    Err(KernelFault(7))
}

#[test]
fn a_launch_maintains_the_ranges_of_its_operands() {
    let bench = bench();
    let (from, to) = (bench.dirty(1), bench.dirty(2));
    let (from, to) = (from.slice(4..8).unwrap(), to.slice(8..12).unwrap());
    let submission = bench
        .dma
        .launch(Command::Kernel(add), &[from.input(), to.output()])
        .unwrap();
    // What is written is cleaned first: the command may read it, and may leave some of it.
    let before = [
        ("before", 4, 4, TO),
        ("before", 8, 4, TO),
        ("before", 8, 4, FROM),
    ];
    assert_eq!(bench.cached.take_calls(), before);
    bench.dma.step();
    let after = [
        ("after", 4, 4, TO),
        ("after", 8, 4, FROM),
        ("after", 8, 4, TO),
    ];
    assert_eq!(bench.cached.take_calls(), after);
    submission.wait().unwrap();
    assert_eq!(bench.cached.take_calls(), []);
}

#[test]
fn a_device_sees_what_the_cpu_wrote_in_place_and_the_cpu_what_the_device_wrote() {
    let bench = bench();
    let (from, to) = (bench.dirty(1), bench.dirty(2));
    let some = [from.slice(4..8).unwrap(), to.slice(8..12).unwrap()];
    for _ in 0..2 {
        let submission = bench
            .dma
            .launch(Command::Kernel(add), &[some[0].input(), some[1].output()]);
        bench.dma.step();
        submission.unwrap().wait().unwrap();
    }
    let mut expected = [2; 16];
    expected[8..12].fill(4);
    assert_eq!(*to.lend().unwrap(), expected);
    assert_eq!(*from.lend().unwrap(), [1; 16]);
    // The rest of the bytes reaches the device when it is asked for.
    let all = bench
        .dma
        .launch(Command::Kernel(add), &[to.input(), from.output()]);
    bench.dma.step();
    all.unwrap().wait().unwrap();
    let mut sums = [0; 16];
    from.read(0, &mut sums).unwrap();
    assert_eq!(sums, expected.map(|byte| byte + 1));
}

#[test]
fn what_the_cpu_wrote_survives_a_command_that_did_not_run() {
    let bench = bench();
    let kernel = Command::Kernel(give_up);
    let tensor = bench.dirty(5);
    let whole = [
        ("before", 0, 16, TO),
        ("before", 0, 16, FROM),
        ("after", 0, 16, FROM),
        ("after", 0, 16, TO),
    ];

    let aborted = bench.dma.launch(kernel, &[tensor.output()]).unwrap();
    aborted.abort();
    assert_eq!(aborted.wait(), Err(WaitError::Fault(Fault::Aborted)));
    assert_eq!(bench.cached.take_calls(), whole);
    assert_eq!(*tensor.lend().unwrap(), [5; 16]);

    // Two slots: the third launch is refused after its ticket was had.
    let others = [bench.dirty(0), bench.dirty(0)];
    let full = others
        .each_ref()
        .map(|other| bench.dma.launch(kernel, &[other.output()]).unwrap());
    bench.cached.take_calls();
    tensor.lend_mut().unwrap().fill(6);
    let refused = bench.dma.launch(kernel, &[tensor.output()]).unwrap_err();
    assert_eq!(
        refused,
        LaunchError::Submit(SubmitError::QueueFull { slots: 2 })
    );
    assert_eq!(bench.cached.take_calls(), whole);
    assert_eq!(*tensor.lend().unwrap(), [6; 16]);

    bench.dma.queue.close();
    for one in full {
        assert_eq!(one.wait(), Err(WaitError::Fault(Fault::Closed)));
    }
    assert_eq!(
        bench.cached.take_calls().len(),
        4,
        "one pair of `after` each"
    );
}

#[test]
fn a_fault_keeps_what_was_written_and_maintains_it() {
    let bench = bench();
    let tensor = bench.dirty(5);
    let submission = bench
        .dma
        .launch(Command::Kernel(give_up), &[tensor.output()])
        .unwrap();
    bench.dma.step();
    let fault = Fault::Kernel(KernelFault(7));
    assert_eq!(submission.wait(), Err(WaitError::Fault(fault)));
    assert_eq!(bench.cached.take_calls().len(), 4);
    let bytes = tensor.lend().unwrap();
    assert_eq!((bytes[0], &bytes[1..]), (0x77, &[5; 15][..]));
}

#[test]
fn an_operand_that_is_refused_has_no_maintenance_and_ends_that_of_those_before_it() {
    let bench = bench();
    let (first, second) = (bench.dirty(1), bench.dirty(2));
    let guard = second.lend().unwrap();
    let storage = second.storage_id().unwrap();
    let refused = bench
        .dma
        .launch(Command::Kernel(add), &[first.input(), second.output()]);
    let error = TensorError::Guarded { storage };
    assert_eq!(
        refused.unwrap_err(),
        LaunchError::Operand { operand: 1, error }
    );
    assert_eq!(
        bench.cached.take_calls(),
        [("before", 0, 16, TO), ("after", 0, 16, TO)]
    );
    assert_eq!(*guard, [2; 16]);
}

#[test]
fn the_cpu_alone_needs_no_maintenance_and_keeps_its_bytes() {
    let bench = bench();
    let (one, two) = (bench.dirty(1), bench.dirty(2));
    let mut seen = [0; 16];
    one.read(0, &mut seen).unwrap();
    assert_eq!(
        seen, [1; 16],
        "a read does not throw away what a guard wrote"
    );
    one.slice(4..8).unwrap().fill(3).unwrap();
    one.write(14, &[4, 4]).unwrap();
    two.slice(..15)
        .unwrap()
        .copy_from(&one.slice(1..).unwrap())
        .unwrap();
    two.slice(1..4)
        .unwrap()
        .copy_from(&two.slice(..3).unwrap())
        .unwrap();
    assert_eq!(
        *one.lend().unwrap(),
        [1, 1, 1, 1, 3, 3, 3, 3, 1, 1, 1, 1, 1, 1, 4, 4]
    );
    assert_eq!(
        *two.lend().unwrap(),
        [1, 1, 1, 1, 3, 3, 3, 1, 1, 1, 1, 1, 1, 4, 4, 2]
    );
    assert_eq!(bench.cached.take_calls(), []);
}
