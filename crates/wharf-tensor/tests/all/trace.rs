//! What a sink is told: every start has its stop, whatever goes wrong, and who did not wait did not block.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Books, Device, Recorder, Stepped};
use wharf_backend::{MemBackend, MemSpace, StaticPool};
use wharf_engine::{Command, Stream};
use wharf_sync::{Clock, Critical, NoClock, Unsync};
use wharf_tensor::{
    Access, Launch, Parts, Target, Tensor, TensorError, TraceDetail, TraceEvent, TraceKind,
    TracePhase,
};

use TraceKind::{
    Alloc, Blocked, CopyIn, CopyInBatch, CopyOut, CopyOutBatch, Free, Launched, MemoryAlloc,
    MemoryFree, Read, ReadBatch, Running, Write, WriteBatch,
};
use TracePhase::{Instant, Start, Stop};

/// What a span tells.
const fn pair(kind: TraceKind) -> [(TraceKind, TracePhase); 2] {
    [(kind, Start), (kind, Stop)]
}

type Pool = Arc<StaticPool<Unsync, 64, 4>>;
type Watched = Parts<Pool, Arc<Books>, NoClock, Arc<Recorder>>;

#[expect(
    clippy::arc_with_non_send_sync,
    reason = "`Arc` is the counted reference of backends"
)]
fn watched() -> (Watched, Pool, Arc<Recorder>) {
    let (books, recorder) = (Arc::default(), Arc::new(Recorder::default()));
    let target = Watched::with(books, NoClock, recorder.clone());
    (target, Arc::new(StaticPool::new()), recorder)
}

#[test]
fn the_numbers_are_those_of_the_original_runtime() {
    let moves = [Read, Write, ReadBatch, WriteBatch].map(|kind| kind as u8);
    assert_eq!(moves, [9, 10, 11, 12]);
    let fence = [Alloc, Free, Blocked].map(|kind| kind as u8);
    assert_eq!(fence, [27, 28, 29]);
    let copies = [CopyIn, CopyOut, CopyInBatch, CopyOutBatch].map(|kind| kind as u8);
    assert_eq!(copies, [30, 31, 32, 33]);
    assert_eq!([MemoryAlloc, MemoryFree].map(|kind| kind as u8), [34, 35]);
    // Ours are out of the way.
    assert_eq!([Launched, Running].map(|kind| kind as u8), [128, 129]);
    assert_eq!([Start, Stop, Instant].map(|phase| phase as u8), [0, 1, 2]);
}

#[test]
fn events_name_the_storage_and_the_bytes_that_were_asked_for() {
    let (target, pool, recorder) = watched();
    let tensor = Tensor::alloc(&target, pool.clone(), 12).unwrap();
    let storage = tensor.storage_id().unwrap().get();
    tensor.slice(2..8).unwrap().write(1, &[0; 3]).unwrap();
    tensor.slice(2..8).unwrap().fill(1).unwrap();
    tensor.read(0, &mut [0; 5]).unwrap();
    drop(tensor);
    let event = |kind, phase, bytes| TraceEvent::instant(kind, storage, bytes).at(phase);
    let memory = TraceDetail::Memory(MemSpace::Host);
    let asked = TraceEvent::instant(MemoryAlloc, 0, 12).with(memory);
    let expected = [
        asked.at(Start),
        asked.at(Stop),
        event(Alloc, Instant, 12).with(memory),
        event(Write, Start, 3),
        event(Write, Stop, 3),
        event(Write, Start, 6),
        event(Write, Stop, 6),
        event(Read, Start, 5),
        event(Read, Stop, 5),
        event(Free, Instant, 12).with(TraceDetail::Left { accesses: 0 }),
        event(MemoryFree, Start, 12).with(memory),
        event(MemoryFree, Stop, 12).with(memory),
    ];
    assert_eq!(recorder.take(), expected);
}

