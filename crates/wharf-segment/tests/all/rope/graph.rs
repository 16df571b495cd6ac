//! Ropes and views in every order of operations, against a model of plain bytes.
//!
//! A byte of the model says where it lies: in which segment, at which place. So the model knows the bytes of a rope, its
//! links (the runs of neighbours), what it pins, and how many handles each segment has.

use std::collections::BTreeMap;

use proptest::prelude::*;
use wharf_backend::{BackendExt, BackendRef, MemBackend, SegmentMut};
use wharf_segment::{OutOfBounds, Pinned, PushError, ReadError, Rope, SliceError, View};
use wharf_source::{BlockSource, HeapSource, NullSource, StaticPoolSource};
use wharf_sync::Unsync;

use super::{Erased, Pool};

const SLOTS: usize = 8;
const PAYLOAD: usize = 16;
/// Longer ropes are not made longer, so that a run ends.
const MOST: usize = 300;

/// A segment's number, and a place in it.
type Byte = (usize, usize);

/// What is at a place: different in neighbouring segments and places.
fn value((id, at): Byte) -> u8 {
    let [low, ..] = (id * 31 + at * 7).to_le_bytes();
    low
}

fn values(bytes: &[Byte]) -> Vec<u8> {
    bytes.iter().copied().map(value).collect()
}

/// Lengths of the runs of neighbours, with their segments.
fn runs(bytes: &[Byte]) -> Vec<(usize, usize)> {
    bytes
        .chunk_by(|a, b| a.0 == b.0 && a.1 + 1 == b.1)
        .map(|run| (run[0].0, run.len()))
        .collect()
}

#[derive(Clone, Debug)]
enum Step {
    /// A new segment, as a view of all of it.
    Make(usize),
    SliceView(usize, usize, usize),
    DropView(usize),
    NewRope,
    DropRope(usize),
    Push(usize, usize, bool),
    Pop(usize, bool),
    Append(usize, usize),
    Concat(usize, usize),
    Clone(usize),
    Slice(usize, usize, usize),
    SplitTo(usize, usize),
    SplitOff(usize, usize),
    Advance(usize, usize),
    Truncate(usize, usize),
    Clear(usize),
    Read(usize, usize, usize),
    Gather(usize),
    /// Writes through a view that is the only handle.
    Thaw(usize),
    IntoLinks(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = any::<usize>;
    let at = || prop_oneof![8 => 0..=40_usize, 1 => usize::MAX - 2..=usize::MAX];
    let step = prop_oneof![
        6 => (0..=PAYLOAD + 1).prop_map(Step::Make),
        5 => (index(), at(), at()).prop_map(|(i, a, b)| Step::SliceView(i, a, b)),
        3 => index().prop_map(Step::DropView),
        2 => Just(Step::NewRope),
        2 => index().prop_map(Step::DropRope),
        9 => (index(), index(), any::<bool>()).prop_map(|(r, v, front)| Step::Push(r, v, front)),
        3 => (index(), any::<bool>()).prop_map(|(r, front)| Step::Pop(r, front)),
        3 => (index(), index()).prop_map(|(a, b)| Step::Append(a, b)),
        3 => (index(), index()).prop_map(|(a, b)| Step::Concat(a, b)),
        1 => index().prop_map(Step::Clone),
        5 => (index(), at(), at()).prop_map(|(r, a, b)| Step::Slice(r, a, b)),
        3 => (index(), at()).prop_map(|(r, a)| Step::SplitTo(r, a)),
        3 => (index(), at()).prop_map(|(r, a)| Step::SplitOff(r, a)),
        3 => (index(), at()).prop_map(|(r, a)| Step::Advance(r, a)),
        2 => (index(), at()).prop_map(|(r, a)| Step::Truncate(r, a)),
        1 => index().prop_map(Step::Clear),
        3 => (index(), at(), at()).prop_map(|(r, a, b)| Step::Read(r, a, b)),
        2 => index().prop_map(Step::Gather),
        2 => index().prop_map(Step::Thaw),
        1 => index().prop_map(Step::IntoLinks),
    ];
    prop::collection::vec(step, 0..120)
}

struct Graph<'p, R: BackendRef, S: BlockSource, const N: usize> {
    pool: &'p Pool,
    route: fn(SegmentMut<&'p Pool>) -> SegmentMut<R>,
    source: S,
    /// What the source can do: whether so many links have room in a new rope.
    room: fn(usize) -> bool,
    /// The bytes of each segment that was ever made.
    made: Vec<usize>,
    views: Vec<(View<R>, Vec<Byte>)>,
    ropes: Vec<(Rope<R, S, N>, Vec<Byte>)>,
}

fn pick<T>(index: usize, of: &[T]) -> Option<usize> {
    index.checked_rem(of.len())
}

impl<R: BackendRef, S: BlockSource + Clone, const N: usize> Graph<'_, R, S, N> {
    /// The handles of each segment: one for each view and each run.
    fn handles(&self) -> BTreeMap<usize, usize> {
        let mut handles = BTreeMap::new();
        // An empty view pins its segment, which its bytes do not say.
        for (view, _) in &self.views {
            *handles.entry(self.id(view)).or_default() += 1;
        }
        for (id, _) in self.ropes.iter().flat_map(|(_, bytes)| runs(bytes)) {
            *handles.entry(id).or_default() += 1;
        }
        handles
    }

