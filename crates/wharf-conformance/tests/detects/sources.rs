//! Sources that break a law each.
//!
//! No undefined behaviour arises from any of them: every block is carved from a sound pool and larger than
//! was asked for; where blocks overlap, the suite has written what it reads, and borrows no two at once.
#![allow(unsafe_code, reason = "implements the unsafe trait, wrongly")]

use std::alloc::Layout;
use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use wharf_conformance::{SourceClaims, source, source_with_reset};
use wharf_source::{
    BlockSource, BumpSource, Census, PoolSource, SizeClass, SourceError, empty_block,
};
use wharf_sync::Unsync;

use crate::Failures;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    Overlapping,
    Shares,
    Misaligned,
    NoneEmpty,
    NoRefusals,
    RoundedRefusals,
    LastRefusal,
    AskingCounts,
    Rounds,
    FirstInFirstOut,
    NeverAgain,
    CountsEmpty,
    UseFalls,
    TooMuchInUse,
    CapacityGrows,
    LargeIsExhausted,
    ExhaustedIsLarge,
    Unbounded,
    NoName,
}

struct Faulty<'s> {
    wrong: Wrong,
    pool: PoolSource<'s, Unsync>,
    first: RefCell<Vec<(Layout, NonNull<u8>)>>,
    waiting: RefCell<Vec<(NonNull<u8>, Layout)>>,
    refused: Cell<usize>,
    largest_refused: Cell<usize>,
    asked: Cell<usize>,
    empty: Cell<usize>,
    calls: Cell<usize>,
}

/// Every block is so much longer than was asked for.
fn inside(layout: Layout) -> Layout {
    Layout::from_size_align(layout.size() + 8, layout.align().max(8)).unwrap_or(layout)
}

// SAFETY: it keeps none of the laws, but blocks lie inside of blocks of the pool (see above). Values that
// are owned in blocks would not survive an overlap, so only the blocks of one shape overlap, in which the
// suite owns none.
unsafe impl BlockSource for Faulty<'_> {
    fn try_alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        self.calls.set(self.calls.get() + 1);
        if layout.size() == 0 && self.wrong != Wrong::NoneEmpty {
            self.empty.set(self.empty.get() + 1);
            return empty_block(layout);
        }
        let none = layout.size() == 0;
        let vended = if none {
            None
        } else if self.wrong == Wrong::Unbounded && layout.size() < 64 {
            // SAFETY: not of zero size.
            NonNull::new(unsafe { std::alloc::alloc(layout) })
        } else {
            self.pool.try_alloc(inside(layout))
        };
        let Some(block) = vended else {
            self.refused.set(self.refused.get() + 1);
            let largest = self.largest_refused.get().max(layout.size());
            let last = self.wrong == Wrong::LastRefusal;
            self.largest_refused
                .set(if last { layout.size() } else { largest });
            return None;
        };
        match self.wrong {
            Wrong::Overlapping if layout.size() == 24 && layout.align() == 8 => {
                let mut first = self.first.borrow_mut();
                if let Some((_, first)) = first.first() {
                    return Some(*first);
                }
                first.push((layout, block));
                Some(block)
            }
            // Eight bytes longer than one byte is long enough for three.
            Wrong::Shares if layout.size() == 1 || layout.size() == 3 => {
                let mut first = self.first.borrow_mut();
                match first.first() {
                    Some((_, first)) => Some(*first),
                    None => {
                        first.push((layout, block));
                        Some(block)
                    }
                }
            }
            Wrong::Misaligned if layout.size() == 13 || layout.size() == 100 => {
                // SAFETY: the block is eight bytes longer.
                Some(unsafe { block.add(1) })
            }
            _ => Some(block),
        }
    }

    unsafe fn release(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() == 0 {
            return;
        }
        match self.wrong {
            // Not again, for it is not known whose it is.
            Wrong::Overlapping | Wrong::Shares | Wrong::Misaligned | Wrong::NeverAgain => {}
            Wrong::Unbounded if layout.size() < 64 => {
                // SAFETY: as the caller promises; small blocks are the allocator's.
                unsafe { std::alloc::dealloc(block.as_ptr(), layout) }
            }
            Wrong::FirstInFirstOut => {
                // Three wait, and then come back the other way round.
                let mut waiting = self.waiting.borrow_mut();
                waiting.push((block, layout));
                if waiting.len() == 3 {
                    while let Some((block, layout)) = waiting.pop() {
                        // SAFETY: as the caller promised when it was released.
                        unsafe { self.pool.release(block, inside(layout)) }
                    }
                }
            }
            // SAFETY: as the caller promises; `inside` is what the pool was asked for.
            _ => unsafe { self.pool.release(block, inside(layout)) },
        }
    }

    fn refusal(&self, layout: Layout) -> SourceError {
        self.asked.set(self.asked.get() + 1);
        let requested = match self.wrong {
            Wrong::Rounds => inside(layout).size(),
            _ => layout.size(),
        };
        let large = match self.wrong {
            Wrong::LargeIsExhausted => false,
            Wrong::ExhaustedIsLarge => true,
            _ => layout.size() > self.pool.census().capacity,
        };
        if large {
            SourceError::TooLarge {
                requested,
                capacity: self.census().capacity,
            }
        } else {
            SourceError::Exhausted {
                requested,
                available: 0,
            }
        }
    }

    fn census(&self) -> Census {
        let mut census = self.pool.census();
        census.refused = self.refused.get();
        census.largest_refused = self.largest_refused.get();
        match self.wrong {
            Wrong::NoRefusals => census.refused = 0,
            Wrong::RoundedRefusals => census.largest_refused &= !7,
            Wrong::AskingCounts => census.refused += self.asked.get(),
            Wrong::CountsEmpty => census.in_use += self.empty.get(),
            Wrong::UseFalls => (census.in_use, census.peak) = (1, 1),
            Wrong::TooMuchInUse => census.peak = census.capacity + 1,
            Wrong::CapacityGrows => census.capacity += self.calls.get(),
            _ => {}
        }
        census
    }

    fn name(&self) -> &'static str {
        match self.wrong {
            Wrong::NoName => "",
            _ => "faulty",
        }
    }
}

