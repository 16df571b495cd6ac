//! Arrays against `Vec`, over every source and under every policy, while requests are refused, and values
//! count how many of them there are.

mod common;

use common::{Citizen, Ledger, Population, Slab};

use proptest::prelude::*;
use wharf_source::{
    BlockArray, BlockSource, BumpSource, FaultSource, InsertError, PoolSource, SizeClass,
    SourceError, StaticPoolSource,
};
use wharf_sync::{SyncPolicy, Unsync};

#[derive(Clone, Debug)]
enum Op {
    Push,
    FillSlot,
    AbandonSlot,
    Pop,
    Insert(usize),
    Remove(usize),
    SwapRemove(usize),
    Truncate(usize),
    Reserve(usize),
    ReserveExact(usize),
    Extend(usize, bool),
    ExtendFromSelf(usize),
    Reverse,
    Clear,
    /// Takes so many from the front and from the back, and begins anew.
    TakeApart(usize, usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => Just(Op::Push),
        3 => Just(Op::FillSlot),
        1 => Just(Op::AbandonSlot),
        3 => Just(Op::Pop),
        2 => (0..40usize).prop_map(Op::Insert),
        2 => (0..40usize).prop_map(Op::Remove),
        2 => (0..40usize).prop_map(Op::SwapRemove),
        1 => (0..40usize).prop_map(Op::Truncate),
        1 => prop_oneof![0..50usize, Just(usize::MAX / 8 + 2), any::<usize>()].prop_map(Op::Reserve),
        1 => prop_oneof![0..50usize, any::<usize>()].prop_map(Op::ReserveExact),
        2 => (0..12usize, any::<bool>()).prop_map(|(n, exact)| Op::Extend(n, exact)),
        2 => (0..12usize).prop_map(Op::ExtendFromSelf),
        1 => Just(Op::Reverse),
        1 => Just(Op::Clear),
        1 => (0..20usize, 0..20usize).prop_map(|(front, back)| Op::TakeApart(front, back)),
    ];
    prop::collection::vec(op, 1..80)
}

/// Whether this refusal may be: the source was told to, or has little, or nobody has so much.
fn plausible(error: SourceError) -> bool {
    match error {
        SourceError::Injected { .. } | SourceError::Exhausted { .. } => true,
        SourceError::TooLarge {
            requested,
            capacity,
        } => requested > capacity,
        SourceError::Overflow { count, size } => count
            .checked_mul(size)
            .is_none_or(|bytes| bytes > isize::MAX as usize),
        _ => error.requested() > 1 << 40,
    }
}

fn run<S: BlockSource + Copy>(source: S, ops: Vec<Op>) -> Result<(), TestCaseError> {
    let people = Population::default();
    let mut next = 0u32;
    let mut born = || {
        next += 1;
        people.born(next)
    };
    let mut model: Vec<u32> = Vec::new();
    let mut array = BlockArray::<Citizen<'_>, S>::new(source);
    for op in ops {
        let (capacity, address) = (array.capacity(), array.as_ptr());
        let mut refused = None;
        match op {
            Op::Push => {
                let value = born();
                let id = value.id();
                match array.push(value) {
                    Ok(()) => model.push(id),
                    Err((error, value)) => {
                        prop_assert_eq!(value.id(), id);
                        refused = Some(error);
                    }
                }
            }
            Op::FillSlot => match array.push_slot() {
                Ok(slot) => {
                    let value = born();
                    model.push(value.id());
                    slot.write(value);
                }
                Err(error) => refused = Some(error),
            },
            Op::AbandonSlot => match array.push_slot() {
                Ok(_) => {}
                Err(error) => refused = Some(error),
            },
            Op::Pop => prop_assert_eq!(array.pop().map(|value| value.id()), model.pop()),
            Op::Insert(at) => {
                let value = born();
                let id = value.id();
                match array.insert(at, value) {
                    Ok(()) => model.insert(at, id),
                    Err((InsertError::Refused(error), _)) => refused = Some(error),
                    Err((InsertError::OutOfBounds { index, len }, _)) => {
                        prop_assert!(index == at && len == model.len() && at > len);
                    }
                    Err((other, _)) => unreachable!("{other}"),
                }
            }
            Op::Remove(at) => {
                let expected = (at < model.len()).then(|| model.remove(at));
                prop_assert_eq!(array.remove(at).map(|value| value.id()), expected);
            }
            Op::SwapRemove(at) => {
                let expected = (at < model.len()).then(|| model.swap_remove(at));
                prop_assert_eq!(array.swap_remove(at).map(|value| value.id()), expected);
            }
            Op::Truncate(len) => {
                array.truncate(len);
                model.truncate(len);
            }
            Op::Reserve(more) => match array.try_reserve(more) {
                Ok(()) => prop_assert!(array.capacity() - array.len() >= more),
                Err(error) => refused = Some(error),
            },
            Op::ReserveExact(more) => match array.try_reserve_exact(more) {
                Ok(()) => {
                    prop_assert!(array.capacity() == capacity.max(array.len() + more));
                }
                Err(error) => refused = Some(error),
            },
            Op::Extend(count, exact) => {
                let values: Vec<_> = (0..count).map(|_| born()).collect();
                let ids: Vec<_> = values.iter().map(Citizen::id).collect();
                let before = array.len();
                let mut values = values.into_iter();
                let outcome = if exact {
                    array.try_extend(values.by_ref())
                } else {
                    array.try_extend(values.by_ref().filter(|_| true))
                };
                let appended = array.len() - before;
                model.extend(&ids[..appended]);
                if let Err((error, value)) = outcome {
                    prop_assert!(plausible(error));
                    prop_assert_eq!(value.id(), ids[appended]);
                    prop_assert_eq!(values.len(), count - appended - 1);
                    prop_assert!(!exact || appended == 0);
                } else {
                    prop_assert_eq!(appended, count);
                }
            }
            Op::ExtendFromSelf(count) => {
                let some: Vec<_> = array.iter().take(count).cloned().collect();
                match array.extend_from_slice(&some) {
                    Ok(()) => model.extend(some.iter().map(Citizen::id)),
                    Err(error) => refused = Some(error),
                }
            }
            Op::Reverse => {
                array.reverse();
                model.reverse();
            }
            Op::Clear => {
                array.clear();
                model.clear();
            }
            Op::TakeApart(front, back) => {
                let old = core::mem::replace(&mut array, BlockArray::new(source));
                let (mut elements, mut expected) =
                    (old.into_iter(), core::mem::take(&mut model).into_iter());
                for _ in 0..front {
                    prop_assert_eq!(elements.next().map(|value| value.id()), expected.next());
                }
                for _ in 0..back {
                    let last = elements.next_back();
                    prop_assert_eq!(last.map(|value| value.id()), expected.next_back());
                }
                prop_assert_eq!(elements.len(), expected.len());
            }
        }
        if let Some(error) = refused {
            prop_assert!(plausible(error), "{error}");
            prop_assert_eq!((array.capacity(), array.as_ptr()), (capacity, address));
        }
        prop_assert!(array.iter().map(Citizen::id).eq(model.iter().copied()));
        prop_assert_eq!(people.count(), isize::try_from(model.len()).unwrap());
    }
    drop(array);
    prop_assert_eq!(people.count(), 0);
    Ok(())
}

