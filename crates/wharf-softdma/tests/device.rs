//! What the device promises: order, completion, faults, closing. Nothing here sleeps or measures time: kernels
//! stop at barriers.

mod common;

use core::task::{Poll, Waker};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Weak};
use std::task::Wake;
use std::thread;

use common::{
    APPEND, Load, MEMORY, NOTHING, News, Outcome, buffer, bytes, host_place, open, read, submit,
    write,
};
use wharf_backend::{AllocError, BackendExt, DeviceAddress, MemBackend, Place, SegmentMut};
use wharf_backend::{Returned, TransferError};
use wharf_engine::{
    Cargo, Command, Descriptor, Engine, EngineExt, Fault, KernelFault, Lent, Operand, Sequence,
    StreamId, SubmitError, Unfinished,
};
use wharf_softdma::Channel;
use wharf_softdma::{Config, Ledger, OpenError, SoftDma, Stats};
use wharf_sync::NoClock;

fn stats(device: &SoftDma<Load, 4>) -> (u64, u64, u64, u64, u64) {
    let stats = device.stats();
    (
        stats.completed,
        stats.faulted,
        stats.faulted_detached,
        stats.cancelled,
        stats.cargo_panics,
    )
}

#[test]
fn a_kernel_computes_on_the_devices_memory() {
    let device = open::<4>();
    let weights = buffer(&device, &[1, 2, 3, 4]);
    let inputs = buffer(&device, &[10, 20, 30, 40]);
    let sums = buffer(&device, &[0; 2]);
    let operands = [read(&weights), read(&inputs), write(&sums)];
    // The dot product, little-endian: 10 + 40 + 90 + 160 = 300 = 0x012C.
    let dot = Command::Kernel(|operands| {
        let [Lent::Read(a), Lent::Read(b), Lent::Write(sum)] = operands else {
            return Err(KernelFault(1));
        };
        let dot: u16 = a
            .iter()
            .zip(&**b)
            .map(|(&a, &b)| u16::from(a) * u16::from(b))
            .sum();
        sum.copy_from_slice(&dot.to_le_bytes());
        Ok(())
    });
    let cargo = Load::new(1).holding(weights).holding(inputs).holding(sums);
    let sequence = submit(&device, dot, &operands, cargo).unwrap();
    assert_eq!(sequence.get(), 1);
    let cargo = device.wait(sequence, &NoClock, None).unwrap().unwrap();
    assert_eq!(cargo.landed, Some(Ok(())));
    let [weights, inputs, sums] = &cargo.buffers[..] else {
        panic!("three buffers come back");
    };
    assert_eq!(bytes(sums), [0x2C, 0x01]);
    assert_eq!(bytes(weights), [1, 2, 3, 4]);
    assert_eq!(bytes(inputs), [10, 20, 30, 40]);
    assert_eq!(stats(&device), (1, 0, 0, 0, 0));
    assert_eq!(
        device.poll(sequence, None).map(|c| c.is_none()),
        Poll::Ready(true)
    );
}

#[test]
fn copies_and_fills_run_on_the_device() {
    let device = open::<4>();
    let from = buffer(&device, b"wharfside");
    let to = buffer(&device, &[0; 9]);
    let part = {
        let Place::Device(base) = to.place() else {
            panic!("device memory")
        };
        Operand::write(Place::Device(base.checked_add(5).unwrap()), 2)
    };
    let copy = submit(
        &device,
        Command::Copy,
        &[read(&from), write(&to)],
        Load::new(1),
    )
    .unwrap();
    let fill = submit(&device, Command::Fill(b'-'), &[part], Load::new(2)).unwrap();
    device.drain(&NoClock, None).unwrap();
    assert!(device.wait(copy, &NoClock, None).unwrap().is_ok());
    assert!(device.wait(fill, &NoClock, None).unwrap().is_ok());
    assert_eq!(bytes(&to), b"wharf--de");
    let ledger = device.channel().ledger();
    assert_eq!(
        (ledger.bytes_in, ledger.bytes_out, ledger.bytes_filled),
        (18, 9, 0)
    );
}

