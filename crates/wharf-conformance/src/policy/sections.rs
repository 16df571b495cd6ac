//! What a policy's lock, counter and word do.

use core::cell::Cell;

use wharf_sync::{Count, Lock, SyncPolicy, Word};

use super::{Nesting, Policy};
use crate::Outcome;
use crate::check::{applies, ensure, equal};

pub(super) fn lock_lends<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let mut lock = P::Lock::new(Cell::new(3_u32));
    let before = lock.with(|value| value.replace(4));
    equal("what a section returns", before, 3)?;
    equal("what the next one finds", lock.with(Cell::get), 4)?;
    lock.get_mut().set(5);
    equal("what `get_mut` left", lock.with(Cell::get), 5)?;
    Ok(())
}

pub(super) fn sections_nest<P: SyncPolicy>(policy: &Policy<P>) -> Outcome {
    let nest = policy.nesting == Nesting::Allowed;
    applies(nest, "entering a section again is a deadlock")?;
    let lock = P::Lock::new(Cell::new(1_u32));
    let seen = lock.with(|outer| {
        outer.set(2);
        lock.with(|inner| inner.set(inner.get() + 3));
        outer.get()
    });
    Ok(equal("what the outer section finds", seen, 5)?)
}

pub(super) fn last_to_one<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let count = P::Count::new(1);
    for _ in 0..3 {
        count.increment();
    }
    equal("holders", count.get(), 4)?;
    for _ in 0..3 {
        ensure(!count.decrement(), "others hold it")?;
    }
    ensure(count.decrement(), "that was the last")?;
    Ok(())
}

pub(super) fn only_holder<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let count = P::Count::new(1);
    ensure(count.is_unique(), "one holder is the only one")?;
    count.increment();
    ensure(!count.is_unique(), "one of two is not")?;
    ensure(!count.decrement(), "one is left")?;
    ensure(count.is_unique(), "it is the only one again")?;
    Ok(())
}

pub(super) fn count_sticks<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let limit = <P::Count as Count>::LIMIT;
    let count = P::Count::new(limit - 1);
    for _ in 0..3 {
        count.increment();
    }
    for _ in 0..64 {
        ensure(!count.decrement(), "a saturated count has no last holder")?;
        ensure(!count.is_unique(), "a saturated count has no only holder")?;
    }
    ensure(count.get() >= limit, "it stays saturated")?;
    Ok(())
}

pub(super) fn word_moves<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let word = P::Word::new(7);
    equal("its first value", word.load(), 7)?;
    let before = word.update(|value| Some(value ^ u32::MAX));
    ensure(before == Ok(7), "an update answers what it replaced")?;
    equal("its new value", word.load(), u32::MAX - 7)?;
    Ok(())
}

pub(super) fn word_refuses<P: SyncPolicy>(_: &Policy<P>) -> Outcome {
    let word = P::Word::new(7);
    let odd = |value: u32| value.is_multiple_of(2).then_some(value + 1);
    ensure(word.update(odd) == Err(7), "a refusal answers the value")?;
    equal("the value", word.load(), 7)?;
    Ok(())
}
