//! A device that fails, stalls, completes twice or late; and the barrier. Nothing here sleeps or measures time: what stalls
//! does so until it is released.

mod common;

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Wake;
use std::thread;

use common::{Load, NOTHING, News, buffer, bytes, open, submit, write};
use wharf_backend::usage::UsageClass;
use wharf_backend::{AllocError, AllocHint, BackendExt, MemBackend, SegmentMut, TransferError};
use wharf_engine::{Cargo, Command, Engine, EngineExt, Fault, KernelFault, Returned, Unfinished};
use wharf_softdma::{Config, SoftDma};
use wharf_sync::{Clock, NoClock};
use wharf_tensor::{Hosted, Launch, Tensor, TensorError, Tickets};

const FAULT: Fault = Fault::Kernel(KernelFault(42));

#[test]
fn the_nth_launch_fails_without_running() {
    let device = open::<8>();
    let target = buffer(&device, &[0; 3]);
    device.faults().fail_launch(2, FAULT);
    let mut outcomes = Vec::new();
    for byte in 1..=3 {
        let part = wharf_engine::Operand::write(target.place(), 3);
        let sequence = submit(&device, Command::Fill(byte), &[part], Load::new(1)).unwrap();
        let outcome = device
            .wait(sequence, &NoClock, None)
            .unwrap()
            .map_err(|lost| lost.error);
        outcomes.push((outcome.map(drop), bytes(&target)[0]));
    }
    assert_eq!(outcomes, [(Ok(()), 1), (Err(FAULT), 1), (Ok(()), 3)]);
    let stats = device.stats();
    assert_eq!((stats.completed, stats.faulted, stats.spurious), (2, 1, 0));
    assert!(!device.faults().are_due());
}

#[test]
fn a_failed_launch_lets_go_of_its_tensors_and_nobody_else_hears_of_it() {
    let device = SoftDma::<Tickets<Hosted>>::open(Config::new(4096)).unwrap();
    let target = Hosted::default();
    let tensor = Tensor::alloc(&target, device.channel(), 4).unwrap();
    let (first, second) = (tensor.slice(..2).unwrap(), tensor.slice(2..).unwrap());
    device.faults().fail_launch(1, FAULT);
    let failed = device.launch(Command::Fill(1), &[first.output()]).unwrap();
    let works = device.launch(Command::Fill(2), &[second.output()]).unwrap();
    assert_eq!(works.wait(), Ok(()));
    assert_eq!(failed.wait().unwrap_err().to_string(), FAULT.to_string());
    assert_eq!(tensor.in_flight(), (0, 0));
    let mut bytes = [9; 4];
    tensor.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0, 0, 2, 2]);
}

#[test]
fn the_nth_transfer_fails_before_anything_moves() {
    let device = open::<4>();
    let mut segment = buffer(&device, &[1; 4]);
    device.faults().fail_transfer(3);
    let injected = Err(TransferError::Injected { call: 3 });
    let mut host = [0; 4];
    assert_eq!(segment.read(0, &mut host), Ok(()));
    assert_eq!(segment.fill(0, 1, 2), Ok(()));
    assert_eq!(segment.write(0, &[7; 4]), injected);
    assert_eq!(bytes(&segment), [2, 1, 1, 1]);
    device.faults().fail_transfer(1);
    host.fill(5);
    let injected = Err(TransferError::Injected { call: 1 });
    assert_eq!(segment.read(0, &mut host), injected);
    assert_eq!(host, [5; 4]);
    device.faults().fail_transfer(1);
    assert_eq!(segment.fill(0, 4, 0), injected);
    // The tensor of a failed write is as it was, and can be written again.
    let tensor = Tensor::alloc(&Hosted::default(), device.channel(), 2).unwrap();
    device.faults().fail_transfer(1);
    let TensorError::Transfer(error) = tensor.write(0, &[1, 2]).unwrap_err() else {
        panic!("a transfer")
    };
    assert_eq!(error.to_string(), "transfer 1 was made to fail");
    assert_eq!(tensor.write(0, &[1, 2]), Ok(()));
}

