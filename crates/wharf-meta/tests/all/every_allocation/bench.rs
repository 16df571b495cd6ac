//! What every row runs on: memory and a source that know what is out, and a set that was there before.

use std::alloc::Layout;
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wharf_backend::{FaultInject, MemBackend, StaticPool};
use wharf_meta::TensorSet;
use wharf_source::{BlockSource, FaultSource, HeapSource, SourceError};
use wharf_sync::Unsync;
use wharf_tensor::{Parts, Tensor};

pub(super) type Memory = Arc<FaultInject<StaticPool<Unsync, 64, 8>>>;
pub(super) type Source = Arc<FaultSource<Counted>>;
pub(super) type Swept = Parts<Memory, Source>;

/// A block.
#[derive(Clone, Copy, Debug)]
pub(super) enum Took {
    /// Of a storage.
    Control,
    /// For so many bytes of names.
    Names(usize),
    /// For so many tensors in a set.
    Entries(usize),
}

impl Took {
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Control => Tensor::<Swept>::CONTROL_BLOCK.size(),
            Self::Names(bytes) => bytes,
            // And where the name is.
            Self::Entries(tensors) => {
                tensors * (size_of::<Tensor<Swept>>() + 2 * size_of::<usize>())
            }
        }
    }
}

/// The heap, and the bytes that are out.
#[derive(Debug, Default)]
pub(super) struct Counted(AtomicUsize);

// SAFETY: every block is one of the heap's, and goes back to it.
unsafe impl BlockSource for Counted {
    fn try_alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        self.0.fetch_add(layout.size(), Ordering::Relaxed);
        HeapSource.try_alloc(layout)
    }
    unsafe fn release(&self, block: NonNull<u8>, layout: Layout) {
        self.0.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { HeapSource.release(block, layout) }
    }
    fn refusal(&self, layout: Layout) -> SourceError {
        HeapSource.refusal(layout)
    }
    fn name(&self) -> &'static str {
        "counted"
    }
}

pub(super) struct Bench {
    pub(super) memory: Memory,
    pub(super) source: Source,
    pub(super) target: Swept,
    /// Four bytes.
    pub(super) tensor: Tensor<Swept>,
    /// It as `x`, and another one of eight bytes as `yy`; room for six more.
    pub(super) set: RefCell<TensorSet<Swept>>,
}

/// Everything that neither a refusal nor an operation changes that has let go of what it got.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct State {
    segments: usize,
    bytes_out: usize,
    handles: [usize; 2],
    set: Vec<(String, Vec<u8>)>,
    in_flight: (u32, u32),
}

impl Bench {
    #[allow(clippy::arc_with_non_send_sync, reason = "only `Arc` is a handle")]
    pub(super) fn new() -> Self {
        let memory = Memory::new(FaultInject::new(StaticPool::new()));
        let source = Source::new(FaultSource::new(Counted::default()));
        let target = Swept::new(source.clone());
        let tensor = Tensor::alloc(&target, memory.clone(), 4).unwrap();
        tensor.write(0, &[1, 2, 3, 4]).unwrap();
        let mut set = TensorSet::new(&target);
        set.try_reserve(8, 32).unwrap();
        set.insert("x", tensor.clone()).unwrap();
        let other = Tensor::alloc(&target, memory.clone(), 8).unwrap();
        other.fill(9).unwrap();
        set.insert("yy", other).unwrap();
        Self {
            memory,
            source,
            target,
            tensor,
            set: RefCell::new(set),
        }
    }

    pub(super) fn state(&self) -> State {
        let bytes = |tensor: &Tensor<_>| tensor.try_lend().unwrap().to_vec();
        State {
            segments: self.memory.inner().census().in_use,
            bytes_out: self.source.inner().0.load(Ordering::Relaxed),
            handles: [
                Arc::strong_count(&self.memory),
                Arc::strong_count(&self.source),
            ],
            set: self
                .set
                .borrow()
                .iter()
                .map(|(name, tensor)| (name.to_owned(), bytes(tensor)))
                .collect(),
            in_flight: self.tensor.in_flight(),
        }
    }

    pub(super) fn refuse_nothing(&self) {
        // Also counts from one again.
        self.memory.fail_none();
        self.source.fail_nth(0);
    }

    /// Requests since: segments, blocks.
    pub(super) fn calls(&self) -> [u64; 2] {
        [self.memory.calls(), self.source.calls()]
    }

    /// What was there serves on; then everything goes, and nothing is left.
    pub(super) fn end(self) {
        let Self {
            memory,
            source,
            target,
            tensor,
            set,
        } = self;
        let mut set = set.into_inner();
        tensor.try_write(3, &[5]).unwrap();
        assert_eq!(*set.get("x").unwrap().try_lend().unwrap(), [1, 2, 3, 5]);
        drop(tensor);
        assert_eq!(set.remove("x").unwrap().len(), 4);
        assert_eq!(set.get("yy").unwrap().len(), 8);
        drop((set, target));
        assert_eq!(memory.inner().census().in_use, 0);
        assert_eq!(source.inner().0.load(Ordering::Relaxed), 0);
        assert_eq!(
            (Arc::strong_count(&memory), Arc::strong_count(&source)),
            (1, 1)
        );
    }
}
