//! What every row runs on: memory of a host and of a device, a source, a directory and a trace, each of which knows what is out; and tensors
//! that were there before.

use std::alloc::Layout;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::common::{Books, Device};
use wharf_backend::{BorrowedBackend, FaultInject, Heap, MemBackend, SharedBytes, StaticPool};
use wharf_engine::{CpuEngine, Engine, Stream};
use wharf_source::FaultSource;
use wharf_sync::{Blocking, StdClock};
use wharf_tensor::{Directory, Parts, Tensor, Tickets, TraceRing};

pub(super) type Memory = Arc<dyn MemBackend<Policy = Blocking> + Send + Sync>;
pub(super) type Source = Arc<FaultSource<Books, Blocking>>;
pub(super) type Names = Arc<Directory<Blocking, Source>>;
pub(super) type Ring = Arc<TraceRing<Blocking, 64>>;
pub(super) type Swept = Parts<Memory, Source, StdClock, Ring, Names>;
pub(super) type Sweeper = CpuEngine<Blocking, Tickets<Swept>, 4>;

pub(super) const IDENTITY: Layout = Tensor::<Swept>::IDENTITY_BLOCK;
/// What the read-only tensor holds.
pub(super) const ROM: [u8; 8] = *b"in flash";
/// What the two that may be written hold first.
pub(super) const FIRST: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
pub(super) const SECOND: [u8; 8] = [11, 12, 13, 14, 15, 16, 17, 18];

/// A block.
#[derive(Clone, Copy, Debug)]
pub(super) enum Took {
    /// Of a storage.
    Control,
    /// Of an identity.
    Named(Name),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Name {
    Static,
    /// So many bytes.
    Copied(usize),
}

impl Took {
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Control => Tensor::<Swept>::CONTROL_BLOCK.size(),
            Self::Named(Name::Static) => IDENTITY.size(),
            Self::Named(Name::Copied(bytes)) => {
                (IDENTITY.size() + bytes).next_multiple_of(IDENTITY.align())
            }
        }
    }
}

pub(super) struct Bench {
    pub(super) host: Arc<FaultInject<StaticPool<Blocking, 64, 16>>>,
    pub(super) device: Arc<FaultInject<Device<Blocking>>>,
    pub(super) source: Source,
    pub(super) names: Names,
    pub(super) ring: Ring,
    pub(super) target: Swept,
    pub(super) engines: [Sweeper; 2],
    pub(super) stream: Stream,
    /// In host memory, named `first`, with a count of one.
    pub(super) first: Tensor<Swept>,
    /// In device memory, named `second`.
    pub(super) second: Tensor<Swept>,
    pub(super) rom: Tensor<Swept>,
    pub(super) placeholder: Tensor<Swept>,
    /// Memory of the program, which nobody makes fail: for segments that are to become tensors.
    pub(super) heap: Arc<Heap<Blocking>>,
}

/// Everything that a refusal must not change.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) held: Held,
    bytes: [Vec<u8>; 3],
    completions: [u32; 2],
}

/// The part of it that no operation changes which has let go of what it got.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Held {
    segments: [usize; 2],
    blocks: usize,
    foreign: usize,
    /// Counts of the two memories, the source, the directory and the trace.
    handles: [usize; 5],
    /// The listing of names: storages, holders, accesses under way.
    listing: String,
    in_flight: [(u32, u32); 4],
    outstanding: [bool; 2],
}

impl Bench {
    pub(super) fn new() -> Self {
        let host = Arc::new(FaultInject::new(StaticPool::new()));
        let device = Arc::new(FaultInject::new(Device::new()));
        let source = Arc::new(FaultSource::new(Books::default()));
        let (names, ring) = (Names::default(), Arc::new(TraceRing::new()));
        let target =
            Swept::with_directory(source.clone(), StdClock::new(), ring.clone(), names.clone());
        let first = Tensor::alloc_named(&target, host.clone(), 8, "first").unwrap();
        first.write(0, &FIRST).unwrap();
        first.completions().unwrap().complete();
        let second = Tensor::alloc_named(&target, device.clone(), 8, "second").unwrap();
        second.write(0, &SECOND).unwrap();
        let rom = Arc::new(BorrowedBackend::<_, Blocking>::fresh(SharedBytes::new(
            &ROM,
        )));
        let rom = BorrowedBackend::lend_by(rom).unwrap();
        let rom = Tensor::from_segment(&target, rom).unwrap();
        Self {
            placeholder: Tensor::placeholder(&target, 8).unwrap(),
            heap: Arc::new(Heap::new()),
            engines: [(); 2].map(|()| Sweeper::new(Stream::claim().unwrap())),
            stream: Stream::claim().unwrap(),
            host,
            device,
            source,
            names,
            ring,
            target,
            first,
            second,
            rom,
        }
    }

