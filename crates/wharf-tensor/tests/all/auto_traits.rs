//! Who may cross threads: decided by the policy and the parts of a target, and checked when this is compiled.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use wharf_backend::{Heap, MemBackend, StaticPool};
use wharf_engine::CpuEngine;
use wharf_source::{BlockSource, Census, HeapSource, StaticPoolSource};
use wharf_sync::{Blocking, Critical, NoClock, SyncPolicy, Unsync};
use wharf_tensor::{
    Completions, Directory, DirectoryEntry, Firmware, Hosted, NoTrace, Parts, Reached, ReadGuard,
    Submission, Tensor, Ticket, Tickets, TraceEvent, TraceSink, Use, WriteGuard,
};

const fn send<T: Send>() {}
const fn sync<T: Sync>() {}

/// Fails to compile, as ambiguous, where the type has the trait.
macro_rules! not {
    ($trait:ident: $($type:ty),+ $(,)?) => {
        $(const _: () = {
            trait Either<A> {
                const HERE: () = ();
            }
            struct Has;
            impl<T: ?Sized> Either<()> for T {}
            impl<T: ?Sized + $trait> Either<Has> for T {}
            <$type as Either<_>>::HERE
        };)+
    };
}

/// What a target hands out is `Send` and `Sync`, all of it.
macro_rules! crosses {
    ($($target:ty, $policy:ty);+ $(;)?) => {
        $(const _: () = {
            send::<Tensor<$target>>();
            sync::<Tensor<$target>>();
            send::<Ticket<$target>>();
            sync::<Ticket<$target>>();
            send::<Tickets<$target>>();
            send::<ReadGuard<'static, $target>>();
            sync::<ReadGuard<'static, $target>>();
            send::<WriteGuard<'static, $target>>();
            sync::<WriteGuard<'static, $target>>();
            send::<Use<'static, $target>>();
            send::<CpuEngine<$policy, Tickets<$target>>>();
            sync::<CpuEngine<$policy, Tickets<$target>>>();
            send::<Completions<'static, $target>>();
            sync::<Completions<'static, $target>>();
            send::<Reached<'static, $target>>();
            send::<Submission<'static, CpuEngine<$policy, Tickets<$target>>, $target>>();
            sync::<Submission<'static, CpuEngine<$policy, Tickets<$target>>, $target>>();
        };)+
    };
}

