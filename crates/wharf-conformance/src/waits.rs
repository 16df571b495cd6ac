//! What memory does that can be waited for.

use core::cell::Cell;
use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use core::time::Duration;

use wharf_backend::wrap::{AllocAsync, AllocWaitError, Waits};
use wharf_backend::{AllocError, AllocHint, SegmentMut, Uninit};
use wharf_sync::{Clock, SyncPolicy};

use crate::check::{Demand, applies, ensure, equal, refused};
use crate::waker::Probe;
use crate::{Check, Failure, Outcome, Report, Subject, Tally, run};

/// Holds memory that can be waited for to the promises of [`Waits`], as far as one context can see them: tasks wait here, and
/// a thread only until a deadline that has passed.
///
/// Give it memory that nobody else uses meanwhile, and that 16 of its segments exhaust; and run [`backend`](crate::backend) on it,
/// too.
///
/// ```
/// use wharf_backend::{StaticPool, Waitable};
/// use wharf_conformance::waits;
/// use wharf_sync::Unsync;
///
/// let mine = Waitable::new(StaticPool::<Unsync, 24, 3>::new());
/// assert!(waits("mine", &mine, &mut ()).is_clean());
/// ```
pub fn waits<B: Waits>(name: &'static str, backend: &B, report: &mut dyn Report) -> Tally {
    let policy = <B::Policy as SyncPolicy>::NAME;
    run(
        Subject {
            policy,
            suite: "waits",
            name,
        },
        backend,
        &checks(),
        report,
    )
}

fn checks<B: Waits>() -> [Check<B>; 8] {
    [
        Check {
            name: "who asks for what is there does not wait",
            run: at_once,
        },
        Check {
            name: "a segment that goes back wakes who waits for it",
            run: woken,
        },
        Check {
            name: "those who wait are served in their order",
            run: in_order,
        },
        Check {
            name: "a wake of who gives up is the next one's",
            run: passed_on,
        },
        Check {
            name: "who gives up leaves nothing behind",
            run: gives_up,
        },
        Check {
            name: "what waiting does not help is refused at once",
            run: hopeless,
        },
        Check {
            name: "a wait ends at its deadline",
            run: deadline,
        },
        Check {
            name: "who waits looks again when told to",
            run: recheck,
        },
    ]
}

/// Segments that exhaust the memory.
const MOST: usize = 16;

/// All of the memory.
struct Hoard<'b, B: Waits> {
    held: [Option<SegmentMut<&'b B, Uninit>>; MOST],
}

impl<'b, B: Waits> Hoard<'b, B> {
    #[inline(never)]
    fn of(backend: &'b B) -> Result<Self, Failure> {
        let mut held = [const { None }; MOST];
        for place in &mut held {
            match SegmentMut::alloc(backend, size(backend)) {
                Ok(segment) => *place = Some(segment),
                Err(refusal) if refusal.may_pass() => break,
                Err(error) => return Err(Failure::refused("a segment", error.into())),
            }
        }
        ensure(held.iter().flatten().count() > 1, "it has two segments")?;
        let all = SegmentMut::alloc(backend, size(backend)).is_err();
        ensure(all, "16 of its segments exhaust it")?;
        Ok(Self { held })
    }

    /// One goes back.
    fn give(&mut self) {
        drop(self.held.iter_mut().find_map(Option::take));
    }
}

fn size<B: Waits>(backend: &B) -> usize {
    backend.max_segment_size().min(8)
}

fn ask<B: Waits>(backend: &B) -> AllocAsync<&B> {
    AllocAsync::new(backend, size(backend), AllocHint::NONE)
}

type Answer<'b, B> = Poll<Result<SegmentMut<&'b B, Uninit>, AllocError>>;

/// Polls as the task of `probe` with this number.
#[inline(never)]
fn poll<'b, B: Waits>(
    future: &mut Pin<&mut AllocAsync<&'b B>>,
    probe: &Probe,
    task: usize,
) -> Answer<'b, B> {
    let waker = probe.waker(task);
    future.as_mut().poll(&mut Context::from_waker(&waker))
}

/// It waits.
fn pending<B: Waits>(answer: Answer<'_, B>) -> Result<(), Failure> {
    ensure(answer.is_pending(), "it waits")
}

/// It is served.
fn served<B: Waits>(answer: Answer<'_, B>) -> Result<(), Failure> {
    match answer {
        Poll::Ready(segment) => segment.map(drop).demand("a segment"),
        Poll::Pending => Err(Failure::new("who is woken is served")),
    }
}

fn at_once<B: Waits>(backend: &B) -> Outcome {
    let probe = Probe::claim()?;
    let mut future = pin!(ask(backend));
    for _ in 0..2 {
        served(poll(&mut future, &probe, 0))?;
    }
    equal("wakers that are kept", probe.alive(), 0)?;
    Ok(())
}

