//! Registers, and other memory that is not RAM: every access is volatile and of a whole word.
//!
//! Invariant of [`Registers`]: `base` is valid for volatile reads and writes of `words` words for `'b`, by nobody else.
#![allow(unsafe_code, reason = "accesses registers")]

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use super::LentMemory;
use crate::{DeviceAddress, Init, Place, TransferError};

mod sealed {
    pub trait Sealed: Copy + 'static {
        fn repeated(byte: u8) -> Self;
    }
}

/// What a bus moves at once: `u8`, `u16`, `u32` or `u64`.
pub trait BusWord: sealed::Sealed {}

macro_rules! words {
    ($($word:ty),*) => {$(
        impl sealed::Sealed for $word {
            fn repeated(byte: u8) -> Self {
                Self::from_ne_bytes([byte; size_of::<Self>()])
            }
        }
        impl BusWord for $word {}
    )*};
}
words!(u8, u16, u32, u64);

/// Registers, lent to a [`BorrowedBackend`](super::BorrowedBackend).
///
/// They are in device space: the CPU has no slice of them, whatever the route, and every transfer is so many volatile
/// accesses, each of one word, ascending. A range that cuts a word is refused
/// ([`TransferError::Unaligned`]) before anything moves, because half a register cannot be written. They vend nothing.
pub struct Registers<'b, W> {
    base: NonNull<W>,
    words: usize,
    lent: PhantomData<&'b W>,
}

// SAFETY: the constructor's caller has promised it.
unsafe impl<W: BusWord> Send for Registers<'_, W> {}
// SAFETY: as above.
unsafe impl<W: BusWord> Sync for Registers<'_, W> {}

impl<W: BusWord> Registers<'_, W> {
    /// `words` words at `base`.
    ///
    /// # Safety
    /// For the lifetime, `base` is aligned and valid for volatile reads and writes of as many words, from every thread;
    /// nobody else accesses them (or it does not matter); and any value may be written there without breaking memory
    /// safety. (A register that starts a DMA transfer does break it.)
    #[must_use]
    pub const unsafe fn new(base: NonNull<W>, words: usize) -> Self {
        Self {
            base,
            words,
            lent: PhantomData,
        }
    }

    /// The words of a range, or that it cuts one.
    fn words(offset: usize, len: usize) -> Result<core::ops::Range<usize>, TransferError> {
        let word = size_of::<W>();
        if !offset.is_multiple_of(word) || !len.is_multiple_of(word) {
            return Err(TransferError::Unaligned { offset, len, word });
        }
        // No wrap: the range lies in the registers.
        Ok(offset / word..(offset + len) / word)
    }
}

impl<W> fmt::Debug for Registers<'_, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registers")
            .field("base", &self.base)
            .field("words", &self.words)
            .finish()
    }
}

// SAFETY: a device place, which is valid for nothing that the CPU does by itself; the accesses are covered by the promise
// of the constructor's caller.
unsafe impl<W: BusWord> LentMemory for Registers<'_, W> {
    type Access = Init;
    const VENDS: bool = false;

    fn len(&self) -> usize {
        // No wrap: the words are in memory.
        self.words * size_of::<W>()
    }
    fn place(&self) -> Place {
        Place::Device(DeviceAddress::new(self.base.addr().get() as u64))
    }
    fn name(&self) -> &'static str {
        "borrowed, registers"
    }
    unsafe fn copy_in(
        &self,
        offset: usize,
        source: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        for (from, to) in Self::words(offset, len)?.enumerate() {
            // SAFETY: both ranges are as many whole words; the host's need not be aligned.
            unsafe {
                let word = source.cast::<W>().add(from).read_unaligned();
                self.base.add(to).write_volatile(word);
            }
        }
        Ok(())
    }
    unsafe fn copy_out(
        &self,
        offset: usize,
        destination: NonNull<u8>,
        len: usize,
    ) -> Result<(), TransferError> {
        for (to, from) in Self::words(offset, len)?.enumerate() {
            // SAFETY: as above, the other way round.
            unsafe {
                let word = self.base.add(from).read_volatile();
                destination.cast::<W>().add(to).write_unaligned(word);
            }
        }
        Ok(())
    }
    unsafe fn fill(&self, offset: usize, len: usize, byte: u8) -> Result<(), TransferError> {
        for to in Self::words(offset, len)? {
            // SAFETY: in the range.
            unsafe { self.base.add(to).write_volatile(W::repeated(byte)) };
        }
        Ok(())
    }
}
