//! Between two memories.

use wharf_backend::{BackendRef, Erases};
use wharf_tensor::{Access, Target, Tensor, TensorError};

use super::{Rig, is_free, settles, settling, stream, would_block};
use crate::check::{Demand, ensure, equal, refused};
use crate::{Check, Failure, Outcome};

/// Longer than the 256 bytes that go through the stack at a time.
const LONG: usize = 300;

/// A rig for each memory.
pub(crate) struct Pair<'r, T: Target> {
    first: Rig<'r, T>,
    second: Rig<'r, T>,
}

impl<'r, T: Target> Pair<'r, T> {
    pub(crate) fn new<A: BackendRef, B: BackendRef>(target: &'r T, first: A, second: B) -> Self
    where
        T::Memory: Erases<A> + Erases<B>,
    {
        Self {
            first: Rig::new(target, first),
            second: Rig::new(target, second),
        }
    }

    /// Runs `check`, after which everything has gone back.
    fn settles(&self, check: fn(&Self) -> Outcome) -> Outcome {
        let memory = || self.first.in_use().saturating_add(self.second.in_use());
        settles(memory, || self.first.blocks(), || check(self))
    }
}

pub(super) fn checks<'r, T: Target>() -> [Check<Pair<'r, T>>; 7] {
    settling! {
        "the first memory copies to itself" => |pair| copies(&pair.first, &pair.first),
        "the first memory copies to the second" => |pair| copies(&pair.first, &pair.second),
        "the second memory copies to the first" => |pair| copies(&pair.second, &pair.first),
        "the second memory copies to itself" => |pair| copies(&pair.second, &pair.second),
        "a copy inside of one storage moves as if at once" => moves,
        "a batch reaches both" => batch,
        "each end of a copy is fenced" => fenced,
    }
}

/// The byte that belongs at `at`: no two places within 251 bytes of each other have the same.
const fn mark(at: usize) -> u8 {
    let [low, ..] = (at % 251).to_le_bytes();
    low
}

/// A tensor with a mark at each place, written in pieces that do not divide its length.
#[inline(never)]
fn marked<T: Target>(rig: &Rig<'_, T>) -> Result<Tensor<T>, Failure> {
    const PIECE: usize = 64;
    let tensor = rig.zeros(LONG)?;
    let mut at = 0;
    while at < LONG {
        let bytes: [u8; PIECE] = core::array::from_fn(|index| mark(at + index));
        let bytes = bytes.get(..PIECE.min(LONG - at)).unwrap_or_default();
        tensor.write(at, bytes).demand("a write")?;
        at += PIECE;
    }
    Ok(tensor)
}

/// Whether each place from `start` on has the mark of the place `from` on.
#[inline(never)]
fn has<T: Target>(
    tensor: &Tensor<T>,
    start: usize,
    len: usize,
    from: usize,
) -> Result<(), Failure> {
    for at in 0..len {
        let mut byte = [0];
        tensor.read(start + at, &mut byte).demand("a read")?;
        let [found] = byte;
        equal("a byte that was copied", found, mark(from + at))?;
    }
    Ok(())
}

fn copies<T: Target>(from: &Rig<'_, T>, to: &Rig<'_, T>) -> Outcome {
    let (source, target) = (marked(from)?, to.zeros(LONG)?);
    target.copy_from(&source).demand("a copy")?;
    has(&target, 0, LONG, 0)?;
    has(&source, 0, LONG, 0)?;
    target.fill(0).demand("a fill")?;
    // A window in the middle, to another place.
    let part = source.slice(40..290).demand("a slice")?;
    let into = target.slice(7..257).demand("a slice")?;
    into.try_copy_from(&part).demand("a copy of a part")?;
    has(&target, 7, 250, 40)?;
    let mut beside = [[1; 7], [1; 7]];
    let [before, after] = &mut beside;
    target.read(0, before).demand("a read")?;
    target.read(257, after).demand("a read")?;
    ensure(beside == [[0; 7]; 2], "the bytes beside it stay")?;
    let mismatch = TensorError::LengthMismatch {
        destination: LONG,
        source: 250,
    };
    refused("a copy of fewer bytes", target.copy_from(&part), mismatch)?;
    Ok(())
}

fn moves<T: Target>(pair: &Pair<'_, T>) -> Outcome {
    for rig in [&pair.first, &pair.second] {
        for (from, to) in [(0, 25), (25, 0), (0, 1), (150, 10)] {
            let tensor = marked(rig)?;
            let len = 270.min(LONG - from.max(to));
            let part = tensor.slice(from..from + len).demand("a slice")?;
            let into = tensor.slice(to..to + len).demand("a slice")?;
            into.copy_from(&part).demand("a copy")?;
            has(&tensor, to, len, from)?;
        }
    }
    Ok(())
}

fn batch<T: Target>(pair: &Pair<'_, T>) -> Outcome {
    let (a, b) = (pair.first.zeros(LONG)?, pair.second.zeros(LONG)?);
    Tensor::write_batch(&[
        b.write_op(3, b"second"),
        a.write_op(250, b"first"),
        b.write_op(3, b"S"),
    ])
    .demand("a batch of writes")?;
    let (mut first, mut second) = ([0; 5], [0; 6]);
    Tensor::read_batch(&mut [a.read_op(250, &mut first), b.read_op(3, &mut second)])
        .demand("a batch of reads")?;
    ensure(first == *b"first", "the bytes of the first")?;
    ensure(second == *b"Second", "the bytes of the second")?;
    Ok(())
}

fn fenced<T: Target>(pair: &Pair<'_, T>) -> Outcome {
    let (a, b) = (pair.first.zeros(LONG)?, pair.second.zeros(LONG)?);
    let stream = stream()?;
    for (from, to) in [(&a, &b), (&b, &a)] {
        let reads = from
            .try_begin(Access::Read, stream.id())
            .demand("a ticket")?;
        to.try_copy_from(from)
            .demand("a copy of what a device reads")?;
        drop(reads);
        let writes = from
            .try_begin(Access::Write, stream.id())
            .demand("a ticket")?;
        let held = would_block(from)?;
        refused(
            "a copy of what a device writes",
            to.try_copy_from(from),
            held,
        )?;
        drop(writes);
        let reads = to.try_begin(Access::Read, stream.id()).demand("a ticket")?;
        let held = would_block(to)?;
        refused(
            "a copy to what a device reads",
            to.try_copy_from(from),
            held,
        )?;
        // The access to the other end was given back.
        is_free(from)?;
        drop(reads);
        is_free(to)?;
    }
    Ok(())
}
