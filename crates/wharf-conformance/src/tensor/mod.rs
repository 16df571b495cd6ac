//! What tensors do, whatever their target is made of.

mod batches;
mod bytes;
mod copies;
mod deadlines;
mod exhaustion;
mod fence;
mod guards;
mod lifecycle;
mod names;
mod read_only;
pub(crate) mod tasks;
mod tickets;
mod unfenced;

use wharf_backend::{BackendRef, Caps, Erases, MemBackend, MemSpace};
use wharf_engine::Stream;
use wharf_source::BlockSource;
use wharf_sync::{Event, NoClock, SyncPolicy, Wake};
use wharf_tensor::{StorageId, Target, Tensor, TensorError};

pub use read_only::read_only;

use crate::check::{Demand, ensure, equal};
use crate::{Check, Failure, Outcome, Report, Subject, Tally, run};

/// Holds the tensors of a target to the behaviours of `wharf-tensor`, over one of its memories: of a device of your own, say.
///
/// Nothing is claimed, because target and memory say what they are: device memory is not lent, a target without a directory lists no
/// names, one whose clock does not tell the time keeps no deadlines. What does not apply counts neither way.
///
/// `memory` vends four segments of 32 bytes at a time (of twice its alignment, where it [maintains
/// caches](wharf_backend::Caps::NEEDS_CACHE_OPS)), and the block source of the target has room for six control blocks and four
/// identities. Both are tried to exhaustion, as long as fewer than 64 segments and 32 blocks exhaust them. Give it a target and a
/// memory that nobody else uses meanwhile: after each check their counts must be what they were before.
///
/// What an engine adds is in [`launch`](crate::launch), what a second memory adds in [`copies`].
///
/// ```
/// use wharf_backend::Heap;
/// use wharf_conformance::tensor;
/// use wharf_source::HeapSource;
/// use wharf_sync::Unsync;
/// use wharf_tensor::Parts;
///
/// let target = Parts::<Heap<Unsync>, HeapSource>::new(HeapSource);
/// assert!(tensor("mine", &target, Heap::new(), &mut ()).is_clean());
/// ```
pub fn tensor<T, R>(name: &'static str, target: &T, memory: R, report: &mut dyn Report) -> Tally
where
    T: Target,
    R: BackendRef,
    T::Memory: Erases<R>,
{
    let rig = Rig::new(target, memory);
    run(subject::<T>("tensor", name), &rig, &checks(), report)
}

/// Holds copies and batches between two memories of a target to the behaviours of `wharf-tensor`: a device's and the host's, say, or
/// those of two devices. All pairings are tried, each memory with itself among them.
///
/// Each of them vends two segments of 300 bytes at a time; otherwise as for [`tensor`].
///
/// ```
/// use std::sync::Arc;
/// use wharf_backend::{Heap, StaticPool};
/// use wharf_conformance::copies;
/// use wharf_sync::Blocking;
/// use wharf_tensor::Hosted;
///
/// let pool = Arc::new(StaticPool::<Blocking, 300, 2>::new());
/// let tally = copies("mine", &Hosted::default(), pool, Arc::new(Heap::<Blocking>::new()), &mut ());
/// assert!(tally.is_clean());
/// ```
pub fn copies<T, A, B>(
    name: &'static str,
    target: &T,
    first: A,
    second: B,
    report: &mut dyn Report,
) -> Tally
where
    T: Target,
    A: BackendRef,
    B: BackendRef,
    T::Memory: Erases<A> + Erases<B>,
{
    let pair = copies::Pair::new(target, first, second);
    run(
        subject::<T>("copies", name),
        &pair,
        &copies::checks(),
        report,
    )
}

pub(crate) fn subject<T: Target>(suite: &'static str, name: &'static str) -> Subject {
    Subject {
        policy: <T::Policy as SyncPolicy>::NAME,
        suite,
        name,
    }
}

/// Bytes of the tensors here.
pub(crate) const LEN: usize = 32;

/// What they hold.
pub(crate) const BYTES: [u8; LEN] = *b"tensors are bytes behind a fence";

pub(crate) const DEVICE: &str = "it is device memory";

/// A target, and a memory of it.
pub(crate) struct Rig<'r, T: Target> {
    pub(crate) target: &'r T,
    pub(crate) memory: T::Memory,
}

