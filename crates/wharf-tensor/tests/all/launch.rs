//! Launches: order, exclusion, refusals that hold nothing, and what is in flight between two steps of an
//! engine that works only when told to.

use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::common::{Books, Device, Stepped, Wakes};
use wharf_backend::{Heap, MemBackend, SegmentMut, StaticPool};
use wharf_engine::{
    Command, CpuEngine, DescriptorError, Engine as _, Fault, KernelFault, Lent, Stream, SubmitError,
};
use wharf_source::HeapSource;
use wharf_sync::{Blocking, Unsync};
use wharf_tensor::{
    Access, Hosted, Launch, LaunchError, Parts, Target, Tensor, TensorError, Tickets, WaitError,
};

type Sketch = Parts<Heap<Unsync>, HeapSource>;
type Cpu = CpuEngine<Unsync, Tickets<Sketch>>;

fn tensor(bytes: &[u8]) -> Tensor<Sketch> {
    let segment = SegmentMut::alloc(Heap::new(), bytes.len())
        .unwrap()
        .init_from(bytes)
        .unwrap();
    Tensor::from_segment(&Sketch::new(HeapSource), segment).unwrap()
}

fn cpu() -> Cpu {
    Cpu::new(Stream::claim().unwrap())
}

/// Adds all operands but the last to the last.
fn add(operands: &mut [Lent<'_>]) -> Result<(), KernelFault> {
    let Some((Lent::Write(to), from)) = operands.split_last_mut() else {
        return Err(KernelFault(1));
    };
    for from in from {
        let Lent::Read(from) = from else {
            return Err(KernelFault(2));
        };
        to.iter_mut()
            .zip(from.iter())
            .for_each(|(to, from)| *to += from);
    }
    Ok(())
}

/// Shifts the decimal digits of the first byte left, and appends the second's.
fn append(operands: &mut [Lent<'_>]) -> Result<(), KernelFault> {
    let [Lent::Read(digit), Lent::Write(number)] = operands else {
        return Err(KernelFault(1));
    };
    number[0] = number[0] * 10 + digit[0];
    Ok(())
}

fn fail(operands: &mut [Lent<'_>]) -> Result<(), KernelFault> {
    if let [Lent::Write(bytes)] = operands {
        bytes[0] = 100;
    }
    Err(KernelFault(42))
}

const ADD: Command = Command::Kernel(add);

fn held<T: Target>(tensor: &Tensor<T>) -> TensorError {
    let storage = tensor.storage_id().unwrap();
    TensorError::WouldBlock { storage }
}

fn refused(operand: usize, error: TensorError) -> LaunchError {
    LaunchError::Operand { operand, error }
}

#[test]
fn launches_run_in_order_and_chain_without_waits() {
    let (number, digits) = (tensor(&[0]), [tensor(&[1]), tensor(&[2]), tensor(&[3])]);
    let engine = Stepped::<Sketch>::new();
    let mut submissions = digits.each_ref().map(|digit| {
        engine
            .launch(Command::Kernel(append), &[digit.input(), number.output()])
            .unwrap()
    });
    let sequences = submissions.each_ref().map(|one| one.sequence().get());
    assert_eq!(sequences, [1, 2, 3]);
    assert_eq!(number.in_flight(), (0, 3));
    assert_eq!(digits[0].in_flight(), (1, 0));
    while engine.step() {}
    assert_eq!(number.in_flight(), (0, 0));
    // Asked for in any order.
    for index in [2, 0, 1] {
        assert_eq!(submissions[index].poll(None), Poll::Ready(Ok(())));
    }
    assert_eq!(*number.lend().unwrap(), [123]);
    assert_eq!(engine.in_use(), 0);
}

#[test]
fn a_result_is_an_operand_of_the_next_before_it_is_there() {
    let (a, b, c) = (tensor(&[1, 2]), tensor(&[10, 20]), tensor(&[0, 0]));
    let engine = cpu();
    let first = engine.launch(ADD, &[a.input(), b.output()]).unwrap();
    let second = engine
        .launch(ADD, &[b.input(), b.input(), c.output()])
        .unwrap();
    second.wait().unwrap();
    first.wait().unwrap();
    assert_eq!(*c.lend().unwrap(), [22, 44]);
    assert_eq!(engine.in_use(), 0);
}

#[test]
fn slices_are_operands_of_their_own_bytes() {
    let all = tensor(&[1, 2, 3, 4, 5, 6]);
    let engine = cpu();
    let window = |range: std::ops::Range<usize>| all.slice(range).unwrap();
    let (left, right) = (window(0..2), window(3..5));
    engine
        .launch(ADD, &[left.input(), right.output()])
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(*all.lend().unwrap(), [1, 2, 3, 5, 7, 6]);
    engine
        .launch(Command::Fill(9), &[window(5..6).output()])
        .unwrap()
        .wait()
        .unwrap();
    engine
        .launch(Command::Copy, &[right.input(), left.output()])
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(*all.lend().unwrap(), [5, 7, 3, 5, 7, 9]);
}

#[test]
fn a_written_operand_overlaps_no_other_and_read_ones_may() {
    let all = tensor(&[1, 2, 3, 4]);
    let to = tensor(&[0, 0, 0]);
    let engine = cpu();
    let (left, right) = (all.slice(..3).unwrap(), all.slice(1..).unwrap());
    let overlap =
        |first, second| LaunchError::Descriptor(DescriptorError::Overlap { first, second });
    let written = engine
        .launch(ADD, &[left.input(), right.output()])
        .unwrap_err();
    assert_eq!(written, overlap(0, 1));
    let twice = engine
        .launch(ADD, &[to.input(), all.output(), all.clone().output()])
        .unwrap_err();
    assert_eq!(twice, overlap(1, 2));
    assert_eq!(all.in_flight(), (0, 0));

    engine
        .launch(ADD, &[left.input(), right.input(), to.output()])
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(*to.lend().unwrap(), [3, 5, 7]);
}

#[test]
fn operands_that_are_no_operands_are_told_apart() {
    let one = tensor(&[1]);
    let engine = cpu();
    let empty = Tensor::empty();
    let none = engine
        .launch(ADD, &[one.input(), empty.output()])
        .unwrap_err();
    assert_eq!(none, refused(1, TensorError::NoStorage));
    let shape = engine.launch(Command::Copy, &[one.input()]).unwrap_err();
    assert_eq!(
        shape,
        LaunchError::Descriptor(DescriptorError::Shape { operands: 1 })
    );
    let many = engine.launch(ADD, &[one.input(); 9]).unwrap_err();
    assert_eq!(
        many,
        LaunchError::Descriptor(DescriptorError::TooManyOperands { operands: 9 })
    );
    let eight = engine
        .launch(Command::Kernel(|_| Ok(())), &[one.input(); 8])
        .unwrap();
    assert_eq!(eight.wait(), Ok(()));
    assert_eq!((one.in_flight(), engine.in_use()), ((0, 0), 0));
    // No operand at all, and no bytes, are work like any other.
    let nothing: &[wharf_tensor::Use<'_, Sketch>] = &[];
    engine
        .launch(Command::Kernel(|_| Ok(())), nothing)
        .unwrap()
        .wait()
        .unwrap();
    let none_of_it = one.slice(1..).unwrap();
    engine
        .launch(Command::Fill(3), &[none_of_it.output()])
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(*one.lend().unwrap(), [1]);
}

#[test]
fn an_engine_that_does_not_reach_an_operand_says_which() {
    type Far = Parts<Arc<dyn MemBackend<Policy = Blocking> + Send + Sync>, HeapSource>;
    let target = Far::new(HeapSource);
    let near = Tensor::alloc(&target, Arc::new(Heap::new()), 2).unwrap();
    let far = Tensor::alloc(&target, Arc::new(Device::new()), 2).unwrap();
    let engine = CpuEngine::<Blocking, Tickets<Far>>::new(Stream::claim().unwrap());
    let error = engine
        .launch(Command::Copy, &[near.input(), far.output()])
        .unwrap_err();
    assert_eq!(
        error,
        LaunchError::Submit(SubmitError::Unreachable { operand: 1 })
    );
    assert_eq!((near.in_flight(), far.in_flight()), ((0, 0), (0, 0)));
}

#[test]
fn a_refused_operand_leaves_the_others_free() {
    let (a, b, c) = (tensor(&[1]), tensor(&[2]), tensor(&[3]));
    let engine = cpu();
    let guard = b.lend_mut().unwrap();
    let storage = b.storage_id().unwrap();
    for wait in [true, false] {
        let uses = [a.output(), b.input(), c.input()];
        let attempt = if wait {
            engine.launch(ADD, &uses)
        } else {
            engine.try_launch(ADD, &uses)
        };
        assert_eq!(
            attempt.unwrap_err(),
            refused(1, TensorError::Guarded { storage })
        );
        assert_eq!([&a, &b, &c].map(Tensor::in_flight), [(0, 0); 3]);
    }
    drop(guard);
    // Another engine has the third.
    let other = Stepped::<Sketch>::new();
    let busy = other.launch(Command::Fill(0), &[c.output()]).unwrap();
    let uses = [a.output(), b.input(), c.input()];
    assert_eq!(
        engine.try_launch(ADD, &uses).unwrap_err(),
        refused(2, held(&c))
    );
    let never = TensorError::WouldDeadlock {
        storage: c.storage_id().unwrap(),
    };
    assert_eq!(engine.launch(ADD, &uses).unwrap_err(), refused(2, never));
    assert_eq!([&a, &b].map(Tensor::in_flight), [(0, 0); 2]);
    assert_eq!(a.try_fill(1), Ok(()));
    drop(busy);
}

#[test]
fn a_full_queue_is_a_value_and_holds_nothing() {
    let (a, b, c) = (tensor(&[1]), tensor(&[2]), tensor(&[3]));
    let engine = Stepped::<Sketch, 2>::new();
    let mut first = engine.launch(Command::Fill(4), &[a.output()]).unwrap();
    let second = engine.launch(Command::Fill(5), &[b.output()]).unwrap();
    let full = LaunchError::Submit(SubmitError::QueueFull { slots: 2 });
    assert_eq!(
        engine.launch(Command::Fill(6), &[c.output()]).unwrap_err(),
        full
    );
    assert_eq!((c.in_flight(), c.try_fill(7)), ((0, 0), Ok(())));
    // Finished is not free: somebody may still ask.
    assert!(engine.step());
    assert_eq!(
        engine.launch(Command::Fill(6), &[c.output()]).unwrap_err(),
        full
    );
    assert_eq!(first.poll(None), Poll::Ready(Ok(())));
    let third = engine.launch(Command::Fill(6), &[c.output()]).unwrap();
    assert!(engine.step() && engine.step() && !engine.step());
    assert_eq!((second.wait(), third.wait()), (Ok(()), Ok(())));
    assert_eq!([a, b, c].map(|one| one.lend().unwrap()[0]), [4, 5, 6]);
}

#[test]
fn the_host_reads_beside_a_device_that_reads_and_does_nothing_beside_one_that_writes() {
    let (from, to) = (tensor(&[1, 2]), tensor(&[0, 0]));
    let engine = Stepped::<Sketch>::new();
    let submission = engine.launch(ADD, &[from.input(), to.output()]).unwrap();
    let never = |tensor: &Tensor<Sketch>| TensorError::WouldDeadlock {
        storage: tensor.storage_id().unwrap(),
    };
    let mut bytes = [0; 2];

    assert_eq!((from.in_flight(), to.in_flight()), ((1, 0), (0, 1)));
    from.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [1, 2]);
    assert_eq!(*from.try_lend().unwrap(), [1, 2]);
    assert_eq!(from.try_write(0, &[9]), Err(held(&from)));
    assert_eq!(from.write(0, &[9]), Err(never(&from)));
    assert_eq!(from.fill(9), Err(never(&from)));
    assert_eq!(from.lend_mut().map(drop), Err(never(&from)));
    assert_eq!(from.try_lend_mut().map(drop), Err(held(&from)));

    assert_eq!(to.try_read(0, &mut bytes), Err(held(&to)));
    assert_eq!(to.read(0, &mut bytes), Err(never(&to)));
    assert_eq!(to.try_lend().map(drop), Err(held(&to)));
    assert_eq!(to.lend().map(drop), Err(never(&to)));
    assert_eq!(to.try_fill(9), Err(held(&to)));
    assert_eq!(tensor(&[0; 2]).try_copy_from(&to), Err(held(&to)));
    assert_eq!(tensor(&[0; 2]).copy_from(&from), Ok(()));
    assert_eq!(bytes, [1, 2], "untouched by reads that were refused");

    // Slices of a storage share its fence.
    let slice = to.slice(1..).unwrap();
    assert_eq!(slice.try_fill(9), Err(held(&to)));
    assert!(engine.step());
    assert_eq!((from.in_flight(), to.in_flight()), ((0, 0), (0, 0)));
    assert_eq!(slice.try_fill(9), Ok(()));
    assert_eq!(*to.lend().unwrap(), [1, 9]);
    submission.wait().unwrap();
}

#[test]
fn engines_exclude_each_other_unless_both_read() {
    let (shared, mine, yours) = (tensor(&[1]), tensor(&[0]), tensor(&[0]));
    let (one, two) = (Stepped::<Sketch>::new(), Stepped::<Sketch>::new());
    let read_by_one = one.launch(ADD, &[shared.input(), mine.output()]).unwrap();
    let read_by_two = two.launch(ADD, &[shared.input(), yours.output()]).unwrap();
    assert_eq!(shared.in_flight(), (2, 0));
    // Neither may write what the other reads.
    let fill = Command::Fill(5);
    assert_eq!(
        one.try_launch(fill, &[shared.output()]).unwrap_err(),
        refused(0, held(&shared))
    );
    assert_eq!(
        two.try_launch(fill, &[mine.output()]).unwrap_err(),
        refused(0, held(&mine))
    );
    assert_eq!(
        two.try_launch(ADD, &[mine.input(), yours.output()])
            .unwrap_err(),
        refused(0, held(&mine))
    );
    assert!(one.step() && two.step());
    let written = two.try_launch(fill, &[shared.output()]).unwrap();
    assert_eq!(
        one.try_launch(ADD, &[shared.input(), mine.output()])
            .unwrap_err(),
        refused(0, held(&shared))
    );
    assert!(two.step());
    assert_eq!(shared.in_flight(), (0, 0));
    for submission in [read_by_one, read_by_two, written] {
        submission.wait().unwrap();
    }
}

#[test]
fn tensors_may_go_while_their_bytes_are_in_flight() {
    type Pooled = Parts<Arc<StaticPool<Blocking, 16, 2>>, Arc<Books>>;
    let (pool, books) = (Arc::new(StaticPool::new()), Arc::new(Books::default()));
    let target = Pooled::new(books.clone());
    let engine = Stepped::<Pooled>::new();
    {
        let from = Tensor::alloc(&target, pool.clone(), 4).unwrap();
        let to = Tensor::alloc(&target, pool.clone(), 4).unwrap();
        from.fill(3).unwrap();
        let submission = engine
            .launch(Command::Copy, &[from.input(), to.output()])
            .unwrap();
        drop((from, to));
        drop(submission);
    }
    assert_eq!(
        (pool.census().in_use, books.blocks()),
        (2, 2),
        "the engine has them"
    );
    assert!(engine.step());
    assert_eq!((pool.census().in_use, books.blocks()), (0, 0));
    assert_eq!(
        engine.in_use(),
        0,
        "a detached submission takes its slot with it"
    );
}

#[test]
fn a_submission_may_be_dropped_before_during_and_after_its_run() {
    let byte = tensor(&[0]);
    let engine = Stepped::<Sketch, 1>::new();
    let launch = |value| {
        engine
            .launch(Command::Fill(value), &[byte.output()])
            .unwrap()
    };
    let value = || byte.try_lend().unwrap()[0];

    drop(launch(1));
    assert_eq!(engine.in_use(), 1);
    assert!(engine.step());
    assert_eq!((value(), engine.in_use()), (1, 0));

    let submission = launch(2);
    let job = engine.start().unwrap();
    drop(submission);
    assert_eq!(
        (byte.in_flight(), engine.in_use()),
        ((0, 1), 1),
        "the device is at it"
    );
    job.finish(Ok(()));
    assert_eq!((byte.in_flight(), engine.in_use()), ((0, 0), 0));

    let submission = launch(3);
    assert!(engine.step());
    drop(submission);
    assert_eq!((value(), engine.in_use()), (3, 0));
}

#[test]
fn an_engine_that_goes_lets_go() {
    let byte = tensor(&[0]);
    let engine = Stepped::<Sketch>::new();
    drop(engine.launch(Command::Fill(1), &[byte.output()]).unwrap());
    assert_eq!(byte.in_flight(), (0, 1));
    drop(engine);
    assert_eq!((byte.in_flight(), byte.try_fill(2)), ((0, 0), Ok(())));
}

#[test]
fn aborting_takes_back_what_has_not_started() {
    let (a, b) = (tensor(&[1]), tensor(&[1]));
    let engine = Stepped::<Sketch>::new();
    let mut running = engine.launch(Command::Fill(2), &[a.output()]).unwrap();
    let mut queued = engine.launch(Command::Fill(2), &[b.output()]).unwrap();
    let job = engine.start().unwrap();
    running.abort();
    queued.abort();
    assert_eq!((a.in_flight(), b.in_flight()), ((0, 1), (0, 0)));
    assert_eq!(running.poll(None), Poll::Pending);
    assert_eq!(
        queued.poll(None),
        Poll::Ready(Err(WaitError::Fault(Fault::Aborted)))
    );
    job.finish(Ok(()));
    assert_eq!(running.poll(None), Poll::Ready(Ok(())));
    assert_eq!(*b.lend().unwrap(), [1]);
    assert!(!engine.step());
}

#[test]
fn closing_ends_what_is_queued_and_refuses_the_rest() {
    let (a, b) = (tensor(&[1]), tensor(&[1]));
    let engine = Stepped::<Sketch>::new();
    let queued = [&a, &b].map(|one| engine.launch(Command::Fill(2), &[one.output()]).unwrap());
    engine.close();
    assert_eq!((a.in_flight(), b.in_flight()), ((0, 0), (0, 0)));
    for one in queued {
        assert_eq!(one.wait(), Err(WaitError::Fault(Fault::Closed)));
    }
    let late = engine.launch(Command::Fill(2), &[a.output()]).unwrap_err();
    assert_eq!(late, LaunchError::Submit(SubmitError::Closed));
    assert_eq!((a.in_flight(), a.lend().unwrap()[0]), ((0, 0), 1));
}

#[test]
fn completion_lets_go_without_anybody_asking_and_wakes_who_did() {
    let byte = tensor(&[1]);
    let engine = Stepped::<Sketch>::new();
    let mut submission = engine.launch(Command::Fill(2), &[byte.output()]).unwrap();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    assert_eq!(submission.poll(Some(&waker)), Poll::Pending);
    assert_eq!(wakes.count(), 0);
    assert!(engine.step());
    assert_eq!(wakes.count(), 1);
    // Nobody has asked again, and the bytes are free.
    assert_eq!(byte.try_lend().unwrap()[0], 2);
    assert_eq!(submission.poll(Some(&waker)), Poll::Ready(Ok(())));
    assert_eq!(engine.in_use(), 0);
    // There is nothing more to say, and nothing is taken from others.
    let mut next = engine
        .launch(Command::Kernel(fail), &[byte.output()])
        .unwrap();
    assert!(engine.step());
    assert_eq!(submission.poll(None), Poll::Ready(Err(WaitError::Taken)));
    drop(submission);
    assert_eq!(
        next.poll(None),
        Poll::Ready(Err(WaitError::Fault(Fault::Kernel(KernelFault(42)))))
    );
    // Somebody who asks the engine itself takes the news away; a fault must not pass for success then.
    let robbed = engine
        .launch(Command::Kernel(fail), &[byte.output()])
        .unwrap();
    assert!(engine.step());
    assert!(engine.poll(robbed.sequence(), None).is_ready());
    assert_eq!(robbed.wait(), Err(WaitError::Taken));
}

#[test]
fn a_fault_reaches_its_submission_only() {
    let (a, b) = (tensor(&[1, 1]), tensor(&[2, 2]));
    let engine = cpu();
    let before = engine.launch(ADD, &[a.input(), b.output()]).unwrap();
    let faulty = engine.launch(Command::Kernel(fail), &[b.output()]).unwrap();
    let after = engine.launch(ADD, &[a.input(), b.output()]).unwrap();
    assert_eq!(after.wait(), Ok(()));
    assert_eq!(
        faulty.wait(),
        Err(WaitError::Fault(Fault::Kernel(KernelFault(42))))
    );
    assert_eq!(before.wait(), Ok(()));
    // What it wrote stays written, and what came after ran all the same.
    assert_eq!(*b.lend().unwrap(), [101, 4]);
}

#[test]
fn waiting_for_an_engine_that_nobody_drives_is_an_error_and_detaches() {
    let byte = tensor(&[1]);
    let engine = Stepped::<Sketch>::new();
    let submission = engine.launch(Command::Fill(2), &[byte.output()]).unwrap();
    assert_eq!(submission.wait(), Err(WaitError::WouldDeadlock));
    assert!(engine.step());
    assert_eq!((byte.lend().unwrap()[0], engine.in_use()), (2, 0));
}

#[test]
fn a_ticket_by_hand_says_what_it_is_and_excludes_like_a_launch() {
    let byte = tensor(&[1]);
    let stream = Stream::claim().unwrap();
    let ticket = byte.begin(Access::Write, stream.id()).unwrap();
    assert_eq!(
        (ticket.access(), ticket.stream()),
        (Access::Write, stream.id())
    );
    assert_eq!(byte.in_flight(), (0, 1));
    assert_eq!(byte.try_fill(2), Err(held(&byte)));
    assert_eq!(
        cpu().try_launch(ADD, &[byte.input()]).unwrap_err(),
        refused(0, held(&byte))
    );
    drop(ticket);
    assert_eq!(byte.try_fill(2), Ok(()));
}

#[test]
fn a_kernel_that_panics_leaves_its_operands_free() {
    let byte = tensor(&[1]);
    let engine = cpu();
    let launch = || {
        engine
            .launch(
                Command::Kernel(|_| panic!("a kernel panics")),
                &[byte.output()],
            )
            .map(drop)
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(launch)).is_err());
    assert_eq!(byte.in_flight(), (0, 0));
    engine
        .launch(Command::Fill(2), &[byte.output()])
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(*byte.lend().unwrap(), [2]);
}

#[test]
fn a_number_keeps_its_slot_until_it_is_polled_or_detached() {
    let byte = tensor(&[1]);
    let engine = Stepped::<Sketch>::new();
    let number = |value| {
        let launched = engine.launch(Command::Fill(value), &[byte.output()]);
        launched.unwrap().into_sequence()
    };
    let (polled, detached) = (number(2), number(3));
    assert!(engine.step() && engine.step());
    assert_eq!((byte.in_flight(), engine.in_use()), ((0, 0), 2));
    assert!(engine.poll(polled, None).is_ready());
    engine.detach(detached);
    assert_eq!((byte.lend().unwrap()[0], engine.in_use()), (3, 0));
}

#[test]
fn a_typed_segment_becomes_a_tensor_of_an_erased_target() {
    let pool = Arc::new(StaticPool::<Blocking, 16, 1>::fresh());
    let filled = SegmentMut::alloc(Arc::clone(&pool), 3)
        .unwrap()
        .init_from(b"abc")
        .unwrap();
    let tensor = Tensor::from_segment(&Hosted::default(), filled).unwrap();
    assert_eq!(&*tensor.lend().unwrap(), b"abc");
    drop(tensor);
    assert_eq!(pool.census().in_use, 0);
}
