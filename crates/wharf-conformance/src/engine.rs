//! What every engine does, over memory of any backend that it reaches.
//!
//! Invariant of a [`Scene`]: its two segments are touched by the engine alone until every parcel of its ledger
//! has landed; if one never does, they leak.
#![allow(unsafe_code, reason = "submits descriptors")]

use core::cell::Cell;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::task::Poll;
use core::time::Duration;

use wharf_backend::{BackendRef, MemBackend, MemSpace, SegmentMut};
use wharf_engine::{
    Command, Completion, Descriptor, DescriptorError, DeviceAddress, Engine, Fault, KernelFault,
    Lent, MAX_OPERANDS, Operand, Place, Sequence, SubmitError,
};
use wharf_sync::{Clock, Event, SyncPolicy, Wake};

use crate::check::{Demand, applies, ensure, equal, refused};
use crate::parcel::{Gate, Ledger};
use crate::waker::Probe;
use crate::{Check, Failure, Outcome, Parcel, Report, Stop, Subject, Tally, run};

/// What an engine claims beyond the laws of [`Engine`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineClaims {
    /// It runs kernels on a context of its own (a thread, an interrupt, another core), so that a submitter
    /// can act while one runs.
    pub apart: bool,
    /// A space that it does not reach: it must refuse an operand there, even one without bytes. (The
    /// suite names no other, so that a wrong claim does no harm.)
    pub unreachable: Option<MemSpace>,
}

/// Everything behind `dyn`, so that an image holds the suite once a policy and not once an engine.
struct Rig<'r, P: SyncPolicy, Q> {
    engine: &'r dyn Engine<Policy = P, Cargo = Parcel>,
    memory: Memory<'r, Q>,
    clock: &'r dyn Clock,
    claims: EngineClaims,
    /// A parcel never landed: the engine may touch the memory for ever.
    stuck: Cell<bool>,
}

type Memory<'r, Q> = &'r dyn MemBackend<Policy = Q>;

/// Holds an engine to the laws of `wharf-engine`.
///
/// Its operands are vended by `memory`, which it must reach: two segments of 16 bytes at a time. Completions of an
/// engine that runs apart are waited for on its own event, for ten seconds by `clock`; for another one the
/// clock's idle hook is run, which is the place to drive an engine that is polled. Give it an engine
/// that nobody else uses meanwhile.
///
/// The memory is `'static`, borrowed or counted, because a broken engine may never let go of it: then it leaks.
/// See [`engine_on_borrowed`].
///
/// ```
/// use wharf_backend::StaticPool;
/// use wharf_conformance::{EngineClaims, Parcel, engine};
/// use wharf_engine::{CpuEngine, Stream};
/// use wharf_sync::{NoClock, Unsync};
///
/// let memory: &_ = Box::leak(Box::new(StaticPool::<Unsync, 16, 2>::new()));
/// let cpu = CpuEngine::<Unsync, Parcel, 4>::new(Stream::claim()?);
/// let claims = EngineClaims::default();
/// assert!(engine("mine", &cpu, memory, NoClock, claims, &mut ()).is_clean());
/// # Ok::<(), wharf_engine::TooManyStreams>(())
/// ```
pub fn engine<E, R, K>(
    name: &'static str,
    engine: E,
    memory: R,
    clock: K,
    claims: EngineClaims,
    report: &mut dyn Report,
) -> Tally
where
    E: Engine<Cargo = Parcel>,
    R: BackendRef + Clone + 'static,
    R::Backend: Sized,
    K: Clock,
{
    let keep = ManuallyDrop::new(memory.clone());
    // SAFETY: should a parcel never land, or a kernel unwind, the memory is kept for ever.
    let (tally, stuck) = unsafe { try_engine(name, &engine, &memory, &clock, claims, report) };
    if !stuck {
        drop(ManuallyDrop::into_inner(keep));
    }
    tally
}

