//! Pitfall: bytes are copied into a segment that was lent to be read.
//! Instead: lend them by `&mut` (`BorrowedExclusive`); or copy into memory of your own.

use wharf::backend::BorrowedShared;
use wharf::prelude::*;

fn main() {
    let table = BorrowedShared::<Unsync>::shared(b"in flash");
    let mut segment = table.lend().unwrap();
    segment.write(0, b"I").unwrap();
}
