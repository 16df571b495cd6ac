//! Pitfall: a segment is used after the bytes that were lent to its pool are gone.
//! Instead: keep the slab for as long as the pool and its segments, or give it to a `static`.

use core::mem::MaybeUninit;
use wharf::prelude::*;

fn main() {
    let mut slab = vec![MaybeUninit::uninit(); 256];
    let mut control = [const { SlotControl::NEW }; 4];
    let pool = PoolBackend::<Unsync>::new(&mut slab, &mut control, 64, 8).unwrap();
    let frame = pool.alloc(8).unwrap();
    drop(slab);
    drop(frame);
}
