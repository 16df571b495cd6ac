//! Pitfall: the bytes that were lent to a pool are written behind its back.
//! Instead: write through the segments that the pool vends.

use core::mem::MaybeUninit;
use wharf::prelude::*;

fn main() {
    let mut slab = [MaybeUninit::uninit(); 256];
    let mut control = [const { SlotControl::NEW }; 4];
    let pool = PoolBackend::<Unsync>::new(&mut slab, &mut control, 64, 8).unwrap();
    let frame = pool.alloc(8).unwrap();
    slab[0].write(7);
    drop(frame);
}
