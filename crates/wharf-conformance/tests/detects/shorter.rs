//! Host memory whose segments become shorter, or are written as raw memory, and that breaks a law each.
//!
//! No undefined behaviour arises from any of it: every slot gets values when it is vended, is eight times as large as what it
//! claims to vend, and every place is inside of it.
#![allow(unsafe_code, reason = "implements the unsafe traits, wrongly")]

use std::cell::Cell;
use std::ptr::NonNull;

use wharf_backend::{
    AllocError, AllocHint, Caps, Census, Header, HostBackend, MemBackend, Place, Shortens,
    StaticPool, TransferError, VendsUninit,
};
use wharf_conformance::{shortens, vends_uninit, writer};
use wharf_sync::Unsync;

use crate::Failures;

type H = NonNull<Header<Unsync>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// A shorter segment is as long as before.
    Keeps,
    /// It loses one byte more than it should.
    TakesMore,
    /// Who has become shorter is lost.
    Loses,
    /// The next one is as short as the last one has become.
    StaysShort,
    /// It counts one unit less once a segment is shorter.
    CountsLess,
    /// It is in another place whenever it is asked.
    Wanders,
    /// What it has vended has values, it says.
    HasValues,
    /// A transfer reads nothing.
    ReadsNothing,
}

const PAYLOAD: usize = 16;
const SLOTS: usize = 4;

struct Faulty {
    wrong: Wrong,
    pool: StaticPool<Unsync, { 8 * PAYLOAD }, SLOTS>,
    placed: Cell<usize>,
    shortened: Cell<Option<usize>>,
    lost: Cell<usize>,
}

impl Faulty {
    fn new(wrong: Wrong) -> Self {
        Self {
            wrong,
            pool: StaticPool::new(),
            placed: Cell::new(0),
            shortened: Cell::new(None),
            lost: Cell::new(0),
        }
    }

    /// # Safety
    /// As for [`MemBackend::place`].
    unsafe fn base(&self, header: H) -> NonNull<u8> {
        // SAFETY: as the caller promises.
        match unsafe { self.pool.place(header) } {
            Place::Host(base) => base,
            Place::Device(_) => unreachable!("a pool is host memory"),
        }
    }
}

// SAFETY: it keeps none of the laws, but every place is inside of a slot of the pool (see above), whose headers they are.
unsafe impl MemBackend for Faulty {
    type Policy = Unsync;

    fn vend(&self, size: usize, hint: AllocHint) -> Option<H> {
        let size = match self.shortened.take() {
            Some(short) if self.wrong == Wrong::StaysShort => size.min(short),
            _ => size,
        };
        if size > PAYLOAD {
            return None;
        }
        let header = self.pool.vend(size, hint)?;
        // SAFETY: just vended, and nobody's yet.
        unsafe { self.base(header).write_bytes(0xA5, 8 * PAYLOAD) };
        Some(header)
    }
    fn refusal(&self, requested: usize, _: AllocHint) -> AllocError {
        AllocError::Exhausted {
            requested,
            in_use: self.pool.census().in_use,
            capacity: SLOTS,
        }
    }
    unsafe fn reclaim(&self, header: H) {
        if self.wrong == Wrong::Loses && self.shortened.take().is_some() {
            return;
        }
        // SAFETY: as the caller promises.
        unsafe { self.pool.reclaim(header) }
    }
    unsafe fn place(&self, header: H) -> Place {
        // SAFETY: as the caller promises.
        let base = unsafe { self.base(header) };
        self.placed.set(self.placed.get() + 1);
        let skip = match self.wrong {
            Wrong::Wanders => self.placed.get() % PAYLOAD,
            _ => 0,
        };
        // SAFETY: within the slot, as what follows.
        Place::Host(unsafe { base.add(skip) })
    }
    fn may_own(&self, header: H) -> bool {
        self.pool.may_own(header)
    }
    fn caps(&self) -> Caps {
        match self.wrong {
            Wrong::HasValues => self.pool.caps() | Caps::VENDS_INITIALISED,
            _ => self.pool.caps(),
        }
    }
    fn alignment(&self) -> usize {
        1
    }
    fn max_segment_size(&self) -> usize {
        PAYLOAD
    }
    fn census(&self) -> Census {
        let mut census = self.pool.census();
        if self.wrong == Wrong::CountsLess {
            census.in_use -= census.in_use.min(self.lost.get());
        }
        census
    }
    fn name(&self) -> &'static str {
        "faulty frames"
    }
    unsafe fn copy_out(
        &self,
        header: H,
        offset: usize,
        destination: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        if self.wrong == Wrong::ReadsNothing {
            return Ok(());
        }
        // SAFETY: as the caller promises.
        match unsafe { self.place(header) } {
            // SAFETY: as the caller promises; some bytes further is still within the slot.
            Place::Host(base) => unsafe {
                base.add(offset).copy_to_nonoverlapping(destination, len);
            },
            Place::Device(_) => unreachable!("it gives places of the host"),
        }
        Ok(())
    }
}

