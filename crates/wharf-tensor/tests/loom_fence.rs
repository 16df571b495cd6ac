//! The fence under every interleaving (within the bounds below) of the threads that pass it.
//!
//! The bytes are in a loom cell: an access beside a write, or one that a write does not happen before, fails the
//! model, also where the values would come out right. A wait that nobody ends is a deadlock, and fails it too.

mod models;

use std::sync::Arc;

use loom::sync::atomic::Ordering;
use loom::thread;
use models::{Served, assert_whole, device, explore, fresh, read, streams};
use wharf_engine::{Command, DescriptorQueue};
use wharf_sync::Event;
use wharf_tensor::{Access, Launch};

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
