//! Tickets of several tensors, taken by hand: all of them or none.

use std::time::Duration;

use crate::common::hands::Hands;
use crate::common::tasks::Task;
use wharf_backend::Heap;
use wharf_engine::{Cargo, DescriptorError, Fault, MAX_OPERANDS, Stream};
use wharf_source::HeapSource;
use wharf_sync::{Blocking, Critical, SyncPolicy, Unsync};
use wharf_tensor::{Access, LaunchError, NoTrace, Parts, Tensor, TensorError, Tickets};

type Timed<P> = Parts<Heap<P>, HeapSource, Hands>;

fn tensor<P: SyncPolicy>(len: usize) -> Tensor<Timed<P>> {
    let target = Timed::<P>::with(HeapSource, Hands, NoTrace);
    Tensor::alloc(&target, Heap::new(), len).unwrap()
}

fn streams() -> [Stream; 2] {
    [Stream::claim().unwrap(), Stream::claim().unwrap()]
}

#[test]
fn all_are_had_in_the_order_of_the_uses_or_none() {
    fn check<P: SyncPolicy>() {
        let [mine, others] = streams();
        let [a, b, c] = [3, 5, 7].map(tensor::<P>);
        let uses = [b.output(), a.input(), c.output()];
        let tickets = Tickets::try_begin(mine.id(), &uses).unwrap();
        let told = tickets.iter().map(|one| (one.storage_id(), one.access()));
        let expected = [
            (b.storage_id().unwrap(), Access::Write),
            (a.storage_id().unwrap(), Access::Read),
            (c.storage_id().unwrap(), Access::Write),
        ];
        assert_eq!(told.collect::<Vec<_>>(), expected);
        assert_eq!((&tickets).into_iter().count(), 3);
        assert_eq!(
            [&a, &b, &c].map(Tensor::in_flight),
            [(1, 0), (0, 1), (0, 1)]
        );
        drop(tickets);
        assert_eq!([&a, &b, &c].map(Tensor::in_flight), [(0, 0); 3]);

        // The last one is another's: the first ones are given back.
        let other = c.begin(Access::Read, others.id()).unwrap();
        let refused = Tickets::try_begin(mine.id(), &uses).unwrap_err();
        let storage = c.storage_id().unwrap();
        assert_eq!(
            refused,
            LaunchError::Operand {
                operand: 2,
                error: TensorError::WouldBlock { storage }
            }
        );
        a.try_fill(1).unwrap();
        b.try_fill(1).unwrap();
        drop(other);

        // So they are where one has no storage at all.
        let nothing = Tensor::empty();
        let uses = [b.output(), nothing.input()];
        assert_eq!(
            Tickets::begin(mine.id(), &uses).unwrap_err(),
            LaunchError::Operand {
                operand: 1,
                error: TensorError::NoStorage
            }
        );
        b.try_fill(1).unwrap();
    }
    check::<Unsync>();
    check::<Critical>();
    check::<Blocking>();
}

#[test]
fn tensors_of_one_storage_do_not_exclude_each_other_in_one_operation() {
    let [mine, _] = streams();
    let all = tensor::<Blocking>(8);
    let (low, high) = (all.slice(..6).unwrap(), all.slice(2..).unwrap());
    let uses = [low.input(), high.output(), low.output()];
    let tickets = Tickets::begin(mine.id(), &uses).unwrap();
    assert_eq!(all.in_flight(), (1, 2));
    drop(tickets);
    assert_eq!(all.in_flight(), (0, 0));
}

#[test]
fn nothing_is_something_that_can_be_had_and_too_much_is_told() {
    let [mine, _] = streams();
    assert_eq!(
        Tickets::<Timed<Unsync>>::begin(mine.id(), &[])
            .unwrap()
            .iter()
            .count(),
        0
    );
    let tensor = tensor::<Unsync>(1);
    let most = [tensor.input(); MAX_OPERANDS];
    let tickets = Tickets::begin(mine.id(), &most).unwrap();
    assert_eq!((tickets.iter().count(), tensor.in_flight()), (8, (8, 0)));
    drop(tickets);
    let refused = Tickets::try_begin(mine.id(), &[tensor.input(); MAX_OPERANDS + 1]);
    assert_eq!(
        refused.unwrap_err(),
        LaunchError::Descriptor(DescriptorError::TooManyOperands { operands: 9 })
    );
    assert_eq!(tensor.in_flight(), (0, 0));
}

