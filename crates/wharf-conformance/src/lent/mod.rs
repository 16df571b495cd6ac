//! What memory does that exists already, and is lent or adopted instead of vended.

mod moving;
mod piece;

use wharf_backend::{AllocError, BackendRef, Place, SegmentMut, State};
use wharf_sync::SyncPolicy;

use self::piece::Piece;
use crate::check::{Demand, applies, ensure, equal};
use crate::{Check, Failure, Outcome, Report, Subject, Tally, run};

/// What is claimed of memory that is lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LentClaims {
    /// One segment is out at a time: a second one is refused as exhaustion. Of what is adopted, there are as many as values.
    pub once: bool,
    /// Bytes that move together: a range that cuts such a word is refused. One, for everything but registers.
    pub word: usize,
}

impl LentClaims {
    /// Those of borrowed bytes.
    pub const BYTES: Self = Self {
        once: true,
        word: 1,
    };
    /// Those of an adopted owner.
    pub const OWNER: Self = Self {
        once: false,
        word: 1,
    };
}

/// Holds segments that are not vended to the laws of `wharf-backend`: those that a `BorrowedBackend` lends and an
/// `OwnerBackend` adopts, or a backend of yours.
///
/// `lend` makes one, which holds `bytes` whenever nobody has written it since; at most 64, and a multiple of the word. The suite
/// leaves what it writes as it was. Nobody else uses the memory meanwhile. Where the backend vends as well, run
/// [`backend`](crate::backend) on it, too.
///
/// ```
/// use wharf_backend::BorrowedShared;
/// use wharf_conformance::{LentClaims, lent};
/// use wharf_sync::Unsync;
///
/// let table = BorrowedShared::<Unsync>::shared(b"in flash");
/// let tally = lent("mine", || table.lend(), b"in flash", LentClaims::BYTES, &mut ());
/// assert!(tally.is_clean());
/// ```
pub fn lent<R, S>(
    name: &'static str,
    lend: impl Fn() -> Result<SegmentMut<R, S>, AllocError>,
    bytes: &[u8],
    claims: LentClaims,
    report: &mut dyn Report,
) -> Tally
where
    R: BackendRef,
    R::Backend: Sized,
    S: State,
{
    let policy = <R::Policy as SyncPolicy>::NAME;
    // Through `dyn`, so that an image holds the suite once a policy and not once a memory.
    let lender = Lender::<R::Policy> {
        with: &|look| piece::with(&lend, look),
        typed: &|| piece::typed(&lend),
        bytes,
        claims,
    };
    run(
        Subject {
            policy,
            suite: "lent",
            name,
        },
        &lender,
        &checks(),
        report,
    )
}

type With<'l, P> = &'l dyn Fn(&mut dyn FnMut(&Piece<'_, P>)) -> Result<(), AllocError>;

struct Lender<'l, P: SyncPolicy> {
    /// Lends a segment for a look at it.
    with: With<'l, P>,
    /// On the way that its users take.
    typed: &'l dyn Fn() -> Outcome,
    bytes: &'l [u8],
    claims: LentClaims,
}

fn checks<'l, P: SyncPolicy>() -> [Check<Lender<'l, P>>; 9] {
    [
        Check {
            name: "what is lent holds what was there",
            run: |lender| lender.look(moving::holds_what_was_there),
        },
        Check {
            name: "what is lent is where it says",
            run: |lender| lender.look(is_where_it_says),
        },
        Check {
            name: "it is lent once",
            run: once,
        },
        Check {
            name: "it comes back",
            run: comes_back,
        },
        Check {
            name: "every part of it is read",
            run: |lender| lender.look(moving::reads_every_part),
        },
        Check {
            name: "it is written where it should be, and nowhere else",
            run: |lender| lender.look(moving::writes_a_part),
        },
        Check {
            name: "what is read-only stays as it is",
            run: |lender| lender.look(moving::stays),
        },
        Check {
            name: "a range that cuts a word moves nothing",
            run: |lender| lender.look(moving::keeps_words_whole),
        },
        Check {
            name: "what is lent is taken apart and put together",
            run: |lender| (lender.typed)(),
        },
    ]
}

