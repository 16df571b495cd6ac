//! Pitfall: registers are handed to a function that wants a slice, and would read them as it likes.
//! Instead: move whole words, with `read` and `write`.

use wharf::backend::BorrowedMmio;
use wharf::prelude::*;

fn checksum(bytes: impl AsRef<[u8]>) -> u8 {
    bytes.as_ref().iter().fold(0, |sum, byte| sum ^ byte)
}

fn poll(registers: &BorrowedMmio<'_, u32, Unsync>) -> u8 {
    checksum(Segment::from(registers.lend().unwrap()))
}

fn main() {
    let _ = poll;
}
