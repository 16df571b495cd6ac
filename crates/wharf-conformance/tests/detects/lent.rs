//! Memory that is lent, and breaks a law each.
//!
//! No undefined behaviour arises from any of it: all bytes lie in cells, are moved by copies, and never leave them.
#![allow(unsafe_code, reason = "implements the unsafe trait, wrongly")]

use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::ptr::NonNull;

use wharf_backend::{
    AllocError, BorrowedBackend, Init, LentMemory, Place, ReadOnly, SegmentMut, State,
    TransferError,
};
use wharf_conformance::{LentClaims, lent};
use wharf_sync::Unsync;

use crate::Failures;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    ReadsShifted,
    ReadsOnlyWhole,
    WritesShifted,
    FillsAll,
    FillsNothing,
    MovesWhenReadOnly,
    CutsWords,
    MovesHalfAWord,
    Wanders,
}

const LEN: usize = 16;
const BYTES: [u8; LEN] = *b"wharf lends this";

/// Cells, so that a write through `&self` is one even where the law forbids it.
struct Cells<A> {
    wrong: Wrong,
    word: usize,
    bytes: UnsafeCell<[u8; LEN]>,
    asked: Cell<usize>,
    access: PhantomData<A>,
}

impl<A> Cells<A> {
    const fn new(wrong: Wrong, word: usize) -> Self {
        Self {
            wrong,
            word,
            bytes: UnsafeCell::new(BYTES),
            asked: Cell::new(0),
            access: PhantomData,
        }
    }

    fn base(&self) -> NonNull<u8> {
        NonNull::new(self.bytes.get()).expect("a cell").cast()
    }

    fn cut(&self, offset: usize, len: usize) -> Result<(), TransferError> {
        let word = self.word;
        if self.wrong != Wrong::CutsWords
            && !(offset.is_multiple_of(word) && len.is_multiple_of(word))
        {
            return Err(TransferError::Unaligned { offset, len, word });
        }
        Ok(())
    }
}

trait Writable {
    const YES: bool;
}
impl Writable for Init {
    const YES: bool = true;
}
impl Writable for ReadOnly {
    const YES: bool = false;
}

// SAFETY: it keeps none of the laws, but the bytes are in a cell, and every access of this file is a copy. The suite keeps no
// borrow of them.
unsafe impl<A: State + Writable> LentMemory for Cells<A> {
    type Access = A;
    const VENDS: bool = false;

    fn len(&self) -> usize {
        LEN
    }
    fn place(&self) -> Place {
        self.asked.set(self.asked.get() + 1);
        let wanders = self.wrong == Wrong::Wanders && self.asked.get() % 2 == 1;
        // SAFETY: within the cell.
        Place::Host(unsafe { self.base().add(usize::from(wanders)) })
    }
    fn name(&self) -> &'static str {
        "cells"
    }
    unsafe fn copy_in(
        &self,
        offset: usize,
        source: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        if !A::YES && self.wrong != Wrong::MovesWhenReadOnly {
            return Err(TransferError::ReadOnly);
        }
        let cut = self.cut(offset, len);
        if cut.is_err() && self.wrong != Wrong::MovesHalfAWord {
            return cut;
        }
        let shift = usize::from(self.wrong == Wrong::WritesShifted && offset + len < LEN);
        // SAFETY: within the cell, also one further on; the source as the caller promises.
        unsafe { self.base().add(offset + shift).copy_from(source, len) };
        cut
    }
    unsafe fn copy_out(
        &self,
        offset: usize,
        destination: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        self.cut(offset, len)?;
        let from = match self.wrong {
            Wrong::ReadsShifted if offset + len < LEN => offset + 1,
            Wrong::ReadsOnlyWhole => 0,
            _ => offset,
        };
        // SAFETY: within the cell; the destination as the caller promises.
        unsafe { self.base().add(from).copy_to(destination, len) };
        Ok(())
    }
    unsafe fn fill(&self, offset: usize, len: usize, byte: u8) -> Result<(), TransferError> {
        if !A::YES && self.wrong != Wrong::MovesWhenReadOnly {
            return Err(TransferError::ReadOnly);
        }
        self.cut(offset, len)?;
        let (offset, len) = match self.wrong {
            Wrong::FillsAll => (0, LEN),
            Wrong::FillsNothing => (0, 0),
            _ => (offset, len),
        };
        // SAFETY: within the cell.
        unsafe { self.base().add(offset).write_bytes(byte, len) };
        Ok(())
    }
}