#[test]
fn the_nth_allocation_is_refused_and_counted() {
    let device = open::<4>();
    let channel = device.channel();
    device.faults().fail_alloc(2);
    let _first = channel.alloc(1).unwrap();
    assert_eq!(
        channel.alloc(1).unwrap_err(),
        AllocError::Injected { call: 2 }
    );
    assert_eq!(
        (channel.census().refused, channel.ledger().segments),
        (1, 1)
    );
    // A request that never could be met is no call.
    device.faults().fail_alloc(1);
    assert!(matches!(
        channel.alloc(usize::MAX),
        Err(AllocError::TooLarge { .. })
    ));
    assert_eq!(
        channel.alloc(1).unwrap_err(),
        AllocError::Injected { call: 1 }
    );
    assert!(channel.alloc(1).is_ok());
}

#[test]
fn a_stalled_launch_holds_what_comes_after_it_until_it_is_released() {
    let device = open::<4>();
    let target = buffer(&device, &[0]);
    let stall = device.faults().stall_launch(1);
    let first = submit(&device, Command::Fill(1), &[write(&target)], Load::new(1)).unwrap();
    let second = submit(&device, NOTHING, &[], Load::new(2)).unwrap();
    assert!(stall.wait_reached());
    assert_eq!(bytes(&target), [0], "it has touched nothing");
    assert!(device.poll(first, None).is_pending());
    assert!(device.poll(second, None).is_pending());
    // It has started, so it is not taken back.
    device.abort(first);
    assert!(device.poll(first, None).is_pending());
    stall.release();
    assert!(device.wait(second, &NoClock, None).unwrap().is_ok());
    assert!(device.wait(first, &NoClock, None).unwrap().is_ok());
    assert_eq!(bytes(&target), [1]);
}

#[test]
fn a_stall_ends_with_the_device() {
    let device = open::<4>();
    // The zeroth call is none, and takes back what was ordered.
    assert!(!device.faults().stall_launch(0).wait_reached());
    assert!(!device.faults().stall_transfer(0).wait_reached());
    let mut target = buffer(&device, &[0]);
    let stall = device.faults().stall_launch(1);
    let slow = device.faults().stall_transfer(1);
    let operands = [write(&target)];
    let launch = submit(&device, Command::Fill(1), &operands, Load::new(1)).unwrap();
    thread::scope(|scope| {
        let transfer = scope.spawn(|| target.write(0, &[2]));
        assert!(stall.wait_reached() && slow.wait_reached());
        // Neither hangs, although nobody has released anything.
        device.close();
        assert_eq!(transfer.join().unwrap(), Err(TransferError::Closed));
    });
    let Returned { error, value } = device.wait(launch, &NoClock, None).unwrap().unwrap_err();
    assert_eq!(
        (error, value.landed),
        (Fault::Closed, Some(Err(Fault::Closed)))
    );
    assert_eq!((device.stats().cancelled, device.stats().completed), (1, 0));
    // One that was ordered and never met is told of no more.
    let late = device.faults().stall_launch(1);
    assert!(!late.wait_reached());
}

#[test]
fn a_stalled_transfer_goes_on_when_it_is_released() {
    let device = open::<4>();
    let channel = device.channel();
    let tensor = Tensor::alloc(&Hosted::default(), channel, 4).unwrap();
    let stall = device.faults().stall_transfer(1);
    thread::scope(|scope| {
        let writing = scope.spawn(|| tensor.write(0, &[1, 2, 3, 4]));
        assert!(stall.wait_reached());
        // The host write holds the fence of its tensor.
        let refused = tensor.try_read(0, &mut [0; 4]);
        assert!(matches!(refused, Err(TensorError::WouldBlock { .. })));
        drop(stall);
        assert_eq!(writing.join().unwrap(), Ok(()));
    });
    let mut bytes = [0; 4];
    tensor.try_read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [1, 2, 3, 4]);
}

#[test]
fn an_end_that_is_told_twice_counts_once() {
    let device = open::<4>();
    let (news, heard) = channel();
    device.faults().complete_twice(1);
    let first = submit(&device, NOTHING, &[], Load::new(1).telling(&news)).unwrap();
    let second = submit(&device, NOTHING, &[], Load::new(2).telling(&news)).unwrap();
    assert!(device.wait(first, &NoClock, None).unwrap().is_ok());
    assert!(device.wait(second, &NoClock, None).unwrap().is_ok());
    drop(news);
    let landed: Vec<_> = heard
        .iter()
        .filter(|news| matches!(news, News::Landed(..)))
        .collect();
    assert_eq!(landed, [News::Landed(1, Ok(())), News::Landed(2, Ok(()))]);
    device.drain(&NoClock, None).unwrap();
    let stats = device.stats();
    assert_eq!((stats.completed, stats.spurious), (2, 1));
    assert_eq!(device.in_use(), 0);
}

