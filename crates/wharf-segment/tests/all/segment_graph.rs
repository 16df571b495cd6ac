//! Segments and views against a plain model: whoever holds what sees the bytes that were written, and the
//! memory goes back with the last holder.

use core::ops::Range;
use std::rc::Rc;

use proptest::prelude::*;
use wharf_backend::{BackendExt, BackendRef, MemBackend, StaticPool};
use wharf_segment::{OutOfBounds, Segment, View};
use wharf_sync::Unsync;

const PAYLOAD: usize = 24;
const SLOTS: usize = 4;
type Pool = StaticPool<Unsync, PAYLOAD, SLOTS>;

#[derive(Clone, Debug)]
enum Step {
    /// Allocates, writes and freezes.
    Make(Vec<u8>),
    CloneSegment(usize),
    DropSegment(usize),
    /// Writes through the only handle.
    Thaw(usize, u8),
    RoundTrip(usize),
    Look(usize),
    Slice(usize, usize, usize),
    CloneView(usize),
    DropView(usize),
    /// Turns a view back into its segment.
    Widen(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = any::<usize>();
    let edge = || prop_oneof![6 => 0..=PAYLOAD + 2, 1 => usize::MAX - 3..=usize::MAX];
    let step = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..=PAYLOAD).prop_map(Step::Make),
        3 => index.prop_map(Step::CloneSegment),
        4 => index.prop_map(Step::DropSegment),
        3 => (index, any::<u8>()).prop_map(|(i, byte)| Step::Thaw(i, byte)),
        1 => index.prop_map(Step::RoundTrip),
        3 => index.prop_map(Step::Look),
        6 => (index, edge(), edge()).prop_map(|(i, a, b)| Step::Slice(i, a, b)),
        2 => index.prop_map(Step::CloneView),
        4 => index.prop_map(Step::DropView),
        1 => index.prop_map(Step::Widen),
    ];
    prop::collection::vec(step, 0..100)
}

/// The bytes of one allocation, and how many hold it: the length of `holders`' reference count.
type Bytes = Rc<Vec<u8>>;

/// Handles next to what the model says they show.
struct Graph<'p, R: BackendRef> {
    pool: &'p Pool,
    /// Turns a segment of the pool into one of the route that is tried.
    route: fn(Segment<&'p Pool>) -> Segment<R>,
    segments: Vec<(Segment<R>, Bytes)>,
    views: Vec<(View<R>, Bytes, Range<usize>)>,
}