proptest! {
    #[test]
    fn over_a_heap_that_refuses_every_so_often(every in 0..6u64, ops in ops()) {
        let ledger = Ledger::default();
        let source = FaultSource::<_>::new(&ledger);
        source.fail_every(every);
        run(&source, ops.clone())?;
        source.fail_above(300);
        run(&source, ops)?;
        prop_assert!(ledger.is_balanced());
    }

    #[test]
    fn over_a_bump_source(len in 0..4096usize, ops in ops()) {
        let mut slab = Box::new(Slab::<4096>::new());
        let mut source = BumpSource::new(&mut slab.0[..len]);
        run(&source, ops.clone())?;
        source.reset();
        run(&source, ops)?;
    }

    #[test]
    fn over_a_bump_source_that_spills(len in 0..1024usize, every in 0..6u64, ops in ops()) {
        let mut slab = Box::new(Slab::<1024>::new());
        let ledger = Ledger::default();
        let upstream = FaultSource::<_>::new(&ledger);
        upstream.fail_every(every);
        run(&BumpSource::with_upstream(&mut slab.0[..len], &upstream), ops)?;
        prop_assert!(ledger.is_balanced());
    }
}

fn over_pools<P: SyncPolicy>(len: usize, every: u64, ops: Vec<Op>) -> Result<(), TestCaseError> {
    let mut slab = Box::new(Slab::<4096>::new());
    let mut table: [SizeClass; 6] = [const { SizeClass::EMPTY }; 6];
    let pool = PoolSource::<P>::new(&mut slab.0[..len], &mut table);
    let source = FaultSource::<_, P>::new(&pool);
    source.fail_every(every);
    run(&source, ops)?;
    prop_assert_eq!(pool.foreign(), 0);
    prop_assert!(pool.used() <= len);
    Ok(())
}

macro_rules! over_pools {
    ($policy:ty, $borrowed:ident, $inline:ident) => {
        proptest! {
            #[test]
            fn $borrowed(len in 0..4096usize, every in 0..6u64, ops in ops()) {
                over_pools::<$policy>(len, every, ops)?;
            }

            #[test]
            fn $inline(ops in ops()) {
                let pool = Box::new(StaticPoolSource::<$policy, 2048, 8>::new());
                run(&*pool, ops)?;
                prop_assert_eq!(pool.foreign(), 0);
            }
        }
    };
}
over_pools!(Unsync, unsync_pool, unsync_static_pool);
#[cfg(feature = "critical-section")]
over_pools!(wharf_sync::Critical, critical_pool, critical_static_pool);
#[cfg(feature = "std")]
over_pools!(wharf_sync::Blocking, blocking_pool, blocking_static_pool);
