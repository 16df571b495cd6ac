//! A cache that is not coherent, simulated: what the CPU sees and what is in the memory are two copies, which only the maintenance
//! brings together. Between two calls the cache does the worst that hardware may: it writes every dirty line back and reads
//! every other one ahead. A call too few, or over the wrong lines, makes wrong bytes.
#![cfg(feature = "std")]

use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::cell::{Cell, RefCell};

use proptest::prelude::*;
use wharf_backend::{
    Align8, Align32, Align64, BackendExt, CacheOps, Caps, InFlight, IoDirection, LineError,
    Maintained, MemBackend, Place, PoolBackend, SegmentMut, SlotControl, SourceBackend, State,
    StaticPool, TransferError, Uninit,
};
use wharf_source::HeapSource;
use wharf_sync::Unsync;

use IoDirection::{CpuToDevice, DeviceToCpu};

const LINE: usize = 32;
const SLAB: usize = 4 * 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Clean,
    Invalidate,
    CleanInvalidate,
}
use Op::{Clean, CleanInvalidate, Invalidate};

/// The slab is the CPU's copy.
struct Cache {
    base: Cell<NonNull<u8>>,
    /// What the device sees.
    memory: RefCell<Vec<u8>>,
    /// What the cache took from the memory, or gave to it, last: a line that differs from it is dirty.
    synced: RefCell<Vec<u8>>,
    /// Calls, as offsets and lengths in the slab.
    calls: RefCell<Vec<(Op, usize, usize)>>,
    /// A call to leave out, to see that it is missed.
    deaf: Cell<Option<Op>>,
}

impl Cache {
    fn new() -> Self {
        Self {
            base: Cell::new(NonNull::dangling()),
            memory: RefCell::new(vec![0; SLAB]),
            synced: RefCell::new(vec![0; SLAB]),
            calls: RefCell::default(),
            deaf: Cell::new(None),
        }
    }

    /// A pool of slots of `payload` bytes over all zeros, seen through this cache.
    fn pool<'c>(
        &'c self,
        slab: &'c mut Slab,
        control: &'c mut [SlotControl<Unsync>],
        payload: usize,
    ) -> Pool<'c> {
        slab.0.fill(MaybeUninit::new(0));
        let pool = PoolBackend::new(&mut slab.0, control, payload, 64).unwrap();
        // Of the pool's own pointers, which reach the whole slab.
        let Place::Host(base) = pool.alloc(0).unwrap().place() else {
            panic!("a slab is host memory")
        };
        self.base.set(base);
        Maintained::new(pool, self).unwrap()
    }

    /// The CPU's copy of a line. To be looked at only between the CPU's accesses.
    fn line(&self, line: usize) -> *mut [u8; LINE] {
        // SAFETY: in the slab.
        unsafe { self.base.get().add(line * LINE) }.as_ptr().cast()
    }

    fn range(line: usize) -> core::ops::Range<usize> {
        line * LINE..(line + 1) * LINE
    }

    fn write_back(&self, line: usize) {
        // SAFETY: called between the CPU's accesses; initialised from the start.
        let cpu = unsafe { self.line(line).read() };
        let mut synced = self.synced.borrow_mut();
        let synced = &mut synced[Self::range(line)];
        if cpu != *synced {
            self.memory.borrow_mut()[Self::range(line)].copy_from_slice(&cpu);
            synced.copy_from_slice(&cpu);
        }
    }

    /// The line is dropped, and at once read ahead.
    fn drop_line(&self, line: usize) {
        let memory = self.memory.borrow();
        let bytes = &memory[Self::range(line)];
        // SAFETY: called between the CPU's accesses.
        unsafe { self.line(line).write(bytes.try_into().unwrap()) };
        self.synced.borrow_mut()[Self::range(line)].copy_from_slice(bytes);
    }

    /// Room is needed: every dirty line is written back. (A clean one stays as it is, however stale.)
    fn pressure(&self) {
        for line in 0..SLAB / LINE {
            self.write_back(line);
        }
    }

    fn call(&self, op: Op, start: NonNull<u8>, len: usize) {
        let offset = start.addr().get() - self.base.get().addr().get();
        assert_eq!((offset % LINE, len % LINE), (0, 0), "whole lines");
        assert!(len > 0 && offset + len <= SLAB);
        self.calls.borrow_mut().push((op, offset, len));
        if self.deaf.get() == Some(op) {
            return;
        }
        for line in offset / LINE..(offset + len) / LINE {
            if op != Invalidate {
                self.write_back(line);
            }
            if op != Clean {
                self.drop_line(line);
            }
        }
    }

    fn take_calls(&self) -> Vec<(Op, usize, usize)> {
        self.calls.take()
    }

    /// The range that was handed over.
    fn span<R: wharf_backend::BackendRef, S: State>(
        &self,
        lent: &InFlight<R, S>,
    ) -> core::ops::Range<usize> {
        let Place::Host(first) = lent.place() else {
            panic!("a slab is host memory")
        };
        let start = first.addr().get() - self.base.get().addr().get();
        start..start + lent.len()
    }

    /// The device reads what it was handed.
    fn device_reads<R: wharf_backend::BackendRef, S: State>(
        &self,
        lent: &InFlight<R, S>,
    ) -> Vec<u8> {
        self.memory.borrow()[self.span(lent)].to_vec()
    }

    /// The device writes the first `len` of what it was handed, under pressure from all sides.
    fn device_writes<R: wharf_backend::BackendRef, S: State>(
        &self,
        lent: &InFlight<R, S>,
        bytes: &[u8],
    ) {
        let start = self.span(lent).start;
        let (first, second) = bytes.split_at(bytes.len() / 2);
        self.memory.borrow_mut()[start..][..first.len()].copy_from_slice(first);
        self.pressure();
        self.memory.borrow_mut()[start + first.len()..][..second.len()].copy_from_slice(second);
        self.pressure();
    }
}

