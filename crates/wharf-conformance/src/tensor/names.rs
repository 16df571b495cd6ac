//! Names, their directory, and the completions that are counted under them.

use core::fmt::{self, Write};
use core::pin::pin;
use core::time::Duration;

use wharf_sync::Clock;
use wharf_tensor::{Access, CompletionError, DirectoryRef, Target, Tensor};

use super::tasks::poll;
use super::{LEN, Rig, id, is_alone, stream};
use crate::check::{Demand, applies, ensure, equal, refused};
use crate::waker::Probe;
use crate::{Failure, Outcome};

/// A tensor of zeros with this name.
pub(super) fn named<T: Target>(rig: &Rig<'_, T>, name: &'static str) -> Result<Tensor<T>, Failure> {
    let named = rig.zeros(LEN)?.named_static(rig.target, name);
    named.map_err(|refused| refused.error).demand("a name")
}

pub(super) fn shared<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let tensor = named(rig, "weights")?;
    let named = Some("weights");
    let clone = tensor.clone();
    ensure(clone.name() == named, "a clone has it, too")?;
    let slice = tensor.slice(..4).demand("a slice")?;
    ensure(slice.name().is_none(), "a slice has none")?;
    let slice = slice.named_static(rig.target, "bias");
    let slice = slice
        .map_err(|refused| refused.error)
        .demand("a name of its own")?;
    ensure(slice.name() == Some("bias"), "it has its own")?;
    let again = tensor.named_static(rig.target, "weights v2");
    let again = again
        .map_err(|refused| refused.error)
        .demand("another name")?;
    ensure(again.name() == Some("weights v2"), "it has the new one")?;
    ensure(
        clone.name() == named,
        "the clones of before keep the old one",
    )?;
    drop((again, slice));
    ensure(clone.name() == named, "a name stays while a clone does")?;
    // A name that is copied may go.
    let mut copied = *b"layer 3";
    let name = core::str::from_utf8(&copied).unwrap_or_default();
    let layer = clone
        .named(rig.target, name)
        .map_err(|refused| refused.error);
    let layer = layer.demand("a name that is copied")?;
    copied.fill(b'x');
    ensure(layer.name() == Some("layer 3"), "it is a copy")?;
    Ok(())
}

/// Whether what is written contains some text, without a buffer: matches over the bytes as they come.
struct Finds<'t> {
    text: &'t [u8],
    matched: usize,
    found: bool,
}

impl Write for Finds<'_> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        for byte in piece.bytes() {
            // Good enough for texts whose first byte does not come again.
            let goes_on = self.text.get(self.matched) == Some(&byte);
            let starts = self.text.first() == Some(&byte);
            self.matched = if goes_on {
                self.matched + 1
            } else {
                usize::from(starts)
            };
            self.found |= self.matched == self.text.len();
        }
        Ok(())
    }
}

pub(super) fn listed<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let directory = rig.target.directory().directory();
    let Some(directory) = directory else {
        return applies(false, "its target has no directory");
    };
    let names = || directory.iter().count();
    let before = names();
    let anonymous = rig.zeros(LEN)?;
    equal("names: an anonymous tensor has none", names(), before)?;
    let tensor = named(rig, "weights")?;
    let part = tensor.slice(4..10).demand("a slice")?;
    let part = part.named_static(rig.target, "bias");
    let part = part.map_err(|refused| refused.error).demand("a name")?;
    let clone = part.clone();
    equal("names", names(), before + 2)?;
    let storage = id(&tensor)?;
    let mut found = directory.find(storage);
    let first = found.next().demand("the first name of the storage")?;
    let second = found.next().demand("the second name of the storage")?;
    ensure(found.next().is_none(), "there is no third")?;
    drop(found);
    ensure(
        first.name() == "weights" && second.name() == "bias",
        "they are in order",
    )?;
    ensure(second.storage_id() == storage, "it says on what it is")?;
    equal("where it starts", second.offset(), 4)?;
    equal("its length", second.len(), 6)?;
    equal("bytes of its storage", second.storage_len(), LEN)?;
    ensure(second.space() == tensor.space(), "it says in what space")?;
    equal("holders", second.holders(), 3)?;
    let stream = stream()?;
    let ticket = tensor
        .try_begin(Access::Read, stream.id())
        .demand("a ticket")?;
    let held = directory.find(storage).next().demand("it is there still")?;
    ensure(held.in_flight() == (1, 0), "it says who has access")?;
    let error = tensor.try_fill(1).err().demand("a write under a device")?;
    let mut told = Finds {
        text: b"weights",
        matched: 0,
        found: false,
    };
    let written = write!(told, "{}", directory.explain(error));
    ensure(
        written.is_ok() && told.found,
        "an error is told with the name",
    )?;
    drop((ticket, part));
    equal("names: a clone keeps it", names(), before + 2)?;
    drop(clone);
    equal("names: the last clone is gone", names(), before + 1)?;
    drop((tensor, anonymous));
    equal("names: all are gone", names(), before)?;
    // Who has an entry has the name still.
    ensure(first.name() == "weights", "an entry keeps the name")?;
    Ok(())
}