#[test]
fn what_completes_after_the_close_lands_and_harms_nobody() {
    let device = SoftDma::<Tickets<Hosted>>::open(Config::new(4096)).unwrap();
    let channel = device.channel();
    let tensor = Tensor::alloc(&Hosted::default(), Arc::clone(&channel), 4).unwrap();
    let held = device.faults().complete_after_close(1);
    let late = device.launch(Command::Fill(1), &[tensor.output()]).unwrap();
    let never = device.launch(Command::Fill(2), &[tensor.output()]).unwrap();
    assert_eq!(tensor.in_flight(), (0, 2));
    assert!(held.wait_reached());
    device.close();
    assert_eq!(late.wait(), Ok(()));
    assert_eq!(
        never.wait().unwrap_err().to_string(),
        Fault::Closed.to_string()
    );
    assert_eq!(tensor.in_flight(), (0, 0));
    let closed = TensorError::Transfer(TransferError::Closed);
    assert_eq!(tensor.write(0, &[1]), Err(closed));
    drop(device);
    drop(tensor);
    assert_eq!(channel.ledger().segments, 0);
}

/// Stands still at a moment of its own, after every deadline.
struct Late;
impl Clock for Late {
    fn now(&self) -> Duration {
        Duration::MAX
    }
}

#[test]
fn a_barrier_waits_for_what_was_before_it_and_for_nothing_else() {
    let device = open::<8>();
    let before = submit(&device, NOTHING, &[], Load::new(1)).unwrap();
    let stall = device.faults().stall_launch(1);
    // Either of the two may be the one that stalls.
    let second = submit(&device, NOTHING, &[], Load::new(2)).unwrap();
    assert!(stall.wait_reached());
    let barrier = device.drained();
    assert_eq!(barrier.sequence(), Some(second));
    assert!(barrier.poll(None).is_pending());
    stall.release();
    device.drain(&NoClock, None).unwrap();
    // Behind it another one stalls, and holds up only later barriers.
    let stall = device.faults().stall_launch(1);
    let third = submit(&device, NOTHING, &[], Load::new(3)).unwrap();
    assert!(stall.wait_reached());
    assert!(barrier.poll(None).is_ready());
    assert!(device.poll(before, None).is_ready());
    let timed_out = Err(Unfinished::TimedOut { sequence: third });
    assert_eq!(device.drain(&Late, Some(Duration::ZERO)), timed_out);
    assert_eq!(
        device.drained().wait(&Late, Some(Duration::ZERO)),
        timed_out
    );
    let Err(error) = device.wait(third, &Late, Some(Duration::ZERO)) else {
        panic!("it stalls")
    };
    assert_eq!(
        error.to_string(),
        "submission #3 had not landed at the deadline"
    );
    stall.release();
    assert_eq!(device.drain(&NoClock, Some(Duration::MAX)), Ok(()));
    assert!(
        device
            .wait(third, &Late, Some(Duration::ZERO))
            .unwrap()
            .is_ok()
    );
    assert!(
        device
            .wait(second, &Late, Some(Duration::ZERO))
            .unwrap()
            .is_ok()
    );
    // Nothing was submitted, or all has landed: passed at once.
    assert_eq!(device.drain(&Late, Some(Duration::ZERO)), Ok(()));
    assert_eq!(open::<4>().drain(&NoClock, None), Ok(()));
}

struct Rings(Sender<()>);
impl Wake for Rings {
    fn wake(self: Arc<Self>) {
        // More wakes than one are no harm.
        let _ = self.0.send(());
    }
}

#[test]
fn a_barrier_can_be_awaited() {
    let device = open::<4>();
    let stall = device.faults().stall_launch(1);
    submit(&device, NOTHING, &[], Load::new(1)).unwrap();
    assert!(stall.wait_reached());
    let (ring, rung) = channel();
    let waker = Waker::from(Arc::new(Rings(ring)));
    let mut context = Context::from_waker(&waker);
    let mut barrier = pin!(device.drained());
    assert!(Future::poll(barrier.as_mut(), &mut context).is_pending());
    // One that is dropped in between changes nothing.
    let dropped = device.drained();
    assert!(dropped.poll(Some(&waker)).is_pending());
    drop(dropped);
    stall.release();
    loop {
        rung.recv().unwrap();
        if let Poll::Ready(()) = Future::poll(barrier.as_mut(), &mut context) {
            break;
        }
    }
    assert_eq!(device.stats().completed, 1);
}