/// Nothing that a target hands out is `Send` or `Sync`.
macro_rules! stays {
    ($($target:ty, $policy:ty);+ $(;)?) => {
        $(
            not!(Send: Tensor<$target>, Ticket<$target>, Tickets<$target>, Use<'static, $target>);
            not!(Sync: Tensor<$target>, Ticket<$target>, Tickets<$target>, Use<'static, $target>);
            not!(Send: Completions<'static, $target>, Reached<'static, $target>);
            not!(Sync: Completions<'static, $target>, Reached<'static, $target>);
            not!(Send: ReadGuard<'static, $target>, WriteGuard<'static, $target>);
            not!(Sync: ReadGuard<'static, $target>, WriteGuard<'static, $target>);
            not!(Sync: CpuEngine<$policy, Tickets<$target>>);
            not!(Send: CpuEngine<$policy, Tickets<$target>>);
            not!(Send: Submission<'static, CpuEngine<$policy, Tickets<$target>>, $target>);
            not!(Sync: Submission<'static, CpuEngine<$policy, Tickets<$target>>, $target>);
        )+
    };
}

const fn listed<P: SyncPolicy, S: BlockSource + Send>()
where
    Directory<P, S>: Send + Sync,
    DirectoryEntry<P, S>: Send + Sync,
{
}
const _: () = listed::<Blocking, HeapSource>();
const _: () = listed::<Critical, &'static Source<Critical>>();
// An entry is freed by whoever drops it last: the source is sent, and never shared.
const _: () = listed::<Blocking, SentOnly>();
not!(Send: Directory<Blocking, Rc<HeapSource>>, DirectoryEntry<Blocking, Rc<HeapSource>>);
not!(Sync: Directory<Blocking, Rc<HeapSource>>, DirectoryEntry<Blocking, Rc<HeapSource>>);
not!(Send: Directory<Unsync, HeapSource>, DirectoryEntry<Unsync, HeapSource>);
not!(Sync: Directory<Unsync, HeapSource>, DirectoryEntry<Unsync, HeapSource>);

type Source<P> = StaticPoolSource<P, 4096, 4>;
type ErasedHere<P> = Arc<dyn MemBackend<Policy = P>>;

crosses! {
    Hosted, Blocking;
    Parts<Heap<Blocking>, HeapSource>, Blocking;
    Parts<Arc<StaticPool<Blocking, 64, 4>>, HeapSource>, Blocking;
    Parts<&'static StaticPool<Critical, 64, 4>, &'static Source<Critical>>, Critical;
    Firmware<Critical, Source<Critical>>, Critical;
    Firmware<Critical, Source<Critical>, NoClock, &'static Directory<Critical, &'static Source<Critical>>>, Critical;
    // A source handle is used by one thread at a time: it is sent, and never shared.
    Parts<Heap<Blocking>, SentOnly>, Blocking;
}

stays! {
    // One owner's counts.
    Parts<Heap<Unsync>, HeapSource>, Unsync;
    Parts<Arc<StaticPool<Unsync, 64, 4>>, HeapSource>, Unsync;
    Firmware<Unsync, Source<Critical>>, Unsync;
    // A part that is one thread's own: backend, source, clock, sink.
    Parts<ErasedHere<Blocking>, HeapSource>, Blocking;
    Parts<Heap<Blocking>, Rc<HeapSource>>, Blocking;
    Parts<Heap<Blocking>, &'static Source<Unsync>>, Blocking;
    Parts<Heap<Blocking>, HeapSource, HereClock>, Blocking;
    Parts<Heap<Blocking>, HeapSource, NoClock, HereSink>, Blocking;
    // A sink that is sent but not shared will not do: any thread that has a tensor tells it.
    Parts<Heap<Blocking>, HeapSource, NoClock, SentSink>, Blocking;
}

/// A source handle that may be sent and not shared.
#[derive(Clone)]
struct SentOnly {
    _unshared: Cell<u8>,
}

// SAFETY: the heap.
unsafe impl BlockSource for SentOnly {
    fn try_alloc(&self, layout: std::alloc::Layout) -> Option<std::ptr::NonNull<u8>> {
        HeapSource.try_alloc(layout)
    }
    unsafe fn release(&self, block: std::ptr::NonNull<u8>, layout: std::alloc::Layout) {
        // SAFETY: as the caller promises.
        unsafe { HeapSource.release(block, layout) }
    }
    fn refusal(&self, layout: std::alloc::Layout) -> wharf_source::SourceError {
        HeapSource.refusal(layout)
    }
    fn census(&self) -> Census {
        Census::NOTHING
    }
    fn name(&self) -> &'static str {
        "sent only"
    }
}

#[derive(Clone)]
struct HereClock {
    _here: Rc<()>,
}

impl wharf_sync::Clock for HereClock {
    fn now(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }
}

#[derive(Clone)]
struct HereSink {
    _here: Rc<()>,
}

impl TraceSink for HereSink {
    fn record(&self, _: TraceEvent) {}
}

#[derive(Clone)]
struct SentSink {
    _unshared: Cell<u8>,
}

impl TraceSink for SentSink {
    fn record(&self, event: TraceEvent) {
        NoTrace.record(event);
    }
}

#[test]
fn a_tensor_is_freed_through_its_source_on_whatever_thread() {
    let target = Parts::<Heap<Blocking>, _>::new(SentOnly {
        _unshared: Cell::new(0),
    });
    let tensor = Tensor::alloc(&target, Heap::new(), 4).unwrap();
    let slice = tensor.slice(1..).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || slice.fill(3).unwrap());
    });
    assert_eq!(*tensor.lend().unwrap(), [0, 3, 3, 3]);
    std::thread::spawn(move || drop(tensor)).join().unwrap();
}