fn suite<A: State + Writable>(wrong: Wrong, word: usize) -> Failures {
    let memory = BorrowedBackend::<_, Unsync>::new(Cells::<A>::new(wrong, word));
    let claims = LentClaims { once: true, word };
    let mut report = Failures::default();
    let _ = lent("cells", || memory.lend(), &BYTES, claims, &mut report);
    report
}

/// Lends by `lend`, which has two memories to choose from.
fn lending(
    bytes: &[u8],
    lend: impl for<'m> Fn(&'m [Memory; 2]) -> Result<Segment<'m>, AllocError>,
) -> Failures {
    let memories = [Wrong::Nothing, Wrong::Nothing]
        .map(|wrong| BorrowedBackend::new(Cells::<Init>::new(wrong, 1)));
    let mut report = Failures::default();
    let claims = LentClaims::BYTES;
    let _ = lent("lending", || lend(&memories), bytes, claims, &mut report);
    report
}

type Memory = BorrowedBackend<Cells<Init>, Unsync>;
type Segment<'m> = SegmentMut<&'m Memory, Init>;

#[test]
fn broken_loans_are_found() {
    suite::<Init>(Wrong::Nothing, 1).none();
    suite::<Init>(Wrong::Nothing, 4).none();
    suite::<ReadOnly>(Wrong::Nothing, 1).none();

    let (there, every) = (
        "what is lent holds what was there",
        "every part of it is read",
    );
    let written = "it is written where it should be, and nowhere else";
    let stays = "what is read-only stays as it is";
    let whole = "a range that cuts a word moves nothing";
    suite::<Init>(Wrong::ReadsShifted, 1).name(every);
    suite::<Init>(Wrong::ReadsOnlyWhole, 1).name(every);
    suite::<Init>(Wrong::WritesShifted, 1).name(written);
    suite::<Init>(Wrong::FillsAll, 1).name(written);
    suite::<Init>(Wrong::FillsNothing, 1).name(written);
    suite::<ReadOnly>(Wrong::MovesWhenReadOnly, 1).name(stays);
    suite::<Init>(Wrong::CutsWords, 4).name(whole);
    suite::<Init>(Wrong::MovesHalfAWord, 4).name(whole);
    lending(b"wharf lends that", |memories| memories[0].lend()).name(there);

    // A second one of another memory.
    let once = "it is lent once";
    lending(&BYTES, |memories| {
        memories[0].lend().or_else(|_| memories[1].lend())
    })
    .name(once);
    let back = "it comes back";
    // Another one each time, and then none.
    let turn = Cell::new(0);
    let wanders = lending(&BYTES, |memories| {
        turn.set(turn.get() + 1);
        memories[turn.get() % 2].lend()
    });
    wanders.name(back);
    let turn = Cell::new(0);
    let kept = lending(&BYTES, |memories| {
        turn.set(turn.get() + 1);
        let segment = memories[0].lend()?;
        if turn.get() == 20 {
            std::mem::forget(segment);
            return memories[0].lend();
        }
        Ok(segment)
    });
    kept.name(back);

    let place = "what is lent is where it says";
    suite::<Init>(Wrong::Wanders, 1).name(place);

    let seen = [there, every, written, stays, whole, once, back, place];
    let layer = ["what is lent is taken apart and put together"];
    kept.all_covered(&seen, &layer);
}