    /// The number that the first bytes of each segment spell.
    fn id(&self, view: &View<R>) -> usize {
        usize::from(view.segment().host().unwrap()[0])
    }

    fn rope(&self, index: usize) -> Option<usize> {
        pick(index, &self.ropes)
    }

    /// Checks the refusal of a part of so many links, and whether it was due.
    fn part(&mut self, part: Result<Rope<R, S, N>, SliceError>, bytes: Vec<Byte>) -> bool {
        let links = runs(&bytes).len();
        match part {
            Ok(part) => {
                assert!((self.room)(links));
                self.ropes.push((part, bytes));
                true
            }
            Err(SliceError::NoRoom { links: refused, .. }) => {
                assert_eq!((refused, (self.room)(links)), (links, false));
                false
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Make(len) => {
                let full = self.handles().len() == SLOTS;
                match self.pool.alloc(len) {
                    Ok(unique) => {
                        assert!(!full && len <= PAYLOAD);
                        // The first byte is the number: 256 of them are enough for a run, and an empty one has none.
                        if len == 0 {
                            return;
                        }
                        let id = self.made.len();
                        self.made.push(len);
                        let bytes: Vec<Byte> = (0..len).map(|at| (id, at)).collect();
                        let mut contents = values(&bytes);
                        contents[0] = u8::try_from(id).unwrap();
                        let unique = (self.route)(unique.init_from(&contents).unwrap());
                        // Shown without the number.
                        let mut view = View::from(unique);
                        view.advance(1).unwrap();
                        self.views.push((view, bytes[1..].to_vec()));
                    }
                    Err(_) => assert!(full || len > PAYLOAD),
                }
            }
            Step::SliceView(index, start, end) => {
                if let Some(at) = pick(index, &self.views) {
                    let (view, bytes) = &self.views[at];
                    match (view.slice(start..end), bytes.get(start..end)) {
                        (Ok(part), Some(bytes)) => {
                            let part = (part, bytes.to_vec());
                            self.views.push(part);
                        }
                        (Err(_), None) => {}
                        (part, _) => panic!("{part:?}, against the model"),
                    }
                }
            }
            Step::DropView(index) => {
                if let Some(at) = pick(index, &self.views) {
                    drop(self.views.swap_remove(at));
                }
            }
            Step::NewRope => {
                let rope = Rope::with_inline(self.source.clone());
                self.ropes.push((rope, Vec::new()));
            }
            Step::DropRope(index) => {
                if let Some(at) = self.rope(index) {
                    drop(self.ropes.swap_remove(at));
                }
            }
            Step::Push(rope, view, front) => {
                let (Some(rope), Some(view)) = (self.rope(rope), pick(view, &self.views)) else {
                    return;
                };
                let (view, added) = self.views.swap_remove(view);
                let (rope, bytes) = &mut self.ropes[rope];
                let pushed = if front {
                    [&added[..], bytes].concat()
                } else {
                    [&bytes[..], &added].concat()
                };
                let result = if front {
                    rope.push_front(view)
                } else {
                    rope.push(view)
                };
                let links = runs(&pushed).len();
                match result {
                    Ok(()) => {
                        // A block that was taken is kept, so that more links than inline may have room later.
                        *bytes = pushed;
                    }
                    Err(refused) => {
                        assert!(!(self.room)(links));
                        let PushError::NoRoom {
                            links: refused_links,
                            ..
                        } = refused.error
                        else {
                            panic!("{}", refused.error)
                        };
                        assert_eq!(refused_links, links);
                        self.views.push((refused.value, added));
                    }
                }
            }
            Step::Pop(index, front) => {
                if let Some(at) = self.rope(index) {
                    let (rope, bytes) = &mut self.ropes[at];
                    let link = if front {
                        rope.pop_front()
                    } else {
                        rope.pop_back()
                    };
                    let Some(link) = link else {
                        assert!(bytes.is_empty());
                        return;
                    };
                    let rest = if front {
                        bytes.split_off(link.len())
                    } else {
                        bytes.split_off(bytes.len() - link.len())
                    };
                    let taken = if front {
                        core::mem::replace(bytes, rest)
                    } else {
                        rest
                    };
                    assert_eq!(runs(&taken).len(), 1);
                    self.views.push((link, taken));
                }
            }
            Step::Append(to, from) => {
                let (Some(to), Some(from)) = (self.rope(to), self.rope(from)) else {
                    return;
                };
                if to == from || self.ropes[to].1.len() + self.ropes[from].1.len() > MOST {
                    return;
                }
                let [(to, to_bytes), (from, from_bytes)] =
                    self.ropes.get_disjoint_mut([to, from]).unwrap();
                let both = [&to_bytes[..], from_bytes].concat();
                match to.append(from) {
                    Ok(()) => {
                        *to_bytes = both;
                        from_bytes.clear();
                    }
                    Err(error) => {
                        let links = runs(&both).len();
                        assert!(!(self.room)(links));
                        assert!(
                            matches!(error, PushError::NoRoom { links: no, .. } if no == links)
                        );
                    }
                }
            }
            Step::Concat(first, second) => {
                let (Some(first), Some(second)) = (self.rope(first), self.rope(second)) else {
                    return;
                };
                let (first, second) = (&self.ropes[first], &self.ropes[second]);
                let both = [&first.1[..], &second.1].concat();
                if both.len() > MOST {
                    return;
                }
                match first.0.concat(&second.0) {
                    Ok(rope) => {
                        assert!((self.room)(runs(&both).len()));
                        self.ropes.push((rope, both));
                    }
                    Err(_) => assert!(!(self.room)(runs(&both).len())),
                }
            }
            Step::Clone(index) => {
                if let Some(at) = self.rope(index) {
                    let (rope, bytes) = &self.ropes[at];
                    let clone = (rope.try_clone().unwrap(), bytes.clone());
                    self.ropes.push(clone);
                }
            }
            Step::Slice(index, start, end) => {
                if let Some(at) = self.rope(index) {
                    let (rope, bytes) = &self.ropes[at];
                    let (part, len) = (rope.slice(start..end), bytes.len());
                    match bytes.get(start..end) {
                        Some(bytes) => {
                            let bytes = bytes.to_vec();
                            self.part(part, bytes);
                        }
                        None => {
                            let error = OutOfBounds { start, end, len };
                            assert_eq!(part.unwrap_err(), SliceError::OutOfBounds(error));
                        }
                    }
                }
            }
            Step::SplitTo(index, cut) => {
                if let Some(at) = self.rope(index) {
                    let (rope, bytes) = &mut self.ropes[at];
                    let part = rope.split_to(cut);
                    if cut > bytes.len() {
                        let error = OutOfBounds {
                            start: cut,
                            end: cut,
                            len: bytes.len(),
                        };
                        assert_eq!(part.unwrap_err(), SliceError::OutOfBounds(error));
                        return;
                    }
                    let head = bytes[..cut].to_vec();
                    if self.part(part, head) {
                        self.ropes[at].1.drain(..cut);
                    }
                }
            }
            Step::SplitOff(index, cut) => {
                if let Some(at) = self.rope(index) {
                    let (rope, bytes) = &mut self.ropes[at];
                    let part = rope.split_off(cut);
                    if cut > bytes.len() {
                        let error = OutOfBounds {
                            start: cut,
                            end: cut,
                            len: bytes.len(),
                        };
                        assert_eq!(part.unwrap_err(), SliceError::OutOfBounds(error));
                        return;
                    }
                    let tail = bytes[cut..].to_vec();
                    if self.part(part, tail) {
                        self.ropes[at].1.truncate(cut);
                    }
                }
            }
            Step::Advance(index, by) => {
                if let Some(at) = self.rope(index) {
                    let (rope, bytes) = &mut self.ropes[at];
                    assert_eq!(rope.advance(by).is_ok(), by <= bytes.len());
                    if by <= bytes.len() {
                        bytes.drain(..by);
                    }
                }
            }
            Step::Truncate(index, len) => {
                if let Some(at) = self.rope(index) {
                    let (rope, bytes) = &mut self.ropes[at];
                    assert_eq!(rope.truncate(len).is_ok(), len <= bytes.len());
                    bytes.truncate(if len <= bytes.len() { len } else { bytes.len() });
                }
            }
            Step::Clear(index) => {
                if let Some(at) = self.rope(index) {
                    self.ropes[at].0.clear();
                    self.ropes[at].1.clear();
                }
            }
            Step::Read(index, offset, len) => {
                if let Some(at) = self.rope(index) {
                    let (rope, bytes) = &self.ropes[at];
                    let mut buffer = vec![b'-'; len.min(64)];
                    let end = offset.saturating_add(buffer.len());
                    match (rope.read(offset, &mut buffer), bytes.get(offset..end)) {
                        (Ok(()), Some(bytes)) => assert_eq!(buffer, values(bytes)),
                        (Err(ReadError::OutOfBounds(error)), None) => {
                            assert_eq!(
                                error,
                                OutOfBounds {
                                    start: offset,
                                    end,
                                    len: bytes.len()
                                }
                            );
                            assert!(buffer.iter().all(|&byte| byte == b'-'));
                        }
                        (result, _) => panic!("{result:?}, against the model"),
                    }
                }
            }
            Step::Gather(index) => {
                if let Some(at) = self.rope(index) {
                    let full = self.handles().len() == SLOTS;
                    let (rope, bytes) = &self.ropes[at];
                    match rope.gather(self.pool) {
                        Ok(unique) => {
                            assert!((1..=PAYLOAD).contains(&bytes.len()) && !full);
                            assert_eq!(*unique, values(bytes));
                        }
                        Err(_) => assert!(full || !(1..=PAYLOAD).contains(&bytes.len())),
                    }
                }
            }
            Step::Thaw(index) => {
                if let Some(at) = pick(index, &self.views) {
                    let handles = self.handles();
                    let (view, bytes) = self.views.swap_remove(at);
                    let alone = handles[&self.id(&view)] == 1;
                    let view = match view.try_mut() {
                        Ok(mut unique) => {
                            assert!(alone);
                            // What is written is what was there; the sanitizers look on.
                            unique.write(0, &values(&bytes)).unwrap();
                            unique.freeze()
                        }
                        Err(view) => {
                            assert!(!alone);
                            view
                        }
                    };
                    self.views.push((view, bytes));
                }
            }
            Step::IntoLinks(index) => {
                if let Some(at) = self.rope(index) {
                    let (rope, bytes) = self.ropes.swap_remove(at);
                    let mut bytes = &bytes[..];
                    for link in rope {
                        let (now, later) = bytes.split_at(link.len());
                        bytes = later;
                        self.views.push((link, now.to_vec()));
                    }
                    assert!(bytes.is_empty());
                }
            }
        }
    }

    fn check(&self) {
        let handles = self.handles();
        assert_eq!(self.pool.census().in_use, handles.len());
        for (view, bytes) in &self.views {
            assert_eq!(view.host().unwrap(), values(bytes));
            assert_eq!(view.segment().holders() as usize, handles[&self.id(view)]);
        }
        let mut all = Vec::new();
        for (rope, bytes) in &self.ropes {
            assert_eq!(
                (rope.len(), rope.is_empty()),
                (bytes.len(), bytes.is_empty())
            );
            let links: Vec<_> = rope
                .links()
                .iter()
                .map(|link| (self.id(link), link.len()))
                .collect();
            assert_eq!(links, runs(bytes));
            let mut read = vec![0; rope.len()];
            rope.cursor().read(&mut read).unwrap();
            assert_eq!(read, values(bytes));
            assert_eq!(rope.pinned(), self.pinned([&bytes[..]], &handles));
            all.push(&bytes[..]);
        }
        let pinned = Pinned::of(self.ropes.iter().flat_map(|(rope, _)| rope));
        assert_eq!(pinned, self.pinned(all, &handles));
    }

    /// What ropes of these bytes pin.
    fn pinned<'b>(
        &self,
        ropes: impl IntoIterator<Item = &'b [Byte]>,
        handles: &BTreeMap<usize, usize>,
    ) -> Pinned {
        let mut ours: BTreeMap<usize, usize> = BTreeMap::new();
        let mut shown = 0;
        for (id, len) in ropes.into_iter().flat_map(runs) {
            *ours.entry(id).or_default() += 1;
            shown += len;
        }
        let sole = |(id, count): &(&usize, &usize)| handles[*id] == **count;
        let bytes = |(&id, _): (&usize, &usize)| self.made[id];
        Pinned {
            shown,
            kept: ours.iter().map(bytes).sum(),
            sole: ours.iter().filter(sole).map(bytes).sum(),
            segments: ours.len(),
        }
    }
}

