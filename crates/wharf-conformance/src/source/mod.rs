//! What every source of blocks does.

mod accounts;
mod blocks;
mod reset;

use core::alloc::Layout;

use wharf_source::{Block, BlockSource};
use wharf_sync::SyncPolicy;

use crate::check::{Demand, Session, ensure};
use crate::{Check, Failure, Outcome, Report, Subject, Tally, run};

/// What a source claims beyond the laws of [`BlockSource`]. The suite holds it to its claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceClaims {
    /// It vends blocks at all. A source that does not must refuse everything and count nothing.
    pub vends: bool,
    /// It can be exhausted with blocks of a few words, fewer than 100 000, and the suite may do so.
    pub bounded: bool,
    /// What came back is vended again. A source that gives everything back at once, and until then nothing, does not.
    pub reuses: bool,
    /// The block that came back last serves the next request of its shape.
    pub last_in_first_out: bool,
}

impl SourceClaims {
    /// Those of a `NullSource`.
    pub const NULL: Self = Self {
        vends: false,
        bounded: true,
        reuses: false,
        last_in_first_out: false,
    };
    /// Those of a `HeapSource`.
    pub const HEAP: Self = Self {
        vends: true,
        bounded: false,
        reuses: true,
        last_in_first_out: false,
    };
    /// Those of a pool.
    pub const POOL: Self = Self {
        vends: true,
        bounded: true,
        reuses: true,
        last_in_first_out: true,
    };
    /// Those of a `BumpSource` without an upstream.
    pub const BUMP: Self = Self {
        vends: true,
        bounded: true,
        reuses: false,
        last_in_first_out: false,
    };
}

struct Sample<'s> {
    source: Erased<'s>,
    claims: SourceClaims,
    /// The same source with its type known, on the way that its users take.
    typed: &'s dyn Fn() -> Outcome,
}

type Erased<'s> = &'s dyn BlockSource;

/// Holds a source to the laws of `wharf-source`. `P` is the policy that protects it, for the report.
///
/// Give it a fresh source of at least 2 KiB, with room for 16 shapes; one that does not
/// [reuse](SourceClaims::reuses) what came back needs 4 KiB. A bounded one is carved up afterwards.
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
    // Through `dyn`, so that an image holds the suite once and not once a source.
    let sample = Sample {
        source: &source,
        claims,
        typed: &|| blocks::typed(&source, claims),
    };
    run(
        Subject {
            policy,
            suite: "source",
            name,
        },
        &sample,
        &checks(),
        report,
    )
}

/// [`source`], for one that takes everything back at once: `reset` is called before each check, and is held to what
/// it promises. Give it a source of at least 2 KiB.
///
/// ```
/// use core::mem::MaybeUninit;
/// use wharf_conformance::{SourceClaims, source_with_reset};
/// use wharf_source::BumpSource;
/// use wharf_sync::Unsync;
///
/// let mut scratch = [MaybeUninit::uninit(); 2048];
/// let mut mine = BumpSource::new(&mut scratch);
/// let claims = SourceClaims::BUMP;
/// let reset = |mine: &mut BumpSource<'_>| mine.reset();
/// assert!(source_with_reset::<Unsync, _>("mine", &mut mine, reset, claims, &mut ()).is_clean());
/// ```
pub fn source_with_reset<P: SyncPolicy, S: BlockSource>(
    name: &'static str,
    source: &mut S,
    reset: fn(&mut S),
    claims: SourceClaims,
    report: &mut dyn Report,
) -> Tally {
    let policy = P::NAME;
    let mut session = Session::begin(
        Subject {
            policy,
            suite: "source",
            name,
        },
        report,
    );
    for index in 0..CHECKS {
        reset(source);
        let handle: &S = source;
        let sample = Sample {
            source: handle,
            claims,
            typed: &|| blocks::typed(&handle, claims),
        };
        // Made anew each time: they are for a sample that ends before the next reset.
        if let Some(check) = checks().get(index) {
            session.check(check.name, &(check.run)(&sample));
        }
    }
    for check in reset::checks() {
        reset(source);
        session.check(check.name, &(check.run)(source, reset));
    }
    session.end()
}

const CHECKS: usize = 15;

fn checks<'s>() -> [Check<Sample<'s>>; CHECKS] {
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
            run: blocks::no_bytes,
        },
        Check {
            name: "who vends nothing refuses everything and counts nothing",
            run: accounts::refuses_everything,
        },
        Check {
            name: "blocks are aligned",
            run: blocks::aligned,
        },
        Check {
            name: "blocks do not overlap",
            run: blocks::apart,
        },
        Check {
            name: "a block keeps its bytes while others come and go",
            run: blocks::undisturbed,
        },
        Check {
            name: "everything returns",
            run: accounts::everything_returns,
        },
        Check {
            name: "last in, first out",
            run: blocks::last_in_first_out,
        },
        Check {
            name: "owned values are dropped once",
            run: blocks::owned_values,
        },
        Check {
            name: "a block is taken apart and put together",
            run: blocks::raw_round_trip,
        },
        Check {
            name: "the census adds up",
            run: accounts::census,
        },
        Check {
            name: "a request beyond all memory is refused by its number",
            run: accounts::beyond,
        },
        Check {
            name: "asking why counts nothing",
            run: accounts::asking_why,
        },
        Check {
            name: "it is the same with its type known",
            run: |sample| (sample.typed)(),
        },
        Check {
            name: "exhaustion is a value",
            run: accounts::exhaustion,
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

/// The layout with the most bytes that there is.
const HUGE: Layout = layout(isize::MAX.unsigned_abs(), 1);

const VENDS_NOTHING: &str = "it vends nothing";

impl<'s> Sample<'s> {
    #[inline(never)]
    fn block(&self, layout: Layout, what: &'static str) -> Result<Block<Erased<'s>>, Failure> {
        Block::new(self.source, layout).demand(what)
    }

    fn counts(&self) -> bool {
        self.source.census().unit != 0
    }

    #[inline(never)]
    fn all(&self) -> Result<[Option<Block<Erased<'s>>>; LAYOUTS.len()], Failure> {
        let mut blocks = [const { None }; LAYOUTS.len()];
        for (place, layout) in blocks.iter_mut().zip(LAYOUTS) {
            *place = Some(self.block(layout, "a small block")?);
        }
        Ok(blocks)
    }
}