/// [`engine`] with memory that is only borrowed.
///
/// # Safety
/// When this returns, the engine touches the operands of no descriptor any more, even if it never said that
/// their cargo has landed: because it runs on nobody's context but its caller's, say, and is dropped
/// before the memory.
pub unsafe fn engine_on_borrowed<E, R, K>(
    name: &'static str,
    engine: E,
    memory: R,
    clock: K,
    claims: EngineClaims,
    report: &mut dyn Report,
) -> Tally
where
    E: Engine<Cargo = Parcel>,
    R: BackendRef,
    R::Backend: Sized,
    K: Clock,
{
    // SAFETY: the caller's promise.
    unsafe { try_engine(name, &engine, &memory, &clock, claims, report).0 }
}

/// The tally, and whether a parcel never landed.
///
/// # Safety
/// If one never did, the engine touches no operand any more, or the backend stays for ever.
unsafe fn try_engine<E, R, K>(
    name: &'static str,
    engine: &E,
    memory: &R,
    clock: &K,
    claims: EngineClaims,
    report: &mut dyn Report,
) -> (Tally, bool)
where
    E: Engine<Cargo = Parcel>,
    R: BackendRef,
    R::Backend: Sized,
    K: Clock,
{
    let policy = <E::Policy as SyncPolicy>::NAME;
    let rig = Rig {
        engine,
        memory: memory.backend() as Memory<'_, R::Policy>,
        clock,
        claims,
        stuck: Cell::new(false),
    };
    let tally = run(Subject { policy, name }, &rig, &checks(), report);
    (tally, rig.stuck.get())
}

fn checks<'r, P: SyncPolicy, Q: SyncPolicy>() -> [Check<Rig<'r, P, Q>>; 18] {
    [
        Check {
            name: "its stream has a number",
            run: |rig| {
                let stream = rig.engine.stream().get();
                Ok(ensure((1..=63).contains(&stream), "it is from 1 to 63")?)
            },
        },
        Check {
            name: "a fill fills",
            run: fills,
        },
        Check {
            name: "a copy copies",
            run: copies,
        },
        Check {
            name: "a kernel is lent its operands in order",
            run: kernel,
        },
        Check {
            name: "an operand may have no bytes",
            run: no_bytes,
        },
        Check {
            name: "descriptors run in the order of submission",
            run: order,
        },
        Check {
            name: "submissions are numbered upwards",
            run: numbers,
        },
        Check {
            name: "a kernel's fault is told",
            run: faults,
        },
        Check {
            name: "what is written overlaps nothing",
            run: overlap,
        },
        Check {
            name: "an operand out of reach is refused",
            run: unreachable,
        },
        Check {
            name: "a completion is taken once",
            run: taken_once,
        },
        Check {
            name: "a completion is an event",
            run: event,
        },
        Check {
            name: "a full queue is a value",
            run: queue_full,
        },
        Check {
            name: "a detached submission frees its slot",
            run: detached,
        },
        Check {
            name: "what has not landed is outstanding",
            run: outstanding,
        },
        Check {
            name: "what has landed is not aborted",
            run: abort_late,
        },
        Check {
            name: "what has not started is aborted",
            run: abort_early,
        },
        Check {
            name: "a completion wakes who polled",
            run: wakes,
        },
    ]
}

const LEN: usize = 16;

/// One of a scene's two segments.
#[derive(Clone, Copy)]
enum Part {
    A,
    B,
}

/// What a descriptor does with a segment.
#[derive(Clone, Copy)]
enum Use {
    Read(Part),
    Write(Part),
    /// None of its bytes.
    Nothing(Part),
}

/// Two segments, and the parcels of the descriptors that use them.
struct Scene<'r, P: SyncPolicy, Q: SyncPolicy> {
    rig: &'r Rig<'r, P, Q>,
    ledger: Ledger,
    a: ManuallyDrop<SegmentMut<Memory<'r, Q>>>,
    b: ManuallyDrop<SegmentMut<Memory<'r, Q>>>,
}

