//! What every engine does, over memory of any backend that it reaches.
#![allow(unsafe_code, reason = "asks for promises about memory")]

mod commands;
mod completion;
mod scene;
#[cfg(feature = "std")]
mod unwinding;

use core::cell::Cell;
use core::mem::ManuallyDrop;

use wharf_backend::{BackendRef, MemBackend, MemSpace};
use wharf_engine::Engine;
use wharf_sync::{Clock, SyncPolicy};

use crate::check::ensure;
use crate::{Check, Parcel, Report, Subject, Tally, run};

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
    let (tally, stuck) =
        unsafe { try_engine(name, &engine, &memory, &clock, claims, &checks(), report) };
    if !stuck {
        drop(ManuallyDrop::into_inner(keep));
    }
    tally
}

/// Holds an engine to what it owes while kernels panic: what unwinds through `submit` was not taken or has landed, the
/// operands are free again, and so is the slot. Takes what [`engine`] takes; a subject of its own, because firmware
/// cannot unwind.
///
/// ```
/// use wharf_backend::StaticPool;
/// use wharf_conformance::{EngineClaims, Parcel, engine_unwinding};
/// use wharf_engine::{CpuEngine, Stream};
/// use wharf_sync::{NoClock, Unsync};
///
/// let memory: &_ = Box::leak(Box::new(StaticPool::<Unsync, 16, 2>::new()));
/// let cpu = CpuEngine::<Unsync, Parcel, 4>::new(Stream::claim()?);
/// let claims = EngineClaims::default();
/// assert!(engine_unwinding("mine, panics", &cpu, memory, NoClock, claims, &mut ()).is_clean());
/// # Ok::<(), wharf_engine::TooManyStreams>(())
/// ```
#[cfg(feature = "std")]
pub fn engine_unwinding<E, R, K>(
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
    let checks = unwinding::checks();
    // SAFETY: should a parcel never land, the memory is kept for ever.
    let (tally, stuck) =
        unsafe { try_engine(name, &engine, &memory, &clock, claims, &checks, report) };
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
    unsafe { try_engine(name, &engine, &memory, &clock, claims, &checks(), report).0 }
}

/// The tally, and whether a parcel never landed.
///
/// # Safety
/// If one never did, the engine touches no operand any more, or the backend stays for ever.
unsafe fn try_engine<'r, E, R, K>(
    name: &'static str,
    engine: &'r E,
    memory: &'r R,
    clock: &'r K,
    claims: EngineClaims,
    checks: &[Check<Rig<'r, E::Policy, R::Policy>>],
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
        memory: memory.backend() as Memory<'r, R::Policy>,
        clock,
        claims,
        stuck: Cell::new(false),
    };
    let tally = run(
        Subject {
            policy,
            suite: "engine",
            name,
        },
        &rig,
        checks,
        report,
    );
    (tally, rig.stuck.get())
}

fn checks<'r, P: SyncPolicy, Q: SyncPolicy>() -> [Check<Rig<'r, P, Q>>; 19] {
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
            run: commands::fills,
        },
        Check {
            name: "a copy copies",
            run: commands::copies,
        },
        Check {
            name: "a kernel is lent its operands in order",
            run: commands::kernel,
        },
        Check {
            name: "an operand may have no bytes",
            run: commands::no_bytes,
        },
        Check {
            name: "descriptors run in the order of submission",
            run: commands::order,
        },
        Check {
            name: "submissions are numbered upwards",
            run: commands::numbers,
        },
        Check {
            name: "a kernel's fault is told",
            run: commands::faults,
        },
        Check {
            name: "what is written overlaps nothing",
            run: commands::overlap,
        },
        Check {
            name: "an operand out of reach is refused",
            run: commands::unreachable,
        },
        Check {
            name: "a completion is taken once",
            run: completion::taken_once,
        },
        Check {
            name: "a submission is over only when its cargo has landed",
            run: completion::over_when_landed,
        },
        Check {
            name: "a completion is an event",
            run: completion::event,
        },
        Check {
            name: "a full queue is a value",
            run: completion::queue_full,
        },
        Check {
            name: "a detached submission frees its slot",
            run: completion::detached,
        },
        Check {
            name: "what has not landed is outstanding",
            run: completion::outstanding,
        },
        Check {
            name: "what has landed is not aborted",
            run: completion::abort_late,
        },
        Check {
            name: "what has not started is aborted",
            run: completion::abort_early,
        },
        Check {
            name: "a completion wakes who polled",
            run: completion::wakes,
        },
    ]
}

const INLINE: &str = "it runs on the context that submits";
