//! Who stops waiting, against who ends an access: deadlines, tasks that are dropped, and tensors that go meanwhile.
//!
//! Memory and control blocks are those of [`models`]: a storage that is freed twice, or used after it was freed, fails the
//! model, and so does a wake that is lost.

mod models;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use loom::sync::atomic::Ordering;
use loom::sync::{Condvar, Mutex};
use loom::thread;
use models::{Cell, Model, Served, assert_whole, explore, fresh, read, streams};
use wharf_engine::{Command, DescriptorQueue, EngineExt};
use wharf_sync::Event;
use wharf_tensor::{Access, Launch, Tensor, TensorError};

/// What a task sleeps on.
#[derive(Default)]
struct Woken {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

/// Runs a future to its end; sleeps only if nobody has woken it.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let mut flag = woken.woken.lock().unwrap();
        while !*flag {
            flag = woken.changed.wait(flag).unwrap();
        }
        *flag = false;
    }
}

/// Polls once, and drops it.
fn glance<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Freed once, and by whoever was last: the bytes, and the handle on the backend.
fn assert_freed(cell: &Arc<Cell>) {
    assert_eq!(cell.reclaimed.load(Ordering::Relaxed), 1);
    assert_eq!(Arc::strong_count(cell), 1);
}

/// How somebody waits a little, and goes.
type Impatient = fn(&Tensor<Model>);

fn timed_read(tensor: &Tensor<Model>) {
    let mut bytes = [9; 2];
    match tensor.within(Duration::ZERO).read(0, &mut bytes) {
        Ok(()) => assert_whole(bytes, &[1]),
        Err(TensorError::TimedOut { .. }) => assert_eq!(bytes, [9; 2]),
        Err(other) => panic!("{other}"),
    }
}

fn timed_write(tensor: &Tensor<Model>) {
    match tensor.within(Duration::ZERO).write(0, &[2; 2]) {
        Ok(()) | Err(TensorError::TimedOut { .. }) => {}
        Err(other) => panic!("{other}"),
    }
}

fn glanced_read(tensor: &Tensor<Model>) {
    let mut bytes = [9; 2];
    match glance(tensor.when_ready().read(0, &mut bytes)) {
        Poll::Ready(done) => {
            done.unwrap();
            assert_whole(bytes, &[1]);
        }
        Poll::Pending => assert_eq!(bytes, [9; 2]),
    }
}

fn glanced_write(tensor: &Tensor<Model>) {
    let _ = glance(tensor.when_ready().write(0, &[2; 2])).map(Result::unwrap);
}

const IMPATIENT: [Impatient; 4] = [timed_read, timed_write, glanced_read, glanced_write];

/// A ticket that may be the last to keep the storage ends while somebody who waited for it leaves with the last tensor.
#[test]
fn a_waiter_leaves_with_the_last_tensor_while_the_last_ticket_ends() {
    let (stream, _other) = streams();
    let id = stream.id();
    for impatient in IMPATIENT {
        explore(4, move || {
            let (cell, tensor) = fresh();
            let ticket = tensor.begin(Access::Write, id).unwrap();
            let memory = cell.clone();
            let device = thread::spawn(move || {
                memory.device_writes(1);
                drop(ticket);
            });
            impatient(&tensor);
            drop(tensor);
            device.join().unwrap();
            assert_freed(&cell);
        });
    }
}

/// The same with two tickets, of which either may be the last.
#[test]
fn a_waiter_leaves_with_the_last_tensor_while_two_tickets_end() {
    let (one, _two) = streams();
    let id = one.id();
    for impatient in [timed_write as Impatient, glanced_write] {
        explore(3, move || {
            let (cell, tensor) = fresh();
            let tickets = [0; 2].map(|_| tensor.begin(Access::Read, id).unwrap());
            let devices = tickets.map(|ticket| thread::spawn(move || drop(ticket)));
            impatient(&tensor);
            drop(tensor);
            for device in devices {
                device.join().unwrap();
            }
            assert_freed(&cell);
        });
    }
}

