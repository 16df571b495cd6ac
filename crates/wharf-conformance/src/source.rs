//! What every source of blocks does.
#![allow(
    unsafe_code,
    reason = "reads bytes that it has written, and puts blocks together again"
)]

use core::alloc::Layout;
use core::cell::Cell;

use wharf_source::{Block, BlockSource, Owned, SourceError};
use wharf_sync::SyncPolicy;

use crate::check::{Demand, applies, ensure, equal, refused};
use crate::{Check, Failure, Outcome, Report, Subject, Tally, run};

/// What a source claims beyond the laws of [`BlockSource`]. The suite holds it to its claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceClaims {
    /// It vends blocks at all. A source that does not must refuse everything and count nothing.
    pub vends: bool,
    /// It can be exhausted with blocks of a few words, fewer than 100 000, and the suite may do so.
    pub bounded: bool,
    /// The block that came back last serves the next request of its shape.
    pub last_in_first_out: bool,
}

impl SourceClaims {
    /// Those of a `NullSource`.
    pub const NULL: Self = Self {
        vends: false,
        bounded: true,
        last_in_first_out: false,
    };
    /// Those of a `HeapSource`.
    pub const HEAP: Self = Self {
        vends: true,
        bounded: false,
        last_in_first_out: false,
    };
    /// Those of a pool.
    pub const POOL: Self = Self {
        vends: true,
        bounded: true,
        last_in_first_out: true,
    };
}

struct Sample<S> {
    source: S,
    claims: SourceClaims,
}

/// Holds a source to the laws of `wharf-source`. `P` is the policy that protects it, for the report.
///
/// Give it a fresh source of at least 2 KiB, with room for 16 shapes; a bounded one is carved up
/// afterwards.
///
/// ```
/// use core::mem::MaybeUninit;
/// use wharf_conformance::{SourceClaims, source};
/// use wharf_source::{PoolSource, SizeClass};
/// use wharf_sync::Unsync;
///
/// let mut slab = [MaybeUninit::uninit(); 2048];
/// let mut classes = [SizeClass::EMPTY; 16];
/// let pool = PoolSource::<Unsync>::new(&mut slab, &mut classes);
/// assert!(source::<Unsync, _>("mine", &pool, SourceClaims::POOL, &mut ()).is_clean());
/// ```
pub fn source<P: SyncPolicy, S: BlockSource + Clone>(
    name: &'static str,
    source: S,
    claims: SourceClaims,
    report: &mut dyn Report,
) -> Tally {
    let policy = P::NAME;
    let sample = Sample { source, claims };
    run(Subject { policy, name }, &sample, &checks(), report)
}

fn checks<S: BlockSource + Clone>() -> [Check<Sample<S>>; 14] {
    [
        Check {
            name: "it has a name",
            run: |sample| {
                let named = !sample.source.name().is_empty();
                Ok(ensure(named, "the name has letters")?)
            },
        },
        Check {
            name: "no bytes take no memory",
            run: no_bytes,
        },
        Check {
            name: "who vends nothing refuses everything and counts nothing",
            run: refuses_everything,
        },
        Check {
            name: "blocks are aligned",
            run: aligned,
        },
        Check {
            name: "blocks do not overlap",
            run: apart,
        },
        Check {
            name: "a block keeps its bytes while others come and go",
            run: undisturbed,
        },
        Check {
            name: "everything returns",
            run: everything_returns,
        },
        Check {
            name: "last in, first out",
            run: last_in_first_out,
        },
        Check {
            name: "owned values are dropped once",
            run: owned_values,
        },
        Check {
            name: "a block is taken apart and put together",
            run: raw_round_trip,
        },
        Check {
            name: "the census adds up",
            run: census,
        },
        Check {
            name: "a request beyond all memory is refused by its number",
            run: beyond,
        },
        Check {
            name: "asking why counts nothing",
            run: asking_why,
        },
        Check {
            name: "exhaustion is a value",
            run: exhaustion,
        },
    ]
}

const fn layout(size: usize, align: usize) -> Layout {
    match Layout::from_size_align(size, align) {
        Ok(layout) => layout,
        Err(_) => Layout::new::<u8>(),
    }
}

/// Small and odd sizes, usual and large alignments: 8 shapes, 500 bytes.
const LAYOUTS: [Layout; 8] = [
    layout(1, 1),
    layout(3, 2),
    layout(8, 8),
    layout(13, 1),
    layout(24, 4),
    layout(40, 16),
    layout(100, 8),
    layout(128, 64),
];

const SMALL: Layout = layout(24, 8);

/// A source that claims a bound is given up on after so many blocks.
const MOST_LINKS: usize = 100_000;

