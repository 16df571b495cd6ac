//! Operations that tasks await: what they wait for, and that dropping one at any poll leaves nothing behind.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use crate::common::tasks::Task;
use crate::common::{Books, Device, Stepped};
use wharf_backend::Heap;
use wharf_engine::{Command, Engine, Fault, Stream, StreamId, SubmitError};
use wharf_sync::{Blocking, Critical, NoClock, SyncPolicy, Unsync};
use wharf_tensor::{
    Access, Launch, LaunchError, NoTrace, Parts, Target, Tensor, TensorError, WaitError,
};

type Sketch<P> = Parts<Heap<P>, Arc<Books>>;

/// A target that keeps books of its control blocks, and tensors of it.
fn target<P: SyncPolicy>() -> Sketch<P> {
    Sketch::with(Arc::default(), NoClock, NoTrace)
}

fn tensor<P: SyncPolicy>(target: &Sketch<P>, bytes: &[u8]) -> Tensor<Sketch<P>> {
    let tensor = Tensor::alloc(target, Heap::new(), bytes.len()).unwrap();
    tensor.write(0, bytes).unwrap();
    tensor
}

fn bytes<P: SyncPolicy>(tensor: &Tensor<Sketch<P>>) -> Vec<u8> {
    tensor.try_lend().unwrap().to_vec()
}

/// What an awaited operation answers: the bytes it saw, or none.
type Answer = Result<Vec<u8>, TensorError>;
type Operation<P> =
    for<'t> fn(&'t Tensor<Sketch<P>>, &'t Tensor<Sketch<P>>, StreamId) -> Task<'t, Answer>;

