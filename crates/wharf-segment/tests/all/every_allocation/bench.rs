//! What every row runs on: memory and a source that know what is out, a rope and a view that were there before.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wharf_backend::{AllocError, FaultInject, MemBackend, SegmentMut, StaticPool};
use wharf_segment::{GatherError, PushError, SliceError, View};
use wharf_source::{BlockSource, FaultSource, HeapSource, SourceError};
use wharf_sync::Blocking;

pub(super) type Memory = Arc<FaultInject<StaticPool<Blocking, 64, 24>>>;
pub(super) type Source = Arc<FaultSource<Counted, Blocking>>;
/// Two links inline.
pub(super) type Rope = wharf_segment::Rope<Memory, Source>;

/// Bytes of the block that so many links ask for.
pub(super) fn block(links: usize) -> usize {
    Rope::link_block(links).unwrap().size()
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

/// What a row was refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Memory(AllocError),
    Source(SourceError),
}

impl From<AllocError> for Refused {
    fn from(error: AllocError) -> Self {
        Self::Memory(error)
    }
}
impl From<SourceError> for Refused {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
    }
}
impl From<GatherError> for Refused {
    fn from(error: GatherError) -> Self {
        match error {
            GatherError::Refused(error) => Self::Memory(error),
            other => panic!("{other:?}"),
        }
    }
}

/// Of a rope that would have had so many links.
#[track_caller]
pub(super) fn pushing(expected: usize) -> impl Fn(PushError) -> Refused {
    move |error| match error {
        PushError::NoRoom { links, refusal } => {
            assert_eq!(links, expected);
            Refused::Source(refusal)
        }
        other => panic!("{other:?}"),
    }
}

/// Of a part of so many links.
pub(super) fn cutting(expected: usize) -> impl Fn(SliceError) -> Refused {
    move |error| match error {
        SliceError::NoRoom { links, refusal } => {
            assert_eq!(links, expected);
            Refused::Source(refusal)
        }
        other @ SliceError::OutOfBounds(_) => panic!("{other:?}"),
        _ => panic!("a new cause"),
    }
}

/// The bytes of the rope.
pub(super) const BYTES: &[u8; 24] = b"aaabbbcccdddeeefffggghhh";

pub(super) struct Bench {
    pub(super) pool: Memory,
    pub(super) source: Source,
    /// Eight links of three bytes, in a block.
    pub(super) rope: Rope,
    /// Ten bytes, all of a segment.
    pub(super) view: View<Memory>,
}

/// Everything that neither a refusal nor an operation changes that has let go of what it got.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct State {
    segments: usize,
    bytes_out: usize,
    handles: [usize; 2],
    holders: Vec<u32>,
    rope: Vec<u8>,
    view: Vec<u8>,
}

/// A segment of these bytes.
pub(super) fn piece(pool: &Memory, bytes: &[u8]) -> Result<View<Memory>, AllocError> {
    let segment = SegmentMut::alloc(pool.clone(), bytes.len())?;
    let filled = segment.init_from(bytes).map_err(|_| AllocError::Closed)?;
    Ok(View::from(filled))
}

impl Bench {
    pub(super) fn new() -> Self {
        let pool = Memory::new(FaultInject::new(StaticPool::new()));
        let source = Source::new(FaultSource::new(Counted::default()));
        let mut rope = Rope::with_source(source.clone());
        for bytes in BYTES.chunks(3) {
            rope.push(piece(&pool, bytes).unwrap()).unwrap();
        }
        let view = piece(&pool, b"0123456789").unwrap();
        Self {
            pool,
            source,
            rope,
            view,
        }
    }

    pub(super) fn state(&self) -> State {
        let links = self.rope.links().iter().chain([&self.view]);
        State {
            segments: self.pool.inner().census().in_use,
            bytes_out: self.source.inner().0.load(Ordering::Relaxed),
            handles: [
                Arc::strong_count(&self.pool),
                Arc::strong_count(&self.source),
            ],
            holders: links.map(|link| link.segment().holders()).collect(),
            rope: self.rope.bytes().collect(),
            view: self.view.to_vec(),
        }
    }

    pub(super) fn refuse_nothing(&self) {
        // Also counts from one again.
        self.pool.fail_none();
        self.source.fail_nth(0);
    }

    /// Requests since: segments, blocks.
    pub(super) fn calls(&self) -> [u64; 2] {
        [self.pool.calls(), self.source.calls()]
    }

    /// What was there serves on; then everything goes, and nothing is left.
    pub(super) fn end(self) {
        let Self {
            pool,
            source,
            mut rope,
            view,
        } = self;
        pool.fail_none();
        source.fail_nth(0);
        rope.push_front(view.slice(8..).unwrap()).unwrap();
        rope.push(view).unwrap();
        rope.truncate(27).unwrap();
        assert_eq!(rope, b"89aaabbbcccdddeeefffggghhh0"[..]);
        assert_eq!(rope.gather(pool.clone()).unwrap()[..3], *b"89a");
        drop(rope);
        assert_eq!(pool.inner().census().in_use, 0);
        assert_eq!(source.inner().0.load(Ordering::Relaxed), 0);
        assert_eq!(
            (Arc::strong_count(&pool), Arc::strong_count(&source)),
            (1, 1)
        );
    }
}