#[test]
fn cargo_lands_before_anybody_sees_the_completion() {
    static LANDING: Barrier = Barrier::new(2);
    static LOOKED: Barrier = Barrier::new(2);
    #[derive(Debug)]
    struct Slow(bool);
    impl Cargo for Slow {
        fn landed(&mut self, outcome: Outcome) {
            assert_eq!(outcome, Ok(()));
            LANDING.wait();
            LOOKED.wait();
            self.0 = true;
        }
    }
    let device = SoftDma::<Slow>::open(Config::new(64)).unwrap();
    let sequence = submit(&device, NOTHING, &[], Slow(false)).unwrap();
    LANDING.wait();
    assert!(device.poll(sequence, None).is_pending());
    LOOKED.wait();
    assert!(device.wait(sequence, &NoClock, None).unwrap().unwrap().0);
}

#[test]
fn descriptors_run_in_the_order_of_submission() {
    let device = open::<64>();
    let list = buffer(&device, &[0; 61]);
    let items: Vec<_> = (0..60).map(|id| buffer(&device, &[id])).collect();
    let append = Command::Kernel(APPEND);
    for (id, item) in (0..).zip(items) {
        let operands = [read(&item), write(&list)];
        submit(&device, append, &operands, Load::new(id).holding(item)).unwrap();
    }
    device.drain(&NoClock, None).unwrap();
    let list = bytes(&list);
    assert_eq!(list[0], 60);
    assert!(list[1..].iter().copied().eq(0..60));
    assert_eq!(device.in_use(), 60, "until they are asked for");
}

#[test]
fn a_full_queue_is_a_value_and_a_slot_comes_back() {
    let device = open::<2>();
    let (started, release, stop) = gate!();
    let first = submit(&device, stop, &[], Load::new(1)).unwrap();
    started.wait();
    let second = submit(&device, NOTHING, &[], Load::new(2)).unwrap();
    let Returned { error, value } = submit(&device, NOTHING, &[], Load::new(3)).unwrap_err();
    assert_eq!(error, SubmitError::QueueFull { slots: 2 });
    assert_eq!((value.id, value.landed), (3, None));
    release.wait();
    device.drain(&NoClock, None).unwrap();
    assert_eq!(device.in_use(), 2, "finished, and not asked for");
    let Returned { error, value } = submit(&device, NOTHING, &[], value).unwrap_err();
    assert_eq!(error, SubmitError::QueueFull { slots: 2 });
    assert_eq!(device.wait(first, &NoClock, None).unwrap().unwrap().id, 1);
    let third = submit(&device, NOTHING, &[], value).unwrap();
    assert_eq!(third.get(), 3, "a refusal takes no number");
    assert_eq!(device.wait(third, &NoClock, None).unwrap().unwrap().id, 3);
    assert_eq!(device.wait(second, &NoClock, None).unwrap().unwrap().id, 2);
    assert_eq!(device.in_use(), 0);
}

#[test]
fn a_detached_submission_lands_and_frees_its_slot() {
    let device = open::<4>();
    let (news, heard) = channel();
    let (started, release, stop) = gate!();
    let running = submit(&device, stop, &[], Load::new(1).telling(&news)).unwrap();
    let queued = submit(&device, NOTHING, &[], Load::new(2).telling(&news)).unwrap();
    started.wait();
    device.detach(running);
    device.detach(queued);
    assert_eq!(device.in_use(), 2);
    release.wait();
    device.drain(&NoClock, None).unwrap();
    assert_eq!(device.in_use(), 0);
    let done = submit(&device, NOTHING, &[], Load::new(3).telling(&news)).unwrap();
    device.drain(&NoClock, None).unwrap();
    device.detach(done);
    assert_eq!(device.in_use(), 0);
    for sequence in [running, queued, done] {
        let unknown = Unfinished::Taken { sequence };
        assert_eq!(device.wait(sequence, &NoClock, None).unwrap_err(), unknown);
    }
    drop(news);
    let told: Vec<_> = heard.iter().collect();
    let one = |id| [News::Landed(id, Ok(())), News::Dropped(id)];
    assert_eq!(told, [one(1), one(2), one(3)].concat());
    assert_eq!(stats(&device), (3, 0, 0, 0, 0));
}