/// Who takes the segment out meets a ticket that has become a holder in order to wake somebody.
#[test]
fn a_segment_is_taken_out_only_when_the_ticket_is_through() {
    let (stream, _other) = streams();
    let id = stream.id();
    for impatient in IMPATIENT {
        explore(4, move || {
            let (cell, tensor) = fresh();
            let ticket = tensor.begin(Access::Write, id).unwrap();
            let memory = cell.clone();
            let device = thread::spawn(move || {
                memory.device_writes(1);
                drop(ticket);
            });
            impatient(&tensor);
            match tensor.into_segment() {
                Ok(segment) => {
                    let mut bytes = [0; 2];
                    segment.read(0, &mut bytes).unwrap();
                    assert_whole(bytes, &[1, 2]);
                }
                Err(refused) => drop(refused.value),
            }
            device.join().unwrap();
            assert_freed(&cell);
        });
    }
}

/// Who takes the segment out meets another tensor that gives a device access, and goes.
#[test]
fn a_segment_is_not_taken_from_a_device_that_came_meanwhile() {
    let (stream, _other) = streams();
    let id = stream.id();
    explore(4, move || {
        let (cell, tensor) = fresh();
        let (memory, shared) = (cell.clone(), tensor.clone());
        let device = thread::spawn(move || {
            let ticket = shared.begin(Access::Write, id).unwrap();
            drop(shared);
            memory.device_writes(1);
            drop(ticket);
        });
        match tensor.into_segment() {
            Ok(segment) => {
                let mut bytes = [0; 2];
                segment.read(0, &mut bytes).unwrap();
                assert_eq!(bytes, [1; 2]);
            }
            Err(refused) => drop(refused.value),
        }
        device.join().unwrap();
        assert_freed(&cell);
    });
}

#[test]
fn a_task_wakes_when_the_ticket_is_dropped_elsewhere() {
    let (stream, _other) = streams();
    let id = stream.id();
    for access in [Access::Read, Access::Write] {
        explore(3, move || {
            let (cell, tensor) = fresh();
            let ticket = tensor.begin(access, id).unwrap();
            let device = thread::spawn(move || {
                if access == Access::Write {
                    cell.device_writes(2);
                }
                drop(ticket);
            });
            block_on(async {
                if access == Access::Write {
                    let mut bytes = [0; 2];
                    tensor.when_ready().read(0, &mut bytes).await.unwrap();
                    assert_eq!(bytes, [2; 2]);
                }
                tensor.when_ready().write(0, &[1; 2]).await.unwrap();
            });
            assert_eq!(read(&tensor), [1; 2]);
            device.join().unwrap();
        });
    }
}

/// The first of two writers goes away; the second one still has its mark, and is served.
#[test]
fn the_second_pending_writer_keeps_its_mark() {
    let (stream, _other) = streams();
    let id = stream.id();
    for impatient in [timed_write as Impatient, glanced_write] {
        explore(3, move || {
            let (_cell, tensor) = fresh();
            let ticket = tensor.begin(Access::Read, id).unwrap();
            let mut second = Box::pin(tensor.when_ready().write(0, &[1; 2]));
            let woken = Arc::new(Woken::default());
            let waker = Waker::from(woken);
            let mut context = Context::from_waker(&waker);
            assert!(second.as_mut().poll(&mut context).is_pending());
            let shared = tensor.clone();
            let first = thread::spawn(move || impatient(&shared));
            // A reader could join the device, if nobody were pending.
            let reader = tensor.try_read(0, &mut [0; 2]);
            assert!(matches!(reader, Err(TensorError::WouldBlock { .. })));
            first.join().unwrap();
            let reader = tensor.try_read(0, &mut [0; 2]);
            assert!(matches!(reader, Err(TensorError::WouldBlock { .. })));
            drop(ticket);
            block_on(second).unwrap();
            let last = tensor.try_write(0, &[3; 2]);
            assert_eq!(last, Ok(()), "nobody is left in the queue");
        });
    }
}