fn woken<B: Waits>(backend: &B) -> Outcome {
    let (mut hoard, probe) = (Hoard::of(backend)?, Probe::claim()?);
    let mut future = pin!(ask(backend));
    pending(poll(&mut future, &probe, 0))?;
    equal("wakes before there is anything", probe.wakes(), 0)?;
    hoard.give();
    ensure(probe.woken(0), "it is woken")?;
    served(poll(&mut future, &probe, 0))?;
    equal("wakers that are kept", probe.alive(), 0)?;
    Ok(())
}

fn in_order<B: Waits>(backend: &B) -> Outcome {
    let (mut hoard, probe) = (Hoard::of(backend)?, Probe::claim()?);
    let (mut first, mut second) = (pin!(ask(backend)), pin!(ask(backend)));
    pending(poll(&mut first, &probe, 0))?;
    pending(poll(&mut second, &probe, 1))?;
    hoard.give();
    ensure(probe.woken(0), "the first is woken")?;
    ensure(!probe.woken(1), "the second is not")?;
    pending(poll(&mut second, &probe, 1))?;
    served(poll(&mut first, &probe, 0))?;
    ensure(probe.woken(1), "it is the second one's turn")?;
    served(poll(&mut second, &probe, 1))?;
    Ok(())
}

fn passed_on<B: Waits>(backend: &B) -> Outcome {
    let (mut hoard, probe) = (Hoard::of(backend)?, Probe::claim()?);
    let mut second = pin!(ask(backend));
    {
        let mut first = pin!(ask(backend));
        pending(poll(&mut first, &probe, 0))?;
        pending(poll(&mut second, &probe, 1))?;
        hoard.give();
        ensure(probe.woken(0), "the first is woken")?;
    }
    ensure(probe.woken(1), "the next one is woken instead")?;
    served(poll(&mut second, &probe, 1))?;
    Ok(())
}

fn gives_up<B: Waits>(backend: &B) -> Outcome {
    let (mut hoard, probe) = (Hoard::of(backend)?, Probe::claim()?);
    let before = backend.census();
    {
        let mut future = pin!(ask(backend));
        pending(poll(&mut future, &probe, 0))?;
    }
    equal("wakers that are kept", probe.alive(), 0)?;
    let after = backend.census();
    equal("units in use", after.in_use, before.in_use)?;
    hoard.give();
    equal("wakes", probe.wakes(), 0)?;
    let segment = SegmentMut::alloc(backend, size(backend));
    drop(segment.demand("what went back is there")?);
    Ok(())
}

fn hopeless<B: Waits>(backend: &B) -> Outcome {
    let max = backend.max_segment_size();
    applies(max < usize::MAX, "it knows no limit")?;
    let requested = max + 1;
    let expected = AllocError::TooLarge { requested, max };
    // Also when there is nothing at all.
    let _hoard = Hoard::of(backend)?;
    let probe = Probe::claim()?;
    let mut future = pin!(AllocAsync::new(backend, requested, AllocHint::NONE));
    match poll(&mut future, &probe, 0) {
        Poll::Ready(answer) => refused("a segment that is too large", answer, expected)?,
        Poll::Pending => return Err(Failure::new("it is not waited for").into()),
    }
    match backend.alloc_wait(requested, &Late(Cell::new(0)), Some(Duration::ZERO)) {
        Err(AllocWaitError::Refused(error)) => {
            refused("a segment that is too large", Err::<(), _>(error), expected)?;
        }
        _ => return Err(Failure::new("it is not waited for").into()),
    }
    Ok(())
}

/// A clock that is past every deadline, and counts who idles.
struct Late(Cell<u32>);

impl Clock for Late {
    fn now(&self) -> Duration {
        Duration::MAX
    }
    fn idle(&self) {
        self.0.set(self.0.get().saturating_add(1));
    }
}

fn deadline<B: Waits>(backend: &B) -> Outcome {
    let mut hoard = Hoard::of(backend)?;
    let before = backend.census();
    let late = Late(Cell::new(0));
    let size = size(backend);
    let requested = match backend.alloc_wait(size, &late, Some(Duration::from_secs(1))) {
        Err(
            AllocWaitError::TimedOut { requested } | AllocWaitError::WouldDeadlock { requested },
        ) => requested,
        _ => return Err(Failure::new("the wait ends without a segment").into()),
    };
    equal("the bytes it names", requested, size)?;
    equal("turns of the idle hook", late.0.get(), 0)?;
    let after = backend.census();
    if before.unit != 0 {
        let told = after.refused > before.refused;
        ensure(told, "it is counted as a refusal")?;
    }
    equal("units in use", after.in_use, before.in_use)?;
    // It stands in nobody's way.
    hoard.give();
    let probe = Probe::claim()?;
    let mut future = pin!(ask(backend));
    served(poll(&mut future, &probe, 0))?;
    Ok(())
}

fn recheck<B: Waits>(backend: &B) -> Outcome {
    let (_hoard, probe) = (Hoard::of(backend)?, Probe::claim()?);
    let mut future = pin!(ask(backend));
    pending(poll(&mut future, &probe, 0))?;
    backend.recheck();
    ensure(probe.woken(0), "it is woken")?;
    pending(poll(&mut future, &probe, 1))?;
    backend.recheck();
    ensure(probe.woken(1), "and woken again")?;
    Ok(())
}