/// Every operation; whether it writes; what it answers; what the tensor holds after it, from `[1, 2]` beside `[3, 4]`.
type Row<P> = (Operation<P>, bool, &'static [u8], [u8; 2]);

fn operations<P: SyncPolicy>() -> [Row<P>; 8] {
    [
        (
            |tensor, _, _| {
                Task::new(async {
                    let mut bytes = vec![0; 2];
                    tensor.when_ready().read(0, &mut bytes).await?;
                    Ok(bytes)
                })
            },
            false,
            &[1, 2],
            [1, 2],
        ),
        (
            |tensor, _, _| {
                Task::new(async {
                    tensor.when_ready().write(1, &[9]).await?;
                    Ok(vec![])
                })
            },
            true,
            &[],
            [1, 9],
        ),
        (
            |tensor, _, _| {
                Task::new(async {
                    tensor.when_ready().fill(9).await?;
                    Ok(vec![])
                })
            },
            true,
            &[],
            [9, 9],
        ),
        (
            |tensor, other, _| {
                Task::new(async {
                    tensor.when_ready().copy_from(other).await?;
                    Ok(vec![])
                })
            },
            true,
            &[],
            [3, 4],
        ),
        (
            |tensor, _, _| Task::new(async { Ok(tensor.when_ready().lend().await?.to_vec()) }),
            false,
            &[1, 2],
            [1, 2],
        ),
        (
            |tensor, _, _| {
                Task::new(async {
                    let mut guard = tensor.when_ready().lend_mut().await?;
                    guard[0] = 8;
                    Ok(guard.to_vec())
                })
            },
            true,
            &[8, 2],
            [8, 2],
        ),
        (
            |tensor, _, stream| {
                Task::new(async move {
                    let ticket = tensor.when_ready().begin(Access::Read, stream).await?;
                    assert!(tensor.in_flight().0 >= 1);
                    drop(ticket);
                    Ok(vec![])
                })
            },
            false,
            &[],
            [1, 2],
        ),
        (
            |tensor, _, stream| {
                Task::new(async move {
                    let ticket = tensor.when_ready().begin(Access::Write, stream).await?;
                    assert_eq!(tensor.in_flight(), (0, 1));
                    drop(ticket);
                    Ok(vec![])
                })
            },
            true,
            &[],
            [1, 2],
        ),
    ]
}

/// Runs `check` for every operation under every policy.
macro_rules! for_each_policy {
    ($check:ident) => {{
        operations::<Unsync>()
            .into_iter()
            .for_each($check::<Unsync>);
        operations::<Critical>()
            .into_iter()
            .for_each($check::<Critical>);
        operations::<Blocking>()
            .into_iter()
            .for_each($check::<Blocking>);
    }};
}

#[test]
fn an_operation_waits_for_a_device_and_is_woken_by_its_end() {
    fn check<P: SyncPolicy>((operation, writes, answer, after): Row<P>) {
        let streams = [Stream::claim().unwrap(), Stream::claim().unwrap()];
        let target = target::<P>();
        for access in [Access::Read, Access::Write] {
            let (tensor, other) = (tensor(&target, &[1, 2]), tensor(&target, &[3, 4]));
            let device = tensor.begin(access, streams[0].id()).unwrap();
            let mut task = operation(&tensor, &other, streams[1].id());
            if writes || access == Access::Write {
                task.waits();
                task.waits();
                assert_eq!(task.woken(), 0);
                drop(device);
                assert_eq!(task.woken(), 1);
                assert_eq!(task.done(), Ok(answer.to_vec()));
            } else {
                assert_eq!(task.done(), Ok(answer.to_vec()), "both only read");
                drop(device);
            }
            drop(task);
            assert_eq!(
                (bytes(&tensor), bytes(&other)),
                (after.to_vec(), vec![3, 4])
            );
            tensor.try_fill(0).unwrap();
            other.try_fill(0).unwrap();
        }
        assert_eq!(target.source().blocks(), 0);
    }
    for_each_policy!(check);
}

#[test]
fn an_operation_that_is_dropped_at_any_poll_has_done_nothing_and_leaves_nothing() {
    fn check<P: SyncPolicy>((operation, ..): Row<P>) {
        let streams = [Stream::claim().unwrap(), Stream::claim().unwrap()];
        let target = target::<P>();
        for access in [Access::Read, Access::Write] {
            // The access ends before the drop, or after it.
            for (polls, ended) in [(0, false), (1, false), (2, false), (1, true), (0, true)] {
                let (tensor, other) = (tensor(&target, &[1, 2]), tensor(&target, &[3, 4]));
                let device = tensor.begin(access, streams[0].id()).unwrap();
                let mut task = operation(&tensor, &other, streams[1].id());
                let mut pending = true;
                for _ in 0..polls {
                    pending = pending && task.poll().is_pending();
                }
                if !pending {
                    continue;
                }
                // Somebody behind it, if it is a writer that waits.
                let mut behind = [0; 2];
                let mut reader = Task::new(tensor.when_ready().read(0, &mut behind));
                let waits = reader.poll().is_pending();
                let device = if ended {
                    drop(device);
                    None
                } else {
                    Some(device)
                };
                drop(task);
                if access == Access::Read {
                    // No mark of it keeps readers out.
                    assert!(!waits || reader.woken() > 0, "a wake was lost");
                    if waits {
                        assert_eq!(reader.done(), Ok(()));
                    }
                    tensor.try_read(0, &mut [0]).unwrap();
                }
                drop(device);
                if waits && access == Access::Write {
                    assert!(reader.woken() > 0, "a wake was lost");
                    assert_eq!(reader.done(), Ok(()));
                }
                drop(reader);
                assert_eq!((tensor.in_flight(), behind), ((0, 0), [1, 2]));
                assert_eq!((bytes(&tensor), bytes(&other)), (vec![1, 2], vec![3, 4]));
                tensor.try_fill(0).unwrap();
                other.try_fill(0).unwrap();
            }
        }
        assert_eq!(target.source().blocks(), 0);
    }
    for_each_policy!(check);
}

#[test]
fn a_suspended_task_holds_no_access() {
    fn check<P: SyncPolicy>() {
        let stream = Stream::claim().unwrap();
        let target = target::<P>();
        for busy in [0, 1] {
            let pair = [tensor(&target, &[1, 2]), tensor(&target, &[3, 4])];
            let device = pair[busy].begin(Access::Write, stream.id()).unwrap();
            let mut copy = Task::new(pair[0].when_ready().copy_from(&pair[1]));
            copy.waits();
            // The one that is not waited for is anybody's.
            pair[1 - busy].try_fill(7).unwrap();
            drop(device);
            assert_eq!(copy.woken(), 1);
            copy.done().unwrap();
            drop(copy);
            let expected = [vec![3, 4], vec![7, 7]];
            assert_eq!(bytes(&pair[0]), expected[1 - busy]);
        }
        // Both are in use, and come free one by one.
        let pair = [tensor(&target, &[1, 2]), tensor(&target, &[3, 4])];
        let [to, from] =
            [&pair[0], &pair[1]].map(|tensor| tensor.begin(Access::Write, stream.id()).unwrap());
        let mut copy = Task::new(pair[0].when_ready().copy_from(&pair[1]));
        copy.waits();
        drop(to);
        copy.waits();
        pair[0].try_fill(5).unwrap();
        drop(from);
        copy.done().unwrap();
        drop(copy);
        assert_eq!(bytes(&pair[0]), [3, 4]);
    }
    check::<Unsync>();
    check::<Critical>();
    check::<Blocking>();
}

#[test]
fn a_copy_inside_one_storage_does_not_wait_for_itself() {
    let target = target::<Unsync>();
    let all = tensor(&target, &[1, 2, 3, 4, 5]);
    let (from, to) = (all.slice(..4).unwrap(), all.slice(1..).unwrap());
    let mut copy = Task::new(to.when_ready().copy_from(&from));
    copy.done().unwrap();
    drop(copy);
    assert_eq!(bytes(&all), [1, 1, 2, 3, 4]);
}

#[test]
fn more_tasks_than_an_event_has_room_for_are_all_served() {
    fn check<P: SyncPolicy>() {
        let stream = Stream::claim().unwrap();
        let target = target::<P>();
        let tensor = tensor(&target, &[0; 7]);
        let device = tensor.begin(Access::Write, stream.id()).unwrap();
        let mut tasks: Vec<_> = (0..7)
            .map(|index| {
                let tensor = &tensor;
                Task::new(async move {
                    if index % 2 == 0 {
                        tensor.when_ready().write(index, &[9]).await
                    } else {
                        tensor.when_ready().read(0, &mut [0; 7]).await
                    }
                })
            })
            .collect();
        let mut seen = vec![0; tasks.len()];
        tasks.iter_mut().for_each(Task::waits);
        drop(device);
        // An executor: polls who was woken, until nobody was.
        let mut left: Vec<_> = (0..tasks.len()).collect();
        for _ in 0..100 {
            left.retain(|&index| {
                let woken = tasks[index].woken();
                let due = std::mem::replace(&mut seen[index], woken) != woken;
                !(due && tasks[index].poll().is_ready())
            });
        }
        assert_eq!(left, [] as [usize; 0], "not woken any more");
        drop(tasks);
        assert_eq!(bytes(&tensor), [9, 0, 9, 0, 9, 0, 9]);
    }
    check::<Unsync>();
    check::<Critical>();
    check::<Blocking>();
}

#[test]
fn a_guard_or_a_split_is_not_awaited() {
    let target = target::<Unsync>();
    let tensor = tensor(&target, &[1, 2]);
    let storage = tensor.storage_id().unwrap();
    let guard = tensor.lend().unwrap();
    let refused = Task::new(tensor.when_ready().fill(0)).done();
    assert_eq!(refused, Err(TensorError::Guarded { storage }));
    assert_eq!(
        Task::new(tensor.when_ready().read(0, &mut [0])).done(),
        Ok(())
    );
    drop(guard);
    let parts = tensor.split(1).unwrap();
    let refused = Task::new(tensor.when_ready().read(0, &mut [0])).done();
    assert_eq!(refused, Err(TensorError::Split { storage }));
    drop(parts);

    // A guard that is there when a device has gone, too.
    let stream = Stream::claim().unwrap();
    let device = tensor.begin(Access::Read, stream.id()).unwrap();
    let mut writer = Task::new(tensor.when_ready().fill(0));
    let guard = tensor.lend().unwrap();
    assert_eq!(writer.done(), Err(TensorError::Guarded { storage }));
    drop((guard, device));
    drop(writer);
    tensor.try_fill(3).unwrap();
}

#[test]
fn what_can_never_be_is_said_in_the_first_poll() {
    let target = target::<Unsync>();
    let tensor = tensor(&target, &[1, 2]);
    let stream = Stream::claim().unwrap();
    let _device = tensor.begin(Access::Write, stream.id()).unwrap();
    let outside = TensorError::OutOfBounds {
        offset: usize::MAX,
        len: 1,
        size: 2,
    };
    let mut byte = [0];
    let refused = Task::new(tensor.when_ready().read(usize::MAX, &mut byte)).done();
    assert_eq!(refused, Err(outside));
    let refused = Task::new(tensor.when_ready().write(usize::MAX, &byte)).done();
    assert_eq!(refused, Err(outside));
    let short = tensor.slice(1..).unwrap();
    let refused = Task::new(tensor.when_ready().copy_from(&short)).done();
    let lengths = TensorError::LengthMismatch {
        destination: 2,
        source: 1,
    };
    assert_eq!(refused, Err(lengths));
    let empty = Tensor::<Sketch<Unsync>>::empty();
    assert_eq!(
        Task::new(empty.when_ready().fill(0)).done(),
        Err(TensorError::NoStorage)
    );

    type Far = Parts<Arc<Device<Unsync>>, Arc<Books>>;
    let far = Far::with(Arc::default(), NoClock, NoTrace);
    #[expect(
        clippy::arc_with_non_send_sync,
        reason = "`Arc` is the counted reference of backends"
    )]
    let far = Tensor::alloc(&far, Arc::new(Device::new()), 2).unwrap();
    let _device = far.begin(Access::Write, stream.id()).unwrap();
    let storage = far.storage_id().unwrap();
    let refused = Task::new(far.when_ready().lend()).done().map(drop);
    assert_eq!(refused, Err(TensorError::NotHostAddressable { storage }));
}