fn suite(wrong: Wrong) -> Failures {
    let mut slab = vec![MaybeUninit::uninit(); 16 << 10];
    let mut classes = [const { SizeClass::EMPTY }; 32];
    let faulty = Faulty {
        wrong,
        pool: PoolSource::new(&mut slab, &mut classes),
        first: RefCell::default(),
        waiting: RefCell::default(),
        refused: Cell::new(0),
        largest_refused: Cell::new(0),
        asked: Cell::new(0),
        empty: Cell::new(0),
        calls: Cell::new(0),
    };
    let claims = SourceClaims {
        // A chain of owned values is of the shape that overlaps, and must not be made.
        bounded: wrong != Wrong::Overlapping,
        ..SourceClaims::POOL
    };
    let mut report = Failures::default();
    let tally = source::<Unsync, _>("faulty", &faulty, claims, &mut report);
    assert_eq!(tally.failed as usize, report.failed.len());
    report
}

#[test]
fn a_source_that_breaks_no_law_passes() {
    suite(Wrong::Nothing).none();
}

#[test]
fn every_broken_law_of_a_source_is_found() {
    let beyond = "a request beyond all memory is refused by its number";
    let laws = [
        (
            Wrong::Overlapping,
            "a block keeps its bytes while others come and go",
        ),
        (Wrong::Shares, "blocks do not overlap"),
        (Wrong::Misaligned, "blocks are aligned"),
        (Wrong::NoneEmpty, "no bytes take no memory"),
        (Wrong::NoRefusals, beyond),
        (Wrong::RoundedRefusals, beyond),
        (Wrong::LastRefusal, "exhaustion is a value"),
        (Wrong::AskingCounts, "asking why counts nothing"),
        (Wrong::Rounds, "asking why counts nothing"),
        (Wrong::FirstInFirstOut, "last in, first out"),
        (Wrong::NeverAgain, "everything returns"),
        (Wrong::CountsEmpty, "no bytes take no memory"),
        (Wrong::UseFalls, "the census adds up"),
        (Wrong::TooMuchInUse, "the census adds up"),
        (Wrong::CapacityGrows, "the census adds up"),
        (Wrong::LargeIsExhausted, beyond),
        (Wrong::ExhaustedIsLarge, "exhaustion is a value"),
        (Wrong::Unbounded, "exhaustion is a value"),
        (Wrong::NoName, "it has a name"),
    ];
    for (wrong, law) in laws {
        suite(wrong).name(law);
    }

    let claims = SourceClaims::NULL;
    let mut report = Failures::default();
    let _ = source::<Unsync, _>("heap", wharf_source::HeapSource, claims, &mut report);
    let refuses = "who vends nothing refuses everything and counts nothing";
    report.name(refuses);

    let mut seen = laws.map(|(_, law)| law).to_vec();
    seen.push(refuses);
    let layer = [
        "owned values are dropped once",
        "a block is taken apart and put together",
        "it is the same with its type known",
    ];
    suite(Wrong::Nothing).all_covered(&seen, &layer);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WrongReset {
    Nothing,
    GivesLess,
    CountsOn,
    ForgetsPeak,
    ForgetsRefusals,
}

/// A source that moves forward through a slab, with a reset that does something wrong.
struct Forward<'s> {
    wrong: WrongReset,
    bump: BumpSource<'s>,
    /// In use, at most, and refused, before the last reset.
    before: (usize, usize, usize),
    /// Bytes that did not come back.
    lost: usize,
}