impl<P: SyncPolicy, Q: SyncPolicy> Drop for Scene<'_, P, Q> {
    fn drop(&mut self) {
        if self.ledger.landed() == self.ledger.made() {
            // SAFETY: the engine has let go of both (the invariant), and they are not used again.
            unsafe {
                ManuallyDrop::drop(&mut self.a);
                ManuallyDrop::drop(&mut self.b);
            }
        } else {
            self.rig.stuck.set(true);
        }
    }
}

impl<'r, P: SyncPolicy, Q: SyncPolicy> Scene<'r, P, Q> {
    #[inline(never)]
    fn new(rig: &'r Rig<'r, P, Q>) -> Result<Self, Failure> {
        let segment = |byte| {
            SegmentMut::alloc(rig.memory, LEN)
                .demand("a segment of 16 bytes")?
                .filled(byte)
                .demand("its bytes")
        };
        Ok(Self {
            rig,
            ledger: Ledger::open()?,
            a: ManuallyDrop::new(segment(0)?),
            b: ManuallyDrop::new(segment(0)?),
        })
    }

    fn part(&self, part: Part) -> &SegmentMut<Memory<'r, Q>> {
        match part {
            Part::A => &self.a,
            Part::B => &self.b,
        }
    }

    fn operand(&self, operand: Use) -> Operand {
        match operand {
            Use::Read(part) => Operand::read(self.part(part).place(), LEN),
            Use::Write(part) => Operand::write(self.part(part).place(), LEN),
            Use::Nothing(part) => Operand::write(self.part(part).place(), 0),
        }
    }

    /// Whether the segments are the host's to read and write.
    fn at_rest(&self) -> Result<(), Failure> {
        equal(
            "parcels that landed",
            self.ledger.landed(),
            self.ledger.made(),
        )
    }

    #[inline(never)]
    fn write(&mut self, part: Part, byte: u8) -> Result<(), Failure> {
        self.at_rest()?;
        let segment = match part {
            Part::A => &mut self.a,
            Part::B => &mut self.b,
        };
        segment.write(0, &[byte; LEN]).demand("a write")
    }

    #[inline(never)]
    fn holds(&self, part: Part, expected: u8) -> Result<(), Failure> {
        self.at_rest()?;
        let mut bytes = [!expected; LEN];
        self.part(part).read(0, &mut bytes).demand("a read")?;
        for found in bytes {
            equal("a byte of an operand", found, expected)?;
        }
        Ok(())
    }

    #[inline(never)]
    fn try_submit(
        &self,
        command: Command,
        operands: &[Use],
    ) -> Result<Result<Sequence, SubmitError>, Failure> {
        let mut named = [self.operand(Use::Nothing(Part::A)); MAX_OPERANDS];
        for (place, &operand) in named.iter_mut().zip(operands) {
            *place = self.operand(operand);
        }
        let named = named.get(..operands.len()).demand("few operands")?;
        let descriptor = Descriptor::new(command, named).demand("a descriptor")?;
        let parcel = self.ledger.parcel();
        // SAFETY: the operands are within the scene's segments, initialised, and nobody else's until
        // every parcel has landed: the invariant, which `at_rest` and `drop` keep.
        match unsafe { self.rig.engine.submit(descriptor, parcel) } {
            Ok(sequence) => Ok(Ok(sequence)),
            Err(returned) => {
                let landed = returned.value.landed_times();
                self.ledger.returned(returned.value);
                equal("landings of a parcel that was refused", landed, 0)?;
                Ok(Err(returned.error))
            }
        }
    }

    fn submit(&self, command: Command, operands: &[Use]) -> Result<Sequence, Failure> {
        self.try_submit(command, operands)?.demand("a submission")
    }

    /// Waits for a completion and takes it.
    #[inline(never)]
    fn finish(&self, sequence: Sequence) -> Result<Completion<Parcel>, Failure> {
        let taken = self
            .rig
            .wait_for(|| match self.rig.engine.poll(sequence, None) {
                Poll::Ready(taken) => Some(taken),
                Poll::Pending => None,
            })?;
        let completion = taken.demand("a completion is there to be taken")?;
        let (parcel, told) = match &completion {
            Ok(parcel) => (parcel, Ok(())),
            Err(returned) => (&returned.value, Err(returned.error)),
        };
        equal("landings of a parcel", parcel.landed_times(), 1)?;
        let same = parcel.outcome() == Some(told);
        ensure(same, "a parcel lands with the outcome of its descriptor")?;
        Ok(completion)
    }

    #[inline(never)]
    fn succeed(&self, sequence: Sequence) -> Result<(), Failure> {
        self.finish(sequence)?
            .map(drop)
            .map_err(|returned| returned.error)
            .demand("it runs to its end")
    }

    /// One descriptor, from beginning to end.
    #[inline(never)]
    fn do_now(&self, command: Command, operands: &[Use]) -> Result<(), Failure> {
        let sequence = self.submit(command, operands)?;
        self.succeed(sequence)
    }

    /// Nothing is in flight, and no parcel was lost or kept.
    #[inline(never)]
    fn close(self) -> Outcome {
        self.at_rest()?;
        let (made, dropped) = (self.ledger.made(), self.ledger.dropped());
        equal("parcels that came back", dropped, made)?;
        Ok(())
    }
}

