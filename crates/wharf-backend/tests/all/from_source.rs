//! Segments of block sources: layouts, refusals in the bytes that were asked for, lines, and a plain model.
#![cfg(all(feature = "std", feature = "critical-section"))]

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::cell::{Cell, RefCell};

use proptest::prelude::*;
use wharf_backend::{
    Align1, Align16, Align64, Alignment, AllocError, BackendExt, Caps, Census, HostBackend,
    MemBackend, OwnLines, SegmentMut, SourceBackend, SourceLedger,
};
use wharf_source::{
    BlockSource, HeapSource, NullSource, PoolSource, SizeClass, SourceError, StaticPoolSource,
};
use wharf_sync::{ConstInit, Critical, SyncPolicy, Unsync};

/// The heap, with a record of what is out.
#[derive(Default)]
struct Recorded {
    live: RefCell<Vec<(usize, Layout)>>,
    refusing: Cell<bool>,
}

// SAFETY: the heap's blocks.
unsafe impl BlockSource for Recorded {
    fn try_alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        if self.refusing.get() {
            return None;
        }
        let block = HeapSource.try_alloc(layout)?;
        self.live.borrow_mut().push((block.addr().get(), layout));
        Some(block)
    }
    unsafe fn release(&self, block: NonNull<u8>, layout: Layout) {
        let mut live = self.live.borrow_mut();
        let at = live
            .iter()
            .position(|&entry| entry == (block.addr().get(), layout));
        live.swap_remove(at.expect("released as it was asked for"));
        // SAFETY: as the caller promises.
        unsafe { HeapSource.release(block, layout) }
    }
    fn refusal(&self, layout: Layout) -> SourceError {
        SourceError::Exhausted {
            requested: layout.size(),
            available: 0,
        }
    }
    fn name(&self) -> &'static str {
        "recorded"
    }
}

const HEADER: usize = 2 * size_of::<usize>();

#[test]
fn header_and_payload_are_one_block_of_whole_alignments() {
    fn check<A: Alignment>(align: usize, blocks: [(usize, usize); 5]) {
        let source = Recorded::default();
        let memory = SourceBackend::<_, Unsync, A>::new(&source);
        assert_eq!(memory.alignment(), align);
        assert_eq!(memory.granule(), align);
        for (size, block) in blocks {
            let segment = memory.alloc(size).unwrap().filled(7).unwrap();
            assert_eq!(segment.as_ptr().addr() % align, 0);
            let (start, layout) = source.live.borrow()[0];
            let expected = Layout::from_size_align(block, align).unwrap();
            assert_eq!(layout, expected, "{size} bytes");
            let payload = segment.as_ptr().addr();
            assert!(payload >= start + HEADER && payload + size <= start + block);
            // The header's line is not the payload's, nor the payload's the next block's.
            assert!(align < 64 || start / align != payload / align);
            assert_eq!(memory.census().in_use, block);
            drop(segment);
            assert_eq!(memory.census().in_use, 0);
            assert!(source.live.borrow().is_empty());
        }
    }
    check::<Align64>(64, [(0, 64), (1, 128), (64, 128), (65, 192), (1000, 1088)]);
    check::<Align16>(16, [(0, 16), (1, 32), (16, 32), (17, 48), (100, 128)]);
    // No less than what the header needs.
    check::<Align1>(8, [(0, 16), (1, 24), (8, 24), (9, 32), (100, 120)]);
}

#[test]
fn refusals_are_counted_and_told_in_the_bytes_that_were_asked_for() {
    let source = Recorded::default();
    let memory = SourceBackend::<_, Unsync>::new(&source);
    let kept = memory.alloc(40).unwrap();
    source.refusing.set(true);
    let error = memory.alloc(33).unwrap_err();
    // The source counts nothing, so there is no more to say.
    let exhausted = AllocError::Exhausted {
        requested: 33,
        in_use: 0,
        capacity: 0,
    };
    assert_eq!(error, exhausted);
    assert!(memory.alloc(7).is_err());
    let census = Census {
        unit: 1,
        in_use: 64,
        peak: 64,
        refused: 2,
        largest_refused: 33,
        ..Census::NOTHING
    };
    assert_eq!(memory.census(), census);
    drop(kept);
    assert_eq!(
        memory.census(),
        Census {
            in_use: 0,
            ..census
        }
    );
}

#[test]
fn sizes_near_the_end_of_memory_are_errors() {
    let memory = SourceBackend::<_, Unsync, Align64>::new(HeapSource);
    let max = (isize::MAX.unsigned_abs() & !63) - 64;
    assert_eq!(memory.max_segment_size(), max);
    for requested in [
        max + 1,
        isize::MAX.unsigned_abs(),
        usize::MAX - 63,
        usize::MAX,
    ] {
        let error = memory.alloc(requested).unwrap_err();
        assert_eq!(error, AllocError::TooLarge { requested, max });
    }
    let error = memory.alloc(max).unwrap_err();
    assert_eq!(error, AllocError::Heap { requested: max });
    assert_eq!(memory.census().refused, 5);
    assert_eq!(memory.census().largest_refused, usize::MAX);
}

#[test]
fn a_source_that_counts_nothing_is_counted_here() {
    let memory = SourceBackend::<_, Unsync>::new(NullSource);
    let null = AllocError::Source(SourceError::Null { requested: 5 });
    assert_eq!(memory.alloc(5).unwrap_err(), null);
    let census = Census {
        unit: 1,
        refused: 1,
        largest_refused: 5,
        ..Census::NOTHING
    };
    assert_eq!(memory.census(), census);
    assert_eq!(memory.name(), "null");
}