#[test]
fn what_is_queued_can_be_taken_back_and_what_runs_cannot() {
    let device = open::<4>();
    let (started, release, stop) = gate!();
    let target = buffer(&device, &[7; 8]);
    let running = submit(&device, stop, &[], Load::new(1)).unwrap();
    let fill = Command::Fill(9);
    let queued = submit(&device, fill, &[write(&target)], Load::new(2)).unwrap();
    let behind = submit(&device, NOTHING, &[], Load::new(3)).unwrap();
    started.wait();
    device.abort(running);
    device.abort(queued);
    let Returned { error, value } = device.wait(queued, &NoClock, None).unwrap().unwrap_err();
    assert_eq!(error, Fault::Aborted);
    assert_eq!((value.id, value.landed), (2, Some(Err(Fault::Aborted))));
    release.wait();
    assert!(device.wait(running, &NoClock, None).unwrap().is_ok());
    assert!(device.wait(behind, &NoClock, None).unwrap().is_ok());
    assert_eq!(bytes(&target), [7; 8]);
    device.abort(behind);
    assert_eq!(stats(&device), (2, 0, 0, 1, 0));
}

#[test]
fn a_kernel_that_gives_up_is_a_fault_with_its_number() {
    let device = open::<4>();
    let target = buffer(&device, &[0; 4]);
    let half = Command::Kernel(|operands| {
        let [Lent::Write(bytes)] = operands else {
            return Err(KernelFault(1));
        };
        bytes[..2].fill(5);
        Err(KernelFault(77))
    });
    let told = submit(&device, half, &[write(&target)], Load::new(1)).unwrap();
    let untold = submit(&device, half, &[write(&target)], Load::new(2)).unwrap();
    let fault = Fault::Kernel(KernelFault(77));
    let Returned { error, value } = device.wait(told, &NoClock, None).unwrap().unwrap_err();
    assert_eq!((error, value.landed), (fault, Some(Err(fault))));
    device.detach(untold);
    device.drain(&NoClock, None).unwrap();
    assert_eq!(bytes(&target), [5, 5, 0, 0], "what it wrote stays");
    assert_eq!(stats(&device), (0, 2, 1, 0, 0));
    assert_eq!(
        device.stats().to_string(),
        "0 completed, 2 faulted (1 of them detached), 0 cancelled, 0 panics of cargo, 0 spurious"
    );
}

#[test]
fn a_kernel_that_panics_does_not_take_the_device_with_it() {
    // A payload that panics in turn when the device drops it.
    struct Spiteful;
    impl Drop for Spiteful {
        fn drop(&mut self) {
            std::panic::panic_any(Self);
        }
    }
    let device = open::<4>();
    let target = buffer(&device, &[0; 4]);
    let plain = Command::Kernel(|operands| {
        let [Lent::Write(bytes)] = operands else {
            return Err(KernelFault(1));
        };
        bytes[0] = 1;
        panic!("a kernel that panics, for a test");
    });
    let spiteful = Command::Kernel(|_| std::panic::panic_any(Spiteful));
    for (id, kernel) in [(1, plain), (2, spiteful)] {
        let sequence = submit(&device, kernel, &[write(&target)], Load::new(id)).unwrap();
        let Returned { error, value } = device.wait(sequence, &NoClock, None).unwrap().unwrap_err();
        assert_eq!(error, Fault::Panicked);
        assert_eq!((value.id, value.landed), (id, Some(Err(Fault::Panicked))));
    }
    let after = submit(&device, NOTHING, &[], Load::new(3)).unwrap();
    assert!(device.wait(after, &NoClock, None).unwrap().is_ok());
    assert_eq!(bytes(&target), [1, 0, 0, 0]);
    assert_eq!(stats(&device), (1, 2, 0, 0, 0));
}