impl<P: SyncPolicy, Q> Rig<'_, P, Q> {
    /// Waits on the engine's event until `test` has an answer.
    fn wait_for<T>(&self, mut test: impl FnMut() -> Option<T>) -> Result<T, Failure> {
        /// Turns of the idle hook, where nothing better can be waited for.
        const TURNS: u32 = 100_000;

        let deadline = self.clock.now().saturating_add(Duration::from_secs(10));
        let event = self.engine.completed();
        let mut turns = 0;
        loop {
            let seen = event.epoch();
            if let Some(answer) = test() {
                return Ok(answer);
            }
            // An engine that runs on our context only would be waited for in vain.
            let wake = if self.claims.apart {
                event.wait(seen, self.clock, Some(deadline))
            } else {
                Wake::Never
            };
            match wake {
                Wake::Notified => {}
                Wake::Never if turns < TURNS => {
                    turns += 1;
                    self.clock.idle();
                }
                Wake::Never | Wake::TimedOut => {
                    return Err(Failure::new("what is waited for happens"));
                }
            }
        }
    }
}

fn fills<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let scene = Scene::new(rig)?;
    for byte in [0x5A, 0x00, 0xFF] {
        scene.do_now(Command::Fill(byte), &[Use::Write(Part::A)])?;
        scene.holds(Part::A, byte)?;
        scene.holds(Part::B, 0)?;
    }
    scene.close()
}

fn copies<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let mut scene = Scene::new(rig)?;
    scene.write(Part::A, 0x3C)?;
    scene.do_now(Command::Copy, &[Use::Read(Part::A), Use::Write(Part::B)])?;
    scene.holds(Part::A, 0x3C)?;
    scene.holds(Part::B, 0x3C)?;
    scene.close()
}

/// Adds the first operand to the second, and says what is wrong with them.
fn add(operands: &mut [Lent<'_>]) -> Result<(), KernelFault> {
    match operands {
        [Lent::Read(from), Lent::Write(to)] => {
            if from.len() != LEN || to.len() != LEN {
                return Err(KernelFault(1));
            }
            for (to, from) in to.iter_mut().zip(from.iter()) {
                *to = to.wrapping_add(*from);
            }
            Ok(())
        }
        [Lent::Write(_), Lent::Read(_)] => Err(KernelFault(2)),
        _ => Err(KernelFault(3)),
    }
}

fn kernel<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let mut scene = Scene::new(rig)?;
    scene.write(Part::A, 40)?;
    scene.write(Part::B, 2)?;
    let operands = [Use::Read(Part::A), Use::Write(Part::B)];
    scene.do_now(Command::Kernel(add), &operands)?;
    scene.holds(Part::A, 40)?;
    scene.holds(Part::B, 42)?;
    scene.close()
}