impl Forward<'_> {
    fn reset(&mut self) {
        let census = self.bump.census();
        self.before = (
            self.before.0.max(census.in_use),
            census.peak,
            census.refused,
        );
        self.bump.reset();
        if self.wrong == WrongReset::GivesLess {
            self.lost += 64;
            let lost = Layout::from_size_align(self.lost, 1).expect("a small layout");
            self.bump.try_alloc(lost).expect("it is empty");
        }
    }
}

// SAFETY: the source inside keeps the laws of memory; what is wrong are numbers.
unsafe impl BlockSource for Forward<'_> {
    fn try_alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        self.bump.try_alloc(layout)
    }
    unsafe fn release(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { self.bump.release(block, layout) }
    }
    fn refusal(&self, layout: Layout) -> SourceError {
        self.bump.refusal(layout)
    }
    fn census(&self) -> Census {
        let mut census = self.bump.census();
        match self.wrong {
            WrongReset::CountsOn => census.in_use = census.in_use.max(self.before.0),
            WrongReset::ForgetsPeak => census.peak = census.in_use,
            WrongReset::ForgetsRefusals => census.refused -= self.before.2,
            _ => {}
        }
        census
    }
    fn name(&self) -> &'static str {
        "forward"
    }
}

fn resets(wrong: WrongReset) -> Failures {
    let mut slab = vec![MaybeUninit::uninit(); 4096];
    let mut source = Forward {
        wrong,
        bump: BumpSource::new(&mut slab),
        before: (0, 0, 0),
        lost: 0,
    };
    let (claims, mut report) = (SourceClaims::BUMP, Failures::default());
    let reset = |source: &mut Forward<'_>| source.reset();
    let _ = source_with_reset::<Unsync, _>("forward", &mut source, reset, claims, &mut report);
    report
}

#[test]
fn broken_resets_are_found() {
    resets(WrongReset::Nothing).none();
    let back = "a reset gives everything back";
    let remembers = "a reset forgets no peak and no refusal";
    resets(WrongReset::GivesLess).name(back);
    resets(WrongReset::CountsOn).name(back);
    resets(WrongReset::ForgetsPeak).name(remembers);
    resets(WrongReset::ForgetsRefusals).name(remembers);
}

#[test]
fn a_source_that_claims_too_much_is_found() {
    let mut slab = vec![MaybeUninit::uninit(); 16 << 10];
    let (bump, mut report) = (BumpSource::new(&mut slab), Failures::default());
    let claims = SourceClaims::POOL;
    let _ = source::<Unsync, _>("bump", &bump, claims, &mut report);
    report.name("everything returns");
    report.name("last in, first out");
    report.name("exhaustion is a value");

    let mut slab = vec![MaybeUninit::uninit(); 4096];
    let (bump, mut report) = (BumpSource::new(&mut slab), Failures::default());
    let claims = SourceClaims::BUMP;
    let tally = source::<Unsync, _>("bump", &bump, claims, &mut report);
    report.none();
    assert_eq!((tally.passed, tally.failed, tally.inapplicable), (12, 0, 3));
}