#[test]
fn a_cargo_that_panics_is_contained_and_counted() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Mood {
        Calm,
        PanicsLanding,
        PanicsDropping,
    }
    impl Cargo for Moody {
        fn landed(&mut self, _: Outcome) {
            assert!(
                self.0 != Mood::PanicsLanding,
                "a landing that panics, for a test"
            );
        }
    }
    #[derive(Debug)]
    struct Moody(Mood);
    impl Drop for Moody {
        fn drop(&mut self) {
            assert!(
                self.0 != Mood::PanicsDropping,
                "a drop that panics, for a test"
            );
        }
    }
    let device = SoftDma::<Moody, 4>::open(Config::new(64)).unwrap();
    let landing = submit(&device, NOTHING, &[], Moody(Mood::PanicsLanding)).unwrap();
    assert!(device.wait(landing, &NoClock, None).unwrap().is_ok());
    let (started, release, stop) = gate!();
    let dropping = submit(&device, stop, &[], Moody(Mood::PanicsDropping)).unwrap();
    started.wait();
    device.detach(dropping);
    release.wait();
    device.drain(&NoClock, None).unwrap();
    let calm = submit(&device, NOTHING, &[], Moody(Mood::Calm)).unwrap();
    assert!(device.wait(calm, &NoClock, None).unwrap().is_ok());
    let stats = device.stats();
    assert_eq!((stats.completed, stats.cargo_panics), (3, 2));
}

#[test]
fn a_waker_that_panics_harms_nobody_else() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker that panics, for a test");
        }
    }
    let device = open::<4>();
    let (started, release, stop) = gate!();
    let running = submit(&device, stop, &[], Load::new(1)).unwrap();
    let queued = submit(&device, NOTHING, &[], Load::new(2)).unwrap();
    started.wait();
    let waker = Waker::from(Arc::new(Panics));
    assert!(device.poll(running, Some(&waker)).is_pending());
    release.wait();
    assert!(device.wait(running, &NoClock, None).unwrap().is_ok());
    assert!(device.wait(queued, &NoClock, None).unwrap().is_ok());
    device.drain(&NoClock, None).unwrap();
    assert!(!device.is_closed());
}

#[test]
fn a_completion_wakes_who_polls() {
    struct Rings(Sender<()>);
    impl Wake for Rings {
        fn wake(self: Arc<Self>) {
            self.0.send(()).expect("the test listens");
        }
    }
    let device = open::<4>();
    let (started, release, stop) = gate!();
    let sequence = submit(&device, stop, &[], Load::new(1)).unwrap();
    started.wait();
    let (ring, rung) = channel();
    let waker = Waker::from(Arc::new(Rings(ring)));
    assert!(device.poll(sequence, Some(&waker)).is_pending());
    release.wait();
    rung.recv().unwrap();
    assert!(matches!(
        device.poll(sequence, None),
        Poll::Ready(Some(Ok(_)))
    ));
}

#[test]
fn closing_with_work_queued_and_segments_alive_is_harmless() {
    let device = open::<4>();
    let channel = device.channel();
    let (started, release, stop) = gate!();
    let mut kept = buffer(&device, b"kept");
    let target = buffer(&device, &[0; 4]);
    let running = submit(&device, stop, &[], Load::new(1)).unwrap();
    let fill = Command::Fill(1);
    let operands = [write(&target)];
    let queued = submit(&device, fill, &operands, Load::new(2).holding(target)).unwrap();
    started.wait();
    thread::scope(|scope| {
        // Two close at once, and both wait for what runs.
        let closers = [(); 2].map(|()| {
            scope.spawn(|| {
                device.close();
                assert!(matches!(
                    device.poll(running, None),
                    Poll::Ready(Some(Ok(_)) | None)
                ));
            })
        });
        // What is queued completes while the other one still runs.
        let Returned { error, value } = device.wait(queued, &NoClock, None).unwrap().unwrap_err();
        assert_eq!(error, Fault::Closed);
        assert_eq!(value.landed, Some(Err(Fault::Closed)));
        assert!(channel.is_closed());
        drop(value);
        release.wait();
        closers
            .into_iter()
            .for_each(|closer| closer.join().unwrap());
    });
    device.close();
    device.drain(&NoClock, None).unwrap();
    assert_eq!(stats(&device), (1, 0, 0, 1, 0));
    // The device answers.
    let refused = submit(&device, NOTHING, &[], Load::new(3)).unwrap_err();
    assert_eq!((refused.error, refused.value.id), (SubmitError::Closed, 3));
    assert_eq!(
        SegmentMut::alloc(device.channel(), 1).unwrap_err(),
        AllocError::Closed
    );
    assert_eq!(channel.alloc(usize::MAX).unwrap_err(), AllocError::Closed);
    // And so do its segments.
    let mut host = [9; 4];
    assert_eq!(kept.read(0, &mut host), Err(TransferError::Closed));
    assert_eq!(kept.write(0, b"lost"), Err(TransferError::Closed));
    assert_eq!(kept.fill(0, 4, 0), Err(TransferError::Closed));
    assert_eq!(host, [9; 4]);
    assert_eq!(channel.ledger().segments, 1);
    // Also when it is gone; and the last of them frees the memory.
    drop(device);
    let memory = Arc::downgrade(&channel);
    drop(channel);
    assert!(
        memory
            .upgrade()
            .is_some_and(|channel| channel.ledger().segments == 1)
    );
    drop(kept);
    assert!(memory.upgrade().is_none());
}