fn no_bytes<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let scene = Scene::new(rig)?;
    scene.do_now(Command::Fill(9), &[Use::Nothing(Part::A)])?;
    let empty = Command::Kernel(|operands| match operands {
        [Lent::Write([]), Lent::Write(to)] => {
            to.fill(1);
            Ok(())
        }
        _ => Err(KernelFault(1)),
    });
    scene.do_now(empty, &[Use::Nothing(Part::A), Use::Write(Part::B)])?;
    scene.do_now(Command::Kernel(|_| Ok(())), &[])?;
    scene.holds(Part::A, 0)?;
    scene.holds(Part::B, 1)?;
    scene.close()
}

fn order<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let triple = Command::Kernel(|operands| match operands {
        [Lent::Write(bytes)] => {
            bytes
                .iter_mut()
                .for_each(|byte| *byte = byte.wrapping_mul(3));
            Ok(())
        }
        _ => Err(KernelFault(1)),
    });
    let scene = Scene::new(rig)?;
    let (a, b) = (Use::Write(Part::A), Use::Write(Part::B));
    // No two of the steps may change places: (5 * 3 copied, + 15) * 3.
    let submitted = [
        scene.submit(Command::Fill(5), &[a]),
        scene.submit(triple, &[a]),
        scene.submit(Command::Copy, &[Use::Read(Part::A), b]),
        scene.submit(Command::Kernel(add), &[Use::Read(Part::A), b]),
    ];
    for sequence in submitted {
        scene.succeed(sequence?)?;
    }
    scene.do_now(triple, &[b])?;
    scene.holds(Part::A, 15)?;
    scene.holds(Part::B, 90)?;
    scene.close()
}

fn numbers<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let scene = Scene::new(rig)?;
    let mut last = 0;
    for _ in 0..4 {
        let sequence = scene.submit(Command::Fill(1), &[Use::Write(Part::A)])?;
        ensure(
            sequence.get() > last,
            "a later submission has a higher number",
        )?;
        last = sequence.get();
        scene.succeed(sequence)?;
    }
    scene.close()
}

fn faults<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let scene = Scene::new(rig)?;
    let give_up = Command::Kernel(|operands| {
        if let [Lent::Write(bytes)] = operands {
            bytes.fill(7);
        }
        Err(KernelFault(0xBAD))
    });
    let sequence = scene.submit(give_up, &[Use::Write(Part::A)])?;
    let told = scene.finish(sequence)?.map(drop);
    let told = told.map_err(|returned| returned.error);
    refused("its completion", told, Fault::Kernel(KernelFault(0xBAD)))?;
    scene.holds(Part::A, 7)?;
    // One that failed is in nobody's way.
    scene.do_now(Command::Fill(8), &[Use::Write(Part::A)])?;
    scene.holds(Part::A, 8)?;
    scene.close()
}

fn overlap<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let scene = Scene::new(rig)?;
    let (read, write) = (Use::Read(Part::A), Use::Write(Part::A));
    let kernel = Command::Kernel(add);
    for operands in [[read, write], [write, read], [write, write]] {
        let operands = operands.map(|operand| scene.operand(operand));
        let made = Descriptor::new(kernel, &operands);
        let expected = DescriptorError::Overlap {
            first: 0,
            second: 1,
        };
        refused("a descriptor", made, expected)?;
    }
    let apart = [write, Use::Write(Part::B)].map(|operand| scene.operand(operand));
    Descriptor::new(kernel, &apart).demand("segments of their own do not overlap")?;
    let twice = [read, read].map(|operand| scene.operand(operand));
    Descriptor::new(kernel, &twice).demand("what is only read may overlap")?;
    scene.close()
}

