//! Histories of operations that try, wait until a deadline and are awaited, beside devices and guards, against a list of
//! who is there and who waits.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::common::Books;
use crate::common::hands::Hands;
use crate::common::tasks::Task;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use wharf_backend::Heap;
use wharf_engine::Stream;
use wharf_sync::{Blocking, Critical, SyncPolicy, Unsync};
use wharf_tensor::{
    Access, NoTrace, Parts, ReadGuard, Target, Tensor, TensorError, Ticket, WriteGuard,
};

type World<P> = Parts<Heap<P>, Arc<Books>, Hands>;

const LEN: usize = 3;

/// What an operation does with the bytes.
#[derive(Clone, Copy, Debug)]
enum Op {
    Read,
    Write(usize, u8),
    Fill(u8),
}

impl Op {
    fn writes(self) -> bool {
        !matches!(self, Self::Read)
    }
    /// What it does to `bytes`, and the bytes that it reads.
    fn run(self, bytes: &mut [u8; LEN]) -> Vec<u8> {
        match self {
            Self::Read => return bytes.to_vec(),
            Self::Write(at, byte) => bytes[at] = byte,
            Self::Fill(byte) => bytes.fill(byte),
        }
        vec![]
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A device: whether it writes, and which of two streams it is on.
    Begin(bool, usize),
    End(usize),
    /// A guard, and whether it writes.
    Lend(bool),
    Return(usize),
    Try(Op),
    /// Waits so long at most; after so many seconds one of the devices ends.
    Within(Op, u64, usize, u64),
    /// A new task, polled once.
    Spawn(Op),
    Poll(usize),
    Drop(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let op = || {
        prop_oneof![
            2 => Just(Op::Read),
            1 => (0..LEN, any::<u8>()).prop_map(|(at, byte)| Op::Write(at, byte)),
            1 => any::<u8>().prop_map(Op::Fill),
        ]
    };
    let which = || 0_usize..100;
    let step = prop_oneof![
        3 => (any::<bool>(), 0_usize..2).prop_map(|(writes, stream)| Step::Begin(writes, stream)),
        3 => which().prop_map(Step::End),
        1 => any::<bool>().prop_map(Step::Lend),
        2 => which().prop_map(Step::Return),
        2 => op().prop_map(Step::Try),
        3 => (op(), 0_u64..4, which(), 1_u64..4)
            .prop_map(|(op, limit, device, after)| Step::Within(op, limit, device, after)),
        4 => op().prop_map(Step::Spawn),
        4 => which().prop_map(Step::Poll),
        2 => which().prop_map(Step::Drop),
    ];
    proptest::collection::vec(step, 1..60)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    Held,
    Guarded,
}

/// Who is there.
#[derive(Default)]
struct Model {
    /// Whether it writes, and its stream.
    devices: Vec<(bool, usize)>,
    /// Streams of the devices since there was none.
    streams: Vec<usize>,
    /// Whether it writes.
    guards: Vec<bool>,
    /// For each task that waits: its operation, and whether it is one of the pending writers.
    tasks: Vec<(Op, bool)>,
    bytes: [u8; LEN],
}

impl Model {
    /// Three writers are counted.
    const PENDING: usize = 3;

    fn pending(&self) -> usize {
        self.tasks.iter().filter(|(_, counted)| *counted).count()
    }

    /// Whether somebody may come: a host, or a device on a stream.
    fn admit(&self, writes: bool, stream: Option<usize>, counted: bool) -> Result<(), Refused> {
        if self.guards.iter().any(|guard| *guard || writes) {
            return Err(Refused::Guarded);
        }
        let conflict = self.devices.iter().any(|&(device, on)| {
            let ordered = stream == Some(on);
            (device || writes) && !ordered
        });
        let mixed = writes && stream.is_some() && self.streams.len() > 1;
        if conflict || mixed || (self.pending() > 0 && !counted) {
            return Err(Refused::Held);
        }
        Ok(())
    }

    fn end(&mut self, device: usize) {
        self.devices.remove(device);
        if self.devices.is_empty() {
            self.streams.clear();
        }
    }

    /// How a wait ends in which `device` ends after so many seconds, and when.
    fn wait(
        &mut self,
        op: Op,
        limit: u64,
        ends: Option<(usize, u64)>,
    ) -> (Result<(), Refused>, u64) {
        match self.admit(op.writes(), None, false) {
            Err(Refused::Held) => {}
            outcome => return (outcome, 0),
        }
        let counted = op.writes() && self.pending() < Self::PENDING;
        match ends {
            Some((device, after)) if after <= limit => {
                self.end(device);
                match self.admit(op.writes(), None, counted) {
                    Err(Refused::Held) => (Err(Refused::Held), limit),
                    outcome => (outcome, after),
                }
            }
            _ => (Err(Refused::Held), limit),
        }
    }
}

/// What becomes of somebody who would have to wait.
#[derive(Clone, Copy)]
enum Waits {
    /// The clock drives the devices meanwhile.
    Driven,
    /// Nobody drives them: only a wait of no time is tried.
    NoTime,
    /// It is alone.
    Never,
}

fn timed<P: SyncPolicy>(
    tensor: &Tensor<World<P>>,
    op: Op,
    limit: u64,
) -> Result<Vec<u8>, TensorError> {
    let within = tensor.within(Duration::from_secs(limit));
    let mut bytes = vec![0; LEN];
    match op {
        Op::Read => return within.read(0, &mut bytes).map(|()| bytes),
        Op::Write(at, byte) => within.write(at, &[byte])?,
        Op::Fill(byte) => within.fill(byte)?,
    }
    Ok(vec![])
}

fn tried<P: SyncPolicy>(tensor: &Tensor<World<P>>, op: Op) -> Result<Vec<u8>, TensorError> {
    let mut bytes = vec![0; LEN];
    match op {
        Op::Read => return tensor.try_read(0, &mut bytes).map(|()| bytes),
        Op::Write(at, byte) => tensor.try_write(at, &[byte])?,
        Op::Fill(byte) => tensor.try_fill(byte)?,
    }
    Ok(vec![])
}

async fn awaited<P: SyncPolicy>(tensor: &Tensor<World<P>>, op: Op) -> Result<Vec<u8>, TensorError> {
    let ready = tensor.when_ready();
    let mut bytes = vec![0; LEN];
    match op {
        Op::Read => return ready.read(0, &mut bytes).await.map(|()| bytes),
        Op::Write(at, byte) => ready.write(at, &[byte]).await?,
        Op::Fill(byte) => ready.fill(byte).await?,
    }
    Ok(vec![])
}

enum Guard<'t, P: SyncPolicy> {
    Read(ReadGuard<'t, World<P>>),
    Write(WriteGuard<'t, World<P>>),
}

/// A task, and how often it had been woken when it was polled last.
type Spawned<'t> = (Task<'t, Result<Vec<u8>, TensorError>>, usize);

fn history<P: SyncPolicy>(waits: Waits, steps: &[Step]) -> TestCaseResult {
    Hands::set(0);
    let streams = [Stream::claim().unwrap(), Stream::claim().unwrap()];
    let target = World::<P>::with(Arc::default(), Hands, NoTrace);
    let tensor = Tensor::alloc(&target, Heap::new(), LEN).unwrap();
    let storage = tensor.storage_id().unwrap();
    let would_block = TensorError::WouldBlock { storage };
    let guarded = TensorError::Guarded { storage };
    // Shared with the clock, which ends one of them.
    let devices: Rc<RefCell<Vec<Ticket<World<P>>>>> = Rc::default();
    let mut guards: Vec<Guard<'_, P>> = vec![];
    let mut tasks: Vec<Spawned<'_>> = vec![];
    let mut model = Model::default();

    for step in steps {
        match *step {
            Step::Begin(writes, stream) => {
                let access = if writes { Access::Write } else { Access::Read };
                let began = tensor.try_begin(access, streams[stream].id());
                let expected = model.admit(writes, Some(stream), false);
                match (began, expected) {
                    (Ok(ticket), Ok(())) => {
                        devices.borrow_mut().push(ticket);
                        model.devices.push((writes, stream));
                        if !model.streams.contains(&stream) {
                            model.streams.push(stream);
                        }
                    }
                    (Err(error), Err(Refused::Held)) => prop_assert_eq!(error, would_block),
                    (Err(error), Err(Refused::Guarded)) => prop_assert_eq!(error, guarded),
                    (began, expected) => prop_assert!(false, "{:?}, not {:?}", began, expected),
                }
            }
            Step::End(which) if !model.devices.is_empty() => {
                let which = which % model.devices.len();
                let ticket = devices.borrow_mut().remove(which);
                drop(ticket);
                model.end(which);
            }
            Step::Lend(writes) => {
                let expected = model.admit(writes, None, false);
                let lent = if writes {
                    tensor.try_lend_mut().map(Guard::Write)
                } else {
                    tensor.try_lend().map(Guard::Read)
                };
                prop_assert_eq!(lent.is_ok(), expected.is_ok());
                if let Ok(guard) = lent {
                    guards.push(guard);
                    model.guards.push(writes);
                }
            }
            Step::Return(which) if !guards.is_empty() => {
                let which = which % guards.len();
                model.guards.remove(which);
                match guards.remove(which) {
                    Guard::Read(guard) => prop_assert_eq!(&*guard, &model.bytes),
                    Guard::Write(mut guard) => {
                        prop_assert_eq!(&*guard, &model.bytes);
                        guard[0] ^= 0xFF;
                        model.bytes[0] ^= 0xFF;
                    }
                }
            }
            Step::Try(op) => {
                let expected = match model.admit(op.writes(), None, false) {
                    Ok(()) => Ok(op.run(&mut model.bytes)),
                    Err(Refused::Held) => Err(would_block),
                    Err(Refused::Guarded) => Err(guarded),
                };
                prop_assert_eq!(tried(&tensor, op), expected);
            }
            Step::Within(op, limit, device, after) => {
                let (limit, driven) = match waits {
                    Waits::Driven => (limit, !model.devices.is_empty()),
                    Waits::NoTime => (0, false),
                    Waits::Never => (limit, false),
                };
                let ends = driven.then(|| (device % model.devices.len().max(1), after));
                Hands::set(0);
                if let Some((which, after)) = ends {
                    let devices = devices.clone();
                    Hands::at(after, move || {
                        let ticket = devices.borrow_mut().remove(which);
                        drop(ticket);
                    });
                }
                let outcome = timed(&tensor, op, limit);
                let slept = Hands::read();
                Hands::set(0);
                let (expected, sleeps) = model.wait(op, limit, ends);
                let (expected, sleeps) = match (expected, waits) {
                    (Ok(()), _) => (Ok(op.run(&mut model.bytes)), sleeps),
                    (Err(Refused::Guarded), _) => (Err(guarded), sleeps),
                    (Err(Refused::Held), Waits::Never) => {
                        (Err(TensorError::WouldDeadlock { storage }), 0)
                    }
                    (Err(Refused::Held), _) => (Err(TensorError::TimedOut { storage }), sleeps),
                };
                prop_assert_eq!((outcome, slept), (expected, sleeps));
            }
            Step::Spawn(op) => {
                tasks.push((Task::new(awaited(&tensor, op)), 0));
                model.tasks.push((op, false));
                poll(&mut tasks, &mut model, usize::MAX, guarded)?;
            }
            Step::Poll(which) if !tasks.is_empty() => {
                let which = which % tasks.len();
                poll(&mut tasks, &mut model, which, guarded)?;
            }
            Step::Drop(which) if !tasks.is_empty() => {
                let which = which % tasks.len();
                drop(tasks.remove(which));
                model.tasks.remove(which);
            }
            Step::End(_) | Step::Return(_) | Step::Poll(_) | Step::Drop(_) => {}
        }
        prop_assert_eq!(devices.borrow().len(), model.devices.len());
        // Whoever could go on knows, or another writer does whose end will tell.
        let told = |index: usize| tasks[index].0.woken() > tasks[index].1;
        let could = |index: usize| {
            let (op, counted) = model.tasks[index];
            model.admit(op.writes(), None, counted) != Err(Refused::Held)
        };
        let writer = (0..tasks.len()).any(|index| model.tasks[index].1 && told(index));
        for index in (0..tasks.len()).filter(|&index| could(index)) {
            prop_assert!(told(index) || writer, "a wake was lost");
        }
    }
    drop(tasks);
    drop(guards);
    devices.borrow_mut().clear();
    // Nobody is left, and no mark of anybody.
    let mut bytes = [0; LEN];
    prop_assert_eq!(tensor.try_read(0, &mut bytes), Ok(()));
    prop_assert_eq!(bytes, model.bytes);
    prop_assert_eq!(tensor.try_fill(0), Ok(()));
    drop(tensor);
    prop_assert_eq!(target.source().blocks(), 0);
    Ok(())
}

/// Polls the task `which`, or the newest.
fn poll(
    tasks: &mut Vec<Spawned<'_>>,
    model: &mut Model,
    which: usize,
    guarded: TensorError,
) -> TestCaseResult {
    let which = which.min(tasks.len() - 1);
    let (op, counted) = model.tasks[which];
    let admitted = model.admit(op.writes(), None, counted);
    let (task, polled) = &mut tasks[which];
    let woken = task.woken();
    let outcome = task.poll();
    match admitted {
        Err(Refused::Held) => {
            prop_assert!(outcome.is_pending());
            let room = model.pending() < Model::PENDING;
            model.tasks[which].1 |= op.writes() && room;
            *polled = woken;
            return Ok(());
        }
        Ok(()) => {
            let answer = op.run(&mut model.bytes);
            prop_assert_eq!(outcome, std::task::Poll::Ready(Ok(answer)));
        }
        Err(Refused::Guarded) => {
            prop_assert_eq!(outcome, std::task::Poll::Ready(Err(guarded)));
        }
    }
    drop(tasks.remove(which));
    model.tasks.remove(which);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn histories_agree_with_a_list_of_who_is_there_and_who_waits(steps in steps()) {
        history::<Critical>(Waits::Driven, &steps)?;
        history::<Blocking>(Waits::NoTime, &steps)?;
        history::<Unsync>(Waits::Never, &steps)?;
    }
}
