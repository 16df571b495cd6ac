//! Waits with a deadline: how they end, and that they leave nothing behind.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::common::hands::Hands;
use crate::common::{Books, Recorder, Stepped};
use wharf_backend::Heap;
use wharf_engine::{Command, Engine, Stream};
use wharf_source::HeapSource;
use wharf_sync::{Blocking, Critical, NoClock, SyncPolicy, Unsync};
use wharf_tensor::{
    Access, Launch, LaunchError, NoTrace, Parts, Tensor, TensorError, TraceKind, TracePhase,
    WaitError, Within,
};

type Timed<P> = Parts<Heap<P>, HeapSource, Hands>;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn tensor<P: SyncPolicy>(bytes: &[u8]) -> Tensor<Timed<P>> {
    let target = Timed::<P>::with(HeapSource, Hands, NoTrace);
    let tensor = Tensor::alloc(&target, Heap::new(), bytes.len()).unwrap();
    tensor.write(0, bytes).unwrap();
    tensor
}

fn timed_out<P: SyncPolicy>(tensor: &Tensor<Timed<P>>) -> TensorError {
    let storage = tensor.storage_id().unwrap();
    TensorError::TimedOut { storage }
}

fn bytes<P: SyncPolicy>(tensor: &Tensor<Timed<P>>) -> Vec<u8> {
    tensor.try_lend().unwrap().to_vec()
}