#[test]
fn a_copy_is_a_write_of_its_destination() {
    let (target, pool, recorder) = watched();
    let [from, to] = [0, 1].map(|_| Tensor::alloc(&target, pool.clone(), 4).unwrap());
    recorder.take();
    to.copy_from(&from).unwrap();
    let storage = to.storage_id().unwrap().get();
    let event = |phase| TraceEvent::instant(Write, storage, 4).at(phase);
    assert_eq!(recorder.take(), [event(Start), event(Stop)]);
}

#[test]
fn calls_that_are_refused_balance_and_those_refused_early_say_nothing() {
    let (target, pool, recorder) = watched();
    let tensor = Tensor::alloc(&target, pool.clone(), 4).unwrap();
    let short = tensor.slice(..3).unwrap();
    recorder.take();

    // Refused before anything began.
    assert!(tensor.read(1, &mut [0; 4]).is_err());
    assert!(tensor.write(5, &[]).is_err());
    assert!(tensor.copy_from(&short).is_err());
    assert!(tensor.slice(3..5).is_err());
    assert!(Tensor::<Watched>::empty().fill(0).is_err());
    assert_eq!(recorder.story(), []);
    // Refused by the memory.
    assert!(Tensor::alloc(&target, pool.clone(), 65).is_err());
    assert_eq!(recorder.story(), pair(MemoryAlloc));

    // Refused by the fence.
    let guard = tensor.lend_mut().unwrap();
    assert!(tensor.read(0, &mut [0]).is_err());
    assert_eq!(recorder.story(), [(Read, Start), (Read, Stop)]);
    for refused in [
        tensor.fill(0),
        tensor.write(0, &[1]),
        tensor.try_write(0, &[1]),
        tensor.copy_from(&tensor),
    ] {
        assert!(matches!(refused, Err(TensorError::Guarded { .. })));
        let _ = refused;
    }
    assert_eq!(recorder.story(), [(Write, Start), (Write, Stop)].repeat(4));
    drop(guard);

    // A device is at it: who does not wait does not block.
    let stream = Stream::claim().unwrap();
    let ticket = tensor.begin(Access::Write, stream.id()).unwrap();
    assert!(tensor.try_read(0, &mut [0]).is_err());
    assert_eq!(recorder.story(), [(Read, Start), (Read, Stop)]);
    assert!(tensor.try_lend().is_err() && tensor.try_lend_mut().is_err());
    assert!(
        tensor
            .try_begin(Access::Read, Stream::claim().unwrap().id())
            .is_err()
    );
    assert_eq!(recorder.story(), []);
    drop(ticket);
    assert_eq!(recorder.story(), []);
}

#[test]
fn a_transfer_that_fails_balances() {
    type Far = Parts<Arc<Device<Unsync>>, Arc<Books>, NoClock, Arc<Recorder>>;
    let recorder = Arc::new(Recorder::default());
    let target = Far::with(Arc::default(), NoClock, recorder.clone());
    #[expect(
        clippy::arc_with_non_send_sync,
        reason = "`Arc` is the counted reference of backends"
    )]
    let device = Arc::new(Device::new());
    let [one, two] = [0, 1].map(|_| Tensor::alloc(&target, device.clone(), 300).unwrap());
    recorder.take();
    device.fail_nth(3);
    assert!(one.copy_from(&two).is_err());
    // Two pieces of 256 bytes at most, of which the second does not come.
    let pieces = [CopyOut, CopyIn, CopyOut].map(pair).concat();
    let balanced = [&[(Write, Start)], &pieces[..], &[(Write, Stop)]].concat();
    assert_eq!(recorder.story(), balanced);
    device.close();
    assert!(one.read(0, &mut [0]).is_err());
    assert!(one.fill(0).is_err());
    let around = |outer, inner| [&[(outer, Start)], &pair(inner)[..], &[(outer, Stop)]].concat();
    let balanced = [around(Read, CopyOut), around(Write, CopyIn)].concat();
    assert_eq!(recorder.story(), balanced);
}