fn run<'p, R: BackendRef, S: BlockSource + Clone, const N: usize>(
    pool: &'p Pool,
    route: fn(SegmentMut<&'p Pool>) -> SegmentMut<R>,
    (source, room): (S, fn(usize) -> bool),
    steps: &[Step],
) {
    let mut graph = Graph::<_, _, N> {
        pool,
        route,
        source,
        room,
        made: Vec::new(),
        views: Vec::new(),
        ropes: Vec::new(),
    };
    for step in steps {
        graph.step(step);
        graph.check();
    }
    drop(graph);
    assert_eq!(pool.census().in_use, 0, "nothing leaked");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ropes_are_what_the_model_says(steps in steps()) {
        let always = |_| true;
        run::<_, _, 2>(&Pool::new(), |typed| typed, (HeapSource, always), &steps);
        run::<_, _, 0>(&Pool::new(), |typed| typed.erase::<Erased<'_>>(), (HeapSource, always), &steps);
        run::<_, _, 3>(&Pool::new(), |typed| typed, (NullSource, |links| links <= 3), &steps);
    }

    #[test]
    fn blocks_of_a_pool_come_back(steps in steps()) {
        let blocks = StaticPoolSource::<Unsync, { 1 << 16 }, 16>::new();
        run::<_, _, 1>(&Pool::new(), |typed| typed.erase::<Erased<'_>>(), (&blocks, |_| true), &steps);
    }
}
