//! Pitfall: bytes that were lent to be read are written.
//! Instead: lend them by `&mut` (`BorrowedExclusive`); or copy them into memory of your own.

use wharf::backend::{BorrowedShared, ReadOnly};
use wharf::prelude::*;

fn capitalise(text: &mut SegmentMut<&BorrowedShared<'_, Unsync>, ReadOnly>) {
    text[0] = b'I';
}

fn main() {
    let table = BorrowedShared::<Unsync>::shared(b"in flash");
    capitalise(&mut table.lend().unwrap());
}
