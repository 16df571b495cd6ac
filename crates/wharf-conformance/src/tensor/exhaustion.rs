//! What runs out, and that nothing is lost by it.

use wharf_backend::SegmentMut;
use wharf_tensor::{Target, Tensor, TensorError};

use super::{BYTES, LEN, Rig, is_free, shows};
use crate::check::{Demand, ensure, equal};
use crate::{Failure, Outcome, Stop};

/// More segments, and the memory is taken to have no end.
const SEGMENTS: usize = 64;

/// More blocks, and the source is taken to have no end.
const BLOCKS: usize = 32;

pub(super) fn memory<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let mut held: [Option<SegmentMut<T::Memory>>; SEGMENTS] = [const { None }; SEGMENTS];
    let exhausted = held.iter_mut().any(|place| {
        let segment = SegmentMut::alloc(rig.memory.clone(), LEN).ok();
        *place = segment.and_then(|segment| segment.init_from(&BYTES).ok());
        place.is_none()
    });
    if !exhausted {
        return Err(Stop::Inapplicable("it vends 64 segments and more"));
    }
    let full = rig.in_use();
    let refusal = Tensor::alloc(rig.target, rig.memory.clone(), LEN);
    let refusal = refusal.err().demand("a tensor is refused")?;
    ensure(refusal.alloc_error().is_some(), "it is a refusal of memory")?;
    ensure(rig.in_use() == full, "what was taken until then went back")?;
    let first = held.iter_mut().find_map(Option::take);
    drop(first.demand("it vends a segment")?);
    let tensor = rig.tensor()?;
    shows(&tensor, &BYTES)?;
    Ok(())
}

pub(super) fn names<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let tensor = rig.tensor()?;
    let part = || tensor.slice(12..17).demand("a slice");
    let mut held: [Option<Tensor<T>>; BLOCKS] = [const { None }; BLOCKS];
    for place in &mut held {
        match part()?.named_static(rig.target, "bytes") {
            Ok(named) => *place = Some(named),
            Err(refused) => {
                let full = (rig.in_use(), rig.blocks());
                ensure(
                    refused.error.alloc_error().is_some(),
                    "it is for want of a block",
                )?;
                let back = refused.value;
                ensure(back.name().is_none(), "what comes back has no name")?;
                shows(&back, b"bytes")?;
                ensure(
                    (rig.in_use(), rig.blocks()) == full,
                    "nothing was taken for it",
                )?;
                drop(
                    held.iter_mut()
                        .find_map(Option::take)
                        .demand("it has room for a name")?,
                );
                let named = back.named_static(rig.target, "bytes");
                let named = named.map_err(|refused| refused.error);
                named.demand("a name, where one has gone")?;
                return Ok(());
            }
        }
    }
    Err(Stop::Inapplicable("it has room for 32 names and more"))
}

/// Whether it is refused for want of a block.
fn starved<V>(what: &'static str, answer: Result<V, TensorError>) -> Result<(), Failure> {
    let refusal = answer.err().demand(what)?;
    ensure(refusal.alloc_error().is_some(), what)
}

pub(super) fn blocks<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let whole = rig.tensor()?;
    let bare = SegmentMut::alloc(rig.memory.clone(), LEN).demand("a segment")?;
    let bare = bare.init_from(&BYTES).demand("its bytes")?;
    let mut held: [Option<Tensor<T>>; BLOCKS] = [const { None }; BLOCKS];
    let exhausted = held.iter_mut().any(|place| {
        *place = Tensor::placeholder(rig.target, 1).ok();
        place.is_none()
    });
    if !exhausted {
        return Err(Stop::Inapplicable("it has 32 control blocks and more"));
    }
    let full = (rig.in_use(), rig.blocks());
    starved(
        "a placeholder is refused",
        Tensor::placeholder(rig.target, 1),
    )?;
    let alloc = Tensor::alloc(rig.target, rig.memory.clone(), LEN);
    starved("a tensor is refused", alloc)?;
    let left = (rig.in_use(), rig.blocks());
    ensure(left == full, "the memory went back")?;
    let refusal = Tensor::from_segment(rig.target, bare);
    let refusal = refusal.err().demand("a tensor over a segment is refused")?;
    ensure(refusal.error.alloc_error().is_some(), "for want of a block")?;
    let mut found = [0; LEN];
    refusal
        .value
        .read(0, &mut found)
        .demand("a read of what comes back")?;
    ensure(found == BYTES, "the segment comes back with its bytes")?;
    let mut tensor = whole;
    let number = tensor.storage_id();
    let refusal = tensor.attach(rig.target, refusal.value);
    let refusal = refusal.err().demand("an exchange is refused")?;
    ensure(tensor.storage_id() == number, "the tensor is as it was")?;
    drop(refusal);
    starved("a split is refused", tensor.split(0))?;
    // One block is not enough for it, and goes back.
    drop(held.iter_mut().find_map(Option::take));
    starved("a split with one block is refused", tensor.split(0))?;
    is_free(&tensor)?;
    let one = rig.placeholder()?;
    equal("its length", one.len(), LEN)?;
    shows(&tensor, &BYTES)?;
    drop(held.iter_mut().find_map(Option::take));
    drop(one);
    let parts = tensor.split(0).demand("a split with two blocks")?;
    drop(parts);
    Ok(())
}
