//! What commands on tensors do, whatever engine they run on.

mod commands;
mod endings;
mod queue;
mod relay;
mod waits;

use core::task::Poll;

use wharf_backend::{BackendRef, Erases};
use wharf_engine::{Command, Engine, Fault, Sequence};
use wharf_tensor::{Launch, LaunchError, Submission, Target, Tickets, Use, WaitError};

use crate::check::Demand;
use crate::patience::wait_for;
use crate::tensor::{Rig, settles, settling, subject};
use crate::{Check, EngineClaims, Failure, Outcome, Report, Tally, run};

/// Holds the launches of an engine on tensors to the behaviours of `wharf-tensor`: for an engine of your own, with the target that its
/// users have.
///
/// Run [`engine`](crate::engine) on it too, and first, with another cargo: it finds what an engine does wrong, where this
/// suite finds what comes of it. `memory` is one that the engine reaches, and vends four segments of 32 bytes at a time, and the block
/// source of the target has room for five control blocks, which [`tensor`](crate::tensor) may have left none for; of the
/// claims only [`apart`](EngineClaims::apart) is looked at. Who else uses the engine, or target or memory, meanwhile disturbs the
/// counts.
///
/// Completions of an engine that runs apart are waited for on its own event, for ten seconds by the target's clock, if that tells
/// the time; for another one the clock's idle hook is run, which is the place to drive an engine that is polled.
///
/// ```
/// use wharf_backend::Heap;
/// use wharf_conformance::{EngineClaims, launch};
/// use wharf_engine::{CpuEngine, Stream};
/// use wharf_source::HeapSource;
/// use wharf_sync::Unsync;
/// use wharf_tensor::{Parts, Tickets};
///
/// type Sketch = Parts<Heap<Unsync>, HeapSource>;
/// let target = Sketch::new(HeapSource);
/// let cpu = CpuEngine::<Unsync, Tickets<Sketch>>::new(Stream::claim()?);
/// let claims = EngineClaims::default();
/// assert!(launch("mine", &target, Heap::new(), &cpu, claims, &mut ()).is_clean());
/// # Ok::<(), wharf_engine::TooManyStreams>(())
/// ```
pub fn launch<T, R, E>(
    name: &'static str,
    target: &T,
    memory: R,
    engine: &E,
    claims: EngineClaims,
    report: &mut dyn Report,
) -> Tally
where
    T: Target,
    R: BackendRef,
    T::Memory: Erases<R>,
    E: Engine<Policy = T::Policy, Cargo = Tickets<T>>,
{
    let scene = Scene {
        rig: Rig::new(target, memory),
        engine,
        second: engine,
        claims,
    };
    let mut tally = run(subject::<T>("launch", name), &scene, &checks(), report);
    tally.add(relayed(name, &scene, report));
    tally
}

/// Holds the copies from one engine to another, through memory that both reach, to the behaviours of `wharf-tensor`. (With the same engine
/// at both ends [`launch`] does that.) Otherwise as there.
///
/// ```
/// use wharf_backend::Heap;
/// use wharf_conformance::{EngineClaims, relay};
/// use wharf_engine::{CpuEngine, Stream};
/// use wharf_source::HeapSource;
/// use wharf_sync::Unsync;
/// use wharf_tensor::{Parts, Tickets};
///
/// type Sketch = Parts<Heap<Unsync>, HeapSource>;
/// let target = Sketch::new(HeapSource);
/// let camera = CpuEngine::<Unsync, Tickets<Sketch>>::new(Stream::claim()?);
/// let display = CpuEngine::<Unsync, Tickets<Sketch>>::new(Stream::claim()?);
/// let engines = (&camera, &display);
/// let claims = EngineClaims::default();
/// assert!(relay("mine", &target, Heap::new(), engines, claims, &mut ()).is_clean());
/// # Ok::<(), wharf_engine::TooManyStreams>(())
/// ```
pub fn relay<T, M, R, W>(
    name: &'static str,
    target: &T,
    memory: M,
    (reader, writer): (&R, &W),
    claims: EngineClaims,
    report: &mut dyn Report,
) -> Tally
where
    T: Target,
    M: BackendRef,
    T::Memory: Erases<M>,
    R: Engine<Policy = T::Policy, Cargo = Tickets<T>>,
    W: Engine<Policy = T::Policy, Cargo = Tickets<T>>,
{
    let scene = Scene {
        rig: Rig::new(target, memory),
        engine: reader,
        second: writer,
        claims,
    };
    relayed(name, &scene, report)
}