// SAFETY: the lines that it is called for, and no others.
unsafe impl CacheOps for Cache {
    const LINE: usize = LINE;
    unsafe fn clean(&self, start: NonNull<u8>, len: usize) {
        self.call(Clean, start, len);
    }
    unsafe fn invalidate(&self, start: NonNull<u8>, len: usize) {
        self.call(Invalidate, start, len);
    }
    unsafe fn clean_invalidate(&self, start: NonNull<u8>, len: usize) {
        self.call(CleanInvalidate, start, len);
    }
}

#[repr(align(64))]
struct Slab([MaybeUninit<u8>; SLAB]);

impl Slab {
    const fn new() -> Self {
        Self([MaybeUninit::uninit(); SLAB])
    }
}

type Pool<'c> = Maintained<PoolBackend<'c, Unsync>, &'c Cache>;

/// Runs `test` on a pool of four slots of 60 bytes, behind a cache.
fn with(test: impl FnOnce(&Pool<'_>, &Cache)) {
    let (mut slab, cache) = (Slab::new(), Cache::new());
    let mut control = [const { SlotControl::<Unsync>::NEW }; 4];
    let pool = cache.pool(&mut slab, &mut control, 60);
    test(&pool, &cache);
}

#[expect(clippy::cast_possible_truncation, reason = "marks")]
fn ramp(start: usize, len: usize) -> Vec<u8> {
    (start..start + len).map(|at| at as u8).collect()
}

#[test]
fn each_direction_and_time_has_its_operation() {
    with(|pool, cache| {
        assert!(pool.caps().contains(Caps::NEEDS_CACHE_OPS));
        let _first = pool.alloc(1).unwrap();
        let segment = pool.alloc(60).unwrap().filled(1).unwrap();
        assert_eq!(cache.take_calls(), [], "the CPU went through its cache");

        let lent = segment.hand_over(0, 60, CpuToDevice).unwrap();
        assert_eq!(cache.take_calls(), [(Clean, 64, 64)]);
        let segment = lent.land();
        assert_eq!(cache.take_calls(), []);

        // All lines but the last's padding are the device's; what the CPU had written is kept until it is overwritten.
        let lent = segment.hand_over(0, 60, DeviceToCpu).unwrap();
        let before = [
            (Clean, 64, 64),
            (Invalidate, 64, 32),
            (CleanInvalidate, 96, 32),
        ];
        assert_eq!(cache.take_calls(), before);
        drop(lent);
        assert_eq!(
            cache.take_calls(),
            [(Invalidate, 64, 64), (CleanInvalidate, 64, 64)],
            "and the slot is recycled"
        );
    });
}

#[test]
fn only_whole_lines_are_thrown_away_before() {
    for (offset, len, expected) in [
        (0, 32, vec![(Invalidate, 0, 32)]),
        (0, 64, vec![(Invalidate, 0, 64)]),
        (0, 1, vec![(CleanInvalidate, 0, 32)]),
        (31, 1, vec![(CleanInvalidate, 0, 32)]),
        (5, 3, vec![(CleanInvalidate, 0, 32)]),
        (32, 31, vec![(CleanInvalidate, 32, 32)]),
        (1, 63, vec![(CleanInvalidate, 0, 32), (Invalidate, 32, 32)]),
        (0, 33, vec![(Invalidate, 0, 32), (CleanInvalidate, 32, 32)]),
        (
            31,
            2,
            vec![(CleanInvalidate, 0, 32), (CleanInvalidate, 32, 32)],
        ),
        (
            31,
            130,
            vec![
                (CleanInvalidate, 0, 32),
                (Invalidate, 32, 128),
                (CleanInvalidate, 160, 32),
            ],
        ),
        (7, 0, vec![]),
    ] {
        let (mut slab, cache) = (Slab::new(), Cache::new());
        let mut control = [const { SlotControl::<Unsync>::NEW }; 1];
        let pool = cache.pool(&mut slab, &mut control, SLAB);
        // Without values there is nothing to keep, but what is beside the range.
        let segment = pool.alloc(SLAB).unwrap();
        let lent = segment.hand_over(offset, len, DeviceToCpu).unwrap();
        assert_eq!(cache.take_calls(), expected, "{len} bytes at {offset}");
        core::mem::forget(lent.land());
        let after: Vec<_> = cache.take_calls();
        let first = offset / LINE * LINE;
        let lines = (offset + len).next_multiple_of(LINE) - first;
        let all = (len > 0).then_some((Invalidate, first, lines));
        assert_eq!(after, Vec::from_iter(all), "{len} bytes at {offset}");
    }
}

/// A frame out and a frame in, with the bytes that both ends saw.
fn exchange(pool: &Pool<'_>, cache: &Cache) -> (Vec<u8>, Vec<u8>) {
    let mut segment = pool.alloc(60).unwrap().filled(0).unwrap();
    segment.copy_from_slice(&ramp(1, 60));
    let lent = segment.hand_over(0, 60, CpuToDevice).unwrap();
    let sent = cache.device_reads(&lent);
    let mut segment = lent.land();
    segment.fill(0, 60, 0xEE).unwrap();
    let lent = segment.hand_over(0, 60, DeviceToCpu).unwrap();
    cache.device_writes(&lent, &ramp(101, 60));
    (sent, lent.land().to_vec())
}

#[test]
fn frames_arrive_in_both_directions() {
    with(|pool, cache| {
        for _ in 0..3 {
            let (sent, received) = exchange(pool, cache);
            assert_eq!(sent, ramp(1, 60));
            assert_eq!(received, ramp(101, 60));
        }
    });
}

#[test]
fn the_model_misses_every_call_that_is_left_out() {
    for deaf in [Clean, Invalidate] {
        with(|pool, cache| {
            cache.deaf.set(Some(deaf));
            let (sent, received) = exchange(pool, cache);
            let both = sent == ramp(1, 60) && received == ramp(101, 60);
            assert!(!both, "without {deaf:?}");
        });
    }
}

#[test]
fn bytes_beside_a_range_are_kept() {
    with(|pool, cache| {
        for (offset, len) in [(3, 40), (0, 33), (31, 2), (32, 28), (5, 1)] {
            let mut segment: SegmentMut<_, Uninit> = pool.alloc(60).unwrap();
            for byte in segment.as_uninit_mut() {
                byte.write(0xEE); // Dirty, on the lines of the range too.
            }
            let lent = segment.hand_over(offset, len, DeviceToCpu).unwrap();
            cache.device_writes(&lent, &ramp(1, len));
            // SAFETY: every byte was written, by the CPU or by the device.
            let segment = unsafe { lent.land().assume_init() };
            let mut expected = [0xEE; 60];
            expected[offset..offset + len].copy_from_slice(&ramp(1, len));
            assert_eq!(*segment, expected, "{len} bytes at {offset}");
        }
    });
}

#[test]
fn what_the_device_did_not_write_is_what_was_there() {
    with(|pool, cache| {
        for written in [0, 1, 40] {
            let mut segment = pool.alloc(60).unwrap().filled(0).unwrap();
            segment.fill(0, 60, 0xEE).unwrap();
            let lent = segment.hand_over(0, 60, DeviceToCpu).unwrap();
            cache.device_writes(&lent, &ramp(1, written));
            let segment = lent.land();
            let mut expected = [0xEE; 60];
            expected[..written].copy_from_slice(&ramp(1, written));
            assert_eq!(*segment, expected, "stopped after {written} bytes");
        }
    });
}

#[test]
fn a_neighbour_is_not_disturbed() {
    with(|pool, cache| {
        let mut one = pool.alloc(60).unwrap().filled(1).unwrap();
        let two = pool.alloc(60).unwrap().filled(2).unwrap();
        let lent = two.hand_over(0, 60, DeviceToCpu).unwrap();
        one.copy_from_slice(&[3; 60]); // While the device is at it.
        cache.device_writes(&lent, &[4; 60]);
        assert_eq!(*lent.land(), [4; 60]);
        assert_eq!(*one, [3; 60]);
    });
}

#[test]
fn no_line_of_an_old_owner_is_written_over_what_comes_after() {
    with(|pool, cache| {
        drop(pool.alloc(60).unwrap().filled(0xEE).unwrap());
        // The slot goes to a device that nobody announced: a ring that uses the whole pool, say.
        cache.memory.borrow_mut()[..60].fill(7);
        cache.pressure();
        assert_eq!(cache.memory.borrow()[..60], [7; 60]);
    });
}

#[test]
fn what_was_written_before_a_slot_is_freed_reaches_the_memory() {
    with(|pool, cache| {
        let mut secret = pool.alloc(60).unwrap().filled(0x5E).unwrap();
        cache.pressure();
        assert_eq!(cache.memory.borrow()[..60], [0x5E; 60]);
        secret.fill(0, 60, 0).unwrap();
        drop(secret);
        assert_eq!(cache.memory.borrow()[..60], [0; 60], "it was scrubbed");
    });
}

#[test]
fn a_range_that_leaves_the_segment_runs_no_hook_and_gives_it_back() {
    with(|pool, cache| {
        let mut segment = pool.alloc(16).unwrap().filled(1).unwrap();
        for (offset, len) in [(17, 0), (16, 1), (0, 17), (usize::MAX, 2), (8, usize::MAX)] {
            let refused = segment.hand_over(offset, len, CpuToDevice).unwrap_err();
            let out = TransferError::OutOfBounds {
                offset,
                len,
                size: 16,
            };
            assert_eq!(refused.error, out);
            segment = refused.value;
        }
        assert_eq!(cache.take_calls(), []);
        assert_eq!(*segment, [1; 16]);
    });
}

#[test]
fn a_device_is_told_where_its_range_is() {
    with(|pool, cache| {
        let segment = pool.alloc(60).unwrap();
        let lent = segment.hand_over(5, 7, CpuToDevice).unwrap();
        assert_eq!(cache.span(&lent), 5..12);
        assert_eq!((lent.len(), lent.is_empty()), (7, false));
        assert_eq!(lent.direction(), CpuToDevice);
        assert!(lent.land().hand_over(3, 0, DeviceToCpu).unwrap().is_empty());
    });
}

#[test]
fn without_caches_handing_over_costs_nothing_and_says_the_same() {
    let pool = StaticPool::<Unsync, 60, 2>::new();
    let segment = pool.alloc(60).unwrap().filled(3).unwrap();
    let lent = segment.hand_over(4, 4, DeviceToCpu).unwrap();
    assert_eq!(pool.census().in_use, 1);
    assert_eq!(*lent.land(), [3; 60]);
    assert_eq!(pool.census().in_use, 0);
    let lent = pool.alloc(1).unwrap().hand_over(0, 1, DeviceToCpu);
    drop(lent.unwrap());
    assert_eq!(pool.census().in_use, 0);
}

#[test]
fn segments_that_share_lines_are_refused() {
    let cache = Cache::new();
    let pool = StaticPool::<Unsync, 60, 2, Align8>::new();
    let refused = Maintained::new(pool, &cache).unwrap_err();
    let error = LineError {
        granule: 8,
        line: 32,
    };
    assert_eq!(refused.error, error);
    assert_eq!(
        error.to_string(),
        "segments 8 bytes apart share lines of 32 bytes"
    );
    assert_eq!(refused.value.census().in_use, 0, "the pool came back");
    // A whole line is enough, and more is too.
    let _ = Maintained::fixed(StaticPool::<Unsync, 60, 2, Align32>::new(), &cache);
    let _ = Maintained::new(StaticPool::<Unsync, 60, 2, Align64>::new(), &cache).unwrap();
}

#[test]
fn a_source_with_aligned_payloads_is_maintained_too() {
    let cache = Cache::new();
    let memory = SourceBackend::<_, Unsync, Align32>::new(HeapSource);
    assert!(Maintained::new(memory, &cache).is_ok());
    let memory = SourceBackend::<_, Unsync, Align8>::new(HeapSource);
    assert!(Maintained::new(memory, &cache).is_err());
}

#[derive(Clone, Debug)]
enum Step {
    /// The CPU fills all of a segment.
    Cpu(usize, u8),
    /// A device reads a range.
    Out(usize, usize, usize),
    /// A device writes a range, or the first so many bytes of it.
    In(usize, usize, usize, u8, bool),
    /// The segment is dropped, and its slot taken again.
    Recycle(usize),
    Pressure,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = || (0_usize..60, 0_usize..60);
    let step = prop_oneof![
        3 => (0_usize..4, any::<u8>()).prop_map(|(at, byte)| Step::Cpu(at, byte)),
        3 => (0_usize..4, range()).prop_map(|(at, (a, b))| Step::Out(at, a, b)),
        4 => (0_usize..4, range(), any::<u8>(), any::<bool>())
            .prop_map(|(at, (a, b), byte, half)| Step::In(at, a, b, byte, half)),
        1 => (0_usize..4).prop_map(Step::Recycle),
        2 => Just(Step::Pressure),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Against four plain arrays: whatever CPU, device and cache do in turn, both see what was written last.
    #[test]
    fn cpu_and_device_see_what_was_written_last(steps in steps()) {
        with(|pool, cache| {
            let fresh = || Some(pool.alloc(60).unwrap().filled(0).unwrap());
            let mut segments = [(); 4].map(|()| fresh());
            let mut model = [[0_u8; 60]; 4];
            for step in steps {
                match step {
                    Step::Cpu(at, byte) => {
                        segments[at].as_mut().unwrap().fill(0, 60, byte).unwrap();
                        model[at].fill(byte);
                    }
                    Step::Out(at, a, b) => {
                        let (start, end) = (a.min(b), a.max(b));
                        let segment = segments[at].take().unwrap();
                        let lent = segment.hand_over(start, end - start, CpuToDevice).unwrap();
                        assert_eq!(cache.device_reads(&lent), model[at][start..end]);
                        segments[at] = Some(lent.land());
                    }
                    Step::In(at, a, b, byte, half) => {
                        let (start, mut end) = (a.min(b), a.max(b));
                        let segment = segments[at].take().unwrap();
                        let lent = segment.hand_over(start, end - start, DeviceToCpu).unwrap();
                        if half {
                            end = start.midpoint(end);
                        }
                        cache.device_writes(&lent, &vec![byte; end - start]);
                        model[at][start..end].fill(byte);
                        segments[at] = Some(lent.land());
                    }
                    Step::Recycle(at) => {
                        drop(segments[at].take());
                        segments[at] = fresh();
                        model[at].fill(0);
                    }
                    Step::Pressure => cache.pressure(),
                }
                for (segment, bytes) in segments.iter().zip(&model) {
                    assert_eq!(**segment.as_ref().unwrap(), *bytes);
                }
            }
        });
    }
}