fn unreachable<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let place = match rig.claims.unreachable {
        Some(MemSpace::Host) => Place::Host(NonNull::dangling()),
        Some(MemSpace::Device) => Place::Device(DeviceAddress::new(64)),
        None => return Err(Stop::Inapplicable("it claims to reach every space")),
    };
    let scene = Scene::new(rig)?;
    let operands = [scene.operand(Use::Write(Part::A)), Operand::read(place, 0)];
    let descriptor = Descriptor::new(Command::Kernel(add), &operands).demand("a descriptor")?;
    // SAFETY: the first operand is the scene's, and the second has no bytes.
    match unsafe { rig.engine.submit(descriptor, scene.ledger.parcel()) } {
        Ok(sequence) => {
            let _ = scene.finish(sequence)?;
            return Err(Failure::new("an operand out of reach is refused").into());
        }
        Err(returned) => {
            let landed = returned.value.landed_times();
            scene.ledger.returned(returned.value);
            equal("landings of a parcel that was refused", landed, 0)?;
            let expected = SubmitError::Unreachable { operand: 1 };
            refused("the refusal", Err::<(), _>(returned.error), expected)?;
        }
    }
    scene.close()
}

fn taken_once<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let scene = Scene::new(rig)?;
    let sequence = scene.submit(Command::Fill(1), &[Use::Write(Part::A)])?;
    scene.succeed(sequence)?;
    for _ in 0..2 {
        let again = rig.engine.poll(sequence, None);
        ensure(matches!(again, Poll::Ready(None)), "it is gone")?;
    }
    // To let go of what is gone is harmless.
    rig.engine.detach(sequence);
    rig.engine.abort(sequence);
    scene.close()
}

fn event<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let scene = Scene::new(rig)?;
    let before = rig.engine.completed().epoch();
    scene.do_now(Command::Fill(1), &[Use::Write(Part::A)])?;
    // The completion may be seen a moment before its event.
    let deadline = rig.clock.now().saturating_add(Duration::from_secs(10));
    let wake = rig
        .engine
        .completed()
        .wait(before, rig.clock, Some(deadline));
    ensure(wake == Wake::Notified, "it happens")?;
    scene.close()
}

/// More slots than this, and the queue is not filled.
const MOST_SLOTS: usize = 64;

/// Submits until the queue is full, and tells how many it took.
fn fill_queue<P: SyncPolicy, Q: SyncPolicy>(
    scene: &Scene<'_, P, Q>,
    submitted: &mut [Option<Sequence>; MOST_SLOTS],
) -> Result<usize, Stop> {
    for (taken, place) in submitted.iter_mut().enumerate() {
        match scene.try_submit(Command::Fill(1), &[Use::Write(Part::A)])? {
            Ok(sequence) => *place = Some(sequence),
            Err(error) => {
                let expected = SubmitError::QueueFull { slots: taken };
                refused("one too many", Err::<(), _>(error), expected)?;
                return Ok(taken);
            }
        }
    }
    Err(Stop::Inapplicable("it has more than 64 slots"))
}

fn queue_full<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let scene = Scene::new(rig)?;
    let mut submitted = [None; MOST_SLOTS];
    let taken = fill_queue(&scene, &mut submitted);
    let mut finished = submitted
        .iter()
        .flatten()
        .map(|&sequence| scene.succeed(sequence));
    // One slot more, one submission more.
    let first = finished.next();
    if taken.is_ok() && first.is_some() {
        scene.do_now(Command::Fill(2), &[Use::Write(Part::A)])?;
    }
    finished.collect::<Result<(), _>>()?;
    first.transpose()?;
    ensure(taken? > 0, "it takes at least one")?;
    scene.close()
}

fn detached<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let scene = Scene::new(rig)?;
    let mut submitted = [None; MOST_SLOTS];
    let taken = fill_queue(&scene, &mut submitted);
    for &sequence in submitted.iter().flatten() {
        rig.engine.detach(sequence);
    }
    let all_dropped = || (scene.ledger.dropped() == scene.ledger.made()).then_some(());
    rig.wait_for(all_dropped)?;
    for &sequence in submitted.iter().flatten() {
        let gone = matches!(rig.engine.poll(sequence, None), Poll::Ready(None));
        ensure(gone, "nobody can ask for it any more")?;
    }
    let taken = taken?;
    let again = fill_queue(&scene, &mut submitted);
    for &sequence in submitted.iter().flatten() {
        // Those of the first time are gone, which is harmless.
        rig.engine.detach(sequence);
    }
    rig.wait_for(all_dropped)?;
    equal("slots, once all were detached", again?, taken)?;
    scene.close()
}