// SAFETY: every place is one of the host.
unsafe impl HostBackend for Faulty {}
// SAFETY: nobody relies on values, whatever it says.
unsafe impl VendsUninit for Faulty {}
// SAFETY: it may set another length than it should, of bytes that are the slot's and have values.
unsafe impl Shortens for Faulty {
    unsafe fn shorten(&self, header: H, len: usize) {
        self.shortened.set(Some(len));
        self.lost.set(1);
        let len = match self.wrong {
            Wrong::Keeps => return,
            Wrong::TakesMore => len.saturating_sub(1),
            _ => len,
        };
        // SAFETY: as the caller promises.
        unsafe { self.pool.shorten(header, len) }
    }
}

fn shorter(wrong: Wrong) -> Failures {
    let mut report = Failures::default();
    let _ = shortens("faulty", &Faulty::new(wrong), &mut report);
    report
}

fn written(wrong: Wrong) -> Failures {
    let mut report = Failures::default();
    let memory = Faulty::new(wrong);
    let _ = writer("faulty", &memory, &mut report);
    let _ = vends_uninit("faulty", &memory, &mut report);
    report
}

#[test]
fn broken_shorter_segments_are_found() {
    shorter(Wrong::Nothing).none();
    let laws = [
        (Wrong::Keeps, "a segment gives up its end"),
        (Wrong::CountsLess, "a segment gives up its end"),
        (Wrong::Loses, "a segment gives up its end"),
        (Wrong::Wanders, "a segment gives up its end"),
        (Wrong::Keeps, "it does not become longer"),
        (Wrong::TakesMore, "it does not become longer"),
        (Wrong::Loses, "what was given up is there for the next one"),
        (
            Wrong::StaysShort,
            "what was given up is there for the next one",
        ),
        (Wrong::Keeps, "a writer ends where it has come to"),
        (Wrong::TakesMore, "a writer ends where it has come to"),
    ];
    for (wrong, law) in laws {
        shorter(wrong).name(law);
    }
    shorter(Wrong::Nothing).all_covered(&laws.map(|(_, law)| law), &[]);
}

#[test]
fn broken_memory_of_writers_is_found() {
    written(Wrong::Nothing).none();
    let laws = [
        (Wrong::Wanders, "what is written is there, and no more"),
        (
            Wrong::ReadsNothing,
            "what there is no room for is not written",
        ),
        (Wrong::Wanders, "a reader is lent what is left"),
        (Wrong::ReadsNothing, "what was not written is zero"),
        (
            Wrong::HasValues,
            "nobody counts on the values of a fresh segment",
        ),
        (Wrong::Wanders, "raw memory is written, and said to be"),
    ];
    for (wrong, law) in laws {
        written(wrong).name(law);
    }
    written(Wrong::Nothing).all_covered(&laws.map(|(_, law)| law), &[]);
}
