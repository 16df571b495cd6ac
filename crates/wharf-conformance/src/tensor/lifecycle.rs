//! How tensors come and go.

use wharf_backend::{BackendRef, MemBackend, SegmentMut};
use wharf_tensor::{Access, Target, Tensor, TensorError};

use super::{BYTES, LEN, Rig, id, is_all, is_free, shows, stream, would_block};
use crate::check::{Demand, applies, ensure, equal, refused};
use crate::{Failure, Outcome};

fn segment<T: Target>(rig: &Rig<'_, T>) -> Result<SegmentMut<T::Memory>, Failure> {
    let segment = SegmentMut::alloc(rig.memory.clone(), LEN);
    let segment = segment.demand("a segment")?;
    segment.init_from(&BYTES).demand("its bytes")
}

pub(super) fn empty<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let empty = Tensor::<T>::empty();
    let stream = stream()?;
    ensure(empty.is_empty(), "it has no bytes")?;
    ensure(empty.storage_id().is_none(), "it has no storage")?;
    ensure(empty.space().is_none(), "it is nowhere")?;
    let none = || TensorError::NoStorage;
    refused("a read", empty.read(0, &mut []), none())?;
    refused("a write", empty.write(0, b""), none())?;
    refused("a fill", empty.fill(0), none())?;
    refused("a slice", empty.slice(..), none())?;
    refused("a split", empty.split(0), none())?;
    refused(
        "a ticket",
        empty.try_begin(Access::Read, stream.id()),
        none(),
    )?;
    refused("a loan", empty.lend().map(|_| ()), none())?;
    let tensor = rig.tensor()?;
    refused("a copy of nothing", tensor.copy_from(&empty), none())?;
    refused("a copy to nothing", empty.copy_from(&tensor), none())?;
    let named = empty.named_static(rig.target, "nothing");
    let back = named.err().demand("nothing has no name")?;
    ensure(back.error == none(), "it says why")?;
    ensure(back.value.into_segment().is_err(), "no segment is in it")?;
    Ok(())
}

pub(super) fn placeholder<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let memory = rig.in_use();
    let later = rig.placeholder()?;
    equal("its length", later.len(), LEN)?;
    ensure(later.space().is_none(), "it is nowhere")?;
    equal("units of memory in use", rig.in_use(), memory)?;
    later.write(4, b"gone").demand("a write")?;
    later.fill(1).demand("a fill")?;
    let mut bytes = *b"kept";
    let part = later.slice(8..).demand("a slice")?;
    part.read(0, &mut bytes).demand("a read")?;
    ensure(bytes == *b"kept", "a read leaves the buffer as it was")?;
    let out = TensorError::OutOfBounds {
        offset: LEN - 3,
        len: 4,
        size: LEN,
    };
    refused(
        "its bounds are those of the real thing",
        later.write(LEN - 3, b"gone"),
        out,
    )?;
    let storage = id(&later)?;
    let none = TensorError::Placeholder { storage };
    refused("a place", later.placement(), none)?;
    let lent = later.lend().map(|_| ());
    refused("a loan", lent, TensorError::NotHostAddressable { storage })?;
    // Its fence is a fence.
    let stream = stream()?;
    let ticket = later
        .try_begin(Access::Write, stream.id())
        .demand("a ticket")?;
    refused(
        "a read under a device",
        later.try_read(0, &mut bytes),
        would_block(&later)?,
    )?;
    drop(ticket);
    ensure(later.into_segment().is_err(), "no segment is in it")?;
    Ok(())
}

pub(super) fn round_trip<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let segment = segment(rig)?;
    let (place, in_use) = (segment.place(), rig.in_use());
    let tensor = Tensor::from_segment(rig.target, segment).map_err(|refused| refused.error);
    let tensor = tensor.demand("a tensor over a segment")?;
    ensure(
        tensor.place() == Some(place),
        "the bytes stay where they are",
    )?;
    equal("units of memory in use", rig.in_use(), in_use)?;
    shows(&tensor, &BYTES)?;
    tensor.write(0, b"T").demand("a write")?;
    let segment = tensor.into_segment().ok().demand("the segment comes out")?;
    ensure(segment.place() == place, "the bytes stay where they are")?;
    let mut found = [0; LEN];
    segment.read(0, &mut found).demand("a read")?;
    ensure(
        found == *b"Tensors are bytes behind a fence",
        "what was written is in it",
    )?;
    Ok(())
}

pub(super) fn shared<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let tensor = rig.tensor()?;
    let back = |tensor: Tensor<T>, error, what| {
        let len = tensor.len();
        let back = tensor.into_segment().err().demand(what)?;
        equal("the length of what comes back", back.value.len(), len)?;
        ensure(back.error == error, what)?;
        Ok::<_, Failure>(back.value)
    };
    let storage = tensor.storage_id().demand("a storage")?;
    let one_other = TensorError::Held { storage, others: 1 };
    let clone = tensor.clone();
    let tensor = back(tensor, one_other, "one of two takes no segment out")?;
    drop(clone);
    let slice = tensor.slice(3..).demand("a slice")?;
    let slice = back(slice, one_other, "nor does a slice beside its whole")?;
    drop(slice);
    let stream = stream()?;
    let ticket = tensor
        .try_begin(Access::Read, stream.id())
        .demand("a ticket")?;
    let in_flight = TensorError::InFlight {
        storage,
        reads: 1,
        writes: 0,
    };
    let tensor = back(tensor, in_flight, "nor anybody while a device has access")?;
    drop(ticket);
    shows(&tensor, &BYTES)?;
    ensure(tensor.into_segment().is_ok(), "the only holder does")?;
    Ok(())
}