impl<'r, T: Target> Rig<'r, T> {
    pub(crate) fn new<R: BackendRef>(target: &'r T, memory: R) -> Self
    where
        T::Memory: Erases<R>,
    {
        let memory = <T::Memory as Erases<R>>::erase(memory);
        Self { target, memory }
    }

    /// Zeros.
    #[inline(never)]
    pub(crate) fn zeros(&self, len: usize) -> Result<Tensor<T>, Failure> {
        let tensor = Tensor::alloc(self.target, self.memory.clone(), len).demand("a tensor")?;
        // A device whose memory always has values gives those.
        tensor.fill(0).demand("a fill")?;
        Ok(tensor)
    }

    /// A tensor of [`BYTES`].
    #[inline(never)]
    pub(crate) fn tensor(&self) -> Result<Tensor<T>, Failure> {
        let tensor = Tensor::alloc(self.target, self.memory.clone(), LEN).demand("a tensor")?;
        tensor.write(0, &BYTES).demand("a write")?;
        Ok(tensor)
    }

    pub(crate) fn placeholder(&self) -> Result<Tensor<T>, Failure> {
        Tensor::placeholder(self.target, LEN).demand("a placeholder")
    }

    pub(crate) fn on_host(&self) -> bool {
        self.memory.backend().space() == MemSpace::Host
    }

    /// Where a tensor may be split, if it is not at any byte.
    pub(crate) fn granule(&self) -> Option<usize> {
        let memory = self.memory.backend();
        let maintained = memory.caps().contains(Caps::NEEDS_CACHE_OPS);
        maintained.then(|| memory.alignment())
    }

    /// Units of the memory that are in use.
    pub(crate) fn in_use(&self) -> usize {
        self.memory.backend().census().in_use
    }

    /// Units of the block source that are in use.
    pub(crate) fn blocks(&self) -> usize {
        self.target.source().census().in_use
    }

    /// Runs `check`, after which everything has gone back. A pool may count blocks that it keeps for the next one of their size: so
    /// what is missing at first must be enough for a second time.
    #[inline(never)]
    pub(crate) fn settles(&self, check: fn(&Self) -> Outcome) -> Outcome {
        settles(|| self.in_use(), || self.blocks(), || check(self))
    }
}

/// [`Rig::settles`], for checks that are about more than a rig.
pub(crate) fn settles(
    memory: impl Fn() -> usize,
    blocks: impl Fn() -> usize,
    check: impl Fn() -> Outcome,
) -> Outcome {
    let before = (memory(), blocks());
    check()?;
    equal("units of memory in use afterwards", memory(), before.0)?;
    let kept = blocks();
    if kept != before.1 {
        check()?;
        equal(
            "units of memory in use after a second time",
            memory(),
            before.0,
        )?;
        equal(
            "units of control blocks after a second time",
            blocks(),
            kept,
        )?;
    }
    Ok(())
}

/// Whether nobody but the caller exists under this policy, so that to wait would be for ever.
pub(crate) fn is_alone<P: SyncPolicy>() -> bool {
    let event = P::Event::new();
    let wake = event.wait(event.epoch(), &NoClock, Some(core::time::Duration::ZERO));
    wake == Wake::Never
}

pub(crate) fn stream() -> Result<Stream, Failure> {
    Stream::claim().ok().demand("a stream for the suite")
}

pub(crate) fn id<T: Target>(tensor: &Tensor<T>) -> Result<StorageId, Failure> {
    tensor.storage_id().demand("its storage has a number")
}

pub(crate) fn would_block<T: Target>(tensor: &Tensor<T>) -> Result<TensorError, Failure> {
    let storage = id(tensor)?;
    Ok(TensorError::WouldBlock { storage })
}

/// The tensor shows exactly these bytes.
#[inline(never)]
pub(crate) fn shows<T: Target>(tensor: &Tensor<T>, expected: &[u8]) -> Result<(), Failure> {
    equal("its length", tensor.len(), expected.len())?;
    for (at, &expected) in expected.iter().enumerate() {
        let mut byte = [!expected];
        tensor.read(at, &mut byte).demand("a read")?;
        let [found] = byte;
        equal("a byte of a tensor", found, expected)?;
    }
    Ok(())
}

/// Every byte of the tensor is this one.
#[inline(never)]
pub(crate) fn is_all<T: Target>(tensor: &Tensor<T>, byte: u8) -> Result<(), Failure> {
    shows(tensor, &[byte; LEN])
}

/// Whoever wants may write it, and nobody is at it.
#[inline(never)]
pub(crate) fn is_free<T: Target>(tensor: &Tensor<T>) -> Result<(), Failure> {
    let under_way = tensor.in_flight();
    ensure(under_way == (0, 0), "no device has access any more")?;
    let first = tensor.slice(..1).demand("a slice")?;
    first.try_fill(b't').demand("a write, once nobody is at it")
}

macro_rules! settling {
    ($($name:literal => $run:expr,)*) => {[
        $(Check { name: $name, run: |rig| rig.settles($run) },)*
    ]};
}
pub(crate) use settling;

fn checks<'r, T: Target>() -> [Check<Rig<'r, T>>; 48] {
    settling! {
        "a tensor has the bytes that were written" => bytes::written,
        "a fill fills its window" => bytes::fills,
        "a slice is a window on the same bytes" => bytes::slices,
        "a range is checked before it is added up" => bytes::bounds,
        "a copy takes the whole length" => bytes::copied,
        "a copy may overlap itself" => bytes::overlap,
        "a tensor says where it is" => bytes::placed,
        "an empty tensor has no bytes" => lifecycle::empty,
        "a placeholder has a length and no bytes" => lifecycle::placeholder,
        "a segment becomes a tensor and comes out again" => lifecycle::round_trip,
        "only the only holder takes the segment out" => lifecycle::shared,
        "an attached segment takes the place of the old one" => lifecycle::attach,
        "nothing is attached under a device" => lifecycle::attach_in_flight,
        "parts have fences of their own" => lifecycle::split,
        "a tensor is whole again when its parts are gone" => lifecycle::rejoin,
        "a batch does what its operations say" => batches::moves,
        "a batch with one bad operation does nothing" => batches::all_or_nothing,
        "a batch has access to all or to none" => batches::fenced,
        "past the fence the same bytes are moved" => unfenced::alone,
        "past the fence nobody is met" => unfenced::beside,
        "past the fence a range is checked, too" => unfenced::bounds,
        "a device that reads keeps writers out" => fence::device_reads,
        "a device that writes keeps everybody out" => fence::device_writes,
        "devices read together" => fence::two_readers,
        "a stream does not wait for itself" => fence::one_stream,
        "a ticket outlives its tensors" => fence::outlives,
        "a wait that cannot end is an error" => fence::for_ever,
        "tickets are for all uses or for none" => tickets::all_or_none,
        "tickets are in the order of their uses" => tickets::in_order,
        "tickets that land well are counted" => tickets::landed,
        "tickets are waited for in a task" => tickets::awaited,
        "tickets that are not waited for any more leave nothing behind" => tickets::dropped,
        "tickets have a deadline" => tickets::deadline,
        "a guard lends the bytes in place" => guards::lends,
        "a guard is not waited for" => guards::guarded,
        "device memory is not lent" => guards::not_lent,
        "a deadline that has passed ends a wait" => deadlines::passed,
        "a deadline takes a clock" => deadlines::no_clock,
        "a task is woken when the access ends" => tasks::woken,
        "a future that is dropped leaves nothing behind" => tasks::dropped,
        "what needs no wait is ready at once" => tasks::at_once,
        "clones share a name" => names::shared,
        "a directory lists what has a name" => names::listed,
        "completions are counted and waited for" => names::completions,
        "who waits for completions is woken" => names::reached,
        "memory that runs out is a value" => exhaustion::memory,
        "names that run out are a value" => exhaustion::names,
        "control blocks that run out are a value" => exhaustion::blocks,
    }
}