fn outstanding<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let scene = Scene::new(rig)?;
    ensure(rig.engine.outstanding().is_none(), "nothing is, at first")?;
    let asked = scene.submit(Command::Fill(1), &[Use::Write(Part::A)])?;
    let range = rig.engine.outstanding();
    let idle = || rig.engine.outstanding().is_none().then_some(());
    let ended = rig.wait_for(idle);
    let landed = scene.ledger.landed();
    // Also where nobody will ask, and before anybody has asked for the first.
    let detached = scene.submit(Command::Fill(2), &[Use::Write(Part::A)]);
    if let Ok(detached) = detached {
        rig.engine.detach(detached);
    }
    let ended = ended.and_then(|()| rig.wait_for(idle));
    let both = scene.ledger.landed();
    scene.succeed(asked)?;
    ended?;
    detached?;
    ensure(
        range.is_none_or(|range| range == (asked..=asked)),
        "it is the one that was submitted",
    )?;
    equal("landed, once none is outstanding", landed, 1)?;
    equal("landed, with the detached one", both, 2)?;
    scene.close()
}

fn abort_late<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    let scene = Scene::new(rig)?;
    let sequence = scene.submit(Command::Fill(4), &[Use::Write(Part::A)])?;
    rig.wait_for(|| (scene.ledger.landed() == 1).then_some(()))?;
    rig.engine.abort(sequence);
    scene.succeed(sequence)?;
    scene.holds(Part::A, 4)?;
    scene.close()
}

/// Waits at the gate that the first byte of its operand names.
const AT_GATE: Command = Command::Kernel(|operands| match operands {
    [Lent::Read([gate, ..])] => {
        Gate::pass(*gate);
        Ok(())
    }
    _ => Err(KernelFault(1)),
});

const INLINE: &str = "it runs on the context that submits";

fn abort_early<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    applies(rig.claims.apart, INLINE)?;
    let mut scene = Scene::new(rig)?;
    let gate = Gate::closed()?;
    scene.write(Part::B, gate.number())?;
    let running = scene.submit(AT_GATE, &[Use::Read(Part::B)])?;
    let waiting = scene.submit(Command::Fill(1), &[Use::Write(Part::A)]);
    if let Ok(waiting) = waiting {
        rig.engine.abort(waiting);
    }
    gate.open();
    scene.succeed(running)?;
    let told = scene.finish(waiting?)?.map(drop);
    let told = told.map_err(|returned| returned.error);
    refused("its completion", told, Fault::Aborted)?;
    scene.holds(Part::A, 0)?;
    scene.close()
}

fn wakes<P: SyncPolicy, Q: SyncPolicy>(rig: &Rig<'_, P, Q>) -> Outcome {
    applies(rig.claims.apart, INLINE)?;
    let mut scene = Scene::new(rig)?;
    let (gate, probe) = (Gate::closed()?, Probe::claim()?);
    scene.write(Part::B, gate.number())?;
    let running = scene.submit(AT_GATE, &[Use::Read(Part::B)])?;
    let waker = probe.waker(0);
    let pending = rig.engine.poll(running, Some(&waker)).is_pending();
    drop(waker);
    let early = probe.wakes();
    gate.open();
    scene.succeed(running)?;
    ensure(pending, "it is pending while it runs")?;
    equal("wakes while it runs", early, 0)?;
    // The completion may be seen a moment before its wakers run.
    let deadline = rig.clock.now().saturating_add(Duration::from_secs(10));
    while !probe.woken(0) && rig.clock.now() < deadline {
        rig.clock.idle();
    }
    ensure(probe.woken(0), "it is woken")?;
    scene.close()
}