pub(super) fn attach<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let mut tensor = Tensor::empty();
    let attached = |tensor: &mut Tensor<T>, segment| {
        let attached = tensor.attach(rig.target, segment);
        attached
            .map_err(|refused| refused.error)
            .demand("a segment is attached")
    };
    attached(&mut tensor, segment(rig)?)?;
    shows(&tensor, &BYTES)?;
    tensor.fill(1).demand("a fill")?;
    let clone = tensor.clone();
    attached(&mut tensor, segment(rig)?)?;
    shows(&tensor, &BYTES)?;
    is_all(&clone, 1)?;
    ensure(
        clone.storage_id() != tensor.storage_id(),
        "the clone keeps the old storage",
    )?;
    Ok(())
}

pub(super) fn attach_in_flight<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let mut tensor = rig.zeros(LEN)?;
    let stream = stream()?;
    let ticket = |access| tensor.try_begin(access, stream.id()).demand("a ticket");
    let tickets = [
        ticket(Access::Write)?,
        ticket(Access::Read)?,
        ticket(Access::Read)?,
    ];
    let storage = id(&tensor)?;
    let refusal = tensor.attach(rig.target, segment(rig)?);
    let refusal = refusal.err().demand("nothing is attached under a device")?;
    let expected = TensorError::InFlight {
        storage,
        reads: 2,
        writes: 1,
    };
    refused("the refusal", Err::<(), _>(refusal.error), expected)?;
    let mut found = [0; LEN];
    refusal
        .value
        .read(0, &mut found)
        .demand("a read of what comes back")?;
    ensure(found == BYTES, "the segment comes back with its bytes")?;
    drop(tickets);
    ensure(
        tensor.storage_id() == Some(storage),
        "the tensor is as it was",
    )?;
    is_all(&tensor, 0)?;
    Ok(())
}

/// Bytes of a tensor that is split, and where: at the granule, where there is one.
fn cut<T: Target>(rig: &Rig<'_, T>) -> (usize, usize) {
    rig.granule()
        .map_or((LEN, 12), |granule| (granule.saturating_mul(2), granule))
}

const TOO_LARGE: &str = "two of its lines do not fit into a segment";

pub(super) fn split<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let (len, at) = cut(rig);
    applies(len <= rig.memory.backend().max_segment_size(), TOO_LARGE)?;
    let whole = rig.zeros(len)?;
    let memory = rig.in_use();
    let (first, second) = whole.split(at).demand("a split")?;
    equal(
        "units of memory in use: a split takes none",
        rig.in_use(),
        memory,
    )?;
    equal("bytes of the first part", first.len(), at)?;
    equal("bytes of the second part", second.len(), len - at)?;
    let stream = stream()?;
    let filling = first
        .try_begin(Access::Write, stream.id())
        .demand("a ticket")?;
    second
        .try_write(1, b"pong")
        .demand("a write to the other part")?;
    refused(
        "a read of the part",
        first.try_read(0, &mut [0]),
        would_block(&first)?,
    )?;
    let storage = id(&whole)?;
    let is_split = || TensorError::Split { storage };
    // None of them waits.
    refused("a read of the whole", whole.read(0, &mut [0]), is_split())?;
    refused("a fill of the whole", whole.fill(1), is_split())?;
    let ticket = whole.try_begin(Access::Read, stream.id());
    refused("a device's access to the whole", ticket, is_split())?;
    refused("a second split", whole.split(at), is_split())?;
    drop(filling);
    let place = second.placement().demand("its placement")?;
    equal(
        "where a part starts in the segment",
        place.segment_offset,
        at,
    )?;
    equal("bytes of the segment of a part", place.segment_len, len)?;
    ensure(
        first.into_segment().is_err(),
        "no segment is in a part alone",
    )?;
    Ok(())
}

pub(super) fn rejoin<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let (len, at) = cut(rig);
    applies(len <= rig.memory.backend().max_segment_size(), TOO_LARGE)?;
    let whole = rig.zeros(len)?;
    let stream = stream()?;
    let ticket = whole
        .try_begin(Access::Read, stream.id())
        .demand("a ticket")?;
    refused(
        "a split under a device",
        whole.split(at),
        would_block(&whole)?,
    )?;
    drop(ticket);
    if let Some(alignment) = rig.granule().filter(|&granule| granule > 1) {
        let unaligned = TensorError::Unaligned { at: 1, alignment };
        refused("a split of a cache line", whole.split(1), unaligned)?;
    }
    let (first, second) = whole.split(at).demand("a split")?;
    first.write(0, b"ping").demand("a write to a part")?;
    second.write(0, b"pong").demand("a write to a part")?;
    drop(first);
    let split = TensorError::Split {
        storage: id(&whole)?,
    };
    refused("a read beside a part", whole.read(0, &mut [0]), split)?;
    let ticket = second
        .try_begin(Access::Read, stream.id())
        .demand("a ticket")?;
    drop(second);
    refused(
        "a read beside a device at a part",
        whole.try_read(0, &mut [0]),
        split,
    )?;
    drop(ticket);
    is_free(&whole)?;
    let slice = |start| whole.slice(start..start + 4).demand("a slice");
    shows(&slice(0)?, b"ting")?;
    shows(&slice(at)?, b"pong")?;
    // At either end there is a part without bytes.
    let (none, all) = whole.split(0).demand("a split at the start")?;
    ensure(
        none.is_empty() && all.len() == len,
        "a part may have no bytes",
    )?;
    Ok(())
}