/// The layout with the most bytes that there is.
const HUGE: Layout = layout(isize::MAX.unsigned_abs(), 1);

const VENDS_NOTHING: &str = "it vends nothing";

impl<S: BlockSource + Clone> Sample<S> {
    fn block(&self, layout: Layout, what: &'static str) -> Result<Block<S>, Failure> {
        Block::new(self.source.clone(), layout).demand(what)
    }

    fn counts(&self) -> bool {
        self.source.census().unit != 0
    }

    fn all(&self) -> Result<[Option<Block<S>>; LAYOUTS.len()], Failure> {
        let mut blocks = [const { None }; LAYOUTS.len()];
        for (place, layout) in blocks.iter_mut().zip(LAYOUTS) {
            *place = Some(self.block(layout, "a small block")?);
        }
        Ok(blocks)
    }
}

fn address<S: BlockSource>(block: &Block<S>) -> usize {
    block.as_ptr().addr().get()
}

fn stamp<S: BlockSource>(block: &mut Block<S>, seed: u8) {
    for (byte, value) in block.as_uninit_mut().iter_mut().zip(pattern(seed)) {
        byte.write(value);
    }
}

/// # Safety
/// The block was stamped.
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

fn no_bytes<S: BlockSource + Clone>(sample: &Sample<S>) -> Outcome {
    let before = sample.source.census();
    for align in [1, 8, 64, 4096] {
        let mut block = sample.block(layout(0, align), "a block without bytes")?;
        equal("its misalignment", address(&block) % align, 0)?;
        equal("its length", block.as_uninit_mut().len(), 0)?;
    }
    ensure(sample.source.census() == before, "the census stays")?;
    Ok(())
}

fn refuses_everything<S: BlockSource + Clone>(sample: &Sample<S>) -> Outcome {
    applies(!sample.claims.vends, "it vends blocks")?;
    let before = sample.source.census();
    for layout in LAYOUTS {
        let answer = Block::new(sample.source.clone(), layout);
        let requested = layout.size();
        refused("a block", answer, SourceError::Null { requested })?;
    }
    let counted = sample.source.census() != before || sample.counts();
    ensure(!counted, "it counts nothing")?;
    Ok(())
}

