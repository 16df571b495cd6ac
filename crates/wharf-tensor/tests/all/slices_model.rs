//! Tensors and slices of slices over pools, against plain vectors, under two policies.

use std::ops::Bound;
use std::sync::Arc;

use crate::common::Books;
use proptest::prelude::*;
use wharf_backend::{AllocError, MemBackend, StaticPool};
use wharf_sync::{Critical, SyncPolicy, Unsync};
use wharf_tensor::{Parts, Tensor, TensorError};

const PAYLOAD: usize = 48;
const SLOTS: usize = 5;
type Pool<P> = StaticPool<P, PAYLOAD, SLOTS>;
type Pooled<P> = Parts<Arc<Pool<P>>, Arc<Books>>;

/// One end of a range: an offset from the start of the tensor or back from its end, or from the end of the numbers.
#[derive(Clone, Copy, Debug)]
enum End {
    At(usize),
    Back(usize),
    Huge(usize),
}

impl End {
    fn of(self, len: usize) -> usize {
        match self {
            Self::At(at) => at,
            Self::Back(back) => len.saturating_sub(back),
            Self::Huge(less) => usize::MAX - less,
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Alloc(usize),
    Slice(usize, Bound<End>, Bound<End>),
    Clone(usize),
    Drop(usize),
    Read(usize, End, usize),
    Write(usize, End, Vec<u8>),
    Fill(usize, u8),
    Copy(usize, usize),
    /// Copies one half of a tensor's window to the other, shifted: operands that overlap.
    Shift(usize, usize, bool),
    /// Does something while a guard is held.
    Lend(usize, Box<Self>),
    LendMut(usize, u8, Box<Self>),
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        6 => (0_usize..PAYLOAD + 2).prop_map(End::At),
        3 => (0_usize..8).prop_map(End::Back),
        1 => (0_usize..4).prop_map(End::Huge),
    ]
}

fn bound() -> impl Strategy<Value = Bound<End>> {
    prop_oneof![
        3 => end().prop_map(Bound::Included),
        2 => end().prop_map(Bound::Excluded),
        1 => Just(Bound::Unbounded),
    ]
}

fn plain() -> impl Strategy<Value = Op> {
    let which = || 0_usize..16;
    prop_oneof![
        3 => (0..=PAYLOAD + 1).prop_map(Op::Alloc),
        5 => (which(), bound(), bound()).prop_map(|(tensor, start, end)| Op::Slice(tensor, start, end)),
        1 => which().prop_map(Op::Clone),
        3 => which().prop_map(Op::Drop),
        2 => (which(), end(), 0..PAYLOAD + 2).prop_map(|(tensor, at, len)| Op::Read(tensor, at, len)),
        4 => (which(), end(), proptest::collection::vec(any::<u8>(), 0..12))
            .prop_map(|(tensor, at, bytes)| Op::Write(tensor, at, bytes)),
        2 => (which(), any::<u8>()).prop_map(|(tensor, byte)| Op::Fill(tensor, byte)),
        4 => (which(), which()).prop_map(|(to, from)| Op::Copy(to, from)),
        3 => (which(), 0_usize..8, any::<bool>()).prop_map(|(tensor, by, up)| Op::Shift(tensor, by, up)),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let which = || 0_usize..16;
    prop_oneof![
        8 => plain(),
        1 => (which(), plain()).prop_map(|(tensor, op)| Op::Lend(tensor, Box::new(op))),
        1 => (which(), any::<u8>(), plain())
            .prop_map(|(tensor, byte, op)| Op::LendMut(tensor, byte, Box::new(op))),
    ]
}

/// What a tensor should be: a window on a storage.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Window {
    storage: usize,
    offset: usize,
    len: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Lent {
    Not,
    ToRead(usize),
    ToWrite(usize),
}

struct Machine<P: SyncPolicy> {
    pool: Arc<Pool<P>>,
    books: Arc<Books>,
    target: Pooled<P>,
    tensors: Vec<(Tensor<Pooled<P>>, Window)>,
    /// The bytes of every storage that ever was.
    storages: Vec<Vec<u8>>,
    lent: Lent,
}

type Checked = Result<(), TestCaseError>;

impl<P: SyncPolicy> Machine<P> {
    fn new() -> Self {
        let (pool, books) = (Arc::new(StaticPool::fresh()), Arc::new(Books::default()));
        Self {
            target: Pooled::new(books.clone()),
            pool,
            books,
            tensors: Vec::new(),
            storages: Vec::new(),
            lent: Lent::Not,
        }
    }

    fn pick(&self, which: usize) -> Option<usize> {
        (!self.tensors.is_empty()).then(|| which % self.tensors.len())
    }

    fn bytes(&mut self, window: Window) -> &mut [u8] {
        &mut self.storages[window.storage][window.offset..window.offset + window.len]
    }

    /// What the fence answers to a call that reads, or writes, this storage.
    fn fence(
        &self,
        tensor: &Tensor<Pooled<P>>,
        window: Window,
        write: bool,
    ) -> Result<(), TensorError> {
        let guarded = match self.lent {
            Lent::Not => false,
            Lent::ToRead(storage) => write && storage == window.storage,
            Lent::ToWrite(storage) => storage == window.storage,
        };
        let storage = tensor.storage_id().unwrap();
        if guarded {
            Err(TensorError::Guarded { storage })
        } else {
            Ok(())
        }
    }

    fn live(&self) -> usize {
        let mut storages: Vec<usize> = self
            .tensors
            .iter()
            .map(|(_, window)| window.storage)
            .collect();
        storages.sort_unstable();
        storages.dedup();
        storages.len()
    }

    fn run(&mut self, op: &Op) -> Checked {
        match op {
            Op::Alloc(len) => self.alloc(*len)?,
            Op::Slice(which, start, end) => self.slice(*which, *start, *end)?,
            Op::Clone(which) => {
                if let Some(index) = self.pick(*which) {
                    let (tensor, window) = &self.tensors[index];
                    self.tensors.push((tensor.clone(), *window));
                }
            }
            Op::Drop(which) => {
                if let Some(index) = self.pick(*which) {
                    drop(self.tensors.swap_remove(index));
                }
            }
            Op::Read(which, at, len) => self.read(*which, *at, *len)?,
            Op::Write(which, at, bytes) => self.write(*which, *at, bytes)?,
            Op::Fill(which, byte) => {
                if let Some(index) = self.pick(*which) {
                    let (tensor, window) = self.tensors[index].clone();
                    let expected = self.fence(&tensor, window, true);
                    prop_assert_eq!(tensor.fill(*byte), expected);
                    prop_assert_eq!(tensor.try_fill(*byte), expected);
                    if expected.is_ok() {
                        self.bytes(window).fill(*byte);
                    }
                }
            }
            Op::Copy(to, from) => {
                if let (Some(to), Some(from)) = (self.pick(*to), self.pick(*from)) {
                    let (to, from) = (self.tensors[to].clone(), self.tensors[from].clone());
                    self.copy(&to, &from)?;
                }
            }
            Op::Shift(which, by, up) => {
                if let Some(index) = self.pick(*which) {
                    let (tensor, window) = self.tensors[index].clone();
                    let by = (*by).min(window.len);
                    let (low, high) = (
                        tensor.slice(..window.len - by).unwrap(),
                        tensor.slice(by..).unwrap(),
                    );
                    let low = (
                        low,
                        Window {
                            len: window.len - by,
                            ..window
                        },
                    );
                    let high = (
                        high,
                        Window {
                            offset: window.offset + by,
                            ..low.1
                        },
                    );
                    if *up {
                        self.copy(&high, &low)?;
                    } else {
                        self.copy(&low, &high)?;
                    }
                }
            }
            Op::Lend(which, inner) => {
                if let Some(index) = self.pick(*which) {
                    let (tensor, window) = self.tensors[index].clone();
                    let guard = tensor.lend().unwrap();
                    prop_assert_eq!(&*guard, &*self.bytes(window));
                    self.lent = Lent::ToRead(window.storage);
                    self.run(inner)?;
                    self.lent = Lent::Not;
                    prop_assert_eq!(&*guard, &*self.bytes(window), "nobody wrote meanwhile");
                }
            }
            Op::LendMut(which, byte, inner) => {
                if let Some(index) = self.pick(*which) {
                    let (tensor, window) = self.tensors[index].clone();
                    let mut guard = tensor.lend_mut().unwrap();
                    guard.fill(*byte);
                    self.bytes(window).fill(*byte);
                    self.lent = Lent::ToWrite(window.storage);
                    self.run(inner)?;
                    self.lent = Lent::Not;
                    prop_assert_eq!(&*guard, &*self.bytes(window), "nobody wrote meanwhile");
                }
            }
        }
        Ok(())
    }

    fn alloc(&mut self, len: usize) -> Checked {
        // A guard's tensor is a clone of its own, so what it holds may have left the list.
        let in_use = self.pool.census().in_use;
        let made = Tensor::alloc(&self.target, self.pool.clone(), len);
        let refusal = if len > PAYLOAD {
            Some(AllocError::TooLarge {
                requested: len,
                max: PAYLOAD,
            })
        } else if in_use == SLOTS {
            let all = SLOTS * PAYLOAD;
            Some(AllocError::Exhausted {
                requested: len,
                in_use: all,
                capacity: all,
            })
        } else {
            None
        };
        match (made, refusal) {
            (Ok(tensor), None) => {
                let window = Window {
                    storage: self.storages.len(),
                    offset: 0,
                    len,
                };
                self.storages.push(vec![0; len]);
                self.tensors.push((tensor, window));
            }
            (made, refusal) => {
                prop_assert_eq!(made.map(drop).err(), refusal.map(TensorError::Alloc));
            }
        }
        Ok(())
    }

    fn slice(&mut self, which: usize, start: Bound<End>, end: Bound<End>) -> Checked {
        let Some(index) = self.pick(which) else {
            return Ok(());
        };
        let (tensor, window) = &self.tensors[index];
        let of = |end: End| end.of(window.len);
        let (start, end) = (start.map(of), end.map(of));
        // In wider numbers, where nothing wraps.
        let wide = |n: usize| n as u128;
        let from = match start {
            Bound::Included(start) => wide(start),
            Bound::Excluded(before) => wide(before) + 1,
            Bound::Unbounded => 0,
        };
        let to = match end {
            Bound::Included(last) => wide(last) + 1,
            Bound::Excluded(end) => wide(end),
            Bound::Unbounded => wide(window.len),
        };
        let made = tensor.slice((start, end));
        if from <= to && to <= wide(window.len) {
            let (from, to) = (usize::try_from(from).unwrap(), usize::try_from(to).unwrap());
            let slice = made.unwrap();
            let window = Window {
                offset: window.offset + from,
                len: to - from,
                ..*window
            };
            self.tensors.push((slice, window));
        } else {
            let narrow = |n: u128| usize::try_from(n).unwrap_or(usize::MAX);
            let len = if to > wide(usize::MAX) || from > wide(usize::MAX) {
                usize::MAX
            } else {
                to.checked_sub(from).map_or(usize::MAX, narrow)
            };
            let error = TensorError::OutOfBounds {
                offset: narrow(from),
                len,
                size: window.len,
            };
            prop_assert_eq!(made.map(drop), Err(error));
        }
        Ok(())
    }

    fn range(window: Window, at: usize, len: usize) -> Result<(), TensorError> {
        let fits = at as u128 + len as u128 <= window.len as u128;
        let error = TensorError::OutOfBounds {
            offset: at,
            len,
            size: window.len,
        };
        if fits { Ok(()) } else { Err(error) }
    }

    fn read(&mut self, which: usize, at: End, len: usize) -> Checked {
        let Some(index) = self.pick(which) else {
            return Ok(());
        };
        let (tensor, window) = self.tensors[index].clone();
        let at = at.of(window.len);
        let expected =
            Self::range(window, at, len).and_then(|()| self.fence(&tensor, window, false));
        let mut bytes = vec![0x5A; len];
        prop_assert_eq!(tensor.read(at, &mut bytes), expected);
        let untouched = vec![0x5A; len];
        let seen = if expected.is_ok() {
            self.bytes(window)[at..at + len].to_vec()
        } else {
            untouched
        };
        prop_assert_eq!(&bytes, &seen);
        bytes.fill(0x5A);
        prop_assert_eq!(tensor.try_read(at, &mut bytes), expected);
        prop_assert_eq!(&bytes, &seen);
        Ok(())
    }

    fn write(&mut self, which: usize, at: End, bytes: &[u8]) -> Checked {
        let Some(index) = self.pick(which) else {
            return Ok(());
        };
        let (tensor, window) = self.tensors[index].clone();
        let at = at.of(window.len);
        let expected =
            Self::range(window, at, bytes.len()).and_then(|()| self.fence(&tensor, window, true));
        prop_assert_eq!(tensor.write(at, bytes), expected);
        prop_assert_eq!(tensor.try_write(at, bytes), expected);
        if expected.is_ok() {
            self.bytes(window)[at..at + bytes.len()].copy_from_slice(bytes);
        }
        Ok(())
    }

    fn copy(
        &mut self,
        to: &(Tensor<Pooled<P>>, Window),
        from: &(Tensor<Pooled<P>>, Window),
    ) -> Checked {
        let ((to, to_window), (from, from_window)) = (to, from);
        let expected = if to_window.len != from_window.len {
            Err(TensorError::LengthMismatch {
                destination: to_window.len,
                source: from_window.len,
            })
        } else if to_window.storage == from_window.storage {
            self.fence(to, *to_window, true)
        } else {
            // One guard at most is held, so one of the two refuses at most.
            self.fence(to, *to_window, true)
                .and(self.fence(from, *from_window, false))
        };
        prop_assert_eq!(to.copy_from(from), expected);
        if expected.is_ok() {
            let bytes = self.bytes(*from_window).to_vec();
            self.bytes(*to_window).copy_from_slice(&bytes);
        } else {
            prop_assert_eq!(to.try_copy_from(from), expected);
        }
        Ok(())
    }

    /// Every tensor is the window that it should be, and the books are in order.
    fn check(&mut self) -> Checked {
        for index in 0..self.tensors.len() {
            let (tensor, window) = self.tensors[index].clone();
            prop_assert_eq!((tensor.offset(), tensor.len()), (window.offset, window.len));
            let mut bytes = vec![0; window.len];
            prop_assert_eq!(tensor.read(0, &mut bytes), Ok(()));
            prop_assert_eq!(&bytes[..], &*self.bytes(window));
        }
        let live = self.live();
        prop_assert_eq!(self.pool.census().in_use, live);
        prop_assert_eq!((self.books.blocks(), self.books.foreign()), (live, 0));
        Ok(())
    }
}

fn agrees<P: SyncPolicy>(ops: &[Op]) -> Checked {
    let mut machine = Machine::<P>::new();
    for op in ops {
        machine.run(op)?;
        machine.check()?;
    }
    machine.tensors.clear();
    machine.check()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]
    #[test]
    fn tensors_over_an_unshared_pool_agree_with_vectors(ops in proptest::collection::vec(op(), 1..60)) {
        agrees::<Unsync>(&ops)?;
    }

    #[test]
    fn tensors_over_a_critical_pool_agree_with_vectors(ops in proptest::collection::vec(op(), 1..60)) {
        agrees::<Critical>(&ops)?;
    }
}

#[test]
fn slices_of_slices_are_as_cheap_ten_thousand_deep() {
    let mut machine = Machine::<Unsync>::new();
    let tensor = Tensor::alloc(&machine.target, machine.pool.clone(), PAYLOAD).unwrap();
    let mut deep = tensor.clone();
    for _ in 0..10_000 {
        deep = deep.slice(..).unwrap();
    }
    let last = deep.slice(PAYLOAD - 1..).unwrap();
    last.fill(7).unwrap();
    assert_eq!((last.offset(), last.len()), (PAYLOAD - 1, 1));
    assert_eq!(tensor.lend().unwrap()[PAYLOAD - 1], 7);
    assert_eq!(
        machine.books.calls(),
        1,
        "one block for the storage, none for a slice"
    );
    drop((tensor, deep, last));
    machine.check().unwrap();
}
