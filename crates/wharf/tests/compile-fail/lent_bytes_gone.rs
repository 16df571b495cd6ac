//! Pitfall: a segment is used after the bytes that were lent to its backend are gone.
//! Instead: keep the bytes for longer than the backend; or give them away, to an `OwnerBackend`.

use wharf::backend::BorrowedExclusive;
use wharf::prelude::*;

fn main() {
    let mut bytes = vec![0; 8];
    let memory = BorrowedExclusive::<Unsync>::exclusive(&mut bytes);
    let mut segment = memory.lend().unwrap();
    drop(bytes);
    segment[0] = 1;
}
