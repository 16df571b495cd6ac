//! Which bytes move.

use wharf_backend::{BackendRef, MemBackend, Place};
use wharf_tensor::{Target, Tensor, TensorError};

use super::{BYTES, LEN, Rig, id, is_all, shows};
use crate::Outcome;
use crate::check::{Demand, ensure, equal, refused};

pub(super) fn written<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let tensor = rig.tensor()?;
    shows(&tensor, &BYTES)?;
    tensor.write(8, b"ARE").demand("a write in the middle")?;
    let mut expected = *b"tensors ARE bytes behind a fence";
    shows(&tensor, &expected)?;
    tensor.write(LEN, b"").demand("no bytes, at the end")?;
    tensor.try_write(LEN - 1, b"E").demand("the last byte")?;
    if let Some(last) = expected.last_mut() {
        *last = b'E';
    }
    shows(&tensor, &expected)?;
    let mut found = [0; 5];
    tensor
        .try_read(12, &mut found)
        .demand("a read in the middle")?;
    ensure(found == *b"bytes", "the bytes of a range are read")?;
    Ok(())
}

pub(super) fn fills<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let tensor = rig.zeros(LEN)?;
    tensor.fill(7).demand("a fill")?;
    is_all(&tensor, 7)?;
    let middle = tensor.slice(4..10).demand("a slice")?;
    middle.try_fill(9).demand("a fill of a slice")?;
    let mut expected = [7; LEN];
    for byte in expected.iter_mut().take(10).skip(4) {
        *byte = 9;
    }
    shows(&tensor, &expected)?;
    let none = tensor.slice(4..4).demand("an empty slice")?;
    none.fill(1).demand("a fill of no bytes")?;
    shows(&tensor, &expected)?;
    Ok(())
}

pub(super) fn slices<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let tensor = rig.tensor()?;
    let bytes = tensor.slice(12..).demand("a slice")?;
    equal("where it starts", bytes.offset(), 12)?;
    let bytes = bytes.slice(..=4).demand("a slice of a slice")?;
    shows(&bytes, b"bytes")?;
    let last = bytes.slice(3..5).demand("a third one")?;
    equal("where it starts in the storage", last.offset(), 15)?;
    ensure(
        last.storage_id() == tensor.storage_id(),
        "slices are on one storage",
    )?;
    last.write(0, b"ES").demand("a write in a slice")?;
    let clone = tensor.clone();
    shows(&clone, b"tensors are bytES behind a fence")?;
    let end = tensor.slice(LEN..).demand("the empty slice at the end")?;
    ensure(end.is_empty(), "it has no bytes")?;
    // The bytes stay while a slice does.
    drop((tensor, clone, bytes));
    shows(&last, b"ES")?;
    Ok(())
}

pub(super) fn bounds<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let whole = rig.tensor()?;
    let tensor = whole.slice(8..16).demand("a slice")?;
    let out = |offset, len| TensorError::OutOfBounds {
        offset,
        len,
        size: 8,
    };
    let mut two = [1, 2];
    for offset in [
        7,
        8,
        9,
        LEN,
        isize::MAX.unsigned_abs(),
        usize::MAX - 1,
        usize::MAX,
    ] {
        refused("a read", tensor.read(offset, &mut two), out(offset, 2))?;
        refused("a write", tensor.write(offset, b"XX"), out(offset, 2))?;
        let read = tensor
            .within(core::time::Duration::ZERO)
            .read(offset, &mut two);
        ensure(read.is_err(), "a read within a deadline is refused")?;
    }
    ensure(two == [1, 2], "a read that was refused leaves the buffer")?;
    refused("a slice", tensor.slice(9..), out(9, usize::MAX))?;
    refused("a slice", tensor.slice(..9), out(0, 9))?;
    refused("a slice", tensor.slice(..=usize::MAX), out(0, usize::MAX))?;
    let wraps = usize::MAX - 1..usize::MAX;
    refused("a slice", tensor.slice(wraps), out(usize::MAX - 1, 1))?;
    for at in [9, usize::MAX] {
        refused("a split", tensor.split(at), out(at, 0))?;
    }
    shows(&whole, &BYTES)?;
    Ok(())
}