#[test]
fn a_forgotten_future_keeps_its_place_and_no_memory() {
    let streams = [Stream::claim().unwrap(), Stream::claim().unwrap()];
    let engine = Stepped::<Sketch<Unsync>>::new();
    for writes in [false, true] {
        let target = target::<Unsync>();
        let tensor = tensor(&target, &[1, 2]);
        let device = tensor.begin(Access::Write, streams[0].id()).unwrap();
        {
            let operands = if writes {
                [tensor.output()]
            } else {
                [tensor.input()]
            };
            let nothing = Command::Kernel(|_| Ok(()));
            // This one may be forgotten where it stands, without a leak of its own.
            let mut launch = engine.launch_when_ready(nothing, &operands);
            let mut context = Context::from_waker(Waker::noop());
            assert!(Pin::new(&mut launch).poll(&mut context).is_pending());
            std::mem::forget(launch);
        }
        drop(device);
        // A reader keeps nobody out; a writer those who come after it.
        let would_block = TensorError::WouldBlock {
            storage: tensor.storage_id().unwrap(),
        };
        let expected = if writes { Err(would_block) } else { Ok(()) };
        assert_eq!(tensor.try_read(0, &mut [0]), expected);
        assert_eq!(tensor.try_fill(3), expected);
        let other = tensor.try_begin(Access::Read, streams[1].id());
        assert_eq!(other.map(drop), expected);
        // And the bytes are not lost.
        assert_eq!(
            &*tensor.into_segment().unwrap(),
            if writes { &[1, 2] } else { &[3, 3] }
        );
        assert_eq!(target.source().blocks(), 0);
    }
    assert_eq!(engine.outstanding(), None);
}

