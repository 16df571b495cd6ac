//! The same copies, as a task awaits them: polled and dropped by hand, the engines stepped in between.

use super::*;

#[test]
fn an_awaited_copy_does_what_a_blocking_one_does() {
    for len in [0, 1, 7, 8, 9, 40] {
        for size in [1, 2, 3, 8, 16, 100] {
            let bench = Bench::new(len);
            let bounce = bench.bounce(size);
            let (_, copied) = steps(&bench, &mut awaited(&bench, &bounce));
            assert_eq!(copied, Ok(()), "{len} through {size}");
            bench.assert_arrived(len);
            assert_eq!(bounce.try_fill(0), Ok(()), "whole again");
            let half = if size < 2 { size } else { size / 2 };
            let jobs = bench.engines.each_ref().map(|engine| engine.jobs.get());
            assert_eq!(jobs, [len.div_ceil(half); 2], "{len} through {size}");
        }
    }
}

#[test]
fn an_awaited_copy_that_fails_has_nothing_under_way_and_says_how_much_has_arrived() {
    for engine in 0..2 {
        for nth in 1..=4 {
            let bench = Bench::new(10);
            bench.engines[engine].fails.set(nth);
            let bounce = bench.bounce(6);
            let (_, failed) = steps(&bench, &mut awaited(&bench, &bounce));
            let done = 3 * (nth - 1);
            let expected = CopyError {
                done,
                len: 10,
                cause: CopyFault::Wait(WaitError::Fault(FAULT)),
            };
            assert_eq!(failed, Err(expected), "{engine} {nth}");
            bench.assert_arrived(done);
            assert_eq!(bounce.try_fill(0), Ok(()));
        }
        // Closed after so many polls.
        let bench = Bench::new(10);
        let bounce = bench.bounce(6);
        let (pending, _) = steps(&bench, &mut awaited(&bench, &bounce));
        for after in 0..pending {
            let bench = Bench::new(10);
            let bounce = bench.bounce(6);
            let mut task = awaited(&bench, &bounce);
            for step in 0..after {
                task.waits();
                bench.engines[step % 2].step();
            }
            bench.engines[engine].queue.close();
            let copied = steps(&bench, &mut task).1;
            drop(task);
            let done = copied.map_or_else(|failed| failed.done, |()| 10);
            // After the last piece was handed over, a close comes too late.
            assert!(after > 0 || done == 0, "{done}");
            assert!(done < 10 || copied.is_ok());
            bench.assert_arrived(done);
            assert_eq!(bounce.try_fill(0), Ok(()));
        }
    }
}

#[test]
fn an_awaited_copy_may_be_dropped_at_every_poll() {
    // A bounce that is cut, and one that cannot be.
    for size in [6, 1] {
        let mut at_last = false;
        for polls in 0.. {
            let bench = Bench::new(10);
            let bounce = bench.bounce(size);
            let mut task = awaited(&bench, &bounce);
            for step in 0..polls {
                if task.poll().is_ready() {
                    at_last = true;
                    break;
                }
                bench.engines[step % 2].step();
            }
            drop(task);
            // What is under way has memory of its own accord, and keeps others out of it.
            let under_way = bench.engines.each_ref().map(|engine| engine.queue.in_use());
            assert!(under_way.iter().sum::<usize>() <= 2);
            let storage = |tensor: &Tensor<Mixed>| tensor.storage_id().unwrap();
            let (source, destination) = (storage(&bench.source), storage(&bench.destination));
            let taken = |busy: usize, storage| match busy {
                0 => Ok(()),
                _ => Err(TensorError::WouldBlock { storage }),
            };
            assert_eq!(bench.source.try_write(0, &[]), taken(under_way[0], source));
            assert_eq!(
                bench.destination.try_read(0, &mut []),
                taken(under_way[1], destination)
            );
            let jobs = bench.engines.each_ref().map(|engine| engine.jobs.get());
            for engine in &bench.engines {
                engine.step();
                engine.step();
            }
            // They run to their ends, and none comes after them.
            for (engine, (jobs, busy)) in bench.engines.iter().zip(jobs.iter().zip(under_way)) {
                assert_eq!(engine.jobs.get(), jobs + busy);
            }
            let half = if size < 2 { size } else { size / 2 };
            let done = (bench.engines[1].jobs.get() * half).min(10);
            bench.assert_arrived(done);
            assert_eq!(bounce.try_fill(0), Ok(()), "whole again");
            if at_last {
                assert_eq!(done, 10);
                break;
            }
            // Once more, and to its end.
            bench.source.write(0, &ramp(10)).unwrap();
            assert_eq!(steps(&bench, &mut awaited(&bench, &bounce)).1, Ok(()));
            bench.assert_arrived(10);
        }
    }
}

#[test]
fn an_awaited_copy_waits_for_one_tensor_and_keeps_nobody_from_the_other() {
    for waits_for_source in [true, false] {
        let bench = Bench::new(8);
        let bounce = bench.bounce(4);
        let stream = Stream::claim().unwrap();
        let (busy, free) = if waits_for_source {
            (&bench.source, &bench.destination)
        } else {
            (&bench.destination, &bench.source)
        };
        let ticket = busy.begin(Access::Write, stream.id()).unwrap();
        let mut task = awaited(&bench, &bounce);
        task.waits();
        assert_eq!(free.try_write(0, &[]), Ok(()));
        assert_eq!(bounce.try_write(0, &[]), Ok(()), "not cut yet");
        drop(task);
        assert_eq!(bounce.try_fill(0), Ok(()));
        let mut task = awaited(&bench, &bounce);
        task.waits();
        drop(ticket);
        assert_eq!(task.woken(), 1);
        assert_eq!(steps(&bench, &mut task).1, Ok(()));
        drop(task);
        bench.assert_arrived(8);
    }
}

#[test]
fn what_does_not_fit_is_told_to_the_task_too() {
    let bench = Bench::new(8);
    let [reader, writer] = bench.engines.each_ref().map(|engine| &**engine);
    let bounce = bench.bounce(4);
    let copy = |to: &Tensor<Mixed>, from: &Tensor<Mixed>, bounce: &Tensor<Mixed>| {
        let mut task = Task::new(to.copy_through_when_ready(from, bounce, reader, writer));
        let refused = task.done().unwrap_err();
        assert_eq!((refused.done, refused.len), (0, to.len()));
        refused.cause
    };
    let (to, from) = (&bench.destination, &bench.source);
    let mismatch = TensorError::LengthMismatch {
        destination: 8,
        source: 7,
    };
    let short = from.slice(1..).unwrap();
    assert_eq!(copy(to, &short, &bounce), CopyFault::Tensor(mismatch));
    let (low, high) = (from.slice(..4).unwrap(), from.slice(4..).unwrap());
    let storage = from.storage_id().unwrap();
    let same = CopyFault::SameStorage { storage };
    assert_eq!(copy(&low, &high, &bounce), same);
    let bounds = TensorError::OutOfBounds {
        offset: 0,
        len: 1,
        size: 0,
    };
    let none = bounce.slice(..0).unwrap();
    assert_eq!(copy(to, from, &none), CopyFault::Tensor(bounds));
    let guard = bounce.lend().unwrap();
    let storage = bounce.storage_id().unwrap();
    let guarded = CopyFault::Tensor(TensorError::Guarded { storage });
    assert_eq!(copy(to, from, &bounce), guarded);
    drop(guard);
    bench.assert_arrived(0);
}