pub(super) fn completions<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    ensure(
        rig.zeros(LEN)?.completions().is_none(),
        "what has no name counts none",
    )?;
    let tensor = named(rig, "logits")?;
    let (storage, clone) = (id(&tensor)?, tensor.clone());
    let done = tensor.completions().demand("its completions")?;
    let also = clone.completions().demand("those of a clone")?;
    equal("completions", done.count(), 0)?;
    done.wait_for(0).demand("a wait for none")?;
    let seen = |expected, seen| CompletionError::WouldBlock {
        storage,
        expected,
        seen,
    };
    refused("a look for one", done.try_wait_for(1), seen(1, 0))?;
    also.complete();
    also.complete();
    equal("completions, of all clones", done.count(), 2)?;
    done.wait_for(2).demand("a wait for what there is")?;
    done.wait_for_within(1, Duration::ZERO)
        .demand("a wait for less than there is")?;
    refused("a look for a third", done.try_wait_for(3), seen(3, 2))?;
    if rig.target.clock().tells_time() || is_alone::<T::Policy>() {
        let (expected, seen) = (3, 2);
        let late = if is_alone::<T::Policy>() {
            CompletionError::WouldDeadlock {
                storage,
                expected,
                seen,
            }
        } else {
            CompletionError::TimedOut {
                storage,
                expected,
                seen,
            }
        };
        refused(
            "a wait for a third",
            done.wait_for_within(3, Duration::ZERO),
            late,
        )?;
    }
    equal("what the count was", done.reset(), 2)?;
    equal("completions after a reset", also.count(), 0)?;
    // No access to the bytes is needed, and none had.
    let stream = stream()?;
    let ticket = tensor
        .try_begin(Access::Write, stream.id())
        .demand("a ticket")?;
    done.complete();
    done.wait_for(1).demand("a wait beside a device")?;
    drop(ticket);
    Ok(())
}

pub(super) fn reached<T: Target>(rig: &Rig<'_, T>) -> Outcome {
    let probe = Probe::claim()?;
    let tensor = named(rig, "logits")?;
    let done = tensor.completions().demand("its completions")?;
    let mut first = pin!(done.reached(1));
    let mut second = pin!(done.reached(2));
    ensure(
        poll(first.as_mut(), &probe, 0).is_pending(),
        "it waits for the first",
    )?;
    ensure(
        poll(second.as_mut(), &probe, 0).is_pending(),
        "it waits for the second",
    )?;
    done.complete();
    ensure(probe.woken(0), "who waits is woken")?;
    let wakes = probe.wakes();
    ensure(
        poll(first.as_mut(), &probe, 0).is_ready(),
        "the first is there",
    )?;
    ensure(
        poll(second.as_mut(), &probe, 0).is_pending(),
        "the second is not",
    )?;
    done.complete();
    ensure(probe.wakes() > wakes, "who waits on is woken again")?;
    ensure(
        poll(second.as_mut(), &probe, 0).is_ready(),
        "the second is there",
    )?;
    // Dropped at a poll, it leaves nothing that disturbs the others.
    {
        let mut third = pin!(done.reached(3));
        ensure(
            poll(third.as_mut(), &probe, 1).is_pending(),
            "it waits for the third",
        )?;
    }
    done.complete();
    equal("completions", done.count(), 3)?;
    Ok(())
}