type Operation<P> = fn(Within<'_, Timed<P>>, &Tensor<Timed<P>>, Stream) -> Result<(), TensorError>;

/// Every operation, and whether it writes.
fn operations<P: SyncPolicy>() -> [(Operation<P>, bool); 8] {
    [
        (|within, _, _| within.read(0, &mut [0; 2]), false),
        (|within, _, _| within.write(0, &[9; 2]), true),
        (|within, _, _| within.fill(9), true),
        (|within, other, _| within.copy_from(other), true),
        (|within, _, _| within.lend().map(drop), false),
        (|within, _, _| within.lend_mut().map(drop), true),
        (
            |within, _, stream| within.begin(Access::Read, stream.id()).map(drop),
            false,
        ),
        (
            |within, _, stream| within.begin(Access::Write, stream.id()).map(drop),
            true,
        ),
    ]
}

/// What a wait of no time answers where one could wait at all, and where not.
fn no_time_is_a_try<P: SyncPolicy>(expected: fn(&Tensor<Timed<P>>) -> TensorError) {
    Hands::set(100);
    let device = Stream::claim().unwrap();
    for (operation, writes) in operations::<P>() {
        for (limit, by_now) in [
            (Duration::ZERO, false),
            (seconds(100), true),
            (seconds(3), true),
        ] {
            let (tensor, other) = (tensor::<P>(&[1, 2]), tensor::<P>(&[3, 4]));
            let run = || {
                let within = if by_now {
                    tensor.until(limit)
                } else {
                    tensor.within(limit)
                };
                operation(within, &other, Stream::claim().unwrap())
            };
            let ticket = tensor.begin(Access::Write, device.id()).unwrap();
            assert_eq!(run(), Err(expected(&tensor)));
            drop(ticket);
            assert_eq!(bytes(&tensor), [1, 2]);

            let ticket = tensor.begin(Access::Read, device.id()).unwrap();
            if writes {
                assert_eq!(run(), Err(expected(&tensor)));
            }
            // No writer is left in the queue: readers come in.
            tensor.try_read(0, &mut [0]).unwrap();
            drop(ticket);
            tensor.try_fill(7).unwrap();
            other.try_fill(7).unwrap();
            run().unwrap();
            tensor.try_fill(7).unwrap();
        }
    }
    assert_eq!(Hands::read(), 100, "nobody has slept");
}

#[test]
fn no_time_is_a_try_and_leaves_nothing_behind() {
    no_time_is_a_try::<Critical>(timed_out);
    no_time_is_a_try::<Blocking>(timed_out);
    // Alone, there is nobody to wait for, for however long.
    no_time_is_a_try::<Unsync>(|tensor| TensorError::WouldDeadlock {
        storage: tensor.storage_id().unwrap(),
    });
}

#[test]
fn a_wait_ends_with_the_access_or_at_the_deadline_to_the_second() {
    let device = Stream::claim().unwrap();
    for (operation, _) in operations::<Critical>() {
        for (ends, limit, expected) in [(3, 5, 3), (5, 5, 5), (7, 5, 5), (7, u64::MAX, 7)] {
            Hands::set(0);
            let (tensor, other) = (tensor::<Critical>(&[1, 2]), tensor(&[3, 4]));
            let ticket = tensor.begin(Access::Write, device.id()).unwrap();
            Hands::at(ends, move || drop(ticket));
            let limit = seconds(limit);
            let outcome = operation(tensor.within(limit), &other, Stream::claim().unwrap());
            assert_eq!(Hands::read(), expected);
            if ends <= expected {
                assert_eq!(outcome, Ok(()));
            } else {
                assert_eq!(outcome, Err(timed_out(&tensor)));
                Hands::set(0);
                assert_eq!(bytes(&tensor), [1, 2]);
            }
        }
    }
}

#[test]
fn a_limit_beyond_the_end_of_time_never_passes() {
    let device = Stream::claim().unwrap();
    for (now, limit) in [
        (0, Duration::MAX),
        (1000, Duration::MAX),
        (1000, seconds(u64::MAX)),
    ] {
        Hands::set(now);
        let tensor = tensor::<Critical>(&[1]);
        let ticket = tensor.begin(Access::Write, device.id()).unwrap();
        Hands::at(now + 60, move || drop(ticket));
        tensor.within(limit).fill(2).unwrap();
        assert_eq!((Hands::read(), bytes(&tensor)), (now + 60, vec![2]));
    }
}

#[test]
fn operations_until_a_moment_share_it_and_those_within_a_limit_have_it_each() {
    let device = Stream::claim().unwrap();
    let busy = |ends: [u64; 2]| {
        Hands::set(0);
        let tensor = tensor::<Critical>(&[1]);
        let again = tensor.clone();
        let (id, ticket) = (
            device.id(),
            tensor.begin(Access::Write, device.id()).unwrap(),
        );
        Hands::at(ends[0], move || drop(ticket));
        // Between the two operations, a device again.
        let between = move || {
            let ticket = again.begin(Access::Write, id).unwrap();
            Hands::at(ends[1], move || drop(ticket));
        };
        (tensor, between)
    };
    let (tensor, between) = busy([4, 8]);
    let soon = tensor.within(seconds(5));
    soon.fill(2).unwrap();
    between();
    soon.fill(3).unwrap();
    assert_eq!(Hands::read(), 8);

    let (tensor, between) = busy([4, 8]);
    let soon = tensor.until(seconds(5));
    soon.fill(2).unwrap();
    between();
    assert_eq!(soon.fill(3), Err(timed_out(&tensor)));
    assert_eq!(Hands::read(), 5);
    Hands::set(0);
}

#[test]
fn a_copy_has_one_deadline_for_both_and_gives_back_what_it_had() {
    let device = Stream::claim().unwrap();
    for reversed in [false, true] {
        Hands::set(0);
        // Storages are taken by their address: so both orders are tried.
        let mut pair = [tensor::<Critical>(&[1, 2]), tensor(&[3, 4])];
        pair.sort_by_key(|tensor| tensor.storage_id().unwrap().get());
        if reversed {
            pair.reverse();
        }
        let [to, from] = &pair;
        for (tensor, ends) in [(from, 3), (to, 6)] {
            let ticket = tensor.begin(Access::Write, device.id()).unwrap();
            Hands::at(ends, move || drop(ticket));
        }
        // Whichever is waited for first, at the fifth second the destination is still in use.
        let outcome = to.within(seconds(5)).copy_from(from);
        assert_eq!(outcome, Err(timed_out(to)));
        assert_eq!(Hands::read(), 5);
        from.try_fill(8).unwrap();
        to.within(seconds(5)).copy_from(from).unwrap();
        assert_eq!((Hands::read(), bytes(to)), (6, vec![8, 8]));
    }
}

#[test]
fn a_copy_waits_for_the_storage_at_the_lower_address_first_and_holds_nothing_meanwhile() {
    let device = Stream::claim().unwrap();
    for reversed in [false, true] {
        Hands::set(0);
        let mut pair = [tensor::<Critical>(&[1, 2]), tensor(&[3, 4])];
        pair.sort_by_key(|tensor| tensor.storage_id().unwrap().get());
        let hold = |tensor: &Tensor<_>| tensor.begin(Access::Write, device.id()).unwrap();
        let [first, second] = pair.each_ref().map(hold);
        let higher = pair[1].clone();
        Hands::at(1, move || drop(second));
        Hands::at(2, move || assert_eq!(higher.try_write(0, &[]), Ok(())));
        Hands::at(3, move || drop(first));
        if reversed {
            pair.reverse();
        }
        let [to, from] = &pair;
        assert_eq!(to.within(seconds(5)).copy_from(from), Ok(()));
        assert_eq!(Hands::read(), 3);
        assert_eq!(bytes(to), bytes(from));
    }
}

#[test]
fn a_guard_is_not_waited_for_with_a_deadline_either() {
    Hands::set(0);
    let tensor = tensor::<Critical>(&[1]);
    let storage = tensor.storage_id().unwrap();
    let guard = tensor.lend().unwrap();
    let refused = tensor.within(seconds(5)).fill(2);
    assert_eq!(refused, Err(TensorError::Guarded { storage }));
    drop(guard);
    let parts = tensor.split(1).unwrap();
    let refused = tensor.within(seconds(5)).fill(2);
    assert_eq!(refused, Err(TensorError::Split { storage }));
    drop(parts);
    assert_eq!(Hands::read(), 0);
}

#[test]
fn what_can_never_be_is_said_before_anything_is_waited_for() {
    Hands::set(0);
    let device = Stream::claim().unwrap();
    let tensor = tensor::<Critical>(&[1, 2]);
    let _ticket = tensor.begin(Access::Write, device.id()).unwrap();
    let soon = tensor.within(seconds(5));
    let outside = TensorError::OutOfBounds {
        offset: 1,
        len: 2,
        size: 2,
    };
    assert_eq!(soon.read(1, &mut [0; 2]), Err(outside));
    assert_eq!(soon.write(1, &[0; 2]), Err(outside));
    let empty = Tensor::<Timed<Critical>>::empty();
    assert_eq!(
        empty.within(seconds(5)).fill(0),
        Err(TensorError::NoStorage)
    );
    assert_eq!(soon.copy_from(&empty), Err(TensorError::NoStorage));
    assert_eq!(Hands::read(), 0);
}

#[test]
fn a_clock_that_does_not_tell_the_time_keeps_no_deadline_and_says_so() {
    type Timeless = Parts<Heap<Blocking>, HeapSource>;
    let target = Timeless::new(HeapSource);
    let tensor = Tensor::alloc(&target, Heap::new(), 1).unwrap();
    let storage = tensor.storage_id().unwrap();
    let error = TensorError::NoClock { storage };
    // Also where there is nothing to wait for.
    for within in [
        tensor.within(Duration::ZERO),
        tensor.within(seconds(1)),
        tensor.within(Duration::MAX),
        tensor.until(seconds(1)),
    ] {
        assert_eq!(within.fill(1), Err(error));
        assert_eq!(within.read(0, &mut [0]), Err(error));
        assert_eq!(within.lend_mut().map(drop), Err(error));
    }
    assert_eq!(tensor.try_lend().unwrap()[0], 0);
    assert_eq!(
        error.to_string(),
        format!("no deadline for {storage}: its clock does not tell the time")
    );

    let engine = Stepped::<Timeless>::new();
    let operands = [tensor.output()];
    let refused = engine.launch_within(seconds(1), Command::Fill(1), &operands);
    assert_eq!(
        refused.map(drop),
        Err(LaunchError::Operand { operand: 0, error })
    );
    let mut submission = engine.launch(Command::Fill(1), &operands).unwrap();
    assert_eq!(submission.wait_within(seconds(1)), Err(WaitError::NoClock));
    assert!(engine.step());
    assert_eq!(submission.wait(), Ok(()));
}

#[test]
fn a_launch_waits_for_its_operands_until_the_deadline_and_holds_none_after_it() {
    let device = Stream::claim().unwrap();
    let engine = Stepped::<Timed<Critical>>::new();
    let launch = |ends: [u64; 2]| {
        Hands::set(0);
        let pair = [tensor::<Critical>(&[1, 2]), tensor(&[3, 4])];
        for (tensor, ends) in pair.iter().zip(ends) {
            let ticket = tensor.begin(Access::Write, device.id()).unwrap();
            Hands::at(ends, move || drop(ticket));
        }
        let [from, to] = &pair;
        let operands = [from.input(), to.output()];
        let launched = engine.launch_within(seconds(5), Command::Copy, &operands);
        let launched = launched.map(|submission| submission.sequence().get());
        (launched, pair)
    };
    // One after the other, and at once.
    for (ends, last) in [([3, 5], 5), ([4, 2], 4), ([1, 1], 1)] {
        let (launched, [from, to]) = launch(ends);
        assert!(launched.is_ok());
        assert_eq!(Hands::read(), last);
        assert_eq!((from.in_flight(), to.in_flight()), ((1, 0), (0, 1)));
        assert!(engine.step());
        assert_eq!(bytes(&to), [1, 2]);
    }
    for (ends, operand) in [([6, 1], 0), ([1, 6], 1), ([3, 9], 1)] {
        let (launched, pair) = launch(ends);
        let error = timed_out(&pair[operand]);
        assert_eq!(launched, Err(LaunchError::Operand { operand, error }));
        assert_eq!(Hands::read(), 5);
        // What was had is free, and what was not is still the device's alone.
        pair[1 - operand].try_fill(0).unwrap();
        assert_eq!(pair[operand].in_flight(), (0, 1));
        Hands::set(0);
        pair[operand].try_fill(0).unwrap();
    }
    assert_eq!(engine.outstanding(), None);
    // Nothing to wait for.
    let none = engine.launch_within(Duration::ZERO, Command::Kernel(|_| Ok(())), &[]);
    let mut none = none.unwrap();
    assert!(engine.step());
    assert_eq!(none.wait_within(seconds(1)), Err(WaitError::NoClock));
    assert_eq!(none.wait(), Ok(()));
}

#[test]
fn a_submission_is_waited_for_again_after_its_deadline() {
    Hands::set(0);
    let tensor = tensor::<Critical>(&[1]);
    let engine = Rc::new(Stepped::<Timed<Critical>>::new());
    let mut submission = engine.launch(Command::Fill(2), &[tensor.output()]).unwrap();
    assert_eq!(
        submission.wait_within(Duration::ZERO),
        Err(WaitError::TimedOut)
    );
    assert_eq!(submission.wait_within(seconds(3)), Err(WaitError::TimedOut));
    assert_eq!(submission.wait_until(seconds(4)), Err(WaitError::TimedOut));
    assert_eq!(Hands::read(), 4);
    assert_eq!(engine.in_use(), 1, "it was not detached");
    let served = engine.clone();
    Hands::at(6, move || assert!(served.step()));
    assert_eq!(submission.wait_within(Duration::MAX), Ok(()));
    assert_eq!((Hands::read(), bytes(&tensor)), (6, vec![2]));
    assert_eq!(submission.wait_within(Duration::MAX), Err(WaitError::Taken));

    // One that has not started is taken back.
    let mut submission = engine.launch(Command::Fill(3), &[tensor.output()]).unwrap();
    assert_eq!(submission.wait_within(seconds(1)), Err(WaitError::TimedOut));
    submission.abort();
    let aborted = submission.wait_within(Duration::ZERO);
    assert_eq!(aborted, Err(WaitError::Fault(wharf_engine::Fault::Aborted)));
    assert_eq!(bytes(&tensor), [2]);
    assert_eq!(engine.in_use(), 0);
    drop(submission);
    Hands::set(0);
}

#[test]
fn an_end_in_the_last_moment_counts() {
    Hands::set(0);
    let tensor = tensor::<Critical>(&[1]);
    let engine = Rc::new(Stepped::<Timed<Critical>>::new());
    let mut submission = engine.launch(Command::Fill(2), &[tensor.output()]).unwrap();
    let served = engine.clone();
    Hands::on_look(move || assert!(served.step()));
    // The deadline has passed when it is looked for, and so is the work done.
    assert_eq!(submission.wait_until(Duration::ZERO), Ok(()));
    assert_eq!(bytes(&tensor), [2]);
}

#[test]
fn alone_a_submission_is_not_waited_for_and_stays() {
    Hands::set(0);
    let tensor = tensor::<Unsync>(&[1]);
    let engine = Stepped::<Timed<Unsync>>::new();
    let mut submission = engine.launch(Command::Fill(2), &[tensor.output()]).unwrap();
    assert_eq!(
        submission.wait_within(seconds(9)),
        Err(WaitError::WouldDeadlock)
    );
    assert!(engine.step());
    assert_eq!(submission.wait_within(seconds(9)), Ok(()));
}

#[test]
fn only_a_wait_that_could_end_is_recorded_as_one() {
    type Watched<P> = Parts<Heap<P>, Arc<Books>, Hands, Arc<Recorder>>;
    fn story<P: SyncPolicy>(
        wait: impl FnOnce(&Tensor<Watched<P>>) -> Result<(), TensorError>,
    ) -> Vec<(TraceKind, TracePhase)> {
        Hands::set(0);
        let recorder = Arc::new(Recorder::default());
        let target = Watched::<P>::with(Arc::default(), Hands, recorder.clone());
        let tensor = Tensor::alloc(&target, Heap::new(), 1).unwrap();
        let stream = Stream::claim().unwrap();
        let _ticket = tensor.begin(Access::Write, stream.id()).unwrap();
        recorder.take();
        assert!(wait(&tensor).is_err());
        recorder.story()
    }
    let blocked = [
        (TraceKind::Blocked, TracePhase::Start),
        (TraceKind::Blocked, TracePhase::Stop),
    ];
    let timed = story::<Critical>(|tensor| tensor.within(seconds(2)).lend().map(drop));
    assert_eq!(timed, blocked);
    assert_eq!(story::<Unsync>(|tensor| tensor.lend().map(drop)), []);
    assert_eq!(
        story::<Unsync>(|tensor| tensor.within(seconds(2)).lend().map(drop)),
        []
    );
    assert_eq!(story::<Critical>(|tensor| tensor.try_lend().map(drop)), []);
    // A task that waits blocks nobody.
    let task = story::<Critical>(|tensor| {
        let mut task = crate::common::tasks::Task::new(tensor.when_ready().lend());
        task.waits();
        Err(TensorError::NoStorage)
    });
    assert_eq!(task, []);
}

#[test]
fn the_clocks_of_the_workspace_say_whether_they_tell_the_time() {
    use wharf_sync::{Clock, StdClock};
    assert!(Hands.tells_time() && StdClock::new().tells_time());
    assert!(!NoClock.tells_time());
    let (by_reference, counted): (&dyn Clock, Arc<dyn Clock>) = (&NoClock, Arc::new(NoClock));
    assert!(!by_reference.tells_time() && !counted.tells_time());
    assert!(!(&by_reference).tells_time());
}