/// Drives an engine while somebody waits; then time passes.
#[derive(Clone)]
struct Drives(Arc<Stepped<Driven>>);
type Driven = Parts<Arc<StaticPool<Critical, 64, 4>>, Arc<Books>, DriveLater, Arc<Recorder>>;

/// The clock that targets of this test have: it drives the engine that the thread has put here.
#[derive(Clone)]
struct DriveLater;
thread_local!(static ENGINE: std::cell::RefCell<Option<Drives>> = const { std::cell::RefCell::new(None) });

impl Clock for DriveLater {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn idle(&self) {
        let engine = ENGINE.with_borrow(|engine| engine.clone().unwrap());
        assert!(engine.0.step(), "somebody waits, and nothing is in flight");
    }
}

#[test]
fn only_who_waits_is_blocked_once_for_each_wait() {
    let recorder = Arc::new(Recorder::default());
    let target = Driven::with(Arc::default(), DriveLater, recorder.clone());
    let pool = Arc::new(StaticPool::new());
    let tensor = Tensor::alloc(&target, pool.clone(), 16).unwrap();
    let engine = Arc::new(Stepped::<Driven>::new());
    ENGINE.set(Some(Drives(engine.clone())));
    recorder.take();

    let launch = |byte| {
        drop(
            engine
                .launch(Command::Fill(byte), &[tensor.output()])
                .unwrap(),
        );
    };
    launch(1);
    launch(2);
    let told = recorder.story();
    assert_eq!(told, [(Launched, Instant); 2], "nobody waits");
    // Two steps are waited for, in one wait.
    let mut byte = [0];
    tensor.slice(3..4).unwrap().read(0, &mut byte).unwrap();
    assert_eq!(byte, [2]);
    let storage = tensor.storage_id().unwrap().get();
    let event = |kind, phase, bytes| TraceEvent::instant(kind, storage, bytes).at(phase);
    let (reads, writes) = (0, 2);
    let pending = TraceDetail::Pending { reads, writes };
    let stream = wharf_engine::Engine::stream(&*engine).get();
    let runs =
        |phase, sequence| event(Running, phase, 16).with(TraceDetail::Launch { stream, sequence });
    let expected = [
        event(Read, Start, 1),
        event(Blocked, Start, 16).with(pending),
        runs(Start, 1),
        runs(Stop, 1),
        runs(Start, 2),
        runs(Stop, 2),
        event(Blocked, Stop, 16).with(pending),
        event(Read, Stop, 1),
    ];
    assert_eq!(recorder.take(), expected);

    let blocked_for_a_run = [&[(Blocked, Start)][..], &pair(Running), &[(Blocked, Stop)]].concat();
    launch(3);
    drop(tensor.lend_mut().unwrap());
    let told = recorder.story();
    assert_eq!(told[0], (Launched, Instant));
    assert_eq!(told[1..], blocked_for_a_run);
    drop(tensor.lend_mut().unwrap());
    tensor.fill(4).unwrap();
    assert_eq!(recorder.story(), [(Write, Start), (Write, Stop)]);

    // A launch on another engine waits, too.
    launch(5);
    let other = Stepped::<Driven>::new();
    drop(other.launch(Command::Fill(6), &[tensor.output()]).unwrap());
    let told = recorder.story();
    assert_eq!(
        (told[0], told[5]),
        ((Launched, Instant), (Launched, Instant))
    );
    assert_eq!(told[1..5], blocked_for_a_run);
    assert!(other.step());
    assert_eq!(recorder.story(), pair(Running));
    assert_eq!(tensor.try_lend().unwrap()[0], 6);
    ENGINE.set(None);
    drop((tensor, other, engine));
    assert_eq!(recorder.story()[0], (Free, Instant));
    assert_eq!((pool.census().in_use, target.source().blocks()), (0, 0));
}