fn aligned<S: BlockSource + Clone>(sample: &Sample<S>) -> Outcome {
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

fn apart<S: BlockSource + Clone>(sample: &Sample<S>) -> Outcome {
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

fn undisturbed<S: BlockSource + Clone>(sample: &Sample<S>) -> Outcome {
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

fn everything_returns<S: BlockSource + Clone>(sample: &Sample<S>) -> Outcome {
    applies(sample.claims.vends, VENDS_NOTHING)?;
    drop(sample.all()?);
    let after_one = sample.source.census();
    for _ in 0..32 {
        drop(sample.all()?);
    }
    let census = sample.source.census();
    equal("units in use", census.in_use, after_one.in_use)?;
    equal("most units in use", census.peak, after_one.peak)?;
    equal("refusals", census.refused, after_one.refused)?;
    Ok(())
}

fn last_in_first_out<S: BlockSource + Clone>(sample: &Sample<S>) -> Outcome {
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

fn owned_values<S: BlockSource + Clone>(sample: &Sample<S>) -> Outcome {
    struct Dropped<'c>(&'c Cell<u32>);
    impl Drop for Dropped<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    let drops = Cell::new(0);
    let owned = Owned::new(sample.source.clone(), Dropped(&drops));
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
    let taken = Owned::new(sample.source.clone(), Dropped(&drops))
        .map_err(|(error, _)| error)
        .demand("a small value")
        .map(Owned::into_inner)?;
    equal("drops while it is taken out", drops.get(), 1)?;
    drop(taken);
    equal("drops after that", drops.get(), 2)?;
    Ok(())
}

fn raw_round_trip<S: BlockSource + Clone>(sample: &Sample<S>) -> Outcome {
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

fn census<S: BlockSource + Clone>(sample: &Sample<S>) -> Outcome {
    applies(sample.counts(), "it counts nothing")?;
    let before = sample.source.census();
    let held = sample.all()?;
    let bytes: usize = held
        .iter()
        .flatten()
        .map(|block| block.layout().size())
        .sum();
    let during = sample.source.census();
    ensure(
        during.bytes_in_use() >= bytes,
        "the bytes in use are at least those of the live blocks",
    )?;
    ensure(
        during.peak >= during.in_use,
        "the peak is never below the use",
    )?;
    let within = during.capacity == 0 || during.peak <= during.capacity;
    ensure(within, "the peak is within the capacity")?;
    drop(held);
    let after = sample.source.census();
    ensure(after.in_use <= during.in_use, "releasing takes no units")?;
    ensure(after.peak >= during.peak, "a peak never falls")?;
    equal("the capacity", after.capacity, before.capacity)?;
    equal("refusals", after.refused, before.refused)?;
    Ok(())
}

/// The refusal of a request is counted once, in the bytes that were asked for.
fn counted<S: BlockSource + Clone>(
    sample: &Sample<S>,
    request: Layout,
) -> Result<Option<SourceError>, Failure> {
    let before = sample.source.census();
    let Err(error) = Block::new(sample.source.clone(), request) else {
        return Ok(None);
    };
    equal("the bytes it names", error.requested(), request.size())?;
    let after = sample.source.census();
    if before.unit != 0 {
        equal("refusals", after.refused, before.refused.saturating_add(1))?;
        let largest = before.largest_refused.max(request.size());
        equal("the largest refused", after.largest_refused, largest)?;
    }
    equal("units in use", after.in_use, before.in_use)?;
    Ok(Some(error))
}

fn beyond<S: BlockSource + Clone>(sample: &Sample<S>) -> Outcome {
    let requested = HUGE.size();
    let error = counted(sample, HUGE)?.demand("such a request is refused")?;
    let capacity = sample.source.census().capacity;
    let expected = match sample.claims {
        SourceClaims { vends: false, .. } => SourceError::Null { requested },
        _ if capacity == 0 => SourceError::HeapExhausted { requested },
        _ => SourceError::TooLarge {
            requested,
            capacity,
        },
    };
    refused("the refusal", Err::<(), _>(error), expected)?;
    if sample.claims.vends {
        drop(sample.block(SMALL, "a small block after that")?);
    }
    Ok(())
}

fn asking_why<S: BlockSource + Clone>(sample: &Sample<S>) -> Outcome {
    let before = sample.source.census();
    for request in [SMALL, HUGE] {
        let requested = sample.source.refusal(request).requested();
        equal("the bytes it names", requested, request.size())?;
    }
    ensure(sample.source.census() == before, "the census stays")?;
    Ok(())
}

/// A block that owns the one before it: any number of blocks is held without a place to hold them.
struct Chain<S: BlockSource> {
    before: Option<Owned<Self, S>>,
}

/// Takes links until one is refused; tells how many there were.
fn fill<S: BlockSource + Clone>(sample: &Sample<S>) -> (Option<Owned<Chain<S>, S>>, usize) {
    let mut chain = None;
    for links in 0..MOST_LINKS {
        let link = Chain { before: chain };
        match Owned::new(sample.source.clone(), link) {
            Ok(owned) => chain = Some(owned),
            Err((_, link)) => return (link.before, links),
        }
    }
    (chain, MOST_LINKS)
}

/// Lets `links` go, one by one: a chain that drops itself drops recursively.
fn release<S: BlockSource>(chain: &mut Option<Owned<Chain<S>, S>>, links: usize) {
    for _ in 0..links {
        let Some(mut link) = chain.take() else {
            return;
        };
        *chain = link.before.take();
    }
}

fn exhaustion<S: BlockSource + Clone>(sample: &Sample<S>) -> Outcome {
    applies(sample.claims.vends, VENDS_NOTHING)?;
    applies(sample.claims.bounded, "it claims no bound")?;
    let before = sample.source.census();
    let (mut chain, links) = fill(sample);
    let outcome = exhausted(sample, before.refused, &mut chain, links);
    release(&mut chain, usize::MAX);
    outcome?;
    let (mut chain, again) = fill(sample);
    release(&mut chain, usize::MAX);
    equal("blocks, once all have come back", again, links)?;
    Ok(())
}

fn exhausted<S: BlockSource + Clone>(
    sample: &Sample<S>,
    refused_before: usize,
    chain: &mut Option<Owned<Chain<S>, S>>,
    links: usize,
) -> Outcome {
    ensure(links > 0, "at least one block fits")?;
    let request = Layout::new::<Chain<S>>();
    let census = sample.source.census();
    if census.unit != 0 {
        let told = refused_before.saturating_add(1);
        equal("refusals", census.refused, told)?;
    }
    let within = census.capacity == 0 || census.in_use <= census.capacity;
    ensure(within, "no more is in use than there is")?;
    let error = counted(sample, request)?.demand("the next one is refused, too")?;
    let exhausted = matches!(error, SourceError::Exhausted { .. });
    if !exhausted {
        return Err(Failure::refused("exhaustion is told by its name", error.into()).into());
    }
    release(chain, 1);
    drop(sample.block(request, "what came back is vended again")?);
    Ok(())
}