/// A cargo that owns its device.
struct Owner {
    device: Option<Arc<SoftDma<Self, 4>>>,
    doing: Doing,
    // After the device, so that it tells when that is gone.
    tell: Sender<Option<Unfinished>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Doing {
    Nothing,
    DropsLanding,
    ClosesLanding,
    DrainsLanding,
    WaitsLanding(Sequence),
}

impl Cargo for Owner {
    fn landed(&mut self, _: Outcome) {
        match (self.doing, &self.device) {
            (Doing::DropsLanding, _) => self.device = None,
            (Doing::ClosesLanding, Some(device)) => device.close(),
            (Doing::DrainsLanding, Some(device)) => {
                let drained = device.drain(&NoClock, None);
                self.tell.send(drained.err()).expect("the test listens");
            }
            (Doing::WaitsLanding(other), Some(device)) => {
                let waited = device.wait(other, &NoClock, None).map(drop);
                self.tell.send(waited.err()).expect("the test listens");
            }
            _ => {}
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.device = None;
        let _ = self.tell.send(None);
    }
}

/// Lets a cargo that owns its device land on the device's thread, as the last owner.
fn last_owner(doing: Doing, stop: Command, gate: [&Barrier; 2]) -> Weak<Channel> {
    let device = Arc::new(SoftDma::<Owner, 4>::open(Config::new(64)).unwrap());
    let channel = device.channel();
    let (tell, told): (_, Receiver<_>) = std::sync::mpsc::channel();
    let owner = Owner {
        device: Some(Arc::clone(&device)),
        doing,
        tell,
    };
    let sequence = submit(&*device, stop, &[], owner).unwrap();
    gate[0].wait();
    device.detach(sequence);
    drop(device);
    assert!(!channel.is_closed());
    gate[1].wait();
    if doing == Doing::DrainsLanding {
        assert_eq!(
            told.recv().unwrap(),
            Some(Unfinished::WouldDeadlock { sequence })
        );
    }
    assert_eq!(told.recv().unwrap(), None);
    assert!(channel.is_closed());
    Arc::downgrade(&channel)
}

#[test]
fn the_devices_own_thread_may_drop_close_and_outlive_it() {
    macro_rules! case {
        ($doing:ident) => {{
            let (started, release, stop) = gate!();
            last_owner(Doing::$doing, stop, [started, release])
        }};
    }
    for memory in [
        case!(Nothing),
        case!(DropsLanding),
        case!(ClosesLanding),
        case!(DrainsLanding),
    ] {
        // Nobody can join that thread, but it ends.
        while memory.strong_count() > 0 {
            thread::yield_now();
        }
    }
}

#[test]
fn a_wait_for_oneself_is_an_error() {
    // On a thread that aborts: the cargo lands there.
    let device = Arc::new(SoftDma::<Owner, 4>::open(Config::new(64)).unwrap());
    let (started, release, stop) = gate!();
    let (tell, told) = channel();
    let owner = |device, doing| Owner {
        device,
        doing,
        tell: tell.clone(),
    };
    let running = submit(&*device, stop, &[], owner(None, Doing::Nothing)).unwrap();
    started.wait();
    for doing in [Doing::DrainsLanding, Doing::WaitsLanding(running)] {
        let itself = owner(Some(Arc::clone(&device)), doing);
        let queued = submit(&*device, NOTHING, &[], itself).unwrap();
        device.abort(queued);
        assert_eq!(
            told.recv().unwrap(),
            Some(Unfinished::WouldDeadlock { sequence: running })
        );
        let aborted = device
            .wait(queued, &NoClock, None)
            .unwrap()
            .map_err(|lost| lost.error);
        assert_eq!(aborted.err(), Some(Fault::Aborted));
        assert_eq!(told.recv().unwrap(), None);
    }
    release.wait();
    device.drain(&NoClock, None).unwrap();
    assert!(device.wait(running, &NoClock, None).unwrap().is_ok());
}

#[test]
fn operands_out_of_the_devices_memory_are_refused() {
    let device = open::<4>();
    let inside = buffer(&device, &[0; 64]);
    let base = device.channel().base();
    let at = |offset: u64| Place::Device(base.checked_add(offset).unwrap());
    let end = MEMORY as u64;
    let mut byte = 0;
    let host = host_place(&mut byte);
    for (operand, reached) in [
        (read(&inside), true),
        (Operand::read(host, 1), false),
        (Operand::read(host, 0), false),
        (
            Operand::read(Place::Device(DeviceAddress::new(0)), 1),
            false,
        ),
        (
            Operand::read(Place::Device(DeviceAddress::new(base.get() - 1)), 1),
            false,
        ),
        (
            Operand::read(Place::Device(DeviceAddress::new(u64::MAX)), 2),
            false,
        ),
        (Operand::read(at(end - 1), 1), true),
        (Operand::read(at(end - 1), 2), false),
        (Operand::read(at(end), 0), true),
        (Operand::read(at(end), 1), false),
        (Operand::read(at(0), MEMORY), true),
        (Operand::read(at(0), MEMORY + 1), false),
        (Operand::read(at(1), usize::MAX), false),
    ] {
        let operands = [read(&inside), operand];
        match submit(&device, NOTHING, &operands, Load::new(8)) {
            Ok(sequence) => {
                assert!(reached, "{operand:?}");
                assert!(device.wait(sequence, &NoClock, None).unwrap().is_ok());
            }
            Err(Returned { error, value }) => {
                assert!(!reached, "{operand:?}");
                assert_eq!(error, SubmitError::Unreachable { operand: 1 });
                assert_eq!((value.id, value.landed), (8, None));
            }
        }
    }
}

#[test]
fn the_worker_sleeps_and_wakes_without_losing_a_submission() {
    // One at a time, so that the worker goes to sleep in between; from several threads, so that sleeps and
    // submissions meet.
    static RAN: AtomicU32 = AtomicU32::new(0);
    let device = open::<8>();
    let count = Command::Kernel(|_| {
        RAN.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    thread::scope(|scope| {
        for id in 0..4 {
            let device = &device;
            scope.spawn(move || {
                for _ in 0..500 {
                    let sequence = submit(device, count, &[], Load::new(id)).unwrap();
                    assert_eq!(
                        device.wait(sequence, &NoClock, None).unwrap().unwrap().id,
                        id
                    );
                }
            });
        }
    });
    assert_eq!(RAN.load(Ordering::Relaxed), 2000);
    assert_eq!(device.stats().completed, 2000);
    device.drain(&NoClock, None).unwrap();
}

#[test]
fn a_device_that_cannot_be_opened_says_why() {
    let open = |memory| SoftDma::<()>::open(Config::new(memory)).err();
    assert_eq!(open(0), Some(OpenError::NoMemory));
    for requested in [usize::MAX, isize::MAX.unsigned_abs()] {
        let Some(OpenError::TooLarge {
            requested: told,
            max,
        }) = open(requested)
        else {
            panic!("too large");
        };
        assert_eq!(told, requested);
        assert!(max < requested);
        assert_eq!(open(max), Some(OpenError::Memory { requested: max }));
    }
}

#[test]
fn devices_have_names_and_streams_of_their_own() {
    let [a, b] =
        ["a", "b\0c"].map(|name| SoftDma::<()>::open(Config::default().named(name)).unwrap());
    assert_ne!(a.stream(), b.stream());
    assert_eq!((a.channel().name(), b.channel().name()), ("a", "b\0c"));
    assert_eq!(a.channel().capacity(), 16 << 20);
    assert_ne!(a.channel().base(), b.channel().base());
}

#[test]
fn streams_come_back_with_the_device() {
    // More devices, one after the other, than there are streams.
    for _ in 0..2 * StreamId::MAX {
        drop(open::<1>());
    }
}

#[test]
fn everything_is_shown_and_the_device_is_shared() {
    fn shared<T: Send + Sync + core::fmt::Debug>() {}
    // Cargo crosses to the worker, and is never shared with it.
    struct Unshared(
        #[expect(dead_code, reason = "a type that is not `Sync`")] core::cell::Cell<u8>,
    );
    impl Cargo for Unshared {}
    shared::<SoftDma<Load>>();
    shared::<SoftDma<Unshared>>();
    shared::<Channel>();
    shared::<Config>();
    shared::<Ledger>();
    shared::<Stats>();
    shared::<OpenError>();
    let device = SoftDma::<(), 3>::open(Config::new(64).named("npu")).unwrap();
    let shown = format!("{device:?}");
    for part in ["SoftDma", "slots: 3", "npu", "completed: 0"] {
        assert!(shown.contains(part), "{shown}");
    }
    let descriptor = Descriptor::new(NOTHING, &[]).unwrap();
    // SAFETY: no operands.
    let sequence = unsafe { device.submit(descriptor, ()) }.unwrap();
    device.wait(sequence, &NoClock, None).unwrap().unwrap();
    let unknown = device.wait(sequence, &NoClock, None).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "how submission #1 ended was told already, if it ever was one"
    );
}

/// Does something when it lands.
struct Then(Option<Box<dyn FnOnce() + Send>>);
impl Cargo for Then {
    fn landed(&mut self, _: Result<(), Fault>) {
        if let Some(then) = self.0.take() {
            then();
        }
    }
}

#[test]
fn waiting_for_oneself_is_refused_also_when_two_devices_land_in_each_other() {
    let outer = Arc::new(SoftDma::<Then, 4>::open(Config::new(64)).unwrap());
    let inner = Arc::new(SoftDma::<Then, 4>::open(Config::new(64)).unwrap());
    let (started_outer, release_outer, stop_outer) = gate!();
    let (started_inner, release_inner, stop_inner) = gate!();
    // Both workers are busy, so that what is aborted has not started and lands on this thread.
    submit(&outer, stop_outer, &[], Then(None)).unwrap();
    submit(&inner, stop_inner, &[], Then(None)).unwrap();
    started_outer.wait();
    started_inner.wait();
    let (answer, answers) = std::sync::mpsc::channel();
    let drains = {
        let (outer, inner) = (Arc::clone(&outer), Arc::clone(&inner));
        move || {
            answer
                .send((outer.drain(&NoClock, None), inner.drain(&NoClock, None)))
                .expect("the test listens");
        }
    };
    let second = submit(&inner, NOTHING, &[], Then(Some(Box::new(drains)))).unwrap();
    let first = {
        let inner = Arc::clone(&inner);
        let aborts = move || inner.abort(second);
        submit(&outer, NOTHING, &[], Then(Some(Box::new(aborts)))).unwrap()
    };
    outer.abort(first);
    let sequence = Sequence::new(1);
    let itself = Err(Unfinished::WouldDeadlock { sequence });
    assert_eq!(answers.recv(), Ok((itself, itself)));
    release_outer.wait();
    release_inner.wait();
}

#[test]
fn a_waker_on_the_devices_thread_does_not_wait_for_the_device() {
    /// Waits for the device that woke it.
    struct Waits(Arc<SoftDma<(), 4>>, Sender<Result<(), Unfinished>>);
    impl Wake for Waits {
        fn wake(self: Arc<Self>) {
            let drained = self.0.drain(&NoClock, None);
            self.1.send(drained).expect("the test listens");
        }
    }
    let device = Arc::new(SoftDma::<(), 4>::open(Config::new(64)).unwrap());
    let stall = device.faults().stall_launch(1);
    let [first, sequence] = [(); 2].map(|()| submit(&*device, NOTHING, &[], ()).unwrap());
    assert!(stall.wait_reached());
    let (tell, told) = channel();
    let waker = Waker::from(Arc::new(Waits(Arc::clone(&device), tell)));
    assert!(device.poll(first, Some(&waker)).is_pending());
    drop(waker);
    stall.release();
    let itself = Err(Unfinished::WouldDeadlock { sequence });
    assert_eq!(told.recv(), Ok(itself));
    assert_eq!(device.drain(&NoClock, None), Ok(()));
}
