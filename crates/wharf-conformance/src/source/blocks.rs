//! What is vended: where, apart from everything else, and whose.
#![allow(
    unsafe_code,
    reason = "reads bytes that it has written, and puts blocks together again"
)]

use core::cell::Cell;

use wharf_source::{Block, BlockSource, Owned, SourceError};

use super::{HUGE, LAYOUTS, SMALL, Sample, SourceClaims, VENDS_NOTHING, layout};
use crate::check::{Demand, applies, ensure, equal, refused};
use crate::{Failure, Outcome};

fn address<S: BlockSource>(block: &Block<S>) -> usize {
    block.as_ptr().addr().get()
}

#[inline(never)]
fn stamp<S: BlockSource>(block: &mut Block<S>, seed: u8) {
    for (byte, value) in block.as_uninit_mut().iter_mut().zip(pattern(seed)) {
        byte.write(value);
    }
}

/// # Safety
/// The block was stamped.
#[inline(never)]
unsafe fn verify<S: BlockSource>(block: &mut Block<S>, seed: u8) -> Result<(), Failure> {
    for (byte, value) in block.as_uninit_mut().iter_mut().zip(pattern(seed)) {
        // SAFETY: every byte was written by `stamp`.
        let found = unsafe { byte.assume_init_read() };
        equal("a byte that only its owner wrote", found, value)?;
    }
    Ok(())
}

fn pattern(seed: u8) -> impl Iterator<Item = u8> {
    (0_u8..=250)
        .cycle()
        .map(move |byte| byte.wrapping_mul(3).wrapping_add(seed.wrapping_mul(67)))
}

pub(super) fn no_bytes(sample: &Sample<'_>) -> Outcome {
    let before = sample.source.census();
    for align in [1, 8, 64, 4096] {
        let mut block = sample.block(layout(0, align), "a block without bytes")?;
        equal("its misalignment", address(&block) % align, 0)?;
        equal("its length", block.as_uninit_mut().len(), 0)?;
    }
    ensure(sample.source.census() == before, "the census stays")?;
    Ok(())
}

pub(super) fn aligned(sample: &Sample<'_>) -> Outcome {
    applies(sample.claims.vends, VENDS_NOTHING)?;
    // Each between two others, so that no luck aligns it.
    let held = sample.all()?;
    for layout in LAYOUTS {
        let block = sample.block(layout, "a small block")?;
        equal("its misalignment", address(&block) % layout.align(), 0)?;
        ensure(block.layout() == layout, "it knows its layout")?;
    }
    for block in held.iter().flatten() {
        let align = block.layout().align();
        equal("its misalignment", address(block) % align, 0)?;
    }
    Ok(())
}

pub(super) fn apart(sample: &Sample<'_>) -> Outcome {
    applies(sample.claims.vends, VENDS_NOTHING)?;
    let mut blocks = sample.all()?;
    for (seed, block) in (0..).zip(blocks.iter_mut().flatten()) {
        stamp(block, seed);
    }
    for (seed, block) in (0..).zip(blocks.iter_mut().flatten()) {
        // SAFETY: stamped just above.
        unsafe { verify(block, seed)? };
    }
    Ok(())
}

pub(super) fn undisturbed(sample: &Sample<'_>) -> Outcome {
    applies(sample.claims.vends, VENDS_NOTHING)?;
    let mut kept = sample.block(SMALL, "a small block")?;
    stamp(&mut kept, 11);
    for seed in 0..8 {
        let mut passing = [
            sample.block(SMALL, "a small block")?,
            sample.block(SMALL, "a small block")?,
        ];
        for block in &mut passing {
            stamp(block, seed);
        }
    }
    // SAFETY: stamped before the others came.
    unsafe { verify(&mut kept, 11)? };
    Ok(())
}

pub(super) fn last_in_first_out(sample: &Sample<'_>) -> Outcome {
    applies(sample.claims.last_in_first_out, "it claims no order")?;
    let take = || sample.block(SMALL, "a small block");
    let (first, second, third) = (take()?, take()?, take()?);
    let order = [&first, &second, &third].map(address);
    drop((first, second, third));
    let (last, middle, oldest) = (take()?, take()?, take()?);
    let found = [&oldest, &middle, &last].map(address);
    for (found, expected) in found.into_iter().zip(order) {
        equal("the address that comes again", found, expected)?;
    }
    Ok(())
}

pub(super) fn owned_values(sample: &Sample<'_>) -> Outcome {
    struct Dropped<'c>(&'c Cell<u32>);
    impl Drop for Dropped<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    let drops = Cell::new(0);
    let owned = Owned::new(sample.source, Dropped(&drops));
    if !sample.claims.vends {
        let came_back = matches!(owned, Err((SourceError::Null { .. }, _)));
        ensure(came_back, "the value comes back with the refusal")?;
        equal("drops while it is refused", drops.get(), 0)?;
        return Ok(());
    }
    let owned = owned.map_err(|(error, _)| error).demand("a small value")?;
    equal("drops while it is owned", drops.get(), 0)?;
    drop(owned);
    equal("drops after its owner's", drops.get(), 1)?;
    let before = sample.source.census();
    // More often than there are blocks of this shape to fall back on.
    for before in 1..17 {
        let taken = Owned::new(sample.source, Dropped(&drops))
            .map_err(|(error, _)| error)
            .demand("a small value")
            .map(Owned::into_inner)?;
        equal("drops while it is taken out", drops.get(), before)?;
        drop(taken);
        equal("drops after that", drops.get(), before + 1)?;
    }
    if sample.claims.reuses {
        let same = sample.source.census() == before;
        ensure(same, "a block whose value was taken out is used again")?;
    }
    Ok(())
}

pub(super) fn raw_round_trip(sample: &Sample<'_>) -> Outcome {
    applies(sample.claims.vends, VENDS_NOTHING)?;
    let mut block = sample.block(SMALL, "a small block")?;
    stamp(&mut block, 5);
    let before = sample.source.census();
    let (ptr, layout, source) = block.into_raw();
    // SAFETY: the three parts of the block that was just taken apart, put together once.
    let mut block = unsafe { Block::from_raw(ptr, layout, source) };
    ensure(sample.source.census() == before, "the census stays")?;
    // SAFETY: stamped before it was taken apart.
    unsafe { verify(&mut block, 5)? };
    Ok(())
}

/// Vends, takes back and refuses through the source's own handle.
pub(super) fn typed<S: BlockSource + Clone>(source: &S, claims: SourceClaims) -> Outcome {
    let block = Block::new(source.clone(), SMALL);
    if claims.vends {
        let mut block = block.demand("a small block")?;
        stamp(&mut block, 21);
        let moved = source.clone();
        let mut other = Block::new(moved, SMALL).demand("another one")?;
        stamp(&mut other, 22);
        // SAFETY: both were just stamped.
        unsafe {
            verify(&mut block, 21)?;
            verify(&mut other, 22)?;
        }
    } else {
        let requested = SMALL.size();
        refused("a block", block, SourceError::Null { requested })?;
    }
    let refusal = Block::new(source.clone(), HUGE).err();
    let requested = refusal.demand("a huge block is refused")?.requested();
    equal("the bytes it names", requested, HUGE.size())?;
    Ok(())
}
