//! Pitfall: a segment of bytes that were lent is stored where it may outlive them.
//! Instead: lend a `static`; or give the bytes away, to an `OwnerBackend`, whose segments own them.

use wharf::backend::{BorrowedShared, ReadOnly};
use wharf::prelude::*;

type Table = BorrowedShared<'static, Unsync>;

struct Tables(Vec<SegmentMut<&'static Table, ReadOnly>>);

fn remember(tables: &mut Tables) {
    let bytes = [1, 2, 3];
    let table = Box::leak(Box::new(BorrowedShared::<Unsync>::shared(&bytes)));
    tables.0.push(table.lend().unwrap());
}

fn main() {
    remember(&mut Tables(Vec::new()));
}