/// Stops in its drop.
struct Slow {
    dropping: Sender<()>,
    go_on: Receiver<()>,
}

impl Cargo for Slow {}

impl Drop for Slow {
    fn drop(&mut self) {
        self.dropping.send(()).expect("the test listens");
        self.go_on.recv().expect("the test lets it go on");
    }
}

#[test]
fn a_drained_device_has_let_go_of_detached_cargo() {
    let device = SoftDma::<Slow, 4>::open(Config::new(64)).unwrap();
    let (dropping, dropped) = channel();
    let (go, go_on) = channel();
    let stall = device.faults().stall_launch(1);
    let sequence = submit(&device, NOTHING, &[], Slow { dropping, go_on }).unwrap();
    assert!(stall.wait_reached());
    device.detach(sequence);
    let barrier = device.drained();
    stall.release();
    dropped.recv().unwrap();
    // It has landed, and still it is there.
    assert_eq!((device.stats().completed, device.in_use()), (1, 1));
    assert!(barrier.poll(None).is_pending());
    go.send(()).unwrap();
    assert_eq!(barrier.wait(&NoClock, None), Ok(()));
    assert_eq!(device.in_use(), 0);
}

#[test]
fn a_newer_stall_lets_the_one_before_it_go_on() {
    let device = open::<4>();
    let older = device.faults().stall_launch(1);
    let first = submit(&device, NOTHING, &[], Load::new(1)).unwrap();
    assert!(older.wait_reached());
    let newer = device.faults().stall_launch(1);
    assert!(device.wait(first, &NoClock, None).unwrap().is_ok());
    let second = submit(&device, NOTHING, &[], Load::new(2)).unwrap();
    assert!(newer.wait_reached());
    drop(older);
    assert!(device.poll(second, None).is_pending());
    newer.release();
    assert!(device.wait(second, &NoClock, None).unwrap().is_ok());
}

#[test]
fn a_cause_that_nobody_asked_for_is_not_told_of_another_refusal() {
    let device = SoftDma::<()>::open(Config::new(1024)).unwrap();
    let channel = device.channel();
    let kept = channel.alloc(512).unwrap();
    let refuse = |size| {
        device.faults().fail_alloc(1);
        assert!(channel.vend(size, AllocHint::NONE).is_none());
    };
    let lacks = |size, refusal| {
        let AllocError::OutOfMemory { requested, .. } = refusal else {
            panic!("{refusal}")
        };
        assert_eq!(requested, size);
    };
    // Of another size, and of another class.
    refuse(600);
    lacks(601, channel.refusal(601, AllocHint::NONE));
    let io = AllocHint::of(UsageClass::IO);
    lacks(600, channel.refusal(600, io));
    // The same, but this time for want of room.
    refuse(600);
    lacks(600, channel.alloc(600).unwrap_err());
    // And it is told once.
    refuse(600);
    let injected = AllocError::Injected { call: 1 };
    assert_eq!(channel.refusal(600, AllocHint::NONE), injected);
    lacks(600, channel.refusal(600, AllocHint::NONE));
    drop(kept);
}

#[test]
fn a_setup_on_a_device_survives_the_failure_of_each_of_its_allocations() {
    let device = open::<4>();
    let channel = device.channel();
    let names = ["weights", "input", "output"];
    let setup = || -> Result<Vec<Tensor<Hosted>>, TensorError> {
        let target = Hosted::default();
        let memory = |name| channel.tagged(name, UsageClass::TENSOR);
        names
            .iter()
            .map(|&name| Tensor::alloc(&target, memory(name), 100))
            .collect()
    };
    for nth in 1..=names.len() as u64 {
        device.faults().fail_alloc(nth);
        let failed = setup().unwrap_err();
        assert_eq!(
            failed,
            TensorError::Alloc(AllocError::Injected { call: nth })
        );
        assert_eq!((channel.ledger().segments, channel.census().in_use), (0, 0));
    }
    assert_eq!(setup().map(|tensors| tensors.len()), Ok(3));
    assert_eq!(SegmentMut::alloc(channel, 1).map(drop), Ok(()));
}