/// A writer that is dropped lets those behind it in, whatever they wait with.
#[test]
fn who_waits_behind_a_writer_is_woken_when_it_is_dropped() {
    let (stream, _other) = streams();
    let id = stream.id();
    explore(3, move || {
        let (_cell, tensor) = fresh();
        let ticket = tensor.begin(Access::Read, id).unwrap();
        let mut writer = Box::pin(tensor.when_ready().write(0, &[1; 2]));
        let mut context = Context::from_waker(Waker::noop());
        assert!(writer.as_mut().poll(&mut context).is_pending());
        let shared = tensor.clone();
        let reader = thread::spawn(move || assert_eq!(read(&shared), [0; 2]));
        let shared = tensor.clone();
        let task = thread::spawn(move || {
            let mut bytes = [9; 2];
            block_on(shared.when_ready().read(0, &mut bytes)).unwrap();
            assert_eq!(bytes, [0; 2]);
        });
        drop(writer);
        reader.join().unwrap();
        task.join().unwrap();
        drop(ticket);
    });
}

#[test]
fn tasks_that_copy_the_opposite_way_do_not_wait_for_each_other_in_a_circle() {
    explore(2, || {
        let (_, left) = fresh();
        let (_, right) = fresh();
        left.write(0, &[1; 2]).unwrap();
        right.write(0, &[2; 2]).unwrap();
        let (a, b) = (left.clone(), right.clone());
        let other = thread::spawn(move || block_on(a.when_ready().copy_from(&b)).unwrap());
        block_on(right.when_ready().copy_from(&left)).unwrap();
        other.join().unwrap();
        let (left, right) = (read(&left), read(&right));
        assert_eq!(left, right);
        assert_whole(left, &[1, 2]);
    });
}

/// An engine of a thread of its own.
fn serve(id: wharf_engine::StreamId, cell: Arc<Cell>) -> (Arc<Served>, thread::JoinHandle<()>) {
    let engine = Arc::new(Served {
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
            let submitted = served.queue.submitted();
            submitted.wait(seen, &wharf_sync::NoClock, None);
        }
    });
    (engine, worker)
}

#[test]
fn a_submission_is_awaited_and_a_dropped_one_lets_the_tensor_go() {
    let (stream, _other) = streams();
    let id = stream.id();
    for waits in [true, false] {
        explore(2, move || {
            let (cell, tensor) = fresh();
            let (engine, worker) = serve(id, cell.clone());
            let operands = [tensor.output()];
            let submission = block_on(engine.launch_when_ready(Command::Fill(5), &operands));
            let mut submission = submission.unwrap();
            if waits {
                block_on(&mut submission).unwrap();
                assert_eq!(read(&tensor), [5; 2]);
            } else {
                let _ = glance(submission).map(Result::unwrap);
            }
            drop(tensor);
            worker.join().unwrap();
            assert_eq!(engine.queue.in_use(), 0);
            assert_freed(&cell);
        });
    }
}

#[test]
fn a_drained_engine_has_let_go_of_the_tensor() {
    let (stream, _other) = streams();
    let id = stream.id();
    for task in [true, false] {
        explore(3, move || {
            let (cell, tensor) = fresh();
            let (engine, worker) = serve(id, cell.clone());
            let submission = engine.launch(Command::Fill(5), &[tensor.output()]).unwrap();
            drop(submission);
            if task {
                block_on(engine.drained());
            } else {
                engine.drain(&wharf_sync::NoClock, None).unwrap();
            }
            assert_eq!(tensor.in_flight(), (0, 0));
            assert_eq!(read(&tensor), [5; 2]);
            worker.join().unwrap();
        });
    }
}