impl<R: BackendRef> Graph<'_, R> {
    fn live(&self) -> Vec<&Bytes> {
        let segments = self.segments.iter().map(|(_, bytes)| bytes);
        let mut live: Vec<_> = segments
            .chain(self.views.iter().map(|(_, bytes, _)| bytes))
            .collect();
        live.sort_by_key(|bytes| Rc::as_ptr(bytes));
        live.dedup_by(|a, b| Rc::ptr_eq(a, b));
        live
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Make(ref bytes) => {
                let full = self.live().len() == SLOTS;
                match self.pool.alloc(bytes.len()) {
                    Ok(unique) => {
                        assert!(!full);
                        let typed = Segment::from(unique.init_from(bytes).unwrap());
                        self.segments
                            .push(((self.route)(typed), Rc::new(bytes.clone())));
                    }
                    Err(_) => assert!(full),
                }
            }
            Step::CloneSegment(index) => {
                if let Some(at) = pick(index, &self.segments) {
                    let (segment, bytes) = &self.segments[at];
                    let clone = (segment.clone(), Rc::clone(bytes));
                    self.segments.push(clone);
                }
            }
            Step::DropSegment(index) => {
                if let Some(at) = pick(index, &self.segments) {
                    drop(self.segments.swap_remove(at));
                }
            }
            Step::Thaw(index, byte) => {
                if let Some(at) = pick(index, &self.segments) {
                    let (segment, mut bytes) = self.segments.swap_remove(at);
                    let segment = match (segment.try_mut(), Rc::get_mut(&mut bytes)) {
                        (Ok(mut unique), Some(bytes)) => {
                            let len = unique.len();
                            unique.fill(0, len / 2, byte).unwrap();
                            bytes[..len / 2].fill(byte);
                            Segment::from(unique)
                        }
                        (Err(shared), None) => shared,
                        (thawed, _) => panic!("thawed: {}, against the model", thawed.is_ok()),
                    };
                    self.segments.push((segment, bytes));
                }
            }
            Step::RoundTrip(index) => {
                if let Some(at) = pick(index, &self.segments) {
                    let (segment, bytes) = self.segments.swap_remove(at);
                    let (header, backend) = segment.into_raw();
                    // SAFETY: from one `into_raw` just above, put together once.
                    let segment = unsafe { Segment::from_raw(header, backend) }.unwrap();
                    self.segments.push((segment, bytes));
                }
            }
            Step::Look(index) => {
                if let Some(at) = pick(index, &self.segments) {
                    let (segment, bytes) = &self.segments[at];
                    let view = View::from(segment.clone());
                    self.views.push((view, Rc::clone(bytes), 0..bytes.len()));
                }
            }
            Step::Slice(index, start, end) => {
                if let Some(at) = pick(index, &self.views) {
                    let (view, bytes, window) = &self.views[at];
                    let len = window.len();
                    match view.slice(start..end) {
                        Ok(part) => {
                            assert!(start <= end && end <= len);
                            let window = window.start + start..window.start + end;
                            let part = (part, Rc::clone(bytes), window);
                            self.views.push(part);
                        }
                        Err(error) => {
                            assert!(start > end || end > len);
                            assert_eq!(error, OutOfBounds { start, end, len });
                        }
                    }
                }
            }
            Step::CloneView(index) => {
                if let Some(at) = pick(index, &self.views) {
                    let (view, bytes, window) = &self.views[at];
                    let clone = (view.clone(), Rc::clone(bytes), window.clone());
                    self.views.push(clone);
                }
            }
            Step::DropView(index) => {
                if let Some(at) = pick(index, &self.views) {
                    drop(self.views.swap_remove(at));
                }
            }
            Step::Widen(index) => {
                if let Some(at) = pick(index, &self.views) {
                    let (view, bytes, _) = self.views.swap_remove(at);
                    self.segments.push((view.into_segment(), bytes));
                }
            }
        }
    }

    fn check(&self) {
        for (segment, bytes) in &self.segments {
            assert_eq!(segment.host().unwrap(), bytes.as_slice());
            assert_eq!(segment.len(), bytes.len());
            assert_eq!(segment.holders() as usize, Rc::strong_count(bytes));
        }
        for (view, bytes, window) in &self.views {
            assert_eq!(view.host().unwrap(), &bytes[window.clone()]);
            assert_eq!(view.len(), window.len());
            assert_eq!(view.offset(), window.start);
            assert_eq!(view.is_empty(), window.is_empty());
            assert_eq!(view.segment().host().unwrap(), bytes.as_slice());
        }
        assert_eq!(self.pool.census().in_use, self.live().len());
    }
}

fn pick<T>(index: usize, of: &[T]) -> Option<usize> {
    index.checked_rem(of.len())
}

fn run<'p, R: BackendRef>(
    pool: &'p Pool,
    route: fn(Segment<&'p Pool>) -> Segment<R>,
    steps: &[Step],
) {
    let mut graph = Graph {
        pool,
        route,
        segments: Vec::new(),
        views: Vec::new(),
    };
    for step in steps {
        graph.step(step);
        graph.check();
    }
    drop(graph);
    assert_eq!(pool.census().in_use, 0);
}