pub(super) fn copied<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let (from, to) = (rig.tensor()?, rig.zeros(LEN)?);
    to.copy_from(&from).demand("a copy")?;
    shows(&to, &BYTES)?;
    let part = from.slice(12..17).demand("a slice")?;
    let into = to.slice(..5).demand("a slice")?;
    into.try_copy_from(&part).demand("a copy of a part")?;
    shows(&to, b"bytesrs are bytes behind a fence")?;
    let mismatch = TensorError::LengthMismatch {
        destination: LEN,
        source: 5,
    };
    refused("a copy of fewer bytes", to.copy_from(&part), mismatch)?;
    let nothing = rig.placeholder()?;
    to.copy_from(&nothing).demand("a copy of no bytes")?;
    nothing.copy_from(&from).demand("a copy to no bytes")?;
    shows(&to, b"bytesrs are bytes behind a fence")?;
    shows(&from, &BYTES)?;
    Ok(())
}

pub(super) fn overlap<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let tensor = rig.tensor()?;
    let slice = |start, end| tensor.slice(start..end).demand("a slice");
    // Towards higher addresses, towards lower ones, and in place.
    slice(3, 13)?.copy_from(&slice(0, 10)?).demand("a copy")?;
    shows(&tensor, b"tentensors arytes behind a fence")?;
    slice(0, 10)?.copy_from(&slice(5, 15)?).demand("a copy")?;
    shows(&tensor, b"nsors aryt arytes behind a fence")?;
    tensor.copy_from(&tensor).demand("a copy of itself")?;
    shows(&tensor, b"nsors aryt arytes behind a fence")?;
    Ok(())
}

pub(super) fn placed<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let tensor = rig.tensor()?;
    let slice = tensor.slice(12..17).demand("a slice")?;
    let placement = slice.placement().demand("its placement")?;
    let memory = rig.memory.backend();
    ensure(placement.storage == id(&tensor)?, "it is in its storage")?;
    ensure(placement.space() == memory.space(), "it is in its memory")?;
    ensure(slice.space() == Some(memory.space()), "it is in its memory")?;
    equal("its length", placement.len, 5)?;
    equal("where it starts", placement.segment_offset, 12)?;
    equal("bytes of its segment", placement.segment_len, LEN)?;
    equal("the alignment", placement.alignment, memory.alignment())?;
    ensure(placement.backend == memory.name(), "it names its memory")?;
    let storage = id(&tensor)?;
    match (placement.place, placement.segment) {
        (Place::Host(at), Place::Host(base)) => {
            let between = at.addr().get().wrapping_sub(base.addr().get());
            equal("bytes from the start of the segment", between, 12)?;
            let address = slice.host_ptr().demand("its address")?;
            ensure(address == at, "an address is that of the placement")?;
            let none = TensorError::NotOnDevice { storage };
            refused(
                "a device address of the host's",
                slice.device_address(),
                none,
            )?;
        }
        (Place::Device(at), Place::Device(base)) => {
            let between = at.get().wrapping_sub(base.get());
            equal("bytes from the start of the segment", between, 12)?;
            let address = slice.device_address().demand("its address")?;
            ensure(address == at, "an address is that of the placement")?;
            let none = TensorError::NotHostAddressable { storage };
            refused(
                "a host address of the device's",
                slice.host_ptr().map(|_| ()),
                none,
            )?;
        }
        _ => ensure(false, "a tensor is where its segment is")?,
    }
    let empty = Tensor::<T>::empty().placement();
    refused("a place of nothing", empty, TensorError::NoStorage)?;
    Ok(())
}