#[test]
fn a_pool_source_says_how_large_and_how_full() {
    let mut slab = [MaybeUninit::uninit(); 1024];
    let mut classes = [SizeClass::EMPTY; 2];
    let source = PoolSource::<Unsync>::new(&mut slab, &mut classes);
    let memory = SourceBackend::<_, Unsync>::new(&source);
    let max = 1024 - 16;
    assert_eq!(memory.max_segment_size(), max);
    assert_eq!(memory.census().capacity, 1024);
    let error = memory.alloc(max + 1).unwrap_err();
    let large = AllocError::TooLarge {
        requested: max + 1,
        max,
    };
    assert_eq!(error, large);
    let held: Vec<_> = std::iter::from_fn(|| memory.alloc(100).ok()).collect();
    // Blocks of 128, of which the first may be pushed back by the slab's odd base.
    assert!((7..=8).contains(&held.len()));
    let error = memory.alloc(100).unwrap_err();
    let used = source.used();
    let full = AllocError::Exhausted {
        requested: 100,
        in_use: used,
        capacity: 1024,
    };
    assert_eq!(error, full);
    let count = held.len();
    assert_eq!(memory.census().in_use, count * 128);
    drop(held);
    // What came back serves again: of the source nothing more is used.
    let held: Vec<_> = std::iter::from_fn(|| memory.alloc(101).ok()).collect();
    assert_eq!(held.len(), count);
    assert_eq!(source.used(), used);
}

#[test]
fn what_a_source_is_is_said_for_it() {
    let memory = SourceBackend::<_, Unsync>::new(HeapSource);
    assert_eq!(memory.caps(), Caps::OWNS_BYTES | Caps::PLAIN_COPIES);
    let memory = memory.with_caps(Caps::all());
    let said = Caps::OWNS_BYTES | Caps::PLAIN_COPIES | Caps::NONBLOCKING | Caps::ISR_SAFE;
    assert_eq!(memory.caps(), said, "and no promise about bytes");
}

#[test]
fn over_a_static_source_it_is_a_static() {
    static SOURCE: StaticPoolSource<Critical, 2048, 4> = StaticPoolSource::new();
    type Memory = SourceBackend<&'static StaticPoolSource<Critical, 2048, 4>, Critical>;
    static MEMORY: Memory = SourceBackend::new(&SOURCE);
    let segment = MEMORY.alloc(9).unwrap().init_from(b"elsewhere").unwrap();
    let other = std::thread::spawn(move || segment.to_vec());
    assert_eq!(other.join().unwrap(), b"elsewhere");
    assert_eq!(MEMORY.census().in_use, 0);
}

#[derive(Clone, Debug)]
enum Step {
    Alloc(usize),
    Drop(usize),
    /// From here on the source refuses, or serves again.
    Refuse(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![9 => 0_usize..300, 1 => usize::MAX - 100..=usize::MAX];
    let step = prop_oneof![
        6 => size.prop_map(Step::Alloc),
        5 => any::<usize>().prop_map(Step::Drop),
        1 => any::<bool>().prop_map(Step::Refuse),
    ];
    prop::collection::vec(step, 0..80)
}

/// The census, counted one by one, and every owner's bytes.
fn run<B: HostBackend>(memory: &B, source: &Recorded, align: usize, steps: &[Step]) {
    let block = |size: usize| {
        let payload = HEADER.next_multiple_of(align);
        (payload + size).next_multiple_of(align)
    };
    let mut model = Census {
        unit: 1,
        ..Census::NOTHING
    };
    let mut held: Vec<(SegmentMut<&B>, Vec<u8>)> = Vec::new();
    for (turn, step) in steps.iter().enumerate() {
        match *step {
            Step::Alloc(size) => {
                let serves = size < 300 && !source.refusing.get();
                if let Ok(segment) = memory.alloc(size) {
                    assert!(serves);
                    #[expect(clippy::cast_possible_truncation, reason = "a mark")]
                    let stamp: Vec<_> = (0..size).map(|at| (turn * 31 + at) as u8).collect();
                    held.push((segment.init_from(&stamp).unwrap(), stamp));
                    model.in_use += block(size);
                    model.peak = model.peak.max(model.in_use);
                } else {
                    assert!(!serves);
                    model.refused += 1;
                    model.largest_refused = model.largest_refused.max(size);
                }
            }
            Step::Drop(index) if !held.is_empty() => {
                let (segment, _) = held.remove(index % held.len());
                model.in_use -= block(segment.len());
            }
            Step::Drop(_) => {}
            Step::Refuse(refusing) => source.refusing.set(refusing),
        }
        for (segment, stamp) in &held {
            assert_eq!(&**segment, &stamp[..]);
            assert_eq!(segment.as_ptr().addr() % align, 0);
        }
        assert_eq!(memory.census(), model, "after {step:?}");
        assert_eq!(source.live.borrow().len(), held.len());
    }
    source.refusing.set(false);
    drop(held);
    assert!(source.live.borrow().is_empty());
}

fn under<P: SyncPolicy>(steps: &[Step])
where
    P::Lock<SourceLedger>: ConstInit,
{
    let source = Recorded::default();
    run(&SourceBackend::<_, P>::new(&source), &source, 16, steps);
    run(
        &SourceBackend::<_, P, Align64>::new(&source),
        &source,
        64,
        steps,
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_source_backend_does_what_the_model_does(steps in steps()) {
        under::<Unsync>(&steps);
        under::<Critical>(&steps);
        under::<wharf_sync::Blocking>(&steps);
        #[cfg(feature = "spin")]
        under::<wharf_sync::Spin>(&steps);
    }
}