#[test]
fn a_launch_waits_for_each_of_its_operands_and_holds_none_meanwhile() {
    fn check<P: SyncPolicy>() {
        let streams = [Stream::claim().unwrap(), Stream::claim().unwrap()];
        let engine = Stepped::<Sketch<P>>::new();
        let target = target::<P>();
        let (from, to) = (tensor(&target, &[1, 2]), tensor(&target, &[3, 4]));
        let operands = [from.input(), to.output()];
        for polls in 0..3 {
            let device = to.begin(Access::Read, streams[0].id()).unwrap();
            let mut launch = Task::new(engine.launch_when_ready(Command::Copy, &operands));
            for _ in 0..polls {
                launch.waits();
                assert_eq!((from.in_flight(), to.in_flight()), ((0, 0), (1, 0)));
                from.try_write(0, &[1]).unwrap();
            }
            let reader = to.try_read(0, &mut [0]);
            assert_eq!(
                reader.is_err(),
                polls > 0,
                "a writer that waits has a place"
            );
            drop(launch);
            to.try_read(0, &mut [0]).unwrap();
            assert_eq!(engine.outstanding(), None);
            drop(device);
            to.try_write(0, &[3]).unwrap();
        }

        // One after the other comes free.
        let [one, two] = [&from, &to].map(|one| one.begin(Access::Write, streams[0].id()).unwrap());
        let mut launch = Task::new(engine.launch_when_ready(Command::Copy, &operands));
        launch.waits();
        drop(one);
        assert_eq!(launch.woken(), 1);
        launch.waits();
        from.try_write(0, &[1]).unwrap();
        drop(two);
        let submission = launch.done().unwrap();
        assert_eq!((from.in_flight(), to.in_flight()), ((1, 0), (0, 1)));
        drop(launch);

        // What it is ready with is a future of the work.
        let mut work = Task::new(submission);
        work.waits();
        assert!(engine.step());
        assert!(work.woken() > 0);
        assert_eq!(work.done(), Ok(()));
        assert_eq!(work.done(), Err(WaitError::Taken));
        assert_eq!(bytes(&to), [1, 2]);
        assert_eq!(engine.in_use(), 0);
    }
    check::<Unsync>();
    check::<Critical>();
    check::<Blocking>();
}