#[inline(never)]
fn relayed<T: Target>(name: &'static str, scene: &Scene<'_, T>, report: &mut dyn Report) -> Tally {
    let checks: [Check<Scene<'_, T>>; 4] = settling! {
        "a copy goes through other memory" => relay::blocking,
        "a copy through other memory is awaited" => relay::awaited,
        "what cannot go through is left as it was" => relay::refused_whole,
        "a copy through that is dropped leaves nothing behind" => relay::dropped,
    };
    run(subject::<T>("relay", name), scene, &checks, report)
}

/// An engine behind `dyn`, so that an image holds the suite once a target and not once an engine.
type Erased<'r, T> = &'r dyn Engine<Policy = <T as Target>::Policy, Cargo = Tickets<T>>;

type Submitted<'r, T> =
    Submission<'r, dyn Engine<Policy = <T as Target>::Policy, Cargo = Tickets<T>> + 'r, T>;

struct Scene<'r, T: Target> {
    rig: Rig<'r, T>,
    engine: Erased<'r, T>,
    /// Who empties what the engine fills.
    second: Erased<'r, T>,
    claims: EngineClaims,
}

const INLINE: &str = "it runs on the context that submits";

fn checks<'r, T: Target>() -> [Check<Scene<'r, T>>; 18] {
    settling! {
        "a command runs on its tensors" => commands::kernel,
        "a command touches its windows and nothing else" => commands::windows,
        "launches run in their order" => commands::order,
        "what cannot be launched holds nothing" => commands::refused_whole,
        "operands of other streams are not had" => commands::other_streams,
        "how it ended is told once" => endings::told_once,
        "a fault reaches its submission and no other" => endings::fault,
        "only what ended well is counted" => endings::counted,
        "what has ended is not taken back" => endings::abort_late,
        "what has not started is taken back" => endings::abort_early,
        "a launch needs its tensors no more" => endings::outlives,
        "a full queue is a value" => queue::full,
        "a submission that is dropped is finished" => queue::detached,
        "a submission is kept by its number" => queue::numbered,
        "operands are the engine's until it lets go" => waits::held,
        "a launch waits for its operands in a task" => waits::when_ready,
        "a launch that is dropped leaves nothing behind" => waits::dropped,
        "a launch has a deadline" => waits::deadline,
    }
}

impl<'r, T: Target> Scene<'r, T> {
    /// Runs `check`, after which everything has gone back.
    fn settles(&self, check: fn(&Self) -> Outcome) -> Outcome {
        let rig = &self.rig;
        settles(|| rig.in_use(), || rig.blocks(), || check(self))
    }

    /// Waits until `test` has an answer.
    fn wait_for<V>(&self, test: impl FnMut() -> Option<V>) -> Result<V, Failure> {
        let clock = self.rig.target.clock();
        wait_for(self.engine.completed(), clock, self.claims.apart, test)
    }

    /// Waits for the end of what was launched.
    #[inline(never)]
    fn finish(&self, submission: &mut Submitted<'r, T>) -> Result<Result<(), WaitError>, Failure> {
        self.wait_for(|| match submission.poll(None) {
            Poll::Ready(ended) => Some(ended),
            Poll::Pending => None,
        })
    }

    /// Waits until a submission that nobody can ask for any more is over.
    fn is_over(&self, sequence: Sequence) -> Result<(), Failure> {
        self.wait_for(|| self.engine.poll(sequence, None).is_ready().then_some(()))
    }

    /// Waits for the end, which is a good one.
    #[inline(never)]
    fn succeed(&self, mut submission: Submitted<'r, T>) -> Result<(), Failure> {
        self.finish(&mut submission)?.demand("it ends well")
    }

    /// Waits for the end, which is this fault.
    #[inline(never)]
    fn fails(&self, mut submission: Submitted<'r, T>, fault: Fault) -> Result<(), Failure> {
        let ended = self.finish(&mut submission)?;
        crate::check::refused("its end", ended, WaitError::Fault(fault))
    }

    /// Launches, with what there is to launch.
    #[inline(never)]
    fn try_launch(
        &self,
        command: Command,
        operands: &[Use<'_, T>],
    ) -> Result<Submitted<'r, T>, LaunchError> {
        // The trait's method on the erased engine, for its lifetime.
        let engine: Erased<'r, T> = self.engine;
        engine.try_launch(command, operands)
    }

    fn launch(
        &self,
        command: Command,
        operands: &[Use<'_, T>],
    ) -> Result<Submitted<'r, T>, Failure> {
        self.try_launch(command, operands).demand("a launch")
    }
}