#[test]
fn what_lands_well_completes_the_outputs_that_have_a_count_and_what_does_not_none() {
    let [mine, _] = streams();
    let target = Timed::<Unsync>::with(HeapSource, Hands, NoTrace);
    let named = |name| tensor::<Unsync>(4).named(&target, name).unwrap();
    let (input, output) = (named("input"), named("output"));
    let anonymous = tensor::<Unsync>(4);
    let uses = [input.input(), output.output(), anonymous.output()];
    let counts = || [&input, &output].map(|one| one.completions().unwrap().count());

    let mut tickets = Tickets::begin(mine.id(), &uses).unwrap();
    assert_eq!(counts(), [0, 0]);
    tickets.landed(Ok(()));
    assert_eq!(counts(), [0, 1]);
    assert_eq!(tickets.iter().count(), 0);
    output.try_fill(1).unwrap();
    // Said twice it counts once.
    tickets.landed(Ok(()));
    drop(tickets);
    assert_eq!(counts(), [0, 1]);

    Tickets::begin(mine.id(), &uses).unwrap().land(Ok(()));
    assert_eq!(counts(), [0, 2]);
    let failed = Tickets::begin(mine.id(), &uses).unwrap();
    failed.land(Err(Fault::Aborted));
    drop(Tickets::begin(mine.id(), &uses).unwrap());
    assert_eq!(counts(), [0, 2]);
    assert_eq!(
        [&input, &output, &anonymous].map(Tensor::in_flight),
        [(0, 0); 3]
    );
}

#[test]
fn one_deadline_is_for_all_and_none_is_held_meanwhile_or_after() {
    let [mine, others] = streams();
    let (a, b) = (tensor::<Critical>(4), tensor::<Critical>(4));
    let uses = [a.output(), b.output()];
    Hands::set(100);
    let other = b.begin(Access::Write, others.id()).unwrap();
    let looked = a.clone();
    Hands::at(103, move || looked.try_fill(1).unwrap());
    let late = Tickets::begin_within(Duration::from_secs(5), mine.id(), &uses).unwrap_err();
    let storage = b.storage_id().unwrap();
    assert_eq!(
        (late, Hands::read()),
        (
            LaunchError::Operand {
                operand: 1,
                error: TensorError::TimedOut { storage }
            },
            105
        )
    );
    a.try_fill(2).unwrap();

    // What ends in time is had.
    Hands::set(100);
    Hands::at(104, move || drop(other));
    let tickets = Tickets::begin_within(Duration::from_secs(5), mine.id(), &uses).unwrap();
    assert_eq!((tickets.iter().count(), Hands::read()), (2, 104));
    drop(tickets);

    // No time is a try.
    let other = a.begin(Access::Read, others.id()).unwrap();
    let refused = Tickets::begin_within(Duration::ZERO, mine.id(), &uses).unwrap_err();
    let storage = a.storage_id().unwrap();
    assert_eq!(
        refused,
        LaunchError::Operand {
            operand: 0,
            error: TensorError::TimedOut { storage }
        }
    );
    drop(other);
}

#[test]
fn alone_nobody_waits_and_guards_are_not_waited_for() {
    let [mine, others] = streams();
    let (a, b) = (tensor::<Unsync>(4), tensor::<Unsync>(4));
    let uses = [a.output(), b.output()];
    let other = b.begin(Access::Write, others.id()).unwrap();
    let storage = b.storage_id().unwrap();
    assert_eq!(
        Tickets::begin(mine.id(), &uses).unwrap_err(),
        LaunchError::Operand {
            operand: 1,
            error: TensorError::WouldDeadlock { storage }
        }
    );
    drop(other);
    let guard = b.lend().unwrap();
    assert_eq!(
        Tickets::begin(mine.id(), &uses).unwrap_err(),
        LaunchError::Operand {
            operand: 1,
            error: TensorError::Guarded { storage }
        }
    );
    drop(guard);
    assert_eq!(Tickets::begin(mine.id(), &uses).unwrap().iter().count(), 2);
}

#[test]
fn awaited_it_holds_nothing_and_may_be_dropped_at_any_poll() {
    let [mine, others] = streams();
    let (a, b) = (tensor::<Blocking>(4), tensor::<Blocking>(4));
    let uses = [a.output(), b.output()];
    for polls in 0..3 {
        let other = b.begin(Access::Read, others.id()).unwrap();
        let mut task = Task::new(Tickets::begin_when_ready(mine.id(), &uses));
        for _ in 0..polls {
            task.waits();
            a.try_fill(1).unwrap();
        }
        drop(task);
        b.try_read(0, &mut [0; 4]).unwrap();
        drop(other);
        b.try_fill(1).unwrap();
    }
    // One after the other comes free.
    let [one, two] = [&a, &b].map(|one| one.begin(Access::Write, others.id()).unwrap());
    let mut task = Task::new(Tickets::begin_when_ready(mine.id(), &uses));
    task.waits();
    drop(one);
    assert_eq!(task.woken(), 1);
    task.waits();
    a.try_fill(1).unwrap();
    drop(two);
    assert_eq!(task.woken(), 2);
    let tickets = task.done().unwrap();
    assert_eq!([&a, &b].map(Tensor::in_flight), [(0, 1); 2]);
    drop(tickets);
}