/// Any reference to a pool of ours, its type forgotten.
type Erased<'p> = &'p (dyn MemBackend<Policy = Unsync> + 'p);

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn graphs_of_handles_show_what_the_model_shows(steps in steps()) {
        run(&Pool::new(), |typed| typed, &steps);
        run(&Pool::new(), |typed| typed.erase::<Erased<'_>>().unwrap(), &steps);
    }
}

#[test]
fn windows_have_the_bounds_worked_out_here() {
    use core::ops::Bound::{Excluded, Included, Unbounded};
    const MAX: usize = usize::MAX;
    let pool = Pool::new();
    let segment = Segment::from(pool.alloc(8).unwrap().init_from(b"01234567").unwrap());
    let whole = View::from(segment);
    let view = whole.slice(1..7).unwrap();
    assert_eq!(&*view, b"123456");

    for (range, bytes) in [
        ((Unbounded, Unbounded), &b"123456"[..]),
        ((Included(0), Excluded(6)), b"123456"),
        ((Included(0), Included(5)), b"123456"),
        ((Excluded(0), Unbounded), b"23456"),
        ((Included(2), Excluded(4)), b"34"),
        ((Included(2), Included(4)), b"345"),
        ((Excluded(2), Included(3)), b"4"),
        ((Included(6), Unbounded), b""),
        ((Excluded(5), Excluded(6)), b""),
        ((Included(3), Excluded(3)), b""),
        ((Unbounded, Excluded(0)), b""),
    ] {
        assert_eq!(&*view.slice(range).unwrap(), bytes, "{range:?}");
    }

    for (range, start, end) in [
        ((Included(0), Excluded(7)), 0, 7),
        ((Included(0), Included(6)), 0, 7),
        ((Included(7), Unbounded), 7, 6),
        ((Excluded(6), Unbounded), 7, 6),
        ((Included(4), Excluded(2)), 4, 2),
        ((Included(4), Included(2)), 4, 3),
        ((Unbounded, Included(MAX)), 0, MAX),
        ((Unbounded, Included(MAX - 1)), 0, MAX),
        ((Unbounded, Excluded(MAX)), 0, MAX),
        ((Excluded(MAX), Unbounded), MAX, 6),
        ((Included(MAX), Unbounded), MAX, 6),
        ((Included(MAX), Included(MAX)), MAX, MAX),
        ((Excluded(MAX), Excluded(0)), MAX, 0),
        // These would wrap around to a range inside, were the window's own start added first.
        ((Included(MAX), Excluded(0)), MAX, 0),
        ((Included(MAX), Excluded(2)), MAX, 2),
    ] {
        let error = OutOfBounds { start, end, len: 6 };
        assert_eq!(view.slice(range).unwrap_err(), error, "{range:?}");
    }
    assert_eq!(view.slice(..=MAX).unwrap_err().end, MAX);
    let error = view.slice(5..9).unwrap_err();
    assert_eq!(error.to_string(), "5..9 does not lie within 6 bytes");
}

#[test]
fn slices_of_slices_add_up_and_pin_the_whole() {
    let pool = Pool::new();
    let bytes: Vec<u8> = (0..24).collect();
    let segment = Segment::from(pool.alloc(24).unwrap().init_from(&bytes).unwrap());
    let mut view = View::from(segment);
    for depth in 1..=24 {
        view = view.slice(1..).unwrap();
        assert_eq!(view.offset(), depth);
        assert_eq!(&*view, &bytes[depth..]);
        assert_eq!(view.segment().holders(), 1, "the one before is gone");
    }
    assert!(view.is_empty());
    assert_eq!(
        pool.census().in_use,
        1,
        "an empty window still holds it all"
    );
    assert_eq!(&*view.into_segment(), &bytes[..]);
    assert_eq!(pool.census().in_use, 0);
}

#[cfg(feature = "std")]
#[test]
fn the_last_holder_drops_the_reference_and_only_that_one() {
    use std::sync::Arc;
    use wharf_backend::SegmentMut;
    let counted = Arc::new(StaticPool::<wharf_sync::Blocking, 4, 1>::new());
    let unique = SegmentMut::alloc(Arc::clone(&counted), 4).unwrap();
    let first = Segment::from(unique.init_from(b"abcd").unwrap());
    assert_eq!(Arc::strong_count(&counted), 2);
    let clones = [first.clone(), first.clone()];
    assert_eq!(Arc::strong_count(&counted), 2, "clones share one reference");
    drop(first);
    let [second, third] = clones;
    drop(third);
    assert_eq!(Arc::strong_count(&counted), 2);
    let unique = second.try_mut().unwrap();
    assert_eq!(Arc::strong_count(&counted), 2, "thawed with it");
    let last = Segment::from(unique).clone();
    assert_eq!(Arc::strong_count(&counted), 2, "and frozen again");
    drop(last);
    assert_eq!(Arc::strong_count(&counted), 1);
    assert_eq!(counted.census().in_use, 0);
}

#[test]
fn only_the_sole_holder_erases() {
    let pool = Pool::new();
    let segment = Segment::from(pool.alloc(4).unwrap().init_from(b"abcd").unwrap());
    let clone = segment.clone();
    let segment = segment.erase::<Erased<'_>>().unwrap_err();
    assert_eq!(segment.holders(), 2, "the handle came back as it was");
    drop(clone);
    let erased = segment.erase::<Erased<'_>>().unwrap();
    assert_eq!(erased.host().unwrap(), b"abcd");
    assert_eq!(erased.clone().holders(), 2);
    drop(erased);
    assert_eq!(pool.census().in_use, 0);
}

#[test]
fn raw_parts_of_a_segment_given_back_are_refused() {
    let pool = Pool::new();
    let segment = Segment::from(pool.alloc(4).unwrap().init_from(b"abcd").unwrap());
    let clone = segment.clone();
    let (header, backend) = segment.into_raw();
    assert_eq!(clone.holders(), 2, "taken apart it still counts");
    // SAFETY: from one `into_raw` just above, put together once.
    let segment = unsafe { Segment::from_raw(header, backend) }.unwrap();
    drop(clone);
    drop(segment);
    // SAFETY: the backend refuses the pointer, so no handle is made.
    let error = unsafe { Segment::from_raw(header, backend) }.unwrap_err();
    assert_eq!(error.address, header.addr().get());
    assert_eq!(pool.census().in_use, 0);
}