/// Bytes that are looked at.
const MOST: usize = 64;

/// What every look knows.
struct Known<'k> {
    bytes: &'k [u8],
    word: usize,
}

type Look<P> = fn(&Piece<'_, P>, &Known<'_>) -> Outcome;

impl<P: SyncPolicy> Lender<'_, P> {
    #[inline(never)]
    fn look(&self, look: Look<P>) -> Outcome {
        let (bytes, word) = (self.bytes, self.claims.word.max(1));
        let fits = bytes.len() <= MOST && !bytes.is_empty() && bytes.len().is_multiple_of(word);
        ensure(fits, "the bytes to expect are up to 64, in whole words")?;
        let mut outcome = Ok(());
        (self.with)(&mut |piece| {
            outcome = equal("its length", piece.len, bytes.len())
                .map_err(Into::into)
                .and_then(|()| look(piece, &Known { bytes, word }));
        })
        .demand("it is lent")?;
        outcome
    }
}

fn is_where_it_says<P: SyncPolicy>(piece: &Piece<'_, P>, _: &Known<'_>) -> Outcome {
    let backend = piece.backend;
    let same = piece.place.space() == backend.space();
    ensure(same, "it is in the backend's space")?;
    let align = backend.alignment();
    ensure(align.is_power_of_two(), "the alignment is a power of two")?;
    let address = match piece.place {
        Place::Host(base) => base.addr().get() as u64,
        Place::Device(base) => base.get(),
    };
    equal("its misalignment", address % align as u64, 0)?;
    ensure(piece.place_again() == piece.place, "it stays where it is")?;
    let own = backend.may_own(piece.header);
    ensure(own, "a live segment may be the backend's own")?;
    Ok(())
}

/// Its place, the units in use, and whether they are counted.
fn glance<P: SyncPolicy>(lender: &Lender<'_, P>) -> Result<(Place, usize, bool), Failure> {
    let mut seen = None;
    (lender.with)(&mut |piece| {
        let census = piece.backend.census();
        seen = Some((piece.place, census.in_use, census.unit != 0));
    })
    .demand("it is lent")?;
    seen.demand("it is lent")
}

fn once<P: SyncPolicy>(lender: &Lender<'_, P>) -> Outcome {
    applies(lender.claims.once, "it claims to be lent more than once")?;
    let mut outcome = Ok(());
    (lender.with)(&mut |piece| outcome = second(lender, piece).map_err(Into::into))
        .demand("it is lent")?;
    outcome
}

fn second<P: SyncPolicy>(lender: &Lender<'_, P>, piece: &Piece<'_, P>) -> Result<(), Failure> {
    let before = piece.backend.census();
    let Err(error) = (lender.with)(&mut |_| ()) else {
        return Err(Failure::new("a second one is refused"));
    };
    let AllocError::Exhausted {
        requested,
        in_use,
        capacity,
    } = error
    else {
        return Err(Failure::refused(
            "exhaustion is told by its name",
            error.into(),
        ));
    };
    equal("the bytes it names", requested, piece.len)?;
    equal("the bytes in use", in_use, capacity)?;
    let after = piece.backend.census();
    if before.unit != 0 {
        equal("refusals", after.refused, before.refused.saturating_add(1))?;
        let largest = before.largest_refused.max(piece.len);
        equal("the largest refused", after.largest_refused, largest)?;
    }
    equal("units in use", after.in_use, before.in_use)
}

fn comes_back<P: SyncPolicy>(lender: &Lender<'_, P>) -> Outcome {
    let (place, in_use, counts) = glance(lender)?;
    ensure(!counts || in_use > 0, "it is in use while it is out")?;
    for _ in 0..32 {
        let (again, now, _) = glance(lender)?;
        equal("units in use", now, in_use)?;
        let same = !lender.claims.once || again == place;
        ensure(same, "it is where it was")?;
    }
    Ok(())
}