    pub(super) fn state(&self) -> State {
        let listed = [&self.first, &self.second, &self.rom, &self.placeholder];
        State {
            held: Held {
                segments: [
                    self.host.inner().census().in_use,
                    self.device.inner().segments(),
                ],
                blocks: self.source.inner().blocks(),
                foreign: self.source.inner().foreign(),
                handles: [
                    Arc::strong_count(&self.host),
                    Arc::strong_count(&self.device),
                    Arc::strong_count(&self.source),
                    Arc::strong_count(&self.names),
                    Arc::strong_count(&self.ring),
                ],
                listing: self.names.to_string(),
                in_flight: listed.map(Tensor::in_flight),
                outstanding: self
                    .engines
                    .each_ref()
                    .map(|engine| engine.outstanding().is_some()),
            },
            bytes: [&self.first, &self.second, &self.rom].map(|tensor| {
                let mut bytes = vec![0; tensor.len()];
                tensor.try_read(0, &mut bytes).unwrap();
                bytes
            }),
            completions: [&self.first, &self.second]
                .map(|tensor| tensor.completions().unwrap().count()),
        }
    }

    pub(super) fn refuse_nothing(&self) {
        // Also counts from one again.
        self.host.fail_none();
        self.device.fail_none();
        self.source.fail_nth(0);
    }

    pub(super) fn refuse_everything(&self) {
        self.host.fail_every(1);
        self.device.fail_every(1);
        self.source.fail_every(1);
    }

    /// Requests since: host, device, blocks.
    pub(super) fn calls(&self) -> [u64; 3] {
        [self.host.calls(), self.device.calls(), self.source.calls()]
    }

    /// Blocks that are out.
    pub(super) fn blocks_out(&self) -> usize {
        self.source.inner().blocks()
    }

    /// What was there before is written and read as ever, and left as it first was.
    pub(super) fn serves(&self) {
        for (tensor, first) in [(&self.first, FIRST), (&self.second, SECOND)] {
            tensor.try_write(2, &[91, 92]).unwrap();
            let mut bytes = [0; 4];
            tensor.try_read(1, &mut bytes).unwrap();
            assert_eq!(bytes[1..3], [91, 92]);
            tensor.try_copy_from(&self.rom).unwrap();
            tensor.try_read(0, &mut bytes).unwrap();
            assert_eq!(bytes, *b"in f");
            tensor.try_write(0, &first).unwrap();
        }
        assert_eq!(*self.rom.try_lend().unwrap(), ROM);
        self.placeholder.try_write(7, &[1]).unwrap();
    }

    /// Everything goes, and nothing is left.
    pub(super) fn end(self) {
        let Self {
            host,
            device,
            source,
            names,
            target,
            first,
            second,
            rom,
            placeholder,
            ..
        } = self;
        drop((first, second, rom, placeholder));
        assert_eq!(source.inner().blocks(), 0);
        assert_eq!(source.inner().foreign(), 0);
        assert_eq!(
            (host.inner().census().in_use, device.inner().segments()),
            (0, 0)
        );
        assert!(device.inner().gaps_untouched());
        assert_eq!(names.iter().count(), 0);
        drop(target);
        let handles = [
            Arc::strong_count(&host),
            Arc::strong_count(&device),
            Arc::strong_count(&source),
        ];
        assert_eq!(handles, [1; 3]);
    }
}

/// What a future that need not wait is ready with.
#[track_caller]
pub(super) fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}