#[test]
fn a_launch_that_cannot_be_is_an_error_in_the_first_poll() {
    let target = target::<Unsync>();
    let tensor = tensor(&target, &[1, 2]);
    let engine = Stepped::<Sketch<Unsync>, 1>::new();
    let operands = [tensor.output()];
    let mut launch = Task::new(engine.launch_when_ready(Command::Fill(1), &operands));
    let submission = launch.done().unwrap();
    drop(launch);
    // A full queue is a value, and nothing is held.
    let mut full = Task::new(engine.launch_when_ready(Command::Fill(2), &operands));
    let error = LaunchError::Submit(SubmitError::QueueFull { slots: 1 });
    assert_eq!(full.done().map(drop), Err(error));
    assert_eq!(tensor.in_flight(), (0, 1));
    drop(full);
    engine.close();
    assert_eq!(
        Task::new(submission).done(),
        Err(WaitError::Fault(Fault::Closed))
    );
    let guard = tensor.lend().unwrap();
    let storage = tensor.storage_id().unwrap();
    let mut launch = Task::new(engine.launch_when_ready(Command::Fill(2), &operands));
    let error = TensorError::Guarded { storage };
    assert_eq!(
        launch.done().map(drop),
        Err(LaunchError::Operand { operand: 0, error })
    );
    drop((launch, guard));
    let none = engine.launch_when_ready(Command::Fill(2), &[]);
    assert!(matches!(
        Task::new(none).done(),
        Err(LaunchError::Descriptor(_))
    ));
}

#[test]
fn a_submission_that_is_dropped_at_any_poll_detaches() {
    let target = target::<Unsync>();
    let tensor = tensor(&target, &[0]);
    let engine = Stepped::<Sketch<Unsync>>::new();
    for polls in 0..3 {
        let mut work = Task::new(engine.launch(Command::Fill(7), &[tensor.output()]).unwrap());
        for _ in 0..polls {
            work.waits();
        }
        drop(work);
        assert_eq!(engine.in_use(), 1);
        assert!(engine.step());
        assert_eq!(engine.in_use(), 0);
        assert_eq!(bytes(&tensor), [7]);
        tensor.try_fill(0).unwrap();
    }
    // A borrow of it may be dropped, and changes nothing.
    let mut submission = engine.launch(Command::Fill(8), &[tensor.output()]).unwrap();
    Task::new(&mut submission).waits();
    assert!(engine.step());
    assert_eq!(Task::new(&mut submission).done(), Ok(()));
    drop(submission);
    assert_eq!(engine.in_use(), 0);
}

#[test]
fn tasks_of_policies_that_cross_threads_may_be_sent() {
    fn sent<T: Send>(_: &T) {}
    let target = target::<Blocking>();
    let tensor = tensor(&target, &[0]);
    let ready = tensor.when_ready();
    sent(&ready);
    sent(&tensor.within(std::time::Duration::ZERO));
    let (mut bytes, stream) = ([0], Stream::claim().unwrap());
    sent(&ready.read(0, &mut bytes));
    sent(&ready.write(0, &[0]));
    sent(&ready.fill(0));
    sent(&ready.copy_from(&tensor));
    sent(&ready.lend());
    sent(&ready.lend_mut());
    sent(&ready.begin(Access::Read, stream.id()));
    let engine = Stepped::<Sketch<Blocking>>::new();
    let operands = [tensor.output()];
    sent(&engine.launch_when_ready(Command::Fill(0), &operands));
    let submission = engine.launch(Command::Fill(0), &operands).unwrap();
    sent(&submission);
    assert!(engine.step());
    std::thread::scope(|scope| {
        let work = scope.spawn(|| Task::new(submission).done());
        assert_eq!(work.join().unwrap(), Ok(()));
    });
}
